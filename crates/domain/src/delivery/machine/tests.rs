//! The machine against a simulated platform that knows what arrived, with a death between any two steps.

mod accounts;
mod drafts;
mod edits;

use super::*;
use crate::{
    CallId,
    capabilities::{CaptionRule, GroupingRule, LookupRule, ReplyRule, StreamRule, TextLimit, TextUnit, VoiceRule},
    delivery::{
        OnDoubt,
        tests::{RULES, part},
    },
    part::CallQuestion,
};

/// How many random sequences are tried.
const SEQUENCES: u64 = 20_000;

/// How long a channel says that a key is remembered, and how long it is: a call takes its time.
const KEY_WINDOW: Duration = Duration::from_secs(10);
const KEY_MEMORY: Duration = Duration::from_secs(11);

const TWICE: &str = "it arrived twice without a label";
const TOO_OFTEN: &str = "it arrived more than three times with a label";
const NEEDLESS: &str = "it was labelled without a doubt";
const HELD: &str = "it was sent again although doubt is held";
const NOT_FAILED: &str = "it arrived and is reported as failed";
const LOST: &str = "it is reported as sent and nobody can read it";
const OTHER_MESSAGE: &str = "it is reported as sent by another message";
const LATE: &str = "it settled too late";
const UNCOMMITTED: &str = "a call without its commit";
const UNCLOSED: &str = "a question is reported as closed and keeps its buttons";
const EDITS_GONE: &str = "what takes its place edits a message that is gone";
const NEVER_SETTLED: &str = "it never settles";

/// A mistake between the machine and the simulation, with the promise that it breaks.
const MISTAKES: [(Mistake, &str); 15] = [
    (Mistake::SaveIsSkipped, UNCOMMITTED),
    (Mistake::RestartForgetsDoubt, TWICE),
    (Mistake::LabelIsMissing, TWICE),
    (Mistake::LabelsAreNotCounted, TOO_OFTEN),
    (Mistake::KeyChanges, TWICE),
    (Mistake::UncertaintyIsAbsence, TWICE),
    (Mistake::DoubtIsForgottenAtTheEnd, NOT_FAILED),
    (Mistake::WaitsAreTooLong, LATE),
    (Mistake::AnswerIsNotStored, NEEDLESS),
    (Mistake::PartialMessageIsLeft, LOST),
    (Mistake::OtherMessageIsRecorded, OTHER_MESSAGE),
    (Mistake::OpenQuestionIsSettled, UNCLOSED),
    (Mistake::ClosingIsOverwritten, NEVER_SETTLED),
    (Mistake::DoubtfulDraftIsForgotten, TWICE),
    (Mistake::GoneDraftKeepsItsKey, LOST),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// A part is sent before it is stored as started.
    SaveIsSkipped,
    /// A restart takes a started part for its own, and sends it as if nothing had happened.
    RestartForgetsDoubt,
    /// A labelled send goes without its label.
    LabelIsMissing,
    /// The ledger forgets how often the part was sent with a label.
    LabelsAreNotCounted,
    /// A retry goes under another key.
    KeyChanges,
    /// A search that found nothing certain counts as one that found nothing.
    UncertaintyIsAbsence,
    /// A failure of what may have arrived is reported as certain.
    DoubtIsForgottenAtTheEnd,
    /// Each wait is half the largest age longer than the machine says.
    WaitsAreTooLong,
    /// What the channel answered isn't stored, so that what certainly didn't arrive is in doubt after a restart.
    AnswerIsNotStored,
    /// A message that shows the beginning of a streamed reply counts as the reply.
    PartialMessageIsLeft,
    /// A search answers with a message of somebody else.
    OtherMessageIsRecorded,
    /// A question that stands counts as delivered.
    OpenQuestionIsSettled,
    /// A question that was closed while it was under way is stored as open.
    ClosingIsOverwritten,
    /// At the end of its turn a draft that may have arrived counts as one that did not.
    DoubtfulDraftIsForgotten,
    /// A draft whose message is gone is sent again under its key.
    GoneDraftKeepsItsKey,
}

/// Numbers that follow from a seed (`SplitMix64`).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }
}

