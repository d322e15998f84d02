//! The program `satchel-decoder`: decodes one file and exits. See the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    satchel_decoder::run(std::env::args_os().skip(1))
}
