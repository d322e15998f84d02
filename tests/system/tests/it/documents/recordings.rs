//! Recordings and videos between a person on Telegram and what hears and shows them.

use satchel_fake_kit::FakeFile;
use satchel_fake_model::ModelReply;
use satchel_fake_telegram::{FileKind, PersonMessage, TelegramFile};
use serde_json::json;

use super::{ANN, DocumentHarness};

/// A program that reads only WAV. It tells which WAV it was given: its header's first word, its rate and its channels.
const WAV_READER: &str = "speech:\n  transcribe:\n    command: [sh, -c, 'head -c 4 \"$1\"; \
    od -An -v -td4 -j24 -N4 \"$1\"; od -An -v -td2 -j22 -N2 \"$1\"', reader, '{wav}']\n";

#[tokio::test]
async fn recording_of_any_kind_reaches_a_program_that_reads_only_wav() {
    let harness = DocumentHarness::with_settings(WAV_READER).await;
    for (name, mime, content) in [
        (
            "voice.ogg",
            "audio/ogg",
            &include_bytes!("../../../../../apps/satchel-decoder/src/sound_fixtures/opus.ogg")[..],
        ),
        ("voice.mp3", "audio/mpeg", include_bytes!("../../../../../apps/satchel-decoder/src/sound_fixtures/tone.mp3")),
        ("voice.m4a", "audio/mp4", include_bytes!("../../../../../apps/satchel-decoder/src/sound_fixtures/tone.m4a")),
    ] {
        let voice = PersonMessage::file(FileKind::Voice, FakeFile::from_bytes(name, mime, content));
        harness.send(voice, &format!("I heard {name}.")).await;
        let text = harness.model.last().user_text();
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_heard = words.windows(3).any(|heard| heard == ["RIFF", "16000", "1"]);
        assert!(is_heard, "{name}: {text}");
    }
}

#[tokio::test]
async fn broken_recording_is_explained_and_kept() {
    let harness = DocumentHarness::with_settings(WAV_READER).await;
    let broken = FakeFile::from_bytes("voice.ogg", "audio/ogg", &b"OggS\0\x02 and nothing of the kind"[..]);
    harness.model.reply(ModelReply::text("Please write it."));
    harness.telegram.person_sends(harness.chat, ANN, PersonMessage::file(FileKind::Voice, broken));
    let reason = "I couldn't understand your voice message: failed to convert the recording to WAV: it is damaged";
    let has_reply = harness
        .telegram
        .wait_until(|transcript| transcript.visible(harness.chat).any(|message| message.words.text.contains(reason)));
    assert!(has_reply.await.is_ok(), "{}", harness.telegram.transcript());
    let text = harness.model.last().user_text();
    assert!(text.contains("\"voice-1.ogg\" id "), "{text}");
}

/// Telegram says nothing of the length of a document, so that Satchel has to measure it.
#[tokio::test]
async fn video_is_sent_with_its_duration_and_size() {
    let harness = DocumentHarness::start().await;
    let video = &include_bytes!("../../../../../apps/satchel-decoder/src/sound_fixtures/video.mp4")[..];
    let file = FakeFile::from_bytes("clip.mp4", "video/mp4", video);
    harness.send(PersonMessage::file(FileKind::Document, file), "I have it.").await;
    let id = harness.id_of("clip.mp4");
    let save = json!({ "attachment_id": id, "path": "/tmp/clip.mp4" });
    harness.call("attachment_save", &save, "Saved.").await;
    harness.call("attachment_add", &json!({ "path": "/tmp/clip.mp4" }), "Here it is.").await;
    let is_expected =
        |file: &TelegramFile| file.kind == FileKind::Video && file.duration == 1 && file.sides == (64, 48);
    let has_video = harness.telegram.wait_until(|transcript| {
        transcript.visible(harness.chat).filter_map(|message| message.file()).any(is_expected)
    });
    assert!(has_video.await.is_ok(), "{}", harness.telegram.transcript());
}
