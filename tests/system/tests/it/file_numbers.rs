//! A file that was saved and is sent back: the person knows it by its number, and reads the same one.

use satchel_fake_kit::FakeFile;
use satchel_fake_telegram::{FileKind, PersonMessage, TelegramTranscript};

use crate::pairing::PairingHarness;

const ANN: i64 = 41;

#[tokio::test(flavor = "multi_thread")]
async fn saved_file_sent_back_keeps_its_number() {
    let harness = PairingHarness::start_with_limits(ANN, "{ file_bytes: 10KB }", "").await;
    let telegram = &harness.telegram;
    let file = FakeFile::generated("plan.bin", "application/octet-stream", 7, 20_000);
    let sent = PersonMessage::file(FileKind::Document, file).caption("save this to /shared/trip");
    telegram.person_sends(ANN, ANN, sent);
    // A progress line may stand there first.
    let is_saved = |transcript: &TelegramTranscript| {
        transcript.texts(ANN).iter().any(|text| text.contains("/shared/trip/plan.bin"))
    };
    assert!(telegram.wait_until(is_saved).await.is_ok(), "{}", telegram.transcript());
    for (nth, request) in [
        r#"/tool attachment.add {"path": "/shared/trip/plan.bin"}"#,
        r#"/tool attachment.add {"paths": ["trip/plan.bin"]}"#,
        "send me plan.bin",
    ]
    .into_iter()
    .enumerate()
    {
        telegram.person_says(ANN, ANN, request);
        let is_told = |transcript: &TelegramTranscript| {
            transcript.texts(ANN).iter().filter(|text| text.contains("20 KB, the limit here is 10 KB")).count() > nth
        };
        assert!(telegram.wait_until(is_told).await.is_ok(), "{}", telegram.transcript());
        let transcript = telegram.transcript();
        assert!(transcript.texts(ANN).last().is_some_and(|told| told.contains("kept as #1: ")), "{transcript}");
    }
    telegram.person_says(ANN, ANN, "/files");
    let is_listed =
        |transcript: &TelegramTranscript| transcript.texts(ANN).iter().any(|text| text.contains("#1 plan.bin"));
    assert!(telegram.wait_until(is_listed).await.is_ok(), "{}", telegram.transcript());
    let transcript = telegram.transcript();
    assert!(!transcript.texts(ANN).iter().any(|text| text.contains("#2")), "{transcript}");
}
