//! The loop against a scripted channel: which calls follow which answer, in which order, and what is written down.

mod accounts;
mod drafts;
mod harness;
mod keyed_retries;
mod lookups;
mod questions;
mod reply_targets;
mod requests;
mod stopping;
mod voices;

use std::{
    collections::VecDeque,
    num::NonZeroU64,
    sync::{Arc, Mutex},
    time::Duration,
};

use rstest::rstest;
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ChannelClosure, ChannelState, Filename, LinkRevocation, MediaInfo,
    MessageRef, NewAttachment, Part, PartContent, PartId, PartState, Sha256, Timestamp, TurnId,
    capabilities::{ChannelCapabilities, Idempotency, LookupRule},
    delivery::{DeliveryRules, OnDoubt, Refusal, SendError},
    part::{FailureReason, FileForm, FileItem, Markup, Operation, PreparedVoice},
};
use satchel_ports::{
    BlobError, HolderId, Lease, LedgerError, LookupOutcome, LookupRange, MockBlobs, MockChannel, MockEventBus,
    MockFileLinks, MockLedger, MockSpeech, SpeechError, StoredBlob, SynthesizedSpeech, TokioClock,
    ledger::{RecordedMessages, SettleOutcome, TurnRecord},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::harness::{DeliveryHarness, DeliveryStart, run};
use super::{DeliveryContext, DeliveryHandle, Driver, DriverEnd};
use crate::tables;

type Answer = Result<Vec<MessageRef>, SendError>;

fn sent() -> Answer {
    Ok(vec![MessageRef("m1".into())])
}

fn not_sent(retry_after_ms: u64) -> Answer {
    Err(SendError::NotSent { retry_after_ms: Some(retry_after_ms), reason: "busy".into() })
}

fn in_doubt() -> Answer {
    Err(SendError::InDoubt { reason: "reset".into() })
}

fn refused(refusal: Refusal) -> Answer {
    Err(SendError::Refused { refusal, reason: "no".into() })
}

fn part(id: u128, content: PartContent) -> Part {
    Part::new(
        PartId(Uuid::from_u128(id)),
        "console:main".parse().unwrap(),
        TurnId(Uuid::from_u128(100)),
        0,
        content,
        Timestamp(0),
    )
}

fn text(id: u128) -> Part {
    part(id, PartContent::from_text("hello"))
}

fn sending(part: Part) -> Part {
    Part { state: PartState::Sending, attempts: 1, first_attempt_at: Some(Timestamp(0)), ..part }
}

fn photo(id: u128) -> FileItem {
    let stored =
        StoredBlob { sha256: Sha256([0; 32]), bytes: 9, mime: "image/jpeg".into(), media: MediaInfo::default() };
    let (id, name) = (AttachmentId(Uuid::from_u128(id)), Filename::from_untrusted("a.jpg"));
    let file = NewAttachment::new(id, AttachmentSource::Tool, name, stored, Timestamp(0));
    let attachment = file.numbered("console:main".parse().unwrap(), NonZeroU64::new(17).unwrap());
    FileItem { attachment, form: FileForm::Photo, caption: String::new() }
}

#[tokio::test(start_paused = true)]
async fn started_part_is_sent_and_settled_only() {
    let (log, left) = DeliveryHarness::new(vec![], vec![sent()]).play(DeliveryStart::Started(sending(text(1)))).await;
    assert_eq!(log, ["send hello", "settle sent"]);
    assert_eq!(left.unwrap(), DriverEnd::Released);
}

#[tokio::test(start_paused = true)]
async fn settling_one_part_begins_the_next() {
    let log = DeliveryHarness::new(vec![text(1), text(2), text(3)], vec![sent(), sent(), sent()]).log().await;
    assert_eq!(
        log,
        ["save sending", "send hello", "settle sent", "send hello", "settle sent", "send hello", "settle sent"]
    );
}

#[tokio::test(start_paused = true)]
async fn unsent_part_respects_retry_after() {
    let started = tokio::time::Instant::now();
    let log = DeliveryHarness::new(vec![text(1)], vec![not_sent(7_000), sent()]).log().await;
    assert_eq!(log, ["save sending", "send hello", "save waiting", "save sending", "send hello", "settle sent"]);
    assert!(started.elapsed() >= Duration::from_secs(7), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn unkeyed_doubt_is_probed_and_resent_labelled() {
    let log = DeliveryHarness {
        probes: vec![false, false, true],
        ..DeliveryHarness::new(vec![text(1)], vec![in_doubt(), sent()])
    }
    .log()
    .await;
    assert_eq!(
        log,
        [
            "save sending",
            "send hello",
            "save in_doubt",
            "probe down",
            "probe down",
            "probe ok",
            "save waiting labelled",
            "save sending labelled",
            "send (possible duplicate) hello",
            "settle sent"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn three_labelled_tries_outlast_an_outage_of_minutes() {
    let started = tokio::time::Instant::now();
    let lost = vec![in_doubt(), in_doubt(), in_doubt(), in_doubt()];
    let log = DeliveryHarness::new(vec![text(1)], lost).log().await;
    assert_eq!(log.last().unwrap(), "settle failed with notice");
    assert_eq!(log.iter().filter(|line| line.starts_with("send (possible duplicate)")).count(), 3);
    let waited = started.elapsed();
    assert!(waited >= Duration::from_secs(5 + 30 + 180) && waited < Duration::from_secs(230), "{waited:?}");
    let third = DeliveryHarness::new(vec![text(1)], vec![in_doubt(), in_doubt(), in_doubt(), sent()]).log().await;
    assert_eq!(third.last().unwrap(), "settle sent");
}

#[tokio::test(start_paused = true)]
async fn held_doubt_is_reported_and_not_resent() {
    let rules = DeliveryRules { on_doubt: OnDoubt::Hold, ..DeliveryRules::default() };
    let log =
        DeliveryHarness { rules, ..DeliveryHarness::new(vec![text(1), text(2)], vec![in_doubt(), sent()]) }.log().await;
    assert_eq!(
        log,
        [
            "save sending",
            "send hello",
            "save in_doubt",
            "probe ok",
            "settle failed with notice",
            "send hello",
            "settle sent"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_makes_the_repeat_safe_and_unlabelled() {
    let key = Idempotency::Key { window_ms: None };
    let repeated = ["save sending", "send hello", "save in_doubt", "probe ok", "save sending", "send hello"];
    for can_edit in [true, false] {
        let capabilities = ChannelCapabilities { idempotency: key, can_edit, ..tables::discord() };
        let log = DeliveryHarness { capabilities, ..DeliveryHarness::new(vec![text(1)], vec![in_doubt(), sent()]) }
            .log()
            .await;
        assert_eq!(log, [&repeated[..], &["settle sent"]].concat(), "a whole repeat is complete");
    }
    let capabilities = ChannelCapabilities { idempotency: key, ..tables::discord() };
    let streamed = Part { streamed: true, ..text(1) };
    let log =
        DeliveryHarness { capabilities, ..DeliveryHarness::new(vec![streamed], vec![in_doubt(), sent(), sent()]) }
            .log()
            .await;
    assert_eq!(log, [&repeated[..], &["edit m1", "settle sent"]].concat(), "what the key finds may show half of it");
}

#[tokio::test(start_paused = true)]
async fn a_repeat_that_is_limited_keeps_the_doubt() {
    let capabilities =
        ChannelCapabilities { idempotency: Idempotency::Key { window_ms: Some(60_000) }, ..tables::discord() };
    let answers = vec![in_doubt(), not_sent(600_000), sent()];
    let stage = DeliveryHarness { capabilities, ..DeliveryHarness::new(vec![text(1)], answers) };
    assert_eq!(
        stage.log().await,
        [
            "save sending",
            "send hello",
            "save in_doubt",
            "probe ok",
            "save sending",
            "send hello",
            "save in_doubt",
            "probe ok",
            "look up",
            "save waiting labelled",
            "save sending labelled",
            "send (possible duplicate) hello",
            "settle sent"
        ]
    );
}

#[rstest]
#[case::found(Some(vec![MessageRef("m9".into())]), &["probe ok", "look up", "settle sent"])]
#[case::not_found(None, &["probe ok", "look up", "save waiting labelled", "save sending labelled", "send (possible duplicate) hello", "settle sent"])]
#[tokio::test(start_paused = true)]
async fn after_the_keys_window_the_history_is_asked(#[case] found: Option<Vec<MessageRef>>, #[case] expected: &[&str]) {
    let capabilities = ChannelCapabilities {
        idempotency: Idempotency::Key { window_ms: Some(0) },
        look_up: LookupRule::History,
        ..tables::discord()
    };
    let interrupted = vec![sending(text(1))];
    let lookups = found.map(|messages| LookupOutcome::Found { messages, duplicates: Vec::new() }).into_iter().collect();
    let log = DeliveryHarness { capabilities, lookups, ..DeliveryHarness::new(interrupted, vec![sent()]) }.log().await;
    assert_eq!(log, expected);
}

#[tokio::test(start_paused = true)]
async fn interrupted_part_is_in_doubt_but_edit_retries() {
    let interrupted = sending(text(1));
    let log = DeliveryHarness::new(vec![interrupted.clone()], vec![sent()]).log().await;
    let labelled = ["save waiting labelled", "save sending labelled", "send (possible duplicate) hello"];
    assert_eq!(log, [&["probe ok"], &labelled[..], &["settle sent"]].concat());
    let edit = interrupted.into_edit_of(MessageRef("m1".into()));
    let log = DeliveryHarness::new(vec![edit], vec![sent()]).log().await;
    assert_eq!(log, ["probe ok", "save sending", "edit m1", "settle sent"]);
}

#[tokio::test(start_paused = true)]
async fn start_by_same_holder_is_not_in_doubt() {
    let (log, _) =
        DeliveryHarness::new(vec![sending(text(1)), text(2)], vec![sent(), sent()]).play(DeliveryStart::Planned).await;
    assert_eq!(log, ["send hello", "settle sent", "send hello", "settle sent"]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_form_is_replaced_by_another() {
    let log = DeliveryHarness::new(vec![text(1)], vec![refused(Refusal::BadMarkup)]).log().await;
    assert_eq!(log, ["save sending", "send hello", "settle replaced by text"]);
    let album = PartContent::Album { items: vec![photo(1), photo(2)] };
    let log = DeliveryHarness::new(vec![part(1, album.clone())], vec![refused(Refusal::Item { index: 0 })]).log().await;
    assert_eq!(log, ["save sending", "send album", "settle replaced by file, file"]);
    let unreadable = Err(SendError::Unreadable { reason: "damaged".into() });
    let log = DeliveryHarness::new(vec![part(1, album)], vec![unreadable]).log().await;
    assert_eq!(log[2], "settle replaced by file, file", "one bad file takes no other with it");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_once_and_stops_nothing() {
    let forbidden = Err(SendError::Forbidden { reason: "blocked".into() });
    let log = DeliveryHarness::new(vec![text(1), text(2)], vec![forbidden, sent()]).log().await;
    assert_eq!(log, ["save sending", "send hello", "settle failed with notice", "send hello", "settle sent"]);
    let notice = part(1, PartContent::Notice { text: "sorry".into() });
    let log =
        DeliveryHarness::new(vec![notice], vec![Err(SendError::Forbidden { reason: "blocked".into() })]).log().await;
    assert_eq!(log, ["save sending", "send sorry", "settle failed"], "a failed notice makes no further notice");
}

#[tokio::test(start_paused = true)]
async fn edit_of_deleted_message_is_sent_new() {
    let edit = text(1).into_edit_of(MessageRef("m1".into()));
    let log = DeliveryHarness::new(vec![edit], vec![refused(Refusal::TargetGone)]).log().await;
    assert_eq!(log, ["save sending", "edit m1", "settle replaced by text"]);
    let never_ends = DeliveryHarness::new(vec![text(1)], vec![refused(Refusal::TargetGone)]).log().await;
    assert_eq!(never_ends, ["save sending", "send hello", "settle failed with notice"]);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_message_without_a_text_is_deleted() {
    let operation = Operation::Delete { message: MessageRef("m1".into()) };
    let deletion = Part { operation, ..text(1) };
    assert_eq!(DeliveryHarness::new(vec![deletion], vec![]).log().await, ["save sending", "delete m1", "settle sent"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_too_old_is_given_up_unsent() {
    let rules = DeliveryRules { max_age: Duration::ZERO, ..DeliveryRules::default() };
    let log = DeliveryHarness { rules, ..DeliveryHarness::new(vec![text(1)], vec![]) }.log().await;
    assert_eq!(log, ["settle failed with notice"]);
}

#[tokio::test(start_paused = true)]
async fn oversized_file_notice_creates_one_link() {
    let mut links = MockFileLinks::new();
    let named = |file: &Attachment| file.id == AttachmentId(Uuid::from_u128(1));
    links.expect_create_link().withf(named).times(1).returning(|_| Some("https://a.example/links/x".into()));
    let document = PartContent::File(FileItem { form: FileForm::Document, ..photo(1) });
    let answers = vec![refused(Refusal::TooLarge { limit: Some(5) })];
    let stage = DeliveryHarness { links: Some(links), ..DeliveryHarness::new(vec![part(1, document)], answers) };
    let told = Arc::clone(&stage.told);
    assert_eq!(stage.log().await, ["save sending", "send file", "settle failed with notice"]);
    let expected = "0 of 1 file sent; a.jpg is 9 B, the limit here is 5 B; kept as #17: \
                    <https://a.example/links/x> (for 7 days; a new one: /resend 17)";
    assert_eq!(*told.lock().unwrap(), [expected]);
}

#[tokio::test(start_paused = true)]
async fn late_failure_creates_no_link_after_revocation() {
    for (planned_count, is_revoked) in [(0, true), (1, false)] {
        let mut links = MockFileLinks::new();
        links.expect_create_link().returning(|file| {
            let last = file.link_revocation.expect("the part was read again after the revocation");
            (!last.is_after_plan()).then(|| "https://a.example/links/x".into())
        });
        let document = PartContent::File(FileItem { form: FileForm::Document, ..photo(1) });
        let late = part(1, document);
        let answers = vec![not_sent(120_000), refused(Refusal::TooLarge { limit: Some(5) })];
        // The links are revoked while the part waits.
        let mut revoked = late.clone();
        let Operation::Post { content: PartContent::File(item) } = &mut revoked.operation else { panic!("a file") };
        item.attachment.link_revocation = Some(LinkRevocation { count: 1, planned_count });
        let known = vec![revoked];
        let stage = DeliveryHarness { links: Some(links), known, ..DeliveryHarness::new(vec![late], answers) };
        let told = Arc::clone(&stage.told);
        stage.log().await;
        let kept =
            if is_revoked { "/resend 17" } else { "<https://a.example/links/x> (for 7 days; a new one: /resend 17)" };
        let expected = format!("0 of 1 file sent; a.jpg is 9 B, the limit here is 5 B; kept as #17: {kept}");
        assert_eq!(*told.lock().unwrap(), [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_discarded_is_skipped() {
    let stage =
        DeliveryHarness { discarded: Some(text(1).id), ..DeliveryHarness::new(vec![text(1), text(2)], vec![sent()]) };
    assert_eq!(stage.log().await, ["save sending", "send hello", "settle sent"]);
}

#[tokio::test(start_paused = true)]
async fn stopped_process_sends_nothing_and_leaves_no_doubt() {
    let stopped = DeliveryHarness::new(vec![text(2)], vec![]);
    stopped.stop.cancel();
    let (log, left) = stopped.play(DeliveryStart::Started(sending(text(1)))).await;
    assert_eq!(log, ["save pending"], "begun, but not sent");
    assert_eq!(left.unwrap(), DriverEnd::Finished);

    let stopped = DeliveryHarness::new(vec![sending(text(1))], vec![]);
    stopped.stop.cancel();
    assert_eq!(stopped.play(DeliveryStart::Planned).await.0, ["save pending"], "a question that was just opened");

    let waiting = DeliveryHarness::new(vec![text(1)], vec![not_sent(3_600_000)]);
    let stop = waiting.stop.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    });
    let started = tokio::time::Instant::now();
    assert_eq!(waiting.play(DeliveryStart::TakenOver).await.1.unwrap(), DriverEnd::Finished);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_lost_lane_ends_the_work_at_once() {
    let mut ledger = MockLedger::default();
    ledger.outbox.expect_next_part().returning(|lease| Err(LedgerError::LeaseLost(lease.conversation.clone())));
    let delivery = DeliveryContext {
        outbox: Arc::new(ledger.outbox),
        archive: Arc::new(ledger.archive),
        clock: Arc::new(TokioClock::default()),
        channel: Arc::new(MockChannel::new()),
        blobs: Arc::new(MockBlobs::new()),
        speech: None,
        bus: Arc::new(MockEventBus::new()),
        links: None,
        owner_reads: false,
        rules: DeliveryRules::default(),
        stop: CancellationToken::new(),
        process_stop: CancellationToken::new(),
    };
    let lease = Lease { conversation: "console:main".parse().unwrap(), holder: HolderId(Uuid::nil()), token: 1 };
    assert!(matches!(run(delivery, lease, DeliveryStart::TakenOver).await, Err(LedgerError::LeaseLost(_))));
}
