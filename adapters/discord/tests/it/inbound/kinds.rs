//! What people write, in guilds, threads and direct channels, each kind of it.

use satchel_domain::MessageRef;
use satchel_fake_discord::PersonMessage;
use satchel_fake_kit::FakeFile;

use super::bench::{ANN, BOB, GENERAL, GUILD, OTHER, Taker, bot_says, start, take};

fn pdf(name: &str) -> FakeFile {
    FakeFile::from_bytes(name, "application/pdf", "%PDF-1.7 the plan")
}

#[tokio::test]
async fn addressed_messages_are_received_from_everywhere() {
    let bench = start().await;
    let (fake, taker) = (&bench.fake, Taker::new());
    let thread = fake.thread(OTHER, 9_210, "a thread");
    let listening = bench.connected(&taker).await;
    fake.person_says(bench.direct, ANN, "directly");
    take(&taker, 1).await;
    let asked = fake.person_says(GENERAL, BOB, &format!("{}, by name", fake.mention()));
    take(&taker, 2).await;
    fake.person_says(GENERAL, BOB, &format!("by role {}", fake.role_mention(GUILD)));
    take(&taker, 3).await;
    fake.person_says(OTHER, ANN, "where it answers everything");
    take(&taker, 4).await;
    fake.person_says(thread, ANN, "in a thread of that");
    let taken = take(&taker, 5).await;
    listening.stop().await;
    assert_eq!(taker.texts(), ["directly", "by name", "by role", "where it answers everything", "in a thread of that"]);
    let places: Vec<(String, bool)> =
        taken.iter().map(|message| (message.conversation.key().to_owned(), message.group)).collect();
    let place = |channel: u64, group: bool| (channel.to_string(), group);
    assert_eq!(
        places,
        [
            place(bench.direct, false),
            place(GENERAL, true),
            place(GENERAL, true),
            place(OTHER, true),
            place(thread, true)
        ]
    );
    assert_eq!(
        (taken[1].key.clone(), taken[1].message.clone()),
        (asked.to_string(), Some(MessageRef(asked.to_string())))
    );
    assert_eq!((taken[1].sender.id.as_str(), taken[1].sender.name.as_str()), ("43", "Bob"));
    assert_eq!(taken[1].raw["content"], format!("{}, by name", fake.mention()), "kept as it came");
}

#[tokio::test]
async fn what_is_not_for_us_is_passed_over() {
    let bench = start().await;
    let (fake, taker) = (&bench.fake, Taker::new());
    let elsewhere = fake.thread(GENERAL, 9_210, "a thread");
    let listening = bench.connected(&taker).await;
    let said = fake.person_says(GENERAL, ANN, "hello Bob");
    fake.person_replies(GENERAL, BOB, said, "hello Ann");
    fake.person_says(GENERAL, ANN, &format!("<@{BOB}> look"));
    fake.person_says(GENERAL, ANN, "@everyone look");
    fake.person_says(elsewhere, ANN, "nobody asks the bot");
    bot_says(&bench, OTHER, "I say this myself", &[]).await;
    fake.person_says(GENERAL, ANN, &format!("{} the last", fake.mention()));
    take(&taker, 1).await;
    fake.person_says(OTHER, ANN, "here too");
    take(&taker, 2).await;
    listening.stop().await;
    assert_eq!(taker.texts(), ["the last", "here too"]);
    assert_eq!(taker.unreadable(), []);
}

#[tokio::test]
async fn an_answer_brings_what_it_answers() {
    let bench = start().await;
    let (fake, taker) = (&bench.fake, Taker::new());
    let listening = bench.connected(&taker).await;
    let plan = fake.person_sends(GENERAL, BOB, "my plan", vec![pdf("plan.pdf")]);
    fake.person_replies(GENERAL, ANN, plan, &format!("{} print it", fake.mention()));
    let taken = take(&taker, 1).await;
    assert_eq!(taken[0].text, "[in reply to a message of Bob with plan.pdf:]\n> my plan\n\nprint it");
    assert_eq!(taken[0].files.len(), 1);
    let question = bot_says(&bench, GENERAL, "Shall I?", &[]).await;
    let silently = PersonMessage::text("yes").replying_silently_to(question);
    fake.person_composes(GENERAL, ANN, silently);
    assert_eq!(take(&taker, 2).await[1].text, "[in reply to your own message:]\n> Shall I?\n\nyes");
    listening.stop().await;
}

#[tokio::test]
async fn what_is_passed_on_brings_its_files() {
    let bench = start().await;
    let (fake, taker) = (&bench.fake, Taker::new());
    let listening = bench.connected(&taker).await;
    let plan = fake.person_sends(GENERAL, BOB, &format!("my plan, <@{ANN}>"), vec![pdf("plan.pdf")]);
    fake.person_forwards(bench.direct, ANN, plan);
    let taken = take(&taker, 1).await;
    listening.stop().await;
    assert_eq!(taken[0].text, "[forwarded from somebody:]\n> my plan, @Ann");
    assert_eq!(taken[0].files[0].filename.as_str(), "plan.pdf");
}

#[tokio::test]
async fn files_keep_names_and_voice_notes_are_marked() {
    let bench = start().await;
    let (fake, taker) = (&bench.fake, Taker::new());
    let listening = bench.connected(&taker).await;
    let files = vec![pdf("план [1].pdf"), pdf("plan.pdf"), pdf("plan.pdf")];
    fake.person_sends(bench.direct, ANN, "three files", files);
    take(&taker, 1).await;
    let speech = FakeFile::from_bytes("voice-message.ogg", "audio/ogg", "OggS");
    fake.person_composes(bench.direct, ANN, PersonMessage::voice(speech, 1.5));
    take(&taker, 2).await;
    fake.person_composes(bench.direct, ANN, PersonMessage::default().with_sticker("Wave"));
    let taken = take(&taker, 3).await;
    listening.stop().await;
    let names: Vec<&str> = taken[0].files.iter().map(|file| file.filename.as_str()).collect();
    assert_eq!(names, ["план [1].pdf", "plan.pdf", "plan.pdf"]);
    assert_eq!((taken[0].files[1].mime.as_deref(), taken[0].files[1].bytes), (Some("application/pdf"), Some(17)));
    assert!(!taken[0].files[0].voice_note && taken[1].files[0].voice_note);
    assert_eq!(taken[2].text, "[sticker: Wave]");
}

#[tokio::test]
async fn edit_is_received_but_link_preview_is_not() {
    let bench = start().await;
    let (fake, taker) = (&bench.fake, Taker::new());
    let listening = bench.connected(&taker).await;
    let said = fake.person_says(bench.direct, ANN, "see https://example.org/");
    fake.resolves_embeds(said);
    fake.person_edits(bench.direct, ANN, said, "see https://example.org/ please");
    fake.resolves_embeds(said);
    let taken = take(&taker, 2).await;
    fake.person_says(bench.direct, ANN, "thanks");
    take(&taker, 3).await;
    listening.stop().await;
    assert_eq!(taken[1].text, "see https://example.org/ please");
    assert_eq!(taken[1].edit_of, Some(said.to_string()));
    assert!(taken[1].key.starts_with(&format!("{said}:")), "{}", taken[1].key);
}
