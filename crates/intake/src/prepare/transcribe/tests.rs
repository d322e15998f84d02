//! Listening: what is written down, what is tried again, what is recorded, and what is left alone.

use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroU64,
    sync::Mutex,
};

use futures::stream;
use rstest::rstest;
use satchel_domain::{
    AttachmentId, AttachmentSource, FileReference, Filename, InboundMessage, InboxId, MediaInfo, Sender, Sha256,
    Timestamp, Visibility, remedy,
};
use satchel_ports::{
    BlobError, HolderId, Lease, MockBlobs, MockChannel, MockSpeech, MockTurns, SequentialIds, SpeechError, TokioClock,
    ledger::{ConversationSettings, QueuedMessage},
};
use uuid::Uuid;

use super::*;
use crate::{
    access::AccessPolicy,
    prepare::{InboundLimits, prepare_turn},
};

fn recording(id: u128, bytes: u64) -> Attachment {
    Attachment {
        id: AttachmentId(Uuid::from_u128(id)),
        number: NonZeroU64::MIN,
        conversation: "console:main".parse().unwrap(),
        source: AttachmentSource::User,
        filename: Filename::from_untrusted("voice.ogg"),
        mime: "audio/ogg".into(),
        bytes,
        sha256: Sha256([u8::try_from(id).unwrap(); 32]),
        media: MediaInfo::default(),
        description: String::new(),
        created_at: Timestamp(0),
        visibility: Visibility::Deliver,
        link_revocation: None,
    }
}

/// A turn whose files are stored: a photo, then two voice notes of these sizes.
fn turn(sizes: [u64; 2]) -> QueuedTurn {
    let id = TurnId(Uuid::from_u128(1));
    let reference = |voice_note| FileReference {
        voice_note,
        ..FileReference::new("x".into(), Filename::from_untrusted("voice.ogg"))
    };
    let message = InboundMessage {
        files: [false, true, true].map(reference).into(),
        ..InboundMessage::new("console:main".parse().unwrap(), "1".into(), Sender::new("owner", "Owner"))
    };
    let files = [recording(1, 9), recording(2, sizes[0]), recording(3, sizes[1])].map(InboundFileState::Stored);
    let queued = QueuedMessage {
        id: InboxId(Uuid::from_u128(2)),
        turn: id,
        message,
        files: files.into(),
        transcriptions: BTreeMap::new(),
        received_at: Timestamp(0),
    };
    QueuedTurn {
        id,
        messages: vec![queued],
        ready_at: Timestamp(0),
        has_followers: false,
        journal: Vec::new(),
        draft: None,
        crashes: 0,
        unreported_failures: Vec::new(),
        settings: ConversationSettings::default(),
        history: [].into(),
    }
}

/// An engine that gives these answers one after the other.
fn engine(answers: Vec<Result<&'static str, (&'static str, bool)>>) -> MockSpeech {
    let answers = Mutex::new(VecDeque::from(answers));
    let mut speech = MockSpeech::new();
    speech.expect_can_transcribe().return_const(true);
    speech.expect_transcribe().returning(move |recording| {
        assert_eq!(recording.mime, "audio/ogg");
        let answer = answers.lock().unwrap().pop_front().expect("an answer is left");
        answer.map(str::to_owned).map_err(|(reason, retryable)| SpeechError {
            reason: reason.into(),
            remedy: None,
            retryable,
        })
    });
    speech
}

/// What was heard, and what was recorded of it in which order.
async fn prepare(
    turn: QueuedTurn,
    speech: Option<&dyn Speech>,
    blobs: MockBlobs,
) -> (BTreeMap<u32, Transcription>, Vec<(u32, Transcription)>) {
    let recorded: std::sync::Arc<Mutex<Vec<(u32, Transcription)>>> = std::sync::Arc::default();
    let mut ledger = MockTurns::new();
    let records = recorded.clone();
    ledger.expect_record_transcription().returning(move |_, _, index, heard| {
        records.lock().unwrap().push((index, heard.clone()));
        Ok(())
    });
    let lease = Lease { conversation: "console:main".parse().unwrap(), holder: HolderId(Uuid::nil()), token: 1 };
    let access = AccessPolicy::default().with_owner_on([lease.conversation.channel().clone()]);
    let mut channel = MockChannel::new();
    channel.expect_show_activity().returning(|_, _| ());
    let fetching = PrepareContext {
        channel: &channel,
        blobs: &blobs,
        turns: &ledger,
        clock: &TokioClock::default(),
        ids: &SequentialIds::default(),
        lease: &lease,
        speech,
        limits: InboundLimits::default(),
        access: &access,
    };
    let mut turn = prepare_turn(fetching, turn).await.unwrap();
    (turn.messages.remove(0).transcriptions, std::mem::take(&mut recorded.lock().unwrap()))
}

fn blobs() -> MockBlobs {
    let mut blobs = MockBlobs::new();
    blobs.expect_open().returning(|_, _| Ok(Box::pin(stream::empty())));
    blobs
}

fn words(words: &str) -> Transcription {
    Transcription::Text(words.into())
}

