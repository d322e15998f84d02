//! Doubt on a channel that tells of each message id whether it is ours.

use super::*;

/// A lane on Telegram, where look-ups find this.
fn looked_up(parts: Vec<Part>, answers: Vec<Answer>, lookups: Vec<LookupOutcome>) -> DeliveryHarness {
    DeliveryHarness { capabilities: tables::telegram(), lookups, ..DeliveryHarness::new(parts, answers) }
}

fn found(messages: &[&str], duplicates: &[&str]) -> LookupOutcome {
    let refs = |ids: &[&str]| ids.iter().map(|id| MessageRef((*id).to_owned())).collect();
    LookupOutcome::Found { messages: refs(messages), duplicates: refs(duplicates) }
}

const DOUBTED: [&str; 5] = ["save sending", "send hello", "save in_doubt", "probe ok", "look up"];

#[tokio::test(start_paused = true)]
async fn a_part_that_is_found_is_settled_unlabelled() {
    let stage = looked_up(vec![text(1)], vec![in_doubt()], vec![found(&["m7"], &[])]);
    let ends = Arc::clone(&stage.ends);
    assert_eq!(stage.log().await, [&DOUBTED[..], &["settle sent"]].concat());
    assert_eq!(*ends.lock().unwrap(), [PartState::Sent { messages: vec![MessageRef("m7".into())] }]);
}

#[tokio::test(start_paused = true)]
async fn found_streamed_text_is_completed_by_edit() {
    let streamed = Part { streamed: true, ..text(1) };
    let log = looked_up(vec![streamed], vec![in_doubt(), sent()], vec![found(&["m7"], &[])]).log().await;
    assert_eq!(log, [&DOUBTED[..], &["save sending", "edit m7", "settle sent"]].concat());
}

#[tokio::test(start_paused = true)]
async fn absent_part_is_resent_unlabelled() {
    let absent = || LookupOutcome::Absent;
    let answers = vec![in_doubt(), in_doubt(), in_doubt(), in_doubt(), in_doubt(), sent()];
    let log = looked_up(vec![text(1)], answers, vec![absent(), absent(), absent(), absent(), absent()]).log().await;
    let tries = log.iter().filter(|line| *line == "send hello").count();
    assert_eq!((tries, log.last().unwrap().as_str()), (6, "settle sent"));
    assert!(!log.iter().any(|line| line.contains("labelled")), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn late_duplicate_is_deleted_before_settling() {
    let stage = looked_up(vec![text(1)], vec![in_doubt(), sent()], vec![LookupOutcome::Absent, found(&["m0"], &[])]);
    let repeated = ["save sending", "send hello", "look before m1", "delete m0", "settle sent"];
    assert_eq!(stage.log().await, [&DOUBTED[..], &repeated].concat());
}

#[tokio::test(start_paused = true)]
async fn of_two_that_arrived_the_older_is_deleted() {
    let log = looked_up(vec![text(1)], vec![in_doubt()], vec![found(&["m8"], &["m7"])]).log().await;
    assert_eq!(log, [&DOUBTED[..], &["delete m7", "settle sent"]].concat());
}

#[tokio::test(start_paused = true)]
async fn late_upload_is_deleted_after_ten_minutes() {
    let document = part(1, PartContent::File(FileItem { form: FileForm::Document, ..photo(1) }));
    let nothing = LookupOutcome::Absent;
    let lookups = vec![LookupOutcome::Absent, nothing, found(&["m9"], &[])];
    let stage = looked_up(vec![document], vec![in_doubt(), sent()], lookups);
    let started = tokio::time::Instant::now();
    let (log, left) = stage.play_longer(DeliveryStart::TakenOver, Duration::from_secs(11 * 60)).await;
    assert_eq!(left.unwrap(), DriverEnd::Released);
    assert_eq!(log[log.len() - 4..], ["look before m1", "settle sent", "look behind m1", "delete m9"]);
    assert!(started.elapsed() >= Duration::from_secs(10 * 60));
}

/// Catches: a late duplicate that stays in the chat because its lane was given back, and one that keeps a process from
/// stopping.
#[rstest]
#[case::lane_is_given_back(false, &["look behind m1", "delete m9"])]
#[case::process_stops(true, &[])]
#[tokio::test(start_paused = true)]
async fn late_upload_is_deleted_unless_the_process_stops(#[case] process_stops: bool, #[case] later: &[&str]) {
    let document = part(1, PartContent::File(FileItem { form: FileForm::Document, ..photo(1) }));
    let lookups = vec![LookupOutcome::Absent, LookupOutcome::Absent, found(&["m9"], &[])];
    let stage = looked_up(vec![document], vec![in_doubt(), sent()], lookups);
    let stopped = if process_stops { stage.process_stop.clone() } else { stage.stop.clone() };
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        stopped.cancel();
    });
    let (log, left) = stage.play_longer(DeliveryStart::TakenOver, Duration::from_secs(11 * 60)).await;
    assert_eq!(left.unwrap(), DriverEnd::Released);
    let settled = log.iter().position(|line| line == "settle sent").expect("it is settled");
    assert_eq!(log[settled + 1..], *later);
}

#[rstest]
#[case::uncertain(false, &["look up"])]
#[case::another_doubt(true, &[])]
#[tokio::test(start_paused = true)]
async fn uncertain_look_up_labels_the_resend(#[case] other_doubt: bool, #[case] looked: &[&str]) {
    let stage = DeliveryHarness { other_doubt, ..looked_up(vec![text(1)], vec![in_doubt(), sent()], vec![]) };
    let labelled = ["save waiting labelled", "save sending labelled", "send (possible duplicate) hello", "settle sent"];
    assert_eq!(stage.log().await, [&DOUBTED[..4], looked, &labelled].concat());
}
