//! Finds the real `satchel` binary and runs it in a home directory of its own.

#![expect(clippy::panic, reason = "what is not as it must be ends the test with all that is known")]

use std::{
    io::{Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

/// Longest run of a process; a longer one is killed as hung.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(90);

/// The binary that was built in the same profile as the running test; it is built first where it is missing.
/// `cargo xtask test` builds it before the tests, so that it is never an old one there.
///
/// # Panics
/// When it can't be built.
#[must_use]
pub fn satchel_binary() -> PathBuf {
    let own = std::env::current_exe().expect("a process knows its own path");
    let profile =
        own.ancestors().find(|path| !path.ends_with("deps") && path.is_dir()).expect("a file has a directory");
    let binary = profile.join("satchel");
    if !binary.is_file() {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "--package", "satchel"]).current_dir(workspace_root());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        let built = build.status();
        assert!(built.is_ok_and(|status| status.success()) && binary.is_file(), "{} can't be built", binary.display());
    }
    binary
}

/// The script worker that lies beside [`satchel_binary`]; it is built first where it is missing.
///
/// # Panics
/// When it can't be built.
#[must_use]
pub fn script_worker() -> PathBuf {
    let binary = satchel_binary();
    let worker = binary.with_file_name("satchel-script");
    if !worker.is_file() {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["xtask", "worker"]).current_dir(workspace_root());
        if binary.parent().is_some_and(|profile| profile.ends_with("release")) {
            build.arg("--release");
        }
        let built = build.status();
        assert!(built.is_ok_and(|status| status.success()) && worker.is_file(), "{} can't be built", worker.display());
    }
    worker
}

/// The decoder worker that lies beside [`satchel_binary`]; it is built first where it is missing.
///
/// # Panics
/// When it can't be built.
#[must_use]
pub fn decoder_worker() -> PathBuf {
    let binary = satchel_binary();
    let worker = binary.with_file_name("satchel-decoder");
    if !worker.is_file() {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "--package", "satchel-decoder"]).current_dir(workspace_root());
        if binary.parent().is_some_and(|profile| profile.ends_with("release")) {
            build.arg("--release");
        }
        let built = build.status();
        assert!(built.is_ok_and(|status| status.success()) && worker.is_file(), "{} can't be built", worker.display());
    }
    worker
}

/// The directory of the workspace's own `Cargo.toml`.
///
/// # Panics
/// Never: this package lies two directories below it.
#[must_use]
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("tests/system lies in the workspace").to_owned()
}

/// A machine's worth of directories for one test: a home, a working directory, and the data within it.
#[derive(Debug)]
pub struct TestHome {
    directory: TempDir,
}

/// What a process that has ended left behind.
#[derive(Debug)]
pub struct ProcessOutput {
    pub status: ExitStatus,
    pub stdout: String,
    /// Its errors and its log.
    pub stderr: String,
}

impl TestHome {
    /// An empty one.
    ///
    /// # Panics
    /// When no temporary directory can be made.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it makes a directory; nobody wants that by default")]
    pub fn new() -> Self {
        let home = Self { directory: tempfile::tempdir().expect("there is room for a temporary directory") };
        std::fs::create_dir(home.work_directory()).expect("a new directory is empty");
        home
    }

    /// The directory that holds everything.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    #[must_use]
    pub fn work_directory(&self) -> PathBuf {
        self.root().join("work")
    }

    #[must_use]
    pub fn data_directory(&self) -> PathBuf {
        self.root().join("data")
    }

    /// Writes a file into the working directory.
    ///
    /// # Panics
    /// When it can't be written.
    pub fn write_file(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work_directory().join(name);
        std::fs::write(&path, content).expect("the working directory takes files");
        path
    }

