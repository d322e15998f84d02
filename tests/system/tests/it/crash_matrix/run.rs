//! One run: the process is started, crashes at its kill point, is restarted, and completes its turns.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fmt,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    pin::pin,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use futures::FutureExt;
use satchel_fake_kit::{RequestPhase, Transcript};
use satchel_system::crash::{
    CrashOptions, CrashReport,
    points::{CrashPoint, Side},
};
use tokio::{io::AsyncReadExt, process::Command};

use super::{
    disk::DiskSnapshot,
    report::MatrixReport,
    storage::{MatrixStorage, RunStorage},
    turn_scenario::MatrixPlatform,
};
use crate::test_platform::{Operation, TestPlatform};

/// Longest run of one process.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest wait for the request during which a process is killed.
const MISSED_KILL_TIMEOUT: Duration = Duration::from_secs(6);

/// Pause between two checks whether the platform's updates are all confirmed.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The signals of an abort and of a kill.
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

/// What happens on a platform while processes die and are started again.
pub(crate) trait Scenario {
    /// Returns the options of every process, without its file paths and its crash point.
    fn options(&self) -> CrashOptions;

    async fn open(&self) -> TestPlatform;

    /// Where the processes keep what must last.
    fn storage(&self) -> &MatrixStorage;

    /// Does what the person does. It ends when nothing more is to be expected of them.
    async fn act_as_person(&self, platform: &TestPlatform, files: &SignalFiles);

    /// What the platform does about repeats.
    fn platform(&self) -> MatrixPlatform;

    /// Checks a run, where necessary against an undisturbed one.
    fn check(&self, outcome: &RunOutcome, undisturbed: &RunOutcome) -> MatrixReport;
}

/// The files by which a process and the person know of each other.
pub(crate) struct SignalFiles {
    /// A line for each run of the tool with an effect.
    pub(crate) tally: PathBuf,
    /// There once the waiting tool waits.
    pub(crate) reached: PathBuf,
    /// What it waits for.
    pub(crate) released: PathBuf,
    /// The points that the first process passed, and those of the second one, which is started when the first is dead.
    pub(crate) points: [PathBuf; 2],
}

impl SignalFiles {
    /// Whether the first process has made a call, or is dead.
    pub(crate) fn has_called_or_died(&self, call: &str) -> bool {
        let [first, second] = &self.points;
        let is_made = |point: &CrashPoint| point.call == call && point.side == Side::After;
        second.exists() || read_points(first).iter().any(is_made)
    }
}

/// The name of the list of points that the `nth` process passed, from 0.
fn points_filename(nth: usize) -> String {
    format!("points-{nth}")
}

/// Where a process is killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KillPoint {
    Never,
    /// The process aborts at a crash point.
    At(CrashPoint),
    /// SIGKILL while the platform handles a request.
    During {
        operation: Operation,
        number: u64,
        moment: RequestPhase,
    },
    /// The first process is killed in one way, and the next one at a point during recovery.
    Twice {
        first: Box<KillPoint>,
        second: CrashPoint,
    },
}

impl KillPoint {
    /// Splits this into one kill point per process.
    pub(crate) fn single_kill_points(&self) -> Vec<Self> {
        match self {
            Self::Never => Vec::new(),
            Self::At(_) | Self::During { .. } => vec![self.clone()],
            Self::Twice { first, second } => {
                let mut kill_points = first.single_kill_points();
                kill_points.push(Self::At(second.clone()));
                kill_points
            }
        }
    }

    /// The call around which the process dies.
    pub(crate) fn call(&self) -> Option<String> {
        self.point().map(|point| point.call)
    }

    /// The point at which the process itself ends it.
    fn point(&self) -> Option<CrashPoint> {
        match self {
            Self::At(point) => Some(point.clone()),
            Self::Never | Self::During { .. } | Self::Twice { .. } => None,
        }
    }
}

impl fmt::Display for KillPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("undisturbed"),
            Self::At(point) => point.fmt(f),
            Self::During { operation, number, moment } => write!(f, "{} {number}", describe_kill(*operation, *moment)),
            Self::Twice { first, second } => write!(f, "{first}, then {second}"),
        }
    }
}

/// The words for a kill from without.
pub(crate) fn describe_kill(operation: Operation, moment: RequestPhase) -> String {
    let moment = match moment {
        RequestPhase::Arrived => "arrived",
        RequestPhase::Performed => "performed",
    };
    format!("SIGKILL, {} {moment}", format!("{operation:?}").to_lowercase())
}

