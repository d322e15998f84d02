//! Topics of a private chat on Telegram: conversations of their own, in which what holds for the person and for their chat holds too.

use satchel_fake_kit::FakeFile;
use satchel_fake_model::{ModelReply, ReplyPiece};
use satchel_fake_telegram::{FileKind, PersonMessage, TelegramMessage, TelegramRules};

use crate::telegram_chat::{ANN, BOB, PAUSE, TelegramChatHarness};

const EVE: i64 = 43;

async fn start(settings: &str, more: &str) -> TelegramChatHarness {
    let satchel = TelegramChatHarness::start(TelegramRules::default(), settings, more).await;
    satchel.telegram.enable_private_topics();
    satchel
}

/// Lets a person say something in a topic of their chat, and waits for an answer there that starts so.
async fn converse(satchel: &TelegramChatHarness, (person, topic): (i64, i64), text: &str, expected: &str) {
    let before = satchel.telegram.transcript().visible(person).count();
    satchel.telegram.person_sends(person, person, PersonMessage::text(text).in_topic(topic));
    let is_answer =
        |message: &TelegramMessage| message.thread == Some(topic) && message.words.text.starts_with(expected);
    satchel.wait_until(expected, |transcript| transcript.visible(person).skip(before).any(is_answer)).await;
}

/// Catches: a reply outside of its topic, a model that reads what was said in another one, and a model that reads of topics that are
/// opened or renamed.
#[tokio::test(flavor = "multi_thread")]
async fn each_topic_has_its_own_history_and_its_replies() {
    let satchel = start("streaming: off", "").await;
    let [cats, dogs] = ["Cats", "Dogs"].map(|name| satchel.telegram.private_topic(BOB, name));
    satchel.model.reply(ModelReply::text("A fine name."));
    converse(&satchel, (BOB, cats), "my cat is called Tom", "A fine name.").await;
    satchel.telegram.rename_private_topic(BOB, cats, "Tom");
    satchel.model.reply(ModelReply::text("You didn't say."));
    converse(&satchel, (BOB, dogs), "who is called Tom?", "You didn't say.").await;
    let read = format!("{:?}", satchel.model.last().turns);
    assert!(!read.contains("my cat is called Tom"), "{read}");
    satchel.model.reply(ModelReply::text("Your cat."));
    converse(&satchel, (BOB, cats), "who is called Tom?", "Your cat.").await;
    let read = format!("{:?}", satchel.model.last().turns);
    assert!(read.contains("my cat is called Tom"), "{read}");
    satchel.model.reply(ModelReply::text("Outside."));
    satchel.telegram.person_says(BOB, BOB, "and here?");
    satchel
        .wait_until("a reply in the chat", |transcript| {
            transcript.visible(BOB).any(|message| message.thread.is_none() && message.words.text == "Outside.")
        })
        .await;
    assert_eq!(satchel.model.requests().len(), 4, "nothing else is for the model");
}

#[tokio::test(flavor = "multi_thread")]
async fn reply_in_a_topic_grows_as_a_draft_there() {
    let satchel = start("streaming: drafts", "").await;
    let topic = satchel.telegram.private_topic(BOB, "Cats");
    satchel.writes_with_pauses(&["The first half", " and the rest."]);
    satchel.telegram.person_sends(BOB, BOB, PersonMessage::text("tell me").in_topic(topic));
    satchel
        .wait_until("a draft in the topic", |transcript| {
            transcript.visible_drafts(BOB).any(|draft| draft.thread == Some(topic))
        })
        .await;
    assert_eq!(satchel.telegram.transcript().visible(BOB).count(), 0);
    satchel.goes_on();
    satchel.wait_for_texts(BOB, &["The first half and the rest."]).await;
    let transcript = satchel.telegram.transcript();
    assert_eq!(transcript.visible(BOB).next().and_then(|message| message.thread), Some(topic), "{transcript}");
    assert_eq!(transcript.visible_drafts(BOB).count(), 0, "{transcript}");
}

/// Catches: a person who leaves their chat's agent in a topic of it, and an owner who owns nothing there.
#[tokio::test(flavor = "multi_thread")]
async fn locked_agent_and_rights_of_an_owner_hold_in_topics() {
    let agents = "agents: [{ id: stories, instructions: You tell stories to children. }]\n";
    let locked = format!("streaming: off, agents: {{ {BOB}: {{ agent: stories, locked: true }} }}");
    let satchel = start(&locked, agents).await;
    let topic = satchel.telegram.private_topic(BOB, "Games");
    converse(&satchel, (BOB, topic), "/agent default", "stories always answers here.").await;
    satchel.model.reply(ModelReply::text("Once upon a time."));
    converse(&satchel, (BOB, topic), "hello", "Once upon a time.").await;
    let system = satchel.model.last().system;
    assert!(system.contains("You tell stories to children."), "{system}");
    converse(&satchel, (BOB, topic), "/pair list", "Only an owner can approve people.").await;
    let owned = satchel.telegram.private_topic(ANN, "House");
    converse(&satchel, (ANN, owned), "/pair list", "No one is waiting for approval").await;
}

