//! One run: the process is started, dies where it is to die, is started again, and lives to the end of its turns.

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
use satchel_system::crash::{CrashOptions, CrashReport, points::Point};
use tokio::{io::AsyncReadExt, process::Command};

use super::{disk::Disk, scene::Platform, verdict::Verdict};
use crate::test_platform::{Operation, TestPlatform};

/// The longest that one process may take; what takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// How long a process may come past the request in the midst of which it is to be killed.
const PASSED_BY: Duration = Duration::from_secs(6);

/// How often the platform is asked whether everything that was said to it is taken.
const LOOK: Duration = Duration::from_millis(2);

/// The signals by which a process dies at its own hand, and at another's.
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

/// What happens on a platform while processes die and are started again.
pub(crate) trait Scenario {
    /// What every process is told, but for the places of its files and of its death.
    fn options(&self) -> CrashOptions;

    async fn open(&self) -> TestPlatform;

    /// Does what the person does. It ends when nothing more is to be expected of them.
    async fn act(&self, platform: &TestPlatform, files: &Files);

    /// What the platform does about repeats.
    fn platform(&self) -> Platform;

    /// Judges a run, by one in which nobody died where it can't tell of itself.
    fn judge(&self, outcome: &Outcome, undisturbed: &Outcome) -> Verdict;
}

/// The files by which a process and the person know of each other.
pub(crate) struct Files {
    /// A line for each run of the tool with an effect.
    pub(crate) tally: PathBuf,
    /// There once the waiting tool waits.
    pub(crate) reached: PathBuf,
    /// What it waits for.
    pub(crate) done: PathBuf,
}

/// Where a process dies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Death {
    Never,
    /// By its own hand at a point.
    At(Point),
    /// By SIGKILL while the platform has one of its requests in hand.
    During {
        operation: Operation,
        number: u64,
        moment: RequestPhase,
    },
    /// The first process dies in one way, and the next at a point while it takes up what is left.
    Twice {
        first: Box<Death>,
        second: Point,
    },
}

impl Death {
    /// The deaths of the processes, one after the other.
    pub(crate) fn deaths(&self) -> Vec<Self> {
        match self {
            Self::Never => Vec::new(),
            Self::At(_) | Self::During { .. } => vec![self.clone()],
            Self::Twice { first, second } => {
                let mut deaths = first.deaths();
                deaths.push(Self::At(second.clone()));
                deaths
            }
        }
    }

    /// The call around which the process dies.
    pub(crate) fn call(&self) -> Option<String> {
        self.point().map(|point| point.call)
    }

    /// The point at which the process itself ends it.
    fn point(&self) -> Option<Point> {
        match self {
            Self::At(point) => Some(point.clone()),
            Self::Never | Self::During { .. } | Self::Twice { .. } => None,
        }
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("undisturbed"),
            Self::At(point) => point.fmt(f),
            Self::During { operation, number, moment } => write!(f, "{} {number}", during(*operation, *moment)),
            Self::Twice { first, second } => write!(f, "{first}, then {second}"),
        }
    }
}

/// The words for a kill from without.
pub(crate) fn during(operation: Operation, moment: RequestPhase) -> String {
    let moment = match moment {
        RequestPhase::Arrived => "arrived",
        RequestPhase::Performed => "performed",
    };
    format!("SIGKILL, {} {moment}", format!("{operation:?}").to_lowercase())
}

/// Whether the processes died where they were to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// They died there, and of that.
    Died,
    /// One of them never came there.
    NotReached,
    /// One of them came there, or hung before, and was not killed by it.
    Survived,
}

/// What became of a run.
pub(crate) struct Outcome {
    pub(crate) ending: Ending,
    /// How many processes died.
    pub(crate) deaths: usize,
    /// What the process told that lived to the end; the words of the one that did not.
    pub(crate) report: Result<CrashReport, String>,
    /// What stands on the platform.
    pub(crate) transcript: Transcript,
    /// What lies on the disk.
    pub(crate) disk: Disk,
    /// How often the tool with an effect ran.
    pub(crate) tool_runs: usize,
    pub(crate) points: Vec<Point>,
    /// The points that the process passed which took up what the first one left.
    pub(crate) recovery: Vec<Point>,
    /// How many requests the platform saw.
    pub(crate) requests: BTreeMap<Operation, u64>,
    pub(crate) took: Duration,
}

impl Outcome {
    /// Everything that helps to understand what happened.
    pub(crate) fn told(&self) -> String {
        format!("{:#?}\n{}", self.report, self.transcript)
    }
}

/// What became of the processes of a run.
struct Lives {
    ending: Ending,
    deaths: usize,
    report: Result<CrashReport, String>,
    /// The points that each of them passed.
    points: Vec<Vec<Point>>,
}

