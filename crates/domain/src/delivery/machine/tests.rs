//! The machine against a simulated platform that knows what arrived, with a death between any two steps.

use uuid::Uuid;

use super::*;
use crate::{
    PartId, TurnId,
    capabilities::{CaptionRule, GroupingRule, LookupRule, ReplyRule, StreamRule, TextLimit, TextUnit, VoiceRule},
    delivery::OnDoubt,
};

const RULES: DeliveryRules = DeliveryRules {
    max_age: Duration::from_secs(60),
    on_doubt: OnDoubt::Resend,
    backoff: Duration::from_millis(100),
    backoff_cap: Duration::from_secs(5),
    resend_delays: [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)],
    late_duplicate_delay: Duration::from_secs(20),
};

/// How many random sequences are tried.
const SEQUENCES: u64 = 20_000;

/// How long a key is remembered.
const KEY_WINDOW: Duration = Duration::from_secs(10);

/// A mistake between the machine and the simulation. Each must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// A call that is not preceded by its commit.
    SaveIsSkipped,
    /// A restart takes a started part for its own, and sends it as if nothing had happened.
    RestartForgetsDoubt,
    /// A labelled send goes without its label.
    LabelIsMissing,
    /// A retry goes under another key.
    KeyChanges,
    /// A search that found nothing certain counts as one that found nothing.
    UncertaintyIsAbsence,
    /// A failure of what may have arrived is reported as certain.
    DoubtIsForgottenAtTheEnd,
    /// Waits go on beyond the largest age.
    WaitsNeverEnd,
    /// What the channel answered isn't stored, so that what certainly didn't arrive is in doubt after a restart.
    AnswerIsNotStored,
}

const MISTAKES: [Mistake; 8] = [
    Mistake::SaveIsSkipped,
    Mistake::RestartForgetsDoubt,
    Mistake::LabelIsMissing,
    Mistake::KeyChanges,
    Mistake::UncertaintyIsAbsence,
    Mistake::DoubtIsForgottenAtTheEnd,
    Mistake::WaitsNeverEnd,
    Mistake::AnswerIsNotStored,
];

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

struct Arrival {
    key: u64,
    at: Timestamp,
    labelled: bool,
}

/// What is true, whoever has learnt of it.
struct World {
    chance: Chance,
    mistake: Option<Mistake>,
    idempotency: Idempotency,
    look_up: LookupRule,
    now: Timestamp,
    /// The part as the ledger holds it.
    stored: Part,
    arrivals: Vec<Arrival>,
    /// Whether a call may be under way whose answer isn't stored.
    in_flight: bool,
    /// Whether an attempt has left a doubt, by its answer or by a death.
    doubted: bool,
    deaths_left: u32,
}

impl World {
    fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let mut chance = Chance(seed);
        let (idempotency, look_up) = match chance.below(4) {
            0 => (Idempotency::None, LookupRule::None),
            1 => (Idempotency::None, LookupRule::MessageIds),
            2 => (key(), LookupRule::History),
            _ => (key(), LookupRule::None),
        };
        let deaths_left = u32::try_from(chance.below(4)).unwrap_or_default();
        let (arrivals, stored, now) = (Vec::new(), pending(), Timestamp(0));
        Self {
            chance,
            mistake,
            idempotency,
            look_up,
            now,
            stored,
            arrivals,
            in_flight: false,
            doubted: false,
            deaths_left,
        }
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

    fn resume(&mut self) -> (Delivery, Vec<DeliveryEffect>) {
        let capabilities = capabilities(self.idempotency, self.look_up);
        let was_sending = self.stored.state == PartState::Sending;
        self.doubted |= was_sending && self.in_flight;
        let started_here = was_sending && self.makes(Mistake::RestartForgetsDoubt);
        Delivery::resume(self.stored.clone(), started_here, &capabilities, self.now, RULES)
    }

