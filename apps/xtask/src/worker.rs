//! The script worker, which has its own workspace (ADR 0013): every task needs a separate cargo invocation.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{cargo_command, run_command};

/// Builds the worker into the directory of `satchel`, where it is found.
pub(crate) fn build(release: bool) -> Result<()> {
    let profile: &[&str] = if release { &["--release"] } else { &[] };
    let arguments = ["build", "--quiet"].iter().chain(profile).copied();
    run_cargo("the script worker's build", arguments, &[])
}

/// Removes the worker of the debug build, if there is one.
pub(crate) fn remove() -> Result<()> {
    let program = target_directory()?.join("debug/satchel-script");
    match fs::remove_file(&program) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("failed to remove `{}`", program.display()))
        }
        _ => Ok(()),
    }
}

/// Runs cargo on the worker's workspace. `trailing_arguments` follow after `--`.
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

/// A cargo command for the worker's workspace.
pub(crate) fn command<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Command> {
    on_worker(cargo_command(), arguments)
}

/// As [`command`], but other processes come first.
pub(crate) fn low_priority_command<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Command> {
    let mut nice = Command::new("nice");
    nice.args(["-n", "10"]).arg(cargo_command().get_program());
    on_worker(nice, arguments)
}

fn on_worker<'a>(mut command: Command, arguments: impl IntoIterator<Item = &'a str>) -> Result<Command> {
    command.args(arguments).arg("--manifest-path").arg(manifest(&root()?));
    command.env("CARGO_TARGET_DIR", target_directory()?);
    Ok(command)
}

/// Cargo's target directory, which the worker shares with the project.
pub(crate) fn target_directory() -> Result<PathBuf> {
    Ok(std::env::var_os("CARGO_TARGET_DIR").map_or(root()?.join("target"), PathBuf::from))
}

pub(crate) fn manifest(root: &Path) -> PathBuf {
    root.join("apps/satchel-script/Cargo.toml")
}

/// The project's root: this package is in `apps/xtask` beneath it.
pub(crate) fn root() -> Result<PathBuf> {
    let package_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(package_root.ancestors().nth(2).context("xtask doesn't lie where it should")?.to_owned())
}
