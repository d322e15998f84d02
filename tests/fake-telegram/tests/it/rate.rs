//! Haste: counted always, refused where the rules have a pace.

use std::time::Duration;

use satchel_fake_telegram::{TelegramRates, TelegramRules};
use serde_json::json;

use crate::Bot;

#[tokio::test]
async fn chat_burst_over_limit_is_rate_limited() {
    let bot = Bot::with(TelegramRules::default().paced()).await;
    bot.fake.clock().pause();
    for _ in 0..3 {
        bot.here("sendMessage", json!({ "text": "a" })).await.expect("a burst");
    }
    let late = json!({ "chat_id": bot.chat, "message_id": 1, "text": "b" });
    let refused = bot.answer("editMessageText", late.clone()).await.expect("an answer");
    assert_eq!(refused["error_code"], 429);
    assert_eq!(refused["parameters"]["retry_after"], 1);
    assert_eq!(refused["description"], "Too Many Requests: retry after 1");
    bot.here("sendChatAction", json!({ "action": "typing" })).await.expect("what is no message doesn't count");
    bot.fake.clock().advance(Duration::from_millis(899));
    let early = bot.answer("editMessageText", late.clone()).await.expect("an answer");
    assert_eq!(early["error_code"], 429);
    bot.fake.clock().advance(Duration::from_millis(1));
    bot.ask("editMessageText", late).await;
    assert_eq!(bot.fake.pace().chats[&bot.chat].span, Duration::from_millis(900), "a tenth of a second is forgiven");
    bot.fake.clock().advance(Duration::from_millis(3_100));
    bot.here("sendMessage", json!({ "text": "c" })).await.expect("sent");
    let report = bot.fake.pace();
    assert_eq!((report.accepted, report.refused), (5, 2));
    let chat = report.chats[&bot.chat];
    let share = chat.share(TelegramRates::default());
    assert!((share - 5.0 / 7.0).abs() < 1e-9, "five of what a burst and four seconds allow: {share}");
}

#[tokio::test]
async fn total_and_group_message_rates_are_limited() {
    let bot = Bot::with(TelegramRules::default().paced()).await;
    bot.fake.clock().pause();
    let mut refused = 0;
    for number in 0..40 {
        let chat = bot.fake.private_chat(bot.fake.person(2000 + number, "Somebody"));
        let answer = bot.answer("sendMessage", json!({ "chat_id": chat, "text": "a" })).await.expect("an answer");
        refused += u32::from(answer["error_code"] == 429);
    }
    assert_eq!(refused, 10, "thirty are let through");
    bot.fake.clock().advance(Duration::from_millis(900));
    bot.here("sendMessage", json!({ "text": "a" })).await.expect("the next second has its own thirty");
    let lenient = TelegramRates { chat_burst: 1000, per_second: 1000, ..TelegramRates::default() };
    let bot = Bot::with(TelegramRules { pace: Some(lenient), ..TelegramRules::default() }).await;
    bot.fake.clock().pause();
    let group = bot.fake.group("Family", &[1001]);
    for _ in 0..20 {
        bot.ask("sendMessage", json!({ "chat_id": group, "text": "a" })).await;
    }
    let answer = bot.answer("sendMessage", json!({ "chat_id": group, "text": "a" })).await.expect("an answer");
    assert_eq!(answer["parameters"]["retry_after"], 60);
    bot.here("sendMessage", json!({ "text": "a" })).await.expect("other chats go on");
    bot.fake.clock().advance(Duration::from_secs(30));
    let answer = bot.answer("sendMessage", json!({ "chat_id": group, "text": "a" })).await.expect("an answer");
    assert_eq!(answer["parameters"]["retry_after"], 30);
    bot.fake.clock().advance(Duration::from_secs(30));
    bot.ask("sendMessage", json!({ "chat_id": group, "text": "a" })).await;
}

#[tokio::test]
async fn without_a_pace_haste_is_only_counted() {
    let bot = Bot::start().await;
    for _ in 0..10 {
        bot.here("sendMessage", json!({ "text": "a" })).await.expect("sent");
    }
    assert_eq!((bot.fake.pace().accepted, bot.fake.pace().refused), (10, 0));
}
