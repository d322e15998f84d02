//! The real binary as `run` on Telegram and on Discord, killed with SIGKILL after every k-th send and started again on
//! the same data against the same server, until all that people asked for is there.

use std::{
    fs::{self, File},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use satchel_domain::{ConversationId, PartState, Sha256};
use satchel_fake_discord::FakeDiscord;
use satchel_fake_kit::{FakeFile, Fault, RequestPhase, Transcript, VisibleItem};
use satchel_fake_telegram::FakeTelegram;
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{
    Archive, Leases,
    ledger::{AttachmentQuery, OutboxQuery, TurnQuery, TurnRecord, WorkFilter},
};
use satchel_requirements::{
    exclusion::shared,
    sample::{Frequency, Sample},
};
use satchel_system::{crash::ChannelAdapter, real_binary::TestHome};
use sha2::Digest;
use tokio::process::{Child, Command};

use super::read_bytes;
use crate::test_platform::{Operation, PlatformRules, TestPlatform};

/// How many messages the person writes, whether the ones before are answered or not. Each brings a file and comes later than
/// what belongs to another one, so that it is a turn of its own.
const MESSAGES: u64 = 4;

/// The time between two of them.
const TIME_BETWEEN_MESSAGES: Duration = Duration::from_millis(600);

/// The longest that the processes of one run may take to deliver everything.
const RUN_TIMEOUT: Duration = Duration::from_secs(90);

/// The longest that a process may take to stop in good order.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The most often that a process is killed in one run: where a repeat is a send too, every other send is a kill.
const MAX_KILLS: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telegram_survives_sigkill_after_every_kth_send() {
    run_matrix(ChannelAdapter::Telegram).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discord_survives_sigkill_after_every_kth_send() {
    run_matrix(ChannelAdapter::Discord).await;
}

async fn run_matrix(adapter: ChannelAdapter) {
    let _machine = shared("machine");
    let sample = Sample::from_environment();
    let undisturbed = run_with_kills(adapter, None).await;
    let expected = visible_items(&undisturbed.transcript, &TestPlatform::conversation(adapter));
    let files = expected.iter().filter(|shown| matches!(shown, VisibleItem::File(_))).count() as u64;
    assert_eq!(files, 2 * MESSAGES, "{}", undisturbed.transcript);
    assert_eq!(undisturbed.problems(adapter, &expected), Vec::<String>::new(), "{}", undisturbed.summary());
    // A reply that was shown while it grew was sent once more.
    let sends = undisturbed.transcript.visible(&TestPlatform::conversation(adapter)).count() as u64;
    let core = [1, 2, sends.div_ceil(2), sends];
    let frequency = |every: u64| if core.contains(&every) { Frequency::EveryRun } else { Frequency::Nightly };
    let every = (1..=sends).enumerate().filter(|(index, every)| sample.includes(frequency(*every), *index));

    println!("every  kills  lost  twice  label  order  problems");
    let mut failures = Vec::new();
    let mut kills = 0;
    for (_, every) in every {
        let started_at = Instant::now();
        let run = run_with_kills(adapter, Some(every)).await;
        let (problems, conversation) = (run.problems(adapter, &expected), TestPlatform::conversation(adapter));
        println!(
            "{every:>5}  {:>5}  {:>4}  {:>5}  {:>5}  {:>5}  {:>8}  {:.1?}",
            run.kills,
            run.transcript.missing(&conversation, &expected).len(),
            run.transcript.duplicates(&conversation).len(),
            run.count_labels(&conversation),
            run.transcript.out_of_order(&conversation, &expected).len(),
            problems.len(),
            started_at.elapsed()
        );
        failures.extend(problems.into_iter().map(|problem| format!("every {every}: {problem}\n{}", run.summary())));
        assert!(run.kills > 0, "no process was killed after send {every}:\n{}", run.summary());
        kills += run.kills;
    }
    println!("{adapter:?}: {sends} sends undisturbed, {kills} kills ({sample})");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// What became of a run.
struct ServerRun {
    kills: usize,
    transcript: Transcript,
    /// What is wrong with the data that is left.
    data_problems: Vec<String>,
    log: String,
}

/// Lets the person write, kills the process after every so many sends, and lets the last one end in good order.
async fn run_with_kills(adapter: ChannelAdapter, every: Option<u64>) -> ServerRun {
    let (platform, home) = (TestPlatform::open(PlatformRules::for_platform(adapter)).await, TestHome::new());
    let conversation = TestPlatform::conversation(adapter);
    write_set_up(&platform, adapter, &home).await;
    let mut satchel = start_satchel(&home);
    platform.wait_until_connected().await;
    // The first kill is known before the first send can be made.
    let mut kill_moment = every.map(|every| script_kill(&platform, every));
    for n in 1..=MESSAGES {
        if n > 1 {
            // What arrives sooner belongs to the message before.
            tokio::time::sleep(TIME_BETWEEN_MESSAGES).await;
        }
        let text = format!("send me /shared/p{n}.png and send me /shared/d{n}.bin");
        platform.person_sends(&conversation, &text, vec![note(n)]);
    }
    let (mut kills, started_at, mut data_problems) = (0, Instant::now(), Vec::new());
    loop {
        let delivered = wait_until_delivered(&home, &conversation);
        match kill_moment.as_mut() {
            None => assert_in_time(delivered, started_at, &platform, &home).await,
            Some(moment) => tokio::select! {
                killed = moment => {
                    assert!(killed.is_ok(), "the platform is there");
                    if every > Some(1) {
                        // What dies over and over must be deliveries: a turn is given up after three deaths.
                        assert_in_time(wait_until_answered(&home, &conversation), started_at, &platform, &home).await;
                    }
                    satchel.kill().await.expect("a process can be killed");
                    kills += 1;
                    satchel = start_satchel(&home);
                    let next = platform.requests(Operation::Send) + every.unwrap_or(1).max(2);
                    kill_moment = (every > Some(1) && kills < MAX_KILLS).then(|| script_kill(&platform, next));
                    continue;
                }
                () = assert_in_time(delivered, started_at, &platform, &home) => {}
            },
        }
        break;
    }
    data_problems.extend(stop_satchel(satchel).await);
    data_problems.extend(find_disk_problems(&home, &conversation).await);
    ServerRun {
        kills,
        transcript: retain_own_messages(platform.transcript()),
        data_problems,
        log: fs::read_to_string(home.root().join("log")).unwrap_or_default(),
    }
}

/// Lets the send with this number arrive without its answer, and tells when it has: the process never learns of it.
fn script_kill(platform: &TestPlatform, send: u64) -> tokio::sync::oneshot::Receiver<()> {
    let operation = Operation::Send;
    platform.inject_fault((operation, send), ("send*", send), Fault::Hang { performed: true });
    platform.on_nth(operation, send, RequestPhase::Performed)
}

async fn write_set_up(platform: &TestPlatform, adapter: ChannelAdapter, home: &TestHome) {
    let shared = home.root().join("shared");
    fs::create_dir(&shared).expect("a directory");
    for file in (1..=MESSAGES).flat_map(|n| [photo(n), document(n)]) {
        fs::write(shared.join(&file.filename), read_bytes(&file).await).expect("a file can be written");
    }
    let url = platform.address();
    let channel = match adapter {
        ChannelAdapter::Discord => {
            format!(
                "discord: {{ token: '{}', api_url: '{url}', allow_users: ['*'], channels: ['*'] }}",
                FakeDiscord::TOKEN
            )
        }
        ChannelAdapter::Telegram => {
            format!("telegram: {{ token: '{}', api_url: '{url}', allow_users: ['*'] }}", FakeTelegram::TOKEN)
        }
    };
    let shared = shared.display();
    home.write_file(
        "satchel.yaml",
        format!(
            "{channel}\nweb: {{ listen: off }}\ndelivery: {{ pace: off }}\nmodel: offline\n\
             workspace: {{ shared_dir: '{shared}' }}\n"
        ),
    );
}

fn photo(n: u64) -> FakeFile {
    FakeFile::photo(format!("p{n}.png"), 64, 48, n, 2_000)
}

fn document(n: u64) -> FakeFile {
    FakeFile::generated(format!("d{n}.bin"), "application/octet-stream", 100 + n, 20_000)
}

fn note(n: u64) -> FakeFile {
    FakeFile::from_bytes(format!("note{n}.txt"), "text/plain", format!("note {n}\n"))
}

fn start_satchel(home: &TestHome) -> Child {
    let log = File::options().create(true).append(true).open(home.root().join("log"));
    let mut command: Command = home.satchel_command(&["run", "--log", "debug"]).into();
    command.stdout(Stdio::null()).stderr(log.expect("a log can be written")).kill_on_drop(true);
    command.spawn().expect("the binary can be started")
}

/// Ends a process in good order, and says what was wrong with its end.
async fn stop_satchel(satchel: Child) -> Option<String> {
    let pid = satchel.id().expect("it runs").to_string();
    let status = Command::new("kill").args(["-TERM", &pid]).status().await;
    assert!(status.is_ok_and(|status| status.success()), "a running process takes a signal");
    match tokio::time::timeout(STOP_TIMEOUT, satchel.wait_with_output()).await {
        Ok(Ok(output)) if output.status.success() => None,
        Ok(Ok(output)) => Some(format!("the last process ended with {}", output.status)),
        Ok(Err(error)) => Some(format!("the last process can't be waited for: {error}")),
        Err(_) => Some(format!("the last process did not stop in {STOP_TIMEOUT:?}")),
    }
}

async fn open_ledger(home: &TestHome) -> SqliteLedger {
    SqliteLedger::open(&home.data_directory(), Settings::default(), Arc::new(SystemClock::new()), Arc::new(UuidV7))
        .await
        .expect("the ledger opens")
}

/// Waits until every message is answered.
async fn wait_until_answered(home: &TestHome, conversation: &ConversationId) {
    wait_for_turns(home, conversation, |turn| turn.ending.is_some()).await;
}

/// Waits until nothing is on its way any more, either.
async fn wait_until_delivered(home: &TestHome, conversation: &ConversationId) {
    let is_over = |turn: &TurnRecord| turn.ending.is_some() && turn.parts.iter().all(|part| part.state.is_settled());
    wait_for_turns(home, conversation, is_over).await;
}

async fn wait_for_turns(home: &TestHome, conversation: &ConversationId, is_done: impl Fn(&TurnRecord) -> bool) {
    while !home.data_directory().join("satchel.db").is_file() {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let ledger = open_ledger(home).await;
    let query = TurnQuery { conversation: conversation.clone(), before: None, limit: 100 };
    loop {
        let turns = ledger.turns(&query).await.expect("the turns can be read");
        if turns.len() as u64 == MESSAGES && turns.iter().all(&is_done) {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn assert_in_time(
    condition: impl Future<Output = ()>,
    began: Instant,
    platform: &TestPlatform,
    household: &TestHome,
) {
    let in_time = tokio::time::timeout(RUN_TIMEOUT.saturating_sub(began.elapsed()), condition).await.is_ok();
    let log = || fs::read_to_string(household.root().join("log")).unwrap_or_default();
    assert!(in_time, "not everything is delivered after {RUN_TIMEOUT:?}:\n{}\n{}", platform.transcript(), log());
}

/// What is wrong with the ledger and the store once the last process has ended.
async fn find_disk_problems(home: &TestHome, conversation: &ConversationId) -> Vec<String> {
    let ledger = open_ledger(home).await;
    let mut problems = Vec::new();
    if ledger
        .claim_lane(&[conversation.channel().clone()], WorkFilter::Any)
        .await
        .expect("the ledger can be asked")
        .is_some()
    {
        problems.push("the lane has work left".to_owned());
    }
    let query = OutboxQuery { include_delivered: true, ..OutboxQuery::default() };
    for part in ledger.parts(&query).await.expect("the outbox can be read") {
        if !matches!(part.state, PartState::Sent { .. } | PartState::Replaced { .. }) {
            problems.push(format!("a {} is {:?}", part.operation.kind(), part.state));
        }
    }
    let known = ledger.attachments(&AttachmentQuery::default()).await.expect("the files can be read");
    for note in (1..=MESSAGES).map(note) {
        let recorded: Vec<_> = known.iter().filter(|file| file.filename.as_str() == note.filename).collect();
        let digest = note.sha256().to_string();
        let path = home.data_directory().join("blobs").join(&digest[..2]).join(&digest[2..4]).join(&digest);
        let stored = fs::read(path).map(|bytes| Sha256(sha2::Sha256::digest(bytes).into())).ok();
        if !matches!(recorded.as_slice(), [one] if one.sha256 == note.sha256() && stored == Some(one.sha256)) {
            problems.push(format!("{} is kept as {recorded:?}, and {stored:?} lies on the disk", note.filename));
        }
    }
    problems
}

/// What stands in the conversation, each thing where it first stands.
fn visible_items(transcript: &Transcript, conversation: &ConversationId) -> Vec<VisibleItem> {
    let items = transcript.visible(conversation).flat_map(|message| {
        let text = (!message.contents.text.is_empty()).then(|| VisibleItem::Text(message.contents.text.clone()));
        text.into_iter().chain(message.contents.files.iter().map(|file| VisibleItem::File(file.sha256)))
    });
    items.collect()
}

/// Only what Satchel sent matters.
fn retain_own_messages(mut transcript: Transcript) -> Transcript {
    transcript.conversations.values_mut().for_each(|messages| messages.retain(|message| message.own));
    transcript
}

impl ServerRun {
    fn count_labels(&self, conversation: &ConversationId) -> usize {
        self.transcript.visible(conversation).filter(|message| message.is_labelled()).count()
    }

    /// What breaks a promise.
    fn problems(&self, adapter: ChannelAdapter, expected: &[VisibleItem]) -> Vec<String> {
        let (transcript, conversation) = (&self.transcript, &TestPlatform::conversation(adapter));
        let mut problems = self.data_problems.clone();
        let lost = transcript.missing(conversation, expected);
        problems.extend(lost.iter().map(|lost| format!("lost: {lost:?}")));
        let late = transcript.out_of_order(conversation, expected);
        problems.extend(late.iter().map(|late| format!("out of order: {late:?}")));
        // Telegram is asked for the ids of messages, Discord knows a repeat by its key.
        let duplicates = transcript.duplicates(conversation);
        problems.extend(duplicates.iter().map(|twice| format!("twice after {} kills: {twice:?}", self.kills)));
        if self.count_labels(conversation) > 0 {
            problems.push(format!("{} labels after {} kills", self.count_labels(conversation), self.kills));
        }
        for file in (1..=MESSAGES).flat_map(|n| [photo(n), document(n)]) {
            let shown =
                transcript.visible_files(conversation).into_iter().filter(|shown| shown.sha256 == file.sha256());
            problems.extend(
                shown
                    .filter(|shown| shown.filename != file.filename)
                    .map(|shown| format!("{} stands there as {}", file.filename, shown.filename)),
            );
        }
        problems
    }

    fn summary(&self) -> String {
        format!("{}\n{}", self.transcript, self.log)
    }
}
