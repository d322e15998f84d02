//! Checks that run beside the tests, which leave a part of the machine idle: one after the other, at low priority.

use std::{
    process::Command,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};

/// How long the tests have a start. Cargo builds one thing at a time: checks that came first would keep cargo-nextest waiting
/// where all is built already.
const START_DELAY: Duration = Duration::from_secs(20);

/// One check, which says nothing but what is wrong.
pub(crate) struct SideCheck {
    pub(crate) title: &'static str,
    pub(crate) command: Command,
}

/// The checks that run.
pub(crate) struct SideChecks(JoinHandle<Vec<FinishedCheck>>);

struct FinishedCheck {
    title: &'static str,
    wall: Duration,
    outcome: Result<()>,
}

impl SideChecks {
    pub(crate) fn start(checks: Vec<SideCheck>) -> Self {
        Self(thread::spawn(|| {
            thread::sleep(START_DELAY);
            checks.into_iter().map(SideCheck::run).collect()
        }))
    }

    /// Waits for all of them; prints how long each took, and what one that failed has written.
    pub(crate) fn finish(self) -> Result<()> {
        let finished = self.0.join().map_err(|_| anyhow!("the thread of the checks beside the tests panicked"))?;
        println!("\n── beside the tests");
        let mut failed = Vec::new();
        for FinishedCheck { title, wall, outcome } in finished {
            println!("{:>6.1} s  {title}", wall.as_secs_f64());
            if let Err(error) = outcome {
                println!("{error:#}");
                failed.push(title);
            }
        }
        if !failed.is_empty() {
            bail!("failed beside the tests: {}", failed.join(", "));
        }
        Ok(())
    }
}

impl SideCheck {
    fn run(self) -> FinishedCheck {
        let Self { title, mut command } = self;
        let started_at = Instant::now();
        let outcome = command.output().context("could not be started").and_then(|output| {
            if !output.status.success() {
                bail!("failed ({})\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
            }
            Ok(())
        });
        FinishedCheck { title, wall: started_at.elapsed(), outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(title: &'static str, script: &str) -> SideCheck {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        SideCheck { title, command }
    }

    #[test]
    fn failed_checks_are_named() {
        let checks = [shell("one", "exit 3"), shell("two", "true"), shell("three", "exit 1")];
        let finished = checks.into_iter().map(SideCheck::run).collect();
        let error = SideChecks(thread::spawn(|| finished)).finish().unwrap_err().to_string();
        assert_eq!(error, "failed beside the tests: one, three");
    }

    #[test]
    fn outcome_says_what_the_check_wrote() {
        let failed = shell("one", "echo no >&2; exit 3").run().outcome.unwrap_err().to_string();
        assert_eq!(failed, "failed (exit status: 3)\nno");
        let missing = SideCheck { title: "two", command: Command::new("/there/is/no/such/program") }.run();
        assert!(missing.outcome.unwrap_err().to_string().starts_with("could not be started"));
    }
}
