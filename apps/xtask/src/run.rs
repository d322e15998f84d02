//! `cargo xtask run`: starts Satchel as soon as it is built, and builds the workers while it runs.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{cargo_command, worker};

/// How often both processes are checked while a worker is being built.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Builds Satchel and runs it with these arguments until it exits.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut satchel = Command::new(build_satchel()?);
    satchel.args(["run", "--open", "--wait-for-worker"]).args(arguments);
    // An outdated one would be used until the new one is built. Cargo puts back one that is up to date.
    worker::remove_all()?;
    let log = |name: &str| anyhow::Ok(worker::target_directory()?.join(name));
    let builds = vec![
        PlannedBuild {
            worker: "the script worker",
            success: "scripts run from now on",
            consequence: "scripts don't run",
            command: worker::low_priority_script_build()?,
            log: log("satchel-script-build.log")?,
        },
        PlannedBuild {
            worker: "the decoder worker",
            success: "documents are read from now on",
            consequence: "documents aren't read",
            command: worker::low_priority_decoder_build(),
            log: log("satchel-decoder-build.log")?,
        },
    ];
    let status = run_beside_builds(satchel, builds, |message| eprintln!("{message}"))?;
    if !status.success() {
        bail!("Satchel failed ({status})");
    }
    Ok(())
}

/// Builds Satchel and returns the path of the program.
fn build_satchel() -> Result<PathBuf> {
    let mut build = cargo_command();
    build.args(["build", "--quiet", "--package", "satchel", "--message-format", "json-render-diagnostics"]);
    let output = build.stderr(Stdio::inherit()).output().context("Satchel's build could not be started")?;
    if !output.status.success() {
        bail!("Satchel's build failed ({})", output.status);
    }
    find_program(&String::from_utf8_lossy(&output.stdout)).context("cargo names no program that it built")
}

