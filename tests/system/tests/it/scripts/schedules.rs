//! Scripts and prompts whose time comes, as people on Telegram get what they yield.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::day::{
    harness::{DayHarness, TestChat},
    telegram::TelegramChat,
    text_reply,
};

/// The expression of the one second of the day that is so far ahead.
fn cron_in_seconds(ahead: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970") + Duration::from_secs(ahead);
    let of_day = now.as_secs() % 86_400;
    format!("{} {} {} * * *", of_day % 60, of_day / 60 % 60, of_day / 3_600)
}

/// A schedule for Ann's chat that is due once, while the test runs.
fn schedule_setting(name: &str, action: &str) -> String {
    let cron = cron_in_seconds(7);
    format!("schedules: {{ {name}: {{ cron: '{cron}', timezone: UTC, conversation: 'telegram:41', {action} }} }}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_script_delivers_files_and_text_without_model() {
    let script = r#"script: "attachment_create(content='all is well', filename='morning.txt')\nreturn 'Good morning'""#;
    let mut harness = DayHarness::with_settings(TelegramChat::open().await, &schedule_setting("morning", script)).await;
    harness.start().await;
    harness.wait_for_text("Good morning").await;
    harness.wait_for_file("morning.txt", 1).await;
    assert_eq!(harness.chat.texts(), ["Good morning"], "the value alone");
    assert_eq!(harness.model.requests().len(), 0);
    harness.stop().await;
    harness.start().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(harness.chat.files().len(), 1, "a time comes once");
}

#[tokio::test(flavor = "multi_thread")]
async fn waking_script_starts_model_turn_with_context() {
    let script = r#"script: "wake_llm({'disk': 'full'})""#;
    let mut harness = DayHarness::with_settings(TelegramChat::open().await, &schedule_setting("watch", script)).await;
    harness.model.reply(text_reply("The disk is full; shall I clean up?"));
    harness.start().await;
    harness.wait_for_text("shall I clean up").await;
    let asked = harness.last_request();
    assert!(asked.contains("disk") && asked.contains("include_event") && asked.contains("schedule"), "{asked}");
    assert!(asked.contains("No person wrote this message"), "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn due_prompt_is_answered_by_model() {
    let what = "prompt: 'Say good night'";
    let mut harness = DayHarness::with_settings(TelegramChat::open().await, &schedule_setting("evening", what)).await;
    harness.model.reply(text_reply("Sleep well!"));
    harness.start().await;
    harness.wait_for_text("Sleep well!").await;
    assert!(harness.last_request().contains("Say good night"));
}
