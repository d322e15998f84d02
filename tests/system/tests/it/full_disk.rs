//! The real binary on a disk that is really full: the ledger goes on, everybody is told, nothing is lost.

mod harness;
pub(crate) mod small_disk;

use std::{collections::BTreeMap, time::Duration};

use satchel_fake_kit::FakeFile;
use satchel_fake_model::{ModelReply, ReplyPiece, RequestStatus};
use satchel_fake_telegram::{FileKind, PersonMessage, TelegramMessage};
use satchel_requirements::required;
use satchel_system::real_binary::{TestHome, run_to_end};

use self::{harness::FullDiskHarness, small_disk::SmallDisk};

/// Ann owns the bot, Ben may talk to it. Their ids are those of their chats.
const ANN: i64 = 41;
const BEN: i64 = 42;

/// The size of the disk in MiB, and 5 % of it.
const DISK_MIB: u64 = 100;
const RESERVE_BYTES: u64 = 5 << 20;

/// How long the model takes for a slow answer; meanwhile the disk is filled.
const SLOW_REPLY_DELAY: Duration = Duration::from_secs(2);

/// What is logged where a message can't be stored.
const STORE_FAILURE_LOG: &str = "storing updates failed; Telegram will redeliver them";

fn large_file(name: &str, seed: u64) -> FakeFile {
    FakeFile::generated(name, "application/octet-stream", seed, 3_000_000)
}

