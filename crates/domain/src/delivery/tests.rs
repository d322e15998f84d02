//! What follows which answer, and that every part ends settled whatever happens.

mod attempts;

use uuid::Uuid;

use super::{
    doubt::{DoubtRules, DoubtStep, doubt_step_without_match, next_doubt_step},
    step::{DeliveryStep, next_step},
    transition::{PartEvent, apply},
    *,
};
use crate::{
    MessageRef, Part, PartContent, PartId, PartState, Timestamp, TurnId,
    capabilities::{Idempotency, LookupRule},
    part::{FailureReason, Operation},
};

pub(super) const RULES: DeliveryRules = DeliveryRules {
    max_age: Duration::from_secs(60),
    on_doubt: OnDoubt::Resend,
    backoff: Duration::from_millis(100),
    backoff_cap: Duration::from_secs(5),
    resend_delays: [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)],
    late_duplicate_delay: Duration::from_secs(20),
};
const NO_KEY: DoubtRules = DoubtRules { idempotency: Idempotency::None, look_up: LookupRule::None, may_resend: true };
const IDS: DoubtRules = DoubtRules { look_up: LookupRule::MessageIds, ..NO_KEY };
const NONCE: DoubtRules = DoubtRules {
    idempotency: Idempotency::Key { window_ms: Some(10_000) },
    look_up: LookupRule::History,
    may_resend: true,
};

pub(super) fn part(state: PartState) -> Part {
    let (id, turn) = (PartId(Uuid::from_u128(1)), TurnId(Uuid::from_u128(2)));
    let conversation = "console:main".parse().expect("a conversation");
    Part {
        state,
        attempts: 1,
        first_attempt_at: Some(Timestamp(0)),
        ..Part::new(id, conversation, turn, 0, PartContent::from_text("hello"), Timestamp(0))
    }
}

fn advance(part: &Part, event: PartEvent, now: Timestamp, rules: &DeliveryRules) -> Part {
    let mut next = part.clone();
    apply(&mut next, event, now, rules);
    next
}

fn doubtful() -> Part {
    part(PartState::InDoubt { until: Timestamp(0), reason: "reset".into() })
}

#[test]
fn the_platforms_wait_is_a_floor() {
    let limited = SendError::NotSent { retry_after_ms: Some(7_000), reason: "429".into() };
    let next = advance(&part(PartState::Sending), PartEvent::AttemptEnded(Err(limited)), Timestamp(1_000), &RULES);
    assert_eq!(next.state, PartState::Waiting { until: Timestamp(8_000), reason: "429".into() });
    assert_eq!(next_step(&next, Timestamp(7_999), &RULES), DeliveryStep::Wait(Timestamp(8_000)));
    assert_eq!(next_step(&next, Timestamp(8_000), &RULES), DeliveryStep::Start);
}

#[test]
fn interrupted_part_is_in_doubt_and_probed_first() {
    let next = advance(&part(PartState::Sending), PartEvent::Interrupted, Timestamp(5), &RULES);
    assert_eq!(next_step(&next, Timestamp(5), &RULES), DeliveryStep::Probe);
    let untouched = advance(&part(PartState::Pending), PartEvent::Interrupted, Timestamp(5), &RULES);
    assert_eq!(untouched.state, PartState::Pending);
}

#[test]
fn without_certainty_three_labelled_tries_wait_longer_each() {
    let mut part = doubtful();
    for delay in [1_000, 2_000, 4_000] {
        assert_eq!(next_doubt_step(&part, Timestamp(1), &RULES, NO_KEY), DoubtStep::Resend);
        let labelled = advance(&part, PartEvent::Relabelled, Timestamp(1), &RULES);
        assert!(labelled.labelled);
        assert_eq!(next_step(&labelled, Timestamp(1), &RULES), DeliveryStep::Wait(Timestamp(1 + delay)));
        assert_eq!(next_step(&labelled, Timestamp(1 + delay), &RULES), DeliveryStep::Start);
        part = Part { state: doubtful().state, ..labelled };
    }
    assert!(matches!(next_doubt_step(&part, Timestamp(1), &RULES, NO_KEY), DoubtStep::GiveUp(_)));
    let hold = DeliveryRules { on_doubt: OnDoubt::Hold, ..RULES };
    assert!(matches!(next_doubt_step(&doubtful(), Timestamp(1), &hold, NO_KEY), DoubtStep::GiveUp(_)));
}

