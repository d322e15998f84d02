//! Threads, forwards and names on Discord: what the model reads of the message from which a thread was started, what the person
//! reads of a forward that nobody can read, and under which names files come.

use satchel_fake_discord::{DiscordRules, Permission, PersonMessage, Tier};
use satchel_fake_kit::FakeFile;
use serde_json::json;

use crate::day::{
    call_reply,
    discord::{ANN, DiscordChat},
    harness::{DayHarness, TestChat},
    text_reply,
};

const BOB: u64 = 42;

/// Ann's server, and the channel in which both are.
const SERVER: u64 = 1_000;
const FAMILY: u64 = 1_001;

async fn start_harness() -> DayHarness<DiscordChat> {
    let chat = DiscordChat::open(DiscordRules::unpaced()).await;
    chat.discord.person(BOB, "Bob");
    chat.discord.channel(chat.discord.guild(SERVER, "Home", Tier::None), FAMILY, "family");
    let mut harness = DayHarness::new(chat).await;
    harness.start().await;
    harness
}

/// Asks the bot in the harness's channel, and returns what the model is shown.
async fn ask(harness: &DayHarness<DiscordChat>, text: &str, reply: &str) -> String {
    harness.model.reply(text_reply(reply));
    harness.chat.send(&format!("{} {text}", harness.chat.discord.mention()));
    harness.wait_for_text(reply).await;
    harness.last_request()
}

#[tokio::test(flavor = "multi_thread")]
async fn model_reads_once_from_which_message_a_thread_was_started() {
    let mut harness = start_harness().await;
    let table = FakeFile::from_bytes("table.csv", "text/csv", "a;b\n1;2\n");
    let plan = harness.chat.discord.person_sends(FAMILY, ANN, "the plan for May", vec![table]);
    harness.chat.channel = harness.chat.discord.thread_from(ANN, plan, "Plan");
    let shown = ask(&harness, "what is it about?", "About May.").await;
    for expected in ["[in a thread from a message of Ann with table.csv:]", "the plan for May"] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let count = |shown: &str| shown.matches("in a thread from").count();
    let first_count = count(&shown);
    harness.stop().await;
    harness.start().await;
    // The first message of the thread is in the history, and nothing else repeats it.
    let shown = ask(&harness, "and when?", "In May.").await;
    assert_eq!(count(&shown), first_count, "{shown}");
}

/// The attack: somebody who may not talk is read nevertheless, because an owner starts a thread from their message.
#[tokio::test(flavor = "multi_thread")]
async fn thread_from_a_strangers_message_brings_nothing_of_theirs() {
    let mut harness = start_harness().await;
    let file = FakeFile::from_bytes("secret.txt", "text/plain", "what a stranger sends");
    let secret = harness.chat.discord.person_sends(FAMILY, BOB, "what a stranger writes", vec![file]);
    harness.chat.channel = harness.chat.discord.thread_from(ANN, secret, "Secret");
    let shown = ask(&harness, "what is it about?", "I can't know.").await;
    assert!(shown.contains("[in a thread from a message of somebody who may not talk to you]"), "{shown}");
    for theirs in ["what a stranger", "secret.txt", "Bob"] {
        assert!(!shown.contains(theirs), "{theirs}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn person_reads_that_a_forwarded_message_can_not_be_read() {
    let harness = start_harness().await;
    let said = harness.chat.discord.person_says(FAMILY, BOB, "unseen");
    harness.chat.discord.forbid(FAMILY, Permission::View);
    harness.model.reply(text_reply("Nothing came."));
    harness.chat.discord.person_composes(harness.chat.channel, ANN, PersonMessage::forwarding_unseen(said));
    harness.wait_for_text("I couldn't accept `forwarded message`: Discord doesn't show me what it says").await;
    let shown = harness.last_request();
    assert!(shown.contains("[forwarded from somebody]") && shown.contains("Not taken"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_begin_with_signs_arrive_as_they_are() {
    let harness = start_harness().await;
    let files = [".env", "__init__.py", "_draft_.txt"].map(|name| FakeFile::from_bytes(name, "text/plain", name));
    for file in &files {
        harness.write_file(file).await;
    }
    let paths: Vec<String> = files.iter().map(|file| format!("/shared/{}", file.filename)).collect();
    harness.model.reply(call_reply("all", &[("attachment_add", json!({ "paths": paths }))]));
    harness.model.reply(text_reply("Here they are."));
    harness.chat.send("Send me all three.");
    for file in &files {
        harness.wait_for_file(&file.filename, 1).await;
    }
}
