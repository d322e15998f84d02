//! What each kind of part becomes, the names of its files, and how a response differs from it.

use std::num::NonZeroU64;

use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, Button, Filename, MediaInfo, MessageRef, PartContent, PartId, Sha256,
    Timestamp, TurnId, Visibility,
    part::{FileForm, FileItem, Markup, PreparedVoice},
};
use satchel_ports::PostRequest;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

fn name(text: &str) -> Filename {
    Filename::from_untrusted(text)
}

#[test]
fn equal_names_are_numbered_without_collisions() {
    let given = ["a.txt", "a.txt", "A.txt", "a-2.txt", "b", "b"].map(name);
    let numbered: Vec<String> = number_duplicates(&given).iter().map(ToString::to_string).collect();
    assert_eq!(numbered, ["a.txt", "a-2.txt", "A-3.txt", "a-2-2.txt", "b", "b-2"]);
}

fn composed(words: &str, sizes: &[u64]) -> ComposedMessage {
    let upload = |bytes: &u64| FileUpload {
        sha256: satchel_domain::Sha256([1; 32]),
        bytes: *bytes,
        filename: satchel_domain::Filename::from_untrusted("a b.txt"),
        mime: "text/plain".to_owned(),
    };
    let payload = json!({ "content": words }).as_object().cloned().unwrap_or_default();
    ComposedMessage { payload, uploads: sizes.iter().map(upload).collect() }
}

#[test]
fn response_differs_by_text_file_count_and_sizes() {
    let files = |sizes: &[u64]| sizes.iter().map(|size| json!({ "size": size, "filename": "a_b.txt" })).collect();
    for (content, attachments, differs) in [
        (json!("hello"), files(&[1, 2]), false),
        (json!("\u{200e}hello\r\n"), files(&[1, 2]), false),
        (json!("hello!"), files(&[1, 2]), true),
        (json!(""), files(&[1, 2]), true),
        (json!("hello"), files(&[1]), true),
        (json!("hello"), files(&[]), true),
        (json!("hello"), files(&[1, 3]), true),
        (json!("hello"), files(&[1, 2, 3]), true),
        (json!(null), json!(null), false),
        (json!(7), json!({ "odd": 1 }), false),
        (json!("hello"), json!([{}, 7]), false),
    ] {
        let answer = json!({ "id": "1", "content": content, "attachments": attachments });
        let sent: SentMessage = serde_json::from_value(answer.clone()).unwrap();
        assert_eq!(sent.is_different_from(&composed(" hello \n", &[1, 2])), differs, "{answer}");
    }
    let bare: SentMessage = serde_json::from_value(json!({ "id": "1" })).unwrap();
    assert!(!bare.is_different_from(&composed("hello", &[1])), "nothing is shown");
    let answer = json!({ "id": "1", "content": "hello", "attachments": files(&[1, 2]) });
    let sent: SentMessage = serde_json::from_value(answer).unwrap();
    assert!(!sent.is_different_from(&composed("hello", &[])), "its files may stay");
    assert!(sent.is_different_from(&composed("hello!", &[])));
}

#[test]
fn files_are_present_only_if_response_lists_each() {
    let files = |sizes: &[u64]| sizes.iter().map(|size| json!({ "size": size })).collect::<Value>();
    for (attachments, shows) in [
        (files(&[1, 2]), true),
        (files(&[2, 1]), false),
        (files(&[1]), false),
        (files(&[1, 2, 3]), false),
        (json!([{ "size": 1 }, {}]), false),
        (json!([]), false),
        (json!(null), false),
    ] {
        let sent: SentMessage = serde_json::from_value(json!({ "id": "1", "attachments": attachments })).unwrap();
        assert_eq!(sent.has_files_of(&composed("hello", &[1, 2])), shows, "{attachments}");
    }
}

#[test]
fn whitespace_and_formatting_count_as_text() {
    for (shown, sent) in [("ab", "a b"), ("a b", "a\nb"), ("**a**", "a"), ("a", "A")] {
        assert!(!is_same_text(shown, sent), "{shown:?} is not {sent:?}");
    }
}

fn item(filename: &str, caption: &str) -> FileItem {
    let attachment = Attachment {
        id: AttachmentId(Uuid::from_u128(1)),
        number: NonZeroU64::MIN,
        conversation: "discord:1".parse().unwrap(),
        source: AttachmentSource::Tool,
        filename: Filename::from_untrusted(filename),
        mime: "text/plain".to_owned(),
        bytes: 5,
        sha256: Sha256([1; 32]),
        media: MediaInfo::default(),
        description: String::new(),
        created_at: Timestamp(0),
        visibility: Visibility::Deliver,
        link_revocation: None,
    };
    FileItem { attachment, form: FileForm::Document, caption: caption.to_owned() }
}

fn part(content: PartContent) -> PostRequest {
    PostRequest {
        part_id: PartId(Uuid::from_u128(0x0190_c5a0_7f3b_7c62_8d5e_3f1a_0000_0001)),
        turn: TurnId(Uuid::from_u128(1)),
        conversation: "discord:42".parse().unwrap(),
        content,
        reply_to: Some(MessageRef("4711".to_owned())),
    }
}

