//! Which types of files are shown in a page, which as a small copy, and where tools stand in a reply.

use std::{collections::BTreeMap, num::NonZeroU64};

use satchel_domain::{
    AttachmentId, AttachmentSource, Ending, InboundMessage, InboxId, MediaInfo, PartId, Sender, Sha256, Timestamp,
    Visibility,
};
use uuid::Uuid;

use super::*;
use crate::signing::SigningKey;

#[test]
fn only_harmless_types_are_displayed_inline() {
    for (mime, shown) in [
        ("image/png", Inline::Image),
        ("image/jpeg", Inline::Image),
        ("image/gif", Inline::Image),
        ("image/webp", Inline::Image),
        ("image/avif", Inline::Image),
        ("image/svg+xml", Inline::None),
        ("image/SVG+XML", Inline::None),
        ("image/x-icon", Inline::None),
        ("image/tiff", Inline::None),
        ("image/heic", Inline::None),
        ("audio/mpeg", Inline::Audio),
        ("audio/ogg", Inline::Audio),
        ("audio/midi", Inline::None),
        ("video/mp4", Inline::Video),
        ("video/x-matroska", Inline::None),
        ("text/html", Inline::None),
        ("application/xhtml+xml", Inline::None),
        ("application/pdf", Inline::None),
        ("text/plain", Inline::None),
        ("image/png; charset=x", Inline::None),
        ("", Inline::None),
    ] {
        assert_eq!(inline_kind(mime), shown, "{mime}");
    }
}

#[test]
fn large_still_images_and_unknown_ones_have_previews() {
    let image = |mime: &str, bytes: u64, side: u32, animated: bool| {
        has_preview(&Attachment {
            id: AttachmentId(Uuid::from_u128(1)),
            number: NonZeroU64::MIN,
            conversation: "web:a".parse().unwrap(),
            source: AttachmentSource::User,
            filename: Filename::from_untrusted("a"),
            mime: mime.to_owned(),
            bytes,
            sha256: Sha256([1; 32]),
            media: MediaInfo { width: Some(side), height: Some(2), animated, ..MediaInfo::default() },
            description: String::new(),
            created_at: Timestamp(0),
            visibility: Visibility::Deliver,
            link_revocation: None,
        })
    };
    for (mime, bytes, side, animated, expected) in [
        ("image/jpeg", 262_144, 960, false, false),
        ("image/jpeg", 262_145, 960, false, true),
        ("image/jpeg", 10, 961, false, true),
        ("image/gif", 5_000_000, 961, false, true),
        ("image/gif", 5_000_000, 961, true, false),
        ("image/tiff", 10, 2, false, true),
        ("image/bmp", 10, 2, false, true),
        ("image/heic", 10, 2, false, true),
        ("image/heif", 10, 2, false, true),
        ("image/avif", 5_000_000, 961, false, false),
        ("image/svg+xml", 5_000_000, 961, false, false),
        ("text/html", 5_000_000, 961, false, false),
    ] {
        assert_eq!(image(mime, bytes, side, animated), expected, "{mime} {bytes} {side} {animated}");
    }
}

fn call(text: &str) -> CallRecord {
    CallRecord { tool: "file_write".to_owned(), arguments: serde_json::json!({}), text: text.to_owned(), outcome: None }
}

/// A turn with these texts as its parts.
fn turn(parts: Vec<(PartContent, PartState)>, calls: &[&str]) -> wire::Turn {
    let conversation: ConversationId = "web:a".parse().unwrap();
    let id = TurnId(Uuid::from_u128(1));
    let parts = parts.into_iter().zip(0_u32..).map(|((content, state), position)| {
        let part = PartId(Uuid::from_u128(u128::from(position) + 1));
        let part = Part::new(part, conversation.clone(), id, position, content, Timestamp(0));
        Part { state, ..part }
    });
    let record = TurnRecord {
        id,
        conversation: conversation.clone(),
        ending: Some(Ending::Done),
        response: None,
        messages: Vec::new(),
        parts: parts.collect(),
        calls: calls.iter().map(|text| call(text)).collect(),
        replaced_by: None,
    };
    to_wire_turn(&record, None, &urls())
}

fn urls() -> UrlSigner {
    UrlSigner::new(SigningKey::load_or_create(&tempfile::tempdir().unwrap().path().join("key")).unwrap())
}

fn text(text: &str, markup: Markup) -> PartContent {
    PartContent::Text { text: text.to_owned(), markup, files: Vec::new() }
}

/// The HTML and the text of a section.
type SectionTexts<'a> = (&'a str, &'a str);

