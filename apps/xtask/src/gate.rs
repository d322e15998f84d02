//! `cargo xtask test`: the whole gate, which a commit must pass.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::Result;

use crate::{
    cargo_command, run_cargo, run_command,
    skipped_tests::{SkippedTests, is_ci},
    suites, worker,
};

/// Checks formatting, lints and documentation, then runs every test.
pub(crate) fn run() -> Result<()> {
    print_step("form");
    run_cargo("cargo fmt", ["fmt", "--all", "--check"])?;
    worker::run_cargo("cargo fmt of the script worker", ["fmt"], &["--check"])?;
    print_step("lints");
    run_cargo("cargo clippy", ["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])?;
    // By itself: in the workspace, other crates turn on what its dependencies need.
    let core = ["clippy", "--package", "satchel", "--no-default-features", "--lib", "--quiet"];
    run_cargo("cargo clippy of the core that embeds", core.into_iter().chain(["--", "--deny", "warnings"]))?;
    let lints = ["clippy", "--all-targets", "--quiet"];
    worker::run_cargo("cargo clippy of the script worker", lints, &["--deny", "warnings"])?;
    print_step("documentation");
    let mut rustdoc = cargo_command();
    rustdoc.args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "--deny warnings");
    run_command("cargo doc", &mut rustdoc)?;
    let unchecked_parts = check_dependencies()?;
    print_step("what some tests need");
    // The architecture tests read the whole dependency graph, including crates for other platforms, offline.
    run_cargo("cargo fetch", ["fetch", "--locked", "--quiet"])?;
    worker::run_cargo("cargo fetch for the script worker", ["fetch", "--locked", "--quiet"], &[])?;
    install_missing_tools();
    build_binaries()?;
    print_step("whether every file with tests brings some");
    let list = ["test", "--no-run", "--quiet", "--message-format", "json"];
    suites::check(cargo_command().args(list).arg("--workspace"))?;
    suites::check(&mut worker::command(list)?)?;
    print_step("tests");
    let records = SkippedTests::new_directory(&worker::target_directory()?)?;
    let test_result = run_tests(&records);
    print_step("what was not run and not checked");
    let skipped_tests = SkippedTests::read_records(&records)?;
    println!("{skipped_tests}");
    unchecked_parts.iter().for_each(|part| println!("Not checked: {part}."));
    test_result?;
    skipped_tests.check(is_ci())
}

/// Runs every test, even after a failure.
fn run_tests(records: &Path) -> Result<()> {
    let has_nextest = has_subcommand("nextest");
    let run: &[&str] = match has_nextest {
        true => &["nextest", "run", "--no-fail-fast", "--no-tests", "fail"],
        false => &["test", "--no-fail-fast"],
    };
    let run_recorded = |name: &str, mut command: Command| {
        // A panic's message and place say what failed; in a long log its frames hide them.
        command.env("RUST_BACKTRACE", "0");
        run_command(name, command.env(SkippedTests::DIRECTORY_VARIABLE, records))
    };
    let mut workspace_tests = cargo_command();
    workspace_tests.args(run).arg("--workspace");
    // Separately, so that all other tests use the program as it is released.
    let mut otel_tests = cargo_command();
    otel_tests.args(run).args(["--package", "satchel", "--lib", "--features", "otel", "otel::"]);
    let mut outcomes = Vec::new();
    if has_nextest {
        outcomes.push(run_cargo("the examples in the documentation", ["test", "--workspace", "--doc", "--quiet"]));
    }
    outcomes.push(run_recorded("the script worker's tests", worker::command(run.iter().copied())?));
    outcomes.push(run_recorded("the tests of the feature `otel`", otel_tests));
    // Last, so that what failed stands at the end.
    outcomes.push(run_recorded("the tests", workspace_tests));
    outcomes.into_iter().collect()
}

/// Checks the dependencies: licences, sources, and advisories. Returns what could not be checked, and why.
fn check_dependencies() -> Result<Vec<&'static str>> {
    if !has_subcommand("deny") {
        return Ok(vec!["licences, sources and advisories (`cargo install cargo-deny` adds what checks them)"]);
    }
    let manifest = worker::manifest(&worker::root()?).display().to_string();
    let worker_arguments = ["deny", "--manifest-path", manifest.as_str()];
    let check = |checks: &[&str]| {
        let check = ["--offline", "check"].iter().chain(checks).copied();
        run_cargo("cargo deny", ["deny"].into_iter().chain(check.clone()))?;
        run_cargo("cargo deny of the script worker", worker_arguments.into_iter().chain(check))
    };
    print_step("licences and sources");
    check(&["bans", "licenses", "sources"])?;
    print_step("advisories");
    // Their database is on a remote server: a failed download says nothing about the dependencies.
    if run_cargo("cargo deny", ["deny", "fetch", "db"]).is_err() {
        return Ok(vec!["advisories (their database can't be had)"]);
    }
    check(&["advisories"])?;
    Ok(Vec::new())
}

/// Builds the programs that the system tests run: cargo doesn't build them for another package's tests.
pub(crate) fn build_binaries() -> Result<()> {
    worker::build_all(false)?;
    run_cargo("the build", ["build", "--package", "satchel", "--package", "satchel-system", "--bins", "--quiet"])
}

/// Programs with which some tests check Satchel from outside, and the packages that provide them. A test that lacks one
/// is reported as not run.
const REQUIRED_TOOLS: [(&str, &str); 13] = [
    ("strace", "strace"),
    ("tmux", "tmux"),
    ("python3", "python3"),
    ("chromium", "chromium"),
    ("chromedriver", "chromium-driver"),
    ("pip3", "python3-pip"),
    ("espeak-ng", "espeak-ng"),
    ("ffmpeg", "ffmpeg"),
    ("npm", "npm"),
    // The server's own programs are in no directory of the path.
    ("pg_ctlcluster", "postgresql"),
    ("nats-server", "nats-server"),
    ("openssl", "openssl"),
    ("faketime", "faketime"),
];

/// Installs missing programs where it has the rights, otherwise lists the packages to install.
fn install_missing_tools() {
    let missing: Vec<&str> =
        REQUIRED_TOOLS.into_iter().filter(|(program, _)| !is_on_path(program)).map(|(_, package)| package).collect();
    if missing.is_empty() {
        return;
    }
    if is_on_path("apt-get") && is_root() {
        let run_apt = |arguments: &[&str]| {
            let mut apt = Command::new("apt-get");
            apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
            apt.status().is_ok_and(|status| status.success())
        };
        let install: Vec<&str> = ["install", "--yes", "--quiet"].into_iter().chain(missing.iter().copied()).collect();
        if run_apt(&["update", "--quiet"]) && run_apt(&install) {
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
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

pub(crate) fn print_step(title: &str) {
    println!("\n── {title}");
}

/// Whether cargo knows a subcommand on this machine.
pub(crate) fn has_subcommand(subcommand: &str) -> bool {
    let mut command = cargo_command();
    command.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
