//! One question to a scripted model: what is gathered, and what is kept when it ends early.

use std::{sync::Arc, sync::Mutex, time::Duration};

use futures::{StreamExt, stream};
use satchel_domain::{CallId, ConversationId, Timestamp, TurnId, fold::InterimText};
use satchel_ports::{
    HolderId, Lease, MockChannel, MockEventBus, MockLanguageModel, MockLedger, ModelError, ModelEvent, ModelRequest,
    language_model::{ModelStream, ModelToolCall, TokenUsage},
    ledger::{ConversationSettings, QueuedTurn},
};
use satchel_routing::deliver::DeliveryHandle;
use serde_json::json;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{ModelResponse, call_model};
use crate::{AgentServices, LaneHandle, draft::DeltaSink};

const TURN: TurnId = TurnId(Uuid::from_u128(1));

const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Pieces of an answer, each after so many seconds; `None` never comes.
type Script = Vec<(u64, Option<Result<ModelEvent, ModelError>>)>;

fn text(seconds: u64, text: &str) -> (u64, Option<Result<ModelEvent, ModelError>>) {
    (seconds, Some(Ok(ModelEvent::Text(text.into()))))
}

fn call(name: &str) -> (u64, Option<Result<ModelEvent, ModelError>>) {
    (0, Some(Ok(ModelEvent::Call(ModelToolCall { id: "same".into(), name: name.into(), arguments: json!({}) }))))
}

const DONE: (u64, Option<Result<ModelEvent, ModelError>>) = (0, Some(Ok(ModelEvent::Done)));

fn play(script: Script) -> ModelStream {
    let timed_events = stream::iter(script).then(|(seconds, event)| async move {
        // Under paused time.
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        match event {
            Some(event) => event,
            None => std::future::pending().await,
        }
    });
    Box::pin(timed_events)
}

fn services(script: Result<Script, ModelError>) -> AgentServices {
    let mut model = MockLanguageModel::new();
    model.expect_name().returning(|| "scripted".into());
    let script = Mutex::new(Some(script));
    model.expect_stream().returning(move |_| script.lock().unwrap().take().expect("it is asked once").map(play));
    let mut bus = MockEventBus::new();
    bus.expect_publish().returning(|_| Ok(()));
    crate::fixtures::services(MockLedger::default(), bus, model)
}

fn deltas(services: &AgentServices) -> DeltaSink {
    let conversation: ConversationId = "console:main".parse().unwrap();
    let lane = LaneHandle {
        lease: Lease { conversation, holder: HolderId(Uuid::nil()), token: 1 },
        channel: Arc::new(MockChannel::new()),
        wake: Arc::new(Notify::new()),
        woken: Arc::default(),
        hands_over: Arc::default(),
        handed_over: Arc::default(),
        delivery: DeliveryHandle::new().0,
        stop: CancellationToken::new(),
    };
    let turn = QueuedTurn {
        id: TURN,
        messages: Vec::new(),
        ready_at: Timestamp(0),
        has_followers: true,
        journal: Vec::new(),
        draft: None,
        crashes: 0,
        unreported_failures: Vec::new(),
        settings: ConversationSettings::default(),
        history: [].into(),
    };
    DeltaSink::new(services, &lane, &turn, InterimText::default())
}

/// Asks once and returns the answer together with what is left in `written`.
async fn asked(script: Result<Script, ModelError>) -> (Result<ModelResponse, ModelError>, String) {
    let services = services(script);
    let deltas = deltas(&services);
    let request = ModelRequest { system: String::new(), messages: Vec::new(), tools: Arc::default(), work_share: None };
    let mut written = String::new();
    let (model, first_call) = (&*services.agents.default_agent().model, CallId { turn: TURN, ordinal: 7 });
    let answer = call_model(model, IDLE_TIMEOUT, &request, first_call, &mut written, &deltas).await;
    (answer, written)
}

