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
    crash::{ChannelAdapter, CrashOptions, storage::StorageOptions},
    real_binary::TestHome,
};
use serde_json::json;

pub(crate) use self::system_calls::find_strace;
use self::system_calls::{SystemCall, find_position, run_traced};
use crate::{
    product::{Product, ProductSetup},
    test_platform::TestPlatform,
};

const WAL: &str = "satchel.db-wal";

fn scripted_answer(pieces: Vec<ScriptedPiece>) -> ScriptedAnswer {
    ScriptedAnswer { pieces, ..ScriptedAnswer::default() }
}

fn text_answer(body: &str) -> ScriptedAnswer {
    scripted_answer(vec![ScriptedPiece::Text(body.to_owned())])
}

fn list_files_answer() -> ScriptedAnswer {
    scripted_answer(vec![ScriptedPiece::Call { name: "file_list".to_owned(), arguments: json!({ "path": "/shared" }) }])
}

/// The commits between the message's arrival and the last settled part.
async fn count_commits(answers: Vec<ScriptedAnswer>, stream: StreamRule, files: Vec<FakeFile>) -> (u64, usize) {
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
async fn text_turn_costs_three_commits() {
    assert_eq!(count_commits(vec![text_answer("hello")], StreamRule::None, Vec::new()).await, (3, 1));
}

#[tokio::test]
async fn n_part_reply_costs_n_plus_two_commits() {
    let long = "All work and no play makes a long text. ".repeat(250);
    assert_eq!(count_commits(vec![text_answer(&long)], StreamRule::None, Vec::new()).await, (5, 3));
}

#[tokio::test]
async fn tool_call_and_outcome_cost_one_commit_each() {
    assert_eq!(
        count_commits(vec![list_files_answer(), text_answer("done")], StreamRule::None, Vec::new()).await,
        (5, 1)
    );
    assert_eq!(
        count_commits(
            vec![list_files_answer(), list_files_answer(), text_answer("done")],
            StreamRule::None,
            Vec::new()
        )
        .await,
        (7, 1)
    );
}

fn growing_answer() -> ScriptedAnswer {
    let slowly =
        ["It ", "grows ", "slowly."].map(|word| [ScriptedPiece::Text(word.to_owned()), ScriptedPiece::WaitMs(40)]);
    scripted_answer(slowly.into_iter().flatten().collect())
}

#[tokio::test]
async fn streamed_reply_costs_two_more_commits() {
    assert_eq!(count_commits(vec![growing_answer()], StreamRule::Edits { interval_ms: 20 }, Vec::new()).await, (5, 1));
}

#[tokio::test]
async fn previewed_reply_costs_no_further_commit() {
    let previews = StreamRule::Previews { interval_ms: 20, ttl_ms: 30_000 };
    assert_eq!(count_commits(vec![growing_answer()], previews, Vec::new()).await, (3, 1));
}

#[tokio::test]
async fn inbound_file_costs_one_commit() {
    let file = FakeFile::from_bytes("a.txt", "text/plain", "the bytes of a.txt");
    assert_eq!(count_commits(vec![text_answer("thanks")], StreamRule::None, vec![file]).await, (4, 1));
}

/// The database's log as it was synced, and when.
fn find_syncs<'c>(calls: &'c [SystemCall], path: &'c str) -> impl Iterator<Item = &'c SystemCall> {
    calls.iter().filter(move |call| call.is_sync() && call.text.contains(path))
}

/// The first sync of the log that began after these bytes had been written to it.
fn find_durable_line(calls: &[SystemCall], text: &str) -> usize {
    let write_index = find_position(calls, "the words are written to the log", |call| {
        call.is_write() && call.text.contains(WAL) && call.text.contains(text)
    });
    let written = calls[write_index].end_line;
    let sync = find_syncs(calls, WAL).find(|call| call.start_line > written);
    sync.unwrap_or_else(|| panic!("the log with {text} is never synced")).end_line
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn confirmations_and_sends_follow_the_disk_write() {
    const INBOUND_TEXT: &str = "palimpsest-in";
    const REPLY_TEXT: &str = "palimpsest-out";
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
        storage: StorageOptions::Disk,
        shared: directory.path().join("shared"),
        tally: directory.path().join("tally"),
        reached: directory.path().join("reached"),
        done: directory.path().join("done"),
        confirms: false,
        reminds: false,
        notifies: false,
        platform: platform.address(),
        adapter,
        capabilities: setup.capabilities,
        channel: conversation.channel().clone(),
        playbook: None,
        script_worker: None,
        script: ModelScript { pick: AnswerOrder::ByProgress, answers: vec![text_answer(REPLY_TEXT)] },
        turns: 1,
        points: None,
        crash_at: None,
    };
    std::fs::create_dir(&options.shared).expect("a directory");
    platform.person_says(&conversation, INBOUND_TEXT);
    let mut command = Command::new(env!("CARGO_BIN_EXE_crash"));
    command.arg(serde_json::to_string(&options).expect("options are data"));
    let output = tokio::task::spawn_blocking(move || run_traced(command)).await.expect("tracing does not panic");
    let calls = output.calls;
    assert_eq!(platform.unconfirmed_updates(), 0, "{}", output.output.stderr);
    assert_eq!(platform.transcript().visible_texts(&conversation), [REPLY_TEXT], "{}", output.output.stderr);

    let received = find_position(&calls, "the platform offers the message", |call| {
        call.is_read() && call.text.contains(INBOUND_TEXT)
    });
    let acknowledged =
        find_position(&calls, "the platform is told", |call| call.is_write() && call.text.contains(CONFIRMATION));
    let on_disk = find_durable_line(&calls, INBOUND_TEXT);
    let acknowledged_line = calls[acknowledged].start_line;
    assert!(on_disk < acknowledged_line, "on disk at line {on_disk}, acknowledged at line {acknowledged_line}");
    let between = find_syncs(&calls, WAL)
        .filter(|sync| sync.start_line > calls[received].end_line && sync.end_line < acknowledged_line)
        .count();
    println!("{between} sync(s) of the log between the message's arrival and its acknowledgement");
    assert!(between >= 1);

    let sent = find_position(&calls, "the reply is sent", |call| {
        call.is_write() && !call.text.contains(WAL) && call.text.contains(REPLY_TEXT) && call.text.contains("socket")
    });
    let reply_durable = find_durable_line(&calls, REPLY_TEXT);
    assert!(
        reply_durable < calls[sent].start_line,
        "on disk at line {reply_durable}, sent at line {}",
        calls[sent].start_line
    );
}

#[test]
fn file_and_directory_are_durable_before_their_row() {
    let Some(()) = required(find_strace()) else { return };
    let home = TestHome::new();
    let file = home.write_file("a.txt", "bytes that matter, once\n");
    let mut command = home.satchel_command(&["chat", "--once", "save this as notes/kept.txt", "--json"]);
    command.arg("--attach").arg(&file);
    let traced = run_traced(command);
    let calls = traced.calls;
    assert_eq!(traced.output.exit_code(), Some(0), "{:?}", traced.output);
    let listed = home.run(&["attachments", "list", "--json"]).json();
    let sha256 = listed[0]["sha256"].as_str().expect("a digest").to_owned();

    // The blob: its bytes, its name, the directory of the name, and then the row.
    let written = find_position(&calls, "the bytes are written", |call| {
        call.is_write() && call.text.contains("/blobs/") && call.text.contains("bytes that matter")
    });
    let synced = calls.iter().find(|call| {
        call.is_sync()
            && call.start_line > calls[written].end_line
            && call.text.contains("/blobs/")
            && call.text.contains(".part")
    });
    let synced = synced.expect("the bytes are synced");
    let named =
        find_position(&calls, "the bytes get their name", |call| call.is_rename() && call.text.contains(&sha256));
    let directory = calls.iter().find(|call| {
        call.is_sync()
            && call.start_line > calls[named].end_line
            && call.text.contains("/blobs")
            && !call.text.contains(".part")
    });
    let directory = directory.expect("the name is synced");
    let row = find_position(&calls, "the row is written", |call| {
        call.is_write() && call.text.contains(WAL) && call.text.contains(&sha256)
    });
    assert!(synced.end_line < calls[named].start_line, "the bytes are on disk before they get their name");
    assert!(directory.end_line < calls[row].start_line, "the name is on disk before the row is written");

    // The saved copy: on disk before the tool's answer is.
    let saved =
        find_position(&calls, "the copy gets its name", |call| call.is_rename() && call.text.contains("kept.txt"));
    let below =
        calls.iter().find(|call| call.is_sync() && call.start_line > calls[saved].end_line && !call.text.contains(WAL));
    let answered = find_durable_line(&calls, "bytes_written");
    assert!(below.expect("the copy's directory is synced").end_line < answered);
}
