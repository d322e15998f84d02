//! Everything that people can send arrives as it was meant.

use std::collections::BTreeSet;

use satchel_contracts::log_capture::LogCapture;
use satchel_domain::{FileReference, InboundMessage};
use satchel_fake_kit::FakeFile;
use satchel_fake_telegram::{FileKind, PersonMessage};
use satchel_wait::wait_until;
use serde_json::json;

use super::harness::{ANN, BOB, InboundHarness, RecordingInbound};

fn file(name: &str, mime: &str) -> FakeFile {
    FakeFile::generated(name, mime, 7, 3_000)
}

/// What comes of whatever people do.
async fn taken(bench: &InboundHarness) -> Vec<InboundMessage> {
    let taker = RecordingInbound::new();
    bench.listen_to_all(&taker).await;
    assert!(taker.unreadable().is_empty(), "{:?}", taker.unreadable());
    taker.taken()
}

#[tokio::test]
async fn every_file_kind_has_name_type_and_size() {
    let bench = InboundHarness::start().await;
    let mut expected = Vec::new();
    for (kind, name, mime, shown, shown_mime) in [
        (FileKind::Photo, "beach.jpg", "image/jpeg", "photo-N.jpg", "image/jpeg"),
        (FileKind::Document, "скан №1.pdf", "application/pdf", "скан №1.pdf", "application/pdf"),
        (FileKind::Document, "../x\u{202E}fdp.exe", "application/x-dosexec", "xfdp.exe", "application/x-dosexec"),
        (FileKind::Voice, "note.ogg", "audio/ogg", "voice-N.ogg", "audio/ogg"),
        (FileKind::Audio, "song.mp3", "audio/mpeg", "song.mp3", "audio/mpeg"),
        (FileKind::Video, "clip.mp4", "video/mp4", "clip.mp4", "video/mp4"),
        (FileKind::VideoNote, "round.mp4", "video/mp4", "video-note-N.mp4", "video/mp4"),
        (FileKind::Animation, "cat.mp4", "video/mp4", "cat.mp4", "video/mp4"),
        (FileKind::Sticker, "thumb.webp", "image/webp", "sticker-N.webp", "image/webp"),
        (FileKind::Sticker, "thumb.webm", "video/webm", "sticker-N.webm", "video/webm"),
    ] {
        let sent = bench.fake.person_sends(ANN, ANN, PersonMessage::file(kind, file(name, mime)));
        let text = if kind == FileKind::Sticker { "[sticker: 👍]" } else { "" };
        let name = shown.replace('N', &sent.to_string());
        expected.push((
            format!("{}/42:{sent}", bench.fake.bot().0),
            name,
            Some(shown_mime.to_owned()),
            kind == FileKind::Voice,
            text.to_owned(),
        ));
    }
    let came: Vec<_> = taken(&bench)
        .await
        .into_iter()
        .map(|message| {
            let [file] = message.files.as_slice() else { panic!("one file each: {message:?}") };
            assert_eq!(file.bytes, Some(3_000));
            (message.key.clone(), file.filename.to_string(), file.mime.clone(), file.voice_note, message.text.clone())
        })
        .collect();
    assert_eq!(came, expected);
}

#[tokio::test]
async fn words_places_people_and_captions_come_as_text() {
    let bench = InboundHarness::start().await;
    bench.fake.person_says(ANN, ANN, "hello");
    bench.fake.person_sends(ANN, ANN, PersonMessage::location(52.520_008, -13.404_954));
    bench.fake.person_sends(ANN, ANN, PersonMessage::contact("Bob", "+49 30 1234"));
    let photo = PersonMessage::file(FileKind::Photo, FakeFile::photo("a.jpg", 640, 480, 1, 9_000));
    bench.fake.person_sends(ANN, ANN, photo.caption("the beach"));
    let texts: Vec<String> = taken(&bench).await.into_iter().map(|message| message.text).collect();
    assert_eq!(texts, ["hello", "[location: 52.520008, -13.404954]", "[contact: Bob, +49 30 1234]", "the beach"]);
}

#[tokio::test]
async fn an_edit_says_what_it_replaces() {
    let bench = InboundHarness::start().await;
    let said = bench.fake.person_says(ANN, ANN, "helo");
    bench.fake.person_edits(ANN, ANN, said, "hello");
    bench.fake.person_edits(ANN, ANN, said, "hello!");
    let came = taken(&bench).await;
    assert_eq!(came.iter().map(|message| message.text.as_str()).collect::<Vec<_>>(), ["helo", "hello", "hello!"]);
    assert!(came[1..].iter().all(|edit| edit.edit_of.as_deref() == Some(came[0].key.as_str())));
    assert_ne!(came[1].key, came[2].key);
    assert!(came[1].key.starts_with(&format!("{}:", came[0].key)));
}

