//! Private chats, of which Discord shows no list: each that was ever heard of is read when a session could not go on.

use std::{sync::Arc, time::Duration};

use satchel_domain::{PartContent, PartId, TurnId};
use satchel_fake_kit::FakeFile;
use satchel_ports::{Channel, SendRequest};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    gateway::bench::{ANN, BOB, Bench, Listening, Taker, until},
    inbound::bench::bot_says,
};

/// Stops, loses the session, and lets a person send a photo in a private chat meanwhile. It must be found then.
async fn a_photo_is_found(bench: &Bench, taker: &Taker, listening: Listening, channel: u64, person: u64) {
    let is_kept = |list: &Value| list.as_array().is_some_and(|list| list.contains(&json!(channel.to_string())));
    taker.keeps("the chat", |kept| is_kept(&kept["direct"]) || is_kept(&kept["strangers"])).await;
    listening.stop().await;
    bench.fake.gateway().wait_connected(0).await.expect("it has heard that we left");
    bench.fake.gateway().expire_sessions();
    taker.let_in(person);
    let photo = FakeFile::generated("photo.bin", "application/octet-stream", 7, 1_000);
    bench.fake.person_sends(channel, person, "look", vec![photo]);
    let next = taker.of_the_next_process();
    let listening = bench.connected(&next).await;
    until("what was sent is found", || next.texts().contains(&"look".to_owned())).await;
    let last = next.taken().pop().expect("something was found");
    let files: Vec<_> = last.files.iter().map(|file| file.filename.as_str()).collect();
    assert_eq!((last.text.as_str(), files), ("look", vec!["photo.bin"]));
    listening.stop().await;
}

#[tokio::test]
async fn chat_with_only_a_command_is_backfilled() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    until("the command is offered", || !bench.fake.commands().is_empty()).await;
    bench.fake.person_commands(bench.direct, ANN, "files", &[]);
    taker.takes(1).await;
    a_photo_is_found(&bench, &taker, listening, bench.direct, ANN).await;
}

#[tokio::test]
async fn chat_with_only_a_button_press_is_backfilled() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    let question = bot_says(&bench, bench.direct, "May I?", &["/files"]).await;
    bench.fake.person_presses(ANN, question, "/files");
    taker.takes(1).await;
    a_photo_is_found(&bench, &taker, listening, bench.direct, ANN).await;
}

#[tokio::test]
async fn chat_with_only_an_undecodable_event_is_backfilled() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    let ann = json!({ "id": ANN.to_string(), "username": "ann" });
    let odd = json!({ "id": "7", "channel_id": bench.direct.to_string(), "author": ann, "content": 7 });
    bench.fake.dispatch("MESSAGE_CREATE", odd);
    until("it is kept", || taker.unreadable().len() == 1).await;
    a_photo_is_found(&bench, &taker, listening, bench.direct, ANN).await;
}

#[tokio::test]
async fn chat_of_newly_approved_person_is_backfilled() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    taker.refuse(BOB);
    let direct = bench.fake.direct(BOB);
    let listening = bench.connected(&taker).await;
    bench.fake.person_says(direct, BOB, "hello");
    a_photo_is_found(&bench, &taker, listening, direct, BOB).await;
}

fn to_bob() -> SendRequest {
    SendRequest {
        part_id: PartId(Uuid::now_v7()),
        turn: TurnId(Uuid::from_u128(1)),
        conversation: format!("discord:@{BOB}").parse().expect("it is a person's"),
        content: PartContent::from_text("Good morning"),
        reply_to: None,
    }
}

#[tokio::test]
async fn a_chat_that_satchel_has_opened_is_read() {
    let bench = Bench::start().await;
    let taker = Taker::new();
    let channel = bench.channel();
    let listening = Listening::begin(bench.listener_of(Arc::clone(&channel)), &taker);
    taker.keeps("the session", |kept| kept["session_id"].is_string()).await;
    channel.send(&to_bob()).await.expect("Bob takes messages");
    a_photo_is_found(&bench, &taker, listening, bench.fake.direct(BOB), BOB).await;
}

#[tokio::test]
async fn chat_opened_by_bot_is_saved_at_once() {
    let mut bench = Bench::start().await;
    bench.waits.checkpoint_interval = Duration::from_secs(600);
    let taker = Taker::new();
    let channel = bench.channel();
    let listening = Listening::begin(bench.listener_of(Arc::clone(&channel)), &taker);
    taker.keeps("the session", |kept| kept["session_id"].is_string()).await;
    channel.send(&to_bob()).await.expect("Bob takes messages");
    let chat = json!([bench.fake.direct(BOB).to_string()]);
    taker.keeps("the chat", |kept| kept["direct"] == chat).await;
    listening.kill().await;
}
