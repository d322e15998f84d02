//! Messages that turn up late, after the connection of their request was cut.

use std::time::Duration;

use satchel_fake_kit::{Fault, RequestPhase};
use satchel_fake_telegram::TelegramRules;
use serde_json::{Value, json};

use crate::{Bot, png};

const NONE: &str = "400 Bad Request: message to edit not found";
const OURS: &str = "400 Bad Request: there is no live location in the message to edit";

async fn look_up(bot: &Bot, message: i64) -> String {
    bot.refusal("stopMessageLiveLocation", json!({ "chat_id": bot.chat, "message_id": message })).await
}

async fn send(bot: &Bot, text: &str) -> Result<Value, reqwest::Error> {
    bot.answer("sendMessage", json!({ "chat_id": bot.chat, "text": text })).await
}

#[tokio::test]
async fn a_late_message_takes_its_id_on_release() {
    let bot = Bot::start().await;
    let mut performed = bot.fake.on_nth("sendMessage", 1, RequestPhase::Performed);
    bot.fake.script_next("sendMessage", Fault::AcceptOnRelease);
    send(&bot, "late").await.expect_err("its connection is cut");
    assert_eq!(look_up(&bot, 1).await, NONE);
    assert!(performed.try_recv().is_err(), "it is not performed yet");
    let between = bot.fake.person_says(bot.chat, 1001, "hello?");
    assert_eq!(send(&bot, "again").await.expect("an answer")["result"]["message_id"], 2);
    bot.fake.release_requests();
    performed.try_recv().expect("it is performed");
    assert_eq!((between, look_up(&bot, 3).await.as_str()), (1, OURS));
    assert_eq!(bot.fake.transcript().texts(bot.chat), ["again", "late"]);
    bot.fake.release_requests();
    assert_eq!(bot.fake.transcript().texts(bot.chat).len(), 2, "it is performed once");
}

#[tokio::test]
async fn late_requests_are_released_in_their_order() {
    let bot = Bot::start().await;
    bot.fake.script("send*", satchel_fake_kit::FaultTiming::First(2), Fault::AcceptOnRelease);
    let item = json!({ "type": "photo", "media": "attach://p" });
    let form = reqwest::multipart::Form::new()
        .text("chat_id", bot.chat.to_string())
        .text("media", json!([item, item]).to_string())
        .part("p", reqwest::multipart::Part::bytes(png(1, 1, 0)).file_name("p.png"));
    let album = reqwest::Client::new().post(bot.url("sendMediaGroup")).multipart(form).send().await;
    album.expect_err("its connection is cut");
    send(&bot, "after it").await.expect_err("its connection is cut");
    assert!(bot.fake.transcript().messages(bot.chat).is_empty());
    bot.fake.release_requests();
    let transcript = bot.fake.transcript();
    let shown: Vec<_> =
        transcript.messages(bot.chat).iter().map(|message| (message.id, message.album.is_some())).collect();
    assert_eq!(shown, [(1, true), (2, true), (3, false)], "an album that is late is a run of ids all the same");
}

#[tokio::test]
async fn a_late_message_comes_after_its_time() {
    let bot = Bot::start().await;
    bot.fake.clock().pause();
    bot.fake.script_next("sendMessage", Fault::AcceptLate { after_ms: 60_000 });
    send(&bot, "late").await.expect_err("its connection is cut");
    bot.fake.clock().advance(Duration::from_millis(59_999));
    assert_eq!(look_up(&bot, 1).await, NONE);
    bot.fake.clock().advance(Duration::from_millis(1));
    bot.fake.wait_until(|transcript| transcript.texts(bot.chat) == ["late"]).await.expect("it comes");
    assert_eq!(look_up(&bot, 1).await, OURS);
}

#[tokio::test]
async fn late_message_counts_on_request() {
    let bot = Bot::with(TelegramRules::default().paced()).await;
    bot.fake.script("sendMessage", satchel_fake_kit::FaultTiming::First(3), Fault::AcceptOnRelease);
    for _ in 0..3 {
        send(&bot, "late").await.expect_err("its connection is cut");
    }
    let hasty = send(&bot, "at once").await.expect("an answer");
    assert_eq!(hasty["error_code"], 429, "a burst has been asked for: {hasty}");
    bot.fake.release_requests();
    assert_eq!(bot.fake.transcript().texts(bot.chat), ["late"; 3]);
}

#[tokio::test]
async fn what_telegram_refuses_late_nobody_hears_of() {
    let bot = Bot::start().await;
    bot.fake.script_next("sendMessage", Fault::AcceptOnRelease);
    send(&bot, "late").await.expect_err("its connection is cut");
    bot.fake.person_blocks(1001);
    bot.fake.release_requests();
    assert!(bot.fake.transcript().messages(bot.chat).is_empty(), "the bot is blocked by now");
    let gone = tokio::time::timeout(Duration::from_secs(10), send(&bot, "now")).await.expect("an answer");
    assert_eq!(gone.expect("an answer")["error_code"], 403);
}

#[tokio::test]
async fn a_late_twin_is_a_duplicate_until_deleted() {
    let bot = Bot::start().await;
    let group = bot.fake.supergroup("Family", &[1001]);
    let conversation = format!("telegram:{}", bot.chat).parse().expect("a conversation");
    bot.ask("sendMessage", json!({ "chat_id": group, "text": "the reply" })).await;
    bot.fake.script_next("sendMessage", Fault::AcceptOnRelease);
    send(&bot, "the reply").await.expect_err("its connection is cut");
    send(&bot, "the reply").await.expect("sent anew");
    assert!(bot.fake.transcript().shared().duplicates(&conversation).is_empty(), "the same in another chat is none");
    bot.fake.release_requests();
    let duplicates = bot.fake.transcript().shared().duplicates(&conversation);
    assert_eq!(duplicates.iter().map(|twin| twin.message.0.as_str()).collect::<Vec<_>>(), ["2"]);
    bot.here("deleteMessage", json!({ "message_id": 2 })).await.expect("deleted");
    let transcript = bot.fake.transcript();
    assert!(transcript.shared().duplicates(&conversation).is_empty(), "nobody sees it any more");
    let recorded: Vec<_> = transcript.messages(bot.chat).iter().map(|message| message.deleted).collect();
    assert_eq!(recorded, [false, true]);
    assert_eq!(transcript.texts(group), ["the reply"], "an equal id in another chat is left alone");
}
