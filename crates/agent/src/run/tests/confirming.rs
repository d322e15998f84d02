//! Calls that need a person's word: asked for, given, refused, forged, run out, and remembered over a crash.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use satchel_domain::{InboxId, Sender, ToolOutcome};
use satchel_ports::{
    SafetyTier,
    ledger::{JournalEntry, NewQuestion},
};
use serde_json::json;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::{
    recorded,
    stage::{Counter, Played, Stage, calls, code_of, says, tool, tool_that_calls, waiting},
};

fn stage_with_vault() -> (Stage, Counter) {
    let mut stage = Stage::with_model(vec![calls(&[("vault", json!({}))]), says("Done.")]);
    let opened = stage.counter();
    let counted = opened.clone();
    stage.tools.push(tool("vault", SafetyTier::Privileged, move |_| {
        counted.add();
        async { Ok(ToolOutcome::from_text("the secret")) }
    }));
    (stage, opened)
}

/// Somebody presses a button of the question about the turn's first call.
fn presses(stage: &mut Stage, after: u64, verb: &str, who: &str) {
    let mut pressed = waiting(90 + u128::from(after), &format!("/{verb} {}", code_of(&recorded("vault", 0))));
    pressed.message.sender = Sender::new(who, who);
    stage.arrives_after(Duration::from_secs(after), pressed);
}

fn decided(played: &Played) -> Vec<&JournalEntry> {
    played.journal.iter().filter(|entry| matches!(entry, JournalEntry::Decided { .. })).collect()
}

#[tokio::test(start_paused = true)]
async fn decision_is_recorded_before_call_runs() {
    let (mut stage, opened) = stage_with_vault();
    presses(&mut stage, 5, "allow", "owner");
    let played = stage.play().await;
    let asked = format!("ask May I use `vault`? /allow {}", code_of(&recorded("vault", 0)));
    let decided = "journal decision Allowed by `owner`: `vault`";
    assert_eq!(played.log, ["journal message", &asked, decided, "journal outcome 0", "complete done"]);
    assert_eq!((opened.count(), played.answers(1)), (1, vec!["the secret".to_owned()]));
    assert_eq!(played.completed.steered, [InboxId(Uuid::from_u128(95))], "the word is consumed");
}

#[tokio::test(start_paused = true)]
async fn only_owners_decide_for_others() {
    let (mut stage, opened) = stage_with_vault();
    presses(&mut stage, 5, "allow", "a stranger in the group");
    presses(&mut stage, 20, "refuse", "boss");
    let played = stage.play().await;
    assert_eq!(opened.count(), 0);
    assert!(played.answers(1)[0].contains("the person refused this call"), "{:?}", played.answers(1));
    assert_eq!(played.completed.steered, [InboxId(Uuid::from_u128(110))], "the stranger's word is not taken");
}

#[tokio::test(start_paused = true)]
async fn foreign_button_and_silence_both_refuse_call() {
    let (mut stage, opened) = stage_with_vault();
    let other = waiting(91, &format!("/allow {}", code_of(&recorded("vault", 1))));
    stage.arrives_after(Duration::from_secs(3), other);
    let played = stage.play().await;
    assert_eq!(opened.count(), 0);
    assert!(played.answers(1)[0].contains("nobody allowed this call within 10 min"), "{:?}", played.answers(1));
    assert!(decided(&played).is_empty() && played.completed.steered.is_empty());
    assert!(
        played.log.contains(&"close No answer in time, so I did not do it: `vault`".to_owned()),
        "{:?}",
        played.log
    );
}

#[tokio::test(start_paused = true)]
async fn crash_reopens_only_undecided_questions() {
    let model = || JournalEntry::Model {
        steered: vec![],
        text: String::new(),
        calls: vec![recorded("vault", 0)],
        awaiting_decision: vec![0],
        agent: None,
        task: None,
        changing_calls: Some(vec![0]),
    };
    let word = |allowed| JournalEntry::Decided { ordinal: 0, allowed, message: InboxId(Uuid::from_u128(7)) };
    let resumed = |journal: Vec<JournalEntry>| {
        let (mut stage, opened) = stage_with_vault();
        stage.turn.journal = journal;
        stage.answers_next(says("Done."));
        (stage, opened)
    };

    let (mut stage, opened) = resumed(vec![model()]);
    presses(&mut stage, 5, "allow", "owner");
    let played = stage.play().await;
    assert_eq!((opened.count(), played.answers(0)), (1, vec!["the secret".to_owned()]));

    // It began without a word, before the settings asked for one.
    let unasked = match model() {
        JournalEntry::Model { steered, text, calls, .. } => JournalEntry::Model {
            agent: None,
            task: None,
            steered,
            text,
            calls,
            awaiting_decision: vec![],
            changing_calls: Some(vec![0]),
        },
        other => other,
    };
    let (stage, opened) = resumed(vec![unasked]);
    let played = stage.play().await;
    assert_eq!(opened.count(), 0, "it may have run");
    assert!(played.answers(0)[0].contains("outcome unknown"), "{:?}", played.answers(0));

    let (stage, opened) = resumed(vec![model(), word(true)]);
    let played = stage.play().await;
    assert_eq!(opened.count(), 0, "it may have run");
    assert!(played.answers(0)[0].contains("outcome unknown"), "{:?}", played.answers(0));
    assert_eq!(played.completed.steered, [InboxId(Uuid::from_u128(7))]);

    let (stage, opened) = resumed(vec![model(), word(false)]);
    let played = stage.play().await;
    assert_eq!(opened.count(), 0);
    assert!(played.answers(0)[0].contains("refused"), "{:?}", played.answers(0));
    assert!(!played.log.iter().any(|line| line.starts_with("ask")), "{:?}", played.log);
}

