//! The `satchel` binary: hands the outside world to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    let environment: Vec<_> = std::env::vars_os().collect();
    match std::env::current_dir() {
        Ok(cwd) => satchel::start(std::env::args_os(), &environment, &cwd),
        Err(error) => {
            satchel::commands::print_error(&format!("error: failed to read the working directory: {error}"));
            ExitCode::FAILURE
        }
    }
}
