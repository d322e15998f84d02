//! What was asked of files on Discord, as it was asked: several at once, on the message that answers or behind it, and
//! into the workspace without anybody naming an address.

use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};

use futures::TryStreamExt;
use satchel_fake_discord::{DiscordMessage, DiscordRules};
use satchel_fake_kit::FakeFile;
use satchel_fake_model::{ModelFault, ModelReply};
use serde_json::json;

use crate::day::{
    calls,
    discord::{ANN, OnDiscord},
    house::{Chat, House},
    says,
};

type Home = House<OnDiscord>;

async fn home() -> Home {
    let mut home = House::furnish(OnDiscord::open(DiscordRules::unpaced()).await).await;
    home.start().await;
    home
}

/// Puts these files where the tools find them, and returns their paths.
async fn put(home: &Home, files: &[FakeFile]) -> Vec<String> {
    for file in files {
        home.put(file).await;
    }
    files.iter().map(|file| format!("/shared/{}", file.filename)).collect()
}

fn photos(count: u64) -> Vec<FakeFile> {
    (1..=count).map(|n| FakeFile::photo(format!("{n}.png"), 64, 48, n, 900)).collect()
}

fn messages(home: &Home) -> Vec<DiscordMessage> {
    home.chat.discord.transcript().visible(home.chat.channel).cloned().collect()
}

fn names(message: &DiscordMessage) -> Vec<&str> {
    message.files.iter().map(|file| file.filename.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_added_by_tool_join_first_message() {
    let home = home().await;
    let files = [FakeFile::photo("a.png", 64, 48, 1, 900), FakeFile::photo("b.png", 64, 48, 2, 900)];
    let paths = put(&home, &files).await;
    home.model.reply(calls("both", &[("attachment_add", json!({ "paths": paths }))]));
    home.model.reply(says("Here they are."));
    home.chat.says("Send me both.");
    home.gets("b.png", 1).await;
    let [message] = messages(&home).try_into().expect("one message");
    assert_eq!((message.content.as_str(), names(&message)), ("Here they are.", vec!["a.png", "b.png"]));
    assert!(message.files.iter().zip(&files).all(|(came, file)| came.sha256 == file.sha256()));
}

#[tokio::test(flavor = "multi_thread")]
async fn excess_files_follow_text_in_replies_of_ten() {
    let home = home().await;
    let paths = put(&home, &photos(12)).await;
    home.model.reply(calls("all", &[("attachment_add", json!({ "paths": paths }))]));
    home.model.reply(says(&"Each of them was taken in the mountains.\n\n".repeat(60)));
    let asked = home.chat.discord.person_says(home.chat.channel, ANN, "Send me all of them, and say a lot.");
    home.gets("12.png", 1).await;
    let [first, second, ten, two] = messages(&home).try_into().expect("two texts and two messages with files");
    assert_eq!((first.reply_to, second.reply_to), (Some(asked), None));
    assert_eq!((ten.files.len(), ten.reply_to), (10, Some(second.id)));
    assert_eq!((two.files.len(), two.reply_to), (2, Some(ten.id)));
    let came: Vec<_> = home.chat.files().into_iter().map(|(name, _)| name).collect();
    assert_eq!(came, (1..=12).map(|n| format!("{n}.png")).collect::<Vec<_>>(), "in their order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_of_files_alone_arrives() {
    let home = home().await;
    let paths = put(&home, &photos(1)).await;
    home.model.reply(calls("photo", &[("attachment_add", json!({ "paths": paths }))]));
    home.model.reply(says(""));
    home.chat.says("The photo, no words.");
    home.gets("1.png", 1).await;
    let [message] = messages(&home).try_into().expect("one message");
    assert_eq!((message.content.as_str(), names(&message)), ("", vec!["1.png"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stopped_turn_had_gathered_is_sent() {
    let home = home().await;
    let paths = put(&home, &photos(2)).await;
    home.model.reply(calls("photos", &[("attachment_add", json!({ "paths": paths }))]));
    home.model.reply(ModelReply::fault(ModelFault::Hang));
    home.chat.says("The photos, and think about them.");
    home.sees("that the model is asked again", |_| home.model.requests().len() == 2).await;
    home.chat.says("/stop");
    home.gets("2.png", 1).await;
    let last = messages(&home).into_iter().find(|message| !message.files.is_empty()).expect("the files came");
    assert_eq!(names(&last), ["1.png", "2.png"]);
    assert!(home.chat.texts().iter().any(|text| text.to_lowercase().contains("stopped")), "{:?}", home.chat.texts());
}

#[tokio::test(flavor = "multi_thread")]
async fn downloads_need_no_url_and_skip_existing_files() {
    let home = home().await;
    let photo = FakeFile::photo("beach.png", 640, 480, 1, 90_000);
    let table = FakeFile::from_bytes("table.csv", "text/csv", "a;b\n1;2\n");
    home.model.reply(calls("Keep", &[("attachment_download", json!({}))]));
    home.model.reply(says("Kept."));
    let sent = vec![photo.clone(), table.clone()];
    home.chat.discord.person_sends(home.chat.channel, ANN, "Keep these.", sent);
    home.hears("Kept.").await;
    let answer = home.last_asked();
    for file in [&photo, &table] {
        let sha10 = &file.sha256().to_string()[..10];
        assert!(answer.contains(sha10) && answer.contains(&file.filename), "{answer}");
    }
    assert!(answer.contains("/attachments/") && !answer.contains("hm="), "links are shown without their signature");
    let paths: Vec<PathBuf> = home.listed("Downloads");
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
    home.model.reply(calls("once more", &[("attachment_download", json!({}))]));
    home.model.reply(calls("once more", &[("file_read", json!({ "path": path }))]));
    home.model.reply(says("They are there."));
    home.chat.says("Download them once more, and read the table.");
    home.hears("They are there.").await;
    assert!(gone.exists(), "what was missing is written");
    let after = fs::metadata(stays).expect("it is there");
    assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()), "what was there is not");
    assert!(home.last_asked().contains("1;2"), "{}", home.last_asked());
}