    /// The platform's side of a send.
    fn send(&mut self, part: &Part, is_retry: bool) -> Result<Vec<MessageRef>, SendError> {
        let key = match is_retry && self.makes(Mistake::KeyChanges) {
            true => self.chance.next(),
            false => 1,
        };
        let reason = || "scripted".to_owned();
        let labelled = part.labelled && !self.makes(Mistake::LabelIsMissing);
        let (now, is_keyed) = (self.now, self.idempotency != Idempotency::None);
        let is_remembered = |arrival: &Arrival| {
            is_keyed && arrival.key == key && now.saturating_duration_since(arrival.at) < KEY_WINDOW
        };
        let is_known = self.arrivals.iter().any(is_remembered);
        let arrive = |world: &mut Self| {
            if !is_known {
                world.arrivals.push(Arrival { key, at: now, labelled });
            }
        };
        match self.chance.below(8) {
            0 | 1 => {
                arrive(self);
                Ok(vec![MessageRef("1".into())])
            }
            2 | 3 => {
                arrive(self);
                self.doubted = true;
                Err(SendError::InDoubt { reason: reason() })
            }
            4 => {
                self.doubted = true;
                Err(SendError::InDoubt { reason: reason() })
            }
            5 => Err(SendError::NotSent { retry_after_ms: Some(self.chance.below(3_000)), reason: reason() }),
            6 => Err(SendError::Refused { refusal: Refusal::Other, reason: reason() }),
            _ => Err(SendError::Forbidden { reason: reason() }),
        }
    }

    fn search(&mut self) -> Result<SearchResult, SendError> {
        let reason = "scripted".to_owned();
        match (self.look_up, self.arrivals.len(), self.chance.below(4)) {
            (_, _, 0) => Err(SendError::NotSent { retry_after_ms: None, reason }),
            (_, _, 1) if self.makes(Mistake::UncertaintyIsAbsence) => Ok(SearchResult::Absent),
            (_, _, 1) => Ok(SearchResult::Uncertain),
            (LookupRule::MessageIds, 0, _) => Ok(SearchResult::Absent),
            (LookupRule::MessageIds, _, _) | (_, 1, _) => Ok(SearchResult::Found(vec![MessageRef("1".into())])),
            _ => Ok(SearchResult::Uncertain),
        }
    }

    /// Performs one effect, as the driver does; `Err` says what went wrong, `Ok(None)` that there is no event.
    fn perform(&mut self, effect: &DeliveryEffect, part: &Part) -> Result<Option<DeliveryEvent>, String> {
        if matches!(effect, DeliveryEffect::Save | DeliveryEffect::Record) {
            self.in_flight = part.state == PartState::Sending;
        }
        Ok(Some(match effect {
            DeliveryEffect::Save if self.makes(Mistake::SaveIsSkipped) => return Ok(None),
            DeliveryEffect::Record if self.makes(Mistake::AnswerIsNotStored) => return Ok(None),
            DeliveryEffect::Save | DeliveryEffect::Record => {
                self.stored = part.clone();
                return Ok(None);
            }
            DeliveryEffect::Publish | DeliveryEffect::RemoveDuplicates => return Ok(None),
            DeliveryEffect::Perform(DeliveryAction::Call(attempt)) => {
                if self.stored.state != PartState::Sending || self.stored.attempts != part.attempts {
                    return Err("a call without its commit".to_owned());
                }
                let is_retry = matches!(attempt, Attempt::Retry | Attempt::RetryText);
                DeliveryEvent::Answered(self.send(part, is_retry))
            }
            DeliveryEffect::Perform(DeliveryAction::Probe) => DeliveryEvent::ProbeEnded(match self.chance.one_in(4) {
                true => Err(SendError::NotSent { retry_after_ms: None, reason: "away".to_owned() }),
                false => Ok(()),
            }),
            DeliveryEffect::Perform(DeliveryAction::Search) => DeliveryEvent::SearchEnded(self.search()),
            DeliveryEffect::Perform(DeliveryAction::Replan(_, reason)) => {
                let reason = FailureReason::Refused { reason: reason.clone() };
                DeliveryEvent::Replanned(ReplanOutcome::GiveUp(reason))
            }
            DeliveryEffect::Perform(DeliveryAction::Sleep(until)) => {
                let beyond = if self.makes(Mistake::WaitsNeverEnd) { RULES.max_age * 2 } else { Duration::ZERO };
                self.now = self.now.max(until.saturating_add(beyond));
                DeliveryEvent::TimeReached
            }
            DeliveryEffect::Settle => {
                self.stored = part.clone();
                if self.makes(Mistake::DoubtIsForgottenAtTheEnd)
                    && let PartState::Failed { reason } = &mut self.stored.state
                {
                    *reason = FailureReason::Expired { reason: "too late".to_owned() };
                }
                return Ok(None);
            }
            DeliveryEffect::Perform(DeliveryAction::Prepare) | DeliveryEffect::Replace(_) => {
                return Err(format!("{effect:?} of a text that was refused for good"));
            }
        }))
    }