fn unheard(reason: &str) -> Transcription {
    Transcription::Failed(reason.into())
}

#[tokio::test(start_paused = true)]
async fn exactly_the_voice_notes_are_transcribed_and_recorded() {
    let speech = engine(vec![Ok(" bring\nbread\u{202E}\u{7} "), Ok("")]);
    let (heard, recorded) = prepare(turn([9, 9]), Some(&speech), blobs()).await;
    assert_eq!(heard, BTreeMap::from([(1, words("bring\nbread")), (2, words(""))]));
    assert_eq!(recorded, [(1, words("bring\nbread")), (2, words(""))]);
}

#[tokio::test(start_paused = true)]
async fn earlier_transcription_is_not_repeated() {
    let mut turn = turn([9, 9]);
    turn.messages[0].transcriptions.insert(1, words("bring bread"));
    let (heard, recorded) = prepare(turn, Some(&engine(vec![Ok("and milk")])), blobs()).await;
    assert_eq!(heard, BTreeMap::from([(1, words("bring bread")), (2, words("and milk"))]));
    assert_eq!(recorded, [(2, words("and milk"))]);
}

#[rstest]
#[case::it_passes(vec![Err(("busy", true)), Err(("busy", true)), Ok("hello"), Ok("x")], words("hello"))]
#[case::it_stays(vec![Err(("busy", true)), Err(("busy", true)), Err(("busy", true)), Ok("x")], unheard("busy"))]
#[case::for_good(vec![Err(("not a recording", false)), Ok("x")], unheard("not a recording"))]
#[tokio::test(start_paused = true)]
async fn retryable_transcription_failure_is_retried_and_turn_continues(
    #[case] answers: Vec<Result<&'static str, (&'static str, bool)>>,
    #[case] expected: Transcription,
) {
    let (heard, recorded) = prepare(turn([9, 9]), Some(&engine(answers)), blobs()).await;
    assert_eq!(heard, BTreeMap::from([(1, expected.clone()), (2, words("x"))]));
    assert_eq!(recorded, [(1, expected), (2, words("x"))]);
}

#[tokio::test(start_paused = true)]
async fn oversized_or_unreadable_recording_is_not_transcribed() {
    let mut blobs = MockBlobs::new();
    blobs.expect_open().times(3).returning(|sha256, _| Err(BlobError::Missing(*sha256)));
    let (heard, _) = prepare(turn([2 * MAX_RECORDING_BYTES, 9]), Some(&engine(Vec::new())), blobs).await;
    let too_large = unheard("it is 50 MB, the limit for voice messages is 25 MB");
    assert_eq!(heard, BTreeMap::from([(1, too_large), (2, unheard("the recording can't be read"))]));
}

#[tokio::test(start_paused = true)]
async fn missing_transcriber_is_reported_and_not_recorded() {
    let mut only_speaks = MockSpeech::new();
    only_speaks.expect_can_transcribe().return_const(false);
    for speech in [None, Some(&only_speaks as &dyn Speech)] {
        let (heard, recorded) = prepare(turn([9, 9]), speech, MockBlobs::new()).await;
        assert_eq!(
            heard,
            BTreeMap::from([
                (1, unheard(&remedy::owner_message(NOT_CONFIGURED_TEXT, NOT_CONFIGURED_REMEDY))),
                (2, unheard(&remedy::owner_message(NOT_CONFIGURED_TEXT, NOT_CONFIGURED_REMEDY)))
            ])
        );
        assert_eq!(recorded, []);
    }
}

#[tokio::test(start_paused = true)]
async fn only_owners_read_what_makes_me_listen() {
    let says =
        [("owner", "no key: set `speech.transcribe.api_key`"), ("7", "no key; ask the person who runs this bot")];
    for (sender, expected) in says {
        let mut speech = MockSpeech::new();
        speech.expect_can_transcribe().return_const(true);
        let remedy = || Some("set `speech.transcribe.api_key`".to_owned());
        let failed = move || SpeechError { reason: "no key".into(), remedy: remedy(), retryable: false };
        speech.expect_transcribe().returning(move |_| Err(failed()));
        let mut turn = turn([9, 9]);
        turn.messages[0].message.sender.id = sender.to_owned();
        let (heard, recorded) = prepare(turn, Some(&speech), blobs()).await;
        assert_eq!(heard, BTreeMap::from([(1, unheard(expected)), (2, unheard(expected))]));
        assert_eq!(recorded[0], (1, unheard(expected)));
    }
}

#[tokio::test(start_paused = true)]
async fn endless_words_are_cut() {
    let endless: &'static str = Box::leak("й".repeat(MAX_TRANSCRIPT_CHARS + 5).into_boxed_str());
    let (heard, _) = prepare(turn([9, 9]), Some(&engine(vec![Ok(endless), Ok("")])), blobs()).await;
    let Transcription::Text(cut) = &heard[&1] else { panic!("{heard:?}") };
    assert_eq!(cut.chars().count(), MAX_TRANSCRIPT_CHARS + 1);
}
