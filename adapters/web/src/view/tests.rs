//! Which types of files are shown in a page, and which as a small copy.

use std::num::NonZeroU64;

use satchel_domain::{AttachmentId, AttachmentSource, MediaInfo, Sha256, Timestamp, Visibility};
use uuid::Uuid;

use super::*;

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

#[test]
fn tools_stand_behind_the_text_before_them() {
    let call = |text: &str| CallRecord {
        tool: "file_write".to_owned(),
        arguments: serde_json::json!({}),
        text: text.to_owned(),
        outcome: None,
    };
    let calls = [call(""), call("*Milk*"), call("")];
    let mut tools: Vec<wire::UsedTool> = calls.iter().map(to_wire_tool).collect();
    let mut part = wire::Part {
        id: String::new(),
        kind: "text".to_owned(),
        state: "sent".to_owned(),
        reason: None,
        html: None,
        text: Some("*Milk*\n\nSaved.".to_owned()),
        sections: Vec::new(),
        files: Vec::new(),
        resend: None,
        at: 0,
    };
    position_tools(&mut part, &mut tools, &calls);
    assert_eq!(tools.iter().map(|tool| tool.after).collect::<Vec<_>>(), [0, 1, 1]);
    let sections: Vec<_> = part.sections.iter().map(|section| (&*section.html, &*section.text)).collect();
    assert_eq!(sections, [("<p><em>Milk</em></p>", "*Milk*"), ("<p>Saved.</p>", "Saved.")]);
    assert_eq!(part.html.as_deref(), Some("<p><em>Milk</em></p>\n<p>Saved.</p>"), "the whole as well");

    part.text = Some("Saved.".to_owned());
    part.sections.clear();
    position_tools(&mut part, &mut tools, &calls);
    assert_eq!((part.sections.len(), tools[1].after), (0, 0), "the reply is the last text alone");
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
