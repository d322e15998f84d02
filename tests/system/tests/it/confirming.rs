//! A tool that waits for a person's word on Telegram: whose press counts, how often, and what becomes of the buttons.

use std::time::Duration;

use crate::pairing::Home;

const ANN: i64 = 41;
const BOB: i64 = 42;
const EVE: i64 = 43;

/// Whoever may talk is let in; only Ann owns it.
const SETTINGS: &str = "tools: { confirm: [side_effecting] }\n";

/// Lets somebody in by Ann's button, and returns how many messages Ann has had by then.
async fn let_in(home: &Home, person: i64, before: usize) -> usize {
    home.telegram.person_says(person, person, "hello");
    let (_, question) = home.reads(ANN, before).await;
    home.telegram.person_presses(ANN, question, "Let in");
    home.reads(person, 1).await;
    before + 2
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_asker_or_an_owner_allows_a_tool_and_a_button_counts_once() {
    let home = Home::furnish(ANN, SETTINGS).await;
    let telegram = &home.telegram;
    let known = let_in(&home, BOB, 0).await;
    let_in(&home, EVE, known).await;
    let group = telegram.group("Family", &[ANN, BOB, EVE]);

    // Eve reads along and may talk, but it is Bob who asked.
    telegram.person_says(group, BOB, "write notes.txt: buy milk");
    let (asked, question) = home.reads(group, 0).await;
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
    let closed = |transcript: &satchel_fakes::telegram::TelegramTranscript| {
        let question = transcript.visible(group).find(|message| message.id == question);
        question.is_some_and(|question| question.buttons.is_empty() && question.words.text.contains("Allowed by Bob"))
    };
    assert!(telegram.wait_until(closed).await.is_ok(), "{}", telegram.transcript());
    // Eve's press and Bob's second one are answered as what they are.
    let refused = |text: &&str| text.starts_with("Nothing waits for this word");
    let both =
        telegram.wait_until(|transcript| transcript.texts(group).iter().filter(|text| refused(text)).count() == 2);
    assert!(both.await.is_ok(), "{}", telegram.transcript());
    assert_eq!(telegram.transcript().files(group).len(), 1, "it ran once");

    // An owner decides for others.
    let before = telegram.transcript().visible(group).count();
    telegram.person_says(group, BOB, "write more.txt: and bread");
    let (_, question) = home.reads(group, before).await;
    telegram.person_presses(ANN, question, "Refuse");
    let refused = telegram.wait_until(|transcript| {
        transcript.texts(group).iter().any(|text| text.contains("the person refused this call"))
    });
    assert!(refused.await.is_ok(), "{}", telegram.transcript());
    assert_eq!(telegram.transcript().files(group).len(), 1, "nothing was written");
}
