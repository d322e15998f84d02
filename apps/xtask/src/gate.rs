//! `cargo xtask test`: the whole gate, which a commit must pass.

use std::{fs, path::Path, process::Command, thread};

use anyhow::{Context, Result};

use crate::{
    cargo_command, dependencies, disk, has_subcommand, run_cargo, run_command,
    sample::{SAMPLE_VARIABLE, choose_seed, record_seed},
    side_checks::{SideCheck, SideChecks},
    skipped_tests::{SkippedTests, is_ci},
    suites,
    test_times::TestTimes,
    times::StepTimes,
    tools,
    worker::{self, low_priority_cargo},
};

/// Selects every package and each target that has tests. Always all packages: cargo builds what they depend on with the
/// features that the selected packages need together, so that another selection would build it again.
pub(crate) const ALL_TESTS: [&str; 2] = ["--workspace", "--tests"];

/// Checks formatting, lints and documentation, then runs every test.
pub(crate) fn run() -> Result<()> {
    let target = worker::target_directory()?;
    let seed = choose_seed()?;
    println!("{}", disk::describe(&target)?);
    println!("{SAMPLE_VARIABLE}={seed} tries the same share of the large matrices again");
    let (mut times, mut unchecked_parts) = (StepTimes::default(), Vec::new());
    let outcome = run_steps(&mut times, &mut unchecked_parts, &target, seed);
    println!("\n── times\n{times}");
    println!("{}", disk::describe(&target)?);
    unchecked_parts.iter().for_each(|part| println!("Not checked: {part}."));
    outcome?;
    println!("{}", record_seed(&target, seed)?);
    Ok(())
}

/// Adds what can't be checked to `unchecked_parts`.
fn run_steps(times: &mut StepTimes, unchecked_parts: &mut Vec<String>, target: &Path, seed: u64) -> Result<()> {
    if is_ci() {
        // A fresh clone builds all of it again, and what earlier versions of it left would stay for ever.
        times.measure("removal of earlier builds of the workspace", remove_workspace_builds)?;
    }
    times.measure("format", check_format)?;
    times.measure("lints", check_lints)?;
    times.measure("lints of the script worker", check_script_worker_lints)?;
    times.measure("what some tests need", || {
        tools::install_missing();
        fetch_dependencies()
    })?;
    *unchecked_parts = times.measure("licences, sources and advisories", dependencies::check)?;
    times.measure("build of the script worker and its tests", build_script_worker)?;
    times.measure("build of all tests, and whether every file with tests brings some", build_tests)?;
    run_tests(times, target, seed)
}

fn remove_workspace_builds() -> Result<()> {
    run_cargo("cargo clean", ["clean", "--workspace", "--quiet"])?;
    worker::run_cargo("cargo clean of the script worker", ["clean", "--workspace", "--quiet"], &[])
}

pub(crate) fn check_format() -> Result<()> {
    run_cargo("cargo fmt", ["fmt", "--all", "--check"])?;
    worker::run_cargo("cargo fmt of the script worker", ["fmt"], &["--check"])
}

/// Checks all code as the tests use it, and with the feature that no test needs.
pub(crate) fn check_lints() -> Result<()> {
    let (lints, deny_warnings) = (["clippy", "--workspace", "--all-targets", "--quiet"], ["--", "--deny", "warnings"]);
    run_cargo("cargo clippy", lints.into_iter().chain(deny_warnings))?;
    let with_otel = lints.into_iter().chain(["--features", "satchel/otel"]).chain(deny_warnings);
    run_cargo("cargo clippy with OpenTelemetry", with_otel)
}

pub(crate) fn check_script_worker_lints() -> Result<()> {
    let lints = ["clippy", "--all-targets", "--quiet"];
    worker::run_cargo("cargo clippy of the script worker", lints, &["--deny", "warnings"])
}

/// The checks that need not come before the tests.
fn start_side_checks() -> Result<SideChecks> {
    // By itself: in the workspace, other crates turn on what its dependencies need.
    let mut core = low_priority_cargo();
    core.args(["clippy", "--package", "satchel", "--no-default-features", "--lib", "--quiet"]);
    core.args(["--", "--deny", "warnings"]);
    let core = SideCheck { title: "lints of the core that embeds", command: core };
    let documentation = SideCheck { title: "documentation", command: documentation_command()? };
    Ok(SideChecks::start(vec![documentation, core]))
}