/// A message in the chat.
struct Arrival {
    id: MessageRef,
    labelled: bool,
    /// Whether it shows the whole part, not the beginning that was streamed.
    whole: bool,
    /// Whether it was edited.
    edited: bool,
}

/// What is true, whether or not a process knows it.
struct World {
    chance: Chance,
    mistake: Option<Mistake>,
    capabilities: ChannelCapabilities,
    rules: DeliveryRules,
    now: Timestamp,
    /// The part as the ledger holds it.
    stored: Part,
    arrivals: Vec<Arrival>,
    /// What was sent under which key, and when.
    keys: Vec<(MessageRef, u64, Timestamp)>,
    /// The key of the part.
    key: u64,
    /// Whether a call may be under way whose answer isn't stored.
    in_flight: bool,
    /// Whether an attempt has left a doubt, by its answer or by a death, that no search has ended since.
    doubted: bool,
    /// Whether an attempt to edit has left one.
    is_edit_doubted: bool,
    /// Whether a search has just found with certainty that it did not arrive.
    is_absent: bool,
    deaths_left: u32,
    /// Whether a person has answered, where it is a question.
    is_decided: bool,
}

impl World {
    fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let mut chance = Chance(seed);
        let window_ms = u64::try_from(KEY_WINDOW.as_millis()).ok();
        let (idempotency, look_up) = match chance.below(4) {
            0 => (Idempotency::None, LookupRule::None),
            1 => (Idempotency::None, LookupRule::MessageIds),
            2 => (Idempotency::Key { window_ms }, LookupRule::History),
            _ => (Idempotency::Key { window_ms }, LookupRule::None),
        };
        let on_doubt = if chance.one_in(5) { OnDoubt::Hold } else { OnDoubt::Resend };
        let deaths_left = u32::try_from(chance.below(4)).unwrap_or_default();
        let mut world = Self {
            capabilities: capabilities(idempotency, look_up),
            rules: DeliveryRules { on_doubt, ..RULES },
            now: Timestamp(0),
            stored: pending(),
            arrivals: Vec::new(),
            keys: Vec::new(),
            key: 1,
            in_flight: false,
            doubted: false,
            is_edit_doubted: false,
            is_absent: false,
            deaths_left,
            is_decided: false,
            mistake,
            chance,
        };
        match world.chance.below(5) {
            0 | 1 => world.grow_draft(),
            2 => world.stored.question = Some(question(&world.stored)),
            _ => {}
        }
        world
    }

    fn is_gone(&self, message: &MessageRef) -> bool {
        self.arrivals.iter().all(|arrival| arrival.id != *message)
    }

    fn is_open(&self) -> bool {
        matches!(self.stored.state, PartState::Open { .. })
    }

    fn arrive(&mut self, labelled: bool, whole: bool) -> MessageRef {
        let id = MessageRef(format!("m{}", self.keys.len()));
        self.arrivals.push(Arrival { id: id.clone(), labelled, whole, edited: false });
        id
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Whether the process dies here.
    fn dies(&mut self) -> bool {
        let dies = self.deaths_left > 0 && self.chance.one_in(6);
        self.deaths_left -= u32::from(dies);
        dies
    }

    fn resume(&mut self) -> (Delivery, DeliveryPlan) {
        let was_sending = self.stored.state == PartState::Sending;
        self.doubted |= was_sending && self.in_flight;
        self.is_edit_doubted |= was_sending && self.in_flight && self.stored.target().is_some();
        self.is_absent = false;
        let started_here = was_sending && self.makes(Mistake::RestartForgetsDoubt);
        Delivery::resume(self.stored.clone(), started_here, &self.capabilities, self.now, self.rules)
    }

    /// The platform's side of a call: whether it takes effect and whether its answer comes back are two things.
    fn call(&mut self, part: &Part, attempt: Attempt) -> Result<Vec<MessageRef>, SendError> {
        let reason = || "scripted".to_owned();
        if part.target().is_some_and(|message| self.is_gone(message)) {
            return Err(SendError::Refused { refusal: Refusal::TargetGone, reason: reason() });
        }
        match self.chance.below(11) {
            0..3 => Ok(vec![self.take_effect(part, attempt)]),
            3 | 4 => {
                self.take_effect(part, attempt);
                self.doubt(part);
                Err(SendError::InDoubt { reason: reason() })
            }
            5 => {
                self.doubt(part);
                Err(SendError::InDoubt { reason: reason() })
            }
            6 => Err(SendError::NotSent { retry_after_ms: Some(self.chance.below(3_000)), reason: reason() }),
            7 => Err(SendError::Refused { refusal: Refusal::Other, reason: reason() }),
            8 => Err(SendError::Unreadable { reason: reason() }),
            9 => Err(SendError::AccountRefused { reason: reason() }),
            _ => Err(SendError::Forbidden { reason: reason() }),
        }
    }

    /// The answer to a call is lost. The edit that completes what a key has found isn't stored as one.
    fn doubt(&mut self, part: &Part) {
        self.doubted |= part.target().is_none();
        self.is_edit_doubted |= self.stored.target().is_some();
    }

    fn take_effect(&mut self, part: &Part, attempt: Attempt) -> MessageRef {
        if let Some(target) = part.target() {
            let edited = self.arrivals.iter_mut().filter(|arrival| arrival.id == *target);
            edited.for_each(|arrival| (arrival.whole, arrival.edited) = (true, true));
            return target.clone();
        }
        let changes_key = attempt == Attempt::Retry && self.makes(Mistake::KeyChanges);
        let key = if changes_key { self.chance.next() } else { self.key };
        self.arrive_by_key(key, part.labelled && !self.makes(Mistake::LabelIsMissing), true)
    }

    /// A new message, unless the platform remembers one under its key, which may be gone.
    fn arrive_by_key(&mut self, key: u64, labelled: bool, whole: bool) -> MessageRef {
        let (now, is_keyed) = (self.now, self.capabilities.idempotency != Idempotency::None);
        let is_remembered = |(_, remembered, at): &&(MessageRef, u64, Timestamp)| {
            is_keyed && *remembered == key && now.saturating_duration_since(*at) < KEY_MEMORY
        };
        match self.keys.iter().find(is_remembered) {
            Some((message, ..)) => message.clone(),
            None => {
                let message = self.arrive(labelled, whole);
                self.keys.push((message.clone(), key, now));
                message
            }
        }
    }

    fn search(&mut self) -> Result<SearchResult, SendError> {
        let reason = || "scripted".to_owned();
        let can_be_certain = self.capabilities.look_up == LookupRule::MessageIds;
        match (self.chance.below(6), self.arrivals.last()) {
            (0, _) => Err(SendError::NotSent { retry_after_ms: None, reason: reason() }),
            (5, _) => Err(SendError::AccountRefused { reason: reason() }),
            (1, _) => Err(SendError::Forbidden { reason: reason() }),
            (2, _) if self.makes(Mistake::UncertaintyIsAbsence) => Ok(SearchResult::Absent),
            (2, _) => Ok(SearchResult::Uncertain),
            (_, Some(_)) if self.makes(Mistake::OtherMessageIsRecorded) => {
                Ok(SearchResult::Found(vec![MessageRef("of another".into())]))
            }
            (_, Some(last)) if can_be_certain || self.arrivals.len() == 1 => {
                Ok(SearchResult::Found(vec![last.id.clone()]))
            }
            (_, None) if can_be_certain => {
                self.is_absent = true;
                Ok(SearchResult::Absent)
            }
            _ => Ok(SearchResult::Uncertain),
        }
    }

    /// Does what precedes the continuation.
    fn apply(&mut self, effect: DeliveryEffect, part: &Part) {
        let is_skipped = match effect {
            DeliveryEffect::Save => self.makes(Mistake::SaveIsSkipped),
            DeliveryEffect::Record => self.makes(Mistake::AnswerIsNotStored),
            DeliveryEffect::Publish | DeliveryEffect::RemoveDuplicates => return,
        };
        self.in_flight = part.state == PartState::Sending;
        if std::mem::take(&mut self.is_absent) {
            self.doubted = part.labelled;
        }
        if !is_skipped {
            self.store(part);
        }
    }

    /// As the ledger does: a question that was closed meanwhile is stored as the edit that closes it.
    fn store(&mut self, part: &Part) {
        let closed = self.stored.question.take().filter(|_| !self.makes(Mistake::ClosingIsOverwritten));
        self.stored = part.clone();
        if let (Some(stored), Some(closed)) = (&mut self.stored.question, closed) {
            *stored = closed;
            self.stored.turn_into_closing_edit(self.now);
        }
        if self.makes(Mistake::LabelsAreNotCounted) {
            self.stored.labelled_sends = 0;
        }
    }

    fn perform(&mut self, action: DeliveryAction, part: &Part) -> Result<DeliveryEvent, &'static str> {
        Ok(match action {
            DeliveryAction::Call(attempt) => {
                let is_committed = self.stored.state == PartState::Sending && self.stored.attempts == part.attempts;
                if !is_committed {
                    return Err(UNCOMMITTED);
                }
                DeliveryEvent::Answered(attempt, self.call(part, attempt))
            }
            DeliveryAction::Probe => DeliveryEvent::ProbeEnded(match self.chance.below(8) {
                0 | 1 => Err(SendError::NotSent { retry_after_ms: None, reason: "away".to_owned() }),
                2 => Err(SendError::AccountRefused { reason: "revoked".to_owned() }),
                _ => Ok(()),
            }),
            DeliveryAction::Search => DeliveryEvent::SearchEnded(self.search()),
            DeliveryAction::Replan(refusal, failure) => {
                let outcome = match self.chance.below(3) {
                    _ if refusal == Refusal::TargetGone => ReplanOutcome::SendNew,
                    0 => ReplanOutcome::SendNew,
                    1 => ReplanOutcome::Children(vec![PlannedPart::new(PartContent::from_text("simpler"))]),
                    _ => ReplanOutcome::GiveUp(failure.clone()),
                };
                DeliveryEvent::Replanned(outcome, failure)
            }
            DeliveryAction::Sleep(until) => {
                let longer = if self.makes(Mistake::WaitsAreTooLong) { RULES.max_age / 2 } else { Duration::ZERO };
                self.now = self.now.max(until).saturating_add(longer);
                self.end_wait()
            }
            // A new token comes sooner or later, or never.
            DeliveryAction::AwaitAccount(until) => {
                let accepted_at = self.now.saturating_add(Duration::from_millis(self.chance.below(90_000)));
                self.now = self.now.max(until.map_or(accepted_at, |until| accepted_at.min(until)));
                self.end_wait()
            }
            DeliveryAction::Prepare => return Err("a text needs no preparation"),
        })
    }

    /// The end of a wait, in which a question may have been closed.
    fn end_wait(&self) -> DeliveryEvent {
        let closing = self.stored.question.as_ref().and_then(|question| question.closing.clone());
        closing.map_or(DeliveryEvent::TimeReached, DeliveryEvent::QuestionClosed)
    }

    /// Delivers the part, with deaths before and after every step.
    fn run(&mut self) -> Result<(), &'static str> {
        let (mut delivery, mut plan) = self.resume();
        for _ in 0..2_000 {
            match self.step(&mut delivery, plan)? {
                Some(next) => plan = next,
                // The ledger has forgotten the answer, and nobody gives it again.
                None if self.is_open() && self.is_decided => (delivery, plan) = self.resume(),
                None if self.is_open() => {
                    // Nobody answers, and the turn comes to its end.
                    self.is_decided = true;
                    self.stored.close_question(None, self.now);
                    (delivery, plan) = self.resume();
                }
                None if self.stored.state.is_settled() => return self.check_promises(),
                None => (delivery, plan) = self.resume(),
            }
        }
        Err(NEVER_SETTLED)
    }

    /// Follows one plan; `None` if the process died or the part is settled.
    fn step(&mut self, delivery: &mut Delivery, plan: DeliveryPlan) -> Result<Option<DeliveryPlan>, &'static str> {
        let (effects, continuation) = plan;
        for effect in effects {
            if self.dies() {
                return Ok(None);
            }
            self.apply(effect, delivery.part());
        }
        if self.dies() {
            return Ok(None);
        }
        self.now = self.now.saturating_add(Duration::from_millis(25));
        // The person decides while it is under way, or the call ends.
        if self.stored.question.is_some() && !self.is_decided && self.chance.one_in(6) {
            self.is_decided = true;
            self.stored.close_question(Some("Allowed".to_owned()), self.now);
            if self.stored.state.is_settled() {
                return Ok(None);
            }
        }
        if continuation == Continuation::Rest && self.makes(Mistake::OpenQuestionIsSettled) {
            let messages = self.last_message();
            self.settle(&Part { state: PartState::Sent { messages }, ..delivery.part().clone() });
            return Ok(None);
        }
        if continuation == Continuation::Rest {
            return Ok(None);
        }
        let Continuation::Perform(action) = continuation else {
            let is_replaced = matches!(continuation, Continuation::Replace(_));
            if is_replaced && delivery.part().target().is_some_and(|message| self.is_gone(message)) {
                return Err(EDITS_GONE);
            }
            self.settle(delivery.part());
            return Ok(None);
        };
        let event = self.perform(action, delivery.part())?;
        if self.dies() {
            return Ok(None);
        }
        if self.makes(Mistake::PartialMessageIsLeft)
            && let DeliveryEvent::Answered(attempt, Ok(_)) = &event
            && *attempt == Attempt::Retry
        {
            self.settle(&Part { state: PartState::Sent { messages: self.last_message() }, ..delivery.part().clone() });
            return Ok(None);
        }
        Ok(Some(delivery.on(event, self.now)))
    }

    fn last_message(&self) -> Vec<MessageRef> {
        self.arrivals.last().map(|arrival| arrival.id.clone()).into_iter().collect()
    }

    fn settle(&mut self, part: &Part) {
        self.stored = part.clone();
        if self.makes(Mistake::DoubtIsForgottenAtTheEnd)
            && let PartState::Failed { reason } = &mut self.stored.state
        {
            *reason = FailureReason::Expired { reason: "too late".to_owned() };
        }
    }

    /// Holds the promises of the specification against what is true.
    fn check_promises(&self) -> Result<(), &'static str> {
        let labelled = self.arrivals.iter().filter(|arrival| arrival.labelled).count();
        let has_label = self.stored.labelled || labelled > 0;
        let has_failed_for_certain = matches!(
            &self.stored.state,
            PartState::Failed { reason } if !matches!(reason, FailureReason::MayHaveArrived { .. })
        );
        let is_readable = self.arrivals.iter().any(|arrival| arrival.whole);
        // The message of an edit is there in any case; what counts is whether an attempt may have changed it.
        let may_be_read = match self.stored.target() {
            Some(_) => self.is_edit_doubted,
            None => is_readable,
        };
        let is_closed =
            |message: &MessageRef| self.arrivals.iter().any(|arrival| arrival.id == *message && arrival.edited);
        let is_ours = |message: &MessageRef| self.arrivals.iter().any(|arrival| arrival.id == *message);
        let sent = match &self.stored.state {
            PartState::Sent { messages } => Some(messages),
            _ => None,
        };
        // The last attempt may begin just before the part is too old, and its answer is awaited.
        let latest = self.stored.created_at.saturating_add(self.rules.max_age + Duration::from_secs(1));
        let promises = [
            (self.arrivals.len() - labelled > 1, TWICE),
            (labelled > 3, TOO_OFTEN),
            (has_label && !self.doubted, NEEDLESS),
            (has_label && self.rules.on_doubt == OnDoubt::Hold, HELD),
            (has_failed_for_certain && may_be_read, NOT_FAILED),
            (sent.is_some() && !is_readable, LOST),
            (sent.is_some_and(|messages| !messages.iter().all(is_ours)), OTHER_MESSAGE),
            (self.stored.question.is_some() && sent.is_some_and(|messages| !messages.iter().all(is_closed)), UNCLOSED),
            (self.now > latest, LATE),
        ];
        promises.into_iter().find(|(is_broken, _)| *is_broken).map_or(Ok(()), |(_, promise)| Err(promise))
    }
}

