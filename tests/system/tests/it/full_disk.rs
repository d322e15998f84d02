//! The real binary on a disk that is really full: the ledger goes on, everybody is told, nothing is lost.

mod scene;
mod small_disk;

use std::{collections::BTreeMap, time::Duration};

use satchel_fake_kit::FakeFile;
use satchel_fake_model::{ModelReply, ReplyPiece, RequestStatus};
use satchel_fake_telegram::{FileKind, PersonMessage, TelegramMessage};
use satchel_requirements::required;
use satchel_system::real_binary::{Household, finish};

use self::{scene::Scene, small_disk::SmallDisk};

/// Ann owns the bot, Ben may talk to it. Their ids are those of their chats.
const ANN: i64 = 41;
const BEN: i64 = 42;

/// The size of the disk in MiB, and 5 % of it.
const DISK_MIB: u64 = 100;
const RESERVE: u64 = 5 << 20;

/// How long the model takes for a slow answer; meanwhile the disk is filled.
const SLOW: Duration = Duration::from_secs(2);

/// What is logged where a message can't be stored.
const STUCK: &str = "storing updates failed; Telegram will redeliver them";

fn file(name: &str, seed: u64) -> FakeFile {
    FakeFile::generated(name, "application/octet-stream", seed, 3_000_000)
}