#[tokio::test]
async fn an_album_is_one_thing_in_its_order() {
    let bench = InboundHarness::start().await;
    let item = |name: &str| PersonMessage::file(FileKind::Document, file(name, "text/plain"));
    bench.fake.person_sends_album(ANN, ANN, vec![item("1.txt").caption("three"), item("2.txt"), item("3.txt")]);
    bench.fake.person_sends_album(ANN, ANN, vec![item("4.txt"), item("5.txt")]);
    let came = taken(&bench).await;
    let names: Vec<&str> = came.iter().map(|message| message.files[0].filename.as_str()).collect();
    assert_eq!(names, ["1.txt", "2.txt", "3.txt", "4.txt", "5.txt"]);
    assert!(came[0].album.is_some() && came[..3].iter().all(|message| message.album == came[0].album));
    assert!(came[3].album == came[4].album && came[3].album != came[0].album);
}

#[tokio::test]
async fn replied_and_forwarded_content_is_included() {
    let bench = InboundHarness::start().await;
    let plan = PersonMessage::file(FileKind::Document, file("plan.pdf", "application/pdf")).caption("my plan");
    let sent = bench.fake.person_sends(ANN, ANN, plan);
    bench.fake.person_sends(ANN, ANN, PersonMessage::text("print it").replying_to(sent));
    bench.fake.person_sends(ANN, ANN, PersonMessage::text("buy milk").forwarded_from(BOB));
    let came = taken(&bench).await;
    assert_eq!(came[1].text, "[in reply to a message of Ann with plan.pdf:]\n> my plan\n\nprint it");
    let quoted: Vec<_> = came[0].files.iter().cloned().map(FileReference::into_quoted).collect();
    assert_eq!(came[1].files, quoted, "the same file, which isn't stored again");
    assert_eq!(came[2].text, "[forwarded from Bob:]\n> buy milk");
    assert_eq!(came[2].sender.name, "Ann");
}

#[tokio::test]
async fn topics_are_conversations_and_groups_need_addressing() {
    let mut bench = InboundHarness::start().await;
    let forum = bench.fake.forum("Family", &[ANN, BOB]);
    let trip = bench.fake.topic(forum, "Trip");
    let open = bench.fake.group("Open", &[ANN, BOB]);
    bench.settings.answers_in = vec![open.to_string()];
    let (_, name) = bench.fake.bot();
    bench.fake.person_says(forum, ANN, "hello all");
    bench.fake.person_sends(forum, ANN, PersonMessage::text(&format!("@{name} when?")).in_topic(trip));
    bench.fake.person_says(forum, BOB, &format!("/files@{name}"));
    bench.fake.person_says(forum, BOB, "/files@another_bot");
    bench.fake.person_says(open, BOB, "just so");
    // Conversations don't wait for each other.
    let came: BTreeSet<_> = taken(&bench)
        .await
        .into_iter()
        .map(|message| (message.conversation.key().to_owned(), message.sender.id, message.group, message.text))
        .collect();
    let expected = BTreeSet::from([
        (format!("{forum}/{trip}"), "42".to_owned(), true, "when?".to_owned()),
        (forum.to_string(), "43".to_owned(), true, "/files".to_owned()),
        (open.to_string(), "43".to_owned(), true, "just so".to_owned()),
    ]);
    assert_eq!(came, expected);
}

#[tokio::test]
async fn topics_of_a_private_chat_are_conversations_of_the_person() {
    let bench = InboundHarness::start().await;
    bench.fake.enable_private_topics();
    let trip = bench.fake.private_topic(ANN, "Trip");
    bench.fake.rename_private_topic(ANN, trip, "Trip to the sea");
    bench.fake.person_sends(ANN, ANN, PersonMessage::text("when?").in_topic(trip));
    let items =
        ["a.png", "b.png"].map(|name| PersonMessage::file(FileKind::Photo, file(name, "image/png")).in_topic(trip));
    bench.fake.person_sends_album(ANN, ANN, items.to_vec());
    bench.fake.person_says(ANN, ANN, "and here?");
    let came: Vec<_> = taken(&bench)
        .await
        .into_iter()
        .map(|message| (message.conversation.key().to_owned(), message.group, message.text, message.files.len()))
        .collect();
    let in_topic = |text: &str, files| (format!("{ANN}/{trip}"), false, text.to_owned(), files);
    let (mut topic, chat): (Vec<_>, Vec<_>) = came.into_iter().partition(|(key, ..)| key.contains('/'));
    topic.sort();
    assert_eq!(topic, [in_topic("", 1), in_topic("", 1), in_topic("when?", 0)]);
    assert_eq!(chat, [(ANN.to_string(), false, "and here?".to_owned(), 0)], "of a topic's name nobody has to know");
}

