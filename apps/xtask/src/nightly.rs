//! `cargo xtask nightly`: tests that take hours, and so aren't part of the gate.

use std::str::FromStr;

use anyhow::{Result, bail};

use crate::{
    cargo_command,
    gate::{ALL_TESTS, build_all, test_arguments},
    has_subcommand, run_command,
    sample::SAMPLE_VARIABLE,
    times::StepTimes,
    worker,
};

/// How many cases each property test runs, unless it sets its own number.
const PROPERTY_CASES: &str = "10000";

/// The tests that are divided into shares by themselves (`satchel_requirements::sample`).
const SHARED_TESTS: &str = "package(satchel-system) & (test(matrix) | test(/^cluster::/))";

/// One of several shares, which together are everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    /// From 1.
    number: u32,
    of: u32,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shard = text
            .split_once('/')
            .and_then(|(number, of)| Some(Self { number: number.parse().ok()?, of: of.parse().ok()? }));
        shard
            .filter(|Self { number, of }| (1..=*of).contains(number))
            .ok_or_else(|| "expected K/N, such as 2/8 for the second of eight shares".to_owned())
    }
}

/// Runs this share of every point of every matrix on every channel, of the whole cluster, and of every property test with
/// many more cases.
pub(crate) fn run(shard: Shard) -> Result<()> {
    if !has_subcommand("nextest") {
        bail!("cargo-nextest is not installed: `cargo install --locked cargo-nextest` adds it");
    }
    let mut times = StepTimes::default();
    let outcome = run_steps(&mut times, shard);
    println!("\n── times of share {} of {}\n{times}", shard.number, shard.of);
    outcome
}

fn run_steps(times: &mut StepTimes, Shard { number, of }: Shard) -> Result<()> {
    times.measure("build", build_all)?;
    let matrices = times.measure("every point of the matrices, and the cluster", || {
        let mut matrices = cargo_command();
        matrices.args(test_arguments(true)).args(ALL_TESTS).args(["--profile", "nightly", "--filterset", SHARED_TESTS]);
        run_command("the matrices", matrices.env(SAMPLE_VARIABLE, format!("{number}/{of}")))
    });
    let partition = format!("hash:{number}/{of}");
    let tests = ["nextest", "run", "--no-fail-fast", "--no-tests", "pass", "--partition", &partition];
    let unit_tests = ["--filterset", "kind(lib)"];
    let properties = times.measure("properties with many cases", || {
        let mut properties = cargo_command();
        properties.args(tests).args(ALL_TESTS).args(unit_tests).env("PROPTEST_CASES", PROPERTY_CASES);
        run_command("the properties", &mut properties)
    });
    let worker_properties = times.measure("properties of the script worker", || {
        let mut properties = worker::command(tests.into_iter().chain(unit_tests))?;
        run_command("the script worker's properties", properties.env("PROPTEST_CASES", PROPERTY_CASES))
    });
    matrices.and(properties).and(worker_properties)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_is_one_of_its_number() {
        assert_eq!("2/8".parse(), Ok(Shard { number: 2, of: 8 }));
        for wrong in ["0/8", "9/8", "0/0", "3", "a/b", "-1/2", ""] {
            let error = wrong.parse::<Shard>().unwrap_err();
            assert_eq!(error, "expected K/N, such as 2/8 for the second of eight shares", "{wrong}");
        }
    }
}
