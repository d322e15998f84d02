//! Scripts and prompts whose time comes, as people on Telegram get what they yield.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::day::{
    house::{Chat, House},
    says,
    telegram::OnTelegram,
};

/// The expression of the one second of the day that is so far ahead.
fn in_seconds(ahead: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970") + Duration::from_secs(ahead);
    let of_day = now.as_secs() % 86_400;
    format!("{} {} {} * * *", of_day % 60, of_day / 60 % 60, of_day / 3_600)
}

/// A schedule for Ann's chat that is due once, while the test runs.
fn schedule(name: &str, what: &str) -> String {
    let cron = in_seconds(7);
    format!("schedules: {{ {name}: {{ cron: '{cron}', timezone: UTC, conversation: 'telegram:41', {what} }} }}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_script_delivers_files_and_text_without_model() {
    let script = r#"script: "attachment_create(content='all is well', filename='morning.txt')\nreturn 'Good morning'""#;
    let mut home = House::furnish_with(OnTelegram::open().await, &schedule("morning", script)).await;
    home.start().await;
    home.hears("Good morning").await;
    home.gets("morning.txt", 1).await;
    assert_eq!(home.chat.texts(), ["Good morning"], "the value alone");
    assert_eq!(home.model.requests().len(), 0);
    home.stops().await;
    home.start().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(home.chat.files().len(), 1, "a time comes once");
}

#[tokio::test(flavor = "multi_thread")]
async fn waking_script_starts_model_turn_with_context() {
    let script = r#"script: "wake_llm({'disk': 'full'})""#;
    let mut home = House::furnish_with(OnTelegram::open().await, &schedule("watch", script)).await;
    home.model.reply(says("The disk is full; shall I clean up?"));
    home.start().await;
    home.hears("shall I clean up").await;
    let asked = home.last_asked();
    assert!(asked.contains("disk") && asked.contains("include_event") && asked.contains("schedule"), "{asked}");
    assert!(asked.contains("No person wrote this message"), "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn due_prompt_is_answered_by_model() {
    let what = "prompt: 'Say good night'";
    let mut home = House::furnish_with(OnTelegram::open().await, &schedule("evening", what)).await;
    home.model.reply(says("Sleep well!"));
    home.start().await;
    home.hears("Sleep well!").await;
    assert!(home.last_asked().contains("Say good night"));
}