fn digests(files: &[&FakeFile]) -> BTreeMap<String, String> {
    files.iter().map(|file| (file.filename.clone(), file.sha256().to_string())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_leave_disk_reserve_to_the_ledger() {
    let household = Household::new();
    let Some(disk) = required(SmallDisk::mount(&household, DISK_MIB)) else { return };
    let scene = Scene::open(household, disk, "").await;
    let server = scene.start();
    scene.reply_to_text(ANN, "hello").await;
    scene.disk.fill(RESERVE + 8_000_000);
    let [first, second, third, fourth] =
        [("f1.bin", 1), ("f2.bin", 2), ("f3.bin", 3), ("f4.bin", 4)].map(|(name, seed)| file(name, seed));
    for kept in [&first, &second] {
        let reply = scene.reply_to_file(ANN, kept).await;
        assert!(!reply.contains("could not"), "{reply}");
    }

    let told = scene.reply_to_file(ANN, &third).await;
    for words in ["I couldn't accept f3.bin", "MB free, 5.2 MB is kept free for the database", "storage.reserve"] {
        assert!(told.contains(words), "{words} in {told}");
    }
    let read = scene.model.last().user_text();
    assert!(read.contains("Not taken: \"f3.bin\"") && read.contains("5.2 MB is kept free"), "{read}");
    let told = scene.reply_to_file(BEN, &file("b.bin", 5)).await;
    assert!(told.contains("b.bin") && told.contains("5.2 MB is kept free"), "{told}");
    assert!(told.contains("ask the person who runs this bot") && !told.contains("storage.reserve"), "{told}");
    let free = scene.disk.free();
    assert!(free > RESERVE, "{free} bytes are free");
    println!("files are refused with {free} bytes free, {RESERVE} of them the reserve");

    let reply = scene.reply_to_text(ANN, "still there?").await;
    assert!(!reply.is_empty());
    assert_eq!(server.stop(), Some(0), "{}", scene.known());
    let server = scene.start();
    scene.reply_to_text(ANN, "and after a restart?").await;

    scene.disk.clear();
    let reply = scene.reply_to_file(ANN, &fourth).await;
    assert!(!reply.contains("could not"), "{reply}");
    assert_eq!(server.stop(), Some(0), "{}", scene.known());
    assert_eq!(scene.files(), digests(&[&first, &second, &fourth]));
    assert_eq!(scene.telegram.unconfirmed_updates(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledger_without_space_resumes_when_disk_is_freed() {
    let household = Household::new();
    let Some(disk) = required(SmallDisk::mount(&household, DISK_MIB)) else { return };
    let scene = Scene::open(household, disk, "reserve: 0").await;
    let server = scene.start();
    let (said, late) = fill_to_the_last_byte(&scene).await;
    let answered = || {
        scene
            .model
            .requests()
            .iter()
            .any(|asked| asked.user_text().contains(SLOWLY) && asked.status == RequestStatus::Answered)
    };
    scene.until("the slow answer ends on the full disk", answered).await;
    let once = finish(&mut scene.satchel(&["chat", "--once", "hi"]));
    assert!(once.code() == Some(1) && once.stderr.contains("no space is left for the database"), "{once:#?}");

    scene.disk.clear();
    assert_nothing_is_lost(&scene, &said, &late).await;
    let slow = scene.texts(ANN).iter().filter(|text| *text == "A slow answer.").count();
    assert_eq!(slow, 1, "{}", scene.known());
    assert_eq!(server.stop(), Some(0), "{}", scene.known());
    assert_eq!(scene.files(), digests(&[&late]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_and_start_without_any_room_lose_nothing() {
    let household = Household::new();
    let Some(disk) = required(SmallDisk::mount(&household, DISK_MIB)) else { return };
    let scene = Scene::open(household, disk, "reserve: 0").await;
    let killed = scene.start();
    let (said, late) = fill_to_the_last_byte(&scene).await;
    drop(killed);
    let server = scene.start();
    scene.until("the next process is stuck too", || scene.log().matches(STUCK).count() == 2).await;

    scene.disk.clear();
    assert_nothing_is_lost(&scene, &said, &late).await;
    assert_eq!(server.stop(), Some(0), "{}", scene.known());
    assert_eq!(scene.files(), digests(&[&late]));
}

/// What Ann says that the model answers slowly.
const SLOWLY: &str = "think slowly";

/// Fills the disk while Ann's turn runs, and lets Ben write until nothing can be stored any more: what he wrote, and the
/// file that he sent last.
async fn fill_to_the_last_byte(scene: &Scene) -> (Vec<String>, FakeFile) {
    scene.reply_to_text(ANN, "hello").await;
    let pieces =
        [ReplyPiece::Text("A slow".to_owned()), ReplyPiece::Wait(SLOW), ReplyPiece::Text(" answer.".to_owned())];
    scene.model.reply(ModelReply::pieces(pieces).when(SLOWLY));
    scene.telegram.person_says(ANN, ANN, SLOWLY);
    scene.until("the model is asked", || scene.has_read(SLOWLY)).await;
    scene.disk.fill(0);

    // What room the database has within its own files is used up first.
    let mut said = Vec::new();
    while !scene.log().contains(STUCK) {
        assert!(said.len() < 400, "the database never runs out of room\n{}", scene.known());
        let text = format!("message-{:03}. {}", said.len(), "All work and no play. ".repeat(100));
        scene.telegram.person_says(BEN, BEN, &text);
        said.push(text);
        let taken = || scene.telegram.unconfirmed_updates() == 0 || scene.log().contains(STUCK);
        scene.until("the message is taken or not", taken).await;
    }
    let late = file("late.bin", 9);
    scene.telegram.person_sends(BEN, BEN, PersonMessage::file(FileKind::Document, late.clone()).caption("keep this"));
    let waiting = scene.telegram.unconfirmed_updates();
    assert!(waiting > 0, "{}", scene.known());
    println!("{} messages until the ledger is full; {waiting} updates wait at the platform", said.len());
    (said, late)
}

/// Waits until everything that people wrote is taken, read by the model once, and answered.
async fn assert_nothing_is_lost(scene: &Scene, said: &[String], late: &FakeFile) {
    scene.until("everything is taken", || scene.telegram.unconfirmed_updates() == 0).await;
    let is_read = || said.iter().all(|text| scene.has_read(text)) && scene.has_read(&late.filename);
    scene.until("everything is read", is_read).await;
    // Ann's slow answer is the second of hers.
    scene.until("Ann is answered", || scene.texts(ANN).len() >= 2).await;
    scene.telegram.person_says(BEN, BEN, "all there?");
    scene.until("Ben's last words are read", || scene.has_read("all there?")).await;
    let is_answered = || scene.telegram.transcript().visible(BEN).last().is_some_and(TelegramMessage::own);
    scene.until("they are answered", is_answered).await;
    let asked = scene.model.requests();
    let read = asked.iter().rfind(|asked| asked.user_text().contains("all there?")).expect("it is read").user_text();
    for text in said {
        assert_eq!(read.matches(text.as_str()).count(), 1, "{text} in {read}");
    }
}
