//! A question as the outbox reports it: when it counts as standing, and how it is closed.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use satchel_domain::{MessageRef, PartContent, Timestamp, TurnId, delivery::DeliveryRules, part::CallQuestion};
use satchel_ports::{HolderId, Lease, MockBlobs, MockChannel, MockEventBus, MockLanguageModel, MockLedger};
use satchel_routing::deliver::{DeliveryContext, DeliveryHandle, Driver};
use serde_json::json;
use tokio::time::Instant;
use uuid::Uuid;

use super::*;

const SEND_TIMEOUT: Duration = Duration::from_secs(600);

fn call() -> ToolCall {
    let id = CallId { turn: TurnId(Uuid::from_u128(1)), ordinal: 0 };
    ToolCall { id, name: "vault".into(), arguments: json!({}) }
}

fn part(id: u128, state: PartState) -> Part {
    let content = PartContent::question("May I?", Vec::new());
    let (id, conversation) = (PartId(Uuid::from_u128(id)), "discord:1".parse().unwrap());
    Part {
        state,
        attempts: 1,
        first_attempt_at: Some(Timestamp(0)),
        question: Some(CallQuestion { call: call().id, unanswered: String::new(), closing: None }),
        ..Part::new(id, conversation, call().id.turn, 0, content, Timestamp(0))
    }
}

fn open() -> PartState {
    PartState::Open { message: MessageRef("q".into()) }
}

fn waiting() -> PartState {
    PartState::Waiting { until: Timestamp(0), reason: "too many requests".into() }
}

fn in_doubt() -> PartState {
    PartState::InDoubt { until: Timestamp(0), reason: "reset".into() }
}

fn failed(reason: FailureReason) -> PartState {
    PartState::Failed { reason }
}

/// A question of which the outbox reports these parts, one at each look and the last one from then on, and what was
/// written down of it.
struct Scene {
    services: AgentServices,
    lane: LaneHandle,
    log: Arc<Mutex<Vec<String>>>,
    /// The text by which the question is closed already when it is opened.
    closing: Arc<Mutex<Option<String>>>,
    /// How often the driver has looked for parts.
    looks: Arc<AtomicUsize>,
}

impl Scene {
    fn new(reported: Vec<Part>, events: Vec<BusEvent>) -> Self {
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut ledger = MockLedger::default();
        let closing: Arc<Mutex<Option<String>>> = Arc::default();
        let (lines, closed_by) = (Arc::clone(&log), Arc::clone(&closing));
        let looks: Arc<AtomicUsize> = Arc::default();
        let counted = Arc::clone(&looks);
        ledger.outbox.expect_next_part().returning(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        });
        ledger.outbox.expect_open_question().returning(move |_, question| {
            lines.lock().unwrap().push(format!("open {}, else {}", question.text, question.unanswered));
            let mut opened = part(1, PartState::Sending);
            opened.question.as_mut().unwrap().closing.clone_from(&closed_by.lock().unwrap());
            Ok(opened)
        });
        let lines = Arc::clone(&log);
        ledger.outbox.expect_close_question().returning(move |_, call, text| {
            lines.lock().unwrap().push(format!("close {}: {text}", call.ordinal));
            Ok(())
        });
        let reported = Mutex::new(VecDeque::from(reported));
        ledger.archive.expect_parts().returning(move |query| {
            let mut reported = reported.lock().unwrap();
            let next = if reported.len() > 1 { reported.pop_front() } else { reported.front().cloned() };
            Ok(next.into_iter().filter(|part| Some(part.id) == query.part && query.include_delivered).collect())
        });
        let mut bus = MockEventBus::new();
        let events = Mutex::new(Some(events));
        bus.expect_subscribe().returning(move || {
            let events = events.lock().unwrap().take().expect("it is subscribed once");
            Ok(Box::pin(futures::stream::iter(events)))
        });
        let lines = Arc::clone(&log);
        bus.expect_publish().returning(move |event| {
            let line = match event {
                BusEvent::ToolQuestion { text, .. } => format!("show {text}"),
                BusEvent::ToolDecided { text, allowed, .. } => format!("decided {text}: {allowed}"),
                other => panic!("{other:?}"),
            };
            lines.lock().unwrap().push(line);
            Ok(())
        });
        let services = crate::fixtures::services(ledger, bus, MockLanguageModel::new());
        let (delivery, requests) = DeliveryHandle::new();
        let lane = LaneHandle {
            lease: Lease { conversation: "discord:1".parse().unwrap(), holder: HolderId(Uuid::nil()), token: 1 },
            // Nothing is expected of it: routing sends.
            channel: Arc::new(MockChannel::new()),
            wake: Arc::default(),
            woken: Arc::default(),
            hands_over: Arc::default(),
            handed_over: Arc::default(),
            delivery,
            stop: tokio_util::sync::CancellationToken::new(),
        };
        let context = DeliveryContext {
            outbox: Arc::clone(&services.outbox),
            archive: Arc::clone(&services.archive),
            clock: Arc::clone(&services.clock),
            channel: Arc::clone(&lane.channel),
            blobs: Arc::new(MockBlobs::new()),
            speech: None,
            bus: Arc::clone(&services.bus),
            links: None,
            owner_reads: false,
            rules: DeliveryRules::default(),
            stop: lane.stop.clone(),
            process_stop: lane.stop.clone(),
        };
        tokio::spawn(Driver::new(context, lane.lease.clone(), requests).run());
        Self { services, lane, log, closing, looks }
    }

    async fn open(&self) -> Question {
        let question = QuestionText { call: &call(), text: "May I?".into(), buttons: Vec::new() };
        Question::open(&self.services, &self.lane, question).await.unwrap()
    }

    /// Whether the driver has looked for something to deliver since this was last asked.
    async fn is_planned(&self) -> bool {
        self.lane.delivery.idle().await;
        self.looks.swap(0, Ordering::Relaxed) > 0
    }
}