pub(crate) async fn run(scenario: &impl Scenario, death: Death) -> Outcome {
    let began = Instant::now();
    let platform = scenario.open().await;
    let directory = memory_or_disk();
    let path = |name: &str| directory.path().join(name);
    let files = Files { tally: path("tally"), reached: path("reached"), done: path("done") };
    let options = CrashOptions {
        data: path("data"),
        tally: files.tally.clone(),
        reached: files.reached.clone(),
        done: files.done.clone(),
        platform: platform.address(),
        ..scenario.options()
    };
    let said = Cell::new(false);
    let acting = async {
        scenario.act(&platform, &files).await;
        said.set(true);
    };
    let living = live(options, &platform, &said, &death, directory.path());
    let (mut acting, mut living) = (pin!(acting.fuse()), pin!(living));
    let Lives { ending, deaths, report, points } = loop {
        tokio::select! {
            biased;
            () = &mut acting => {}
            lived = &mut living => break lived,
        }
    };
    let tally = std::fs::read_to_string(&files.tally).unwrap_or_default();
    let operations = [Operation::Send, Operation::Edit, Operation::Fetch];
    let mut points = points.into_iter();
    Outcome {
        ending,
        deaths,
        report,
        transcript: own_only(platform.transcript()),
        disk: Disk::read(&path("data")),
        tool_runs: tally.lines().count(),
        points: points.next().unwrap_or_default(),
        recovery: points.next().unwrap_or_default(),
        requests: operations.map(|operation| (operation, platform.requests(operation))).into(),
        took: began.elapsed(),
    }
}

/// Starts one process after the other, until one lives to the end.
async fn live(
    mut options: CrashOptions,
    platform: &TestPlatform,
    said: &Cell<bool>,
    death: &Death,
    directory: &Path,
) -> Lives {
    let mut lives =
        Lives { ending: Ending::Died, deaths: 0, report: Err("nothing was started".to_owned()), points: Vec::new() };
    let mut deaths = death.deaths().into_iter().chain([Death::Never]);
    while let Some(death) = deaths.next() {
        let list = directory.join(format!("points-{}", lives.points.len()));
        options.points = Some(list.clone());
        options.crash_at = death.point();
        let Life { report, signal } = process(&options, platform, said, &death).await;
        let passed = written(&list);
        let (expected, came) = match &death {
            Death::Never | Death::Twice { .. } => (None, false),
            Death::At(point) => (Some(SIGABRT), report.is_err() || passed.contains(point)),
            // A process that is to be killed from without lives until then, so it was still running.
            Death::During { operation, number, .. } => (Some(SIGKILL), platform.requests(*operation) >= *number),
        };
        lives.points.push(passed);
        lives.report = report;
        if expected.is_some() && signal == expected {
            lives.deaths += 1;
            continue;
        }
        if expected.is_some() {
            lives.ending = if came { Ending::Survived } else { Ending::NotReached };
        }
        if lives.report.is_ok() || expected.is_none() {
            break;
        }
        // It did not end of itself, though it was not killed as it should have been: the next one lives to the end.
        deaths = Vec::new().into_iter().chain([Death::Never]);
    }
    lives
}

/// The points that were written down, without a line that a death cut off.
fn written(list: &Path) -> Vec<Point> {
    let text = std::fs::read_to_string(list).unwrap_or_default();
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
        .map(|line| line.parse().expect("a point"))
        .collect()
}

/// A directory in memory where the system has one: what a process has written outlives the process there too, and
/// hundreds of runs don't wait for the disk. That the disk itself is waited for is shown elsewhere.
fn memory_or_disk() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

/// What became of one process.
struct Life {
    /// What it told at its end. The error says how it ended without.
    report: Result<CrashReport, String>,
    /// The signal that it died of.
    signal: Option<i32>,
}

/// Runs one process to its end.
async fn process(options: &CrashOptions, platform: &TestPlatform, said: &Cell<bool>, death: &Death) -> Life {
    let killed_at = match death {
        Death::During { operation, number, moment } => Some(platform.on_nth(*operation, *number, *moment)),
        Death::Never | Death::At(_) | Death::Twice { .. } => None,
    };
    let is_to_be_killed = killed_at.is_some();
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
    let (mut told, mut complained) = (Vec::new(), Vec::new());
    let telling = async { tokio::try_join!(stdout.read_to_end(&mut told), stderr.read_to_end(&mut complained)) };
    let living = async {
        let moment = async {
            let Some(moment) = killed_at else {
                while !said.get() || platform.unconfirmed_updates() > 0 {
                    tokio::time::sleep(LOOK).await;
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
        if is_to_be_killed {
            // SIGKILL, which no process can refuse or delay.
            child.start_kill()?;
        }
        // The process may end once nothing is left that it could be asked again. One that is to be killed lives until then.
        drop(input);
        child.wait().await
    };
    let limit = if is_to_be_killed { PASSED_BY } else { LIMIT };
    let ended = tokio::time::timeout(limit, async { tokio::join!(living, telling) }).await;
    match ended {
        Err(_) => Life { report: Err(format!("still running after {limit:?}")), signal: None },
        Ok((Err(error), _) | (_, Err(error))) => Life { report: Err(error.to_string()), signal: None },
        Ok((Ok(status), Ok(_))) => Life { report: read(status, &told, &complained), signal: status.signal() },
    }
}

fn read(status: ExitStatus, told: &[u8], complained: &[u8]) -> Result<CrashReport, String> {
    if !status.success() {
        return Err(format!("{status}: {}", String::from_utf8_lossy(complained)));
    }
    serde_json::from_slice(told).map_err(|error| error.to_string())
}

/// Only what Satchel sent matters.
fn own_only(mut transcript: Transcript) -> Transcript {
    for messages in transcript.conversations.values_mut() {
        messages.retain(|message| message.own);
    }
    transcript
}