#[tokio::test(start_paused = true)]
async fn response_is_collected_with_continued_call_numbers() {
    let usage = (0, Some(Ok(ModelEvent::Usage(TokenUsage::default()))));
    let script = vec![text(0, "Look"), text(1, "ing."), call("a"), call("b"), usage, DONE];
    let (answer, written) = asked(Ok(script)).await;
    let answer = answer.unwrap();
    assert_eq!(answer.text, "Looking.");
    let calls: Vec<_> = answer.calls.iter().map(|call| (call.id, call.name.as_str())).collect();
    let id = |ordinal| CallId { turn: TURN, ordinal };
    assert_eq!(calls, [(id(7), "a"), (id(8), "b")], "whatever the model calls them");
    assert_eq!(written, "", "nothing is partial any more");
}

#[tokio::test(start_paused = true)]
async fn arguments_that_cannot_round_trip_are_dropped() {
    for (depth, kept) in [(1, true), (64, true), (65, false), (200, false)] {
        let arguments = (0..depth).fold(json!(1), |inside, _| json!({ "a": inside }));
        let deep = ModelEvent::Call(ModelToolCall { id: "1".into(), name: "t".into(), arguments: arguments.clone() });
        let (answer, _) = asked(Ok(vec![(0, Some(Ok(deep))), DONE])).await;
        let call = &answer.unwrap().calls[0];
        assert_eq!(call.arguments == arguments, kept, "{depth}");
        let stored = serde_json::to_string(call).unwrap();
        assert!(serde_json::from_str::<satchel_domain::ToolCall>(&stored).is_ok(), "{depth}");
    }
}

#[tokio::test(start_paused = true)]
async fn silent_model_times_out_with_partial_text() {
    let begun = Instant::now();
    // Slow is not silent: each piece begins the time anew.
    let (answer, written) = asked(Ok(vec![text(25, "Half"), text(25, " an"), text(25, " answer"), (0, None)])).await;
    assert_eq!(answer.unwrap_err().reason, "it sent nothing for 30 seconds");
    assert_eq!(written, "Half an answer");
    assert_eq!(begun.elapsed().as_secs(), 25 * 3 + 30);
}

#[tokio::test(start_paused = true)]
async fn unresponsive_model_request_times_out() {
    struct Deaf;
    #[async_trait::async_trait]
    impl satchel_ports::LanguageModel for Deaf {
        fn name(&self) -> String {
            "deaf".into()
        }

        async fn stream(&self, _: &ModelRequest) -> Result<ModelStream, ModelError> {
            std::future::pending().await
        }
    }
    let deltas = deltas(&services(Ok(Vec::new())));
    let request = ModelRequest { system: String::new(), messages: Vec::new(), tools: Arc::default(), work_share: None };
    let first_call = CallId { turn: TURN, ordinal: 0 };
    let mut written = String::new();
    let answer = call_model(&Deaf, IDLE_TIMEOUT, &request, first_call, &mut written, &deltas).await;
    let error = answer.unwrap_err();
    assert_eq!(error.reason, "it sent nothing for 30 seconds");
}

#[tokio::test(start_paused = true)]
async fn errors_and_broken_answers_keep_what_was_written() {
    let down = || ModelError { reason: "the provider is down".into(), retryable: true, remedy: None };
    for (script, reason, kept) in [
        (Err(down()), "the provider is down", ""),
        (Ok(vec![text(0, "Half"), (0, Some(Err(down())))]), "the provider is down", "Half"),
        (Ok(vec![text(0, "Half")]), "its answer was cut off in the middle", "Half"),
    ] {
        let (answer, written) = asked(script).await;
        assert_eq!(answer.unwrap_err().reason, reason);
        assert_eq!(written, kept, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn partial_text_survives_cancelled_model_call() {
    let services = services(Ok(vec![text(0, "Half an "), text(1, "answer"), (0, None)]));
    let deltas = deltas(&services);
    let request = ModelRequest { system: String::new(), messages: Vec::new(), tools: Arc::default(), work_share: None };
    let mut written = String::new();
    let (model, first_call) = (&*services.agents.default_agent().model, CallId { turn: TURN, ordinal: 0 });
    let asking = call_model(model, IDLE_TIMEOUT, &request, first_call, &mut written, &deltas);
    assert!(tokio::time::timeout(Duration::from_secs(5), asking).await.is_err(), "it is still asking");
    assert_eq!(written, "Half an answer");
}
