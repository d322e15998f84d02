//! The kill matrix: the real `satchel` binary in the terminal, killed with SIGKILL at many moments of a turn with
//! files, and started again.

mod platforms;

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Output, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use satchel_domain::{ChannelName, ConversationId, Ending, HistoryMessage, PartState};
use satchel_fake_kit::FakeFile;
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{Archive, Leases, ledger::OutboxQuery, ledger::WorkFilter};
use satchel_requirements::{
    exclusion::shared,
    sample::{Frequency, Sample},
};
use satchel_system::real_binary::satchel_binary;
use tokio::{io::AsyncWriteExt, process::Command};

/// Number of kill moments within the undisturbed time, of which every other is tried in a run of the gate; and most
/// processes that run at once.
const KILL_MOMENTS: u32 = 48;
const RUNS_PER_MOMENT: u64 = 2;
const MAX_CONCURRENT_PROCESSES: usize = 2;

/// Longest run of an undisturbed process.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(20);

const FIRST_REQUEST: &str = "save all to /shared/in and send me a.bin and b.txt";
/// What is said next comes with a file, so that it is a turn of its own even while the first is taken up again.
const SECOND_REQUEST: &str = "save this as /shared/c.txt";

/// What came of one kill.
struct KillCase {
    delay: Duration,
    /// Whether the process was faster than the kill.
    has_survived: bool,
    /// Whether the ledger had the message when the process died.
    was_stored: bool,
    problems: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminal_turn_survives_sigkill_at_any_moment() {
    let _machine = shared("machine");
    let files = sent_files();
    let undisturbed = {
        let harness = KillHarness::new(&files).await;
        let started_at = Instant::now();
        let output = harness.run_once(FIRST_REQUEST, &files, None).await;
        assert!(has_succeeded(&output), "{}", describe_output(&output));
        let undisturbed = started_at.elapsed();
        assert_eq!(harness.problems(&files, true).await, Vec::<String>::new());
        undisturbed
    };
    let files = &files;
    let sample = Sample::from_environment();
    let is_selected = |moment: &u32| sample.includes(Frequency::OneIn(RUNS_PER_MOMENT), *moment as usize);
    let mut cases: Vec<KillCase> = stream::iter((1..=KILL_MOMENTS).filter(is_selected))
        .map(|moment| async move { kill_after(undisturbed * moment / (KILL_MOMENTS - 6), files).await })
        .buffer_unordered(MAX_CONCURRENT_PROCESSES)
        .collect()
        .await;
    cases.sort_by_key(|case| case.delay);

    println!("killed after   message   problems");
    for KillCase { delay, has_survived, was_stored, problems } in &cases {
        let message = match (has_survived, was_stored) {
            (true, _) => "answered",
            (false, true) => "taken",
            (false, false) => "-",
        };
        println!("{:>9.1} ms   {message:<9} {}", delay.as_secs_f64() * 1_000.0, problems.len());
    }
    let in_the_middle = cases.iter().filter(|killed| killed.was_stored && !killed.has_survived).count();
    println!("{} kills, {in_the_middle} of them in the middle of the turn ({sample})", cases.len());
    let problems: Vec<String> = cases
        .iter()
        .flat_map(|killed| killed.problems.iter().map(move |problem| format!("after {:?}: {problem}", killed.delay)))
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    // A small share may have no moment in the middle.
    assert!(in_the_middle > 0 || !sample.includes_core(), "no kill met the turn, so nothing was tested");
}

fn sent_files() -> [FakeFile; 2] {
    [
        FakeFile::generated("a.bin", "application/octet-stream", 3, 300_000),
        FakeFile::from_bytes("b.txt", "text/plain", "all of it\n"),
    ]
}

fn next_file() -> FakeFile {
    FakeFile::from_bytes("c.txt", "text/plain", "more\n")
}

async fn kill_after(delay: Duration, files: &[FakeFile]) -> KillCase {
    let harness = KillHarness::new(files).await;
    let has_survived = harness.run_once(FIRST_REQUEST, files, Some(delay)).await.is_some();
    // Bytes are fetched for nobody but a message that was taken.
    let has_bytes = harness.has_blobs();
    let mut problems = Vec::new();
    // A chat shows the conversation, so what waits in it goes on there; `--once` would leave it waiting.
    let second_output = harness.run_chat(&[&format!("/attach {}", next_file().filename), SECOND_REQUEST]).await;
    if !has_succeeded(&second_output) {
        problems.push(format!("the next chat failed: {}", describe_output(&second_output)));
    }
    let was_stored = harness.has_stored_message().await;
    if (has_survived || has_bytes) && !was_stored {
        problems.push("the message was taken and is gone".to_owned());
    }
    problems.extend(harness.problems(files, was_stored).await);
    KillCase { delay, has_survived, was_stored, problems }
}

/// A directory in which somebody talks to Satchel.
struct KillHarness {
    directory: tempfile::TempDir,
    conversation: ConversationId,
}

impl KillHarness {
    async fn new(files: &[FakeFile]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for file in files.iter().chain([&next_file()]) {
            std::fs::write(directory.path().join(&file.filename), read_bytes(file).await)
                .expect("a file can be written");
        }
        Self { directory, conversation: "console:main".parse().expect("a conversation") }
    }

