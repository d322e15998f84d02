//! What becomes of an edit that may have arrived, once it is repeated.

use super::*;

/// Catches: an edit that may have arrived and is reported as one that did not, since its repeat did not arrive.
#[test]
fn doubt_about_an_edit_outlasts_a_repeat_that_does_not_arrive() {
    let edit = Operation::Edit { message: MessageRef("m0".into()), content: PartContent::from_text("hello") };
    let state = PartState::InDoubt { until: Timestamp(0), reason: "reset".to_owned() };
    let doubtful = Part { operation: edit, state, attempts: 1, first_attempt_at: Some(Timestamp(0)), ..pending() };
    let channel = capabilities(Idempotency::None, LookupRule::None);
    let repeat = |answer| {
        let (mut delivery, _) = Delivery::resume(doubtful.clone(), false, &channel, Timestamp(0), RULES);
        let repeated = delivery.on(DeliveryEvent::ProbeEnded(Ok(())), Timestamp(1));
        let call = Continuation::Perform(DeliveryAction::Call(Attempt::Plain));
        assert_eq!(repeated, (vec![DeliveryEffect::Save], call));
        let plan = delivery.on(DeliveryEvent::Answered(Attempt::Plain, Err(answer)), Timestamp(2));
        (delivery, plan)
    };
    let limited = SendError::NotSent { retry_after_ms: Some(7_000), reason: "429".to_owned() };
    let (mut delivery, plan) = repeat(limited);
    let later = Timestamp(7_002);
    assert_eq!(plan, (vec![DeliveryEffect::Record], Continuation::Perform(DeliveryAction::Sleep(later))));
    assert_eq!(delivery.part().state, PartState::InDoubt { until: later, reason: "429".to_owned() });
    assert_eq!(delivery.on(DeliveryEvent::TimeReached, later), perform(DeliveryAction::Probe));
    assert_eq!(delivery.on(DeliveryEvent::TimeReached, Timestamp(60_000)), settle());
    let reason = FailureReason::MayHaveArrived { reason: "429".to_owned() };
    assert_eq!(delivery.part().state, PartState::Failed { reason });

    let reason = || "no".to_owned();
    let (forbidden, unreadable) =
        (SendError::Forbidden { reason: reason() }, SendError::Unreadable { reason: reason() });
    let refusal = SendError::Refused { refusal: Refusal::Other, reason: reason() };
    for answer in [forbidden, unreadable, refusal] {
        let (mut delivery, plan) = repeat(answer);
        let plan = match plan.1 {
            Continuation::Perform(DeliveryAction::Replan(_, failure)) => {
                let no_other_form = ReplanOutcome::GiveUp(failure.clone());
                delivery.on(DeliveryEvent::Replanned(no_other_form, failure), Timestamp(3))
            }
            _ => plan,
        };
        assert_eq!(plan, settle());
        let state = &delivery.part().state;
        let may_have_arrived = matches!(state, PartState::Failed { reason: FailureReason::MayHaveArrived { .. } });
        assert!(may_have_arrived, "{state:?}");
    }
}