/// Whether the processes were killed at their kill points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KillResult {
    /// They died there, and of that.
    Died,
    /// One of them never came there.
    NotReached,
    /// One of them came there, or hung before, and was not killed by it.
    Survived,
}

/// What became of a run.
pub(crate) struct RunOutcome {
    pub(crate) kill_result: KillResult,
    /// How many processes died.
    pub(crate) deaths: usize,
    /// What the process told that lived to the end; the words of the one that did not.
    pub(crate) report: Result<CrashReport, String>,
    /// What stands on the platform.
    pub(crate) transcript: Transcript,
    /// What lies on the disk, and in the bucket.
    pub(crate) disk: DiskSnapshot,
    /// How often the tool with an effect ran.
    pub(crate) tool_runs: usize,
    pub(crate) points: Vec<CrashPoint>,
    /// The points that the process passed which took up what the first one left.
    pub(crate) recovery_points: Vec<CrashPoint>,
    /// How many requests the platform saw.
    pub(crate) requests: BTreeMap<Operation, u64>,
    pub(crate) took: Duration,
}

impl RunOutcome {
    /// Everything that helps to understand what happened.
    pub(crate) fn summary(&self) -> String {
        format!("{:#?}\n{}", self.report, self.transcript)
    }
}

/// What became of the processes of a run.
struct ProcessRuns {
    kill_result: KillResult,
    deaths: usize,
    report: Result<CrashReport, String>,
    /// The points that each of them passed.
    points: Vec<Vec<CrashPoint>>,
}

pub(crate) async fn run(scenario: &impl Scenario, kill_point: KillPoint) -> RunOutcome {
    let started_at = Instant::now();
    let (platform, storage) = (scenario.open().await, scenario.storage().open().await);
    let directory = temp_directory();
    let path = |name: &str| directory.path().join(name);
    let files = SignalFiles {
        tally: path("tally"),
        reached: path("reached"),
        released: path("done"),
        points: [0, 1].map(|nth| path(&points_filename(nth))),
    };
    let options = CrashOptions {
        data: path("data"),
        storage: storage.options(),
        tally: files.tally.clone(),
        reached: files.reached.clone(),
        done: files.released.clone(),
        platform: platform.address(),
        ..scenario.options()
    };
    let is_input_done = Cell::new(false);
    let person_task = async {
        scenario.act_as_person(&platform, &files).await;
        is_input_done.set(true);
    };
    let processes = run_processes(options.clone(), &platform, &storage, &is_input_done, &kill_point, directory.path());
    let (mut person_task, mut processes) = (pin!(person_task.fuse()), pin!(processes));
    let ProcessRuns { kill_result, deaths, report, points } = loop {
        tokio::select! {
            biased;
            () = &mut person_task => {}
            runs = &mut processes => break runs,
        }
    };
    let tally = std::fs::read_to_string(&files.tally).unwrap_or_default();
    let operations = [Operation::Send, Operation::Edit, Operation::Fetch];
    let mut points = points.into_iter();
    let mut disk = DiskSnapshot::read(&path("data"));
    if let Ok(report) = &report {
        disk.blobs.extend(storage.read_bucket(&options, report).await);
    }
    RunOutcome {
        kill_result,
        deaths,
        report,
        transcript: retain_own_messages(platform.transcript()),
        disk,
        tool_runs: tally.lines().count(),
        points: points.next().unwrap_or_default(),
        recovery_points: points.next().unwrap_or_default(),
        requests: operations.map(|operation| (operation, platform.requests(operation))).into(),
        took: started_at.elapsed(),
    }
}

