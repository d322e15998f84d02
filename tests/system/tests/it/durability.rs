//! What is promised to be on disk is on disk, in the promised order, and costs no more commits than promised.

#![expect(clippy::panic, reason = "what is not as it must be ends the test with all that is known")]

mod system_calls;
mod workspace_copies;

use std::{process::Command, sync::Arc, time::Duration};

use satchel_domain::capabilities::StreamRule;
use satchel_fake_kit::FakeFile;
use satchel_local::{
    ModelScript, ScriptedModel,
    scripted_model::{AnswerOrder, ScriptedAnswer, ScriptedPiece},
};
use satchel_requirements::required;
use satchel_system::{
    crash::{ChannelAdapter, CrashOptions},
    real_binary::Household,
};
use serde_json::json;

use self::system_calls::{SystemCall, find_strace, position, traced};
use crate::{
    product::{Product, ProductSetup},
    test_platform::TestPlatform,
};

const WAL: &str = "satchel.db-wal";

fn answer(pieces: Vec<ScriptedPiece>) -> ScriptedAnswer {
    ScriptedAnswer { pieces, ..ScriptedAnswer::default() }
}

fn text(words: &str) -> ScriptedAnswer {
    answer(vec![ScriptedPiece::Text(words.to_owned())])
}

fn list_files() -> ScriptedAnswer {
    answer(vec![ScriptedPiece::Call { name: "file_list".to_owned(), arguments: json!({ "path": "/shared" }) }])
}

/// The commits between the message's arrival and the last settled part.
async fn commits(answers: Vec<ScriptedAnswer>, stream: StreamRule, files: Vec<FakeFile>) -> (u64, usize) {
    let mut setup = ProductSetup::for_platform(ChannelAdapter::Telegram);
    setup.capabilities.stream = stream;
    let model = ScriptedModel::new(ModelScript { pick: AnswerOrder::InOrder, answers });
    let product = Product::start(setup, Arc::new(model)).await;
    let before = product.ledger.commits();
    let record = product.send("go", files).await;
    assert_eq!(record.routing_errors(), [], "everything arrives");
    // What would come late would be counted too.
    tokio::time::sleep(Duration::from_millis(60)).await;
    let counted = product.ledger.commits() - before;
    product.stop().await;
    (counted, record.parts.len())
}

#[tokio::test]
async fn a_text_turn_costs_three_commits() {
    assert_eq!(commits(vec![text("hello")], StreamRule::None, Vec::new()).await, (3, 1));
}

#[tokio::test]
async fn n_part_reply_costs_n_plus_two_commits() {
    let long = "All work and no play makes a long text. ".repeat(250);
    assert_eq!(commits(vec![text(&long)], StreamRule::None, Vec::new()).await, (5, 3));
}

#[tokio::test]
async fn tool_call_and_outcome_cost_one_commit_each() {
    assert_eq!(commits(vec![list_files(), text("done")], StreamRule::None, Vec::new()).await, (5, 1));
    assert_eq!(commits(vec![list_files(), list_files(), text("done")], StreamRule::None, Vec::new()).await, (7, 1));
}

#[tokio::test]
async fn a_streamed_reply_costs_two_commits_more() {
    let slowly =
        ["It ", "grows ", "slowly."].map(|word| [ScriptedPiece::Text(word.to_owned()), ScriptedPiece::WaitMs(40)]);
    let growing = answer(slowly.into_iter().flatten().collect());
    assert_eq!(commits(vec![growing], StreamRule::Edits { interval_ms: 20 }, Vec::new()).await, (5, 1));
}

#[tokio::test]
async fn a_file_that_comes_in_costs_one_commit() {
    let file = FakeFile::from_bytes("a.txt", "text/plain", "the bytes of a.txt");
    assert_eq!(commits(vec![text("thanks")], StreamRule::None, vec![file]).await, (4, 1));
}

/// The database's log as it was synced, and when.
fn syncs_of<'c>(calls: &'c [SystemCall], path: &'c str) -> impl Iterator<Item = &'c SystemCall> {
    calls.iter().filter(move |call| call.is_sync() && call.text.contains(path))
}

