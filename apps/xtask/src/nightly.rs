//! `cargo xtask nightly`: tests that take hours, and so aren't part of the gate.

use anyhow::{Result, bail};

use crate::{
    cargo_command,
    gate::{build_binaries, has_subcommand, print_step},
    run_command, worker,
};

/// How many cases each property test runs, unless it sets its own number.
const PROPERTY_CASES: &str = "10000";

/// Runs every point of every matrix on every channel, then every property test with many more cases.
pub(crate) fn run() -> Result<()> {
    if !has_subcommand("nextest") {
        bail!("cargo-nextest is not installed: `cargo install --locked cargo-nextest` adds it");
    }
    build_binaries()?;
    print_step("every point of the crash, kill and fault matrices");
    let mut matrices = cargo_command();
    matrices.args(["nextest", "run", "--profile", "nightly", "--package", "satchel-system"]);
    matrices.args(["--filterset", "test(matrix)"]).env("SATCHEL_CRASH_MATRIX", "all");
    let mut outcomes = vec![run_command("the matrices", &mut matrices)];
    print_step("properties with many cases");
    let tests = ["nextest", "run", "--no-fail-fast", "--lib"];
    let mut properties = cargo_command();
    properties.args(tests).arg("--workspace").env("PROPTEST_CASES", PROPERTY_CASES);
    outcomes.push(run_command("the properties", &mut properties));
    let mut worker_properties = worker::command(tests)?;
    outcomes
        .push(run_command("the script worker's properties", worker_properties.env("PROPTEST_CASES", PROPERTY_CASES)));
    outcomes.into_iter().collect()
}
