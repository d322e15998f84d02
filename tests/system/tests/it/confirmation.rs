//! Tool confirmation on Telegram: whose press counts, how often, and when the buttons are removed.

use std::time::Duration;

use crate::pairing::PairingHarness;

const ANN: i64 = 41;
const BOB: i64 = 42;
const EVE: i64 = 43;

/// Strangers need an approval; only Ann is an owner.
const SETTINGS: &str = "tools: { confirm: [side_effecting] }\n";

/// Approves a person with Ann's button, and returns how many messages Ann has received by then.
async fn approve_person(harness: &PairingHarness, person: i64, before: usize) -> usize {
    harness.telegram.person_says(person, person, "hello");
    let (_, question) = harness.wait_for_message(ANN, before).await;
    harness.telegram.person_presses(ANN, question, "Approve");
    harness.wait_for_message(person, 1).await;
    before + 2
}

#[tokio::test(flavor = "multi_thread")]
async fn only_requester_or_owner_approves_tool_once() {
    let harness = PairingHarness::start(ANN, SETTINGS).await;
    let telegram = &harness.telegram;
    let ann_messages = approve_person(&harness, BOB, 0).await;
    approve_person(&harness, EVE, ann_messages).await;
    let group = telegram.group("Family", &[ANN, BOB, EVE]);

    // Eve reads along and may talk, but it is Bob who asked.
    telegram.person_says(group, BOB, "write notes.txt: buy milk");
    let (asked, question) = harness.wait_for_message(group, 0).await;
    assert!(asked.starts_with("May I use file_write?") && asked.contains("path: \"/shared/notes.txt\""), "{asked}");
    telegram.person_presses(EVE, question, "Allow");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let transcript = telegram.transcript();
    let still = transcript.visible(group).find(|message| message.id == question).expect("the question stands");
    assert!(!still.buttons.is_empty() && transcript.files(group).is_empty(), "her word is none:\n{transcript}");
    telegram.person_presses(BOB, question, "Allow");
    telegram.person_presses(BOB, question, "Allow");
    let done = telegram.wait_until(|transcript| transcript.files(group).len() == 1).await;
    assert!(done.is_ok(), "{}", telegram.transcript());
    let closed = |transcript: &satchel_fake_telegram::TelegramTranscript| {
        let question = transcript.visible(group).find(|message| message.id == question);
        question.is_some_and(|question| question.buttons.is_empty() && question.words.text.contains("Allowed by Bob"))
    };
    assert!(telegram.wait_until(closed).await.is_ok(), "{}", telegram.transcript());
    // Eve's press and Bob's second one are answered as what they are.
    let refused = |text: &&str| text.starts_with("There is no open question with that code");
    let both =
        telegram.wait_until(|transcript| transcript.texts(group).iter().filter(|text| refused(text)).count() == 2);
    assert!(both.await.is_ok(), "{}", telegram.transcript());
    assert_eq!(telegram.transcript().files(group).len(), 1, "it ran once");

    // An owner decides for others.
    let before = telegram.transcript().visible(group).count();
    telegram.person_says(group, BOB, "write more.txt: and bread");
    let (_, question) = harness.wait_for_message(group, before).await;
    telegram.person_presses(ANN, question, "Refuse");
    let refused = telegram.wait_until(|transcript| {
        transcript.texts(group).iter().any(|text| text.contains("the person refused this call"))
    });
    assert!(refused.await.is_ok(), "{}", telegram.transcript());
    assert_eq!(telegram.transcript().files(group).len(), 1, "nothing was written");
}