#[tokio::test]
async fn reply_to_bot_and_mentioning_album_are_addressed() {
    let bench = InboundHarness::start().await;
    let group = bench.fake.supergroup("Family", &[ANN, BOB]);
    let (_, name) = bench.fake.bot();
    let asked = bench.call("sendMessage", json!({ "chat_id": group, "text": "Which one?" })).await;
    let asked = asked["result"]["message_id"].as_i64().unwrap();
    bench.fake.person_sends(group, BOB, PersonMessage::text("this one").replying_to(asked));
    let item = |name: &str| PersonMessage::file(FileKind::Document, file(name, "text/plain"));
    let named = item("1.txt").caption(&format!("keep these @{name}"));
    bench.fake.person_sends_album(group, ANN, vec![named, item("2.txt")]);
    bench.fake.person_sends_album(group, ANN, vec![item("3.txt").caption("for all of you"), item("4.txt")]);
    let came = taken(&bench).await;
    assert_eq!(came[0].text, "[in reply to your own message:]\n> Which one?\n\nthis one");
    let names: Vec<&str> = came[1..].iter().map(|message| message.files[0].filename.as_str()).collect();
    assert_eq!((names.as_slice(), came[1].text.as_str()), (["1.txt", "2.txt"].as_slice(), "keep these"));
}

#[tokio::test]
async fn album_is_addressed_by_any_mentioning_item() {
    let bench = InboundHarness::start().await;
    let group = bench.fake.supergroup("Family", &[ANN, BOB]);
    let (_, name) = bench.fake.bot();
    let item = |name: &str| PersonMessage::file(FileKind::Document, file(name, "text/plain"));
    let asked = bench.fake.person_says(group, BOB, "Which ones?");
    let named = item("2.txt").caption(&format!("keep these @{name}"));
    let items = [item("1.txt"), named, item("3.txt")].map(|item| item.replying_to(asked));
    bench.fake.person_sends_album(group, ANN, items.into());
    bench.fake.person_sends_album(group, ANN, vec![item("4.txt"), item("5.txt").caption("for all of you")]);
    let came = taken(&bench).await;
    let names: Vec<&str> = came.iter().map(|message| message.files[0].filename.as_str()).collect();
    assert_eq!(names, ["1.txt", "2.txt", "3.txt"]);
    assert!(came.iter().all(|message| message.album.is_some() && message.album == came[0].album));
    let texts: Vec<&str> = came.iter().map(|message| message.text.as_str()).collect();
    let answering = "[in reply to a message of Bob:]\n> Which ones?\n\nkeep these";
    assert_eq!(texts, ["", answering, ""], "what it answers is told once, with the words");
}

#[tokio::test]
async fn album_split_across_polls_is_taken_whole() {
    let bench = InboundHarness::start().await;
    let group = bench.fake.supergroup("Family", &[ANN, BOB]);
    let (_, name) = bench.fake.bot();
    let item = |name: &str| PersonMessage::file(FileKind::Document, file(name, "text/plain"));
    // One answer has a hundred updates at most.
    for _ in 0..98 {
        bench.fake.person_says(group, BOB, "just so");
    }
    let named = item("4.txt").caption(&format!("keep these @{name}"));
    bench.fake.person_sends_album(group, ANN, vec![item("1.txt"), item("2.txt"), item("3.txt"), named]);
    let came = taken(&bench).await;
    let names: Vec<&str> = came.iter().map(|message| message.files[0].filename.as_str()).collect();
    assert_eq!(names, ["1.txt", "2.txt", "3.txt", "4.txt"]);
    assert_eq!(came[3].text, "keep these");
}

