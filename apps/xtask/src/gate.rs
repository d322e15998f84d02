//! `cargo xtask test`: the whole gate. Whoever passes it may commit.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::Result;

use crate::{
    cargo, cargo_command, run_command,
    skipped_tests::{SkippedTests, is_ci},
    suites, worker,
};

/// Checks form, lints and documentation, then runs every test.
pub(crate) fn run() -> Result<()> {
    step("form");
    cargo("cargo fmt", ["fmt", "--all", "--check"])?;
    worker::cargo("cargo fmt of the script worker", ["fmt"], &["--check"])?;
    step("lints");
    cargo("cargo clippy", ["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])?;
    let lints = ["clippy", "--all-targets", "--quiet"];
    worker::cargo("cargo clippy of the script worker", lints, &["--deny", "warnings"])?;
    step("documentation");
    let mut rustdoc = cargo_command();
    rustdoc.args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "--deny warnings");
    run_command("cargo doc", &mut rustdoc)?;
    let unchecked = check_dependencies()?;
    step("what some tests need");
    // The tests of the architecture look at the whole graph, other systems' crates too, and ask nobody for it.
    cargo("cargo fetch", ["fetch", "--locked", "--quiet"])?;
    worker::cargo("cargo fetch for the script worker", ["fetch", "--locked", "--quiet"], &[])?;
    install_missing();
    build_binaries()?;
    step("whether every file with tests brings some");
    let list = ["test", "--no-run", "--quiet", "--message-format", "json"];
    suites::check(cargo_command().args(list).arg("--workspace"))?;
    suites::check(&mut worker::command(list)?)?;
    step("tests");
    let records = SkippedTests::new_directory(&worker::target_directory()?)?;
    let tested = run_tests(&records);
    step("what was not run and not checked");
    let skipped_tests = SkippedTests::read(&records)?;
    println!("{skipped_tests}");
    unchecked.iter().for_each(|what| println!("Not checked: {what}."));
    tested?;
    skipped_tests.check(is_ci())
}

/// Runs every test, those that follow a failure too.
fn run_tests(records: &Path) -> Result<()> {
    let has_nextest = has_subcommand("nextest");
    let run: &[&str] = match has_nextest {
        true => &["nextest", "run", "--no-fail-fast", "--no-tests", "fail"],
        false => &["test", "--no-fail-fast"],
    };
    let run_recorded =
        |what: &str, mut command: Command| run_command(what, command.env(SkippedTests::DIRECTORY_VARIABLE, records));
    let mut of_project = cargo_command();
    of_project.args(run).arg("--workspace");
    // By itself, so that all others see the program as it is built for people.
    let mut of_feature = cargo_command();
    of_feature.args(run).args(["--package", "satchel", "--lib", "--features", "otel", "otel::"]);
    let mut outcomes = vec![
        run_recorded("the script worker's tests", worker::command(run.iter().copied())?),
        run_recorded("the tests", of_project),
        run_recorded("the tests of the feature `otel`", of_feature),
    ];
    if has_nextest {
        outcomes.push(cargo("the examples in the documentation", ["test", "--workspace", "--doc", "--quiet"]));
    }
    outcomes.into_iter().collect()
}

/// Checks what is linked: licences, sources, and known weaknesses. Returns what could not be checked, and why.
fn check_dependencies() -> Result<Vec<&'static str>> {
    if !has_subcommand("deny") {
        return Ok(vec!["licences, sources and advisories (`cargo install cargo-deny` adds what checks them)"]);
    }
    let manifest = worker::manifest(&worker::root()?).display().to_string();
    let of_worker = ["deny", "--manifest-path", manifest.as_str()];
    let check = |checks: &[&str]| {
        let check = ["--offline", "check"].iter().chain(checks).copied();
        cargo("cargo deny", ["deny"].into_iter().chain(check.clone()))?;
        cargo("cargo deny of the script worker", of_worker.into_iter().chain(check))
    };
    step("licences and sources");
    check(&["bans", "licenses", "sources"])?;
    step("advisories");
    // Their database is asked of a server of others: where it can't be had, that says nothing about what is linked.
    if cargo("cargo deny", ["deny", "fetch", "db"]).is_err() {
        return Ok(vec!["advisories (their database can't be had)"]);
    }
    check(&["advisories"])?;
    Ok(Vec::new())
}

/// Builds the programs that the system tests run: cargo builds them for no other package's tests.
pub(crate) fn build_binaries() -> Result<()> {
    worker::build(false)?;
    cargo("the build", ["build", "--package", "satchel", "--package", "satchel-system", "--bins", "--quiet"])
}

/// Programs by which some tests look at Satchel from outside, and the packages that bring them. A test that lacks one is
/// counted as not run.
const REQUIRED_TOOLS: [(&str, &str); 9] = [
    ("strace", "strace"),
    ("tmux", "tmux"),
    ("python3", "python3"),
    ("chromium", "chromium"),
    ("chromedriver", "chromium-driver"),
    ("pip3", "python3-pip"),
    ("espeak-ng", "espeak-ng"),
    ("ffmpeg", "ffmpeg"),
    ("npm", "npm"),
];

/// Installs what is missing where that may be done, otherwise says what to install.
fn install_missing() {
    let missing: Vec<&str> =
        REQUIRED_TOOLS.into_iter().filter(|(program, _)| !is_on_path(program)).map(|(_, package)| package).collect();
    if missing.is_empty() {
        return;
    }
    if is_on_path("apt-get") && is_root() {
        let quietly = |arguments: &[&str]| {
            let mut apt = Command::new("apt-get");
            apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
            apt.status().is_ok_and(|status| status.success())
        };
        let install: Vec<&str> = ["install", "--yes", "--quiet"].into_iter().chain(missing.iter().copied()).collect();
        if quietly(&["update", "--quiet"]) && quietly(&install) {
            println!("installed {}", missing.join(", "));
            return;
        }
    }
    println!("not installed: {}; the tests that need them are not run", missing.join(", "));
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

fn is_root() -> bool {
    let asked = Command::new("id").arg("-u").output();
    asked.is_ok_and(|answer| answer.stdout.trim_ascii() == b"0")
}

pub(crate) fn step(what: &str) {
    println!("\n── {what}");
}

/// Whether cargo knows a subcommand on this machine.
pub(crate) fn has_subcommand(subcommand: &str) -> bool {
    let mut asked = cargo_command();
    asked.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
}
