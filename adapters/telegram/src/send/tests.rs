//! The Bot API calls that parts are composed into.

use std::num::NonZeroU64;

use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, Button, Filename, MediaInfo, MessageRef, PartContent, Sha256,
    Timestamp, Visibility,
    part::{FileForm, FileItem, Markup, PreparedVoice},
};
use serde_json::json;
use teloxide::types::{ChatId, MessageId, ThreadId};
use uuid::Uuid;

use super::*;
use crate::address::ConversationAddress;

const CHAT: ConversationAddress = ConversationAddress { chat: ChatId(4711), topic: None };
const TOPIC: ConversationAddress = ConversationAddress { chat: ChatId(-100_123), topic: Some(ThreadId(MessageId(42))) };

fn limit() -> satchel_domain::capabilities::TextLimit {
    satchel_routing::tables::telegram().text
}

fn item(filename: &str, mime: &str, form: FileForm, media: MediaInfo, caption: &str) -> FileItem {
    let attachment = Attachment {
        id: AttachmentId(Uuid::from_u128(1)),
        number: NonZeroU64::MIN,
        conversation: CHAT.conversation(),
        source: AttachmentSource::Tool,
        filename: Filename::from_untrusted(filename),
        mime: mime.to_owned(),
        bytes: 1_000,
        sha256: Sha256([1; 32]),
        media,
        description: String::new(),
        created_at: Timestamp(0),
        visibility: Visibility::Deliver,
        link_revocation: None,
    };
    FileItem { attachment, form, caption: caption.to_owned() }
}

/// The call as one value, to be compared as a whole.
fn call_json(composed: &ComposedMessage) -> Value {
    let uploads: Vec<_> = composed
        .uploads
        .iter()
        .map(|upload| json!([upload.name, upload.filename.as_str(), upload.mime, upload.bytes]))
        .collect();
    json!({ "method": composed.method, "fields": composed.fields, "uploads": uploads })
}

fn message_call(content: &PartContent, address: ConversationAddress) -> Value {
    let reply_to = MessageRef("7".to_owned());
    call_json(&compose_message(content, address, Some(&reply_to), &limit()).unwrap())
}

#[test]
fn every_content_kind_becomes_documented_call() {
    let sides = MediaInfo { width: Some(640), height: Some(480), ..MediaInfo::default() };
    let film = MediaInfo { duration_ms: Some(61_500), ..sides };
    let photo = item("a.jpg", "image/jpeg", FileForm::Photo, sides, "*not* <b>markup</b>");
    let video = item("б.mp4", "video/mp4", FileForm::Video, film, "");
    let song = MediaInfo { duration_ms: Some(1_000), ..MediaInfo::default() };
    let spoken = |as_file| PartContent::Voice {
        text: "hello".to_owned(),
        in_text: true,
        prepared: Some(PreparedVoice {
            sha256: Sha256([2; 32]),
            bytes: 99,
            duration_ms: 1_200,
            waveform: vec![0, 255],
        }),
        as_file,
        caption: String::new(),
    };
    let button = |label: &str, command: &str| Button { label: label.to_owned(), command: command.to_owned() };
    let question = PartContent::question(
        "Write **a.txt**? /allow 1234",
        vec![
            button("Allow", "/allow 1234"),
            button("Refuse", "/refuse 1234"),
            button("Allow everything for an hour", "/allow all 1234"),
            button("Too long to be carried", &"x".repeat(65)),
        ],
    );
    let plain = PartContent::Text { text: "*as* <is>".to_owned(), markup: Markup::Plain, files: Vec::new() };
    let calls = [
        ("text", message_call(&PartContent::from_text("**Hi** <you>"), TOPIC)),
        ("plain text", message_call(&plain, CHAT)),
        ("a text of which nothing would be seen", message_call(&PartContent::from_text("```\n```"), CHAT)),
        ("notice", message_call(&PartContent::Notice { text: "3 of 4 sent".to_owned() }, CHAT)),
        ("question", message_call(&question, CHAT)),
        ("photo", message_call(&PartContent::File(photo.clone()), TOPIC)),
        ("video", message_call(&PartContent::File(video.clone()), CHAT)),
        (
            "animation",
            message_call(&PartContent::File(item("a.gif", "image/gif", FileForm::Animation, sides, "")), CHAT),
        ),
        ("audio", message_call(&PartContent::File(item("a.mp3", "audio/mpeg", FileForm::Audio, song, "")), CHAT)),
        (
            "document",
            message_call(&PartContent::File(item("a\".pdf", "application/pdf", FileForm::Document, sides, "c")), CHAT),
        ),
        ("album", message_call(&PartContent::Album { items: vec![photo.clone(), video] }, TOPIC)),
        ("album of one", message_call(&PartContent::Album { items: vec![photo.clone()] }, CHAT)),
        ("voice", message_call(&spoken(false), CHAT)),
        ("voice as a file", message_call(&spoken(true), CHAT)),
    ];
    for (name, call) in calls {
        insta::assert_json_snapshot!(name, call);
    }
}

