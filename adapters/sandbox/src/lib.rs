//! The sandbox under the workspace: every operation on its files is asked for by a guest, a small WebAssembly module
//! that runs under wasmtime and holds one directory, in memory, time and calls that are limited.
//!
//! The guest decides which calls an operation consists of; it has no way to the disk but the host functions of WASI that
//! its profile opens, and those resolve each path beneath the directory's handle. A guest that misbehaves is stopped,
//! and with it one operation.

mod deadline;
mod descriptors;
mod engine;
mod instance;
mod limits;
mod runner;
mod wasi;

pub use engine::GuestSource;
pub use limits::Limits;
pub use runner::{SandboxError, SandboxRunner};
