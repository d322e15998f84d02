//! Acceptance tests for saving what a person sends: the real binary, a photo from Telegram, and what the model reads on
//! the wire. That each write is old or new after a kill is proved by `workspace_fault_contract!`; the table of path
//! arguments is in `satchel_tools::path_fields`.

use std::{
    fs::File,
    io::{Read, Seek},
};

use futures::TryStreamExt;
use satchel_fake_kit::FakeFile;
use satchel_fake_telegram::FileKind;
use serde_json::{Value, json};

use crate::day::{
    call_reply,
    harness::{DayHarness, TestChat},
    telegram::TelegramChat,
    text_reply,
};

async fn start_harness() -> DayHarness<TelegramChat> {
    let mut harness = DayHarness::new(TelegramChat::open().await).await;
    harness.start().await;
    harness
}

fn photo() -> FakeFile {
    FakeFile::photo("beach.png", 640, 480, 1, 40_000)
}

async fn bytes_of(file: &FakeFile) -> Vec<u8> {
    file.stream().try_collect::<Vec<_>>().await.expect("given bytes").concat()
}

/// Sends a photo, and lets the model make these calls of `attachment_save`, one after the other.
async fn save_photo(harness: &DayHarness<TelegramChat>, calls: &[Value]) {
    for arguments in calls {
        harness.model.reply(call_reply("Keep", &[("attachment_save", arguments.clone())]));
    }
    harness.model.reply(text_reply("That is all."));
    harness.chat.send_photos("Keep this.", &[photo()]);
    harness.wait_for_text("That is all.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn telegram_photo_is_saved_byte_for_byte() {
    let harness = start_harness().await;
    save_photo(&harness, &[json!({ "index": 0, "path": "/shared/trip/photo.jpg" })]).await;
    assert_eq!(harness.stored_files("trip"), [photo().sha256()]);
    let (bytes, digest) = (bytes_of(&photo()).await.len(), photo().sha256());
    let request = harness.model.last();
    assert!(request.tools.iter().any(|tool| tool == "attachment_save"), "{:?}", request.tools);
    let answer = format!("{request:?}");
    for field in [
        r#"\"saved\":true"#.to_owned(),
        r#"\"path\":\"/shared/trip/photo.jpg\""#.to_owned(),
        r#"\"mime_type\":\"image/png\""#.to_owned(),
        format!(r#"\"bytes_written\":{bytes}"#),
        r#"\"source_index\":0"#.to_owned(),
        format!(r#"\"sha256\":\"{digest}\""#),
    ] {
        assert!(answer.contains(&field), "{field} is not in {answer}");
    }
}

/// Not photos alone: what Telegram delivers in another form is saved in the same way.
#[tokio::test(flavor = "multi_thread")]
async fn telegram_document_and_audio_are_saved_byte_for_byte() {
    let harness = start_harness().await;
    let song = [b"ID3\x03\0\0\0\0\0\0\xff\xfb\x90\0".as_slice(), &[7; 3_000]].concat();
    for (kind, name, mime, content) in [
        (FileKind::Document, "table.csv", "text/csv", b"a;b\n1;2\n".to_vec()),
        (FileKind::Audio, "song.mp3", "audio/mpeg", song),
    ] {
        let file = FakeFile::from_bytes(name, mime, content);
        let end = format!("{name} is kept.");
        let arguments = json!({ "index": 0, "path": format!("/shared/kept-{name}/{name}") });
        harness.model.reply(call_reply(name, &[("attachment_save", arguments)]));
        harness.model.reply(text_reply(&end));
        harness.chat.send_file(kind, &format!("Keep {name}"), file.clone());
        harness.wait_for_text(&end).await;
        assert_eq!(harness.stored_files(&format!("kept-{name}")), [file.sha256()], "{name}");
        let answer = harness.last_request();
        for field in [
            r#"\"saved\":true"#.to_owned(),
            format!(r#"\"path\":\"/shared/kept-{name}/{name}\""#),
            format!(r#"\"mime_type\":\"{mime}\""#),
            format!(r#"\"bytes_written\":{}"#, file.bytes()),
        ] {
            assert!(answer.contains(&field), "{name}: {field} is not in {answer}");
        }
    }
}

/// Mutation: the model isn't told of the files, or is told of some where there are none.
#[tokio::test(flavor = "multi_thread")]
async fn model_is_told_of_files_only_where_some_came() {
    let harness = start_harness().await;
    save_photo(&harness, &[json!({ "index": 0, "path": "photo.png" })]).await;
    let requests = harness.model.requests();
    let first = format!("{:?}", requests[0]);
    assert!(first.contains("User sent 1 attachment: [0] image/png (~40KB)"), "{first}");
    assert!(first.contains("attachment_save(index, path)"), "{first}");
    harness.model.reply(text_reply("Nothing came."));
    harness.chat.send("And now?");
    harness.wait_for_text("Nothing came.").await;
    let last = harness.model.last();
    let new = last.turns.last().map(|turn| format!("{turn:?}")).unwrap_or_default();
    assert!(new.contains("And now?") && !new.contains("User sent"), "{new}");
}

/// Mutation: bytes that stay in the history, and are paid for in every request.
#[tokio::test(flavor = "multi_thread")]
async fn later_requests_hold_references_not_bytes() {
    let harness = start_harness().await;
    save_photo(&harness, &[json!({ "index": 0, "path": "photo.png" })]).await;
    let shown = harness.model.requests()[0].body.to_string().len();
    assert!(shown > 40_000, "the model sees the photo: {shown} bytes");
    harness.model.reply(text_reply("A beach."));
    harness.chat.send("What was on it?");
    harness.wait_for_text("A beach.").await;
    let last = harness.model.last();
    let body = last.body.to_string();
    assert!(body.contains("photo-1.jpg image/png 40 KB]") && body.contains("[attachment "));
    assert!(body.len() < shown - 40_000, "{} bytes after {shown}", body.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_use_is_explained_and_saves_nothing() {
    let harness = start_harness().await;
    let wrong = [
        (json!({ "index": 3, "path": "a.png" }), "index 3 is out of bounds: 1 attachment came with this turn"),
        (json!({ "index": 0, "path": "/etc/a.png" }), "expected a path beneath /shared or /tmp"),
        (json!({ "index": 0, "path": "../../a.png" }), "expected a path beneath /shared or /tmp"),
        (json!({ "index": 0, "path": "/vault/a.png" }), "can't be written by this tool"),
        (json!({ "path": "a.png" }), "neither `index` nor `attachment_id` is given"),
        (json!({ "index": 0, "attachment_id": "b", "path": "a.png" }), "both `index` and `attachment_id` are given"),
        (json!({ "index": 0 }), "missing field `path`"),
    ];
    save_photo(&harness, &wrong.each_ref().map(|(arguments, _)| arguments.clone())).await;
    let answers = harness.last_request();
    for (arguments, says) in wrong {
        assert!(answers.contains(says), "{arguments}: `{says}` is not in {answers}");
    }
    assert!(harness.list_files("").is_empty(), "nothing was saved: {:?}", harness.list_files(""));
    harness.model.reply(call_reply("earlier", &[("attachment_save", json!({ "index": 0, "path": "a.png" }))]));
    harness.model.reply(text_reply("It can't be had by its index."));
    harness.chat.send("Keep the earlier one.");
    harness.wait_for_text("It can't be had").await;
    assert!(harness.last_request().contains("no attachments came with this turn"), "{}", harness.last_request());
}

/// Mutation: an existing file is written in place, so that a reader sees halves of both.
#[tokio::test(flavor = "multi_thread")]
async fn overwriting_replaces_the_file_as_a_whole() {
    let harness = start_harness().await;
    let old = FakeFile::from_bytes("photo.png", "image/png", "the old bytes");
    harness.write_file(&old).await;
    let [path] = harness.list_files("").try_into().expect("one file");
    let mut reader = File::open(&path).expect("it is there");
    save_photo(
        &harness,
        &[json!({ "index": 0, "path": "photo.png" }), json!({ "index": 0, "path": "photo.png", "overwrite": true })],
    )
    .await;
    let answers = harness.last_request();
    assert!(answers.contains("`/shared/photo.png` exists already: choose another path, or set"), "{answers}");
    let mut read = Vec::new();
    reader.rewind().and_then(|()| reader.read_to_end(&mut read)).expect("an open file stays readable");
    assert_eq!(read, bytes_of(&old).await, "a reader of the old file still gets all of it");
    assert_eq!(harness.stored_files(""), [photo().sha256()], "and nothing is beside the new one");
}
