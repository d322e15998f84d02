//! One question on a scripted channel: what is sent, under which key, and what becomes of its buttons.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use satchel_domain::{
    ChannelCapabilities, ChannelName, ConversationId, FileReference, TurnId, capabilities::Idempotency,
};
use satchel_ports::{
    Activity, Channel, FetchedFile, FileFetchError, HolderId, Lease, LookupRequest, ManualClock, MockEventBus,
    MockLanguageModel, MockLedger, SequentialIds, ledger::SteeringRequests,
};
use satchel_routing::tables;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::{AgentProfile, AgentProfiles, AgentSettings, Toolbox};

const MINUTE: Duration = Duration::from_secs(60);

fn lost() -> SendError {
    SendError::InDoubt { reason: "the connection broke".into() }
}

fn busy() -> SendError {
    SendError::NotSent { retry_after_ms: Some(30_000), reason: "too many requests".into() }
}

fn forbidden() -> SendError {
    SendError::Forbidden { reason: "muted".into() }
}

/// A channel that answers as it is told to; what it isn't told it takes.
struct Scripted {
    log: Arc<Mutex<Vec<String>>>,
    keys: Arc<Mutex<Vec<PartId>>>,
    began: Instant,
    idempotency: Idempotency,
    takes: Duration,
    sends: Mutex<VecDeque<SendError>>,
    edits: Mutex<VecDeque<SendError>>,
    /// How many probes find nobody.
    away: Arc<Mutex<usize>>,
    /// What look-ups find, one after the other; nothing certain from then on.
    lookups: Arc<Mutex<VecDeque<LookupOutcome>>>,
}

#[async_trait]
impl Channel for Scripted {
    fn name(&self) -> ChannelName {
        ChannelName::new("discord").unwrap()
    }

    fn capabilities(&self, _: &ConversationId) -> ChannelCapabilities {
        ChannelCapabilities { idempotency: self.idempotency, ..tables::discord() }
    }

    async fn send(&self, request: &SendRequest) -> Result<Vec<MessageRef>, SendError> {
        let PartContent::Question { text, .. } = &request.content else { panic!("only questions are put") };
        let labelled = if text.starts_with("(possible duplicate)") { " labelled" } else { "" };
        self.log.lock().unwrap().push(format!("send{labelled} at {} s", self.began.elapsed().as_secs()));
        self.keys.lock().unwrap().push(request.part_id);
        sleep(self.takes).await;
        let failed = self.sends.lock().unwrap().pop_front();
        failed.map_or_else(|| Ok(vec![MessageRef("q".into())]), Err)
    }

    async fn edit(&self, message: &MessageRef, request: &SendRequest) -> Result<Vec<MessageRef>, SendError> {
        let PartContent::Text { text, .. } = &request.content else { panic!("a question ends as a text") };
        self.log.lock().unwrap().push(format!("edit {message}: {text}"));
        let failed = self.edits.lock().unwrap().pop_front();
        failed.map_or_else(|| Ok(vec![message.clone()]), Err)
    }

    async fn delete(&self, _: &ConversationId, _: &MessageRef) -> Result<(), SendError> {
        panic!("a question is not deleted")
    }

    async fn find_sent(&self, request: &LookupRequest) -> Result<LookupOutcome, SendError> {
        assert_eq!(Some(&request.part.part_id), self.keys.lock().unwrap().first(), "the one in doubt is looked for");
        self.log.lock().unwrap().push("look".into());
        let outcome = self.lookups.lock().unwrap().pop_front();
        Ok(outcome.unwrap_or_else(|| LookupOutcome::uncertain("nothing is scripted")))
    }

    async fn probe(&self) -> Result<(), SendError> {
        let mut away = self.away.lock().unwrap();
        let is_away = *away > 0;
        *away = away.saturating_sub(1);
        if is_away { Err(busy()) } else { Ok(()) }
    }

    async fn show_activity(&self, _: &ConversationId, _: Activity) {}

    async fn fetch(&self, _: &FileReference) -> Result<FetchedFile, FileFetchError> {
        panic!("a question has no files")
    }
}

/// A question on a channel, and what happened there so far.
struct Scene {
    log: Arc<Mutex<Vec<String>>>,
    keys: Arc<Mutex<Vec<PartId>>>,
    away: Arc<Mutex<usize>>,
    lookups: Arc<Mutex<VecDeque<LookupOutcome>>>,
    /// What the ledger was told of questions.
    recorded: Arc<Mutex<Vec<String>>>,
    services: AgentServices,
    lane: LaneHandle,
    /// Whether the turn is complete.
    completed: watch::Sender<bool>,
}

