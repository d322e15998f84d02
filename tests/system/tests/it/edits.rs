//! Edits on Telegram: those in which nothing changed, and those of commands.

use satchel_fake_kit::FakeFile;
use satchel_fake_telegram::{FileKind, PersonMessage};

use crate::pairing::PairingHarness;

const ANN: i64 = 41;

/// What a person reads whose edit gives a command.
const NOT_RUN: &str = "I don't run edited commands, so I did nothing. Please send it again as a new message.";

/// A document whose bytes depend on its number.
fn document(number: u64) -> PersonMessage {
    let file = FakeFile::generated(format!("{number}.bin"), "application/octet-stream", number, 2_000);
    PersonMessage::file(FileKind::Document, file)
}

/// Catches: a first reaction or a member's tag, which Telegram reports as an edit, and that is answered or runs a command again.
#[tokio::test(flavor = "multi_thread")]
async fn update_in_which_nothing_changed_is_no_message() {
    let harness = PairingHarness::start(ANN, "").await;
    let telegram = &harness.telegram;
    let group = telegram.supergroup("Family", &[ANN, 42]);
    let (_, name) = telegram.bot();

    let mut private = vec![telegram.person_says(ANN, ANN, "ping phantom")];
    harness.wait_for_message(ANN, 0).await;
    private.push(telegram.person_says(ANN, ANN, "/remind in 2h water the plants"));
    harness.wait_for_message(ANN, 1).await;
    private.push(telegram.person_sends(ANN, ANN, document(1).caption("keep this")));
    harness.wait_for_message(ANN, 2).await;
    private.extend(telegram.person_sends_album(ANN, ANN, vec![document(2).caption("and these"), document(3)]));
    harness.wait_for_message(ANN, 3).await;

    let mut shared = vec![telegram.person_says(group, ANN, &format!("@{name} meet at five"))];
    harness.wait_for_message(group, 0).await;
    let reply = PersonMessage::text(&format!("@{name} is that right?")).replying_to(shared[0]);
    shared.push(telegram.person_sends(group, ANN, reply));
    harness.wait_for_message(group, 1).await;
    // What the reply quotes is another text from then on.
    telegram.person_edits(group, ANN, shared[0], &format!("@{name} meet at six"));
    harness.wait_for_message(group, 2).await;
    shared.push(telegram.person_says(group, ANN, &format!("/files@{name}")));
    harness.wait_for_message(group, 3).await;

    for &message in &private {
        telegram.person_reacts(ANN, message);
    }
    for &message in &shared {
        telegram.person_reacts(group, message);
        telegram.tag_member(group, ANN, "Cook", message);
    }
    // A conversation's messages are answered in their order.
    telegram.person_says(ANN, ANN, "/schedules");
    let (listed, _) = harness.wait_for_message(ANN, 4).await;
    assert_eq!(listed.matches("water the plants").count(), 1, "{listed}");
    telegram.person_says(group, ANN, "/usage");
    let (last, _) = harness.wait_for_message(group, 4).await;
    assert!(last.starts_with("Here: "), "{}", telegram.transcript());
}

/// Catches: a command that an edit runs once more, or for the first time, and a person who believes that their edit counts.
#[tokio::test(flavor = "multi_thread")]
async fn edited_command_is_not_run_and_the_person_is_told() {
    let harness = PairingHarness::start(ANN, "").await;
    let telegram = &harness.telegram;
    let reminder = telegram.person_says(ANN, ANN, "/remind in 2h water the plants");
    assert!(harness.wait_for_message(ANN, 0).await.0.starts_with("I'll remind you on "));
    telegram.person_edits(ANN, ANN, reminder, "/remind in 3h water the plants");
    assert_eq!(harness.wait_for_message(ANN, 1).await.0, NOT_RUN);
    telegram.person_reacts(ANN, reminder);
    telegram.person_edits(ANN, ANN, reminder, "in 3h, please");
    assert_ne!(harness.wait_for_message(ANN, 2).await.0, NOT_RUN, "the model answers other words");

    let greeting = telegram.person_says(ANN, ANN, "hello");
    harness.wait_for_message(ANN, 3).await;
    telegram.person_edits(ANN, ANN, greeting, "/new");
    assert_eq!(harness.wait_for_message(ANN, 4).await.0, NOT_RUN);
    telegram.person_says(ANN, ANN, "/schedules");
    let (listed, _) = harness.wait_for_message(ANN, 5).await;
    assert_eq!(listed.matches("water the plants").count(), 1, "{listed}");

    let group = telegram.supergroup("Family", &[ANN, 42]);
    let (_, name) = telegram.bot();
    let files = telegram.person_says(group, ANN, &format!("/files@{name}"));
    assert!(harness.wait_for_message(group, 0).await.0.starts_with("No files here yet"));
    telegram.person_edits(group, ANN, files, &format!("/new@{name}"));
    assert_eq!(harness.wait_for_message(group, 1).await.0, NOT_RUN);
    telegram.person_edits(group, ANN, files, "/new");
    telegram.person_says(group, ANN, "/files");
    assert!(harness.wait_for_message(group, 2).await.0.starts_with("No files here yet"), "it was the same command");
}