    fn chat_command(&self) -> Command {
        let mut command = Command::new(satchel_binary());
        command
            .env_clear()
            .current_dir(self.directory.path())
            .args(["--set", "storage.data_dir=data", "chat"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Says something once; the answer is `None` when the process was killed before it had one.
    async fn run_once(&self, text: &str, files: &[FakeFile], kill_after: Option<Duration>) -> Option<Output> {
        let mut command = self.chat_command();
        command.args(["--json", "--once", text]);
        for file in files {
            command.args(["--attach", &file.filename]);
        }
        let child = command.spawn().expect("the binary can be started");
        // Dropping the child kills it with SIGKILL.
        let limit = kill_after.unwrap_or(PROCESS_TIMEOUT);
        tokio::time::timeout(limit, child.wait_with_output())
            .await
            .ok()
            .map(|output| output.expect("it was waited for"))
    }

    /// Types lines into a chat, which ends once they are answered.
    async fn run_chat(&self, lines: &[&str]) -> Option<Output> {
        let mut child = self.chat_command().stdin(Stdio::piped()).spawn().expect("the binary can be started");
        let mut input = child.stdin.take().expect("standard input is piped");
        for line in lines {
            input.write_all(format!("{line}\n").as_bytes()).await.expect("the program reads its input");
        }
        drop(input);
        let ended = tokio::time::timeout(PROCESS_TIMEOUT, child.wait_with_output()).await;
        ended.ok().map(|output| output.expect("it was waited for"))
    }

    fn has_blobs(&self) -> bool {
        let Ok(entries) = std::fs::read_dir(self.directory.path().join("data/blobs")) else { return false };
        // Blobs lie beneath the first two digits of their address.
        entries.flatten().any(|entry| entry.file_name().len() == 2)
    }

    async fn open_ledger(&self) -> SqliteLedger {
        SqliteLedger::open(
            &self.directory.path().join("data"),
            Settings::default(),
            Arc::new(SystemClock::new()),
            Arc::new(UuidV7),
        )
        .await
        .expect("the ledger opens")
    }

    async fn has_stored_message(&self) -> bool {
        let history = self.open_ledger().await.history(&self.conversation, 100).await.expect("the history can be read");
        history
            .iter()
            .any(|message| matches!(message, HistoryMessage::Person { text, .. } if text.contains(FIRST_REQUEST)))
    }

    /// What is wrong once everything should be delivered.
    async fn problems(&self, files: &[FakeFile], was_stored: bool) -> Vec<String> {
        let mut problems = Vec::new();
        let ledger = self.open_ledger().await;
        let console = ChannelName::new("console").expect("a name");
        if let Some(left) = ledger.claim_lane(&[console], WorkFilter::Any).await.expect("the ledger can be asked") {
            problems.push(format!("{} has work left", left.lease.conversation));
        }
        let query = OutboxQuery { include_delivered: true, ..OutboxQuery::default() };
        for part in ledger.parts(&query).await.expect("the outbox can be read") {
            if !matches!(part.state, PartState::Sent { .. } | PartState::Replaced { .. }) {
                problems.push(format!("a {} is {:?}", part.operation.kind(), part.state));
            }
            let turn = ledger.turn(part.turn).await.expect("a turn can be read").expect("a part has a turn");
            if turn.ending != Some(Ending::Done) {
                problems.push(format!("a turn ended as {:?}", turn.ending));
            }
        }
        let mut expected = BTreeMap::new();
        for file in files.iter().filter(|_| was_stored) {
            expected.insert(file.filename.clone(), read_bytes(file).await);
        }
        let found = read_contents(&self.directory.path().join("files"));
        if found != expected {
            let names: Vec<_> = found.iter().map(|(name, bytes)| format!("{name} ({} bytes)", bytes.len())).collect();
            problems.push(format!("files/ holds {names:?}, or not the bytes that were sent"));
        }
        problems
    }
}

/// Every file of a directory, half-written ones too, without the numbers that stand before the names: which of two
/// files that are fetched at once is the first to have one is chance.
fn read_contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(directory) else { return BTreeMap::new() };
    let read = entries.flatten().map(|entry| {
        let bytes = std::fs::read(entry.path()).expect("a reply's file can be read");
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.split_once('-') {
            Some((number, name)) if number.parse::<u64>().is_ok() => (name.to_owned(), bytes),
            _ => (name, bytes),
        }
    });
    read.collect()
}

async fn read_bytes(file: &FakeFile) -> Vec<u8> {
    let blocks: Vec<_> = file.stream().map(|block| block.expect("generated bytes")).collect().await;
    blocks.concat()
}

fn has_succeeded(output: &Option<Output>) -> bool {
    output.as_ref().is_some_and(|output| output.status.success())
}

fn describe_output(output: &Option<Output>) -> String {
    output.as_ref().map_or_else(
        || format!("no answer after {PROCESS_TIMEOUT:?}"),
        |output| {
            let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            format!("{}\n{stdout}{stderr}", output.status)
        },
    )
}
