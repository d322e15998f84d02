//! The kill matrix: the real `satchel` binary in the terminal, killed with SIGKILL at many moments of a turn with files,
//! and started again.

mod serving;

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use satchel_domain::{ChannelName, ConversationId, Ending, HistoryMessage, PartState};
use satchel_fake_kit::FakeFile;
use satchel_ledger::{Settings, SqliteLedger};
use satchel_ports::{Ledger, ledger::OutboxQuery};
use satchel_system::real_binary::satchel_binary;
use tokio::process::Command;

/// How many moments of the undisturbed time are tried, and how many processes run at once.
const MOMENTS: u32 = 48;
const AT_ONCE: usize = 2;

/// The longest that a process may take that nobody kills.
const LIMIT: Duration = Duration::from_secs(20);

const FIRST: &str = "save all to /shared/in and send me a.bin and b.txt";
/// What is said next comes with a file, so that it is a turn of its own even while the first is taken up again.
const SECOND: &str = "save this as /shared/c.txt";

/// What came of one kill.
struct Killed {
    after: Duration,
    /// Whether the process was faster than the kill.
    survived: bool,
    /// Whether the ledger had the message when the process died.
    taken: bool,
    problems: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminal_turn_survives_sigkill_at_any_moment() {
    let files = sent();
    let undisturbed = {
        let stage = Stage::set(&files).await;
        let began = Instant::now();
        let output = stage.ask(FIRST, &files, None).await;
        assert!(succeeded(&output), "{}", words(&output));
        let undisturbed = began.elapsed();
        assert_eq!(stage.problems(&files, true).await, Vec::<String>::new());
        undisturbed
    };
    let files = &files;
    let mut killed: Vec<Killed> = stream::iter(1..=MOMENTS)
        .map(|moment| async move { kill_after(undisturbed * moment / (MOMENTS - 6), files).await })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    killed.sort_by_key(|killed| killed.after);

    println!("killed after   message   problems");
    for Killed { after, survived, taken, problems } in &killed {
        let message = match (survived, taken) {
            (true, _) => "answered",
            (false, true) => "taken",
            (false, false) => "-",
        };
        println!("{:>9.1} ms   {message:<9} {}", after.as_secs_f64() * 1_000.0, problems.len());
    }
    let in_the_middle = killed.iter().filter(|killed| killed.taken && !killed.survived).count();
    println!("{} kills, {in_the_middle} of them in the middle of the turn", killed.len());
    let problems: Vec<String> = killed
        .iter()
        .flat_map(|killed| killed.problems.iter().map(move |problem| format!("after {:?}: {problem}", killed.after)))
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(in_the_middle > 0, "no kill met the turn, so nothing was tested");
}

fn sent() -> [FakeFile; 2] {
    [
        FakeFile::generated("a.bin", "application/octet-stream", 3, 300_000),
        FakeFile::from_bytes("b.txt", "text/plain", "all of it\n"),
    ]
}

fn next() -> FakeFile {
    FakeFile::from_bytes("c.txt", "text/plain", "more\n")
}

async fn kill_after(after: Duration, files: &[FakeFile]) -> Killed {
    let stage = Stage::set(files).await;
    let survived = stage.ask(FIRST, files, Some(after)).await.is_some();
    // Bytes are fetched for nobody but a message that was taken.
    let has_bytes = stage.has_bytes();
    let mut problems = Vec::new();
    let again = stage.ask(SECOND, &[next()], None).await;
    if !succeeded(&again) {
        problems.push(format!("the next chat failed: {}", words(&again)));
    }
    let taken = stage.has_taken().await;
    if (survived || has_bytes) && !taken {
        problems.push("the message was taken and is gone".to_owned());
    }
    problems.extend(stage.problems(files, taken).await);
    Killed { after, survived, taken, problems }
}

/// A directory in which somebody talks to Satchel.
struct Stage {
    directory: tempfile::TempDir,
    conversation: ConversationId,
}

impl Stage {
    async fn set(files: &[FakeFile]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for file in files.iter().chain([&next()]) {
            std::fs::write(directory.path().join(&file.filename), bytes(file).await).expect("a file can be written");
        }
        Self { directory, conversation: "console:main".parse().expect("a conversation") }
    }

