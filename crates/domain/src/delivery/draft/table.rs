//! The tables of drafts in `docs/delivery.md`.

use super::{
    super::machine::table::{EXPIRED_KEY, KEY, NOW, answers_of_each_kind, describe_state, forbidden, table},
    *,
};
use crate::delivery::tests::part;

const INTERVAL: Duration = Duration::from_secs(1);

/// So long ago that the next edit is due.
const EARLIER: Timestamp = Timestamp(NOW.0 - 1_000);

fn sending() -> Part {
    Part { streamed: true, ..part(PartState::Sending) }
}

fn open() -> PartState {
    PartState::Open { message: MessageRef("m1".into()) }
}

/// A draft that shows "Hello" since this moment.
fn showing(since: Timestamp) -> Draft {
    let mut draft = Draft::new(sending());
    let answer = Ok(vec![MessageRef("m1".into())]);
    assert!(draft.on_answer(&DraftCall::Send, "Hello", answer, since, INTERVAL), "its id must be stored");
    draft
}

fn describe_step(step: &DraftStep) -> String {
    match step {
        DraftStep::Call(DraftCall::Send) => "send".to_owned(),
        DraftStep::Call(DraftCall::Retry) => "retry under the key".to_owned(),
        DraftStep::Call(DraftCall::Edit(_)) => "edit".to_owned(),
        DraftStep::Abandon => "save as in doubt".to_owned(),
        DraftStep::Wait(until) => format!("wait {} s", until.saturating_duration_since(NOW).as_secs_f64()),
        DraftStep::Rest => "rest".to_owned(),
    }
}

/// What is done with a draft to show a text.
pub(in crate::delivery) fn drafts() -> String {
    let mut frozen = showing(EARLIER);
    assert!(!frozen.on_answer(&DraftCall::Edit(MessageRef("m1".into())), "x", Err(forbidden()), EARLIER, INTERVAL));
    let doubt = PartState::InDoubt { until: NOW, reason: "reset".to_owned() };
    let taken_up = |state| Draft::take_up(Part { state, ..sending() });
    let rows = [
        ("opened", Draft::new(sending()), Idempotency::None),
        ("taken up from another, the key is still known", Draft::take_up(sending()), KEY),
        ("taken up from another, the key has expired", Draft::take_up(sending()), EXPIRED_KEY),
        ("taken up from another, its message is known", taken_up(open()), Idempotency::None),
        ("open", showing(EARLIER), Idempotency::None),
        ("open, edited just now", showing(NOW), Idempotency::None),
        ("open, an edit was forbidden", frozen, Idempotency::None),
        ("in doubt", taken_up(doubt), KEY),
        ("pending: it didn't arrive, or is gone", taken_up(PartState::Pending), KEY),
    ];
    let columns = ["no text yet", "a text", "what it shows"];
    table(
        "draft",
        &columns,
        rows.map(|(name, draft, idempotency)| {
            let cell = |text: &str| describe_step(&draft.next_step(text, NOW, idempotency));
            let shown = if draft.shown.is_empty() { "–".to_owned() } else { cell(&draft.shown) };
            (name, vec![cell(" \n"), cell("Hello there"), shown])
        }),
    )
}

/// What follows the channel's answer to a call for a draft.
pub(in crate::delivery) fn draft_answers() -> String {
    let calls = [
        ("first send", Draft::new(sending()), DraftCall::Send),
        ("retry under the key", Draft::take_up(sending()), DraftCall::Retry),
        ("edit", showing(EARLIER), DraftCall::Edit(MessageRef("m1".into()))),
    ];
    let mut answers = answers_of_each_kind();
    answers.retain(|(name, _)| *name != "unreadable file");
    let refusal = |refusal| Err(SendError::Refused { refusal, reason: "no".to_owned() });
    answers.push(("refused: its markup", refusal(Refusal::BadMarkup)));
    answers.push(("refused: the message is gone", refusal(Refusal::TargetGone)));
    let columns: Vec<&str> = answers.iter().map(|(name, _)| *name).collect();
    table(
        "call",
        &columns,
        calls.map(|(name, draft, call)| {
            let cell = |(_, answer): &(&str, Result<Vec<MessageRef>, SendError>)| {
                let mut draft = draft.clone();
                let is_saved = draft.on_answer(&call, "Hello there", answer.clone(), NOW, INTERVAL);
                let effect = if is_saved { "save, " } else { "" };
                let next = describe_step(&draft.next_step("Hello there, you", NOW, Idempotency::None));
                format!("**{}**: {effect}{next}", describe_state(&draft.part.state))
            };
            (name, answers.iter().map(cell).collect())
        }),
    )
}

#[test]
fn message_without_id_leaves_a_doubt() {
    let mut draft = Draft::new(sending());
    assert!(draft.on_answer(&DraftCall::Send, "Hello", Ok(Vec::new()), NOW, INTERVAL));
    assert!(matches!(draft.part().state, PartState::InDoubt { .. }), "{:?}", draft.part().state);
}

#[test]
fn wait_of_the_platform_is_a_floor_for_the_next_edit() {
    let mut draft = showing(NOW);
    let (call, limited) = (
        DraftCall::Edit(MessageRef("m1".into())),
        SendError::NotSent { retry_after_ms: Some(7_000), reason: "429".to_owned() },
    );
    assert!(!draft.on_answer(&call, "Hello there", Err(limited), NOW, INTERVAL));
    let until = NOW.saturating_add(Duration::from_secs(7));
    assert_eq!(draft.next_step("Hello there", NOW, Idempotency::None), DraftStep::Wait(until));
    assert_eq!(draft.next_step("Hello there", until, Idempotency::None), DraftStep::Call(call));
}