impl Scene {
    /// On a channel with these doubts, where each send takes so long and the first ones fail so, and the first edits too.
    fn new(idempotency: Idempotency, takes: Duration, sends: &[SendError], edits: &[SendError]) -> Self {
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let keys: Arc<Mutex<Vec<PartId>>> = Arc::default();
        let (away, lookups) = (Arc::default(), Arc::default());
        let channel = Scripted {
            log: Arc::clone(&log),
            keys: Arc::clone(&keys),
            began: Instant::now(),
            idempotency,
            takes,
            sends: Mutex::new(sends.to_vec().into()),
            edits: Mutex::new(edits.to_vec().into()),
            away: Arc::clone(&away),
            lookups: Arc::clone(&lookups),
        };
        let mut ledger = MockLedger::default();
        let recorded: Arc<Mutex<Vec<String>>> = Arc::default();
        let (begun, settled) = (Arc::clone(&recorded), Arc::clone(&recorded));
        ledger.outbox.expect_begin_question().returning(move |_, question, _| {
            begun.lock().unwrap().push(format!("{} begun", question.0.as_u128()));
            Ok(())
        });
        ledger.outbox.expect_settle_question().returning(move |question, message| {
            let became = message.map_or("nothing".to_owned(), |message| message.0);
            settled.lock().unwrap().push(format!("{} is {became}", question.0.as_u128()));
            Ok(())
        });
        let mut bus = MockEventBus::new();
        let told = Arc::clone(&log);
        bus.expect_publish().returning(move |event| {
            if let BusEvent::ToolDecided { text: words, allowed, .. } = event {
                told.lock().unwrap().push(format!("told {words}: {allowed}"));
            }
            Ok(())
        });
        let services = AgentServices {
            turns: Arc::new(ledger.turns),
            outbox: Arc::new(ledger.outbox),
            archive: Arc::new(ledger.archive),
            clock: Arc::new(ManualClock::default()),
            ids: Arc::new(SequentialIds::default()),
            bus: Arc::new(bus),
            agents: AgentProfiles::single(AgentProfile::default_agent(
                Arc::new(MockLanguageModel::new()),
                Toolbox::default(),
            )),
            playbooks: None,
            documents: None,
            plan_steering: Arc::new(|_| SteeringRequests::default()),
            links: None,
            is_owner: Arc::new(|_, _| false),
            is_owners_chat: Arc::new(|_| false),
            settings: AgentSettings::default(),
        };
        let lane = LaneHandle {
            lease: Lease { conversation: "discord:1".parse().unwrap(), holder: HolderId(Uuid::nil()), token: 1 },
            channel: Arc::new(channel),
            wake: Arc::default(),
            woken: Arc::default(),
            planned: Arc::default(),
            stop: tokio_util::sync::CancellationToken::new(),
        };
        Self { log, keys, away, lookups, recorded, services, lane, completed: watch::Sender::new(false) }
    }

    fn failing(sends: &[SendError]) -> Self {
        Self::new(tables::discord().idempotency, Duration::ZERO, sends, &[])
    }

    async fn ask(&self, taken_up_again: bool) -> Question {
        let id = CallId { turn: TurnId(Uuid::from_u128(1)), ordinal: 0 };
        let call = ToolCall { id, name: "vault".into(), arguments: json!({}) };
        let asked = Asked {
            call: &call,
            title: "`vault`".into(),
            text: "May I?".into(),
            buttons: Vec::new(),
            patience: 10 * MINUTE,
            taken_up_again: taken_up_again.then(|| self.completed.subscribe()),
        };
        Question::ask(&self.services, &self.lane, asked).await
    }

