//! What arrives is what was sent: texts, files, albums, voices, questions, in chats and topics.

use proptest::{
    prelude::*,
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use satchel_domain::{
    Button, MediaInfo,
    part::{FileForm, Markup},
};
use satchel_fake_telegram::{FileKind, TelegramMessage};

use super::*;

fn shown(stage: &OutboundHarness) -> Vec<TelegramMessage> {
    stage.telegram.transcript().visible(stage.chat).cloned().collect()
}

#[tokio::test]
async fn text_is_formatted_without_link_preview() {
    let stage = OutboundHarness::new().await;
    let words = "# Done\n**Bold** & `code` <b>, [a link](https://example.org)\n- one\n\n```rust\nfn main() {}\n```";
    stage.send(text(words)).await.unwrap();
    let message = &shown(&stage)[0];
    assert_eq!(message.words.text, "Done\nBold & code <b>, a link\n• one\n\nfn main() {}");
    let kinds: Vec<&str> = message.words.entities.iter().map(|entity| entity.kind.as_str()).collect();
    assert_eq!(kinds, ["bold", "bold", "code", "text_link", "pre"]);
    let call = &stage.telegram.calls()[0];
    assert_eq!(call.parameters["link_preview_options"]["is_disabled"], true);
}

#[tokio::test]
async fn a_plain_text_is_shown_as_it_is() {
    let stage = OutboundHarness::new().await;
    let words = "**not bold** <b>&amp;</b>";
    stage.send(PartContent::Text { text: words.to_owned(), markup: Markup::Plain, files: Vec::new() }).await.unwrap();
    let message = &shown(&stage)[0];
    assert_eq!((message.words.text.as_str(), message.words.entities.len()), (words, 0));
}

#[tokio::test]
async fn every_chunk_of_a_long_text_is_taken() {
    let stage = OutboundHarness::new().await;
    let paragraph = "Ein *langer* Satz über `alles` und 😀 [mehr](https://example.org/a?b=c&d=e).\n\n";
    let table = "| a | b |\n|---|---|\n| 1 | **2** |\n";
    let code = format!("```python\n{}```\n\n", "print('<&>')\n".repeat(200));
    let whole = format!("{}{table}\n{code}{}", paragraph.repeat(60), "1. ein Punkt\n".repeat(400));
    let limit = tables::telegram().text;
    let chunks = satchel_routing::split::split(&whole, &limit);
    assert!(chunks.len() > 3, "{}", chunks.len());
    for chunk in &chunks {
        stage.send(text(chunk)).await.unwrap();
    }
    let messages = shown(&stage);
    assert_eq!(messages.len(), chunks.len());
    assert!(messages.iter().all(|message| message.words.dropped_entities == 0), "no formatting is dropped");
    let points: usize = messages.iter().map(|message| message.words.text.matches("ein Punkt").count()).sum();
    assert_eq!(points, 400);
}

/// Pieces of which hostile texts are made.
fn markdown() -> impl Strategy<Value = String> {
    let marks = prop::sample::select(vec![
        "**",
        "*",
        "_",
        "`",
        "~~",
        "\n",
        "\n\n",
        "# ",
        "- ",
        "\t- ",
        "1. ",
        "> ",
        "> > ",
        "```\n",
        "```rust\n",
        "    ",
        "| a | b |\n|---|---|\n| ",
        " | ",
        "[x](https://a.example?a=1&b=\"2\")",
        "[",
        "](",
        ")",
        "![x](y.png)",
        "[^1]",
        "- [x] ",
        "---\n",
        "<br>",
        "<b>",
        "</pre>",
        "&amp;",
        "&",
        "&#x0;",
        "\\",
        "<tg-spoiler>",
        "\u{202e}",
        "\u{0}",
    ]);
    let piece = prop_oneof![2 => "[a-zа-я😀 ]{1,300}", 1 => "\\PC{0,9}", 3 => marks.prop_map(str::to_owned)];
    prop::collection::vec(piece, 1..120).prop_map(|pieces| pieces.concat())
}

#[tokio::test]
async fn any_model_markdown_is_accepted_as_rendered() {
    let stage = OutboundHarness::new().await;
    let mut runner = TestRunner::deterministic();
    let mut sent = 0;
    for _ in 0..60 {
        let whole = markdown().new_tree(&mut runner).unwrap().current();
        for chunk in satchel_routing::split::split(&whole, &tables::telegram().text) {
            match stage.send(text(&chunk)).await {
                Ok(_) => sent += 1,
                // What is nothing but white space to Telegram is sent by its marks, and may still be nothing.
                Err(SendError::Refused { reason, .. }) if reason == "message text is empty" => {}
                other => panic!("{other:?}: {chunk:?}"),
            }
        }
    }
    assert!(sent > 60, "{sent}");
    let transcript = stage.telegram.transcript();
    assert!(transcript.visible(stage.chat).all(|message| message.words.dropped_entities == 0));
}

#[tokio::test]
async fn each_file_form_is_sent_as_its_kind() {
    let mp4 = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom".as_slice();
    let gif = b"GIF89a\x01\0\x01\0".as_slice();
    for (file, form, kind) in [
        (photo(1), FileForm::Photo, FileKind::Photo),
        (FakeFile::from_bytes("film.mp4", "video/mp4", mp4), FileForm::Video, FileKind::Video),
        (FakeFile::from_bytes("a.gif", "image/gif", gif), FileForm::Animation, FileKind::Animation),
        (FakeFile::from_bytes("song.mp3", "audio/mpeg", b"ID3\x04".as_slice()), FileForm::Audio, FileKind::Audio),
        (
            FakeFile::from_bytes("Отчёт \"май\".pdf", "application/pdf", b"%PDF".as_slice()),
            FileForm::Document,
            FileKind::Document,
        ),
        (photo(2), FileForm::Document, FileKind::Document),
    ] {
        let stage = OutboundHarness::new().await;
        let mut item = stage.item(&file, form).await;
        item.attachment.media = MediaInfo { duration_ms: Some(2_100), ..item.attachment.media };
        item.caption = "*a* <caption>".to_owned();
        let sent = stage.send(PartContent::File(item)).await.unwrap();
        let messages = shown(&stage);
        let arrived = messages[0].file().unwrap();
        assert_eq!(sent, [MessageRef(messages[0].id.to_string())], "{form:?}");
        assert_eq!((arrived.kind, arrived.sha256), (kind, file.sha256()), "{form:?}");
        assert_eq!(messages[0].words.text, "*a* <caption>", "{form:?}: descriptions are no Markdown");
        if form != FileForm::Photo {
            assert_eq!(arrived.filename, file.filename, "{form:?}");
        }
        if !matches!(form, FileForm::Photo | FileForm::Document) {
            assert_eq!(arrived.duration, 3, "{form:?}: whole seconds, none too few");
        }
    }
}

#[tokio::test]
async fn an_album_keeps_its_order_and_each_caption() {
    let stage = OutboundHarness::new().await;
    let film = FakeFile::from_bytes("film.mp4", "video/mp4", b"\0\0\0\x18ftypmp42\0\0\0\0".as_slice());
    let mut items = vec![
        stage.item(&photo(1), FileForm::Photo).await,
        stage.item(&film, FileForm::Video).await,
        stage.item(&photo(3), FileForm::Photo).await,
    ];
    items[0].caption = "first".to_owned();
    items[2].caption = "third".to_owned();
    let sent = stage.send(PartContent::Album { items }).await.unwrap();
    let messages = shown(&stage);
    assert_eq!(sent, messages.iter().map(|message| MessageRef(message.id.to_string())).collect::<Vec<_>>());
    let digests: Vec<_> = messages.iter().map(|message| message.file().unwrap().sha256).collect();
    assert_eq!(digests, [photo(1).sha256(), film.sha256(), photo(3).sha256()]);
    let captions: Vec<_> = messages.iter().map(|message| message.words.text.as_str()).collect();
    assert_eq!(captions, ["first", "", "third"]);
    assert!(messages.iter().all(|message| message.album == messages[0].album && message.album.is_some()));
}

#[tokio::test]
async fn voice_is_voice_message_or_audio_file() {
    let stage = OutboundHarness::new().await;
    let (bubble, file) = (stage.voice(false).await, stage.voice(true).await);
    stage.send(bubble).await.unwrap();
    stage.send(file).await.unwrap();
    let kinds: Vec<_> =
        shown(&stage).iter().map(|message| message.file().map(|file| (file.kind, file.duration))).collect();
    assert_eq!(kinds, [Some((FileKind::Voice, 2)), Some((FileKind::Audio, 2))]);
}

#[tokio::test]
async fn question_buttons_carry_commands_until_edited() {
    let stage = OutboundHarness::new().await;
    let button = |label: &str, command: &str| Button { label: label.to_owned(), command: command.to_owned() };
    let question = PartContent::question(
        "Write **a.txt**? `/allow 7F3K` or `/refuse 7F3K`",
        vec![button("Allow", "/allow 7F3K"), button("Refuse", "/refuse 7F3K")],
    );
    let sent = stage.send(question).await.unwrap();
    let buttons = shown(&stage)[0].buttons.concat();
    let commands: Vec<_> = buttons.iter().map(|button| button.callback_data.as_deref().unwrap()).collect();
    assert_eq!(commands, ["/allow 7F3K", "/refuse 7F3K"]);
    stage.channel.edit(&sent[0], &stage.part(text("Allowed"))).await.unwrap();
    let message = &shown(&stage)[0];
    assert_eq!((message.words.text.as_str(), message.buttons.len()), ("Allowed", 0));
}

#[tokio::test]
async fn notice_is_sent_as_text() {
    let stage = OutboundHarness::new().await;
    stage.send(PartContent::Notice { text: "3 of 4 files sent".to_owned() }).await.unwrap();
    assert_eq!(stage.texts(), ["3 of 4 files sent"]);
}

#[tokio::test]
async fn reply_references_message_and_survives_its_deletion() {
    let stage = OutboundHarness::new().await;
    let asked = stage.telegram.person_says(stage.chat, stage.chat, "hello?");
    let reply_to = Some(MessageRef(asked.to_string()));
    let part = PostRequest { reply_to, ..stage.part(text("hello")) };
    stage.channel.post(&part).await.unwrap();
    stage.telegram.person_deletes(stage.chat, asked);
    stage.channel.post(&part).await.unwrap();
    let replies: Vec<_> = shown(&stage).iter().map(|message| message.reply_to).collect();
    assert_eq!(replies, [Some(asked), None]);
}

#[tokio::test]
async fn forum_topic_is_its_own_conversation() {
    let stage = OutboundHarness::new().await;
    let forum = stage.telegram.forum("Team", &[stage.chat]);
    let topic = stage.telegram.topic(forum, "Plans");
    let in_topic = |content| PostRequest {
        conversation: conversation(&format!("{forum}/{topic}")),
        ..stage.part_in(forum, content)
    };
    let album = PartContent::Album {
        items: vec![stage.item(&photo(1), FileForm::Photo).await, stage.item(&photo(2), FileForm::Photo).await],
    };
    let voice = stage.voice(false).await;
    for content in [text("hello"), album, voice] {
        stage.channel.post(&in_topic(content)).await.unwrap();
    }
    stage.channel.post(&stage.part_in(forum, text("to all"))).await.unwrap();
    let threads: Vec<_> = stage.telegram.transcript().visible(forum).map(|message| message.thread).collect();
    assert_eq!(threads, [Some(topic), Some(topic), Some(topic), Some(topic), None]);
    let nowhere = PostRequest { conversation: conversation(&format!("{forum}/999")), ..in_topic(text("x")) };
    stage.channel.post(&nowhere).await.unwrap();
    let transcript = stage.telegram.transcript();
    let last = transcript.visible(forum).last().expect("it is in the group");
    assert_eq!((last.thread, transcript.texts(forum).last()), (None, Some(&"x")));
}

#[tokio::test]
async fn text_with_files_is_refused_for_replanning() {
    let stage = OutboundHarness::new().await;
    let files = vec![stage.item(&photo(1), FileForm::Photo).await];
    let answer = stage.send(PartContent::Text { text: "x".to_owned(), markup: Markup::Rich, files }).await;
    let wrong =
        matches!(answer, Err(SendError::Refused { refusal: satchel_domain::delivery::Refusal::UnsupportedKind, .. }));
    assert!(wrong, "{answer:?}");
    assert_eq!(stage.telegram.requests("*"), 0);
}

#[tokio::test]
async fn activity_is_sent_without_delaying_others() {
    let stage = OutboundHarness::new().await;
    let chat = conversation(&stage.chat.to_string());
    let performed = stage.telegram.on_nth("sendChatAction", 1, satchel_fake_kit::RequestPhase::Performed);
    stage.channel.show_activity(&chat, satchel_ports::Activity::Writing).await;
    performed.await.unwrap();
    assert_eq!(stage.telegram.transcript().chats[&stage.chat].actions, ["typing"]);

    let hanging = OutboundHarness::new().await;
    hanging.telegram.script(
        "sendChatAction",
        satchel_fake_kit::FaultTiming::Every,
        satchel_fake_kit::Fault::Hang { performed: false },
    );
    let arrived = hanging.telegram.on_nth("sendChatAction", 1, satchel_fake_kit::RequestPhase::Arrived);
    hanging.channel.show_activity(&chat, satchel_ports::Activity::Writing).await;
    arrived.await.unwrap();
    for _ in 0..20 {
        hanging.channel.show_activity(&chat, satchel_ports::Activity::Speaking).await;
    }
    hanging.send(text("not held up")).await.unwrap();
    assert_eq!(hanging.telegram.requests("sendChatAction"), 1, "one at a time");
    let nowhere = "console:main".parse().unwrap();
    hanging.channel.show_activity(&nowhere, satchel_ports::Activity::Writing).await;
}

#[tokio::test]
async fn groups_are_streamed_to_more_slowly() {
    use satchel_domain::capabilities::StreamRule;
    let stage = OutboundHarness::with(TelegramRules::default(), tables::telegram()).await;
    let rule = |key: &str| stage.channel.capabilities(&conversation(key)).stream;
    assert_eq!(rule("4711"), StreamRule::Edits { interval_ms: 1_100 });
    assert_eq!(rule("-100123/42"), StreamRule::Edits { interval_ms: 3_200 });
    assert_eq!(stage.channel.capabilities(&"console:main".parse().unwrap()), tables::telegram());
}
