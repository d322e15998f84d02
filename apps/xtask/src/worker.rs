//! The workers beside `satchel`: the decoder worker, and the script worker, which has its own workspace (ADR 0013), so
//! that every task on it needs a separate cargo invocation.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{cargo_command, run_command};

/// The directory of the script worker's workspace in the project.
pub(crate) const SCRIPT_WORKER: &str = "apps/satchel-script";

/// The file names of the workers.
const PROGRAMS: [&str; 2] = ["satchel-script", DECODER];

/// The package and the program of the decoder worker.
const DECODER: &str = "satchel-decoder";

/// Builds both workers into the directory of `satchel`, where they are found.
pub(crate) fn build_both(release: bool) -> Result<()> {
    let profile: &[&str] = if release { &["--release"] } else { &[] };
    let arguments = BUILD.iter().chain(profile).copied();
    run_cargo("the script worker's build", arguments.clone(), &[])?;
    crate::run_cargo("the decoder worker's build", arguments.chain(["--package", DECODER]))
}

/// Builds the script worker for the tests. The decoder worker is built with its own tests.
pub(crate) fn build_script_worker() -> Result<()> {
    run_cargo("the script worker's build", BUILD, &[])
}

const BUILD: [&str; 2] = ["build", "--quiet"];

/// Removes the workers of the debug build, as far as there are any.
pub(crate) fn remove_all() -> Result<()> {
    for name in PROGRAMS {
        let program = target_directory()?.join("debug").join(name);
        match fs::remove_file(&program) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("failed to remove `{}`", program.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Runs cargo on the script worker's workspace. `trailing_arguments` follow after `--`.
pub(crate) fn run_cargo<'a>(
    name: &str,
    arguments: impl IntoIterator<Item = &'a str>,
    trailing_arguments: &[&str],
) -> Result<()> {
    let mut command = command(arguments)?;
    if !trailing_arguments.is_empty() {
        command.arg("--").args(trailing_arguments);
    }
    run_command(name, &mut command)
}

/// A cargo command for the script worker's workspace.
pub(crate) fn command<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Command> {
    on_worker(cargo_command(), arguments)
}

/// The command that builds the script worker while other processes come first.
pub(crate) fn low_priority_script_build() -> Result<Command> {
    on_worker(low_priority_cargo(), BUILD)
}

/// The command that builds the decoder worker while other processes come first.
pub(crate) fn low_priority_decoder_build() -> Command {
    let mut build = low_priority_cargo();
    build.args(BUILD).args(["--package", DECODER]);
    build
}

/// Cargo, while other processes come first.
pub(crate) fn low_priority_cargo() -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "10"]).arg(cargo_command().get_program());
    nice
}

fn on_worker<'a>(mut command: Command, arguments: impl IntoIterator<Item = &'a str>) -> Result<Command> {
    command.args(arguments).arg("--manifest-path").arg(manifest(&root()?));
    command.env("CARGO_TARGET_DIR", target_directory()?);
    Ok(command)
}

/// Cargo's target directory, which the workers share with the project.
pub(crate) fn target_directory() -> Result<PathBuf> {
    Ok(std::env::var_os("CARGO_TARGET_DIR").map_or(root()?.join("target"), PathBuf::from))
}

pub(crate) fn manifest(root: &Path) -> PathBuf {
    root.join(SCRIPT_WORKER).join("Cargo.toml")
}

/// The project's root: this package is in `apps/xtask` beneath it.
pub(crate) fn root() -> Result<PathBuf> {
    let package_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(package_root.ancestors().nth(2).context("xtask doesn't lie where it should")?.to_owned())
}