    fn lines(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn sends(&self) -> usize {
        self.keys.lock().unwrap().len()
    }
}

#[tokio::test(start_paused = true)]
async fn in_doubt_question_retries_by_key_and_closes() {
    let scene = Scene::failing(&[lost(), busy(), lost()]);
    let mut question = scene.ask(true).await;
    assert_eq!(question.stands().await, Ok(()));
    question.end("Allowed by `ada`", true).await;
    sleep(MINUTE).await;
    let lines = ["send at 0 s", "send at 1 s", "send at 31 s", "send at 32 s"];
    let ended = ["told Allowed by `ada`: true", "edit q: Allowed by `ada`: `vault`"];
    assert_eq!(scene.lines(), [&lines[..], &ended[..]].concat());
    let keys = scene.keys.lock().unwrap();
    assert!(keys.iter().all(|key| *key == keys[0]), "one key is one message: {keys:?}");
}

#[tokio::test(start_paused = true)]
async fn in_doubt_question_is_reposted_with_label() {
    let labelled = ["send at 0 s", "look", "send labelled at 0 s"];
    let scene = Scene::new(Idempotency::None, Duration::ZERO, &[lost()], &[]);
    let mut question = scene.ask(true).await;
    assert_eq!(question.stands().await, Ok(()));
    question.end("Allowed by `ada`", true).await;
    sleep(MINUTE).await;
    let ended = ["told Allowed by `ada`: true", "edit q: Allowed by `ada`: `vault`"];
    assert_eq!(scene.lines(), [&labelled[..], &ended[..]].concat());

    for second in [lost(), forbidden()] {
        let scene = Scene::new(Idempotency::None, Duration::ZERO, &[lost(), second], &[]);
        let mut question = scene.ask(true).await;
        assert_eq!(question.stands().await, Ok(()), "it may stand");
        drop(question);
        scene.completed.send_replace(true);
        sleep(MINUTE).await;
        let lines = [&labelled[..], &["told No longer needed: false"]].concat();
        assert_eq!(scene.lines(), lines, "nobody knows what to edit");
    }
}

#[tokio::test(start_paused = true)]
async fn question_found_in_history_is_closed_not_reposted() {
    let scene = Scene::new(Idempotency::None, Duration::ZERO, &[lost()], &[]);
    let seen = LookupOutcome::Found { messages: vec![MessageRef("seen".into())], duplicates: Vec::new() };
    scene.lookups.lock().unwrap().push_back(seen);
    let mut question = scene.ask(true).await;
    assert_eq!(question.stands().await, Ok(()));
    question.end("Allowed by `ada`", true).await;
    sleep(MINUTE).await;
    let ended = ["told Allowed by `ada`: true", "edit seen: Allowed by `ada`: `vault`"];
    assert_eq!(scene.lines(), [["send at 0 s", "look"], ended].concat());
    assert_eq!(*scene.recorded.lock().unwrap(), ["1 begun", "1 is seen"]);
}

#[tokio::test(start_paused = true)]
async fn absent_question_is_reposted_unlabelled() {
    let scene = Scene::new(Idempotency::None, Duration::ZERO, &[lost(), lost()], &[]);
    scene.lookups.lock().unwrap().extend([LookupOutcome::Absent, LookupOutcome::Absent]);
    let mut question = scene.ask(true).await;
    assert_eq!(question.stands().await, Ok(()));
    assert_eq!(scene.lines(), ["send at 0 s", "look", "send at 0 s", "look", "send at 0 s", "look"]);
    assert_eq!(*scene.recorded.lock().unwrap(), ["1 begun", "1 is q"]);
}

#[tokio::test(start_paused = true)]
async fn question_is_recorded_before_posting() {
    let scene = Scene::new(Idempotency::None, Duration::ZERO, &[lost()], &[]);
    assert_eq!(scene.ask(true).await.stands().await, Ok(()));
    assert_eq!(*scene.recorded.lock().unwrap(), ["1 begun", "2 begun", "2 is q"], "the first stays a doubt");
    let scene = Scene::failing(&[forbidden()]);
    assert!(scene.ask(true).await.stands().await.is_err());
    assert_eq!(*scene.recorded.lock().unwrap(), ["1 begun", "1 is nothing"]);
}

#[tokio::test(start_paused = true)]
async fn in_doubt_question_is_not_reposted_on_hold() {
    let mut scene = Scene::new(Idempotency::None, Duration::ZERO, &[lost()], &[]);
    scene.services.settings.on_doubt = OnDoubt::Hold;
    let mut question = scene.ask(true).await;
    assert_eq!(question.stands().await, Ok(()));
    assert_eq!(scene.lines(), ["send at 0 s", "look"]);
}

#[tokio::test(start_paused = true)]
async fn unreachable_platform_delays_in_doubt_question() {
    let scene = Scene::new(Idempotency::None, Duration::ZERO, &[lost()], &[]);
    *scene.away.lock().unwrap() = 30;
    let mut question = scene.ask(true).await;
    assert_eq!(question.stands().await, Ok(()));
    assert_eq!(scene.lines(), ["send at 0 s", "look", "send labelled at 30 s"]);

    let scene = Scene::new(Idempotency::None, Duration::ZERO, &[lost()], &[]);
    *scene.away.lock().unwrap() = usize::MAX;
    let mut question = scene.ask(true).await;
    assert_eq!(question.stands().await, Ok(()));
    assert_eq!(scene.sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn expired_key_reposts_question_under_new_key_once() {
    let scene = Scene::failing(&vec![lost(); 1_000]);
    let mut question = scene.ask(true).await;
    assert_eq!(question.stands().await, Ok(()));
    sleep(10 * MINUTE).await;
    let lines = scene.lines();
    assert_eq!(
        lines[179..182],
        ["send at 179 s", "look", "send labelled at 179 s"],
        "Discord forgets a key after three minutes"
    );
    assert_eq!(lines.last().unwrap(), "send labelled at 358 s");
    let keys = scene.keys.lock().unwrap();
    assert!(keys[..180].iter().all(|key| *key == keys[0]) && keys[180..].iter().all(|key| *key == keys[180]));
    assert_ne!(keys[0], keys[180], "under the old key Discord might answer with the first one");
}

#[tokio::test(start_paused = true)]
async fn refused_retry_keeps_doubt_but_first_refusal_fails() {
    let mut question = Scene::failing(&[lost(), forbidden()]).ask(true).await;
    assert_eq!(question.stands().await, Ok(()));
    let mut question = Scene::failing(&[forbidden()]).ask(true).await;
    assert_eq!(question.stands().await, Err("not allowed: muted".to_owned()));
    let mut question = Scene::failing(&vec![busy(); 1_000]).ask(true).await;
    assert_eq!(question.stands().await, Err("not sent: too many requests".to_owned()), "in the end");
}

/// The attack: a deadline that drops the call while its question is on the way, and one whose answer was lost.
#[tokio::test(start_paused = true)]
async fn unneeded_question_in_flight_loses_its_buttons() {
    let ended = ["told No longer needed: false", "edit q: No longer needed: `vault`"];
    for sends in [&[][..], &[lost()][..]] {
        let scene = Scene::new(tables::discord().idempotency, Duration::from_secs(10), sends, &[]);
        let question = scene.ask(false).await;
        sleep(Duration::from_secs(1)).await;
        drop(question);
        sleep(MINUTE).await;
        let lines = scene.lines();
        assert_eq!(lines[sends.len() + 1..], ended, "{lines:?}");
    }
    let scene = Scene::failing(&[busy()]);
    let question = scene.ask(false).await;
    sleep(Duration::from_secs(1)).await;
    drop(question);
    sleep(MINUTE).await;
    assert_eq!(scene.lines(), ["send at 0 s", ended[0]], "what was not put is not put any more");
}

#[tokio::test(start_paused = true)]
async fn resumable_calls_buttons_stay_until_turn_completes() {
    for (taken_up_again, completes, lines) in [(true, false, 1), (true, true, 3), (false, false, 3)] {
        let mut scene = Scene::failing(&[]);
        let mut question = scene.ask(taken_up_again).await;
        assert_eq!(question.stands().await, Ok(()));
        // As where the lane is lost, where work is laid down, and where the turn comes to its end.
        drop(question);
        sleep(MINUTE).await;
        assert_eq!(scene.lines().len(), if taken_up_again { 1 } else { 3 }, "{:?}", scene.lines());
        scene.completed.send_replace(completes);
        scene.completed = watch::Sender::new(false);
        sleep(MINUTE).await;
        assert_eq!(scene.lines().len(), lines, "{:?}", scene.lines());
    }
}

#[tokio::test(start_paused = true)]
async fn question_result_is_published_until_accepted() {
    let scene = Scene::new(Idempotency::None, Duration::ZERO, &[], &[lost(), busy(), lost()]);
    let mut question = scene.ask(true).await;
    assert_eq!(question.stands().await, Ok(()));
    question.end("Refused by `ada`", false).await;
    sleep(5 * MINUTE).await;
    assert_eq!(scene.lines().iter().filter(|line| *line == "edit q: Refused by `ada`: `vault`").count(), 4);
}