#[tokio::test(start_paused = true)]
async fn privileged_tools_are_disabled_in_groups_without_question() {
    let (mut stage, opened) = stage_with_vault();
    stage.turn.messages[0].message.group = true;
    let played = stage.play().await;
    assert_eq!(opened.count(), 0);
    assert!(
        played.answers(1)[0].contains("can't be used in a chat that other people can read"),
        "{:?}",
        played.answers(1)
    );
    assert!(!played.log.iter().any(|line| line.starts_with("ask")), "{:?}", played.log);
}

#[tokio::test(start_paused = true)]
async fn time_to_answer_starts_when_question_is_open() {
    let (mut stage, opened) = stage_with_vault();
    stage.busy = Duration::from_secs(9 * 60);
    presses(&mut stage, 18 * 60, "allow", "owner");
    let played = stage.play().await;
    assert_eq!((opened.count(), played.questions.len()), (1, 1));

    let (mut stage, opened) = stage_with_vault();
    stage.busy = Duration::from_secs(11 * 60);
    let played = stage.play().await;
    let answers = played.answers(1);
    assert!(answers[0].contains("the question could not be shown (too many requests)"), "{answers:?}");
    let closed = "close I couldn't ask, so I did not do it: `vault`".to_owned();
    assert!(opened.count() == 0 && played.log.contains(&closed), "{:?}", played.log);
}

#[tokio::test(start_paused = true)]
async fn ignored_question_cancels_the_remaining_questions() {
    let storm: Vec<_> = (0..20).map(|_| ("vault", json!({}))).collect();
    let (mut stage, opened) = stage_with_vault();
    stage.answer_first(calls(&storm));
    let begun = Instant::now();
    let played = stage.play().await;
    assert_eq!((opened.count(), played.answers(1).len()), (0, 20));
    assert_eq!(played.log.iter().filter(|line| line.starts_with("ask")).count(), 3, "three stand at once");
    assert!(begun.elapsed() < Duration::from_secs(11 * 60), "{:?}", begun.elapsed());
}

/// A stage on which a tool asks for the vault twice, with so much time left each time, and gives up after a while.
fn stage_with_a_script(left: Duration, gives_up: Duration) -> (Stage, Counter) {
    let (mut stage, opened) = stage_with_vault();
    stage.answer_first(calls(&[("script", json!({}))]));
    stage.tools.push(tool_that_calls("script", SafetyTier::SideEffecting, move |_, context| async move {
        let tools = context.tools.expect("others can be called");
        let mut heard = String::new();
        for _ in 0..2 {
            heard += &match timeout(gives_up, tools.call("vault", json!({}), left)).await {
                Ok(answer) => answer.expect_err("nobody allows it").0,
                Err(_) => "cut off".to_owned(),
            };
        }
        Ok(ToolOutcome::from_text(heard))
    }));
    (stage, opened)
}

#[tokio::test(start_paused = true)]
async fn question_in_script_expires_with_the_script() {
    let (stage, opened) = stage_with_a_script(Duration::from_secs(90), Duration::from_secs(3_000));
    let begun = Instant::now();
    let played = stage.play().await;
    assert!(begun.elapsed() < Duration::from_secs(200), "{:?}", begun.elapsed());
    let answers = played.answers(1);
    assert_eq!(answers[0].matches("nobody allowed this call within 2 min").count(), 2, "{answers:?}");
    let is_short = |question: &&NewQuestion| question.text.contains("within 2 min I won't do it");
    assert_eq!(played.questions.iter().filter(is_short).count(), 2);
    assert_eq!(opened.count(), 0);
    assert_eq!(played.log.iter().filter(|line| line.starts_with("close No answer in time")).count(), 2);
}

