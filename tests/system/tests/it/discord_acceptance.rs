//! Acceptance tests for files on Discord: several at once, on the reply or behind it, and downloads into the workspace
//! without a URL.

use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};

use futures::TryStreamExt;
use satchel_fake_discord::{DiscordMessage, DiscordRules};
use satchel_fake_kit::FakeFile;
use satchel_fake_model::{ModelFault, ModelReply};
use serde_json::json;

use crate::day::{
    call_reply,
    discord::{ANN, DiscordChat},
    harness::{DayHarness, TestChat},
    text_reply,
};

type DiscordDayHarness = DayHarness<DiscordChat>;

async fn start_harness() -> DiscordDayHarness {
    let mut harness = DayHarness::new(DiscordChat::open(DiscordRules::unpaced()).await).await;
    harness.start().await;
    harness
}

/// Puts these files where the tools find them, and returns their paths.
async fn write_files(harness: &DiscordDayHarness, files: &[FakeFile]) -> Vec<String> {
    for file in files {
        harness.write_file(file).await;
    }
    files.iter().map(|file| format!("/shared/{}", file.filename)).collect()
}

fn photos(count: u64) -> Vec<FakeFile> {
    (1..=count).map(|n| FakeFile::photo(format!("{n}.png"), 64, 48, n, 900)).collect()
}

fn messages(harness: &DiscordDayHarness) -> Vec<DiscordMessage> {
    harness.chat.discord.transcript().visible(harness.chat.channel).cloned().collect()
}

fn filenames(message: &DiscordMessage) -> Vec<&str> {
    message.files.iter().map(|file| file.filename.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_added_by_tool_join_first_message() {
    let harness = start_harness().await;
    let files = [FakeFile::photo("a.png", 64, 48, 1, 900), FakeFile::photo("b.png", 64, 48, 2, 900)];
    let paths = write_files(&harness, &files).await;
    harness.model.reply(call_reply("both", &[("attachment_add", json!({ "paths": paths }))]));
    harness.model.reply(text_reply("Here they are."));
    harness.chat.send("Send me both.");
    harness.wait_for_file("b.png", 1).await;
    let [message] = messages(&harness).try_into().expect("one message");
    assert_eq!((message.content.as_str(), filenames(&message)), ("Here they are.", vec!["a.png", "b.png"]));
    assert!(message.files.iter().zip(&files).all(|(came, file)| came.sha256 == file.sha256()));
}

#[tokio::test(flavor = "multi_thread")]
async fn excess_files_follow_text_in_replies_of_ten() {
    let harness = start_harness().await;
    let paths = write_files(&harness, &photos(12)).await;
    harness.model.reply(call_reply("all", &[("attachment_add", json!({ "paths": paths }))]));
    harness.model.reply(text_reply(&"Each of them was taken in the mountains.\n\n".repeat(60)));
    let asked = harness.chat.discord.person_says(harness.chat.channel, ANN, "Send me all of them, and say a lot.");
    harness.wait_for_file("12.png", 1).await;
    let [first, second, ten, two] = messages(&harness).try_into().expect("two texts and two messages with files");
    assert_eq!((first.reply_to, second.reply_to), (Some(asked), None));
    assert_eq!((ten.files.len(), ten.reply_to), (10, Some(second.id)));
    assert_eq!((two.files.len(), two.reply_to), (2, Some(ten.id)));
    let received: Vec<_> = harness.chat.files().into_iter().map(|(name, _)| name).collect();
    assert_eq!(received, (1..=12).map(|n| format!("{n}.png")).collect::<Vec<_>>(), "in their order");
}

#[tokio::test(flavor = "multi_thread")]
async fn reply_with_only_files_arrives() {
    let harness = start_harness().await;
    let paths = write_files(&harness, &photos(1)).await;
    harness.model.reply(call_reply("photo", &[("attachment_add", json!({ "paths": paths }))]));
    harness.model.reply(text_reply(""));
    harness.chat.send("The photo, no words.");
    harness.wait_for_file("1.png", 1).await;
    let [message] = messages(&harness).try_into().expect("one message");
    assert_eq!((message.content.as_str(), filenames(&message)), ("", vec!["1.png"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_turn_sends_collected_files() {
    let harness = start_harness().await;
    let paths = write_files(&harness, &photos(2)).await;
    harness.model.reply(call_reply("photos", &[("attachment_add", json!({ "paths": paths }))]));
    harness.model.reply(ModelReply::fault(ModelFault::Hang));
    harness.chat.send("The photos, and think about them.");
    harness.wait_until("that the model is asked again", |_| harness.model.requests().len() == 2).await;
    harness.chat.send("/stop");
    harness.wait_for_file("2.png", 1).await;
    let last = messages(&harness).into_iter().find(|message| !message.files.is_empty()).expect("the files came");
    assert_eq!(filenames(&last), ["1.png", "2.png"]);
    assert!(
        harness.chat.texts().iter().any(|text| text.to_lowercase().contains("stopped")),
        "{:?}",
        harness.chat.texts()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn downloads_need_no_url_and_skip_existing_files() {
    let harness = start_harness().await;
    let photo = FakeFile::photo("beach.png", 640, 480, 1, 90_000);
    let table = FakeFile::from_bytes("table.csv", "text/csv", "a;b\n1;2\n");
    harness.model.reply(call_reply("Keep", &[("attachment_download", json!({}))]));
    harness.model.reply(text_reply("Kept."));
    let sent = vec![photo.clone(), table.clone()];
    harness.chat.discord.person_sends(harness.chat.channel, ANN, "Keep these.", sent);
    harness.wait_for_text("Kept.").await;
    let answer = harness.last_request();
    for file in [&photo, &table] {
        let sha10 = &file.sha256().to_string()[..10];
        assert!(answer.contains(sha10) && answer.contains(&file.filename), "{answer}");
    }
    assert!(answer.contains("/attachments/") && !answer.contains("hm="), "links are shown without their signature");
    let paths: Vec<PathBuf> = harness.list_files("Downloads");
    let mut kept: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).expect("a file")).collect();
    let mut expected = Vec::new();
    for file in [&photo, &table] {
        expected.push(file.stream().try_collect::<Vec<_>>().await.expect("given bytes").concat());
    }
    kept.sort();
    expected.sort();
    assert!(kept == expected, "byte for byte");

    // One is deleted; the other stays the file that it is. The paths serve other tools.
    let (gone, stays) = (&paths[0], &paths[1]);
    fs::remove_file(gone).expect("it is there");
    let before = fs::metadata(stays).expect("it is there");
    let path = format!("/shared/Downloads/{}.csv", &table.sha256().to_string()[..10]);
    harness.model.reply(call_reply("once more", &[("attachment_download", json!({}))]));
    harness.model.reply(call_reply("once more", &[("file_read", json!({ "path": path }))]));
    harness.model.reply(text_reply("They are there."));
    harness.chat.send("Download them once more, and read the table.");
    harness.wait_for_text("They are there.").await;
    assert!(gone.exists(), "what was missing is written");
    let after = fs::metadata(stays).expect("it is there");
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()), "what was there is not");
    assert!(harness.last_request().contains("1;2"), "{}", harness.last_request());
}
