//! A move that was cut off is finished by the next one, and never ends in two ledgers that start.

use std::path::Path;

use satchel_domain::{InboundMessage, Sender};
use satchel_ports::{Inbox, ledger::ClaimMode};

use super::*;
use crate::{
    cli::MigrateOptions,
    config::{self, ConfigSources},
};

fn config(directory: &Path) -> Config {
    let sources = ConfigSources { file: None, set: &[], environment: &[], cwd: directory };
    let text = format!("storage: {{ data_dir: '{}' }}", directory.display());
    config::load_text(Path::new("satchel.yaml"), &text, &sources)
        .expect("it is valid")
        .into_config()
        .expect("it is built")
}

async fn receive(config: &Config, key: &str) {
    let ledger = stores::open_ledger(config.storage.data_dir()).await.expect("it can be opened");
    let conversation = "web:a".parse().expect("a conversation");
    let message = InboundMessage::new(conversation, key.to_owned(), Sender::new("1", "Ann"));
    ledger.receive(&message, ClaimMode::Never).await.expect("it is stored");
}

/// Why a process does not start on a ledger.
async fn refusal(config: &Config) -> String {
    let refused = stores::open_ledger(config.storage.data_dir()).await.expect_err("it must not start");
    format!("{refused:#}")
}

/// Runs the command.
async fn migrate(old: &Config, new: &Config) -> anyhow::Result<String> {
    let options = MigrateOptions { to: "new.yaml".into(), skip_lost: false };
    let mut out = Vec::new();
    super::super::run(&options, old, new, &mut out).await?;
    Ok(String::from_utf8(out).expect("it is text"))
}