/// Finds the program in cargo's messages, one JSON object per line.
fn find_program(messages: &str) -> Option<PathBuf> {
    let mut messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// A build that is to run beside Satchel.
struct PlannedBuild {
    worker: &'static str,
    /// What a build that succeeds changes, and one that fails doesn't.
    success: &'static str,
    consequence: &'static str,
    command: Command,
    log: PathBuf,
}

/// Runs Satchel until it exits, with the builds beside it, one after the other. `report` gets their results. A build that
/// is still running when Satchel exits is killed.
fn run_beside_builds(mut satchel: Command, builds: Vec<PlannedBuild>, report: impl Fn(&str)) -> Result<ExitStatus> {
    let mut satchel = satchel.spawn().context("Satchel could not be started")?;
    for planned in builds {
        match WorkerBuild::start(planned) {
            Ok(mut build) => loop {
                if satchel.try_wait().context("Satchel's state is unknown")?.is_some() {
                    break;
                }
                // Whatever happens to the build, Satchel keeps running.
                if let Some(result) = build.result().unwrap_or_else(|error| Some(format!("{error:#}"))) {
                    report(&result);
                    break;
                }
                thread::sleep(POLL_INTERVAL);
            },
            Err(error) => report(&format!("{error:#}")),
        }
        if satchel.try_wait().context("Satchel's state is unknown")?.is_some() {
            break;
        }
    }
    satchel.wait().context("Satchel's state is unknown")
}

/// A build whose output goes to a file, since Satchel writes to the terminal meanwhile. Dropping it kills it.
struct WorkerBuild {
    cargo: Child,
    planned: PlannedBuild,
}

impl WorkerBuild {
    fn start(mut planned: PlannedBuild) -> Result<Self> {
        let PlannedBuild { worker, command, log, .. } = &mut planned;
        let output = File::create(&log).with_context(|| format!("failed to create `{}`", log.display()))?;
        let errors = output.try_clone().context("failed to duplicate a file handle")?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let cargo = command.spawn().with_context(|| format!("{worker}'s build could not be started"))?;
        Ok(Self { cargo, planned })
    }

    /// Describes how it ended; `None` while it is running.
    fn result(&mut self) -> Result<Option<String>> {
        let PlannedBuild { worker, success, consequence, log, .. } = &self.planned;
        let status = self.cargo.try_wait().with_context(|| format!("the state of {worker}'s build is unknown"))?;
        let Some(status) = status else { return Ok(None) };
        if status.success() {
            return Ok(Some(format!("{worker} is built; {success}")));
        }
        let output = fs::read(log).with_context(|| format!("failed to read `{}`", log.display()))?;
        Ok(Some(format!(
            "{}{worker}'s build failed ({status}); {consequence} until `cargo xtask worker` has built it",
            String::from_utf8_lossy(&output)
        )))
    }
}

impl Drop for WorkerBuild {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.cargo.kill();
        let _reaped = self.cargo.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tempfile::TempDir;

    use super::*;

    fn shell(directory: &TempDir, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(directory.path());
        command
    }

    /// Runs both until Satchel exits; each result of the build goes to the file `result`.
    fn run_both(directory: &TempDir, satchel: &str, build: &str) -> (ExitStatus, Vec<String>) {
        let reports = RefCell::new(Vec::new());
        let report = |message: &str| {
            reports.borrow_mut().push(message.to_owned());
            fs::write(directory.path().join("result"), message).unwrap();
        };
        let builds = vec![planned(directory, shell(directory, build))];
        let status = run_beside_builds(shell(directory, satchel), builds, report).unwrap();
        (status, reports.into_inner())
    }

    fn planned(directory: &TempDir, command: Command) -> PlannedBuild {
        PlannedBuild {
            worker: "the script worker",
            success: "scripts run from now on",
            consequence: "scripts don't run",
            command,
            log: directory.path().join("log"),
        }
    }

    /// Satchel exits only after a result: the build doesn't hold up its start, and its end doesn't stop it.
    const EXIT_AFTER_RESULT: &str = "touch started; until [ -e result ]; do sleep 0.05; done; exit 7";

    #[test]
    fn successful_build_is_one_line_beside_running_satchel() {
        let directory = tempfile::tempdir().unwrap();
        let build = "until [ -e started ]; do sleep 0.05; done; echo warning; echo more >&2";
        let (status, reports) = run_both(&directory, EXIT_AFTER_RESULT, build);
        assert_eq!(status.code(), Some(7));
        assert_eq!(reports, ["the script worker is built; scripts run from now on"]);
    }

    #[test]
    fn failed_build_shows_its_output_and_satchel_keeps_running() {
        let directory = tempfile::tempdir().unwrap();
        let (status, reports) = run_both(&directory, EXIT_AFTER_RESULT, "echo one; echo 'error: two' >&2; exit 101");
        assert_eq!(status.code(), Some(7));
        assert_eq!(
            reports,
            ["one\nerror: two\nthe script worker's build failed (exit status: 101); scripts don't run until \
              `cargo xtask worker` has built it"]
        );
    }

    #[test]
    fn build_that_cannot_start_leaves_satchel_running() {
        let directory = tempfile::tempdir().unwrap();
        let reports = RefCell::new(Vec::new());
        let report = |message: &str| reports.borrow_mut().push(message.to_owned());
        let missing = planned(&directory, Command::new(directory.path().join("missing")));
        let status = run_beside_builds(shell(&directory, "exit 0"), vec![missing], report).unwrap();
        assert!(status.success());
        assert!(reports.borrow()[0].starts_with("the script worker's build could not be started: "), "{reports:?}");
    }

    #[test]
    fn builds_run_one_after_the_other() {
        let directory = tempfile::tempdir().unwrap();
        let reports = RefCell::new(Vec::new());
        let report = |message: &str| {
            reports.borrow_mut().push(message.to_owned());
            if reports.borrow().len() == 2 {
                fs::write(directory.path().join("result"), message).unwrap();
            }
        };
        let (first, second) = (shell(&directory, "touch first; exit 1"), shell(&directory, "test -e first"));
        let second = PlannedBuild { worker: "the other", success: "it works", ..planned(&directory, second) };
        let builds = vec![planned(&directory, first), second];
        let satchel = shell(&directory, EXIT_AFTER_RESULT);
        assert_eq!(run_beside_builds(satchel, builds, report).unwrap().code(), Some(7));
        assert_eq!(reports.borrow()[1], "the other is built; it works");
    }

    #[test]
    fn build_is_killed_when_satchel_exits() {
        let directory = tempfile::tempdir().unwrap();
        let satchel = "until [ -s pid ]; do sleep 0.05; done; exit 3";
        let (status, reports) = run_both(&directory, satchel, "echo $$ > pid; exec sleep 600");
        assert_eq!((status.code(), reports), (Some(3), Vec::new()));
        let pid = fs::read_to_string(directory.path().join("pid")).unwrap();
        let is_alive = Command::new("kill").args(["-0", pid.trim()]).stderr(Stdio::null()).status().unwrap();
        assert!(!is_alive.success());
    }

    #[test]
    fn program_is_found_in_messages_of_cargo() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\nnot JSON\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/target/debug/satchel\"}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(find_program(messages), Some(PathBuf::from("/target/debug/satchel")));
        assert_eq!(find_program("{\"reason\":\"build-finished\",\"success\":true}\n"), None);
    }
}