/// Runs one process after the other, until one completes.
async fn run_processes(
    mut options: CrashOptions,
    platform: &TestPlatform,
    storage: &RunStorage,
    is_input_done: &Cell<bool>,
    kill_point: &KillPoint,
    directory: &Path,
) -> ProcessRuns {
    let mut runs = ProcessRuns {
        kill_result: KillResult::Died,
        deaths: 0,
        report: Err("nothing was started".to_owned()),
        points: Vec::new(),
    };
    let mut kill_points = kill_point.single_kill_points().into_iter().chain([KillPoint::Never]);
    while let Some(current) = kill_points.next() {
        let list = directory.join(points_filename(runs.points.len()));
        options.points = Some(list.clone());
        options.crash_at = current.point();
        let ProcessRun { report, signal } = run_process(&options, platform, is_input_done, &current).await;
        let passed_points = read_points(&list);
        let (expected, was_reached) = match &current {
            KillPoint::Never | KillPoint::Twice { .. } => (None, false),
            KillPoint::At(point) => (Some(SIGABRT), report.is_err() || passed_points.contains(point)),
            // A process that is to be killed from without lives until then, so it was still running.
            KillPoint::During { operation, number, .. } => (Some(SIGKILL), platform.requests(*operation) >= *number),
        };
        runs.points.push(passed_points);
        runs.report = report;
        if expected.is_some() && signal == expected {
            runs.deaths += 1;
            storage.expire_leases().await;
            continue;
        }
        if expected.is_some() {
            runs.kill_result = if was_reached { KillResult::Survived } else { KillResult::NotReached };
        }
        if runs.report.is_ok() || expected.is_none() {
            break;
        }
        // It did not end of itself, though it was not killed as it should have been: the next one lives to the end.
        kill_points = Vec::new().into_iter().chain([KillPoint::Never]);
    }
    runs
}

/// The points that were written down, without a line that a death cut off.
fn read_points(list: &Path) -> Vec<CrashPoint> {
    let text = std::fs::read_to_string(list).unwrap_or_default();
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
        .map(|line| line.parse().expect("a point"))
        .collect()
}

/// Creates a temporary directory, in memory if the system supports it: files there survive a process, too, and hundreds
/// of runs don't wait for the disk. The durability tests cover fsync.
fn temp_directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

/// What became of one process.
struct ProcessRun {
    /// What it told at its end. The error says how it ended without.
    report: Result<CrashReport, String>,
    /// The signal that it died of.
    signal: Option<i32>,
}

/// Runs one process to its end.
async fn run_process(
    options: &CrashOptions,
    platform: &TestPlatform,
    is_input_done: &Cell<bool>,
    kill_point: &KillPoint,
) -> ProcessRun {
    let kill_moment = match kill_point {
        KillPoint::During { operation, number, moment } => Some(platform.on_nth(*operation, *number, *moment)),
        KillPoint::Never | KillPoint::At(_) | KillPoint::Twice { .. } => None,
    };
    let needs_kill = kill_moment.is_some();
    let argument = serde_json::to_string(options).expect("options are data");
    let mut child = Command::new(env!("CARGO_BIN_EXE_crash"))
        .arg(argument)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the test's own binary can be started");
    let (input, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut stdout, mut stderr) = (stdout.expect("it is piped"), stderr.expect("it is piped"));
    let (mut stdout_bytes, mut stderr_bytes) = (Vec::new(), Vec::new());
    let read_outputs =
        async { tokio::try_join!(stdout.read_to_end(&mut stdout_bytes), stderr.read_to_end(&mut stderr_bytes)) };
    let wait_for_exit = async {
        let moment = async {
            let Some(moment) = kill_moment else {
                while !is_input_done.get() || platform.unconfirmed_updates() > 0 {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                return;
            };
            if moment.await.is_err() {
                // It never comes: the platform has gone.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            status = child.wait() => return status,
            () = moment => {}
        }
        if needs_kill {
            // SIGKILL, which no process can refuse or delay.
            child.start_kill()?;
        }
        // The process may end once nothing is left that it could be asked again. One that is to be killed lives until then.
        drop(input);
        child.wait().await
    };
    let limit = if needs_kill { MISSED_KILL_TIMEOUT } else { PROCESS_TIMEOUT };
    let ended = tokio::time::timeout(limit, async { tokio::join!(wait_for_exit, read_outputs) }).await;
    match ended {
        Err(_) => ProcessRun { report: Err(format!("still running after {limit:?}")), signal: None },
        Ok((Err(error), _) | (_, Err(error))) => ProcessRun { report: Err(error.to_string()), signal: None },
        Ok((Ok(status), Ok(_))) => {
            ProcessRun { report: parse_report(status, &stdout_bytes, &stderr_bytes), signal: status.signal() }
        }
    }
}

fn parse_report(status: ExitStatus, stdout: &[u8], stderr: &[u8]) -> Result<CrashReport, String> {
    if !status.success() {
        return Err(format!("{status}: {}", String::from_utf8_lossy(stderr)));
    }
    serde_json::from_slice(stdout).map_err(|error| error.to_string())
}

/// Only what Satchel sent matters.
fn retain_own_messages(mut transcript: Transcript) -> Transcript {
    for messages in transcript.conversations.values_mut() {
        messages.retain(|message| message.own);
    }
    transcript
}
