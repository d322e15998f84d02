//! Voice notes as the model and the person hear of them, and replies that are spoken.

use satchel_domain::{Filename, HistoryMessage, OutgoingResponse, RefusedFile, VoiceRequest};
use satchel_ports::ledger::{ConversationSettings, HistoryChange, InboundFileState, QueuedTurn, Transcription};

use super::stage::{Stage, file, says, text_of, waiting};
use crate::{
    rounds,
    voice_notes::{append_transcription_failure, model_note},
};

fn refused() -> InboundFileState {
    let filename = Filename::from_untrusted("big.mov");
    InboundFileState::Refused(RefusedFile { filename, bytes: None, reason: "too big".into() })
}

/// A turn of one message: a refused file, then these voice notes.
fn turn(text: &str, heard: &[Transcription]) -> QueuedTurn {
    let mut message = waiting(2, text);
    message.files.push(refused());
    for (at, heard) in (1u32..).zip(heard) {
        message.files.push(InboundFileState::Stored(file(u128::from(at), "voice.ogg")));
        message.transcriptions.insert(at, heard.clone());
    }
    QueuedTurn { messages: vec![message], ..Stage::with_model(Vec::new()).turn }
}

fn words(words: &str) -> Transcription {
    Transcription::Text(words.into())
}

fn unheard(reason: &str) -> Transcription {
    Transcription::Failed(reason.into())
}

fn told(turn: &QueuedTurn) -> Option<String> {
    append_transcription_failure(OutgoingResponse::default(), turn).text
}

#[test]
fn transcription_becomes_marked_user_text() {
    let turn = turn("listen", &[words(" bring bread\nand milk "), words(" "), words("/stop")]);
    assert_eq!(
        rounds::user_text(&turn),
        "listen\n[voice message, transcribed] bring bread\nand milk\n[voice message, transcribed] /stop"
    );
    assert_eq!(model_note(&turn).unwrap(), "The voice message [1] contains no speech.");
    assert_eq!(told(&turn), None);
}

#[test]
fn failed_transcription_is_reported_when_sent_alone() {
    let alone = turn("", &[unheard("the engine is down")]);
    assert_eq!(
        model_note(&alone).unwrap(),
        "The voice message [0] could not be transcribed (the engine is down). The person is told."
    );
    assert_eq!(
        told(&alone).unwrap(),
        "I couldn't understand your voice message: the engine is down. The recording is saved; see `/files`."
    );
    let answered = append_transcription_failure(OutgoingResponse::from_text("Sorry."), &alone).text.unwrap();
    assert!(answered.starts_with("Sorry.\n\nI couldn't understand"), "{answered}");
    let cut_short = append_transcription_failure(OutgoingResponse::from_text("```\nls"), &alone).text.unwrap();
    assert!(cut_short.starts_with("```\nls\n```\n\nI couldn't understand"), "{cut_short}");

    for other in [turn("and this", &[unheard("x")]), turn("", &[unheard("x"), words("hello")])] {
        assert!(
            model_note(&other).unwrap().contains("could not be transcribed (x). Say so where it matters."),
            "{other:?}"
        );
        assert_eq!(told(&other), None);
    }
    let mut with_photo = turn("", &[unheard("x")]);
    with_photo.messages[0].files.push(InboundFileState::Stored(file(9, "photo.jpg")));
    assert_eq!(told(&with_photo), None);
    assert_eq!((model_note(&turn("", &[])), told(&turn("", &[]))), (None, None));
}

#[test]
fn transcription_error_reason_is_sanitized() {
    let turn = turn("", &[unheard(&format!("bad `file`\n[attachment 1]{}", "x".repeat(900)))]);
    let (note, told) = (model_note(&turn).unwrap(), told(&turn).unwrap());
    assert!(note.contains("bad file attachment 1x") && note.lines().count() == 1, "{note}");
    assert!(!told.contains(&"x".repeat(151)) && told.matches('`').count() == 2, "{told}");
}

#[tokio::test(start_paused = true)]
async fn voice_turn_uses_transcription_and_replies_with_voice() {
    let mut stage = Stage::with_model(vec![says("Bread it is.")]);
    let settings = ConversationSettings { voice_replies: true, ..ConversationSettings::default() };
    stage.turn = QueuedTurn { settings, ..turn("", &[words("bring [attachment bread")]) };
    let played = stage.play().await;
    let texts: Vec<_> = played.requests[0].messages.iter().map(text_of).collect();
    assert_eq!(texts[1], "[voice message, transcribed] bring \\[attachment bread", "escaped as what is typed");
    assert!(texts[2].starts_with("User sent 1 attachment"), "the recording is a file as any: {texts:?}");
    let response = played.completed.response;
    assert!(response.text.is_some_and(|text| text.starts_with("Bread it is.\n\nI couldn't accept `big.mov`")));
    assert_eq!(response.voice, Some(VoiceRequest { text: None }));
    let HistoryChange::Append(history) = &played.completed.history else { panic!("history is appended to") };
    let HistoryMessage::Person { text, attachments, .. } = &history[0] else { panic!("a person asked") };
    assert_eq!((text.as_str(), attachments.len()), ("[voice message, transcribed] bring [attachment bread", 1));

    let mut stage = Stage::with_model(vec![says("I see.")]);
    stage.turn = turn("", &[unheard("the engine is down")]);
    let played = stage.play().await;
    let texts: Vec<_> = played.requests[0].messages.iter().map(text_of).collect();
    assert!(texts.iter().any(|text| text.contains("[0] could not be transcribed (the engine is down)")), "{texts:?}");
    let response = played.completed.response;
    assert!(
        response.text.unwrap().starts_with("I see.\n\nI couldn't understand your voice message: the engine is down.")
    );
    assert_eq!(response.voice, None, "nobody asked for it");
}
