//! The program `satchel-decoder`: reads one document and exits. See the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    satchel_decoder::run(std::env::args_os().skip(1))
}
