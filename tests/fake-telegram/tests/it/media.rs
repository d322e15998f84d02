//! Files that the bot sends: photos, documents, voices, albums, and files that are known already.

use std::time::Instant;

use reqwest::multipart::{Form, Part};
use satchel_fake_kit::FakeFile;
use satchel_fake_telegram::{FileKind, TelegramRules};
use serde_json::{Value, json};

use crate::{Bot, mp4, png};

#[tokio::test]
async fn photos_are_images_and_not_too_large() {
    let bot = Bot::start().await;
    let send = async |image: Vec<u8>| {
        let sent = bot.upload("sendPhoto", json!({}), vec![("photo", "a.png", image)]).await;
        sent.map(|message| message["photo"].as_array().map(Vec::len))
    };
    let most = 10 * 1024 * 1024;
    let too_big = format!("file of size {} bytes is too big for a photo; the maximum size is {most} bytes", most + 1);
    for (image, expected) in [
        (png(10, 10, most + 1), too_big.as_str()),
        (b"no image at all".to_vec(), "PHOTO_SAVE_FILE_INVALID"),
        (png(10, 10, 0)[..16].to_vec(), "IMAGE_PROCESS_FAILED"),
        (png(5001, 5000, 0), "PHOTO_INVALID_DIMENSIONS"),
        (png(21, 1, 0), "PHOTO_INVALID_DIMENSIONS"),
        (png(1, 0, 0), "PHOTO_INVALID_DIMENSIONS"),
        (Vec::new(), "file must be non-empty"),
    ] {
        assert_eq!(send(image).await, Err(format!("400 Bad Request: {expected}")));
    }
    for image in [png(5000, 5000, most), png(20, 1, 0)] {
        assert_eq!(send(image).await, Ok(Some(3)), "three sizes");
    }
}

#[tokio::test]
async fn fifty_megabytes_stream_and_one_more_byte_fails() {
    let bot = Bot::start().await;
    let most = 50 * 1024 * 1024;
    for (bytes, expected) in [(most, Ok(())), (most + 1, Err(413))] {
        let file = FakeFile::generated("big.bin", "application/octet-stream", 5, bytes);
        let part = Part::stream_with_length(reqwest::Body::wrap_stream(file.stream()), bytes);
        let form = Form::new().text("chat_id", bot.chat.to_string()).text("document", "attach://x");
        let form = form.part("x", part.file_name("big.bin"));
        let began = Instant::now();
        let sent =
            reqwest::Client::new().post(bot.url("sendDocument")).multipart(form).send().await.expect("an answer");
        let answer: Value = sent.json().await.expect("JSON");
        match expected {
            Ok(()) => {
                assert_eq!(answer["result"]["document"]["file_size"], bytes, "{answer} after {:?}", began.elapsed());
                let transcript = bot.fake.transcript();
                assert_eq!(transcript.files(bot.chat)[0].sha256, file.sha256());
                assert!(transcript.files(bot.chat)[0].content.is_none(), "nothing is kept");
            }
            Err(code) => {
                assert_eq!(answer["error_code"], code);
                assert_eq!(answer["description"], "Request Entity Too Large");
            }
        }
    }
}

#[tokio::test]
async fn file_content_decides_its_media_kind() {
    let bot = Bot::start().await;
    for (method, field, bytes, shown) in [
        ("sendVoice", "voice", b"OggS".to_vec(), "voice"),
        ("sendVoice", "voice", b"ID3".to_vec(), "voice"),
        ("sendVoice", "voice", b"fLaC".to_vec(), "audio"),
        ("sendVoice", "voice", b"words".to_vec(), "document"),
        ("sendAudio", "audio", b"ID3".to_vec(), "audio"),
        ("sendAudio", "audio", b"words".to_vec(), "document"),
        ("sendVideo", "video", mp4(), "video"),
        ("sendVideo", "video", b"words".to_vec(), "document"),
        ("sendVideoNote", "video_note", mp4(), "video_note"),
        ("sendAnimation", "animation", b"GIF89a".to_vec(), "animation"),
        ("sendAnimation", "animation", b"words".to_vec(), "document"),
        ("sendDocument", "document", b"OggS".to_vec(), "document"),
    ] {
        let sent = bot.upload(method, json!({}), vec![(field, "file.bin", bytes)]).await.expect(method);
        assert!(sent[shown].is_object(), "{method}: {sent}");
    }
    let nothing = bot.here("sendDocument", json!({})).await;
    assert_eq!(nothing, Err("400 Bad Request: there is no document in the request".to_owned()));
    let missing = bot.here("sendVideoNote", json!({ "video_note": "attach://x" })).await;
    assert_eq!(missing, Err("400 Bad Request: wrong file identifier/HTTP URL specified".to_owned()));
    let fetched = bot.here("sendPhoto", json!({ "photo": "https://x.org/a.png" })).await;
    assert_eq!(fetched, Err("400 Bad Request: failed to get HTTP URL content".to_owned()));
}