#[tokio::test]
async fn addressed_album_accepts_later_items() {
    let bench = InboundHarness::start().await;
    let group = bench.fake.supergroup("Family", &[ANN, BOB]);
    let (_, name) = bench.fake.bot();
    let item = |name: &str| PersonMessage::file(FileKind::Document, file(name, "text/plain"));
    let named = item("2.txt").caption(&format!("keep these @{name}"));
    bench.fake.person_sends_album(group, ANN, vec![item("1.txt"), named]);
    let taker = RecordingInbound::new();
    let listening = bench.listen(&taker);
    bench.all_confirmed().await;
    let mut late = taker.taken()[1].raw["message"].clone();
    late["message_id"] = json!(9_000);
    late["caption"] = json!("");
    late["caption_entities"] = json!([]);
    bench.fake.queue_update(json!({ "message": late }));
    late["message_id"] = json!(9_001);
    late["from"]["id"] = json!(BOB);
    bench.fake.queue_update(json!({ "message": late }));
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    let keys: Vec<String> = taker.taken().into_iter().map(|message| message.key).collect();
    assert_eq!(
        (keys.len(), keys[2].as_str()),
        (3, format!("{}/{group}:9000", bench.fake.bot().0).as_str()),
        "another's item is not of it"
    );
}

#[tokio::test]
async fn button_without_command_stops_spinning_without_message() {
    let bench = InboundHarness::start().await;
    let (log, _guard) = LogCapture::listen();
    let buttons = json!({ "inline_keyboard": [[{ "text": "Go", "callback_data": "delete everything" }]] });
    let asked = bench.call("sendMessage", json!({ "chat_id": ANN, "text": "May I?", "reply_markup": buttons })).await;
    bench.fake.person_presses(ANN, asked["result"]["message_id"].as_i64().unwrap(), "Go");
    let taker = RecordingInbound::new();
    let listening = bench.listen(&taker);
    let answered = || bench.fake.transcript().chats[&ANN].presses.iter().all(|press| press.answer.is_some());
    wait_until("it stops spinning", answered).await;
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    assert_eq!((taker.texts().len(), taker.unreadable().len()), (0, 0));
    assert_eq!(log.lines_with("ignoring a pressed button"), 1, "{}", log.text());
    assert!(!log.text().contains("delete everything"), "{}", log.text());
}

#[tokio::test]
async fn pressed_button_stops_spinning_after_storing() {
    let bench = InboundHarness::start().await;
    let buttons = json!({ "inline_keyboard": [[{ "text": "Allow", "callback_data": "/allow A1" }]] });
    let asked = bench.call("sendMessage", json!({ "chat_id": ANN, "text": "May I?", "reply_markup": buttons })).await;
    let asked = asked["result"]["message_id"].as_i64().unwrap();
    let query = bench.fake.person_presses(ANN, asked, "Allow");
    let taker = RecordingInbound::new();
    taker.refuse("telegram:42");
    let listening = bench.listen(&taker);
    taker.tried(3).await;
    assert_eq!(bench.fake.requests("answerCallbackQuery"), 0, "it goes on spinning until the press is stored");
    taker.refuse_nothing();
    let answered = || bench.fake.transcript().chats[&ANN].presses.iter().all(|press| press.answer.is_some());
    wait_until("it stops spinning", answered).await;
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    let came = taker.taken();
    assert_eq!((came[0].key.as_str(), came[0].text.as_str()), (format!("callback:{query}").as_str(), "/allow A1"));
    assert_eq!(came[0].sender.name, "Ann");
}

#[tokio::test]
async fn expired_button_press_is_still_stored() {
    let bench = InboundHarness::start().await;
    let buttons = json!({ "inline_keyboard": [[{ "text": "Allow", "callback_data": "/allow A1" }]] });
    let asked = bench.call("sendMessage", json!({ "chat_id": ANN, "text": "May I?", "reply_markup": buttons })).await;
    bench.fake.person_presses(ANN, asked["result"]["message_id"].as_i64().unwrap(), "Allow");
    bench.fake.expire_presses();
    let (log, _guard) = LogCapture::listen();
    let taker = RecordingInbound::new();
    bench.listen_to_all(&taker).await;
    assert_eq!(taker.texts(), ["/allow A1"]);
    assert_eq!((log.lines_with("WARN"), log.lines_with("ERROR")), (0, 0), "{}", log.text());
}

#[tokio::test]
async fn what_happens_in_chats_is_no_message() {
    let bench = InboundHarness::start().await;
    let group = bench.fake.group("Family", &[ANN, BOB]);
    bench.fake.person_blocks(BOB);
    let supergroup = bench.fake.migrate(group);
    bench.fake.person_says(ANN, ANN, "hello");
    let taker = RecordingInbound::new();
    bench.listen_to_all(&taker).await;
    assert_eq!((taker.texts(), taker.unreadable()), (vec!["hello".to_owned()], Vec::new()));
    let moved = (format!("telegram:{group}"), format!("telegram:{supergroup}"));
    assert_eq!(taker.moved(), [moved.clone(), moved], "both chats tell of it");
}