/// The attack: a deadline that drops a call in the middle of its question. The ledger closes it with the outcome, or the
/// end of the turn.
#[tokio::test(start_paused = true)]
async fn cancelled_calls_question_is_left_to_the_ledger() {
    let (stage, _) = stage_with_a_script(Duration::from_secs(3_000), Duration::from_secs(20));
    let played = stage.play().await;
    assert_eq!(played.answers(1), ["cut offcut off"]);
    let left = |played: &Played| {
        assert!(!played.log.iter().any(|line| line.starts_with("close")), "{:?}", played.log);
        played.questions.iter().filter(|question| question.unanswered == "No longer needed: `vault`").count()
    };
    assert_eq!(left(&played), 2);

    let (mut stage, opened) = stage_with_vault();
    stage.arrives_after(Duration::from_secs(5), waiting(91, "/stop"));
    let played = stage.play().await;
    assert_eq!((left(&played), opened.count()), (1, 0));
}

/// Takes up a turn that a dead process had left with this journal, of whose call each press tells. Returns how it was
/// played, and how long it had run when the call was made.
async fn resumed(tier: SafetyTier, journal: Vec<JournalEntry>, allowed_after: Option<u64>) -> (Played, Vec<Duration>) {
    let mut stage = Stage::with_model(vec![says("Done.")]);
    stage.turn.journal = journal;
    if let Some(after) = allowed_after {
        presses(&mut stage, after, "allow", "owner");
    }
    let (begun, runs) = (Instant::now(), Arc::<Mutex<Vec<Duration>>>::default());
    let ran = Arc::clone(&runs);
    stage.tools.push(tool("vault", tier, move |_| {
        ran.lock().unwrap().push(begun.elapsed());
        async { Ok(ToolOutcome::from_text("the secret")) }
    }));
    let played = stage.play().await;
    let runs = runs.lock().unwrap().clone();
    (played, runs)
}

fn pending() -> JournalEntry {
    JournalEntry::Model {
        steered: vec![],
        text: String::new(),
        calls: vec![recorded("vault", 0)],
        awaiting_decision: vec![0],
        agent: None,
        task: None,
        changing_calls: Some(vec![0]),
    }
}

/// Catches: a call that was waiting for a decision when its process died, and is made when the turn is taken up.
#[tokio::test(start_paused = true)]
async fn a_pending_call_runs_only_once_allowed() {
    let question = format!("ask May I use `vault`? /allow {}", code_of(&recorded("vault", 0)));
    // One that could be repeated without harm was not to be made at all.
    for tier in [SafetyTier::Privileged, SafetyTier::SideEffecting, SafetyTier::ReadOnly] {
        let (played, runs) = resumed(tier, vec![pending()], Some(45)).await;
        let at = |wanted: &str| played.log.iter().position(|line| line == wanted);
        let decided = "journal decision Allowed by `owner`: `vault`";
        let order = [at(&question), at(decided), at("journal outcome 0")];
        assert!(order[0].is_some() && order.is_sorted(), "{tier:?}: {:?}", played.log);
        assert!(matches!(runs.as_slice(), [after] if *after >= Duration::from_secs(45)), "{tier:?}: {runs:?}");
        assert_eq!(played.answers(0), ["the secret"]);

        let (played, runs) = resumed(tier, vec![pending()], None).await;
        assert!(played.log.contains(&question) && runs.is_empty(), "{tier:?}: {:?}\n{runs:?}", played.log);
        assert!(played.answers(0)[0].contains("nobody allowed this call within 10 min"), "{:?}", played.answers(0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_stays_refused_after_a_crash() {
    let refused = JournalEntry::Decided { ordinal: 0, allowed: false, message: InboxId(Uuid::from_u128(7)) };
    let tiers = [SafetyTier::Privileged, SafetyTier::SideEffecting, SafetyTier::ReadOnly];
    for tier in tiers {
        // Whoever presses the other button after that changes nothing.
        let (played, runs) = resumed(tier, vec![pending(), refused.clone()], Some(0)).await;
        assert!(runs.is_empty() && played.answers(0)[0].contains("the person refused this call"), "{runs:?}");
        assert!(!played.log.iter().any(|line| line.starts_with("ask")), "{:?}", played.log);
        assert_eq!(played.completed.steered, [InboxId(Uuid::from_u128(7))]);
    }
}

/// Catches: a journal that doesn't tell which calls wait, so that whoever takes the turn up asks nobody.
#[tokio::test(start_paused = true)]
async fn the_journal_tells_which_calls_need_confirmation() {
    let mut stage = Stage::with_model(vec![calls(&[("look", json!({})), ("vault", json!({}))]), says("Done.")]);
    for (name, tier) in [("look", SafetyTier::ReadOnly), ("vault", SafetyTier::Privileged)] {
        stage.tools.push(tool(name, tier, |_| async { Ok(ToolOutcome::from_text("seen")) }));
    }
    let played = stage.play().await;
    assert!(
        matches!(&played.journal[0], JournalEntry::Model { awaiting_decision, .. } if *awaiting_decision == [1]),
        "{:?}",
        played.journal
    );
}