/// Catches: a stranger who is told of their code, or of their approval, where they don't look.
#[tokio::test(flavor = "multi_thread")]
async fn stranger_in_a_topic_is_answered_there_and_approved_for_all() {
    let satchel = start("streaming: off", "").await;
    let telegram = &satchel.telegram;
    telegram.private_chat(telegram.person(EVE, "Eve"));
    let topic = telegram.private_topic(EVE, "Cats");
    converse(&satchel, (EVE, topic), "hello", "I don't know you yet.").await;
    let asks = |message: &TelegramMessage| message.buttons.iter().flatten().any(|button| button.label == "Approve");
    satchel.wait_until("a request", |transcript| transcript.visible(ANN).any(asks)).await;
    let question = telegram.transcript().visible(ANN).find(|message| asks(message)).map(|message| message.id);
    telegram.person_presses(ANN, question.expect("it is there"), "Approve");
    let is_welcome =
        |message: &TelegramMessage| message.thread == Some(topic) && message.words.text.starts_with("You're approved");
    satchel.wait_until("a welcome in the topic", |transcript| transcript.visible(EVE).any(is_welcome)).await;
    let other = telegram.private_topic(EVE, "Dogs");
    satchel.model.reply(ModelReply::text("Hi, Eve."));
    converse(&satchel, (EVE, other), "hello", "Hi, Eve.").await;
}

/// Catches: a setting of the person that holds in their chat and not in its topics, and a file or a reminder outside of its topic.
#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_person_hold_and_files_and_reminders_stay_in_the_topic() {
    let satchel = start("streaming: off", "").await;
    let telegram = &satchel.telegram;
    telegram.person_says(BOB, BOB, "/timezone Asia/Tokyo");
    satchel.wait_until("an answer", |transcript| transcript.visible(BOB).count() == 1).await;
    let topic = telegram.private_topic(BOB, "Garden");
    telegram.person_sends(BOB, BOB, PersonMessage::text("/timezone").in_topic(topic));
    let names_zone =
        |message: &TelegramMessage| message.thread == Some(topic) && message.words.text.contains("Asia/Tokyo");
    satchel.wait_until("the time zone", |transcript| transcript.visible(BOB).any(names_zone)).await;

    converse(&satchel, (BOB, topic), "/remind in 1s water the plants", "I'll remind you on").await;
    let reminds =
        |message: &TelegramMessage| message.thread == Some(topic) && message.words.text.starts_with("Reminder: water");
    satchel.wait_until("the reminder", |transcript| transcript.visible(BOB).any(reminds)).await;

    satchel.model.reply(ModelReply::text("Kept."));
    let plan = FakeFile::from_bytes("plan.txt", "text/plain", "beans");
    telegram.person_sends(BOB, BOB, PersonMessage::file(FileKind::Document, plan).caption("keep it").in_topic(topic));
    satchel.wait_until("an answer", |transcript| transcript.texts(BOB).contains(&"Kept.")).await;
    telegram.person_sends(BOB, BOB, PersonMessage::text("/resend 1").in_topic(topic));
    let is_plan = |message: &TelegramMessage| message.thread == Some(topic) && message.file().is_some();
    satchel.wait_until("the file", |transcript| transcript.visible(BOB).any(is_plan)).await;
    converse(&satchel, (BOB, topic), "/forget 1", "Removed #1").await;
}

/// Catches: a reply, or what another program sends, that nobody can read because its topic was deleted.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_for_a_deleted_topic_is_read_in_its_private_chat() {
    let satchel = start("streaming: off", "").await;
    let topic = satchel.telegram.private_topic(BOB, "Cats");
    satchel
        .model
        .reply(ModelReply::pieces([ReplyPiece::Wait(PAUSE), ReplyPiece::Text("Dinner is at seven.".to_owned())]));
    satchel.telegram.person_sends(BOB, BOB, PersonMessage::text("when is dinner?").in_topic(topic));
    satchel.model.wait_until(|requests| !requests.is_empty()).await.expect("the model is asked");
    satchel.telegram.delete_topic(BOB, topic);
    satchel.goes_on();
    satchel.wait_for_texts(BOB, &["Dinner is at seven."]).await;
    let sent = satchel.home.run(&["send", &format!("telegram:{BOB}/{topic}"), "The backup is done."]);
    assert_eq!(sent.exit_code(), Some(0), "{sent:#?}");
    satchel.wait_for_texts(BOB, &["Dinner is at seven.", "The backup is done."]).await;
    let transcript = satchel.telegram.transcript();
    assert!(transcript.visible(BOB).all(|message| message.thread.is_none()), "{transcript}");
}
