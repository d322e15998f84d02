//! Repeats of a doubtful send that are refused: what is certain of the repeat says nothing about the first send.

use satchel_domain::part::FailureReason;

use super::*;

const REASON: &str = "no";

fn forbidden() -> Answer {
    Err(SendError::Forbidden { reason: REASON.into() })
}

fn unreadable() -> Answer {
    Err(SendError::Unreadable { reason: REASON.into() })
}

/// A text with files of which the first send is in doubt, on a channel with a key and these further answers.
fn doubtful(history: Option<Option<Vec<MessageRef>>>, further: Vec<Answer>) -> DeliveryHarness {
    let capabilities = ChannelCapabilities {
        idempotency: Idempotency::Key { window_ms: None },
        look_up: if history.is_some() { LookupRule::History } else { LookupRule::None },
        ..tables::discord()
    };
    let content = PartContent::Text { text: "hello".into(), markup: Markup::Rich, files: vec![photo(1), photo(2)] };
    let answers = [vec![in_doubt()], further].concat();
    let found = |messages: Vec<MessageRef>| LookupOutcome::Found { messages, duplicates: Vec::new() };
    let lookups = history.flatten().map(found).into_iter().collect();
    DeliveryHarness { capabilities, lookups, ..DeliveryHarness::new(vec![part(1, content)], answers) }
}

fn held(on_doubt: OnDoubt, stage: DeliveryHarness) -> DeliveryHarness {
    DeliveryHarness { rules: DeliveryRules { on_doubt, ..DeliveryRules::default() }, ..stage }
}

/// What follows the first send and the repeat.
fn after_the_repeat(log: &[String]) -> &[String] {
    assert_eq!(
        log[..7],
        ["save sending", "send hello", "save in_doubt", "probe ok", "save sending", "send hello", "save in_doubt"],
        "the refusal of the repeat ends no doubt"
    );
    &log[7..]
}

/// What was done, and how each part ended.
async fn played(stage: DeliveryHarness) -> (Vec<String>, Vec<PartState>) {
    let ends = Arc::clone(&stage.ends);
    let log = stage.log().await;
    let ends = ends.lock().unwrap().clone();
    (log, ends)
}

const LABELLED: &str = "send (possible duplicate) hello";

/// What follows where nothing is certain.
const RELABELLED: [&str; 3] = ["save waiting labelled", "save sending labelled", LABELLED];

#[rstest]
#[case::too_large(refused(Refusal::TooLarge { limit: None }))]
#[case::refused(refused(Refusal::Other))]
#[case::forbidden(forbidden())]
#[case::unreadable(unreadable())]
#[tokio::test(start_paused = true)]
async fn part_in_history_is_sent_despite_failed_retry(#[case] repeat: Answer) {
    let log = doubtful(Some(Some(vec![MessageRef("m9".into())])), vec![repeat]).log().await;
    assert_eq!(after_the_repeat(&log), ["probe ok", "look up", "settle sent"]);
}

#[rstest]
#[case::with_a_history(Some(None))]
#[case::without_one(None)]
#[tokio::test(start_paused = true)]
async fn unfound_part_is_resent_once_with_label(#[case] history: Option<Option<Vec<MessageRef>>>) {
    for repeat in [refused(Refusal::Other), unreadable()] {
        // Its words alone are refused as well.
        let log = doubtful(history.clone(), vec![repeat, refused(Refusal::Other), sent()]).log().await;
        let looked: &[&str] = if history.is_some() { &["probe ok", "look up"] } else { &["probe ok"] };
        let words: &[&str] = &["save sending", "send hello", "save in_doubt"];
        let expected = [looked, words, looked, &RELABELLED[..], &["settle sent"]].concat();
        assert_eq!(after_the_repeat(&log), expected);
    }
}