fn voice(as_file: bool, points: usize) -> PartContent {
    let waveform = (0..points).map(|point| u8::try_from(point % 256).unwrap()).collect();
    let prepared = PreparedVoice { sha256: Sha256([2; 32]), bytes: 9, duration_ms: 1_250, waveform };
    PartContent::Voice {
        text: "hello".to_owned(),
        in_text: true,
        prepared: Some(prepared),
        as_file,
        caption: "(possible duplicate)".to_owned(),
    }
}

fn button(label: &str, command: &str) -> Button {
    Button { label: label.to_owned(), command: command.to_owned() }
}

fn question() -> PartContent {
    let buttons = vec![button("Allow", "/allow 7"), button("Refuse", "/refuse 7")];
    PartContent::question("May I?", buttons)
}

fn payload(content: PartContent) -> Value {
    Value::Object(new_message(&part(content), 42, 2000).unwrap().payload)
}

#[test]
fn every_kind_becomes_what_discord_takes() {
    let text = PartContent::from_text("**hello** @everyone");
    let bundle = PartContent::Text {
        text: "two files".to_owned(),
        markup: Markup::Rich,
        files: vec![item("план.txt", "the plan"), item("план.txt", "")],
    };
    for (name, content) in [
        ("text", text.clone()),
        ("bundle", bundle.clone()),
        ("plain text", PartContent::Text { text: "*as is*".to_owned(), markup: Markup::Plain, files: Vec::new() }),
        ("file", PartContent::File(item("a.txt", "described"))),
        ("album", PartContent::Album { items: vec![item("a.txt", ""), item("b.txt", "")] }),
        ("voice", voice(false, 3)),
        ("voice as a file", voice(true, 3)),
        ("notice", PartContent::Notice { text: "1 of 2 files sent".to_owned() }),
        ("question", question()),
    ] {
        insta::assert_json_snapshot!(name, payload(content));
    }
    for (name, content) in [("edit", text), ("edit with files", bundle), ("edit with buttons", question())] {
        insta::assert_json_snapshot!(name, Value::Object(edit(&content, 2000).unwrap().payload));
    }
}

#[test]
fn nonce_is_derived_from_part_id_alone() {
    let nonce = |content| payload(content)["nonce"].as_str().unwrap().to_owned();
    let first = nonce(PartContent::from_text("a"));
    assert_eq!(first.len(), 22);
    assert_eq!(first, nonce(voice(false, 1)), "whatever is sent");
    let other = PostRequest { part_id: PartId(Uuid::from_u128(7)), ..part(PartContent::from_text("a")) };
    assert_ne!(new_message(&other, 42, 2000).unwrap().payload["nonce"], json!(first));
}

#[test]
fn content_discord_would_refuse_is_omitted_or_cut() {
    let described = payload(PartContent::File(item("a.txt", &"🦀".repeat(600))));
    let description = described["attachments"][0]["description"].as_str().unwrap().to_owned();
    assert!(description.encode_utf16().count() <= 1024 && description.ends_with("🦀…"), "{description}");
    let buttons = vec![
        button(&"long ".repeat(30), "/a"),
        button("again", "/a"),
        button("too long", &"/x".repeat(60)),
        button("nothing", ""),
    ];
    let asked = payload(PartContent::question("?", buttons));
    let row = asked["components"][0]["components"].as_array().unwrap();
    assert_eq!(row.len(), 1, "{row:?}");
    assert!(row[0]["label"].as_str().unwrap().chars().count() <= 80);
    let many = (0..30).map(|number| button("x", &format!("/{number}"))).collect();
    let asked = payload(PartContent::question("?", many));
    let rows: Vec<usize> =
        asked["components"].as_array().unwrap().iter().map(|row| row["components"].as_array().unwrap().len()).collect();
    assert_eq!(rows, [5, 5, 5, 5, 5]);
}

#[test]
fn waveform_keeps_shape_within_point_limit() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let drawn = |points| {
        let described = payload(voice(false, points));
        STANDARD.decode(described["attachments"][0]["waveform"].as_str().unwrap()).unwrap()
    };
    assert_eq!(drawn(0), [0]);
    assert_eq!(drawn(3), [0, 1, 2]);
    assert_eq!(drawn(256).len(), 256);
    let many = drawn(512);
    assert_eq!((many.len(), many[1], many[255]), (256, 2, 254), "every second point");
}

#[test]
fn unsendable_or_uneditable_content_is_reported() {
    let unprepared = PartContent::Voice {
        text: "x".to_owned(),
        in_text: true,
        prepared: None,
        as_file: false,
        caption: String::new(),
    };
    assert_eq!(new_message(&part(unprepared), 42, 2000), Err(ComposeError::Empty));
    assert_eq!(edit(&voice(false, 1), 2000), Err(ComposeError::NotEditable));
    assert!(edit(&voice(true, 1), 2000).is_ok(), "a file may be added");
}
