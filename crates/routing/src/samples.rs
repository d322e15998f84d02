//! Files, responses and capabilities for tests: realistic ones by hand, wild ones by proptest.

use std::num::NonZeroU64;

use proptest::prelude::*;
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ChannelCapabilities, Filename, MediaInfo, OutgoingResponse, Sha256,
    Timestamp, Visibility, VoiceRequest,
    capabilities::{CaptionRule, GroupingRule, PhotoRule, TextLimit, TextUnit, VoiceRule},
    part::{FileForm, FileItem},
};
use uuid::Uuid;

use crate::tables;

/// A file of this number, or the first, of this name, type and size; images are 1280 × 960.
pub(crate) fn file(number: u64, name: &str, mime: &str, bytes: u64) -> Attachment {
    let pixels = mime.starts_with("image/");
    Attachment {
        id: AttachmentId(Uuid::from_u128(u128::from(number) + 1)),
        number: NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN),
        conversation: "console:main".parse().expect("a conversation"),
        source: AttachmentSource::Tool,
        filename: Filename::from_untrusted(name),
        mime: mime.to_owned(),
        bytes,
        sha256: Sha256([7; 32]),
        media: MediaInfo { width: pixels.then_some(1280), height: pixels.then_some(960), ..MediaInfo::default() },
        description: String::new(),
        created_at: Timestamp(0),
        visibility: Visibility::Deliver,
        link_revocation: None,
    }
}

/// The file as an item of this form.
pub(crate) fn item(attachment: Attachment, form: FileForm) -> FileItem {
    FileItem { attachment, form, caption: String::new() }
}

fn attachment() -> impl Strategy<Value = Attachment> {
    let mime = prop::sample::select(vec![
        "image/jpeg",
        "image/png",
        "image/svg+xml",
        "image/gif",
        "video/mp4",
        "video/webm",
        "audio/mpeg",
        "audio/ogg",
        "application/pdf",
        "",
    ]);
    let name = prop::sample::select(vec!["a.jpg", "a.jpg", "b.pdf", "my_[file]*.mov", ""]);
    let bytes = prop_oneof![0u64..5_000, 0u64..60_000_000, any::<u64>()];
    let side = || proptest::option::of(prop_oneof![Just(0), 1u32..20_000, any::<u32>()]);
    let description = prop_oneof![4 => Just(String::new()), 2 => "[a-z*_ ]{0,40}", 1 => "([a-zа-я]{1,9} ){0,300}"];
    (mime, name, bytes, (side(), side()), any::<bool>(), description).prop_map(
        |(mime, name, bytes, (width, height), animated, description)| Attachment {
            media: MediaInfo { width, height, animated, duration_ms: None },
            description,
            ..file(0, name, mime, bytes)
        },
    )
}

/// Any response, each of its files with an id of its own.
pub(crate) fn response() -> impl Strategy<Value = OutgoingResponse> {
    let text = prop_oneof![2 => "[a-z*_\\n ]{0,60}", 1 => "(([a-zа-я]{1,9} ){1,9}\n\n){0,60}", 1 => "\\PC{0,40}"];
    let voice = proptest::option::of("[a-z ]{0,20}").prop_map(|text| VoiceRequest { text });
    let files =
        prop_oneof![2 => prop::collection::vec(attachment(), 0..5), 1 => prop::collection::vec(attachment(), 0..40)];
    (proptest::option::of(text), proptest::option::of(voice), files).prop_map(|(text, voice, mut attachments)| {
        for (number, attachment) in (1..).zip(&mut attachments) {
            attachment.number = NonZeroU64::MIN.saturating_add(number - 1);
            attachment.id = AttachmentId(Uuid::from_u128(u128::from(number)));
        }
        OutgoingResponse { text, voice, attachments }
    })
}

/// Every table, and capabilities that no platform has.
pub(crate) fn capabilities() -> impl Strategy<Value = ChannelCapabilities> {
    let names = ["telegram", "telegram-local", "discord", "web", "console"];
    prop_oneof![
        prop::sample::select(names.to_vec()).prop_map(|name| tables::by_name(name).expect("a table of this name")),
        odd_capabilities(),
    ]
}

fn odd_capabilities() -> impl Strategy<Value = ChannelCapabilities> {
    let unit = prop_oneof![Just(TextUnit::Utf16), Just(TextUnit::Utf16Source), Just(TextUnit::Chars)];
    let text = (unit, proptest::option::of(0usize..300), proptest::option::of(0usize..20))
        .prop_map(|(unit, max, entities)| TextLimit { unit, max, entities });
    let caption = prop_oneof![
        (0usize..100).prop_map(|max| CaptionRule::Caption { max }),
        (0usize..100).prop_map(|max| CaptionRule::AltText { max }),
        Just(CaptionRule::Hidden),
    ];
    let grouping = prop_oneof![
        Just(GroupingRule::Never),
        (0usize..12).prop_map(|max| GroupingRule::Albums { max }),
        (0usize..12, any::<bool>()).prop_map(|(max, with_text)| GroupingRule::Messages { max, with_text }),
    ];
    let photo = proptest::option::of(
        (0u64..10_000_000, any::<u32>(), any::<u32>()).prop_map(|(max_bytes, max_side_sum, max_ratio)| PhotoRule {
            max_bytes,
            max_side_sum,
            max_ratio,
        }),
    );
    let voice = prop_oneof![Just(VoiceRule::Message), Just(VoiceRule::AudioFile)];
    let sizes = (0u64..70_000_000, proptest::option::of(0u64..70_000_000));
    (text, caption, grouping, photo, voice, sizes, any::<bool>()).prop_map(
        |(text, caption, grouping, photo, voice, (file_bytes, request_bytes), native_media)| ChannelCapabilities {
            text,
            caption,
            grouping,
            photo,
            voice,
            file_bytes,
            request_bytes,
            native_media,
            ..tables::telegram()
        },
    )
}