#[test]
fn edit_replaces_content_and_removes_old_buttons() {
    let edited = |content: &PartContent| call_json(&compose_edit(content, CHAT, MessageId(9), &limit()).unwrap());
    let text = edited(&PartContent::from_text("_done_"));
    let expected = json!({
        "chat_id": 4711, "message_id": 9, "text": "<i>done</i>", "parse_mode": "HTML",
        "link_preview_options": { "is_disabled": true },
    });
    assert_eq!((&text["method"], &text["fields"]), (&json!("EditMessageText"), &expected));
    let photo = item("a.jpg", "image/jpeg", FileForm::Photo, MediaInfo::default(), "seen");
    let media = edited(&PartContent::File(photo));
    let expected = json!({ "type": "photo", "media": "attach://file0", "caption": "seen" });
    assert_eq!((&media["method"], &media["fields"]["media"]), (&json!("EditMessageMedia"), &expected));
}

#[test]
fn unsendable_content_fails_to_compose() {
    let text_with_files = PartContent::Text {
        text: "x".to_owned(),
        markup: Markup::Rich,
        files: vec![item("a.txt", "text/plain", FileForm::Document, MediaInfo::default(), "")],
    };
    let unprepared_voice = PartContent::Voice {
        text: "x".to_owned(),
        in_text: false,
        prepared: None,
        as_file: false,
        caption: String::new(),
    };
    for (content, sending, editing) in [
        (&text_with_files, ComposeError::FilesOnText, ComposeError::FilesOnText),
        (&unprepared_voice, ComposeError::Empty, ComposeError::NotEditable),
    ] {
        assert_eq!(compose_message(content, CHAT, None, &limit()), Err(sending));
        assert_eq!(compose_edit(content, CHAT, MessageId(1), &limit()), Err(editing));
    }
}

#[test]
fn text_in_blocks_becomes_a_rich_message() {
    let table = "| A |\n|---|\n| 1 |";
    let buttons = vec![Button { label: "I can't".to_owned(), command: "/rich off".to_owned() }];
    let sample = PartContent::Question { text: table.to_owned(), markup: Markup::Blocks, buttons };
    let sent = message_call(&sample, TOPIC);
    assert_eq!(sent["method"], "SendRichMessage");
    let rich = json!({
        "html": "<table bordered><tr><th>A</th></tr><tr><td>1</td></tr></table>", "skip_entity_detection": true,
    });
    let mut names: Vec<_> = sent["fields"].as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["chat_id", "message_thread_id", "reply_markup", "reply_parameters", "rich_message"]);
    assert_eq!(sent["fields"]["rich_message"], rich);

    let text = PartContent::Text { text: table.to_owned(), markup: Markup::Blocks, files: Vec::new() };
    let edited = call_json(&compose_edit(&text, CHAT, MessageId(9), &limit()).unwrap());
    let expected = json!({ "chat_id": 4711, "message_id": 9, "rich_message": rich });
    assert_eq!((&edited["method"], &edited["fields"]), (&json!("EditMessageText"), &expected));

    let blank = PartContent::Text { text: "```\n```".to_owned(), markup: Markup::Blocks, files: Vec::new() };
    assert_eq!(message_call(&blank, CHAT)["fields"]["text"], "```\n```", "nothing of it would be seen");
}
