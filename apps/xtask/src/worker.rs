//! The script worker, a workspace of its own (ADR 0013): every chore on it is a cargo invocation of its own.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{cargo_command, run_command};

/// Builds the worker into the folder in which `satchel` lies, so that it is found there.
pub(crate) fn build(release: bool) -> Result<()> {
    let profile: &[&str] = if release { &["--release"] } else { &[] };
    let arguments = ["build", "--quiet"].iter().chain(profile).copied();
    cargo("the script worker's build", arguments, &[])
}

/// Runs cargo on the worker's workspace. `behind` stands at the end, after `--`.
pub(crate) fn cargo<'a>(what: &str, arguments: impl IntoIterator<Item = &'a str>, behind: &[&str]) -> Result<()> {
    let mut command = command(arguments)?;
    if !behind.is_empty() {
        command.arg("--").args(behind);
    }
    run_command(what, &mut command)
}

/// A cargo that works on the worker's workspace.
pub(crate) fn command<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Command> {
    let mut command = cargo_command();
    command.args(arguments).arg("--manifest-path").arg(manifest(&root()?));
    command.env("CARGO_TARGET_DIR", target_directory()?);
    Ok(command)
}

/// Where cargo builds: what is built of the worker goes where that of the whole project goes.
pub(crate) fn target_directory() -> Result<PathBuf> {
    Ok(std::env::var_os("CARGO_TARGET_DIR").map_or(root()?.join("target"), PathBuf::from))
}

pub(crate) fn manifest(root: &Path) -> PathBuf {
    root.join("apps/satchel-script/Cargo.toml")
}

/// The project's root: this package lies in `apps/xtask` beneath it.
pub(crate) fn root() -> Result<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(own.ancestors().nth(2).context("xtask doesn't lie where it should")?.to_owned())
}
