//! What planning promises, over every table and capabilities that no platform has.

use proptest::prelude::*;
use satchel_domain::{
    Attachment, AttachmentId, OutgoingResponse, VoiceRequest,
    capabilities::CaptionRule,
    part::{FileForm, Markup},
};

use super::*;
use crate::{
    label::{LABEL_UNITS, with_duplicate_label},
    samples,
    samples::file,
    split::visible_units,
    tables,
};

/// A plan in short: a line a part.
fn shown(plan: &Plan) -> String {
    let file = |item: &FileItem| {
        let caption = if item.caption.is_empty() { String::new() } else { format!(" “{}”", item.caption) };
        format!("{:?} {} {}{caption}", item.form, item.attachment.filename, item.attachment.bytes)
    };
    let line = |part: &PlannedPart| {
        let words = match &part.content {
            PartContent::Text { text, markup, .. } => format!(" {markup:?} {text:?}"),
            PartContent::Notice { text } | PartContent::Question { text, .. } => format!(" {text:?}"),
            PartContent::Voice { text: words, in_text, as_file, .. } => {
                format!(" {words:?} in_text={in_text} as_file={as_file}")
            }
            _ => String::new(),
        };
        let files: String = part.content.files().iter().map(|item| format!("\n    {}", file(item))).collect();
        let refused = part.failure.as_ref().map(|why| format!(" REFUSED {why}")).unwrap_or_default();
        format!("{}{words}{refused}{files}\n", part.content.kind())
    };
    plan.parts.iter().map(line).collect()
}

fn realistic() -> OutgoingResponse {
    let mut sunset = file(1, "sunset.jpg", "image/jpeg", 2_400_000);
    sunset.description = "The beach at nine".to_owned();
    OutgoingResponse {
        text: Some("Here are **your files**.".to_owned()),
        voice: None,
        attachments: vec![
            sunset,
            file(2, "clip.mp4", "video/mp4", 9_000_000),
            file(3, "report.pdf", "application/pdf", 300_000),
            file(4, "report.pdf", "application/pdf", 400_000),
            file(5, "logo.svg", "image/svg+xml", 9_000),
            file(6, "song.mp3", "audio/mpeg", 4_000_000),
            file(7, "big.mov", "video/quicktime", 64_000_000),
        ],
    }
}

#[test]
fn a_realistic_response_on_each_channel() {
    for name in ["telegram", "telegram-local", "discord", "web", "console"] {
        let table = tables::by_name(name).expect("a table of this name");
        let spoken = OutgoingResponse { voice: Some(VoiceRequest { text: None }), ..realistic() };
        let small = OutgoingResponse { attachments: realistic().attachments[..4].to_vec(), ..realistic() };
        let plans = [("all", realistic()), ("spoken", spoken), ("small files", small)]
            .map(|(case, response)| format!("# {case}\n{}", shown(&plan(&response, &table))));
        insta::assert_snapshot!(format!("plan_for_{}", name.replace('-', "_")), plans.join("\n"));
    }
}

#[test]
fn links_change_only_the_notice() {
    let link = |file: &Attachment| Some(format!("https://a.example/links/{}", file.number));
    let of = |plan: &Plan| match plan.parts.split_last() {
        Some((PlannedPart { content: PartContent::Notice { text }, .. }, others)) => (others.to_vec(), text.clone()),
        last => panic!("no notice at the end: {last:?}"),
    };
    let table = tables::telegram();
    let (parts, words) = of(&plan(&realistic(), &table));
    let (with_links, told) = of(&plan_with_links(&realistic(), &table, &link));
    assert_eq!(with_links, parts);
    assert!(!words.contains("https") && told.contains("kept as #7: <https://a.example/links/7> (for"), "{told}");
    // Half a link leads nowhere.
    let narrow = TextLimit { max: Some(150), ..table.text };
    let table = ChannelCapabilities { text: narrow, ..table };
    let (_, told) = of(&plan_with_links(&realistic(), &table, &|_| Some(format!("https://{}", "a".repeat(200)))));
    assert_eq!(told, words);
}

#[test]
fn photos_that_a_platform_would_refuse_are_documents() {
    let table = tables::telegram();
    let form = |mime: &str, bytes: u64, size: Option<(u32, u32)>| {
        let mut photo = file(1, "x", mime, bytes);
        (photo.media.width, photo.media.height) = (size.map(|s| s.0), size.map(|s| s.1));
        let response = OutgoingResponse { attachments: vec![photo], ..OutgoingResponse::default() };
        plan(&response, &table).parts[0].content.files()[0].form
    };
    for (mime, bytes, size, expected) in [
        ("image/jpeg", 10_000_000, Some((5_000, 5_000)), FileForm::Photo),
        ("image/png", 1, Some((2_000, 100)), FileForm::Photo),
        ("image/webp", 1, Some((1, 1)), FileForm::Photo),
        ("image/jpeg", 10_000_001, Some((5_000, 5_000)), FileForm::Document),
        ("image/jpeg", 1, Some((5_001, 5_000)), FileForm::Document),
        ("image/jpeg", 1, Some((2_001, 100)), FileForm::Document),
        ("image/jpeg", 1, Some((100, 2_001)), FileForm::Document),
        ("image/jpeg", 1, Some((0, 5)), FileForm::Document),
        ("image/jpeg", 1, Some((u32::MAX, u32::MAX)), FileForm::Document),
        ("image/jpeg", 1, None, FileForm::Document),
        ("image/svg+xml", 1, Some((10, 10)), FileForm::Document),
    ] {
        assert_eq!(form(mime, bytes, size), expected, "{mime} {bytes} {size:?}");
    }
}

