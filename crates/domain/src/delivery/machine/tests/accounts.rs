//! What becomes of a part while the platform refuses the bot's account.

use super::*;

const DEADLINE: Timestamp = Timestamp(60_000);

fn refused() -> SendError {
    SendError::AccountRefused { reason: "revoked".to_owned() }
}

fn awaits_account() -> Continuation {
    Continuation::Perform(DeliveryAction::AwaitAccount(Some(DEADLINE)))
}

fn call(attempt: Attempt) -> Continuation {
    Continuation::Perform(DeliveryAction::Call(attempt))
}

/// Catches: a revoked token that gives a part up at once, that uses up its attempts, or after which its key counts as old.
#[test]
fn refused_account_uses_up_no_attempt() {
    let channel = capabilities(Idempotency::None, LookupRule::None);
    let (mut delivery, mut plan) = Delivery::resume(pending(), false, &channel, Timestamp(0), RULES);
    for now in [1_000, 2_000, 3_000].map(Timestamp) {
        assert_eq!(plan, (vec![DeliveryEffect::Save], call(Attempt::Plain)));
        assert_eq!(delivery.part().attempts, 1);
        plan = delivery.on(DeliveryEvent::Answered(Attempt::Plain, Err(refused())), now);
        assert_eq!(plan, (vec![DeliveryEffect::Record], awaits_account()));
        let part = delivery.part();
        assert_eq!((part.attempts, part.first_attempt_at), (0, None), "as if it had never been made");
        assert_eq!(part.state, PartState::Waiting { until: now, reason: "revoked".to_owned() });
        plan = delivery.on(DeliveryEvent::TimeReached, now);
    }
    let sent =
        delivery.on(DeliveryEvent::Answered(Attempt::Plain, Ok(vec![MessageRef("m0".into())])), Timestamp(4_000));
    assert_eq!(sent.1, Continuation::Settle);
    assert_eq!(delivery.part().attempts, 1);
}

#[test]
fn part_of_a_refused_account_expires_at_the_largest_age() {
    let channel = capabilities(Idempotency::None, LookupRule::None);
    let (mut delivery, _) = Delivery::resume(pending(), false, &channel, Timestamp(0), RULES);
    let _ = delivery.on(DeliveryEvent::Answered(Attempt::Plain, Err(refused())), Timestamp(1_000));
    assert_eq!(delivery.on(DeliveryEvent::TimeReached, DEADLINE).1, Continuation::Settle);
    let reason = FailureReason::Expired { reason: "revoked".to_owned() };
    assert_eq!(delivery.part().state, PartState::Failed { reason });
}

/// Catches: a notice about what has expired that expires as well, so that nobody learns of the loss.
#[test]
fn notice_of_a_refused_account_is_sent_at_any_age() {
    let channel = capabilities(Idempotency::None, LookupRule::None);
    let content = PartContent::Notice { text: "0 of 1 sent".to_owned() };
    let notice = Part { operation: Operation::Post { content }, ..pending() };
    let (mut delivery, _) = Delivery::resume(notice, false, &channel, Timestamp(0), RULES);
    let (tried_at, late) = (Timestamp(1_000), DEADLINE.saturating_add(RULES.max_age));
    let refusal = delivery.on(DeliveryEvent::Answered(Attempt::Plain, Err(refused())), tried_at);
    let without_deadline = Continuation::Perform(DeliveryAction::AwaitAccount(None));
    assert_eq!(refusal, (vec![DeliveryEffect::Record], without_deadline));
    let waiting = delivery.part().clone();
    assert_eq!(delivery.on(DeliveryEvent::TimeReached, late), (vec![DeliveryEffect::Save], call(Attempt::Plain)));

    let (_, restarted) = Delivery::resume(waiting.clone(), false, &channel, late, RULES);
    assert_eq!(restarted, (vec![DeliveryEffect::Save], call(Attempt::Plain)));
    let (_, behind) = Delivery::resume(waiting, false, &channel, Timestamp(0), RULES);
    assert_eq!(behind, perform(DeliveryAction::Sleep(tried_at)), "the clock of this process is behind");
    let tried = PartState::Waiting { until: tried_at, reason: "429".to_owned() };
    let tried = Part { state: tried, attempts: 1, ..delivery.into_part() };
    let (_, given_up) = Delivery::resume(tried, false, &channel, late, RULES);
    assert_eq!(given_up.1, Continuation::Settle, "what the platform itself doesn't take is no matter of the account");
}

/// A restart finds the part due: a new token may have come with it.
#[test]
fn restart_tries_a_part_of_a_refused_account_at_once() {
    let waiting = PartState::Waiting { until: Timestamp(1_000), reason: "revoked".to_owned() };
    let channel = capabilities(Idempotency::None, LookupRule::None);
    let part = Part { state: waiting, ..pending() };
    let (_, plan) = Delivery::resume(part, false, &channel, Timestamp(1_000), RULES);
    assert_eq!(plan.1, call(Attempt::Plain));
}

