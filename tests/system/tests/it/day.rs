//! A day with Satchel, the same on each platform: the real binary, a strict fake platform, a fake model, a fake speech
//! server, and one person.
//!
//! The snapshots beside this file are the final chats as the person reads them.

pub(crate) mod discord;
pub(crate) mod harness;
pub(crate) mod telegram;

use std::time::Duration;

use satchel_fake_discord::DiscordRules;
use satchel_fake_kit::FakeFile;
use satchel_fake_model::{ModelReply, ScriptedCall};
use serde_json::json;

use self::{
    discord::DiscordChat,
    harness::{DayHarness, TestChat},
    telegram::TelegramChat,
};

/// What the film is made of: the beginning of an MP4, and then nothing.
const FILM_BYTES: u64 = 64_000_000;

pub(crate) fn call_reply(when: &str, calls: &[(&str, serde_json::Value)]) -> ModelReply {
    let call = |(name, arguments): &(&str, serde_json::Value)| ScriptedCall::new(name, &arguments.to_string());
    ModelReply::calls(calls.iter().map(call)).when(when)
}

/// The next thing that the model says, whatever it has been shown meanwhile.
pub(crate) fn text_reply(text: &str) -> ModelReply {
    ModelReply::text(text)
}

/// A program long enough for several messages.
fn long_program() -> String {
    let step = |n: u32| {
        format!(
            "    # Step {n}: look at the date of the picture and give it a name that sorts.\n    rename(\"{n:03}\")\n"
        )
    };
    format!(
        "Here it is.\n\n```python\ndef main():\n{}```\n\nRun it in the folder with the photos.",
        (1..=60).map(step).collect::<String>()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telegram_day_reads_well_and_loses_nothing() {
    // Telegram knows no repeats: the report that may have arrived is looked for, and found.
    insta::assert_snapshot!(run_day(TelegramChat::open().await, 2).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discord_day_reads_well_without_loss_or_duplicates() {
    insta::assert_snapshot!(run_day(DiscordChat::open(DiscordRules::default()).await, 2).await);
}

/// Ann's day. In the end the report has come so often; she asked for it twice.
async fn run_day(chat: impl TestChat, reports: usize) -> String {
    let mut harness = DayHarness::new(chat).await;
    let photos: Vec<FakeFile> = (1..=3).map(|n| FakeFile::photo(format!("p{n}.png"), 640, 480, n, 40_000)).collect();
    let report = FakeFile::from_bytes("report.pdf", "application/pdf", "%PDF-1.4\nthe year in numbers\n%%EOF\n");
    let chart = FakeFile::photo("chart.png", 800, 600, 9, 30_000);
    let song =
        FakeFile::from_bytes("song.mp3", "audio/mpeg", [b"ID3\x04\0\0\0\0\0\0".as_slice(), &[0xff; 2_000]].concat());
    for file in [&report, &chart, &song] {
        harness.write_file(file).await;
    }
    harness.write_film("film.mp4", FILM_BYTES);
    harness.start().await;

    // In the morning: photos to be kept.
    harness.model.reply(call_reply("Keep these", &[("attachment_save_all", json!({"dir": "/shared/trip"}))]));
    harness.model.reply(text_reply("All three are kept in `/shared/trip`."));
    harness.chat.send_photos("Keep these for the trip, please.", &photos);
    harness.wait_for_text("All three are kept").await;

    // On the way: a question that is spoken, and an answer that is.
    harness.speech.hears("What did I give you this morning?");
    harness.model.reply(call_reply("What did I give you", &[("send_voice", json!({}))]));
    harness.model.reply(text_reply("Three photos, for the trip."));
    harness.chat.send_voice(harness::voice_note());
    harness.wait_until("the spoken answer", |chat| chat.voice_count() == 1).await;

    // At work: an answer that is longer than a message.
    harness.model.reply(text_reply(&long_program()));
    harness.chat.send("Write me a script that renames photos by their date.");
    harness.wait_for_text("Run it in the folder").await;

    // Three files of three kinds.
    let paths = ["report.pdf", "chart.png", "song.mp3"].map(|name| format!("/shared/{name}"));
    harness.model.reply(call_reply("the report, the chart", &[("attachment_add", json!({"paths": paths}))]));
    harness.model.reply(text_reply("Here are **all three**."));
    harness.chat.send("Send me the report, the chart and the song.");
    harness.wait_for_file("song.mp3", 1).await;

    // One that the platform does not take.
    harness.model.reply(call_reply("the film", &[("attachment_add", json!({"path": "/shared/film.mp4"}))]));
    harness.model.reply(text_reply("The film, too."));
    harness.chat.send("And the film.");
    harness.wait_for_text("64 MB").await;

    assert_eq!(harness.chat.refused_requests(), 0, "nothing was sent too fast");

    // In the middle of the evening the power fails, while a file is on its way.
    let file_sent = harness.chat.lose_next_response();
    harness.model.reply(call_reply("report once more", &[("attachment_add", json!({"path": "/shared/report.pdf"}))]));
    harness.model.reply(text_reply(harness.chat.text_with_lost_file()));
    harness.chat.send("The report once more, I deleted it.");
    file_sent.await.expect("the report is sent again");
    harness.kill().await;
    harness.start().await;
    harness.wait_for_file("report.pdf", reports).await;

    // Much later: what was kept in the morning is asked back.
    harness
        .model
        .reply(call_reply("first photo", &[("attachment_add", json!({"path": harness.stored_path("trip", 0)}))]));
    harness.model.reply(text_reply("This one."));
    harness.chat.send("Send me the first photo of the trip.");
    let first = photos[0].sha256();
    harness.wait_until("the photo", |chat| chat.files().iter().any(|(_, sha256)| *sha256 == first)).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    harness.stop().await;

    let stored = harness.stored_files("trip");
    assert_eq!(stored, photos.iter().map(FakeFile::sha256).collect::<Vec<_>>(), "kept byte for byte");
    let received = harness.chat.files();
    let pictures: Vec<_> = photos.iter().chain([&chart]).map(FakeFile::sha256).collect();
    let returned: Vec<_> =
        received.iter().map(|(_, sha256)| *sha256).filter(|sha256| pictures.contains(sha256)).collect();
    assert_eq!(returned, [chart.sha256(), photos[0].sha256()], "and given back so");
    for file in [&report, &song] {
        let mut named = received.iter().filter(|(name, _)| *name == file.filename);
        assert!(named.all(|(_, sha256)| *sha256 == file.sha256()), "{}", file.filename);
    }
    assert_eq!(harness.find_token_holders(), [""; 0], "the token went further than to the platform");
    assert!(harness.log().contains("TRACE"), "the log that was searched is at its most talkative");
    assert!(harness.chat.refused_requests() <= harness.chat.max_refused_after_restart(), "nothing was sent too fast");
    harness.stable_transcript()
}
