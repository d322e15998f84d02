//! The project's tasks: `cargo xtask run`, `test`, `nightly`, `bench`, `worker`, `docs`.

mod gate;
mod nightly;
mod run;
mod skipped_tests;
mod suites;
mod worker;

use std::process::Command;

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
    /// Runs every check and every test
    Test,
    /// Runs what takes hours: every point of the crash matrices, the other matrices, and properties with many cases
    Nightly,
    /// Measures a release build and prints one table; figures as JSON go to target/bench.json
    Bench {
        /// Only the groups of rows whose name contains this
        only: Option<String>,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        XtaskCommand::Run { arguments } => run::run(&arguments),
        XtaskCommand::Worker { release } => worker::build_all(release),
        XtaskCommand::Docs => {
            let tables = [("satchel", "config::tests::guide"), ("satchel-domain", "delivery::machine::table")];
            tables.into_iter().try_for_each(|(package, test)| {
                let writing = ["test", "--quiet", "--package", package, "--lib", "--", test];
                run_command("writing the tables", cargo_command().args(writing).env("SATCHEL_WRITE_DOCS", "1"))
            })
        }
        XtaskCommand::Test => gate::run(),
        XtaskCommand::Nightly => nightly::run(),
        XtaskCommand::Bench { only } => {
            worker::build_all(true)?;
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