#[tokio::test(start_paused = true)]
async fn question_is_open_once_its_message_is_visible() {
    let forbidden = || FailureReason::Forbidden { reason: "muted".into() };
    let cases = [
        (vec![part(1, PartState::Sending), part(1, waiting()), part(1, open())], Ok(())),
        (vec![part(1, failed(FailureReason::MayHaveArrived { reason: "reset".into() }))], Ok(())),
        // A channel without ids.
        (vec![part(1, PartState::Sent { messages: Vec::new() })], Ok(())),
        (vec![part(1, waiting()), part(1, failed(forbidden()))], Err("not allowed: muted")),
        // What has no place on one message goes as several; the last one names the commands.
        (
            vec![
                part(1, PartState::Replaced { by: vec![PartId(Uuid::from_u128(2)), PartId(Uuid::from_u128(3))] }),
                part(3, PartState::Pending),
                part(3, open()),
            ],
            Ok(()),
        ),
    ];
    for (reported, expected) in cases {
        let scene = Scene::new(reported.clone(), Vec::new());
        let stands = scene.open().await.wait_until_open(SEND_TIMEOUT).await;
        assert_eq!(stands, expected.map_err(str::to_owned), "{reported:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn question_closed_by_earlier_process_is_reported_closed() {
    let mut scene = Scene::new(vec![part(1, open())], Vec::new());
    assert!(!scene.open().await.is_closed());
    scene = Scene::new(vec![part(1, open())], Vec::new());
    scene.closing.lock().unwrap().replace("No answer in time: `vault`".into());
    assert!(scene.open().await.is_closed());
}

#[tokio::test(start_paused = true)]
async fn send_timeout_ends_with_doubt_or_reason() {
    for (state, expected) in [
        (in_doubt(), Ok(())),
        (waiting(), Err("too many requests".to_owned())),
        (PartState::Pending, Err("it could not be sent in time".to_owned())),
    ] {
        let began = Instant::now();
        assert_eq!(
            Scene::new(vec![part(1, state)], Vec::new()).open().await.wait_until_open(SEND_TIMEOUT).await,
            expected
        );
        assert_eq!(began.elapsed(), SEND_TIMEOUT);
    }
}

#[tokio::test(start_paused = true)]
async fn reported_delivery_is_read_at_once() {
    let event = BusEvent::DeliveryPart {
        conversation: "discord:1".parse().unwrap(),
        turn: call().id.turn,
        part: PartId(Uuid::from_u128(1)),
        kind: "question".into(),
        state: "open".into(),
        messages: Vec::new(),
        reason: None,
    };
    let scene = Scene::new(vec![part(1, PartState::Sending), part(1, open())], vec![event]);
    let (mut question, began) = (scene.open().await, Instant::now());
    assert_eq!((question.wait_until_open(SEND_TIMEOUT).await, began.elapsed()), (Ok(()), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn question_is_opened_published_and_closed() {
    let scene = Scene::new(vec![part(1, open())], Vec::new());
    let question = scene.open().await;
    assert!(scene.is_planned().await, "its delivery begins");
    question.close("No answer in time").await;
    assert!(scene.is_planned().await, "the edit that closes it is delivered");
    let lines = [
        "open May I?, else No longer needed: `vault`",
        "show May I?",
        "close 0: No answer in time: `vault`",
        "decided No answer in time: false",
    ];
    assert_eq!(*scene.log.lock().unwrap(), lines);
}