    /// The binary with these arguments and nothing of this process's environment.
    #[must_use]
    pub fn satchel_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(satchel_binary());
        command.args(arguments);
        self.apply_to(&mut command);
        command
    }

    /// Sets a program's environment and working directory to this home.
    pub fn apply_to(&self, command: &mut Command) {
        command.env_clear().env("HOME", self.root()).env("USER", "ann").env("TERM", "xterm-256color");
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("SATCHEL_STORAGE__DATA_DIR", self.data_directory());
        command.current_dir(self.work_directory()).stdin(Stdio::null());
    }

    /// Runs the binary to its end.
    pub fn run(&self, arguments: &[&str]) -> ProcessOutput {
        run_to_end(&mut self.satchel_command(arguments))
    }

    /// Runs `satchel chat --once TEXT --json` with files to its end.
    pub fn run_once(&self, text: &str, files: &[&Path]) -> ProcessOutput {
        let mut command = self.satchel_command(&["chat", "--once", text, "--json"]);
        for file in files {
            command.arg("--attach").arg(file);
        }
        run_to_end(&mut command)
    }
}

impl ProcessOutput {
    /// The exit code; `None` when a signal ended it.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }

    /// The reply's text.
    ///
    /// # Panics
    /// When standard output isn't the JSON of a turn.
    #[must_use]
    pub fn reply(&self) -> String {
        self.json()["response"]["text"].as_str().unwrap_or_default().to_owned()
    }

    /// Fails the test if the process panicked, aborted, or was killed.
    ///
    /// # Panics
    /// When it did.
    pub fn assert_no_crash(&self, case: &str) {
        let has_panicked =
            ["panicked", "RUST_BACKTRACE", "stack overflow"].iter().any(|words| self.stderr.contains(words));
        assert!(!has_panicked && self.exit_code().is_some(), "{case}: {self:#?}");
    }
}

/// Starts a program and waits for its end.
///
/// # Panics
/// When it can't be started or doesn't end.
pub fn run_to_end(command: &mut Command) -> ProcessOutput {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn();
    let child = child.unwrap_or_else(|error| panic!("{command:?} can't be started: {error}"));
    wait_for_exit(child)
}

/// Waits for the end of a program whose outputs are piped.
///
/// # Panics
/// When it doesn't end.
pub fn wait_for_exit(child: Child) -> ProcessOutput {
    wait_within(child, PROCESS_TIMEOUT)
}

fn wait_within(mut child: Child, timeout: Duration) -> ProcessOutput {
    drop(child.stdin.take());
    let stdout = collect_output(child.stdout.take());
    let stderr = collect_output(child.stderr.take());
    let started_at = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break Some(status);
        }
        if started_at.elapsed() > timeout {
            kill_group(&child);
            let _ended_just_now = child.kill();
            let _status = child.wait();
            break None;
        }
        thread::sleep(Duration::from_millis(3));
    };
    let text = |reader: thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&reader.join().expect("reading does not panic")).into_owned()
    };
    let (stdout, stderr) = (text(stdout), text(stderr));
    let Some(status) = status else { panic!("it did not end in {timeout:?}:\n{stdout}\n{stderr}") };
    ProcessOutput { status, stdout, stderr }
}

/// Ends what a program has started too, if it leads a group: whatever lives on would keep its outputs open.
fn kill_group(leader: &Child) {
    let group = format!("-{}", leader.id());
    let _is_no_group = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
}

/// Writes lines to a program's standard input and leaves it open.
///
/// # Panics
/// When it takes none any more.
pub fn type_lines(child: &mut Child, lines: &[&str]) {
    let input = child.stdin.as_mut().expect("standard input is piped");
    for line in lines {
        writeln!(input, "{line}").expect("the program reads its input");
    }
    input.flush().expect("a pipe has nothing to flush");
}

fn collect_output(source: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut collected = Vec::new();
        if let Some(mut source) = source {
            // What could be read is what there is to show.
            let _cut_off = source.read_to_end(&mut collected);
        }
        collected
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a hung program has started holds its outputs open.
    #[test]
    fn hung_program_ends_with_all_that_it_started() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; sleep 1000 & sleep 1000"]).process_group(0);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("there is a shell");
        let waited = std::panic::catch_unwind(|| wait_within(child, Duration::from_millis(200)));
        let message = waited.expect_err("it does not end");
        let message = message.downcast_ref::<String>().expect("a message");
        assert!(message.contains("did not end") && message.contains("begun"), "{message}");
    }
}
