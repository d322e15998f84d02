//! Fetching: what is stored, what is tried again, what is refused and in which words.

use std::num::NonZeroU64;

use std::sync::{Arc, Mutex};

use rstest::rstest;
use satchel_domain::{Filename, InboundMessage, MediaInfo, QuotedFile, Sender, Sha256, Timestamp};
use satchel_ports::{
    ByteStream, FetchedFile, HolderId, MockBlobs, MockChannel, MockTurns, SequentialIds, StoredBlob, TokioClock,
    ledger::{ConversationSettings, QueuedMessage},
};
use uuid::Uuid;

use super::*;

fn reference(name: &str, bytes: Option<u64>) -> FileReference {
    FileReference { bytes, ..FileReference::new(name.into(), Filename::from_untrusted(name)) }
}

fn turn(files: Vec<FileReference>) -> QueuedTurn {
    let id = TurnId(Uuid::from_u128(1));
    QueuedTurn {
        id,
        messages: vec![QueuedMessage {
            id: InboxId(Uuid::from_u128(2)),
            turn: id,
            message: InboundMessage {
                files: files.clone(),
                ..InboundMessage::new("console:main".parse().unwrap(), "1".into(), Sender::new("owner", "Owner"))
            },
            files: files.into_iter().map(InboundFileState::Waiting).collect(),
            transcriptions: std::collections::BTreeMap::new(),
            received_at: Timestamp(0),
        }],
        ready_at: Timestamp(0),
        has_followers: true,
        journal: Vec::new(),
        draft: None,
        crashes: 0,
        unreported_failures: Vec::new(),
        settings: ConversationSettings::default(),
        history: [].into(),
    }
}

fn empty() -> ByteStream {
    Box::pin(stream::empty())
}

fn ledger() -> MockTurns {
    let mut ledger = MockTurns::new();
    ledger.expect_store_file().returning(|_, _, index, file| {
        Ok(file.clone().numbered("console:main".parse().unwrap(), NonZeroU64::MIN.saturating_add(index.into())))
    });
    ledger.expect_refuse_file().returning(|_, _, _, _| Ok(()));
    ledger
}

fn blobs() -> MockBlobs {
    let mut blobs = MockBlobs::new();
    blobs.expect_put().returning(|_, _, _| {
        Ok(StoredBlob { sha256: Sha256([1; 32]), bytes: 3, mime: "image/png".into(), media: MediaInfo::default() })
    });
    blobs
}

async fn fetch_all(channel: MockChannel, blobs: MockBlobs, files: Vec<FileReference>) -> Vec<InboundFileState> {
    fetch_turn(channel, blobs, turn(files)).await
}

async fn fetch_turn(channel: MockChannel, blobs: MockBlobs, turn: QueuedTurn) -> Vec<InboundFileState> {
    fetch_with(channel, blobs, ledger(), turn).await
}

async fn fetch_with(
    channel: MockChannel,
    blobs: MockBlobs,
    ledger: MockTurns,
    turn: QueuedTurn,
) -> Vec<InboundFileState> {
    let lease = Lease { conversation: "console:main".parse().unwrap(), holder: HolderId(Uuid::nil()), token: 1 };
    let limits = InboundLimits { max_file_bytes: 100, max_files_per_turn: 2, fetch_timeout: Duration::from_secs(10) };
    let access = AccessPolicy::default().with_owner_on([lease.conversation.channel().clone()]);
    let fetching = PrepareContext {
        channel: &channel,
        blobs: &blobs,
        turns: &ledger,
        clock: &TokioClock::default(),
        ids: &SequentialIds::starting_at(7),
        lease: &lease,
        speech: None,
        limits,
        access: &access,
    };
    prepare_turn(fetching, turn).await.unwrap().messages.remove(0).files
}