pub(super) fn capabilities(idempotency: Idempotency, look_up: LookupRule) -> ChannelCapabilities {
    ChannelCapabilities {
        text: TextLimit { unit: TextUnit::Chars, max: None, entities: None },
        blocks: None,
        caption: CaptionRule::Hidden,
        photo: None,
        native_media: false,
        file_bytes: 1_000,
        request_bytes: None,
        grouping: GroupingRule::Never,
        voice: VoiceRule::Message,
        idempotency,
        look_up,
        can_edit: true,
        replies: ReplyRule::PersonMessage,
        joins_messages: false,
        stream: StreamRule::None,
        rate_limits: None,
    }
}

fn question(part: &Part) -> CallQuestion {
    let call = CallId { turn: part.turn, ordinal: 0 };
    CallQuestion { call, unanswered: "No longer needed".to_owned(), closing: None }
}

/// A part that was never started.
fn pending() -> Part {
    Part { attempts: 0, first_attempt_at: None, ..part(PartState::Pending) }
}

#[test]
fn no_death_or_answer_breaks_a_promise() {
    for seed in 0..SEQUENCES {
        let mut world = World::new(seed, None);
        if let Err(promise) = world.run() {
            panic!("sequence {seed}: {promise}: {:?}", world.stored);
        }
    }
}