#[test]
fn key_is_trusted_in_window_then_looked_up() {
    assert_eq!(next_doubt_step(&doubtful(), Timestamp(9_999), &RULES, NONCE), DoubtStep::Retry);
    assert_eq!(next_doubt_step(&doubtful(), Timestamp(10_000), &RULES, NONCE), DoubtStep::LookUp);
}

#[test]
fn ids_are_looked_up_whether_labelled_or_not() {
    assert_eq!(next_doubt_step(&doubtful(), Timestamp(1), &RULES, IDS), DoubtStep::LookUp);
    let labelled = Part { labelled: true, labelled_sends: 3, ..doubtful() };
    assert_eq!(next_doubt_step(&labelled, Timestamp(1), &RULES, IDS), DoubtStep::LookUp);
    assert_eq!(next_doubt_step(&labelled, Timestamp(10_000), &RULES, NONCE), DoubtStep::GiveUp(given_up("reset")));
}

#[test]
fn absent_part_is_resent_unlabelled_on_hold() {
    let hold = DeliveryRules { on_doubt: OnDoubt::Hold, ..RULES };
    assert_eq!(next_doubt_step(&doubtful(), Timestamp(1), &hold, IDS), DoubtStep::LookUp);
    let absent = advance(&doubtful(), PartEvent::Absent, Timestamp(1), &hold);
    assert!(absent.searched && !absent.labelled);
    assert_eq!(next_step(&absent, Timestamp(1), &hold), DeliveryStep::Start);
}

fn given_up(reason: &str) -> FailureReason {
    FailureReason::MayHaveArrived { reason: reason.to_owned() }
}

#[test]
fn unsent_retry_leaves_first_send_in_doubt() {
    let limited = || Err(SendError::NotSent { retry_after_ms: Some(9_000), reason: "429".into() });
    let repeated = advance(&part(PartState::Sending), PartEvent::RetryEnded(limited()), Timestamp(0), &RULES);
    assert_eq!(repeated.state, PartState::InDoubt { until: Timestamp(9_000), reason: "429".into() });
}

fn refused() -> SendError {
    SendError::Refused { refusal: Refusal::BadMarkup, reason: "no".into() }
}

fn forbidden() -> SendError {
    SendError::Forbidden { reason: "no".into() }
}

fn unreadable() -> SendError {
    SendError::Unreadable { reason: "no".into() }
}

/// What a refusal of the repeat leaves to be done, with and without a history to look into.
#[test]
fn refused_retry_leaves_doubt_and_is_not_repeated() {
    let given_up = || DoubtStep::GiveUp(FailureReason::MayHaveArrived { reason: "no".into() });
    for (error, without_a_history) in
        [(refused(), DoubtStep::Resend), (unreadable(), DoubtStep::Resend), (forbidden(), given_up())]
    {
        let left = NONCE.after_failed_retry(&error);
        let repeated = advance(&part(PartState::Sending), PartEvent::RetryEnded(Err(error)), Timestamp(7), &RULES);
        assert_eq!(repeated.state, PartState::InDoubt { until: Timestamp(7), reason: "no".into() });
        let next = |channel| next_doubt_step(&repeated, Timestamp(7), &RULES, channel);
        assert_eq!(next(left), DoubtStep::LookUp, "though the key is still known");
        assert_eq!(doubt_step_without_match(&repeated, &RULES, left), without_a_history);
        assert_eq!(next(DoubtRules { look_up: LookupRule::None, ..left }), without_a_history);
    }
}

