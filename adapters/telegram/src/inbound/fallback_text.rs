//! Text for content of a message that is neither text nor a file. Pure.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::{
    text::parse_forwarded,
    wire::{Checklist, ListItem, Location, MessageContent, MessageEntity, Poll},
};

/// Describes the content of a message; `None` if it has only text and files.
pub(crate) fn describe_content(content: &MessageContent) -> Option<String> {
    // A venue holds a location, too, which the message repeats for old clients.
    if let Some(venue) = &content.venue {
        return Some(format!("[place: {}, {}, {}]", venue.title, venue.address, format_point(&venue.location)));
    }
    if let Some(location) = &content.location {
        let accuracy = location.horizontal_accuracy.map(|metres| format!(", within {metres} m")).unwrap_or_default();
        return Some(format!("[location: {}{accuracy}]", format_point(location)));
    }
    if let Some(contact) = &content.contact {
        let last = contact.last_name.as_ref().map(|last| format!(" {last}")).unwrap_or_default();
        return Some(format!("[contact: {}{last}, {}]", contact.first_name, contact.phone_number));
    }
    if let Some(poll) = &content.poll {
        return Some(describe_poll(poll, &poll.options));
    }
    if let Some(checklist) = &content.checklist {
        return Some(describe_checklist(checklist, &checklist.tasks));
    }
    if let Some(dice) = &content.dice {
        return Some(format!("[dice: {} {}]", dice.emoji, dice.value));
    }
    if let Some(sticker) = &content.sticker {
        return Some(match &sticker.emoji {
            Some(emoji) => format!("[sticker: {emoji}]"),
            None => "[sticker]".to_owned(),
        });
    }
    if let Some(game) = &content.game {
        return Some(format!("[game: {}]", game.title));
    }
    if let Some(invoice) = &content.invoice {
        return Some(format!("[invoice: {}]", invoice.title));
    }
    if let Some(rich) = &content.rich_message {
        let mut text = String::new();
        push_blocks(&rich.blocks, &mut text);
        return Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    }
    let placeholders =
        [(&content.story, "[story]"), (&content.giveaway, "[giveaway]"), (&content.giveaway_winners, "[giveaway]")];
    if let Some((_, placeholder)) = placeholders.into_iter().find(|(value, _)| value.is_some()) {
        return Some(placeholder.to_owned());
    }
    let unpaid_media = content.paid_media.as_ref().filter(|paid| {
        paid.paid_media.iter().all(|item| item.photo.is_empty() && item.video.is_none() && item.live_photo.is_none())
    });
    unpaid_media.map(|_| "[media that was not paid for]".to_owned())
}

/// Describes a poll or a checklist with the one option or task that a message replies to; `None` if it has none of these ids.
pub(crate) fn describe_list_item(content: &MessageContent, task: Option<i64>, option: Option<&str>) -> Option<String> {
    let is_target = |item: &&ListItem| match task {
        Some(_) => item.id == task,
        None => option.is_some() && item.persistent_id.as_deref() == option,
    };
    let find_item = |items: &[ListItem]| items.iter().find(is_target).cloned();
    if let Some(poll) = &content.poll {
        return find_item(&poll.options).map(|item| describe_poll(poll, &[item]));
    }
    let checklist = content.checklist.as_ref()?;
    find_item(&checklist.tasks).map(|item| describe_checklist(checklist, &[item]))
}

fn describe_poll(poll: &Poll, options: &[ListItem]) -> String {
    let description = poll.description.as_ref().map(|text| parse_forwarded(text, &poll.description_entities));
    let description = description.map(|text| format!("\n{text}")).unwrap_or_default();
    format_list(&format!("[poll: {}]{description}", poll.question), options, |_| "- ")
}

fn describe_checklist(checklist: &Checklist, tasks: &[ListItem]) -> String {
    let mark = |task: &ListItem| if task.completion_date == 0 { "- [ ] " } else { "- [x] " };
    let title = parse_forwarded(&checklist.title, &checklist.title_entities);
    format_list(&format!("[checklist: {title}]"), tasks, mark)
}

fn format_point(location: &Location) -> String {
    format!("{}, {}", location.latitude, location.longitude)
}

