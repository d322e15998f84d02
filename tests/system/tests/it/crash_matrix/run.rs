//! One run: the process is started, dies where it is to die, is started again, and lives to the end of its turn.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fmt,
    os::unix::process::ExitStatusExt,
    path::Path,
    pin::pin,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use futures::FutureExt;
use satchel_domain::ConversationId;
use satchel_fakes::{FakeFile, Moment, Operation, Transcript};
use satchel_system::crash::{CrashOptions, CrashReport, points::Point};
use tokio::{io::AsyncReadExt, process::Command};

use super::scene::{REQUEST, SECOND, Scene};
use crate::place::Place;

/// The longest that one process may take; what takes longer hangs.
const LIMIT: Duration = Duration::from_secs(20);

/// How long a process may come past the request in the midst of which it is to be killed.
const PASSED_BY: Duration = Duration::from_secs(6);

/// How often the platform is asked whether everything that was said to it is taken.
const LOOK: Duration = Duration::from_millis(2);

/// The signals by which a process dies at its own hand, and at another's.
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

/// Where a process dies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Death {
    /// Nowhere.
    Never,
    /// By its own hand at a point.
    At(Point),
    /// And once more at the same point while the next process takes up what is left.
    AtTwice(Point),
    /// By SIGKILL while the platform has one of its requests in hand.
    During { operation: Operation, number: u64, moment: Moment },
}

impl Death {
    /// The signal that ends the process.
    fn signal(&self) -> Option<i32> {
        match self {
            Self::Never => None,
            Self::At(_) | Self::AtTwice(_) => Some(SIGABRT),
            Self::During { .. } => Some(SIGKILL),
        }
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("undisturbed"),
            Self::At(point) => point.fmt(f),
            Self::AtTwice(point) => write!(f, "twice {point}"),
            Self::During { operation, number, moment } => {
                write!(f, "{} {number}", during(*operation, *moment))
            }
        }
    }
}

/// The words for a kill from without.
pub(crate) fn during(operation: Operation, moment: Moment) -> String {
    let moment = match moment {
        Moment::Arrived => "arrived",
        Moment::Performed => "performed",
    };
    format!("SIGKILL, {} {moment}", format!("{operation:?}").to_lowercase())
}

/// Whether the process died where it was to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It died there, and of that.
    Died,
    /// It never came there.
    NotReached,
    /// It came there, or hung before, and was not killed by it.
    Survived,
}

/// What became of a run.
pub(crate) struct Outcome {
    pub(crate) ending: Ending,
    /// What the process told that lived to the end; the words of the one that did not.
    pub(crate) report: Result<CrashReport, String>,
    /// What stands on the platform.
    pub(crate) transcript: Transcript,
    /// How often the tool with an effect ran.
    pub(crate) tool_runs: usize,
    /// The points that its first process passed.
    pub(crate) points: Vec<Point>,
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

pub(crate) async fn run(scene: &Scene, death: Death) -> Outcome {
    let began = Instant::now();
    let platform = Place::open(scene.platform.front(), scene.rules.clone()).await;
    let directory = memory_or_disk();
    let path = |name: &str| directory.path().join(name);
    let list = path("points");
    let mut options = CrashOptions {
        data: path("data"),
        shared: scene.shared.path().to_owned(),
        tally: path("tally"),
        platform: platform.address(),
        front: scene.platform.front(),
        capabilities: scene.capabilities.clone(),
        conversation: scene.conversation.clone(),
        turns: 2,
        script: scene.script.clone(),
        points: Some(list.clone()),
        crash_at: match &death {
            Death::At(point) | Death::AtTwice(point) => Some(point.clone()),
            Death::Never | Death::During { .. } => None,
        },
    };
    let said = Cell::new(false);
    let saying = async {
        platform.is_listened_to().await;
        platform.person_sends(&scene.conversation, REQUEST, scene.sent.clone());
        // With a file it is a turn of its own, in whatever state the first one is.
        platform.person_sends(&scene.conversation, SECOND, FakeFile::of("b.txt", "text/plain", "b"));
        said.set(true);
    };
    let living = async {
        let Life { mut report, signal } = process(&options, &platform, &said, &death).await;
        options.points = None;
        let passed = written(&list);
        let died = death.signal().is_some() && signal == death.signal();
        let came = match &death {
            Death::Never => false,
            // A process that is to be killed from without lives until then, so it was still running.
            Death::During { operation, number, .. } => platform.requests(*operation) >= *number,
            Death::At(point) | Death::AtTwice(point) => report.is_err() || passed.contains(point),
        };
        let ending = match (died, came) {
            (true, _) => Ending::Died,
            (false, true) => Ending::Survived,
            (false, false) => Ending::NotReached,
        };
        if died && matches!(death, Death::AtTwice(_)) {
            report = process(&options, &platform, &said, &Death::Never).await.report;
        }
        if report.is_err() && death != Death::Never {
            options.crash_at = None;
            report = process(&options, &platform, &said, &Death::Never).await.report;
        }
        (ending, passed, report)
    };
    let (mut saying, mut living) = (pin!(saying.fuse()), pin!(living));
    let (ending, points, report) = loop {
        tokio::select! {
            biased;
            () = &mut saying => {}
            lived = &mut living => break lived,
        }
    };
    let tally = std::fs::read_to_string(path("tally")).unwrap_or_default();
    let operations = [Operation::Send, Operation::Edit, Operation::Fetch];
    Outcome {
        ending,
        report,
        transcript: own_only(platform.transcript(), &scene.conversation),
        tool_runs: tally.lines().count(),
        points,
        requests: operations.map(|operation| (operation, platform.requests(operation))).into(),
        took: began.elapsed(),
    }
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
async fn process(options: &CrashOptions, platform: &Place, said: &Cell<bool>, death: &Death) -> Life {
    let killed_at = match death {
        Death::During { operation, number, moment } => Some(platform.on_nth(*operation, *number, *moment)),
        Death::Never | Death::At(_) | Death::AtTwice(_) => None,
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
fn own_only(mut transcript: Transcript, conversation: &ConversationId) -> Transcript {
    if let Some(messages) = transcript.conversations.get_mut(conversation) {
        messages.retain(|message| message.own);
    }
    transcript
}