/// The attack: Bob speaks while the owner's turn runs, and what he wants is done, and confirmed, in her name.
#[tokio::test(flavor = "multi_thread")]
async fn other_persons_message_in_a_group_runs_in_their_name() {
    let harness = PairingHarness::start(ANN, SETTINGS).await;
    let telegram = &harness.telegram;
    approve_person(&harness, BOB, 0).await;
    let group = telegram.group("Family", &[ANN, BOB]);
    telegram.person_says(group, ANN, "write notes.txt: buy milk");
    let (_, question) = harness.wait_for_message(group, 0).await;
    telegram.person_says(group, BOB, "write bobs.txt: and bread");
    telegram.person_presses(ANN, question, "Allow");

    // The owner's turn ends with her file, and only then Bob's begins.
    let bobs_question = |transcript: &satchel_fake_telegram::TelegramTranscript| {
        let mut messages = transcript.visible(group);
        let question =
            messages.find(|message| !message.buttons.is_empty() && message.words.text.contains("bobs.txt"))?;
        (transcript.files(group).len() == 1).then_some(question.id)
    };
    let asked = telegram.wait_until(|transcript| bobs_question(transcript).is_some());
    assert!(asked.await.is_ok(), "{}", telegram.transcript());
    let question = bobs_question(&telegram.transcript()).expect("it is open");
    telegram.person_presses(BOB, question, "Allow");
    let allowed = |transcript: &satchel_fake_telegram::TelegramTranscript| {
        let question = transcript.visible(group).find(|message| message.id == question);
        let is_allowed = question.is_some_and(|question| question.words.text.contains("Allowed by Bob"));
        is_allowed && transcript.files(group).len() == 2
    };
    assert!(telegram.wait_until(allowed).await.is_ok(), "{}", telegram.transcript());
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_call_awaits_decision_after_kill() {
    let mut harness = PairingHarness::start(ANN, SETTINGS).await;
    harness.telegram.person_says(ANN, ANN, "write notes.txt: buy milk");
    let (asked, question) = harness.wait_for_message(ANN, 0).await;
    assert!(asked.starts_with("May I use file_write?"), "{asked}");
    for kills in 1..=2 {
        harness.restart_after_kill().await;
        // The resumed turn explains it.
        harness.telegram.person_says(ANN, ANN, "/allow");
        let explanations = |transcript: &satchel_fake_telegram::TelegramTranscript| {
            transcript.texts(ANN).iter().filter(|text| text.contains("answer with /allow CODE or")).count()
        };
        let explained = harness.telegram.wait_until(|transcript| explanations(transcript) == kills).await;
        assert!(explained.is_ok(), "{}", harness.telegram.transcript());
        assert!(
            !harness.has_file("notes.txt") && harness.telegram.transcript().files(ANN).is_empty(),
            "nobody allowed it"
        );
    }
    harness.telegram.person_presses(ANN, question, "Allow");
    let done = harness.telegram.wait_until(|transcript| transcript.files(ANN).len() == 1).await;
    let transcript = harness.telegram.transcript();
    assert!(done.is_ok() && harness.has_file("notes.txt"), "{transcript}");
    let questions = transcript.texts(ANN).iter().filter(|text| text.contains("file_write")).count();
    assert_eq!(questions, 1, "it was asked once:\n{transcript}");
}

/// The question stays open until it is answered, so the explanation must not wait behind it.
#[tokio::test(flavor = "multi_thread")]
async fn missing_code_is_explained_during_open_question() {
    let harness = PairingHarness::start(ANN, SETTINGS).await;
    harness.telegram.person_says(ANN, ANN, "write notes.txt: buy milk");
    let (asked, question) = harness.wait_for_message(ANN, 0).await;
    assert!(asked.starts_with("May I use file_write?"), "{asked}");
    harness.telegram.person_says(ANN, ANN, "/allow");
    let wait_for_text = async |words: &str| {
        let found = |transcript: &satchel_fake_telegram::TelegramTranscript| {
            transcript.texts(ANN).iter().any(|text| text.contains(words))
        };
        assert!(harness.telegram.wait_until(found).await.is_ok(), "{words}\n{}", harness.telegram.transcript());
    };
    wait_for_text("answer with /allow CODE or").await;
    harness.telegram.person_says(ANN, ANN, "/alow");
    wait_for_text("Did you mean /allow?").await;
    assert!(!harness.has_file("notes.txt"), "nobody has allowed it");
    harness.telegram.person_presses(ANN, question, "Allow");
    let done = harness.telegram.wait_until(|transcript| transcript.files(ANN).len() == 1).await;
    assert!(done.is_ok() && harness.has_file("notes.txt"), "{}", harness.telegram.transcript());
}

/// The attack: whoever may not talk here edits what was passed over, or presses a button that others are asked with;
/// and whoever might decide about a call is revoked before they do.
#[tokio::test(flavor = "multi_thread")]
async fn telegram_ignores_edits_and_presses_of_strangers() {
    const SECRET: &str = "what a stranger writes";
    let harness = PairingHarness::start(ANN, SETTINGS).await;
    let telegram = &harness.telegram;
    approve_person(&harness, BOB, 0).await;
    let group = telegram.group("Family", &[ANN, BOB, EVE]);
    telegram.person_says(group, BOB, "write notes.txt: buy milk");
    let (asked, question) = harness.wait_for_message(group, 0).await;
    assert!(asked.starts_with("May I use file_write?"), "{asked}");

    let passed_over = telegram.person_says(group, EVE, "/help");
    telegram.person_edits(group, EVE, passed_over, &format!("/help {SECRET}"));
    telegram.person_presses(EVE, question, "Allow");
    let revoked = harness.run_command(&["pair", "revoke", "telegram"], BOB.to_string()).await;
    assert_eq!(revoked.stdout, "revoked: 42 on telegram\n", "{revoked:?}");
    telegram.person_presses(BOB, question, "Allow");
    telegram.person_presses(ANN, question, "Refuse");
    let refusal = |text: &&str| text.contains("the person refused this call");
    let refused = telegram.wait_until(|transcript| transcript.texts(group).iter().any(refusal)).await;
    assert!(refused.is_ok(), "{}", telegram.transcript());

    // A conversation's messages are answered in their order, so that nothing else can come any more.
    telegram.person_says(group, ANN, "/files");
    let last = |text: &&str| text.starts_with("No files here yet");
    let answered = telegram.wait_until(|transcript| transcript.texts(group).iter().any(last)).await;
    let transcript = telegram.transcript();
    assert!(answered.is_ok() && transcript.visible(group).count() == 3, "{transcript}");
    assert!(transcript.files(group).is_empty() && !harness.has_file("notes.txt"), "{transcript}");
    assert!(!harness.has_text(SECRET), "nothing of hers is kept");
}
