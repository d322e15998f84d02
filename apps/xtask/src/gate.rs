//! `cargo xtask test`: the whole gate. Whoever passes it may commit.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::{cargo, perform};

/// Checks form, lints and documentation, then runs every test.
pub(crate) fn run() -> Result<()> {
    step("form");
    cargo("cargo fmt", ["fmt", "--all", "--check"])?;
    step("lints");
    cargo("cargo clippy", ["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])?;
    step("documentation");
    let mut rustdoc = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    rustdoc.args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "--deny warnings");
    perform("cargo doc", &mut rustdoc)?;
    if there_is("deny") {
        step("licences and sources");
        cargo("cargo deny", ["--offline", "--config", ".deny.toml", "check", "bans", "licenses", "sources"])?;
    } else {
        step("licences and sources: not run, `cargo install cargo-deny` adds them");
    }
    step("tests");
    // The system tests run the real binary, which cargo builds for no other package's tests.
    cargo("the build", ["build", "--package", "satchel", "--package", "satchel-system", "--bins", "--quiet"])?;
    if there_is("nextest") {
        cargo("the tests", ["nextest", "run", "--workspace", "--no-tests", "fail"])?;
        cargo("the examples in the documentation", ["test", "--workspace", "--doc", "--quiet"])
    } else {
        cargo("the tests", ["test", "--workspace"])
    }
}

fn step(what: &str) {
    println!("\n── {what}");
}

/// Whether cargo knows a subcommand on this machine.
fn there_is(subcommand: &str) -> bool {
    let mut asked = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    asked.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
}
