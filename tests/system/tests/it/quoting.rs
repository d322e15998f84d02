//! Replies on Telegram: what they bring of other people's messages, and of files that are kept already.

use satchel_fake_kit::FakeFile;
use satchel_fake_telegram::{FileKind, PersonMessage, TelegramTranscript};

use crate::pairing::PairingHarness;

const ANN: i64 = 41;
const EVE: i64 = 43;

/// The attack: somebody who may not talk is read and stored nevertheless, because an owner replies to their message.
#[tokio::test(flavor = "multi_thread")]
async fn reply_to_a_stranger_brings_nothing_of_theirs() {
    const SECRET: &str = "what a stranger writes";
    let harness = PairingHarness::start(ANN, "").await;
    let telegram = &harness.telegram;
    let group = telegram.group("Family", &[ANN, EVE]);
    let secret = telegram.person_says(group, EVE, SECRET);
    telegram.person_sends(group, ANN, PersonMessage::text("what is this?").replying_to(secret));
    harness.wait_for_message(group, 0).await;
    assert!(!harness.has_text(SECRET), "nothing of hers is kept");
    assert!(harness.has_text("somebody who may not talk to you"), "the model reads that there is something");
}

/// The same with a photo, and with an edit of the reply, which Telegram delivers with the stranger's message once more.
#[tokio::test(flavor = "multi_thread")]
async fn edited_reply_to_a_strangers_photo_fetches_no_file() {
    const SECRET: &str = "what a stranger writes beneath a photo";
    let harness = PairingHarness::start(ANN, "").await;
    let telegram = &harness.telegram;
    let group = telegram.group("Family", &[ANN, EVE]);
    let photo = FakeFile::photo("plan.jpg", 640, 480, 3, 2_000);
    let secret = telegram.person_sends(group, EVE, PersonMessage::file(FileKind::Photo, photo).caption(SECRET));
    let asked = telegram.person_sends(group, ANN, PersonMessage::text("what is this?").replying_to(secret));
    harness.wait_for_message(group, 0).await;
    telegram.person_edits(group, ANN, asked, "what is that?");
    harness.wait_for_message(group, 1).await;
    assert!(!harness.has_text(SECRET), "nothing of hers is kept");
    assert_eq!(telegram.requests("getFile"), 0, "nor fetched");
}

#[tokio::test(flavor = "multi_thread")]
async fn reply_to_ones_own_file_stores_it_once() {
    let harness = PairingHarness::start(ANN, "").await;
    let telegram = &harness.telegram;
    let file = FakeFile::generated("report.bin", "application/octet-stream", 7, 10_000);
    let sent = telegram.person_sends(ANN, ANN, PersonMessage::file(FileKind::Document, file).caption("keep this"));
    harness.wait_for_message(ANN, 0).await;
    telegram.person_sends(ANN, ANN, PersonMessage::text("and now?").replying_to(sent));
    harness.wait_for_message(ANN, 1).await;
    let photo = FakeFile::photo("beach.jpg", 640, 480, 5, 2_000);
    let sent = telegram.person_sends(ANN, ANN, PersonMessage::file(FileKind::Photo, photo).caption("and this"));
    harness.wait_for_message(ANN, 2).await;
    telegram.person_sends(ANN, ANN, PersonMessage::text("and what is here?").replying_to(sent));
    harness.wait_for_message(ANN, 3).await;
    telegram.person_says(ANN, ANN, "/files");
    let list = |transcript: &TelegramTranscript| {
        transcript.texts(ANN).iter().find(|text| text.starts_with("Your files")).map(ToString::to_string)
    };
    let listed = telegram.wait_until(|transcript| list(transcript).is_some()).await;
    assert!(listed.is_ok(), "{}", telegram.transcript());
    let text = list(&telegram.transcript()).expect("it was found");
    assert!(text.contains("#1 ") && text.contains("#2 ") && !text.contains("#3 "), "{text}");
}
