//! Polling: confirmed by offset, filtered by kind, one poller at a time; and downloads.

use std::time::Duration;

use satchel_fake_kit::FakeFile;
use satchel_fake_telegram::{FileKind, PersonMessage};
use serde_json::{Value, json};

use crate::Bot;

fn texts(updates: &Value) -> Vec<&str> {
    let updates = updates.as_array().expect("a list");
    updates.iter().map(|update| update["message"]["text"].as_str().unwrap_or_default()).collect()
}

#[tokio::test]
async fn updates_stay_until_a_higher_offset_confirms_them() {
    let bot = Bot::start().await;
    for text in ["a", "b", "c"] {
        bot.fake.person_says(bot.chat, 1001, text);
    }
    let first = bot.ask("getUpdates", json!({ "limit": 2 })).await;
    assert_eq!(texts(&first), ["a", "b"]);
    let again = bot.ask("getUpdates", json!({ "offset": first[0]["update_id"] })).await;
    assert_eq!(texts(&again), ["a", "b", "c"], "an equal offset confirms nothing");
    let after = first[1]["update_id"].as_i64().expect("a number") + 1;
    assert_eq!(texts(&bot.ask("getUpdates", json!({ "offset": after })).await), ["c"]);
    assert_eq!(bot.fake.unconfirmed_updates(), 1);
    for text in ["d", "e"] {
        bot.fake.person_says(bot.chat, 1001, text);
    }
    assert_eq!(texts(&bot.ask("getUpdates", json!({ "offset": -1 })).await), ["e"]);
    assert_eq!(texts(&bot.ask("getUpdates", json!({})).await), ["e"], "what came before is forgotten");
    for _ in 0..101 {
        bot.fake.person_says(bot.chat, 1001, "f");
    }
    assert_eq!(texts(&bot.ask("getUpdates", json!({ "limit": 1000 })).await).len(), 100);
}

#[tokio::test]
async fn long_poll_returns_update_or_times_out() {
    let bot = Bot::start().await;
    bot.fake.clock().pause();
    let poll = async || {
        let answer = bot.ask("getUpdates", json!({ "timeout": 30 }));
        tokio::time::timeout(Duration::from_secs(10), answer).await.expect("an answer in time")
    };
    let polling = async |number| {
        bot.fake.on_nth("getUpdates", number, satchel_fake_kit::RequestPhase::Arrived).await.expect("it polls");
    };
    let passes = async {
        polling(1).await;
        bot.fake.clock().advance(Duration::from_secs(30));
    };
    let (updates, ()) = tokio::join!(poll(), passes);
    assert_eq!(updates, json!([]));
    let says = async {
        polling(2).await;
        bot.fake.clock().advance(Duration::from_millis(29_999));
        bot.fake.person_says(bot.chat, 1001, "now");
    };
    let (updates, ()) = tokio::join!(poll(), says);
    assert_eq!(texts(&updates), ["now"]);
}

#[tokio::test]
async fn a_second_poller_ends_the_first() {
    let bot = Bot::start().await;
    let others = async {
        loop {
            bot.answer("getUpdates", json!({ "timeout": 0 })).await.expect("an answer");
        }
    };
    let refused = tokio::select! {
        refused = bot.refusal("getUpdates", json!({ "timeout": 30 })) => refused,
        () = others => unreachable!("they poll on"),
    };
    let expected = "409 Conflict: terminated by other getUpdates request; make sure that only one bot instance is \
                    running";
    assert_eq!(refused, expected);
}

#[tokio::test]
async fn only_the_kinds_that_were_asked_for_come() {
    let bot = Bot::start().await;
    bot.ask("getUpdates", json!({ "allowed_updates": ["message"] })).await;
    bot.fake.person_blocks(1001);
    bot.fake.person_unblocks(1001);
    bot.fake.person_says(bot.chat, 1001, "a");
    let updates = bot.ask("getUpdates", json!({})).await;
    assert_eq!(texts(&updates), ["a"], "the last wish stands");
    bot.ask("getUpdates", json!({ "allowed_updates": [], "offset": -1 })).await;
    bot.fake.person_blocks(1001);
    let updates = bot.ask("getUpdates", json!({})).await;
    let changed = &updates[1]["my_chat_member"];
    assert_eq!(
        (&changed["old_chat_member"]["status"], &changed["new_chat_member"]["status"]),
        (&json!("member"), &json!("kicked"))
    );
}

#[tokio::test]
async fn every_documented_request_encoding_is_accepted() {
    let bot = Bot::start().await;
    let client = reqwest::Client::new();
    let query = format!("{}?chat_id={}&text=a%20%26%20b", bot.url("SENDMESSAGE"), bot.chat);
    client.get(query).send().await.expect("an answer");
    let form = format!("chat_id={}&text=c+%C3%A4", bot.chat);
    let urlencoded = client.post(bot.url("SendMessage")).header("content-type", "application/x-www-form-urlencoded");
    urlencoded.body(form).send().await.expect("an answer");
    bot.upload("sendmessage", json!({ "text": "d" }), Vec::new()).await.expect("sent");
    bot.here("sendMessage", json!({ "text": "e" })).await.expect("sent");
    assert_eq!(bot.fake.transcript().texts(bot.chat), ["a & b", "c ä", "d", "e"]);
    let broken = client.post(bot.url("sendMessage")).header("content-type", "application/json").body("{");
    let answer: Value = broken.send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!(answer["description"], "Bad Request: can't parse JSON object");
}

#[tokio::test]
async fn downloads_by_path_are_limited_to_twenty_megabytes() {
    let bot = Bot::start().await;
    let most = 20 * 1024 * 1024;
    let file = |bytes| FakeFile::generated("report.pdf", "application/pdf", 3, bytes);
    for bytes in [most, most + 1] {
        bot.fake.person_sends(bot.chat, 1001, PersonMessage::file(FileKind::Document, file(bytes)));
    }
    let updates = bot.ask("getUpdates", json!({})).await;
    let id = |index: usize| updates[index]["message"]["document"]["file_id"].clone();
    let refused = bot.refusal("getFile", json!({ "file_id": id(1) })).await;
    assert_eq!(refused, "400 Bad Request: file is too big");
    let unknown = bot.refusal("getFile", json!({ "file_id": "x" })).await;
    assert_eq!(unknown, "400 Bad Request: wrong file_id or the file is temporarily unavailable");

    let found = bot.ask("getFile", json!({ "file_id": id(0) })).await;
    let path = found["file_path"].as_str().expect("a path").to_owned();
    assert!(path.starts_with("documents/file_") && path.ends_with(".pdf"), "{path}");
    let url = |token: &str, path: &str| format!("{}/file/bot{token}/{path}", bot.fake.api_url());
    for path in [path.clone(), path.replace('/', "%2F")] {
        let bytes = reqwest::get(url(bot.fake.token(), &path)).await.expect("an answer").bytes().await.expect("bytes");
        assert_eq!(FakeFile::from_bytes("a", "b", bytes).sha256(), file(most).sha256());
    }
    for (token, path) in [("1:wrong", path.as_str()), (bot.fake.token(), "documents/file_99")] {
        assert_eq!(reqwest::get(url(token, path)).await.expect("an answer").status(), 404);
    }
    bot.fake.expire_files();
    assert_eq!(reqwest::get(url(bot.fake.token(), &path)).await.expect("an answer").status(), 404);
}
