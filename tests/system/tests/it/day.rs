//! A day with Satchel, the same one on each platform: the real binary, a strict server of the platform's, a model and a
//! voice, and one person who talks to it all.
//!
//! What stands in the chat in the end is read as the person reads it; the snapshots beside this file are the days.

pub(crate) mod discord;
pub(crate) mod house;
pub(crate) mod telegram;

use std::time::Duration;

use satchel_fake_discord::DiscordRules;
use satchel_fake_kit::FakeFile;
use satchel_fake_model::{ModelReply, ScriptedCall};
use serde_json::json;

use self::{
    discord::OnDiscord,
    house::{Chat, House},
    telegram::OnTelegram,
};

/// What the film is made of: the beginning of an MP4, and then nothing.
const FILM_BYTES: u64 = 64_000_000;

pub(crate) fn calls(when: &str, calls: &[(&str, serde_json::Value)]) -> ModelReply {
    let call = |(name, arguments): &(&str, serde_json::Value)| ScriptedCall::new(name, &arguments.to_string());
    ModelReply::calls(calls.iter().map(call)).when(when)
}

/// The next thing that the model says, whatever it has been shown meanwhile.
pub(crate) fn says(text: &str) -> ModelReply {
    ModelReply::text(text)
}

/// A program long enough for several messages.
fn program() -> String {
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
    insta::assert_snapshot!(day(OnTelegram::open().await, 2).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discord_day_reads_well_without_loss_or_duplicates() {
    insta::assert_snapshot!(day(OnDiscord::open(DiscordRules::default()).await, 2).await);
}

/// Ann's day. In the end the report has come so often; she asked for it twice.
async fn day(chat: impl Chat, reports: usize) -> String {
    let mut house = House::furnish(chat).await;
    let photos: Vec<FakeFile> = (1..=3).map(|n| FakeFile::photo(format!("p{n}.png"), 640, 480, n, 40_000)).collect();
    let report = FakeFile::from_bytes("report.pdf", "application/pdf", "%PDF-1.4\nthe year in numbers\n%%EOF\n");
    let chart = FakeFile::photo("chart.png", 800, 600, 9, 30_000);
    let song =
        FakeFile::from_bytes("song.mp3", "audio/mpeg", [b"ID3\x04\0\0\0\0\0\0".as_slice(), &[0xff; 2_000]].concat());
    for file in [&report, &chart, &song] {
        house.put(file).await;
    }
    house.put_film("film.mp4", FILM_BYTES);
    house.start().await;

    // In the morning: photos to be kept.
    house.model.reply(calls("Keep these", &[("attachment_save_all", json!({"dir": "/shared/trip"}))]));
    house.model.reply(says("All three are kept in `/shared/trip`."));
    house.chat.sends_photos("Keep these for the trip, please.", &photos);
    house.hears("All three are kept").await;

    // On the way: a question that is spoken, and an answer that is.
    house.speech.hears("What did I give you this morning?");
    house.model.reply(calls("What did I give you", &[("send_voice", json!({}))]));
    house.model.reply(says("Three photos, for the trip."));
    house.chat.sends_voice(house::voice_note());
    house.sees("the spoken answer", |chat| chat.voices() == 1).await;

    // At work: an answer that is longer than a message.
    house.model.reply(says(&program()));
    house.chat.says("Write me a script that renames photos by their date.");
    house.hears("Run it in the folder").await;

    // Three files of three kinds.
    let paths = ["report.pdf", "chart.png", "song.mp3"].map(|name| format!("/shared/{name}"));
    house.model.reply(calls("the report, the chart", &[("attachment_add", json!({"paths": paths}))]));
    house.model.reply(says("Here are **all three**."));
    house.chat.says("Send me the report, the chart and the song.");
    house.gets("song.mp3", 1).await;

    // One that the platform does not take.
    house.model.reply(calls("the film", &[("attachment_add", json!({"path": "/shared/film.mp4"}))]));
    house.model.reply(says("The film, too."));
    house.chat.says("And the film.");
    house.hears("64 MB").await;

    assert_eq!(house.chat.refused(), 0, "nothing was sent too fast");

    // In the middle of the evening the power fails, while a file is on its way.
    let performed = house.chat.loses_the_next_answer();
    house.model.reply(calls("report once more", &[("attachment_add", json!({"path": "/shared/report.pdf"}))]));
    house.model.reply(says(house.chat.words_with_the_lost_file()));
    house.chat.says("The report once more, I deleted it.");
    performed.await.expect("the report is sent again");
    house.loses_power().await;
    house.start().await;
    house.gets("report.pdf", reports).await;

    // Much later: what was kept in the morning is asked back.
    house.model.reply(calls("first photo", &[("attachment_add", json!({"path": house.kept("trip", 0)}))]));
    house.model.reply(says("This one."));
    house.chat.says("Send me the first photo of the trip.");
    let first = photos[0].sha256();
    house.sees("the photo", |chat| chat.files().iter().any(|(_, sha256)| *sha256 == first)).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    house.stops().await;

    let kept = house.kept_files("trip");
    assert_eq!(kept, photos.iter().map(FakeFile::sha256).collect::<Vec<_>>(), "kept byte for byte");
    let came = house.chat.files();
    let pictures: Vec<_> = photos.iter().chain([&chart]).map(FakeFile::sha256).collect();
    let back: Vec<_> = came.iter().map(|(_, sha256)| *sha256).filter(|sha256| pictures.contains(sha256)).collect();
    assert_eq!(back, [chart.sha256(), photos[0].sha256()], "and given back so");
    for file in [&report, &song] {
        let mut named = came.iter().filter(|(name, _)| *name == file.filename);
        assert!(named.all(|(_, sha256)| *sha256 == file.sha256()), "{}", file.filename);
    }
    assert_eq!(house.holders_of_the_token(), [""; 0], "the token went further than to the platform");
    assert!(house.log().contains("TRACE"), "the log that was searched is at its most talkative");
    assert!(house.chat.refused() <= house.chat.refused_after_a_restart(), "nothing was sent too fast");
    house.day()
}
