//! A bot's token that is revoked and renewed, as the owner, a relative, another program and the model read it.

use std::{fs, time::Duration};

use satchel_fake_model::{FakeModelServer, ModelReply, ReplyPiece};
use satchel_fake_telegram::{FakeTelegram, TelegramRules};
use satchel_system::real_binary::TestHome;
use satchel_wait::wait_until_async;
use serde_json::Value;

use super::{
    retries::home_with_model,
    server_process::{ServerProcess, get_page},
};

/// The owner's id, and the relative's, which are also those of their chats.
const ANN: i64 = 41;
const BOB: i64 = 42;

const BOBS_CHAT: &str = "telegram:42";

const SECOND_TOKEN: &str = "7654321098:AASecondTelegramTokenCanary_4b1d77cE0Pq";
const THIRD_TOKEN: &str = "7654321098:AAThirdTelegramTokenCanary_91f3ac52Zw";

/// What is said of a channel whose token was revoked.
const REVOKED: &str = "Telegram no longer accepts the bot's token";

/// How long the model writes, by its own clock.
const WRITING_TIME: Duration = Duration::from_secs(600);

/// Ann's Satchel, in which Bob writes on Telegram and Ann on the page.
struct Household {
    telegram: FakeTelegram,
    model: FakeModelServer,
    home: TestHome,
}

impl Household {
    async fn new() -> Self {
        let (model, home) = home_with_model().await;
        let telegram = FakeTelegram::start(TelegramRules::default()).await.expect("a loopback port");
        for (id, name) in [(ANN, "Ann"), (BOB, "Bob")] {
            telegram.private_chat(telegram.person(id, name));
        }
        let token = home.write_file("token", telegram.token());
        let models = fs::read_to_string(home.work_directory().join("satchel.yaml")).expect("it names the model");
        let (token, url) = (token.display(), telegram.api_url());
        home.write_file(
            "satchel.yaml",
            format!(
                "{models}telegram: {{ token_file: '{token}', api_url: '{url}', owners: [{ANN}], allow_users: [{BOB}] }}\n\
                 delivery: {{ pace: off }}\n"
            ),
        );
        Self { telegram, model, home }
    }

    /// Lets Bob say something, and waits for the answer.
    async fn converse(&self, question: &str, reply: &str) {
        self.model.reply(ModelReply::text(reply));
        self.telegram.person_says(BOB, BOB, question);
        self.wait_for_bob(reply).await;
    }

    /// Waits until this is the last message that Bob reads.
    async fn wait_for_bob(&self, expected: &str) {
        let arrived = self.telegram.wait_until(|transcript| transcript.texts(BOB).last() == Some(&expected)).await;
        assert!(arrived.is_ok(), "{expected:?} does not arrive:\n{}", self.telegram.transcript());
    }

    /// Lets another program send Bob something.
    fn notify_bob(&self, text: &str) {
        let sent = self.home.run(&["send", BOBS_CHAT, text]);
        assert_eq!(sent.exit_code(), Some(0), "{sent:#?}");
    }

    /// Gives the bot a new token, which its owner puts into the file.
    fn renew_token(&self, token: &str) {
        self.telegram.accept_token(token);
        self.home.write_file("token", token);
    }
}

/// The notices about the closed channel that Ann reads on the page.
async fn notices(server: &ServerProcess) -> Vec<String> {
    let (_, turns) = server.get("/api/conversations/test/turns").await;
    let turns: Value = serde_json::from_str(&turns).expect("it is JSON");
    let parts = turns["turns"].as_array().into_iter().flatten().filter_map(|turn| turn["parts"].as_array()).flatten();
    let texts = parts.filter(|part| part["state"] == "sent").filter_map(|part| part["text"].as_str());
    texts.filter(|text| text.contains(REVOKED)).map(str::to_owned).collect()
}

async fn wait_for_notices(server: &ServerProcess, count: usize) -> String {
    wait_until_async("the notices on the page", async || notices(server).await.len() >= count).await;
    let mut notices = notices(server).await;
    assert_eq!(notices.len(), count, "{notices:?}");
    notices.pop().unwrap_or_default()
}