/// Documents the crates under `crates/`, which others read.
fn documentation_command() -> Result<Command> {
    let mut rustdoc = low_priority_cargo();
    rustdoc.args(["doc", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "--deny warnings");
    let crates = worker::root()?.join("crates");
    let folders = fs::read_dir(&crates).with_context(|| format!("failed to list `{}`", crates.display()))?;
    for folder in folders {
        let folder = folder?;
        if folder.path().is_dir() {
            rustdoc.args(["--package", &format!("satchel-{}", folder.file_name().to_string_lossy())]);
        }
    }
    Ok(rustdoc)
}

/// Downloads what isn't in cargo's cache: the architecture tests read the whole dependency graph, including crates for
/// other platforms, offline.
fn fetch_dependencies() -> Result<()> {
    let fetch = ["fetch", "--locked", "--quiet"];
    let outcome = run_cargo("cargo fetch", fetch)
        .and_then(|()| worker::run_cargo("cargo fetch for the script worker", fetch, &[]));
    outcome.context("crates that are not in cargo's cache have to be downloaded, which takes a network")
}

/// Builds everything that the tests run, with the features with which the tests themselves are built.
pub(crate) fn build_all() -> Result<()> {
    build_script_worker()?;
    build_tests()
}

fn build_script_worker() -> Result<()> {
    worker::build_script_worker()?;
    let root = worker::root()?;
    let sources = ["src", "tests"].map(|path| root.join(worker::SCRIPT_WORKER).join(path));
    suites::check(&mut worker::command(LIST_TESTS)?, &sources)
}

/// Builds all tests, and with them the programs of the packages that have integration tests: `satchel`,
/// `satchel-decoder`, `crash` and `bench`.
fn build_tests() -> Result<()> {
    let root = worker::root()?;
    let mut sources = ["crates", "adapters", "tests"].map(|path| root.join(path)).to_vec();
    let (apps, script_worker) = (root.join("apps"), root.join(worker::SCRIPT_WORKER));
    for app in fs::read_dir(&apps).with_context(|| format!("failed to list `{}`", apps.display()))? {
        // The script worker's tests are built by themselves.
        sources.extend(Some(app?.path()).filter(|path| path.is_dir() && *path != script_worker));
    }
    suites::check(cargo_command().args(LIST_TESTS).args(ALL_TESTS), &sources)
}

/// The report of the last run, which cargo-nextest writes beneath the workspace, wherever cargo's own target directory is.
const TEST_REPORT: &str = "target/nextest/default/junit.xml";

const LIST_TESTS: [&str; 5] = ["test", "--no-run", "--quiet", "--message-format", "json"];

/// Runs every test, even after a failure.
fn run_tests(times: &mut StepTimes, target: &Path, seed: u64) -> Result<()> {
    let records = SkippedTests::new_directory(target)?;
    let has_nextest = has_subcommand("nextest");
    if !has_nextest {
        println!(
            "cargo-nextest isn't installed: the tests take longer, one test program after the other, and no times of tests \
             are listed; `cargo install --locked cargo-nextest` adds it"
        );
    }
    let run_recorded = |name: &str, mut command: Command| {
        // A panic's message and place say what failed; in a long log its frames hide them.
        command.env("RUST_BACKTRACE", "0").env(SAMPLE_VARIABLE, seed.to_string());
        run_command(name, command.env(SkippedTests::DIRECTORY_VARIABLE, &records))
    };
    let run = test_arguments(has_nextest);
    let report = worker::root()?.join(TEST_REPORT);
    // That of an earlier run says nothing about this one, which may end before it writes its own.
    if report.is_file() {
        fs::remove_file(&report).with_context(|| format!("failed to remove `{}`", report.display()))?;
    }
    let worker_outcome = times.measure("tests of the script worker", || {
        run_recorded("the script worker's tests", worker::command(run.iter().map(String::as_str))?)
    });
    let mut side_outcome = Ok(());
    let outcome = times.measure("tests, and the checks beside them", || {
        let side_checks = start_side_checks()?;
        let mut tests = cargo_command();
        tests.args(&run).args(ALL_TESTS);
        let outcome = run_recorded("the tests", tests);
        side_outcome = side_checks.finish();
        outcome
    });
    let is_reported = report.is_file() || has_nextest && outcome.is_ok();
    let test_times = is_reported.then(|| TestTimes::read(&report));
    match &test_times {
        Some(Ok(test_times)) => println!("\n── times of the tests\n{test_times}"),
        // The tests' own outcome matters more.
        Some(Err(error)) => println!("\nThe times of the tests can't be read: {error:#}"),
        None => {}
    }
    println!("\n── what was not run");
    let skipped_tests = SkippedTests::read_records(&records)?;
    println!("{skipped_tests}");
    if let Some(Ok(test_times)) = &test_times {
        println!("\n{}", test_times.list_failed());
    }
    worker_outcome.and(outcome).and(side_outcome)?;
    skipped_tests.check(is_ci())
}

/// How many tests run at once for each core. Most of them wait most of the time, and heavy ones count as several
/// (`.config/nextest.toml`).
const TESTS_PER_CORE: usize = 3;

/// The arguments with which cargo runs tests.
pub(crate) fn test_arguments(has_nextest: bool) -> Vec<String> {
    if !has_nextest {
        return ["test", "--no-fail-fast"].map(str::to_owned).to_vec();
    }
    let threads = TESTS_PER_CORE * thread::available_parallelism().map_or(1, usize::from);
    let run = ["nextest", "run", "--no-fail-fast", "--no-tests", "fail", "--test-threads"];
    run.into_iter().map(str::to_owned).chain([threads.to_string()]).collect()
}