#[test]
fn twelve_photos_become_albums_of_ten_and_two() {
    let attachments = (1..=12).map(|n| file(n, &format!("{n}.jpg"), "image/jpeg", 1_000)).collect();
    let plan = plan(&OutgoingResponse { attachments, ..OutgoingResponse::default() }, &tables::telegram());
    let sizes: Vec<usize> = plan.parts.iter().map(|part| part.content.files().len()).collect();
    assert_eq!(sizes, [10, 2]);
}

#[test]
fn equal_names_are_numbered_whatever_their_case() {
    let names = ["a.txt", "A.txt", "a-2.txt", "b.txt"];
    let attachments = (1..).zip(names).map(|(number, name)| file(number, name, "text/plain", 9)).collect();
    let plan = plan(&OutgoingResponse { attachments, ..OutgoingResponse::from_text("here") }, &tables::web());
    let sent = plan.parts.iter().flat_map(|part| part.content.files()).map(|item| item.attachment.filename.as_str());
    assert_eq!(sent.collect::<Vec<_>>(), ["a.txt", "A-3.txt", "a-2.txt", "b.txt"]);
}

#[test]
fn files_attach_only_to_single_text_without_voice() {
    let one = OutgoingResponse {
        attachments: vec![file(1, "a.pdf", "application/pdf", 1_000)],
        ..OutgoingResponse::from_text("hello")
    };
    let two = OutgoingResponse { text: Some("word ".repeat(600)), ..one.clone() };
    let spoken = OutgoingResponse { voice: Some(VoiceRequest::default()), ..one.clone() };
    let mut heavy = one.clone();
    heavy.attachments = (1..=3).map(|n| file(n, "a.pdf", "application/pdf", 10 << 20)).collect();
    for (case, response, kinds) in [
        ("one", one, vec!["text"]),
        ("two", two, vec!["text", "text", "file"]),
        ("spoken", spoken, vec!["text", "voice", "file"]),
        ("over the request cap", heavy, vec!["text", "album", "file"]),
    ] {
        let plan = plan(&response, &tables::discord());
        assert_eq!(plan.parts.iter().map(|part| part.content.kind()).collect::<Vec<_>>(), kinds, "{case}");
    }
}

#[test]
fn overlong_description_is_sent_before_its_file() {
    let mut photo = file(1, "a.jpg", "image/jpeg", 1_000);
    photo.description = "слово ".repeat(300).trim().to_owned();
    let response = OutgoingResponse { attachments: vec![photo.clone()], ..OutgoingResponse::default() };
    let telegram = plan(&response, &tables::telegram());
    assert!(
        matches!(&telegram.parts[0].content, PartContent::Text { text, markup: Markup::Plain, .. } if *text == photo.description)
    );
    assert_eq!(telegram.parts[1].content.files()[0].caption, "");
    let discord = plan(&response, &tables::discord());
    assert_eq!(discord.parts.len(), 1);
    assert!(discord.parts[0].content.files()[0].caption.ends_with('…'));
}

/// What a turn keeps beside its response, such as a queue of pending attachments, has no way into a plan: the function
/// takes the response and the capabilities and is a plain `fn`, which can hold nothing else.
#[test]
fn pending_attachments_beside_response_never_reach_plan() {
    struct Turn {
        response: OutgoingResponse,
        pending_attachments: Vec<Attachment>,
    }
    let only_door: fn(&OutgoingResponse, &ChannelCapabilities) -> Plan = plan;
    let turn = Turn {
        response: OutgoingResponse::from_text("Done."),
        pending_attachments: vec![file(9, "planted.pdf", "application/pdf", 1)],
    };
    for table in [tables::telegram(), tables::discord(), tables::web(), tables::console()] {
        let plan = only_door(&turn.response, &table);
        assert_eq!(plan.parts, [PlannedPart::new(PartContent::from_text("Done."))]);
        let told = serde_json::to_string(&plan).expect("a plan is data");
        assert!(turn.pending_attachments.iter().all(|planted| !told.contains(planted.filename.as_str())));
    }
    let smuggled = serde_json::json!({"text": "Done.", "voice": null, "pending_attachments": turn.pending_attachments});
    let refused = serde_json::from_value::<OutgoingResponse>(smuggled).expect_err("a response has three fields");
    assert!(refused.to_string().contains("unknown field `pending_attachments`"), "{refused}");
}

