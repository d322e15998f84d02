//! The project's tasks: `cargo xtask run`, `check`, `test`, `nightly`, `bench`, `worker`, `docs`.

mod check;
mod dependencies;
mod disk;
mod gate;
mod nightly;
mod run;
mod sample;
mod side_checks;
mod skipped_tests;
mod suites;
mod test_times;
mod times;
mod tools;
mod worker;

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

/// The project's tasks.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Builds Satchel, opens its page, and builds the workers meanwhile: no account and no key needed
    Run {
        /// Arguments for `satchel run`, after `--`
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Builds the workers that evaluate scripts and read documents, beside the program itself
    Worker {
        /// Optimised, beside the release build
        #[arg(long)]
        release: bool,
    },
    /// Writes the tables of settings and of delivery into the documents, as the code has them
    Docs,
    /// Checks what has changed, between two commits: format, lints, and the tests next to the changes; needs cargo-nextest
    Check {
        /// The commit to compare with
        #[arg(long, value_name = "COMMIT", default_value = "HEAD")]
        since: String,
    },
    /// Runs what every commit must pass: all checks, and all tests with a share of the largest matrices
    Test,
    /// Runs what takes hours: every point of the matrices, the whole cluster, and properties with many cases; needs cargo-nextest
    Nightly {
        /// Runs the K-th of N shares
        #[arg(long, value_name = "K/N", default_value = "1/1")]
        shard: nightly::Shard,
    },
    /// Measures a release build and prints one table; figures as JSON go to target/bench.json
    Bench {
        /// Only the groups of rows whose name contains this
        only: Option<String>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without the frames of a backtrace: what failed has said so above.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: XtaskCommand) -> Result<()> {
    match command {
        XtaskCommand::Run { arguments } => run::run(&arguments),
        XtaskCommand::Worker { release } => worker::build_both(release),
        XtaskCommand::Docs => {
            let tables = [("satchel", "config::tests::guide"), ("satchel-domain", "delivery::machine::table")];
            tables.into_iter().try_for_each(|(package, test)| {
                let writing = ["test", "--quiet", "--package", package, "--lib", "--", test];
                run_command("writing the tables", cargo_command().args(writing).env("SATCHEL_WRITE_DOCS", "1"))
            })
        }
        XtaskCommand::Check { since } => check::run(&since),
        XtaskCommand::Test => gate::run(),
        XtaskCommand::Nightly { shard } => nightly::run(shard),
        XtaskCommand::Bench { only } => {
            worker::build_both(true)?;
            run_cargo(
                "the build",
                ["build", "--release", "--package", "satchel", "--package", "satchel-system", "--bins"],
            )?;
            let bench = ["run", "--release", "--quiet", "--package", "satchel-system", "--bin", "bench", "--"];
            run_cargo("the benchmarks", bench.into_iter().chain(only.as_deref()))
        }
    }
}

/// Runs cargo with these arguments; an error if it fails.
fn run_cargo<'a>(name: &str, arguments: impl IntoIterator<Item = &'a str>) -> Result<()> {
    run_command(name, cargo_command().args(arguments))
}

/// The cargo that runs this program.
fn cargo_command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn run_command(name: &str, command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{name} could not be started"))?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    Ok(())
}

/// Whether cargo knows a subcommand on this machine.
fn has_subcommand(subcommand: &str) -> bool {
    let mut command = cargo_command();
    command.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