#[tokio::test]
async fn names_come_as_they_were_given() {
    let bot = Bot::start().await;
    for name in ["Übung 3 – Lösung.pdf", "a \"quoted\" name.txt", "100 %.txt"] {
        let sent = bot.upload("sendDocument", json!({}), vec![("document", name, b"a".to_vec())]).await.expect("sent");
        assert_eq!(sent["document"]["file_name"], name);
    }
}

#[tokio::test]
async fn captions_are_counted_after_parsing() {
    let bot = Bot::start().await;
    let file = || vec![("document", "a.txt", b"a".to_vec())];
    let marked = |length: usize| json!({ "caption": format!("<b>{}</b>", "a".repeat(length)), "parse_mode": "HTML" });
    let refused = bot.upload("sendDocument", marked(1025), file()).await;
    assert_eq!(refused, Err("400 Bad Request: message caption is too long".to_owned()));
    let sent = bot.upload("sendDocument", marked(1024), file()).await.expect("sent");
    assert_eq!(sent["caption_entities"][0]["length"], 1024);
    let id = sent["message_id"].clone();
    let edited = bot.here("editMessageCaption", json!({ "message_id": id, "caption": "a".repeat(1025) })).await;
    assert_eq!(edited, Err("400 Bad Request: message caption is too long".to_owned()));
}

#[tokio::test]
async fn file_id_is_reusable_in_its_own_form() {
    let bot = Bot::start().await;
    bot.fake.keep_file_bytes();
    let sent = bot.upload("sendVoice", json!({}), vec![("voice", "a.ogg", b"OggS".to_vec())]).await.expect("sent");
    let id = sent["voice"]["file_id"].clone();
    let again = bot.here("sendVoice", json!({ "voice": id })).await.expect("sent");
    assert_eq!(again["voice"]["file_unique_id"], sent["voice"]["file_unique_id"]);
    let other = bot.here("sendPhoto", json!({ "photo": id })).await;
    assert_eq!(other, Err("400 Bad Request: can't use file of type Voice as Photo".to_owned()));
    let path = bot.ask("getFile", json!({ "file_id": id })).await["file_path"].clone();
    let url = format!("{}/file/bot{}/{}", bot.fake.api_url(), bot.fake.token(), path.as_str().expect("a path"));
    let bytes = reqwest::get(url).await.expect("an answer").bytes().await.expect("bytes");
    assert_eq!(&bytes[..], b"OggS");
}

fn item(kind: &str, part: &str) -> Value {
    json!({ "type": kind, "media": format!("attach://{part}") })
}

