//! A day on Telegram: the real binary, a strict Bot API server, a model and a voice, and one person who talks to it all.
//!
//! What stands in the chat in the end is read as the person reads it; the snapshot beside this file is the day.

mod home;

use std::time::Duration;

use satchel_fakes::{
    FakeFile, Fault, Moment,
    model::{ModelReply, ScriptedCall},
    telegram::{Composed, FileKind},
};
use serde_json::json;

use self::home::Home;

/// What the film is made of: the beginning of an MP4, and then nothing.
const FILM_BYTES: u64 = 64_000_000;

fn calls(when: &str, calls: &[(&str, serde_json::Value)]) -> ModelReply {
    let call = |(name, arguments): &(&str, serde_json::Value)| ScriptedCall::new(name, &arguments.to_string());
    ModelReply::calls(calls.iter().map(call)).when(when)
}

/// The next thing that the model says, whatever it has been shown meanwhile.
fn says(text: &str) -> ModelReply {
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
async fn a_day_on_telegram_reads_well_and_loses_nothing() {
    let mut home = Home::furnish().await;
    let photos: Vec<FakeFile> = (1..=3).map(|n| FakeFile::photo(format!("p{n}.png"), 640, 480, n, 40_000)).collect();
    let report = FakeFile::of("report.pdf", "application/pdf", "%PDF-1.4\nthe year in numbers\n%%EOF\n");
    let chart = FakeFile::photo("chart.png", 800, 600, 9, 30_000);
    let song = FakeFile::of("song.mp3", "audio/mpeg", [b"ID3\x04\0\0\0\0\0\0".as_slice(), &[0xff; 2_000]].concat());
    for file in [&report, &chart, &song] {
        home.put(file).await;
    }
    home.put_film("film.mp4", FILM_BYTES);
    home.start().await;

    // In the morning: an album to be kept.
    home.model.reply(calls("Keep these", &[("attachment_save_all", json!({"dir": "/shared/trip"}))]));
    home.model.reply(says("All three are kept in `/shared/trip`."));
    let captioned = |(n, photo): (usize, &FakeFile)| {
        let item = Composed::file(FileKind::Photo, photo.clone());
        if n == 0 { item.caption("Keep these for the trip, please.") } else { item }
    };
    home.telegram.person_sends_album(home.ann, home.ann, photos.iter().enumerate().map(captioned).collect());
    home.hears("All three are kept").await;

    // On the way: a question that is spoken, and an answer that is.
    home.speech.hears("What did I give you this morning?");
    home.model.reply(calls("What did I give you", &[("send_voice", json!({}))]));
    home.model.reply(says("Three photos, for the trip."));
    home.telegram.person_sends(home.ann, home.ann, Composed::file(FileKind::Voice, home::voice_note()));
    home.sees("the spoken answer", |seen| seen.files_of(FileKind::Voice).len() == 1).await;

    // At work: an answer that is longer than a message.
    home.model.reply(says(&program()));
    home.says("Write me a script that renames photos by their date.");
    home.hears("Run it in the folder").await;

    // Three files of three kinds.
    let paths = ["report.pdf", "chart.png", "song.mp3"].map(|name| format!("/shared/{name}"));
    home.model.reply(calls("the report, the chart", &[("attachment_add", json!({"paths": paths}))]));
    home.model.reply(says("Here are **all three**."));
    home.says("Send me the report, the chart and the song.");
    home.sees("the song", |seen| seen.files_of(FileKind::Audio).len() == 1).await;

    // One that Telegram does not take.
    home.model.reply(calls("the film", &[("attachment_add", json!({"path": "/shared/film.mp4"}))]));
    home.model.reply(says("The film, too."));
    home.says("And the film.");
    home.hears("64 MB").await;

    // In the middle of the evening the power fails, while a file is on its way.
    let sent = home.telegram.requests("sendDocument");
    let performed = home.telegram.on_nth("sendDocument", sent + 1, Moment::Performed);
    home.telegram.script_next("sendDocument", Fault::Hang { performed: true });
    home.model.reply(calls("report once more", &[("attachment_add", json!({"path": "/shared/report.pdf"}))]));
    home.model.reply(says("Once more."));
    home.says("The report once more, I deleted it.");
    performed.await.expect("the report is sent again");
    home.loses_power().await;
    home.start().await;
    home.sees("the doubtful report", |seen| seen.files_named("report.pdf").len() == 3).await;

    // Much later: what was kept in the morning is asked back.
    home.model.reply(calls("first photo", &[("attachment_add", json!({"path": home.kept("trip", 0)}))]));
    home.model.reply(says("This one."));
    home.says("Send me the first photo of the trip.");
    home.sees("the photo", |seen| seen.files_of(FileKind::Photo).len() == 2).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    home.stops().await;

    let seen = home.seen();
    let kept = home.kept_files("trip");
    assert_eq!(kept, photos.iter().map(FakeFile::sha256).collect::<Vec<_>>(), "kept byte for byte");
    let back: Vec<_> = seen.files_of(FileKind::Photo).iter().map(|file| file.sha256).collect();
    assert_eq!(back, [chart.sha256(), photos[0].sha256()], "and given back so");
    for file in [&report, &song] {
        assert!(seen.files_named(&file.filename).iter().all(|found| found.sha256 == file.sha256()));
    }
    assert_eq!(home.holders_of_the_token(), [""; 0], "the token went further than to Telegram");
    assert!(home.log().contains("TRACE"), "the log that was searched is at its most talkative");
    assert_eq!(home.telegram.pace().refused, 0, "nothing was sent too fast");
    insta::assert_snapshot!(home.day());
}