    /// Delivers the part, with deaths before and after every effect.
    fn run(&mut self) -> Result<(), String> {
        let (mut delivery, mut effects) = self.resume();
        for _ in 0..2_000 {
            if self.stored.state.is_settled() {
                return self.judge();
            }
            self.now = self.now.saturating_add(Duration::from_millis(25));
            let has_died = self.dies() || effects.is_empty() || {
                let effect = effects.remove(0);
                let event = self.perform(&effect, delivery.part())?;
                let dies = self.dies();
                if let (Some(event), false) = (event, dies) {
                    effects.extend(delivery.on(event, self.now));
                }
                dies
            };
            if has_died {
                (delivery, effects) = self.resume();
            }
        }
        Err("it never settles".to_owned())
    }

    /// Holds the promises of the specification against what is true.
    fn judge(&self) -> Result<(), String> {
        let labelled = self.arrivals.iter().filter(|arrival| arrival.labelled).count();
        let unlabelled = self.arrivals.len() - labelled;
        let has_failed_for_certain = matches!(
            &self.stored.state,
            PartState::Failed { reason } if !matches!(reason, FailureReason::MayHaveArrived { .. })
        );
        let broken = [
            (unlabelled > 1, "it arrived twice without a label"),
            (labelled > 3, "it arrived more than three times with a label"),
            (labelled > 0 && !self.doubted, "it was labelled without a doubt"),
            (has_failed_for_certain && !self.arrivals.is_empty(), "it arrived and is reported as failed"),
            (matches!(self.stored.state, PartState::Sent { .. }) && self.arrivals.is_empty(), "it is lost"),
            (self.now > Timestamp(0).saturating_add(RULES.max_age * 2), "it settled too late"),
        ];
        match broken.into_iter().find(|(is_broken, _)| *is_broken) {
            Some((_, promise)) => Err(format!("{promise}: {:?}", self.stored)),
            None => Ok(()),
        }
    }
}

fn capabilities(idempotency: Idempotency, look_up: LookupRule) -> ChannelCapabilities {
    ChannelCapabilities {
        text: TextLimit { unit: TextUnit::Chars, max: None, entities: None },
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
        stream: StreamRule::None,
        rate_limits: None,
    }
}

fn key() -> Idempotency {
    let window_ms = u64::try_from(KEY_WINDOW.as_millis()).ok();
    Idempotency::Key { window_ms }
}

fn pending() -> Part {
    Part {
        id: PartId(Uuid::from_u128(1)),
        conversation: "console:main".parse().expect("a conversation"),
        turn: TurnId(Uuid::from_u128(2)),
        position: 0,
        content: PartContent::from_text("hello"),
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

#[test]
fn no_death_or_answer_breaks_a_promise() {
    for seed in 0..SEQUENCES {
        if let Err(broken) = World::new(seed, None).run() {
            panic!("seed {seed}: {broken}");
        }
    }
}

#[test]
fn every_planted_mistake_is_found() {
    for mistake in MISTAKES {
        let found = (0..SEQUENCES).find(|seed| World::new(*seed, Some(mistake)).run().is_err());
        println!("{mistake:?}: sequence {found:?}");
        assert!(found.is_some(), "{mistake:?} goes unseen");
    }
}