#[test]
fn unrefused_retry_may_be_repeated() {
    let limited = SendError::NotSent { retry_after_ms: None, reason: "429".into() };
    let lost = SendError::InDoubt { reason: "reset".into() };
    assert_eq!([limited, lost].map(|error| NONCE.after_failed_retry(&error)), [NONCE, NONCE]);
}

#[test]
fn labelled_resend_never_fails_for_certain() {
    let labelled = Part { labelled: true, ..part(PartState::Sending) };
    for event in [
        PartEvent::AttemptEnded(Err(forbidden())),
        PartEvent::AttemptEnded(Err(unreadable())),
        PartEvent::GivenUp(FailureReason::Refused { reason: "no".into() }),
        PartEvent::GivenUp(FailureReason::Expired { reason: "no".into() }),
    ] {
        let may_have_arrived = |part: &Part| match advance(part, event.clone(), Timestamp(1), &RULES).state {
            PartState::Failed { reason } => matches!(reason, FailureReason::MayHaveArrived { .. }),
            other => panic!("{other:?}"),
        };
        assert!(may_have_arrived(&labelled), "{event:?}");
        assert!(!may_have_arrived(&part(PartState::Sending)), "{event:?}");
    }
    let discarded = advance(&labelled, PartEvent::GivenUp(FailureReason::Discarded), Timestamp(1), &RULES);
    assert_eq!(discarded.state, PartState::Failed { reason: FailureReason::Discarded });
}

#[test]
fn no_wait_outlasts_the_largest_age() {
    let waiting = part(PartState::Waiting { until: Timestamp(i64::MAX), reason: "429".into() });
    assert_eq!(next_step(&waiting, Timestamp(5), &RULES), DeliveryStep::Wait(Timestamp(60_000)));
}

fn down(retry_after_ms: Option<u64>) -> SendError {
    SendError::NotSent { retry_after_ms, reason: "down".into() }
}

#[test]
fn rate_limit_during_look_up_is_a_floor() {
    let limited = PartEvent::StillUnreachable { error: down(Some(30_000)), probes: 1 };
    let PartState::InDoubt { until, .. } = advance(&doubtful(), limited, Timestamp(0), &RULES).state else {
        panic!("the doubt lasts");
    };
    assert_eq!(until, Timestamp(30_000));
}

#[test]
fn probes_in_vain_come_less_and_less_often() {
    let wait = |probes| {
        let down = PartEvent::StillUnreachable { error: down(None), probes };
        match advance(&doubtful(), down, Timestamp(0), &RULES).state {
            PartState::InDoubt { until, .. } => until.0,
            other => panic!("{other:?}"),
        }
    };
    assert!(wait(1) >= 200 && wait(4) >= 8 * wait(1) / 2 && wait(40) <= 6_250, "{} {} {}", wait(1), wait(4), wait(40));
}

#[test]
fn edits_are_repeated_and_never_labelled() {
    let edit = doubtful().into_edit_of(MessageRef("7".into()));
    assert_eq!(next_doubt_step(&edit, Timestamp(50_000), &RULES, NO_KEY), DoubtStep::Retry);
}

#[test]
fn expired_part_reports_whether_it_may_have_arrived() {
    let now = Timestamp(60_000);
    assert!(matches!(next_step(&doubtful(), now, &RULES), DeliveryStep::GiveUp(FailureReason::MayHaveArrived { .. })));
    let pending = part(PartState::Pending);
    assert!(matches!(next_step(&pending, now, &RULES), DeliveryStep::GiveUp(FailureReason::Expired { .. })));
}

#[test]
fn notice_is_tried_once_at_any_age() {
    let now = Timestamp(60_000);
    let content = PartContent::Notice { text: "0 of 1 sent".into() };
    let notice = Part { operation: Operation::Post { content }, ..part(PartState::Pending) };
    assert_eq!(next_step(&notice, now, &RULES), DeliveryStep::Start);
    let tried = PartState::Waiting { until: now, reason: "502".into() };
    let tried = next_step(&Part { state: tried, ..notice }, now, &RULES);
    assert!(matches!(tried, DeliveryStep::GiveUp(FailureReason::Expired { .. })), "{tried:?}");
}