/// Makes the first commit of a move, the copy; returns the old ledger.
async fn publish_copy(old: &Config, new: &Config) -> Box<dyn ExclusiveLedger> {
    let mut source = stores::open_exclusive(old).await.expect("it is free");
    let mut target = open_target(new, &mut *source, &stores::ledger_location(old)).await.expect("it is empty");
    assert!(!target.is_complete);
    copy_rows(&mut *source, &mut *target.ledger, &|_| ()).await.expect("they work");
    target.ledger.publish(&stores::ledger_location(old).to_string()).await.expect("it is committed");
    source
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn move_that_was_cut_off_is_finished() {
    let (old_dir, new_dir) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (old, new) = (config(old_dir.path()), config(new_dir.path()));
    receive(&old, "1").await;

    // Killed before the commit.
    let mut source = stores::open_exclusive(&old).await.expect("it is free");
    let mut target = open_target(&new, &mut *source, &stores::ledger_location(&old)).await.expect("it is empty");
    copy_rows(&mut *source, &mut *target.ledger, &|_| ()).await.expect("they work");
    drop((source, target));

    // Killed between the commit and the mark: only the old one starts.
    drop(publish_copy(&old, &new).await);
    let refused = refusal(&new).await;
    assert!(refused.contains(&format!("a copy of the ledger in {}", old_dir.path().display())), "{refused}");
    drop(stores::open_ledger(old_dir.path()).await.expect("nothing has marked it"));

    let mut source = stores::open_exclusive(&old).await.expect("it is free");
    let target = open_target(&new, &mut *source, &stores::ledger_location(&old)).await.expect("it is the same ledger");
    assert!(target.is_complete, "nothing is copied again");
    drop((source, target));
    let moved = migrate(&old, &new).await.expect("it goes on");
    assert!(moved.contains("rows, read back and equal"), "{moved}");
    let refused = refusal(&old).await;
    assert!(refused.contains(&format!("was moved to {}", new_dir.path().display())), "{refused}");
    receive(&new, "2").await;
    let again = format!("{:#}", migrate(&old, &new).await.expect_err("it was moved"));
    assert!(again.contains("was moved to"), "{again}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn move_cut_off_behind_the_mark_is_finished() {
    let (old_dir, new_dir) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (old, new) = (config(old_dir.path()), config(new_dir.path()));
    receive(&old, "1").await;
    let source = publish_copy(&old, &new).await;
    source.retire(&stores::ledger_location(&new).to_string()).await.expect("it is marked");
    // Neither starts.
    let refused = [refusal(&old).await, refusal(&new).await];
    assert!(refused[0].contains("was moved to") && refused[1].contains("run the same command again"), "{refused:?}");
    let moved = migrate(&old, &new).await.expect("it goes on");
    assert!(moved.contains("starts there now") && moved.contains("start with: satchel run"), "{moved}");
    receive(&new, "2").await;
    assert!(refusal(&old).await.contains("was moved to"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_ledger_that_went_on_is_not_left() {
    let (old_dir, new_dir) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (old, new) = (config(old_dir.path()), config(new_dir.path()));
    receive(&old, "1").await;
    drop(publish_copy(&old, &new).await);
    receive(&old, "2").await;
    let refused = format!("{:#}", migrate(&new, &old).await.expect_err("it is no original"));
    assert!(refused.contains("finish that move first"), "{refused}");
    receive(&old, "3").await;
    migrate(&old, &new).await.expect("the copy makes room");
    assert!(refusal(&old).await.contains("was moved to"));
    for key in ["1", "2", "3"] {
        assert!(is_stored(&new, key).await, "{key}");
    }
    assert!(!is_stored(&new, "4").await);
}

/// What doesn't go on from the copy is another ledger, though it is where the copied one was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_makes_no_room_for_another_ledger() {
    let (old_dir, new_dir) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (old, new) = (config(old_dir.path()), config(new_dir.path()));
    receive(&old, "1").await;
    drop(publish_copy(&old, &new).await);
    lose_database(old_dir.path());
    receive(&old, "2").await;
    let refused = format!("{:#}", migrate(&old, &new).await.expect_err("it is another ledger"));
    assert!(refused.contains("it lacks what that had"), "{refused}");
    let elsewhere_dir = tempfile::tempdir().expect("a directory");
    let elsewhere = config(elsewhere_dir.path());
    receive(&elsewhere, "3").await;
    let refused = format!("{:#}", migrate(&elsewhere, &new).await.expect_err("it was copied from somewhere else"));
    assert!(refused.contains("of a move that was cut off, of the ledger in"), "{refused}");
    assert!(refusal(&new).await.contains("a copy of the ledger in"), "nothing was removed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn target_that_has_gone_on_is_another_ledger() {
    let (old_dir, new_dir) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (old, new) = (config(old_dir.path()), config(new_dir.path()));
    receive(&old, "1").await;
    receive(&new, "1").await;
    let mut source = stores::open_exclusive(&old).await.expect("it is free");
    let refused =
        open_target(&new, &mut *source, &stores::ledger_location(&old)).await.err().expect("it holds another ledger");
    assert!(refused.to_string().contains("holds another ledger already"), "{refused:#}");
}

/// Whether a message of this key was stored; it is from then on.
async fn is_stored(config: &Config, key: &str) -> bool {
    let ledger = stores::open_ledger(config.storage.data_dir()).await.expect("it can be opened");
    let message =
        InboundMessage::new("web:a".parse().expect("a conversation"), key.to_owned(), Sender::new("1", "Ann"));
    ledger.receive(&message, ClaimMode::Never).await.expect("it is stored").duplicate
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn way_back_is_the_same_command_with_the_configurations_exchanged() {
    let (old_dir, new_dir) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (old, new) = (config(old_dir.path()), config(new_dir.path()));
    receive(&old, "1").await;
    migrate(&old, &new).await.expect("it moves");
    receive(&new, "2").await;

    // Cut off before the commit: the old one starts as little as before.
    let mut source = stores::open_exclusive(&new).await.expect("it is free");
    let mut target = open_target(&old, &mut *source, &stores::ledger_location(&new)).await.expect("it makes room");
    copy_rows(&mut *source, &mut *target.ledger, &|_| ()).await.expect("they work");
    drop((source, target));
    assert!(refusal(&old).await.contains("with the two configurations exchanged"));

    // Cut off between the commit and the mark, whereupon the other one goes on.
    drop(publish_copy(&new, &old).await);
    receive(&new, "2b").await;

    migrate(&new, &old).await.expect("it moves back");
    assert!(is_stored(&old, "2b").await);
    assert!(refusal(&new).await.contains(&format!("was moved to {}", old_dir.path().display())));
    assert!(is_stored(&old, "1").await && is_stored(&old, "2").await && !is_stored(&old, "3").await);
    migrate(&old, &new).await.expect("and there again");
    assert!(is_stored(&new, "3").await);
}

/// Loses the database in a directory, as a disk does.
fn lose_database(directory: &Path) {
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        if entry.file_name().to_string_lossy().starts_with("satchel.db") {
            std::fs::remove_file(entry.path()).expect("the disk was lost");
        }
    }
}

/// The old ledger is the last copy of everything that was said before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledger_that_was_moved_makes_no_room_for_one_that_has_more() {
    for moved in [1, 0] {
        let (old_dir, new_dir) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let (old, new) = (config(old_dir.path()), config(new_dir.path()));
        let ledger = stores::open_ledger(old_dir.path()).await.expect("it can be opened");
        // A ledger that nobody has written to yet can't be recognised by its turns.
        let channel = satchel_domain::ChannelName::new("web").expect("a name");
        ledger.save_checkpoint(&channel, &serde_json::json!(7)).await.expect("it is stored");
        drop(ledger);
        for key in 0..moved {
            receive(&old, &key.to_string()).await;
        }
        migrate(&old, &new).await.expect("it moves");
        lose_database(new_dir.path());
        for key in 10..15 {
            receive(&new, &key.to_string()).await;
        }
        let refused = format!("{:#}", migrate(&new, &old).await.expect_err("it is another ledger"));
        assert!(refused.contains("isn't the one that was moved there"), "{refused}");
        assert!(refusal(&old).await.contains("was moved to"), "nothing was removed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledger_that_was_moved_makes_no_room_for_another_one() {
    let (old_dir, new_dir) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (old, new) = (config(old_dir.path()), config(new_dir.path()));
    receive(&old, "1").await;
    receive(&old, "2").await;
    migrate(&old, &new).await.expect("it moves");
    lose_database(new_dir.path());
    receive(&new, "3").await;
    let refused = format!("{:#}", migrate(&new, &old).await.expect_err("it is another ledger"));
    assert!(refused.contains("isn't the one that was moved there"), "{refused}");
    assert!(refusal(&old).await.contains("was moved to"), "nothing was removed");

    let elsewhere_dir = tempfile::tempdir().expect("a directory");
    let elsewhere = config(elsewhere_dir.path());
    receive(&elsewhere, "4").await;
    let refused = format!("{:#}", migrate(&elsewhere, &old).await.expect_err("it was moved elsewhere"));
    assert!(refused.contains("was moved to"), "{refused}");
}
