//! The deletion of a conversation on the page, whole and cut short, and what it leaves on the disk.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{Conversations, ledger::ForgetConversationOutcome};
use satchel_system::real_binary::TestHome;
use serde_json::{Value, json};

use super::server_process::ServerProcess;

/// Words that are in what is said and written, and nowhere else.
const SAYING: &str = "write plan.txt: the xylophone plan";

fn workspace(home: &TestHome) -> PathBuf {
    home.data_directory().join("workspaces/web=test")
}

async fn search(server: &ServerProcess) -> Value {
    let (status, found) = server.get("/api/search?q=xylophone").await;
    assert_eq!(status, 200, "{found}");
    serde_json::from_str(&found).expect("it is JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_conversation_goes_with_its_workspace() {
    let home = TestHome::new();
    let server = ServerProcess::start(&home, &["--set", "model=offline"]);
    let turn = server.send_and_wait(SAYING).await;
    let parts = turn["parts"].as_array().into_iter().flatten();
    let file = parts.filter_map(|part| part["files"][0]["url"].as_str()).next().expect("the file was sent").to_owned();
    assert!(workspace(&home).join("shared/plan.txt").is_file());
    assert_eq!(search(&server).await["hits"][0]["conversation"], "web:test");
    assert_eq!(server.get(&file).await.0, 200);

    server.send_and_wait("/remind 2030-01-01 09:00 fireworks").await;
    let listed = server.send_and_wait("/schedules").await;
    assert!(listed.to_string().contains("fireworks"), "{listed:#}");
    assert_eq!(server.delete("/api/conversations/test").await, 204);
    assert!(!workspace(&home).exists(), "its files are gone");
    assert_eq!(server.get(&file).await.0, 404);
    assert_eq!(search(&server).await["hits"], json!([]));
    // A client that never got its answer repeats its message.
    let repeated = server.send(SAYING, &[]).await;
    assert_eq!(repeated, turn["id"], "it is still known");
    let (_, turns) = server.get("/api/conversations/test/turns").await;
    assert!(turns.contains(r#""turns":[]"#), "it isn't answered again: {turns}");
    assert_eq!(server.delete("/api/conversations/test").await, 404);
    let listed = server.send_and_wait("/Schedules").await;
    assert!(listed.to_string().contains("There are no reminders."), "its reminders are gone: {listed:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn command_forgets_all_once_it_is_confirmed() {
    let home = TestHome::new();
    let server = ServerProcess::start(&home, &["--set", "model=offline"]);
    let turn = server.send_and_wait(SAYING).await;
    let said = |turn: &Value| turn["parts"][0]["text"].as_str().unwrap_or_default().to_owned();
    let asked = said(&server.send_and_wait("/forget all").await);
    assert!(asked.contains("for good?") && asked.contains("1 file") && asked.contains("/forget all yes"), "{asked}");
    assert_eq!(said(&server.send_and_wait("/forget all no").await), "Nothing was removed.");
    assert!(workspace(&home).join("shared/plan.txt").is_file());

    let asked = said(&server.send_and_wait("/forget all yes").await);
    assert!(asked.contains("for good?"), "what was declined is asked again: {asked}");
    server.send_and_wait("/forget ALL").await;
    let done = server.send_and_wait("/forget ALL yes").await;
    assert!(said(&done).starts_with("Removed."), "{done:#}");
    assert!(!workspace(&home).exists(), "its files are gone");
    assert_eq!(search(&server).await["hits"], json!([]));
    let (_, turns) = server.get("/api/conversations/test/turns").await;
    let turns: Value = serde_json::from_str(&turns).expect("it is JSON");
    assert_eq!(turns["turns"].as_array().map(Vec::len), Some(1), "{turns:#}");
    assert_eq!(server.send(SAYING, &[]).await, turn["id"], "a repeated message is still known");
    let listed = server.send_and_wait("/files").await;
    assert!(!listed.to_string().contains("plan.txt"), "{listed:#}");
}

/// The files beneath a directory whose names begin so and in which the word of [`SAYING`] stands.
fn files_with_the_word(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory of ours can be listed").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with_the_word(&path, prefix));
        } else if entry.file_name().to_string_lossy().starts_with(prefix) {
            let bytes = fs::read(&path).expect("a file of ours can be read");
            if bytes.windows(9).any(|window| window == b"xylophone") {
                found.push(path);
            }
        }
    }
    found
}

/// The bytes of the conversation's files are not looked at: those that came within the last hour go with the next collection.
#[tokio::test(flavor = "multi_thread")]
async fn forgotten_words_leave_disk_and_later_backups() {
    let home = TestHome::new();
    let server = ServerProcess::start(&home, &["--set", "model=offline"]);
    server.send_and_wait(SAYING).await;
    server.send_and_wait("read plan.txt").await;
    assert_eq!(search(&server).await["hits"][0]["conversation"], "web:test");
    assert!(!files_with_the_word(&home.data_directory(), "satchel.db").is_empty());
    server.send_and_wait("/forget all").await;
    server.send_and_wait("/forget all yes").await;
    server.send_and_wait("/usage").await;
    server.send_signal("TERM");
    let output = server.wait_for_exit();
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    assert_eq!(files_with_the_word(&home.data_directory(), "satchel.db"), [] as [PathBuf; 0]);

    let backups = home.root().join("backups");
    let backup = home.run(&["backup", "create", backups.to_str().expect("temporary directories have UTF-8 names")]);
    assert_eq!(backup.exit_code(), Some(0), "{backup:#?}");
    assert_eq!(files_with_the_word(&backups, ""), [] as [PathBuf; 0]);
}

/// The word is in the name of a file alone, of which only its number stays.
#[tokio::test(flavor = "multi_thread")]
async fn forgotten_file_leaves_disk_and_later_backups() {
    let home = TestHome::new();
    let server = ServerProcess::start(&home, &["--set", "model=offline"]);
    let upload = server.upload("xylophone.txt", "some words").await;
    let turn = server.send("write other.txt: more words", &[upload]).await;
    server.wait_for_reply(&turn).await;
    assert_eq!(search(&server).await["hits"][0]["conversation"], "web:test");
    assert!(!files_with_the_word(&home.data_directory(), "satchel.db").is_empty());
    let done = server.send_and_wait("/forget 1").await;
    assert!(done["parts"][0]["text"].as_str().is_some_and(|text| text.starts_with("Removed #1")), "{done:#}");
    assert_eq!(search(&server).await["hits"], json!([]));
    server.send_signal("TERM");
    let output = server.wait_for_exit();
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    assert_eq!(files_with_the_word(&home.data_directory(), "satchel.db"), [] as [PathBuf; 0]);

    let backups = home.root().join("backups");
    let backup = home.run(&["backup", "create", backups.to_str().expect("temporary directories have UTF-8 names")]);
    assert_eq!(backup.exit_code(), Some(0), "{backup:#?}");
    assert_eq!(files_with_the_word(&backups, ""), [] as [PathBuf; 0]);
}

/// The process dies between the commit and the removal of the workspace. The next one removes it before anybody can be
/// answered there.
#[tokio::test(flavor = "multi_thread")]
async fn deletion_that_a_kill_cut_short_is_finished() {
    let home = TestHome::new();
    let server = ServerProcess::start(&home, &["--set", "model=offline"]);
    server.send_and_wait(SAYING).await;
    server.send_signal("KILL");
    server.wait_for_exit();
    let (data, clock) = (home.data_directory(), Arc::new(SystemClock::new()));
    let ledger = SqliteLedger::open(&data, Settings::default(), clock, Arc::new(UuidV7)).await;
    let ledger = ledger.expect("it can be opened");
    let forgotten = ledger.forget_conversation(&"web:test".parse().expect("it is an id")).await;
    assert!(matches!(forgotten, Ok(ForgetConversationOutcome::Forgotten(_))), "{forgotten:?}");
    drop(ledger);
    assert!(workspace(&home).join("shared/plan.txt").is_file());

    let server = ServerProcess::start(&home, &["--set", "model=offline"]);
    let listed = server.send_and_wait("/tool file_list {\"path\": \"/shared\"}").await;
    assert!(!listed.to_string().contains("plan.txt"), "{listed:#}");
    assert!(!workspace(&home).join("shared/plan.txt").exists());
    let leftovers = || {
        let left = fs::read_dir(home.data_directory().join("workspaces")).into_iter().flatten().flatten();
        left.filter(|entry| entry.file_name().to_string_lossy().starts_with(".discarded")).count()
    };
    let started_at = Instant::now();
    while leftovers() > 0 {
        assert!(started_at.elapsed() < Duration::from_secs(60), "what was being removed stays on the disk");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(search(&server).await["hits"].as_array().map(Vec::len), Some(0));
}
