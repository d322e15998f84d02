//! The functions that a script can call: Starlark's own, the host's, and those of this worker.

mod control;
mod files;
mod host;
mod json;
mod time;

use starlark::environment::{Globals, GlobalsBuilder, LibraryExtension};

pub(crate) use control::{FORMAT, RETURN};
pub(crate) use host::host_function;

/// Builds all functions but the host's. None needs the script, so they are built before it arrives.
pub(crate) fn globals() -> Globals {
    // Only extensions that scripts use; none that exposes the interpreter's internals or reads a terminal.
    let mut builder = GlobalsBuilder::extended_by(&[
        LibraryExtension::Filter,
        LibraryExtension::Map,
        LibraryExtension::Partial,
        LibraryExtension::Print,
        LibraryExtension::SetType,
        LibraryExtension::StructType,
    ]);
    control::functions(&mut builder);
    files::functions(&mut builder);
    host::functions(&mut builder);
    json::functions(&mut builder);
    builder.namespace("json", json::namespace);
    time::functions(&mut builder);
    builder.build()
}