fn reason(file: &InboundFileState) -> &str {
    match file {
        InboundFileState::Refused(refused) => &refused.reason,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn stored_files_have_detected_type_and_number() {
    let mut channel = MockChannel::new();
    channel.expect_fetch().returning(|_| Ok(FetchedFile::Bytes { bytes: Some(3), content: empty() }));
    let files = fetch_all(channel, blobs(), vec![reference("a.jpg", None), reference("b.jpg", None)]).await;
    let InboundFileState::Stored(second) = &files[1] else { panic!("{files:?}") };
    assert_eq!((second.number.get(), second.mime.as_str(), second.filename.as_str()), (2, "image/png", "b.jpg"));
}

#[tokio::test]
async fn quoted_file_that_the_conversation_has_is_not_fetched() {
    let known = NewAttachment::new(
        AttachmentId(Uuid::from_u128(9)),
        AttachmentSource::User,
        Filename::from_untrusted("photo-12.jpg"),
        StoredBlob { sha256: Sha256([1; 32]), bytes: 3, mime: "image/jpeg".into(), media: MediaInfo::default() },
        Timestamp(0),
    );
    let known = known.numbered("console:main".parse().unwrap(), NonZeroU64::MIN);
    let quoted = |name| FileReference { quoted: Some(QuotedFile::default()), ..reference(name, Some(3)) };
    let mut channel = MockChannel::new();
    channel
        .expect_fetch()
        .withf(|reference| reference.locator == "new.jpg")
        .times(1)
        .returning(|_| Ok(FetchedFile::Bytes { bytes: Some(3), content: empty() }));
    let (mut ledger, adopted) = (ledger(), known.clone());
    ledger.expect_adopt_file().times(2).returning(move |_, _, index| Ok((index == 0).then(|| adopted.clone())));
    let turn = turn(vec![quoted("photo-12.jpg"), quoted("new.jpg")]);
    let files = fetch_with(channel, blobs(), ledger, turn).await;
    assert_eq!(files[0], InboundFileState::Stored(known));
    assert!(matches!(&files[1], InboundFileState::Stored(file) if file.filename.as_str() == "new.jpg"), "{files:?}");
}

#[rstest]
#[case::claimed(Some(101), None)]
#[case::told_by_the_platform(None, Some(101))]
#[tokio::test]
async fn oversized_file_is_refused_before_reading(#[case] claimed: Option<u64>, #[case] told: Option<u64>) {
    let mut channel = MockChannel::new();
    channel.expect_fetch().returning(move |_| Ok(FetchedFile::Bytes { bytes: told, content: empty() }));
    let files = fetch_all(channel, MockBlobs::new(), vec![reference("a.jpg", claimed)]).await;
    assert_eq!(reason(&files[0]), "it is 101 B, the limit is 100 B");
}

#[tokio::test]
async fn excess_files_are_refused_and_first_are_stored() {
    let mut channel = MockChannel::new();
    channel.expect_fetch().returning(|_| Ok(FetchedFile::Bytes { bytes: None, content: empty() }));
    let files =
        fetch_all(channel, blobs(), vec![reference("a", None), reference("b", None), reference("c", None)]).await;
    assert!(matches!(files[..2], [InboundFileState::Stored(_), InboundFileState::Stored(_)]));
    assert_eq!(reason(&files[2]), "at most 2 files are accepted at once");
}

#[tokio::test(start_paused = true)]
async fn retryable_fetch_failure_is_retried_then_refused() {
    let tries = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&tries);
    let mut channel = reached();
    channel.expect_fetch().returning(move |reference| {
        *counted.lock().unwrap() += 1;
        match (reference.locator.as_str(), *counted.lock().unwrap()) {
            ("flaky", 3) => Ok(FetchedFile::Bytes { bytes: None, content: empty() }),
            _ => Err(FileFetchError::Retryable { reason: "the server is busy".into() }),
        }
    });
    let files = fetch_all(channel, blobs(), vec![reference("flaky", None)]).await;
    assert!(matches!(files[0], InboundFileState::Stored(_)));
    assert_eq!(*tries.lock().unwrap(), 3);

    let mut channel = reached();
    channel
        .expect_fetch()
        .times(5)
        .returning(|_| Err(FileFetchError::Retryable { reason: "the server is busy".into() }));
    let files = fetch_all(channel, blobs(), vec![reference("down", None)]).await;
    assert_eq!(reason(&files[0]), "it could not be fetched (the server is busy)");
}

/// A platform that answers.
fn reached() -> MockChannel {
    let mut channel = MockChannel::new();
    channel.expect_probe().returning(|| Ok(()));
    channel
}

/// A platform that can't be reached for so long.
fn away_for(outage: Duration) -> MockChannel {
    failing_for(outage, SendError::NotSent { retry_after_ms: None, reason: "no route to host".into() })
}

/// A platform that fails so for so long.
fn failing_for(outage: Duration, error: SendError) -> MockChannel {
    let begun = tokio::time::Instant::now();
    let is_away = move || begun.elapsed() < outage;
    let mut channel = MockChannel::new();
    channel.expect_probe().returning(move || match is_away() {
        true => Err(error.clone()),
        false => Ok(()),
    });
    channel.expect_fetch().returning(move |_| match is_away() {
        true => Err(FileFetchError::Retryable { reason: "no route to host".into() }),
        false => Ok(FetchedFile::Bytes { bytes: None, content: empty() }),
    });
    channel
}

#[rstest]
#[case::short(20)]
#[case::long(5 * 60)]
#[case::of_a_night(8 * 60 * 60)]
#[tokio::test(start_paused = true)]
async fn a_file_is_had_after_an_outage(#[case] seconds: u64) {
    let begun = tokio::time::Instant::now();
    let outage = Duration::from_secs(seconds);
    let files = fetch_all(away_for(outage), blobs(), vec![reference("late", None)]).await;
    assert!(matches!(files[0], InboundFileState::Stored(_)), "{files:?}");
    assert!(begun.elapsed() <= outage + MAX_BACKOFF, "{:?}", begun.elapsed());
}

/// Catches: a photo that is refused after five attempts while the bot's token is revoked.
#[tokio::test(start_paused = true)]
async fn a_file_is_had_after_an_account_was_refused() {
    let error = SendError::AccountRefused { reason: "the token is revoked".into() };
    let channel = failing_for(Duration::from_secs(8 * 60 * 60), error);
    let files = fetch_all(channel, blobs(), vec![reference("late", None)]).await;
    assert!(matches!(files[0], InboundFileState::Stored(_)), "{files:?}");
}

#[tokio::test(start_paused = true)]
async fn file_of_unreachable_platform_is_finally_refused() {
    let begun = tokio::time::Instant::now();
    let files = fetch_all(away_for(2 * OUTAGE_GRACE), blobs(), vec![reference("never", None)]).await;
    assert_eq!(reason(&files[0]), "it could not be fetched (no route to host)");
    assert!(
        begun.elapsed() > OUTAGE_GRACE && begun.elapsed() < OUTAGE_GRACE + 6 * MAX_BACKOFF,
        "{:?}",
        begun.elapsed()
    );
}

/// As after a long sleep of the machine, whose network comes back a little later than it does.
#[tokio::test(start_paused = true)]
async fn file_of_old_message_is_tried_before_refusal() {
    for (away, comes) in [(Duration::from_secs(10), true), (Duration::from_secs(60), false)] {
        let mut turn = turn(vec![reference("late", None)]);
        turn.messages[0].received_at = Timestamp(-i64::try_from(2 * OUTAGE_GRACE.as_millis()).unwrap());
        let begun = tokio::time::Instant::now();
        let files = fetch_turn(away_for(away), blobs(), turn).await;
        assert_eq!(matches!(files[0], InboundFileState::Stored(_)), comes, "{files:?}");
        assert_eq!(begun.elapsed(), Duration::from_secs(15));
    }
}

#[tokio::test]
async fn only_owners_read_the_remedy_of_a_refusal() {
    for (sender, expected) in
        [("owner", "it is too large: set `a.key`"), ("7", "it is too large; ask the person who runs this bot")]
    {
        let mut channel = MockChannel::new();
        let not_set_up =
            || FileFetchError::NotConfigured { reason: "it is too large".into(), remedy: "set `a.key`".into() };
        channel.expect_fetch().returning(move |_| Err(not_set_up()));
        let mut turn = turn(vec![reference("large", None)]);
        turn.messages[0].message.sender.id = sender.to_owned();
        assert_eq!(reason(&fetch_turn(channel, blobs(), turn).await[0]), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn unstorable_file_is_retried_and_refused_with_figures() {
    const REASON: &str =
        "it could not be stored (the disk is nearly full: 1.2 GB free, 1 GB is kept free for the database)";
    let remedy = ": remove files with `/forget`, free some space on the disk (`satchel doctor` names it), or lower \
                  `storage.reserve`";
    for (sender, advice) in [("owner", remedy), ("7", "; ask the person who runs this bot")] {
        let mut channel = reached();
        let known = |_: &FileReference| Ok(FetchedFile::Bytes { bytes: Some(90), content: empty() });
        channel.expect_fetch().times(5).returning(known);
        let mut blobs = MockBlobs::new();
        blobs
            .expect_put()
            .times(5)
            .withf(|_, hint, _| hint.bytes == Some(90))
            .returning(|_, _, _| Err(BlobError::Full(DiskFull { free: 1_200_000_000, reserved: 1_000_000_000 })));
        let mut turn = turn(vec![reference("film.mov", None)]);
        turn.messages[0].message.sender.id = sender.to_owned();
        assert_eq!(reason(&fetch_turn(channel, blobs, turn).await[0]), format!("{REASON}{advice}"));
    }
}

#[tokio::test]
async fn refusal_has_channel_reason_and_others_stay() {
    let mut channel = MockChannel::new();
    channel.expect_fetch().returning(|reference| match reference.locator.as_str() {
        "gone" => Err(FileFetchError::Permanent { reason: "the file is no longer there".into() }),
        _ => Ok(FetchedFile::Bytes { bytes: None, content: empty() }),
    });
    let files = fetch_all(channel, blobs(), vec![reference("gone", None), reference("here", None)]).await;
    assert_eq!(reason(&files[0]), "the file is no longer there");
    assert!(matches!(files[1], InboundFileState::Stored(_)));
}
