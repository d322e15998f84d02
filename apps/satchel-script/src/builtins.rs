//! The functions that a script finds: Starlark's own, the host's, and those of this worker.

mod control;
mod files;
mod host;
mod json;
mod time;

use starlark::environment::{Globals, GlobalsBuilder, LibraryExtension};

pub(crate) use control::{FORMAT, RETURN};
pub(crate) use host::host_function;

/// All but the host's. Nothing here needs the script, so it is made before there is one.
pub(crate) fn globals() -> Globals {
    // Of the interpreter's extras those that scripts use; none that shows its insides or asks a terminal.
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