/// Catches: a doubt that a refused account ends, so that a part is sent twice or given up although it may be sent.
#[test]
fn doubt_outlasts_a_refused_account() {
    let state = PartState::InDoubt { until: Timestamp(0), reason: "reset".to_owned() };
    let doubtful = Part { state, attempts: 1, first_attempt_at: Some(Timestamp(0)), ..pending() };
    let keyed = Idempotency::Key { window_ms: Some(60_000) };
    for (idempotency, look_up) in [(keyed, LookupRule::None), (Idempotency::None, LookupRule::MessageIds)] {
        let channel = capabilities(idempotency, look_up);
        let (mut delivery, plan) = Delivery::resume(doubtful.clone(), false, &channel, Timestamp(0), RULES);
        assert_eq!(plan, perform(DeliveryAction::Probe));
        let probed = delivery.on(DeliveryEvent::ProbeEnded(Err(refused())), Timestamp(1));
        assert_eq!(probed, (Vec::new(), awaits_account()));
        assert_eq!(delivery.on(DeliveryEvent::TimeReached, Timestamp(2)), perform(DeliveryAction::Probe));
        let _ = delivery.on(DeliveryEvent::ProbeEnded(Ok(())), Timestamp(3));
        let answer = match look_up {
            LookupRule::None => DeliveryEvent::Answered(Attempt::Retry, Err(refused())),
            _ => DeliveryEvent::SearchEnded(Err(refused())),
        };
        assert_eq!(delivery.on(answer, Timestamp(4)).1, awaits_account());
        let part = delivery.part();
        assert_eq!((part.attempts, part.first_attempt_at), (1, Some(Timestamp(0))));
        assert_eq!(part.state, PartState::InDoubt { until: Timestamp(4), reason: "revoked".to_owned() });
        assert_eq!(delivery.on(DeliveryEvent::TimeReached, Timestamp(5)), perform(DeliveryAction::Probe));
    }
}

/// Catches: an edit that may have arrived and of which people and the model read that it did not.
#[test]
fn doubt_about_an_edit_outlasts_a_refused_account() {
    let edit = Operation::Edit { message: MessageRef("m0".into()), content: PartContent::from_text("hello") };
    let state = PartState::InDoubt { until: Timestamp(0), reason: "reset".to_owned() };
    let doubtful = Part { operation: edit, state, attempts: 1, first_attempt_at: Some(Timestamp(0)), ..pending() };
    let channel = capabilities(Idempotency::None, LookupRule::None);
    let (mut delivery, plan) = Delivery::resume(doubtful, false, &channel, Timestamp(0), RULES);
    assert_eq!(plan, perform(DeliveryAction::Probe));
    for now in [1, 2].map(Timestamp) {
        let repeated = delivery.on(DeliveryEvent::ProbeEnded(Ok(())), now);
        assert_eq!(repeated, (vec![DeliveryEffect::Save], call(Attempt::Plain)));
        let answered = delivery.on(DeliveryEvent::Answered(Attempt::Plain, Err(refused())), now);
        assert_eq!(answered, (vec![DeliveryEffect::Record], awaits_account()));
        let part = delivery.part();
        assert_eq!((part.attempts, part.first_attempt_at), (1, Some(Timestamp(0))));
        assert_eq!(part.state, PartState::InDoubt { until: now, reason: "revoked".to_owned() });
        assert_eq!(delivery.on(DeliveryEvent::TimeReached, now), perform(DeliveryAction::Probe));
    }
    let _ = delivery.on(DeliveryEvent::ProbeEnded(Err(refused())), Timestamp(3));
    assert_eq!(delivery.on(DeliveryEvent::TimeReached, DEADLINE).1, Continuation::Settle);
    let reason = FailureReason::MayHaveArrived { reason: "revoked".to_owned() };
    assert_eq!(delivery.part().state, PartState::Failed { reason });
}

/// Catches: a doubt about an edit that certainly did not arrive.
#[test]
fn refused_account_leaves_no_doubt_about_an_edit_that_was_not_sent() {
    let edit = Operation::Edit { message: MessageRef("m0".into()), content: PartContent::from_text("hello") };
    let channel = capabilities(Idempotency::None, LookupRule::None);
    let (mut delivery, _) =
        Delivery::resume(Part { operation: edit, ..pending() }, false, &channel, Timestamp(0), RULES);
    let busy = SendError::NotSent { retry_after_ms: Some(1), reason: "busy".to_owned() };
    let _ = delivery.on(DeliveryEvent::Answered(Attempt::Plain, Err(busy)), Timestamp(0));
    let _ = delivery.on(DeliveryEvent::TimeReached, Timestamp(5_000));
    let _ = delivery.on(DeliveryEvent::Answered(Attempt::Plain, Err(refused())), Timestamp(5_001));
    assert_eq!(delivery.part().state, PartState::Waiting { until: Timestamp(5_001), reason: "revoked".to_owned() });
}
