//! Questions about calls: they stand until they are closed, and nobody is asked once nobody needs the answer.

use satchel_domain::{Button, CallId, part::CallQuestion};

use super::*;

fn question(id: u128) -> Part {
    let buttons = vec![Button { label: "Allow".into(), command: "/allow ABCD2345".into() }];
    let content = PartContent::question("May I?", buttons);
    let asked = part(id, content);
    let call = CallId { turn: asked.turn, ordinal: 0 };
    Part { question: Some(CallQuestion { call, unanswered: "No longer needed".into(), closing: None }), ..asked }
}

/// A lane with a question on Telegram, where look-ups find this, and which is closed while it is under way.
fn closed(answers: Vec<Answer>, lookups: Vec<LookupOutcome>) -> DeliveryHarness {
    let closed_by = Some("Allowed".to_owned());
    DeliveryHarness {
        capabilities: tables::telegram(),
        lookups,
        closed_by,
        ..DeliveryHarness::new(vec![question(1)], answers)
    }
}

fn found(message: &str) -> LookupOutcome {
    LookupOutcome::Found { messages: vec![MessageRef(message.into())], duplicates: Vec::new() }
}

fn not_needed() -> PartState {
    PartState::Failed { reason: FailureReason::NotNeeded }
}

fn closing_edit() -> Part {
    let mut asked = Part { state: PartState::Open { message: MessageRef("q".into()) }, ..question(1) };
    asked.close_question(Some("Allowed".into()), Timestamp(0));
    asked
}

#[tokio::test(start_paused = true)]
async fn open_question_blocks_no_part() {
    let stage = DeliveryHarness::new(vec![question(1), text(2)], vec![sent(), sent()]);
    let (log, left) = stage.play(DeliveryStart::TakenOver).await;
    let asked = ["save sending", "send May I?", "save open"];
    assert_eq!(log, [&asked[..], &["save sending", "send hello", "settle sent"]].concat());
    assert_eq!(left.unwrap(), DriverEnd::Released);
}

#[tokio::test(start_paused = true)]
async fn found_question_is_open_without_label() {
    let stage = DeliveryHarness { closed_by: None, ..closed(vec![in_doubt()], vec![found("m7")]) };
    let log = ["save sending", "send May I?", "save in_doubt", "probe ok", "look up", "save open"];
    assert_eq!(stage.log().await, log);
    let absent = vec![LookupOutcome::Absent, found("m0")];
    let stage = DeliveryHarness { closed_by: None, ..closed(vec![in_doubt(), sent()], absent) };
    let again = ["save sending", "send May I?", "save open", "look before m1", "delete m0"];
    assert_eq!(stage.log().await, [&log[..5], &again].concat(), "the late one's buttons go");
}

#[tokio::test(start_paused = true)]
async fn waiting_question_is_not_sent_once_closed() {
    let stage = closed(vec![not_sent(30_000)], vec![]);
    let ends = Arc::clone(&stage.ends);
    assert_eq!(stage.log().await, ["save sending", "send May I?", "save waiting", "settle failed"], "without a notice");
    assert_eq!(*ends.lock().unwrap(), [not_needed()]);
}

#[rstest]
#[case::found(found("m7"), &["save open"], None)]
#[case::absent(LookupOutcome::Absent, &["settle failed"], Some(not_needed()))]
#[case::uncertain(
    LookupOutcome::uncertain("?"),
    &["settle failed"],
    Some(PartState::Failed { reason: FailureReason::MayHaveArrived { reason: "reset".into() } })
)]
#[tokio::test(start_paused = true)]
async fn question_closed_in_doubt_is_looked_up_and_not_resent(
    #[case] lookup: LookupOutcome,
    #[case] end: &[&str],
    #[case] state: Option<PartState>,
) {
    let stage = closed(vec![in_doubt()], vec![lookup]);
    let ends = Arc::clone(&stage.ends);
    let doubted = ["save sending", "send May I?", "save in_doubt", "probe ok", "look up"];
    assert_eq!(stage.log().await, [&doubted[..], end].concat());
    assert_eq!(*ends.lock().unwrap(), Vec::from_iter(state));
}

#[tokio::test(start_paused = true)]
async fn closing_edit_is_repeated_until_taken_or_pointless() {
    let refusal = |refusal| vec![refused(refusal)];
    for (answers, end) in [
        (vec![in_doubt(), not_sent(1_000), sent()], "settle sent"),
        (refusal(Refusal::TargetGone), "settle sent"),
        (refusal(Refusal::Other), "settle failed"),
    ] {
        let log = DeliveryHarness::new(vec![closing_edit()], answers).log().await;
        assert_eq!(log.last().map(String::as_str), Some(end), "{log:?}");
        assert!(!log.iter().any(|line| line.starts_with("send") || line.contains("labelled")), "{log:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn refused_question_goes_as_plain_text_or_fails_without_notice() {
    let log = DeliveryHarness::new(vec![question(1)], vec![refused(Refusal::BadMarkup)]).log().await;
    assert_eq!(log, ["save sending", "send May I?", "settle replaced by text"]);
    let forbidden = Err(SendError::Forbidden { reason: "muted".into() });
    let log = DeliveryHarness::new(vec![question(1)], vec![forbidden]).log().await;
    assert_eq!(log, ["save sending", "send May I?", "settle failed"]);
}