#[tokio::test]
async fn albums_have_two_to_ten_compatible_items() {
    let bot = Bot::start().await;
    let photo = || png(10, 10, 100);
    let send = async |media: Value, files| bot.upload("sendMediaGroup", json!({ "media": media }), files).await;
    let files = || vec![("p", "p.png", photo()), ("v", "v.mp4", mp4()), ("d", "d.txt", b"d".to_vec())];
    let mixed = "400 Bad Request: document can't be mixed with other media types";
    for (media, expected) in [
        (json!([item("photo", "p")]), "400 Bad Request: media must include 2-10 items"),
        (json!(vec![item("photo", "p"); 11]), "400 Bad Request: too many messages to send as an album"),
        (json!([item("photo", "p"), item("document", "d")]), mixed),
        (
            json!([item("audio", "d"), item("photo", "p")]),
            "400 Bad Request: audio can't be mixed with other media types",
        ),
        (
            json!([item("photo", "p"), item("animation", "v")]),
            "400 Bad Request: animation can't be sent as part of an album",
        ),
        (
            json!([item("photo", "p"), item("photo", "nothing")]),
            "400 Bad Request: wrong file identifier/HTTP URL specified",
        ),
        (
            json!([item("photo", "p"), { "type": "photo", "media": "attach://p", "caption": "a".repeat(1025) }]),
            "400 Bad Request: message caption is too long",
        ),
        (json!({}), "400 Bad Request: can't parse media JSON object"),
    ] {
        assert_eq!(send(media.clone(), files()).await, Err(expected.to_owned()), "{media}");
    }
    for (kind, part, count) in [("document", "d", 2), ("audio", "a", 2), ("photo", "p", 10)] {
        let album = Bot::start().await;
        let files = vec![("p", "p.png", photo()), ("d", "d.txt", b"d".to_vec()), ("a", "a.mp3", b"ID3".to_vec())];
        let media = json!({ "media": vec![item(kind, part); count] });
        let sent = album.upload("sendMediaGroup", media, files).await.expect(kind);
        assert_eq!(sent.as_array().map(Vec::len), Some(count), "{kind}");
    }
    let wrong = vec![("p", "p.png", photo()), ("q", "q.png", png(21, 1, 0))];
    let refused = send(json!([item("photo", "p"), item("photo", "q")]), wrong).await;
    let expected = "400 Bad Request: failed to send message #2 with the error message \"PHOTO_INVALID_DIMENSIONS\"";
    assert_eq!(refused, Err(expected.to_owned()));
    assert!(bot.fake.transcript().messages(bot.chat).is_empty(), "an album is sent whole or not at all");

    let mut captioned = item("photo", "p");
    captioned["caption"] = json!("<b>One</b>");
    captioned["parse_mode"] = json!("HTML");
    let sent = send(json!([captioned, item("video", "v")]), files()).await.expect("sent");
    assert_eq!(sent[0]["media_group_id"], sent[1]["media_group_id"]);
    let expected = "== private chat: Ada ==\n\
         [1] satchel (album):\n    + photo p.png (image/jpeg, 100 B, 10×10, sha256 DIGEST…)\n    **One**\n\
         [2] satchel (album of [1]):\n    + video v.mp4 (application/octet-stream, 24 B, sha256 DIGEST…)\n";
    let transcript = bot.fake.transcript();
    let mut reads = transcript.to_string();
    for file in transcript.files(bot.chat) {
        let digest = file.sha256.to_string();
        reads = reads.replace(&digest[..12], "DIGEST");
    }
    assert_eq!(reads, expected);
}

#[tokio::test]
async fn local_server_returns_paths_and_accepts_larger_files() {
    let root = tempfile::tempdir().expect("a directory");
    let bot = Bot::with(TelegramRules::local(root.path().to_owned())).await;
    let file = FakeFile::generated("big.bin", "application/octet-stream", 5, 21 * 1024 * 1024);
    let composed = satchel_fake_telegram::PersonMessage::file(FileKind::Document, file.clone());
    bot.fake.person_sends(bot.chat, 1001, composed);
    let updates = bot.ask("getUpdates", json!({})).await;
    let id = updates[0]["message"]["document"]["file_id"].clone();
    let path = bot.ask("getFile", json!({ "file_id": id })).await["file_path"].clone();
    let path = std::path::PathBuf::from(path.as_str().expect("a path"));
    assert!(path.starts_with(root.path()) && path.is_absolute(), "{}", path.display());
    let bytes = std::fs::read(&path).expect("the file is there");
    assert_eq!(FakeFile::from_bytes("a", "b", bytes).sha256(), file.sha256());
    bot.ask("setWebhook", json!({ "url": "http://127.0.0.1:9/" })).await;
}
