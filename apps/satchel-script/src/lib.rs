//! The worker that evaluates one script: a small process with no way to anything but its own pipes (ADR 0006).
//!
//! [`run`] is all of it. The process starts a thread with a large stack for the script, shuts itself in ([`confine`]),
//! says that it is ready, and reads what its host says until there is no more: then it ends at once, whatever the script
//! is doing. The words are those of `satchel_starlark::protocol`, one JSON value a line. What a script goes through:
//!
//! 1. `prepare` edits its text so that the interpreter takes it: `return` outside of a function, format specs in
//!    f-strings, tabs. It remembers what it did, so that every error names a place in the text as it was written.
//! 2. `evaluate` runs it with the interpreter's own limits on: a polite first wall. The limits of the process are the
//!    second one, and the host's clock the last.
//! 3. `builtins` are the functions that it finds. Those of the host are forwarded; a worker knows nothing of what they do.
//! 4. `values` turns what enters and leaves into JSON and back, bounded in depth and size.

mod builtins;
mod confine;
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

pub use confine::{ConfineError, confine, limit_processor};

/// What it says of itself to a person.
const ABOUT: &str = "\
satchel-script evaluates one script for Satchel, which starts it when it needs one.

It is not meant to be started by hand: it reads and writes JSON lines on its standard input and output, has no way to
files or to the network, and ends when its standard input does.

Options:
  --version  says which version this is
  --help     says this
";

/// Does what the arguments say: nothing is said in them when Satchel starts it.
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
        None => host_connection::run(),
        Some(_) => {
            eprintln!("satchel-script takes no arguments but --version and --help");
            ExitCode::from(host_connection::EXIT_PROTOCOL_ERROR)
        }
    }
}
