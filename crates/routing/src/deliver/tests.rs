//! The loop against a scripted channel: which calls follow which answer, in which order, and what is written down.

mod keyed_retries;
mod lookups;
mod reply_targets;
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
    AttachmentId, AttachmentSource, ConversationId, Filename, MediaInfo, MessageRef, NewAttachment, Part, PartContent,
    PartId, PartState, Sha256, Timestamp, TurnId,
    capabilities::{ChannelCapabilities, Idempotency, LookupRule},
    delivery::{DeliveryRules, OnDoubt, Refusal, SendError},
    part::{FileForm, FileItem, Markup, PreparedVoice},
};
use satchel_ports::{
    BlobError, HolderId, Lease, LedgerError, LookupOutcome, LookupRange, MockBlobs, MockChannel, MockEventBus,
    MockFileLinks, MockLedger, MockSpeech, SpeechError, StoredBlob, SynthesizedSpeech, TokioClock,
    ledger::{RecordedMessages, SettleOutcome, TurnRecord},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{DeliverOutcome, DeliveryContext, DeliveryStart, deliver};
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
    Part {
        id: PartId(Uuid::from_u128(id)),
        conversation: "console:main".parse().unwrap(),
        turn: TurnId(Uuid::from_u128(100)),
        position: 0,
        content,
        state: PartState::Pending,
        attempts: 0,
        first_attempt_at: None,
        streamed: false,
        searched: false,
        labelled: false,
        labelled_sends: 0,
        target: None,
        reply_to: None,
        created_at: Timestamp(0),
    }
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

/// A lane with these parts and a channel that gives these answers; `log` tells what was done.
struct DeliveryHarness {
    parts: Vec<Part>,
    /// The parts of the turn as its record has them.
    known: Vec<Part>,
    answers: Vec<Answer>,
    probes: Vec<bool>,
    /// What look-ups find, one after the other; nothing certain from then on.
    lookups: Vec<LookupOutcome>,
    /// Whether another message to the chat is in doubt as well.
    other_doubt: bool,
    capabilities: ChannelCapabilities,
    /// What the channel knows of the place after its first answer, where that is something else.
    learned: Option<ChannelCapabilities>,
    rules: DeliveryRules,
    speech: Option<MockSpeech>,
    links: Option<MockFileLinks>,
    owner_reads: bool,
    /// Whether the first voice ends in the middle.
    breaks_off: bool,
    discarded: Option<PartId>,
    stop: CancellationToken,
    /// How each part ended.
    ends: Arc<Mutex<Vec<PartState>>>,
    /// How many files each send and each edit brought.
    carried: Arc<Mutex<Vec<usize>>>,
    /// The notices as they were written down.
    told: Arc<Mutex<Vec<String>>>,
}

impl DeliveryHarness {
    fn new(parts: Vec<Part>, answers: Vec<Answer>) -> Self {
        Self {
            known: parts.clone(),
            parts,
            answers,
            probes: Vec::new(),
            lookups: Vec::new(),
            other_doubt: false,
            capabilities: ChannelCapabilities {
                idempotency: Idempotency::None,
                look_up: LookupRule::None,
                ..tables::telegram()
            },
            learned: None,
            rules: DeliveryRules::default(),
            speech: None,
            links: None,
            owner_reads: false,
            breaks_off: false,
            discarded: None,
            stop: CancellationToken::new(),
            ends: Arc::default(),
            carried: Arc::default(),
            told: Arc::default(),
        }
    }

    /// Plays it, and looks at it so long after its end.
    async fn play_longer(
        self,
        from: DeliveryStart,
        longer: Duration,
    ) -> (Vec<String>, Result<DeliverOutcome, LedgerError>) {
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let note = |log: &Arc<Mutex<Vec<String>>>| {
            let log = Arc::clone(log);
            move |line: String| log.lock().unwrap().push(line)
        };
        let all = self.known;
        let rest: Arc<Mutex<VecDeque<Part>>> = Arc::new(Mutex::new(self.parts.into()));

        let mut ledger = MockLedger::default();
        let first = Arc::clone(&rest);
        ledger.outbox.expect_next_part().returning(move |_| Ok(first.lock().unwrap().pop_front()));
        let (write, discarded) = (note(&log), self.discarded);
        ledger.outbox.expect_save_part().returning(move |_, part| {
            if discarded == Some(part.id) {
                return Err(LedgerError::AlreadySettled(part.id));
            }
            let label = if part.labelled { " labelled" } else { "" };
            let bytes = match &part.content {
                PartContent::Voice { prepared: Some(_), .. } => " with its bytes",
                _ => "",
            };
            write(format!("save {}{label}{bytes}", part.state.as_str()));
            Ok(())
        });
        let (write, ends, told) = (note(&log), self.ends, self.told);
        ledger.outbox.expect_settle_part().returning(move |_, settlement| {
            ends.lock().unwrap().push(settlement.part.state.clone());
            told.lock().unwrap().extend(settlement.notice.clone());
            let children: Vec<_> = settlement
                .children
                .iter()
                .map(|child| format!("{}{}", child.content.kind(), if child.failure.is_some() { "!" } else { "" }))
                .collect();
            let children = if children.is_empty() { String::new() } else { format!(" by {}", children.join(", ")) };
            let notice = if settlement.notice.is_some() { " with notice" } else { "" };
            write(format!("settle {}{children}{notice}", settlement.part.state.as_str()));
            let next = rest.lock().unwrap().pop_front().map(sending);
            Ok(SettleOutcome { released: next.is_none(), next })
        });
        ledger.archive.expect_turn().returning(move |id| {
            let record = TurnRecord {
                id,
                conversation: "console:main".parse().unwrap(),
                ending: None,
                response: None,
                messages: Vec::new(),
                parts: all.clone(),
            };
            Ok(Some(record))
        });
        ledger.outbox.expect_last_sent_before().returning(|_| Ok(None));
        let other_doubt = self.other_doubt;
        ledger
            .outbox
            .expect_list_recorded_messages()
            .returning(move |_, _, _| Ok(RecordedMessages { other_doubt, ..RecordedMessages::default() }));

        let mut channel = MockChannel::new();
        channel.expect_name().returning(|| satchel_domain::ChannelName::new("console").unwrap());
        let scripted = self.answers.len();
        let answers = Arc::new(Mutex::new(VecDeque::from(self.answers)));
        let (at_first, later, left) = (self.capabilities, self.learned, Arc::clone(&answers));
        channel.expect_capabilities().returning(move |_| match &later {
            Some(learned) if left.lock().unwrap().len() < scripted => learned.clone(),
            _ => at_first.clone(),
        });
        let (write, sends) = (note(&log), Arc::clone(&answers));
        let (carried, carried_by_edits) = (Arc::clone(&self.carried), self.carried);
        channel.expect_send().returning(move |part| {
            carried.lock().unwrap().push(part.content.files().len());
            let shown = match &part.content {
                PartContent::Text { text, .. } | PartContent::Notice { text } | PartContent::Question { text, .. } => {
                    text.clone()
                }
                other => other.kind().to_owned(),
            };
            let answered = part.reply_to.as_ref().map(|message| format!(" to {message}")).unwrap_or_default();
            write(format!("send {shown}{answered}"));
            sends.lock().unwrap().pop_front().expect("an answer is scripted")
        });
        let write = note(&log);
        channel.expect_edit().returning(move |target, part| {
            carried_by_edits.lock().unwrap().push(part.content.files().len());
            write(format!("edit {target}"));
            answers.lock().unwrap().pop_front().expect("an answer is scripted")
        });
        let write = note(&log);
        channel.expect_delete().returning(move |_, target| {
            write(format!("delete {target}"));
            Ok(())
        });
        let (write, mut probes) = (note(&log), self.probes.into_iter());
        channel.expect_probe().returning(move || {
            let up = probes.next().unwrap_or(true);
            write(format!("probe {}", if up { "ok" } else { "down" }));
            if up { Ok(()) } else { Err(SendError::NotSent { retry_after_ms: None, reason: "down".into() }) }
        });
        let (write, mut lookups) = (note(&log), self.lookups.into_iter());
        channel.expect_find_sent().returning(move |request| {
            write(match &request.range {
                LookupRange::After(_) => "look up".to_owned(),
                LookupRange::Before(sent) => format!("look before {}", sent[0]),
                LookupRange::Late(sent) => format!("look behind {}", sent[0]),
            });
            Ok(lookups.next().unwrap_or_else(|| LookupOutcome::uncertain("nothing is scripted")))
        });
        let write = note(&log);
        channel.expect_show_activity().returning(move |_, activity| write(format!("show {activity:?}")));
        let (write, mut breaks_off) = (note(&log), self.breaks_off);
        let mut blobs = MockBlobs::new();
        blobs.expect_put().returning(move |_, _, _| {
            if std::mem::take(&mut breaks_off) {
                write("voice breaks off".into());
                return Err(BlobError::Source(std::io::Error::other("the cable was cut")));
            }
            Ok(StoredBlob { sha256: Sha256([1; 32]), bytes: 3, mime: "audio/ogg".into(), media: MediaInfo::default() })
        });
        let mut bus = MockEventBus::new();
        bus.expect_publish().returning(|_| Ok(()));
        let delivery = DeliveryContext {
            outbox: Arc::new(ledger.outbox),
            archive: Arc::new(ledger.archive),
            clock: Arc::new(TokioClock::default()),
            channel: Arc::new(channel),
            blobs: Arc::new(blobs),
            speech: self.speech.map(|speech| Arc::new(speech) as Arc<dyn satchel_ports::Speech>),
            bus: Arc::new(bus),
            links: self.links.map(|links| Arc::new(links) as Arc<dyn satchel_ports::FileLinks>),
            owner_reads: self.owner_reads,
            rules: self.rules,
            stop: self.stop,
        };
        let lease = Lease { conversation: "console:main".parse().unwrap(), holder: HolderId(Uuid::nil()), token: 1 };
        let left = deliver(&delivery, &lease, from).await;
        tokio::time::sleep(longer).await;
        let log = log.lock().unwrap().clone();
        (log, left)
    }

    async fn play(self, from: DeliveryStart) -> (Vec<String>, Result<DeliverOutcome, LedgerError>) {
        self.play_longer(from, Duration::ZERO).await
    }

    async fn log(self) -> Vec<String> {
        self.play(DeliveryStart::TakenOver).await.0
    }
}

#[tokio::test(start_paused = true)]
async fn started_part_is_sent_and_settled_only() {
    let (log, left) = DeliveryHarness::new(vec![], vec![sent()]).play(DeliveryStart::Started(sending(text(1)))).await;
    assert_eq!(log, ["send hello", "settle sent"]);
    assert_eq!(left.unwrap(), DeliverOutcome::Released);
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
    let edit = Part { target: Some(MessageRef("m1".into())), ..interrupted };
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
    let edit = Part { target: Some(MessageRef("m1".into())), ..text(1) };
    let log = DeliveryHarness::new(vec![edit], vec![refused(Refusal::TargetGone)]).log().await;
    assert_eq!(log, ["save sending", "edit m1", "settle replaced by text"]);
    let never_ends = DeliveryHarness::new(vec![text(1)], vec![refused(Refusal::TargetGone)]).log().await;
    assert_eq!(never_ends, ["save sending", "send hello", "settle failed with notice"]);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_message_without_a_text_is_deleted() {
    let withdraw = Part { target: Some(MessageRef("m1".into())), ..part(1, PartContent::Withdraw) };
    assert_eq!(DeliveryHarness::new(vec![withdraw], vec![]).log().await, ["save sending", "delete m1", "settle sent"]);
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
    let named = |conversation: &ConversationId, file: &AttachmentId, _: &Timestamp| {
        conversation.to_string() == "console:main" && *file == AttachmentId(Uuid::from_u128(1))
    };
    links.expect_create_link().withf(named).times(1).returning(|_, _, _| Some("https://a.example/links/x".into()));
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
    for (reply, part_of_it, ended) in [(0, 0, true), (0, 60_000, true), (60_000, 60_000, false)] {
        let mut links = MockFileLinks::new();
        let ended_at = Timestamp(30_000);
        links
            .expect_create_link()
            .returning(move |_, _, planned| (planned > ended_at).then(|| "https://a.example/links/x".into()));
        let document = PartContent::File(FileItem { form: FileForm::Document, ..photo(1) });
        let first = Part { created_at: Timestamp(reply), state: PartState::Replaced { by: Vec::new() }, ..text(2) };
        let late = Part { created_at: Timestamp(part_of_it), ..part(1, document) };
        let answers = vec![not_sent(120_000), refused(Refusal::TooLarge { limit: Some(5) })];
        let known = vec![first, late.clone()];
        let stage = DeliveryHarness { links: Some(links), known, ..DeliveryHarness::new(vec![late], answers) };
        let told = Arc::clone(&stage.told);
        stage.log().await;
        let kept = if ended { "/resend 17" } else { "<https://a.example/links/x> (for 7 days; a new one: /resend 17)" };
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
    assert_eq!(left.unwrap(), DeliverOutcome::Stopped);

    let waiting = DeliveryHarness::new(vec![text(1)], vec![not_sent(3_600_000)]);
    let stop = waiting.stop.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    });
    let started = tokio::time::Instant::now();
    assert_eq!(waiting.play(DeliveryStart::TakenOver).await.1.unwrap(), DeliverOutcome::Stopped);
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
    };
    let lease = Lease { conversation: "console:main".parse().unwrap(), holder: HolderId(Uuid::nil()), token: 1 };
    assert!(matches!(deliver(&delivery, &lease, DeliveryStart::TakenOver).await, Err(LedgerError::LeaseLost(_))));
}