/// What is visible of a streamed reply is half of it, which no look-up finds.
#[rstest]
#[case::the_files_may_go_after_all(sent(), "settle sent")]
#[case::the_files_may_not(refused(Refusal::TooLarge { limit: None }), "settle replaced by text, album")]
#[tokio::test(start_paused = true)]
async fn retry_refused_for_files_sends_text_under_key(#[case] edit: Answer, #[case] end: &str) {
    for on_doubt in [OnDoubt::Resend, OnDoubt::Hold] {
        for repeat in [refused(Refusal::TooLarge { limit: None }), refused(Refusal::Other), unreadable()] {
            let stage = held(on_doubt, doubtful(Some(None), vec![repeat, sent(), edit.clone()]));
            let carried = Arc::clone(&stage.carried);
            let log = stage.log().await;
            let words = ["probe ok", "look up", "save sending", "send hello", "edit m1", end];
            assert_eq!(after_the_repeat(&log), words, "{on_doubt:?}");
            assert_eq!(*carried.lock().unwrap(), [2, 2, 0, 2], "the words alone, and then all on their message");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn delayed_or_lost_text_is_retried_under_key() {
    let answers = vec![refused(Refusal::Other), not_sent(7_000), in_doubt(), sent(), sent()];
    let log = doubtful(Some(None), answers).log().await;
    let again = ["probe ok", "look up", "save sending", "send hello"];
    let waits = [&again[..], &["save in_doubt"]].concat();
    assert_eq!(after_the_repeat(&log), [&waits[..], &waits, &again, &["edit m1", "settle sent"]].concat());
}

#[tokio::test(start_paused = true)]
async fn text_retry_after_expired_key_is_labelled() {
    let stage = doubtful(Some(None), vec![refused(Refusal::Other), not_sent(70_000), sent()]);
    let idempotency = Idempotency::Key { window_ms: Some(60_000) };
    let stage =
        DeliveryHarness { capabilities: ChannelCapabilities { idempotency, ..stage.capabilities.clone() }, ..stage };
    let log = stage.log().await;
    let words = ["probe ok", "look up", "save sending", "send hello", "save in_doubt"];
    let labelled = [&["probe ok", "look up"], &RELABELLED[..], &["settle sent"]].concat();
    assert_eq!(after_the_repeat(&log), [&words[..], &labelled].concat());
}

#[rstest]
#[case::with_a_history(Some(None))]
#[case::without_one(None)]
#[tokio::test(start_paused = true)]
async fn forbidden_resend_is_reported_as_possibly_arrived(#[case] history: Option<Option<Vec<MessageRef>>>) {
    for on_doubt in [OnDoubt::Resend, OnDoubt::Hold] {
        let (log, ends) = played(held(on_doubt, doubtful(history.clone(), vec![forbidden()]))).await;
        let looked: &[&str] = if history.is_some() { &["probe ok", "look up"] } else { &["probe ok"] };
        assert_eq!(after_the_repeat(&log), [looked, &["settle failed with notice"]].concat());
        assert_eq!(ends, [PartState::Failed { reason: FailureReason::MayHaveArrived { reason: REASON.into() } }]);
    }
}

#[tokio::test(start_paused = true)]
async fn held_doubt_does_not_resend_refused_retry() {
    // Its words alone are refused as well.
    let stage = held(OnDoubt::Hold, doubtful(Some(None), vec![refused(Refusal::Other), refused(Refusal::Other)]));
    let looked = ["probe ok", "look up"];
    let words = ["save sending", "send hello", "save in_doubt"];
    let expected = [&looked[..], &words, &looked, &["settle failed with notice"]].concat();
    assert_eq!(after_the_repeat(&stage.log().await), expected);
}

/// Its words alone would find the message that has no label, and bring one into it.
#[tokio::test(start_paused = true)]
async fn labelled_part_skips_text_retry_after_restart() {
    let mut stage = doubtful(Some(None), vec![]);
    stage.parts =
        stage.parts.into_iter().map(|part| sending(Part { labelled: true, labelled_sends: 3, ..part })).collect();
    stage.answers = vec![refused(Refusal::Other)];
    let log = stage.log().await;
    let repeated = ["probe ok", "save sending labelled", LABELLED, "save in_doubt labelled"];
    assert_eq!(log, [&repeated[..], &["probe ok", "settle failed with notice"]].concat());
}

/// The label stays on whatever takes the part's place: the ledger gives it to the children.
#[rstest]
#[case::another_form(refused(Refusal::TooLarge { limit: None }), "settle replaced by text, album")]
#[case::one_bad_file(unreadable(), "settle replaced by text, album")]
#[case::for_good(forbidden(), "settle failed with notice")]
#[tokio::test(start_paused = true)]
async fn refused_labelled_send_does_not_loop(#[case] again: Answer, #[case] end: &str) {
    let answers = vec![refused(Refusal::Other), refused(Refusal::Other), again];
    let (log, ends) = played(doubtful(Some(None), answers)).await;
    let words = ["probe ok", "look up", "save sending", "send hello", "save in_doubt"];
    let labelled = [&["probe ok", "look up"], &RELABELLED[..], &[end]].concat();
    assert_eq!(after_the_repeat(&log), [&words[..], &labelled].concat());
    if let PartState::Failed { reason } = &ends[0] {
        assert!(matches!(reason, FailureReason::MayHaveArrived { .. }), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn text_without_alternative_form_may_have_arrived() {
    let stage = DeliveryHarness {
        capabilities: ChannelCapabilities { idempotency: Idempotency::Key { window_ms: None }, ..tables::discord() },
        ..DeliveryHarness::new(vec![text(1)], vec![in_doubt(), refused(Refusal::Other), refused(Refusal::Other)])
    };
    let (log, ends) = played(stage).await;
    assert_eq!(log.last().map(String::as_str), Some("settle failed with notice"));
    let reason = FailureReason::MayHaveArrived { reason: "refused: no".into() };
    assert_eq!(ends, [PartState::Failed { reason }]);
}

/// The rest could never be added to them.
#[tokio::test(start_paused = true)]
async fn channel_without_edits_never_repeats_words_alone() {
    let stage = doubtful(Some(None), vec![refused(Refusal::TooLarge { limit: None }), sent()]);
    let stage = DeliveryHarness {
        capabilities: ChannelCapabilities { can_edit: false, ..stage.capabilities.clone() },
        ..stage
    };
    let log = stage.log().await;
    assert_eq!(after_the_repeat(&log), [&["probe ok", "look up"], &RELABELLED[..], &["settle sent"]].concat());
}