/// The state of Satchel and whether its metrics say that Telegram is closed.
async fn readiness(server: &ServerProcess) -> (String, bool) {
    let (status, state) = get_page(&format!("{}/readyz", server.page)).await;
    assert_eq!(status, 200, "{state}");
    let (_, figures) = get_page(&server.metrics).await;
    let figure =
        |value: u8| format!("satchel_channel_closed{{channel=\"telegram\",reason=\"account_refused\"}} {value}");
    let is_closed = figures.lines().any(|line| line == figure(1));
    assert!(is_closed || figures.lines().any(|line| line == figure(0)), "{figures}");
    (state, is_closed)
}

/// Catches: a reply and a notification that are given up because a token was revoked, a process that ends, an owner who
/// isn't told or is told for each call, and a model that believes that people have read what waits.
#[tokio::test(flavor = "multi_thread")]
async fn replies_wait_for_the_next_token_and_arrive_in_order() {
    let household = Household::new().await;
    let Household { telegram, model, home } = &household;
    let mut server = ServerProcess::start(home, &[]);
    household.converse("hello", "Good morning, Bob.").await;
    model.reply(ModelReply::text("Good morning, Ann."));
    server.send_and_wait("hello from the page").await;

    // The token is revoked while the model writes.
    let pieces = [ReplyPiece::Wait(WRITING_TIME), ReplyPiece::Text("Dinner is at seven.".to_owned())];
    model.reply(ModelReply::pieces(pieces));
    telegram.person_says(BOB, BOB, "when is dinner?");
    model.wait_until(|requests| requests.len() == 3).await.expect("the model is asked");
    telegram.revoke_token(telegram.token());
    model.clock().advance(WRITING_TIME);
    server.wait_for_log(REVOKED);
    household.notify_bob("The backup is done.");
    telegram.person_says(BOB, BOB, "thank you");

    // Ann reads it where she can, and everything else goes on.
    let notice = wait_for_notices(&server, 1).await;
    assert!(notice.contains("@BotFather") && notice.contains("which is read again by itself"), "{notice}");
    model.reply(ModelReply::text("I am here."));
    server.send_and_wait("are you there?").await;
    let (state, is_closed) = readiness(&server).await;
    assert!(is_closed && state.contains("telegram is closed for ") && state.contains(REVOKED), "{state}");
    let is_waiting = async || {
        let listed = home.run(&["outbox", "list"]).stdout;
        listed.lines().any(|line| line.contains("waiting: ") && line.contains("Dinner is at seven."))
    };
    wait_until_async("the reply waits in the outbox", is_waiting).await;
    assert_eq!(telegram.transcript().texts(BOB), ["Good morning, Bob."]);

    // With the next token everything arrives, in order and once.
    model.reply(ModelReply::text("You're welcome."));
    household.renew_token(SECOND_TOKEN);
    household.wait_for_bob("You're welcome.").await;
    let expected = ["Good morning, Bob.", "Dinner is at seven.", "The backup is done.", "You're welcome."];
    assert_eq!(telegram.transcript().texts(BOB), expected);
    assert_eq!(readiness(&server).await, ("ready\n".to_owned(), false));
    household.converse("good night", "Sleep well.").await;
    let read = model.last().user_text();
    assert!(read.contains("sent this to the people here, and it arrived") && read.contains("> The backup"), "{read}");
    assert!(model.requests().iter().all(|request| !format!("{request:?}").contains("have read it")));

    // A token that is revoked before a restart is one closure, and what waits survives it.
    telegram.revoke_token(SECOND_TOKEN);
    wait_for_notices(&server, 2).await;
    household.notify_bob("The disk is full.");
    server.send_signal("TERM");
    let output = server.wait_for_exit();
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    assert!(!output.stderr.contains("TokenCanary"), "{output:#?}");
    let mut server = ServerProcess::start(home, &[]);
    server.wait_for_log(REVOKED);
    household.renew_token(THIRD_TOKEN);
    household.wait_for_bob("The disk is full.").await;
    wait_for_notices(&server, 2).await;
    assert_eq!(telegram.transcript().texts(ANN), [""; 0], "she was told on the page");
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
}