#[test]
fn every_planted_mistake_breaks_its_promise() {
    for (mistake, promise) in MISTAKES {
        let breaks_it = |seed: &u64| World::new(*seed, Some(mistake)).run() == Err(promise);
        let sequence = (0..SEQUENCES).find(breaks_it);
        assert!(sequence.is_some(), "{mistake:?} goes unnoticed: {promise}");
        println!("{mistake:?}: sequence {}", sequence.unwrap_or_default());
    }
}

/// A streamed reply whose first send is in doubt, and whose retry under the key is refused: the send with a label goes
/// under the same key, so the platform may answer with the message that shows the beginning alone.
#[test]
fn labelled_send_completes_the_message_of_its_key() {
    let state = PartState::InDoubt { until: Timestamp(0), reason: "interrupted".to_owned() };
    let streamed = Part { state, streamed: true, attempts: 1, first_attempt_at: Some(Timestamp(0)), ..pending() };
    let channel = capabilities(Idempotency::Key { window_ms: Some(60_000) }, LookupRule::None);
    let (mut delivery, plan) = Delivery::resume(streamed, false, &channel, Timestamp(0), RULES);
    assert_eq!(plan, perform(DeliveryAction::Probe));
    let retry = delivery.on(DeliveryEvent::ProbeEnded(Ok(())), Timestamp(1));
    assert_eq!(retry.1, Continuation::Perform(DeliveryAction::Call(Attempt::Retry)));
    let refused = SendError::Refused { refusal: Refusal::Other, reason: "no".to_owned() };
    let _ = delivery.on(DeliveryEvent::Answered(Attempt::Retry, Err(refused)), Timestamp(2));
    let _ = delivery.on(DeliveryEvent::TimeReached, Timestamp(3));
    let _ = delivery.on(DeliveryEvent::ProbeEnded(Ok(())), Timestamp(4));
    let labelled = delivery.on(DeliveryEvent::TimeReached, Timestamp(2_000));
    assert_eq!(labelled.1, Continuation::Perform(DeliveryAction::Call(Attempt::Plain)));
    assert!(delivery.part().labelled);
    let found = DeliveryEvent::Answered(Attempt::Plain, Ok(vec![MessageRef("m0".into())]));
    assert_eq!(delivery.on(found, Timestamp(2_001)), perform(DeliveryAction::Call(Attempt::Complete)));
    assert_eq!(delivery.part().target(), Some(&MessageRef("m0".into())));
}

/// A channel that answers without message ids leaves nothing to edit; the part has arrived all the same.
#[test]
fn arrival_without_message_ids_ends_the_delivery() {
    let state = PartState::InDoubt { until: Timestamp(0), reason: "interrupted".to_owned() };
    let streamed = Part { state, streamed: true, attempts: 1, first_attempt_at: Some(Timestamp(0)), ..pending() };
    let channel = capabilities(Idempotency::Key { window_ms: None }, LookupRule::None);
    let (mut delivery, mut plan) = Delivery::resume(streamed, false, &channel, Timestamp(0), RULES);
    for now in (1..10).map(Timestamp) {
        let event = match plan.1 {
            Continuation::Perform(DeliveryAction::Probe) => DeliveryEvent::ProbeEnded(Ok(())),
            Continuation::Perform(DeliveryAction::Call(attempt)) => DeliveryEvent::Answered(attempt, Ok(Vec::new())),
            Continuation::Settle => break,
            other => panic!("{other:?}"),
        };
        plan = delivery.on(event, now);
    }
    assert_eq!(delivery.part().state, PartState::Sent { messages: Vec::new() });
}