/// The first sync of the log that began after these bytes had been written to it.
fn durable(calls: &[SystemCall], words: &str) -> usize {
    let logged = position(calls, "the words are written to the log", |call| {
        call.is_write() && call.text.contains(WAL) && call.text.contains(words)
    });
    let written = calls[logged].ended;
    let sync = syncs_of(calls, WAL).find(|call| call.begun > written);
    sync.unwrap_or_else(|| panic!("the log with {words} is never synced")).ended
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn confirmations_and_sends_follow_the_disk_write() {
    const SAID: &str = "palimpsest-in";
    const REPLIED: &str = "palimpsest-out";
    let Some(()) = required(find_strace()) else { return };
    /// What confirms the first update of the fake Telegram, as strace writes it.
    const CONFIRMATION: &str = r#"\"offset\":500000002"#;
    let adapter = ChannelAdapter::Telegram;
    let setup = ProductSetup::for_platform(adapter);
    let platform = TestPlatform::open(setup.rules).await;
    let directory = tempfile::tempdir().expect("a directory");
    let conversation = TestPlatform::conversation(adapter);
    let options = CrashOptions {
        data: directory.path().join("data"),
        shared: directory.path().join("shared"),
        tally: directory.path().join("tally"),
        reached: directory.path().join("reached"),
        done: directory.path().join("done"),
        confirms: false,
        platform: platform.address(),
        adapter,
        capabilities: setup.capabilities,
        channel: conversation.channel().clone(),
        script_worker: None,
        script: ModelScript { pick: AnswerOrder::ByProgress, answers: vec![text(REPLIED)] },
        turns: 1,
        points: None,
        crash_at: None,
    };
    std::fs::create_dir(&options.shared).expect("a directory");
    platform.person_says(&conversation, SAID);
    let mut command = Command::new(env!("CARGO_BIN_EXE_crash"));
    command.arg(serde_json::to_string(&options).expect("options are data"));
    let ran = tokio::task::spawn_blocking(move || traced(command)).await.expect("tracing does not panic");
    let calls = ran.calls;
    assert_eq!(platform.unconfirmed_updates(), 0, "{}", ran.ran.stderr);
    assert_eq!(platform.transcript().visible_texts(&conversation), [REPLIED], "{}", ran.ran.stderr);

    let heard = position(&calls, "the platform offers the message", |call| call.is_read() && call.text.contains(SAID));
    let acknowledged =
        position(&calls, "the platform is told", |call| call.is_write() && call.text.contains(CONFIRMATION));
    let on_disk = durable(&calls, SAID);
    let told = calls[acknowledged].begun;
    assert!(on_disk < told, "on disk at line {on_disk}, acknowledged at line {told}");
    let between = syncs_of(&calls, WAL).filter(|sync| sync.begun > calls[heard].ended && sync.ended < told).count();
    println!("{between} sync(s) of the log between the message's arrival and its acknowledgement");
    assert!(between >= 1);

    let sent = position(&calls, "the reply is sent", |call| {
        call.is_write() && !call.text.contains(WAL) && call.text.contains(REPLIED) && call.text.contains("socket")
    });
    let begun = durable(&calls, REPLIED);
    assert!(begun < calls[sent].begun, "on disk at line {begun}, sent at line {}", calls[sent].begun);
}

#[test]
fn file_and_directory_are_durable_before_their_row() {
    let Some(()) = required(find_strace()) else { return };
    let household = Household::new();
    let file = household.file("a.txt", "bytes that matter, once\n");
    let mut command = household.satchel(&["chat", "--once", "save this as notes/kept.txt", "--json"]);
    command.arg("--attach").arg(&file);
    let traced = traced(command);
    let calls = traced.calls;
    assert_eq!(traced.ran.code(), Some(0), "{:?}", traced.ran);
    let listed = household.run(&["attachments", "list", "--json"]).json();
    let sha256 = listed[0]["sha256"].as_str().expect("a digest").to_owned();

    // The blob: its bytes, its name, the directory of the name, and then the row.
    let written = position(&calls, "the bytes are written", |call| {
        call.is_write() && call.text.contains("/blobs/") && call.text.contains("bytes that matter")
    });
    let synced = calls.iter().find(|call| {
        call.is_sync()
            && call.begun > calls[written].ended
            && call.text.contains("/blobs/")
            && call.text.contains(".part")
    });
    let synced = synced.expect("the bytes are synced");
    let named = position(&calls, "the bytes get their name", |call| call.is_rename() && call.text.contains(&sha256));
    let directory = calls.iter().find(|call| {
        call.is_sync()
            && call.begun > calls[named].ended
            && call.text.contains("/blobs")
            && !call.text.contains(".part")
    });
    let directory = directory.expect("the name is synced");
    let row = position(&calls, "the row is written", |call| {
        call.is_write() && call.text.contains(WAL) && call.text.contains(&sha256)
    });
    assert!(synced.ended < calls[named].begun, "the bytes are on disk before they get their name");
    assert!(directory.ended < calls[row].begun, "the name is on disk before the row is written");

    // The saved copy: on disk before the tool's answer is.
    let saved = position(&calls, "the copy gets its name", |call| call.is_rename() && call.text.contains("kept.txt"));
    let below = calls.iter().find(|call| call.is_sync() && call.begun > calls[saved].ended && !call.text.contains(WAL));
    let answered = durable(&calls, "bytes_written");
    assert!(below.expect("the copy's directory is synced").ended < answered);
}
