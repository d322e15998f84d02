//! A move that was cut off is finished by the next one, and never ends in two ledgers that start.

use std::path::Path;

use satchel_domain::{InboundMessage, Sender};
use satchel_ports::{Inbox, ledger::ClaimMode};

use super::*;
use crate::config::{self, ConfigSources};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn move_that_was_cut_off_is_finished() {
    let (old_dir, new_dir) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (old, new) = (config(old_dir.path()), config(new_dir.path()));
    receive(&old, "1").await;

    // Killed before the commit.
    let mut source = stores::open_exclusive(&old).await.expect("it is free");
    let mut target = open_target(&new, &mut *source).await.expect("it is empty");
    copy_rows(&mut *source, &mut *target.ledger, &|_| ()).await.expect("they work");
    drop((source, target));

    // Killed between the commit and the mark.
    let mut source = stores::open_exclusive(&old).await.expect("it is free");
    let mut target = open_target(&new, &mut *source).await.expect("it is empty still");
    assert!(!target.is_complete);
    copy_rows(&mut *source, &mut *target.ledger, &|_| ()).await.expect("they work");
    target.ledger.publish().await.expect("it is committed");
    drop(source);

    let mut source = stores::open_exclusive(&old).await.expect("it is free");
    let target = open_target(&new, &mut *source).await.expect("it is the same ledger");
    assert!(target.is_complete);
    let rows = copy(source, target, &stores::ledger_location(&new)).await.expect("they work");
    assert!(rows >= 3, "{rows}");
    let refused = stores::open_ledger(old_dir.path()).await.expect_err("it was moved");
    assert!(format!("{refused:#}").contains(&format!("was moved to {}", new_dir.path().display())), "{refused:#}");
    receive(&new, "2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn target_that_has_gone_on_is_another_ledger() {
    let (old_dir, new_dir) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (old, new) = (config(old_dir.path()), config(new_dir.path()));
    receive(&old, "1").await;
    receive(&new, "1").await;
    let mut source = stores::open_exclusive(&old).await.expect("it is free");
    let refused = open_target(&new, &mut *source).await.err().expect("it holds another ledger");
    assert!(refused.to_string().contains("holds another ledger already"), "{refused:#}");
}