fn format_list(heading: &str, items: &[ListItem], mark: impl Fn(&ListItem) -> &'static str) -> String {
    let mut text = heading.to_owned();
    for item in items {
        let _ = write!(text, "\n{}{}", mark(item), parse_forwarded(&item.text, &item.text_entities));
    }
    text
}

/// Appends the text of a message that consists of blocks as Markdown, each on its own lines.
fn push_blocks(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| push_blocks(item, text)),
        Value::Object(fields) => {
            let mut block = String::new();
            for name in ["summary", "text", "expression", "caption", "label", "blocks", "items", "cells", "credit"] {
                match fields.get(name) {
                    Some(inner) if matches!(name, "blocks" | "items" | "cells") || is_block_caption(name, inner) => {
                        push_blocks(inner, &mut block);
                    }
                    Some(inner) => {
                        push_inline(inner, &mut block);
                        if name == "label" {
                            block.push_str(checkbox(fields));
                        }
                        block.push('\n');
                    }
                    None => {}
                }
            }
            match fields.get("type").and_then(Value::as_str) {
                Some(kind @ ("pre" | "blockquote" | "pullquote")) => {
                    let kind = if kind == "pullquote" { "blockquote" } else { kind };
                    text.push_str(&format_whole(block.trim_end_matches('\n'), kind, fields));
                    text.push('\n');
                }
                _ => text.push_str(&block),
            }
        }
        _ => {}
    }
}

/// Whether the caption of a block has a credit beside its text. That of a table is a text.
fn is_block_caption(name: &str, value: &Value) -> bool {
    name == "caption" && value.get("text").is_some() && value.get("type").is_none()
}

/// The checkbox of a list's item.
fn checkbox(item: &Map<String, Value>) -> &'static str {
    let is_set = |name: &str| item.get(name).and_then(Value::as_bool).unwrap_or_default();
    match (is_set("has_checkbox"), is_set("is_checked")) {
        (true, true) => " [x]",
        (true, false) => " [ ]",
        (false, _) => "",
    }
}

fn push_inline(value: &Value, text: &mut String) {
    match value {
        Value::String(string) => text.push_str(string),
        Value::Array(items) => items.iter().for_each(|item| push_inline(item, text)),
        Value::Object(fields) => {
            let mut inner = String::new();
            for name in ["text", "expression", "alternative_text"] {
                fields.get(name).into_iter().for_each(|value| push_inline(value, &mut inner));
            }
            let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
            // Markdown has no marks of its own for these, and `x2` is not what was written.
            let (opening, closing) = match kind {
                "subscript" => ("<sub>", "</sub>"),
                "superscript" => ("<sup>", "</sup>"),
                "marked" => ("<mark>", "</mark>"),
                _ => ("", ""),
            };
            let _ = write!(text, "{opening}{}{closing}", format_whole(&inner, kind, fields));
            if let Some(url) = fields.get("url").and_then(Value::as_str) {
                let _ = write!(text, " ({url})");
            }
        }
        _ => {}
    }
}

