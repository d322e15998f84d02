//! The program `satchel-script`: evaluates one script and exits. See the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    satchel_script::run(std::env::args_os().skip(1))
}