/// What stands before each tool, and the sections of each part.
fn divided(turn: &wire::Turn) -> (Vec<usize>, Vec<Vec<SectionTexts<'_>>>) {
    let sections = turn
        .parts
        .iter()
        .map(|part| part.sections.iter().map(|section| (section.html.as_str(), section.text.as_str())).collect());
    (turn.tools.iter().map(|tool| tool.after).collect(), sections.collect())
}

#[test]
fn tools_stand_behind_the_text_before_them() {
    let sent = || PartState::Sent { messages: Vec::new() };
    let calls = ["", "*Milk*", ""];
    let whole = turn(vec![(text("*Milk*\n\nSaved.", Markup::Rich), sent())], &calls);
    let sections = vec![("<p><em>Milk</em></p>", "*Milk*"), ("<p>Saved.</p>", "Saved.")];
    assert_eq!(divided(&whole), (vec![0, 1, 1], vec![sections]));
    assert_eq!(whole.parts[0].html.as_deref(), Some("<p><em>Milk</em></p>\n<p>Saved.</p>"), "the whole as well");

    let last = turn(vec![(text("Saved.", Markup::Rich), sent())], &calls);
    assert_eq!(divided(&last), (vec![0, 0, 0], vec![Vec::new()]), "the reply is the last text alone");
}

/// A reply that was split, and one whose form the platform refused, so that smaller parts took its place.
#[test]
fn tools_stand_between_the_texts_of_all_parts() {
    let sent = || PartState::Sent { messages: Vec::new() };
    let calls = ["*Milk*", "Bread.", ""];
    for markup in [Markup::Rich, Markup::Plain, Markup::Blocks] {
        let replaced = PartState::Replaced { by: vec![PartId(Uuid::from_u128(2)), PartId(Uuid::from_u128(3))] };
        let parts = vec![
            (text("*Milk*\n\nBread.\n\nSaved.", Markup::Rich), replaced),
            (text("*Milk*", markup), sent()),
            (PartContent::Notice { text: "One file was not sent.".to_owned() }, sent()),
            (text("Bread.\n\n<Saved>", markup), sent()),
        ];
        let shown = turn(parts, &calls);
        let (bread, saved) = match markup {
            Markup::Rich | Markup::Blocks => (markdown::to_html("Bread."), markdown::to_html("<Saved>")),
            Markup::Plain => (markdown::escape_text("Bread."), markdown::escape_text("<Saved>")),
        };
        let sections = vec![(bread.as_str(), "Bread."), (saved.as_str(), "<Saved>")];
        assert_eq!(divided(&shown), (vec![1, 2, 2], vec![Vec::new(), Vec::new(), sections]));
    }
}

#[test]
fn addresses_of_referenced_files_are_not_shown() {
    let reference = reference_block::AttachmentReference::new("https://files.example.org/d/s3cr3t".to_owned());
    let text = reference_block::append("read this", &[reference]);
    let (id, conversation): (_, ConversationId) = (TurnId(Uuid::from_u128(1)), "web:a".parse().unwrap());
    let message = InboundMessage {
        text: text.clone(),
        ..InboundMessage::new(conversation.clone(), "1".to_owned(), Sender::new("7", "Ada"))
    };
    let message = QueuedMessage {
        id: InboxId(Uuid::from_u128(1)),
        turn: id,
        message,
        files: Vec::new(),
        transcriptions: BTreeMap::new(),
        received_at: Timestamp(0),
    };
    assert_eq!(to_wire_message(&message, &urls()).text, "read this");
    let summary = ConversationSummary {
        conversation,
        name: None,
        title: text,
        pinned: false,
        archived: false,
        last_turn: id,
        last_at: Timestamp(0),
        model: None,
    };
    assert_eq!(to_wire_conversation(summary, &urls()).title, "read this");
}

#[test]
fn arguments_are_summarized_on_one_line() {
    let arguments = serde_json::json!({
        "path": "/shared/a.txt",
        "content": format!("first line\n\nsecond {}", "long ".repeat(30)),
        "overwrite": true,
        "list": [1, 2],
    });
    let summary = summarize_arguments(&arguments);
    assert!(!summary.contains('\n') && summary.contains("path: /shared/a.txt"), "{summary}");
    assert!(summary.contains("content: first line second long") && summary.contains("lo…"), "{summary}");
    assert!(summary.contains("overwrite: true") && summary.contains("list: [1,2]"), "{summary}");
    assert!(summary.chars().count() < 140, "{summary}");
    assert_eq!(summarize_arguments(&serde_json::json!("ä".repeat(61))), format!("{}…", "ä".repeat(60)));
    assert_eq!(summarize_arguments(&serde_json::json!({})), "");
    let many: serde_json::Map<_, _> = (10..30).map(|number| (format!("field{number}"), number.into())).collect();
    let summary = summarize_arguments(&Value::Object(many));
    assert!(summary.ends_with("field17: 17, …"), "{summary}");
}