/// Formats a text as one entity of this kind does. Texts of blocks have the kinds of entities.
fn format_whole(text: &str, kind: &str, fields: &Map<String, Value>) -> String {
    let entity = MessageEntity {
        kind: kind.to_owned(),
        offset: 0,
        length: text.encode_utf16().count(),
        url: None,
        user: None,
        language: fields.get("language").and_then(Value::as_str).map(str::to_owned),
        unix_time: fields.get("unix_time").and_then(Value::as_i64),
    };
    parse_forwarded(text, &[entity])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_content_kind_is_described() {
        let location = json!({ "latitude": 52.520_008, "longitude": -13.404_954 });
        for (content, expected) in [
            (json!({ "location": location }), "[location: 52.520008, -13.404954]"),
            (
                json!({ "location": { "latitude": 1.5, "longitude": 2, "horizontal_accuracy": 12.5 } }),
                "[location: 1.5, 2, within 12.5 m]",
            ),
            (
                json!({ "location": location, "venue": { "location": location, "title": "Café", "address": "Main St 1" } }),
                "[place: Café, Main St 1, 52.520008, -13.404954]",
            ),
            (
                json!({ "contact": { "phone_number": "+491", "first_name": "Ann", "last_name": "Lee", "user_id": 4 } }),
                "[contact: Ann Lee, +491]",
            ),
            (
                json!({ "poll": { "id": "1", "question": "Lunch?", "options": [{ "text": "yes", "voter_count": 0 }, { "text": "no", "voter_count": 0 }], "type": "regular" } }),
                "[poll: Lunch?]\n- yes\n- no",
            ),
            (
                json!({ "checklist": { "title": "Trip", "tasks": [{ "id": 1, "text": "pack" }, { "id": 2, "text": "go", "completion_date": 5 }] } }),
                "[checklist: Trip]\n- [ ] pack\n- [x] go",
            ),
            (
                json!({ "checklist": {
                    "title": "Trip", "title_entities": [{ "type": "bold", "offset": 0, "length": 4 }],
                    "tasks": [{ "id": 1, "text": "pack", "text_entities": [{ "type": "strikethrough", "offset": 0, "length": 4 }] }],
                } }),
                "[checklist: **Trip**]\n- [ ] ~~pack~~",
            ),
            (json!({ "dice": { "emoji": "🎲", "value": 6 } }), "[dice: 🎲 6]"),
            (json!({ "sticker": { "file_id": "s", "emoji": "😀" } }), "[sticker: 😀]"),
            (json!({ "sticker": { "file_id": "s" } }), "[sticker]"),
            (json!({ "game": { "title": "Chess", "description": "", "photo": [] } }), "[game: Chess]"),
            (json!({ "story": { "id": 1, "chat": { "id": 1, "type": "private" } } }), "[story]"),
            (
                json!({ "paid_media": { "star_count": 1, "paid_media": [{ "type": "preview" }] } }),
                "[media that was not paid for]",
            ),
            (
                json!({ "rich_message": { "blocks": [
                    { "type": "heading", "text": ["Big ", { "type": "bold", "text": "news" }] },
                    { "type": "list", "items": [{ "label": "1.", "blocks": [{ "type": "paragraph", "text": { "type": "url", "text": "here", "url": "https://a.example" } }] }] },
                ] } }),
                "Big **news**\n1.\nhere (https://a.example)",
            ),
            (
                json!({ "rich_message": { "blocks": [
                    { "type": "paragraph", "text": ["run ", { "type": "code", "text": "rm *_old_*" }] },
                    { "type": "pre", "text": "x = 1\ny = 2", "language": "python" },
                    { "type": "blockquote", "blocks": [{ "type": "paragraph", "text": { "type": "strikethrough", "text": ["not ", "this"] } }] },
                ] } }),
                "run `rm *_old_*`\n```python\nx = 1\ny = 2\n```\n> ~~not this~~",
            ),
            (
                json!({ "rich_message": { "blocks": [
                    { "type": "paragraph", "text": ["x", { "type": "superscript", "text": "2" }, " ", { "type": "marked", "text": "now" }] },
                    { "type": "list", "items": [
                        { "label": "•", "has_checkbox": true, "is_checked": true, "blocks": [{ "type": "paragraph", "text": "pack" }] },
                        { "label": "•", "has_checkbox": true, "blocks": [{ "type": "paragraph", "text": "go" }] },
                    ] },
                    { "type": "table", "caption": "Prices", "cells": [[{ "text": "tea" }, { "text": "2" }]] },
                    { "type": "photo", "photo": [], "caption": { "text": "The sea", "credit": "Ann" } },
                    { "type": "pullquote", "text": "Less is more", "credit": "Mies" },
                ] } }),
                "x<sup>2</sup> <mark>now</mark>\n• [x]\npack\n• [ ]\ngo\nPrices\ntea\n2\nThe sea\nAnn\n> Less is more\n> Mies",
            ),
            (
                json!({ "poll": {
                    "question": "Lunch?", "description": "not today", "options": [{ "text": "yes" }],
                    "description_entities": [{ "type": "strikethrough", "offset": 0, "length": 3 }],
                } }),
                "[poll: Lunch?]\n~~not~~ today\n- yes",
            ),
        ] {
            let content: MessageContent = serde_json::from_value(content).unwrap();
            assert_eq!(describe_content(&content).as_deref(), Some(expected));
        }
        assert_eq!(describe_content(&MessageContent::default()), None);
    }
}
