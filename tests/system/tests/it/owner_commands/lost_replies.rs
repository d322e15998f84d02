//! Replies that Telegram refuses: what people read of them on Telegram, and what the model reads on its wire.

use std::{fs, time::Duration};

use satchel_fake_model::{FakeModelServer, ModelReply, ReplyPiece};
use satchel_fake_telegram::{FakeTelegram, PersonMessage, TelegramRules};
use satchel_system::real_binary::TestHome;
use satchel_wait::wait_until_async;

use super::{retries::home_with_model, server_process::ServerProcess};

/// The person's id, which is also that of their chat.
const BOB: i64 = 42;

/// How long the model writes, by its own clock.
const WRITING_TIME: Duration = Duration::from_secs(600);

/// Satchel, to which Bob writes on Telegram.
struct TelegramHome {
    telegram: FakeTelegram,
    model: FakeModelServer,
    home: TestHome,
}

impl TelegramHome {
    async fn new() -> Self {
        let (model, home) = home_with_model().await;
        let telegram = FakeTelegram::start(TelegramRules::default()).await.expect("a loopback port");
        telegram.private_chat(telegram.person(BOB, "Bob"));
        let models = fs::read_to_string(home.work_directory().join("satchel.yaml")).expect("it names the model");
        let (token, url) = (telegram.token(), telegram.api_url());
        home.write_file(
            "satchel.yaml",
            format!(
                "{models}telegram: {{ token: '{token}', api_url: '{url}', allow_users: [{BOB}], groups: ['*'] }}\n\
                 delivery: {{ pace: off }}\n"
            ),
        );
        Self { telegram, model, home }
    }

    /// Lets the model write this reply to Bob's next message, and returns while it writes.
    async fn ask(&self, chat: i64, question: PersonMessage, reply: &str) -> i64 {
        let pieces = [ReplyPiece::Wait(WRITING_TIME), ReplyPiece::Text(reply.to_owned())];
        self.model.reply(ModelReply::pieces(pieces));
        let before = self.model.requests().len();
        let message = self.telegram.person_sends(chat, BOB, question);
        self.model.wait_until(|requests| requests.len() > before).await.expect("the model is asked");
        message
    }

    /// Lets Bob say something, and waits for these messages to be all that he reads.
    async fn converse(&self, question: &str, reply: &str, expected: &[&str]) {
        self.model.reply(ModelReply::text(reply));
        self.telegram.person_says(BOB, BOB, question);
        self.wait_for_texts(BOB, expected).await;
    }

    async fn wait_for_texts(&self, chat: i64, expected: &[&str]) {
        let arrived = self.telegram.wait_until(|transcript| transcript.texts(chat) == expected).await;
        assert!(arrived.is_ok(), "{expected:?} do not arrive:\n{}", self.telegram.transcript());
    }

    /// Waits until so many parts have failed.
    async fn wait_for_failures(&self, count: usize) {
        let has_failed = async || {
            let listed = self.home.run(&["outbox", "list"]).stdout;
            listed.lines().filter(|line| line.contains("failed: ")).count() == count
        };
        wait_until_async("the parts have failed", has_failed).await;
    }
}

/// Catches: a reply and its notice that both vanish, a model that reads that the person knows of it or that a part of the
/// text went, and a notice that never comes or comes twice.
#[tokio::test(flavor = "multi_thread")]
async fn person_reads_of_a_lost_reply_behind_the_next_one() {
    let satchel = TelegramHome::new().await;
    let TelegramHome { telegram, model, home } = &satchel;
    let server = ServerProcess::start(home, &[]);
    let asked = satchel.ask(BOB, PersonMessage::text("when is dinner?"), "Dinner is at seven.").await;
    telegram.person_blocks(BOB);
    model.clock().advance(WRITING_TIME);
    satchel.wait_for_failures(2).await;
    telegram.person_unblocks(BOB);

    let lost =
        "About earlier replies of mine:\n\nThe text could not be sent: not allowed: the person has blocked the bot.";
    satchel.converse("are you there?", "I am here.", &["I am here.", lost]).await;
    let read = model.last().user_text();
    let receipt = "Not delivered from your earlier replies; the person has NOT been told:\n\
                   - the text could not be sent: not allowed: the person has blocked the bot";
    assert!(read.contains(receipt) && !read.contains("the person was told"), "{read}");
    let notice = telegram.transcript().visible(BOB).last().and_then(|message| message.reply_to);
    assert_eq!(notice, Some(asked), "it stands under the question that it is about");

    satchel.converse("thank you", "You're welcome.", &["I am here.", lost, "You're welcome."]).await;
    let read = model.last().user_text();
    assert!(!read.contains("Not delivered"), "{read}");
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
}

/// Catches: a reply to a topic that was deleted meanwhile, or what another program sends there, which nobody can read.
#[tokio::test(flavor = "multi_thread")]
async fn reply_for_a_deleted_topic_is_read_in_its_group() {
    let satchel = TelegramHome::new().await;
    let TelegramHome { telegram, model, home } = &satchel;
    let forum = telegram.forum("Family", &[BOB]);
    let topic = telegram.topic(forum, "Dinner");
    let server = ServerProcess::start(home, &[]);
    let question = PersonMessage::text("when is dinner?").in_topic(topic);
    satchel.ask(forum, question, "Dinner is at seven.").await;
    telegram.delete_topic(forum, topic);
    model.clock().advance(WRITING_TIME);
    satchel.wait_for_texts(forum, &["Dinner is at seven."]).await;
    let sent = home.run(&["send", &format!("telegram:{forum}/{topic}"), "The backup is done."]);
    assert_eq!(sent.exit_code(), Some(0), "{sent:#?}");
    satchel.wait_for_texts(forum, &["Dinner is at seven.", "The backup is done."]).await;
    satchel.wait_for_failures(0).await;
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
}