    /// Says something once; the answer is `None` when the process was killed before it had one.
    async fn ask(&self, text: &str, files: &[FakeFile], kill_after: Option<Duration>) -> Option<Output> {
        let mut command = Command::new(satchel_binary());
        command
            .env_clear()
            .current_dir(self.directory.path())
            .args(["--set", "storage.data_dir=data", "chat", "--json", "--once", text])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for file in files {
            command.args(["--attach", &file.filename]);
        }
        let child = command.spawn().expect("the binary can be started");
        // Dropping the child kills it with SIGKILL.
        let limit = kill_after.unwrap_or(LIMIT);
        tokio::time::timeout(limit, child.wait_with_output())
            .await
            .ok()
            .map(|output| output.expect("it was waited for"))
    }

    fn has_bytes(&self) -> bool {
        let Ok(entries) = std::fs::read_dir(self.directory.path().join("data/blobs")) else { return false };
        // Blobs lie beneath the first two digits of their address.
        entries.flatten().any(|entry| entry.file_name().len() == 2)
    }

    async fn ledger(&self) -> SqliteLedger {
        SqliteLedger::open(&self.directory.path().join("data"), Settings::default()).await.expect("the ledger opens")
    }

    async fn has_taken(&self) -> bool {
        let history = self.ledger().await.history(&self.conversation, 100).await.expect("the history can be read");
        history.iter().any(|message| matches!(message, HistoryMessage::Person { text, .. } if text.contains(FIRST)))
    }

    /// What is wrong once everything should be delivered.
    async fn problems(&self, files: &[FakeFile], taken: bool) -> Vec<String> {
        let mut problems = Vec::new();
        let ledger = self.ledger().await;
        let console = ChannelName::new("console").expect("a name");
        if let Some(left) = ledger.claim_lane(&[console]).await.expect("the ledger can be asked") {
            problems.push(format!("{} has work left", left.conversation));
        }
        let query = OutboxQuery { include_delivered: true, ..OutboxQuery::default() };
        for part in ledger.outbox(&query).await.expect("the outbox can be read") {
            if !matches!(part.state, PartState::Sent { .. } | PartState::Replaced { .. }) {
                problems.push(format!("a {} is {:?}", part.content.kind(), part.state));
            }
            let turn = ledger.turn(part.turn).await.expect("a turn can be read").expect("a part has a turn");
            if turn.ending != Some(Ending::Done) {
                problems.push(format!("a turn ended as {:?}", turn.ending));
            }
        }
        let mut expected = BTreeMap::new();
        for file in files.iter().filter(|_| taken) {
            expected.insert(file.filename.clone(), bytes(file).await);
        }
        let found = contents(&self.directory.path().join("files"));
        if found != expected {
            let names: Vec<_> = found.iter().map(|(name, bytes)| format!("{name} ({} bytes)", bytes.len())).collect();
            problems.push(format!("files/ holds {names:?}, or not the bytes that were sent"));
        }
        problems
    }
}

/// Every file of a directory, half-written ones too, without the numbers that stand before the names: which of two files
/// that are fetched at once is the first to have one is chance.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
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

async fn bytes(file: &FakeFile) -> Vec<u8> {
    let blocks: Vec<_> = file.stream().map(|block| block.expect("generated bytes")).collect().await;
    blocks.concat()
}

fn succeeded(output: &Option<Output>) -> bool {
    output.as_ref().is_some_and(|output| output.status.success())
}

fn words(output: &Option<Output>) -> String {
    output.as_ref().map_or_else(
        || format!("no answer after {LIMIT:?}"),
        |output| {
            let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            format!("{}\n{stdout}{stderr}", output.status)
        },
    )
}