fn words(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

fn rank(part: &PlannedPart) -> usize {
    match part.content {
        PartContent::Text { markup: Markup::Rich, .. } => 0,
        PartContent::Voice { .. } => 1,
        PartContent::Notice { .. } => 3,
        _ => 2,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn plan_preserves_all_content_once_in_order(
        response in samples::response(), capabilities in samples::capabilities(),
    ) {
        let planned = plan(&response, &capabilities);
        let files: Vec<AttachmentId> =
            planned.parts.iter().flat_map(|part| part.content.files()).map(|item| item.attachment.id).collect();
        prop_assert_eq!(files, response.attachments.iter().map(|attachment| attachment.id).collect::<Vec<_>>());
        let text: String = planned.parts.iter().filter_map(|part| match &part.content {
            PartContent::Text { text, markup: Markup::Rich, .. } => Some(text.as_str()),
            _ => None,
        }).collect();
        prop_assert_eq!(words(&text), words(response.text.as_deref().unwrap_or_default()));
        prop_assert!(planned.parts.is_sorted_by_key(rank));
        if let CaptionRule::Caption { .. } = capabilities.caption {
            let mut told = String::new();
            for part in &planned.parts {
                match &part.content {
                    PartContent::Text { text, markup: Markup::Plain, .. } => told.push_str(text),
                    content if part.failure.is_none() => content.files().iter().for_each(|item| told.push_str(&item.caption)),
                    _ => {}
                }
            }
            if !matches!(capabilities.grouping, GroupingRule::Messages { with_text: true, .. }) {
                let sent = response.attachments.iter().filter(|file| file.bytes <= capabilities.file_bytes);
                prop_assert_eq!(words(&told), sent.map(|file| words(&file.description)).collect::<String>());
            }
        }
        let voices = planned.parts.iter().filter(|part| part.content.kind() == "voice").count();
        let speakable = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.trim().is_empty());
        let asked = response.voice.as_ref().is_some_and(|voice| speakable(&voice.text) || speakable(&response.text));
        prop_assert_eq!(voices, usize::from(asked));
        let refused = planned.parts.iter().any(|part| part.failure.is_some());
        let notices = planned.parts.iter().filter(|part| part.content.kind() == "notice").count();
        prop_assert_eq!(notices, usize::from(refused));
        prop_assert_eq!(&planned, &plan(&response, &capabilities));
    }

    #[test]
    fn plan_obeys_limits_and_reserves_label(
        response in samples::response(), capabilities in samples::capabilities(),
    ) {
        let unit = capabilities.text.unit;
        for part in plan(&response, &capabilities).parts {
            let files = part.content.files();
            if part.failure.is_some() {
                prop_assert!(files.len() == 1 && files[0].attachment.bytes > capabilities.file_bytes);
                continue;
            }
            if let (PartContent::Text { text, .. } | PartContent::Notice { text }, Some(max)) = (&part.content, capabilities.text.max) {
                prop_assert!(visible_units(text, unit) <= max.max(2));
                if max >= 2 * LABEL_UNITS
                    && let PartContent::Text { text, .. } | PartContent::Notice { text } = with_duplicate_label(&part.content, capabilities.caption)
                {
                    prop_assert!(visible_units(&text, unit) <= max);
                }
            }
            for item in files {
                prop_assert!(item.attachment.bytes <= capabilities.file_bytes);
                let most = match capabilities.caption {
                    CaptionRule::Caption { max } | CaptionRule::AltText { max } => max,
                    CaptionRule::Hidden => 0,
                };
                prop_assert!(units(&item.caption, unit) <= most);
                if item.form == FileForm::Photo {
                    prop_assert!(capabilities.photo.is_some_and(|rule| item.attachment.bytes <= rule.max_bytes));
                }
            }
            let most = match capabilities.grouping {
                GroupingRule::Never => 1,
                GroupingRule::Albums { max } | GroupingRule::Messages { max, .. } => max.max(1),
            };
            prop_assert!(files.len() <= most);
            let names: std::collections::HashSet<_> = files.iter().map(|item| item.attachment.filename.clone()).collect();
            prop_assert_eq!(names.len(), files.len());
            if files.len() > 1 && let Some(limit) = capabilities.request_bytes {
                prop_assert!(groups::total_bytes(files) <= limit);
            }
            if let (PartContent::Album { items }, GroupingRule::Albums { .. }) = (&part.content, capabilities.grouping) {
                let pictures = |form| matches!(form, FileForm::Photo | FileForm::Video);
                prop_assert!(items.len() >= 2 && items.iter().all(|item| item.form != FileForm::Animation));
                let alike = |item: &FileItem| item.form == items[0].form || (pictures(item.form) && pictures(items[0].form));
                prop_assert!(items.iter().all(alike));
            }
        }
    }
}
