//! The worker that evaluates one script: a small process that can access only its own pipes (ADR 0006).
//!
//! [`run`] is the entry point. The process starts a thread with a large stack for the script, confines itself
//! ([`confine`]), sends that it is ready, and reads the host's messages. It exits as soon as the host closes the
//! connection, whatever the script is doing. The protocol is `satchel_starlark::protocol`, one JSON value per line. The
//! steps of a script:
//!
//! 1. `prepare` edits its text so that the interpreter accepts it: `return` outside of a function, format specs in
//!    f-strings, tabs. It records its edits, so that every error has a position in the text as it was written.
//! 2. `evaluate` runs it with the interpreter's own limits. The limits of the process come second, and the host's clock
//!    comes last.
//! 3. `builtins` are the functions that it can call. Those of the host are forwarded.
//! 4. `values` converts values from and to JSON, bounded in depth and size.

mod builtins;
mod errors;
mod evaluate;
mod format;
mod host_connection;
mod prepare;
mod values;

use std::{
    ffi::OsString,
    io::{IsTerminal, stdin},
    process::ExitCode,
};

use satchel_starlark::protocol::WORKER_MEMORY_BYTES;
use satchel_worker_process::confine;

pub use satchel_worker_process::confine::{ConfineError, limit_processor};

/// The text for a person who starts it.
const ABOUT: &str = "\
satchel-script evaluates one script for Satchel, which starts it when it needs one.

It is not meant to be started by hand: it reads and writes JSON lines on its standard input and output, has no way to
files or to the network, and ends when its standard input does.

Options:
  --version  says which version this is
  --help     says this
";

/// Confines the process, with the memory of a script's worker.
///
/// # Errors
/// When the system refuses one of the limits.
pub fn confine() -> Result<(), ConfineError> {
    confine::confine(WORKER_MEMORY_BYTES)
}

/// Runs the command of the arguments; Satchel starts it without any.
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match arguments.next() {
        Some(argument) if argument == "--version" => {
            println!("satchel-script {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Some(argument) if argument == "--help" => {
            print!("{ABOUT}");
            ExitCode::SUCCESS
        }
        None if stdin().is_terminal() => {
            print!("{ABOUT}");
            ExitCode::SUCCESS
        }
        None => host_connection::run_worker(),
        Some(_) => {
            eprintln!("satchel-script takes no arguments but --version and --help");
            ExitCode::from(host_connection::EXIT_PROTOCOL_ERROR)
        }
    }
}
