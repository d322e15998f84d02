//! `cargo xtask test`: the whole gate. Whoever passes it may commit.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::{cargo, perform, worker};

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
    let mut rustdoc = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    rustdoc.args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "--deny warnings");
    perform("cargo doc", &mut rustdoc)?;
    if there_is("deny") {
        step("licences and sources");
        let check = ["--offline", "check", "--config", ".deny.toml", "bans", "licenses", "sources"];
        cargo("cargo deny", ["deny"].into_iter().chain(check))?;
        let manifest = worker::manifest(&worker::root()?).display().to_string();
        let worker = ["deny", "--manifest-path", manifest.as_str()];
        cargo("cargo deny of the script worker", worker.into_iter().chain(check))?;
    } else {
        step("licences and sources: not run, `cargo install cargo-deny` adds them");
    }
    step("what some tests need");
    // The tests of the architecture look at the whole graph, other systems' crates too, and ask nobody for it.
    cargo("cargo fetch", ["fetch", "--locked", "--quiet"])?;
    worker::cargo("cargo fetch for the script worker", ["fetch", "--locked", "--quiet"], &[])?;
    provide();
    step("tests");
    // The system tests run the real binaries, which cargo builds for no other package's tests.
    worker::build(false)?;
    cargo("the build", ["build", "--package", "satchel", "--package", "satchel-system", "--bins", "--quiet"])?;
    if there_is("nextest") {
        let tests = ["nextest", "run", "--no-fail-fast", "--no-tests", "fail"];
        worker::cargo("the script worker's tests", tests, &[])?;
        cargo("the tests", tests.into_iter().chain(["--workspace"]))?;
        cargo("the examples in the documentation", ["test", "--workspace", "--doc", "--quiet"])
    } else {
        worker::cargo("the script worker's tests", ["test"], &[])?;
        cargo("the tests", ["test", "--workspace"])
    }
}

/// Programs by which some tests look at Satchel from outside, and the packages that bring them. A test that misses one
/// says so and counts as not run.
const PROGRAMS: [(&str, &str); 8] = [
    ("strace", "strace"),
    ("tmux", "tmux"),
    ("python3", "python3"),
    ("chromium", "chromium"),
    ("chromedriver", "chromium-driver"),
    ("pip3", "python3-pip"),
    ("espeak-ng", "espeak-ng"),
    ("ffmpeg", "ffmpeg"),
];

/// Installs what is missing where that may be done, otherwise says what to install.
fn provide() {
    let missing: Vec<&str> =
        PROGRAMS.into_iter().filter(|(program, _)| !is_on_path(program)).map(|(_, package)| package).collect();
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

fn step(what: &str) {
    println!("\n── {what}");
}

/// Whether cargo knows a subcommand on this machine.
fn there_is(subcommand: &str) -> bool {
    let mut asked = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    asked.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
}