fn digests(files: &[&FakeFile]) -> BTreeMap<String, String> {
    files.iter().map(|file| (file.filename.clone(), file.sha256().to_string())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_leave_disk_reserve_to_the_ledger() {
    let home = TestHome::new();
    let Some(disk) = required(SmallDisk::mount(&home, DISK_MIB)) else { return };
    let harness = FullDiskHarness::open(home, disk, "").await;
    let server = harness.start();
    harness.reply_to_text(ANN, "hello").await;
    harness.disk.fill(RESERVE_BYTES + 8_000_000);
    let [first, second, third, fourth] =
        [("f1.bin", 1), ("f2.bin", 2), ("f3.bin", 3), ("f4.bin", 4)].map(|(name, seed)| large_file(name, seed));
    for kept in [&first, &second] {
        let reply = harness.reply_to_file(ANN, kept).await;
        assert!(!reply.contains("could not"), "{reply}");
    }

    let refusal = harness.reply_to_file(ANN, &third).await;
    for words in ["I couldn't accept f3.bin", "MB free, 5.2 MB is kept free for the database", "storage.reserve"] {
        assert!(refusal.contains(words), "{words} in {refusal}");
    }
    let read = harness.model.last().user_text();
    assert!(read.contains("Not taken: \"f3.bin\"") && read.contains("5.2 MB is kept free"), "{read}");
    let told = harness.reply_to_file(BEN, &large_file("b.bin", 5)).await;
    assert!(told.contains("b.bin") && told.contains("5.2 MB is kept free"), "{told}");
    assert!(told.contains("ask the person who runs this bot") && !told.contains("storage.reserve"), "{told}");
    let free = harness.disk.free_bytes();
    assert!(free > RESERVE_BYTES, "{free} bytes are free");
    println!("files are refused with {free} bytes free, {RESERVE_BYTES} of them the reserve");

    let reply = harness.reply_to_text(ANN, "still there?").await;
    assert!(!reply.is_empty());
    assert_eq!(server.stop(), Some(0), "{}", harness.summary());
    let server = harness.start();
    harness.reply_to_text(ANN, "and after a restart?").await;

    harness.disk.remove_filler();
    let reply = harness.reply_to_file(ANN, &fourth).await;
    assert!(!reply.contains("could not"), "{reply}");
    assert_eq!(server.stop(), Some(0), "{}", harness.summary());
    assert_eq!(harness.files(), digests(&[&first, &second, &fourth]));
    assert_eq!(harness.telegram.unconfirmed_updates(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledger_without_space_resumes_when_disk_is_freed() {
    let home = TestHome::new();
    let Some(disk) = required(SmallDisk::mount(&home, DISK_MIB)) else { return };
    let harness = FullDiskHarness::open(home, disk, "reserve: 0").await;
    let server = harness.start();
    let (sent_texts, late) = fill_completely(&harness).await;
    let answered = || {
        harness
            .model
            .requests()
            .iter()
            .any(|asked| asked.user_text().contains(SLOW_REQUEST) && asked.status == RequestStatus::Answered)
    };
    harness.wait_until("the slow answer ends on the full disk", answered).await;
    let once = run_to_end(&mut harness.satchel_command(&["chat", "--once", "hi"]));
    assert!(once.exit_code() == Some(1) && once.stderr.contains("no space is left for the database"), "{once:#?}");

    harness.disk.remove_filler();
    assert_nothing_is_lost(&harness, &sent_texts, &late).await;
    let slow = harness.texts(ANN).iter().filter(|text| *text == "A slow answer.").count();
    assert_eq!(slow, 1, "{}", harness.summary());
    assert_eq!(server.stop(), Some(0), "{}", harness.summary());
    assert_eq!(harness.files(), digests(&[&late]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_and_start_without_any_room_lose_nothing() {
    let home = TestHome::new();
    let Some(disk) = required(SmallDisk::mount(&home, DISK_MIB)) else { return };
    let harness = FullDiskHarness::open(home, disk, "reserve: 0").await;
    let killed = harness.start();
    let (sent_texts, late) = fill_completely(&harness).await;
    drop(killed);
    let server = harness.start();
    harness.wait_until("the next process is stuck too", || harness.log().matches(STORE_FAILURE_LOG).count() == 2).await;

    harness.disk.remove_filler();
    assert_nothing_is_lost(&harness, &sent_texts, &late).await;
    assert_eq!(server.stop(), Some(0), "{}", harness.summary());
    assert_eq!(harness.files(), digests(&[&late]));
}

/// What Ann says that the model answers slowly.
const SLOW_REQUEST: &str = "think slowly";

/// Fills the disk while Ann's turn runs, and lets Ben write until nothing can be stored any more: what he wrote, and
/// the file that he sent last.
async fn fill_completely(harness: &FullDiskHarness) -> (Vec<String>, FakeFile) {
    harness.reply_to_text(ANN, "hello").await;
    let pieces = [
        ReplyPiece::Text("A slow".to_owned()),
        ReplyPiece::Wait(SLOW_REPLY_DELAY),
        ReplyPiece::Text(" answer.".to_owned()),
    ];
    harness.model.reply(ModelReply::pieces(pieces).when(SLOW_REQUEST));
    harness.telegram.person_says(ANN, ANN, SLOW_REQUEST);
    harness.wait_until("the model is asked", || harness.has_model_read(SLOW_REQUEST)).await;
    harness.disk.fill(0);

    // What room the database has within its own files is used up first.
    let mut sent_texts = Vec::new();
    while !harness.log().contains(STORE_FAILURE_LOG) {
        assert!(sent_texts.len() < 400, "the database never runs out of room\n{}", harness.summary());
        let text = format!("message-{:03}. {}", sent_texts.len(), "All work and no play. ".repeat(100));
        harness.telegram.person_says(BEN, BEN, &text);
        sent_texts.push(text);
        let taken = || harness.telegram.unconfirmed_updates() == 0 || harness.log().contains(STORE_FAILURE_LOG);
        harness.wait_until("the message is taken or not", taken).await;
    }
    let late = large_file("late.bin", 9);
    harness.telegram.person_sends(BEN, BEN, PersonMessage::file(FileKind::Document, late.clone()).caption("keep this"));
    let waiting = harness.telegram.unconfirmed_updates();
    assert!(waiting > 0, "{}", harness.summary());
    println!("{} messages until the ledger is full; {waiting} updates wait at the platform", sent_texts.len());
    (sent_texts, late)
}

/// Waits until everything that people wrote is taken, read by the model once, and answered.
async fn assert_nothing_is_lost(harness: &FullDiskHarness, sent_texts: &[String], late: &FakeFile) {
    harness.wait_until("everything is taken", || harness.telegram.unconfirmed_updates() == 0).await;
    let is_read =
        || sent_texts.iter().all(|text| harness.has_model_read(text)) && harness.has_model_read(&late.filename);
    harness.wait_until("everything is read", is_read).await;
    // Ann's slow answer is the second of hers.
    harness.wait_until("Ann is answered", || harness.texts(ANN).len() >= 2).await;
    harness.telegram.person_says(BEN, BEN, "all there?");
    harness.wait_until("Ben's last words are read", || harness.has_model_read("all there?")).await;
    let is_answered = || harness.telegram.transcript().visible(BEN).last().is_some_and(TelegramMessage::own);
    harness.wait_until("they are answered", is_answered).await;
    let asked = harness.model.requests();
    let read = asked.iter().rfind(|asked| asked.user_text().contains("all there?")).expect("it is read").user_text();
    for text in sent_texts {
        assert_eq!(read.matches(text.as_str()).count(), 1, "{text} in {read}");
    }
}
