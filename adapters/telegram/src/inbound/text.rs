//! Parses a text with its entities: whether it mentions the bot, its command, and the text without the mention, as Markdown.
//! Pure.

use std::{cmp::Reverse, ops::Range};

use super::{
    formatting::{EntitySpan, to_markdown},
    wire::MessageEntity,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BotIdentity {
    pub(crate) id: i64,
    /// Its name, without the `@`.
    pub(crate) username: String,
}

/// The parsed text of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ParsedText {
    /// The text as Markdown, without mentions of the bot.
    pub(crate) text: String,
    /// Whether it mentions the bot.
    pub(crate) mentions_bot: bool,
    /// The command that it starts with.
    pub(crate) command: Option<LeadingCommand>,
}

/// A command at the beginning of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeadingCommand {
    /// One that may be for this bot: `/files`, `/files@this_bot`. Its name, without the slash.
    OwnBot(String),
    /// `/files@another_bot`.
    OtherBot,
}

/// Parses a text that was written to the bot, or in a group that it is in.
pub(crate) fn parse_text(text: &str, entities: &[MessageEntity], bot: &BotIdentity) -> ParsedText {
    parse_addressed(text, valid_spans(text, entities), bot)
}

/// Parses a text as a command reads it: the addresses of links and the fences of labelled code are part of what was written, other
/// formatting isn't.
pub(crate) fn parse_command(text: &str, entities: &[MessageEntity], bot: &BotIdentity) -> ParsedText {
    let is_read = |span: &EntitySpan<'_>| match span.entity.kind.as_str() {
        "mention" | "bot_command" | "text_link" => true,
        "text_mention" => is_bot_by_id(span.entity, bot),
        "pre" => span.entity.language.is_some(),
        _ => false,
    };
    let mut spans = valid_spans(text, entities);
    spans.retain(is_read);
    parse_addressed(text, spans, bot)
}

/// Parses a text that was written to someone else, in which all mentions stay.
pub(crate) fn parse_forwarded(text: &str, entities: &[MessageEntity]) -> String {
    to_markdown(text, &valid_spans(text, entities))
}

/// Returns the entities of a passage that starts at a UTF-16 offset of a text; `None` if the text has another passage there.
pub(crate) fn entities_of_passage(
    text: &str,
    entities: &[MessageEntity],
    passage: &str,
    position: usize,
) -> Option<Vec<MessageEntity>> {
    let start = byte_offset(text, position)?;
    text[start..].starts_with(passage).then_some(())?;
    let passage_end = position + passage.encode_utf16().count();
    let within = entities.iter().filter_map(|entity| {
        let start = entity.offset.max(position);
        let end = entity.offset.checked_add(entity.length)?.min(passage_end);
        (start < end).then(|| MessageEntity { offset: start - position, length: end - start, ..entity.clone() })
    });
    Some(within.collect())
}

fn parse_addressed(text: &str, mut spans: Vec<EntitySpan<'_>>, bot: &BotIdentity) -> ParsedText {
    let mut parsed = ParsedText::default();
    let mut mentions = Vec::new();
    let mut addressee = None;
    for EntitySpan { range, entity } in &spans {
        match entity.kind.as_str() {
            "mention" if is_bot_mention(&text[range.clone()], bot) => mentions.push(range.clone()),
            "text_mention" if is_bot_by_id(entity, bot) => mentions.push(range.clone()),
            "bot_command" if range.start == 0 => {
                let command = &text[range.clone()];
                let (name, username) = command.split_once('@').unwrap_or((command, &bot.username));
                if username.eq_ignore_ascii_case(&bot.username) {
                    parsed.command = Some(LeadingCommand::OwnBot(name.trim_start_matches('/').to_lowercase()));
                    addressee = Some(name.len()..range.end);
                } else {
                    parsed.command = Some(LeadingCommand::OtherBot);
                }
            }
            _ => {}
        }
    }
    parsed.mentions_bot = !mentions.is_empty();
    let removed = removed_ranges(text, addressee, &mentions);
    let text = remove_ranges(text, &removed);
    // A command must be recognised by its first characters.
    let formatted_from =
        if parsed.command.is_some() { text.find(char::is_whitespace).unwrap_or(text.len()) } else { 0 };
    for EntitySpan { range, .. } in &mut spans {
        *range = moved_offset(range.start, &removed).max(formatted_from)..moved_offset(range.end, &removed);
    }
    spans.retain(|span| !span.range.is_empty());
    parsed.text = to_markdown(&text, &spans);
    parsed
}

/// Returns the entities with valid offsets, sorted; outer ones come before those within them.
fn valid_spans<'a>(text: &str, entities: &'a [MessageEntity]) -> Vec<EntitySpan<'a>> {
    let span = |entity: &'a MessageEntity| {
        let start = byte_offset(text, entity.offset)?;
        let end = byte_offset(text, entity.offset.checked_add(entity.length)?)?;
        (start < end).then_some(EntitySpan { range: start..end, entity })
    };
    let mut spans: Vec<EntitySpan<'a>> = entities.iter().filter_map(span).collect();
    spans.sort_by_key(|span| (span.range.start, Reverse(span.range.end)));
    spans
}

/// Returns what is removed from a text: the bot's name behind a command, and its mentions, each with its punctuation or a double
/// space.
fn removed_ranges(text: &str, addressee: Option<Range<usize>>, mentions: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut removed: Vec<Range<usize>> = addressee.into_iter().collect();
    let mut has_text = !removed.is_empty();
    for (index, mention) in mentions.iter().enumerate() {
        let copied_to = removed.last().map_or(0, |last| last.end);
        if mention.start < copied_to {
            continue;
        }
        let before = &text[copied_to..mention.start];
        let next = mentions.get(index + 1).map_or(text.len(), |next| next.start.max(mention.end));
        let rest = &text[mention.end..next];
        has_text |= !before.trim().is_empty();
        if !has_text {
            let remaining = rest.trim_start_matches([',', ':', ';']).trim_start();
            removed.clear();
            removed.push(0..next - remaining.len());
        } else if rest.starts_with(char::is_alphanumeric) {
            removed.push(mention.clone());
        } else {
            removed.push(copied_to + before.trim_end_matches(' ').len()..mention.end);
        }
    }
    removed
}

fn remove_ranges(text: &str, removed: &[Range<usize>]) -> String {
    let mut remaining = String::with_capacity(text.len());
    let mut copied_to = 0;
    for range in removed {
        remaining.push_str(&text[copied_to..range.start]);
        copied_to = range.end;
    }
    remaining.push_str(&text[copied_to..]);
    remaining
}

/// Returns where an offset is once ranges before it were removed.
fn moved_offset(offset: usize, removed: &[Range<usize>]) -> usize {
    offset - removed.iter().map(|range| range.end.min(offset).saturating_sub(range.start)).sum::<usize>()
}

fn is_bot_mention(span: &str, bot: &BotIdentity) -> bool {
    span.strip_prefix('@').is_some_and(|name| name.eq_ignore_ascii_case(&bot.username))
}

/// Whether a mention without a username is one of the bot.
fn is_bot_by_id(entity: &MessageEntity, bot: &BotIdentity) -> bool {
    entity.user.as_ref().is_some_and(|user| user.id == bot.id)
}

/// The byte offset of a UTF-16 offset; `None` in the middle of a character and beyond the end.
fn byte_offset(text: &str, units: usize) -> Option<usize> {
    let mut counted = 0;
    for (offset, character) in text.char_indices() {
        if counted >= units {
            return (counted == units).then_some(offset);
        }
        counted += character.len_utf16();
    }
    (counted == units).then_some(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn parse_with_entities(text: &str, entities: Value) -> ParsedText {
        let entities: Vec<MessageEntity> = serde_json::from_value(entities).unwrap();
        parse_text(text, &entities, &BotIdentity { id: 7, username: "Satchel_Bot".into() })
    }

    #[test]
    fn bot_mention_is_removed_with_adjacent_punctuation() {
        for (text, offset, left) in [
            ("@satchel_bot what is this?", 0, "what is this?"),
            ("@satchel_bot, what is this?", 0, "what is this?"),
            ("hey @satchel_bot, what", 4, "hey, what"),
            ("hey @satchel_bot what", 4, "hey what"),
            ("what is this @satchel_bot", 13, "what is this"),
            ("what is this @satchel_bot?", 13, "what is this?"),
            ("a\n@satchel_bot\nb", 2, "a\n\nb"),
            ("👨‍👩‍👧 @satchel_bot ещё", 9, "👨‍👩‍👧 ещё"),
            ("@satchel_bot", 0, ""),
        ] {
            let parsed = parse_with_entities(text, json!([{ "type": "mention", "offset": offset, "length": 12 }]));
            assert!(parsed.mentions_bot, "{text}");
            assert_eq!(parsed.text, left, "{text}");
        }
    }

    #[test]
    fn other_mentions_stay_in_text() {
        for (text, entity) in [
            ("@ann look", json!({ "type": "mention", "offset": 0, "length": 4 })),
            ("@satchel_bots look", json!({ "type": "mention", "offset": 0, "length": 13 })),
            ("mail me@satchel_bot", json!({ "type": "email", "offset": 5, "length": 14 })),
        ] {
            assert_eq!(
                parse_with_entities(text, json!([entity])),
                ParsedText { text: text.into(), ..ParsedText::default() }
            );
        }
        let by_id = |id: i64| json!([{ "type": "text_mention", "offset": 0, "length": 3, "user": { "id": id } }]);
        assert!(parse_with_entities("You look", by_id(7)).mentions_bot);
        let of_ann = parse_with_entities("Ann look", by_id(8));
        assert_eq!(of_ann, ParsedText { text: "@Ann look".into(), ..ParsedText::default() });
    }

    #[test]
    fn a_command_is_the_first_word_only() {
        let command = |offset, length| json!([{ "type": "bot_command", "offset": offset, "length": length }]);
        let own_command = |name: &str, text: &str| ParsedText {
            text: text.into(),
            mentions_bot: false,
            command: Some(LeadingCommand::OwnBot(name.into())),
        };
        assert_eq!(parse_with_entities("/files", command(0, 6)), own_command("files", "/files"));
        assert_eq!(parse_with_entities("/Files@satchel_bot now", command(0, 18)), own_command("files", "/Files now"));
        assert_eq!(parse_with_entities("/files@other_bot", command(0, 16)).command, Some(LeadingCommand::OtherBot));
        assert_eq!(parse_with_entities("see /files", command(4, 6)).command, None);
    }

    #[test]
    fn forwarded_text_keeps_mentions_and_commands() {
        let entities = json!([
            { "type": "bot_command", "offset": 0, "length": 18 },
            { "type": "mention", "offset": 19, "length": 12 },
        ]);
        let entities: Vec<MessageEntity> = serde_json::from_value(entities).unwrap();
        assert_eq!(parse_forwarded("/Files@satchel_bot @satchel_bot", &entities), "/Files@satchel_bot @satchel_bot");
    }

    #[test]
    fn the_address_of_a_link_is_not_lost() {
        let link = |url: &str| json!([{ "type": "text_link", "offset": 5, "length": 4, "url": url }]);
        assert_eq!(
            parse_with_entities("read this now", link("https://a.example/b")).text,
            "read [this](https://a.example/b) now"
        );
        let shown = json!([{ "type": "text_link", "offset": 0, "length": 9, "url": "https://a.example/" }]);
        assert_eq!(parse_with_entities("a.example", shown).text, "[a.example](https://a.example/)");
    }

    #[test]
    fn code_with_language_becomes_fenced_block() {
        let pre = |offset: usize, length: usize, language: Option<&str>| json!([{ "type": "pre", "offset": offset, "length": length, "language": language }]);
        let script = "x = \"ä\"\nreturn x";
        let length = script.encode_utf16().count();
        let fenced = parse_with_entities(script, pre(0, length, Some("starlark"))).text;
        assert_eq!(satchel_domain::script::parse_script_message(&fenced), Some("x = \"ä\"\nreturn x\n"), "{fenced}");
        let within = parse_with_entities("see code, ok", pre(4, 4, Some("rust"))).text;
        assert_eq!(within, "see \n```rust\ncode\n```\n, ok");
        let unlabelled = parse_with_entities(script, pre(0, length, None)).text;
        assert_eq!(unlabelled, "```\nx = \"ä\"\nreturn x\n```");
        assert_eq!(satchel_domain::script::parse_script_message(&unlabelled), None, "nobody says that it is one");
    }

    #[test]
    fn invalid_entities_are_ignored() {
        for (offset, length) in [(0, 99), (99, 1), (1, 1), (usize::MAX, 2), (2, usize::MAX)] {
            let entity = json!([{ "type": "mention", "offset": offset, "length": length }]);
            assert_eq!(parse_with_entities("😀 @satchel_bot", entity).text, "😀 @satchel_bot");
        }
        let twice = json!([
            { "type": "text_link", "offset": 0, "length": 4, "url": "https://x.example" },
            { "type": "text_link", "offset": 0, "length": 4, "url": "https://y.example" },
            { "type": "text_link", "offset": 2, "length": 2, "url": "https://z.example" },
        ]);
        assert_eq!(parse_with_entities("this", twice).text, "[this](https://x.example)");
    }

    #[test]
    fn formatting_around_a_mention_stays_with_the_text() {
        let entities = json!([
            { "type": "bold", "offset": 0, "length": 22 },
            { "type": "mention", "offset": 0, "length": 12 },
            { "type": "strikethrough", "offset": 18, "length": 4 },
        ]);
        let parsed = parse_with_entities("@satchel_bot, buy milk and eggs", entities);
        assert!(parsed.mentions_bot);
        assert_eq!(parsed.text, "**buy ~~milk~~** and eggs");
    }

    #[test]
    fn command_is_read_as_it_was_typed() {
        let bot = BotIdentity { id: 7, username: "satchel_bot".into() };
        let read = |text: &str, entities: Value| {
            let entities: Vec<MessageEntity> = serde_json::from_value(entities).unwrap();
            let command = parse_command(text, &entities, &bot);
            (command.text, parse_text(text, &entities, &bot).text)
        };
        let entities = json!([
            { "type": "bot_command", "offset": 0, "length": 19 },
            { "type": "bold", "offset": 0, "length": 34 },
            { "type": "code", "offset": 30, "length": 4 },
        ]);
        let (command, text) = read("/remind@satchel_bot in 2h buy milk", entities);
        assert_eq!((command.as_str(), text.as_str()), ("/remind in 2h buy milk", "/remind **in 2h buy `milk`**"));
        let link = json!([
            { "type": "bot_command", "offset": 0, "length": 5 },
            { "type": "text_link", "offset": 6, "length": 4, "url": "https://a.example/b" },
        ]);
        let (command, text) = read("/read this", link);
        assert_eq!((command.as_str(), text.as_str()), ("/read [this](https://a.example/b)", command.as_str()));
        let person = json!([{ "type": "text_mention", "offset": 22, "length": 3, "user": { "id": 8 } }]);
        let (command, text) = read("/remind in 2h to call Ann", person);
        assert_eq!((command.as_str(), text.as_str()), ("/remind in 2h to call Ann", "/remind in 2h to call @Ann"));
        let code = json!([{ "type": "code", "offset": 0, "length": 4 }]);
        assert_eq!(read("/usr is full", code), ("/usr is full".to_owned(), "`/usr` is full".to_owned()), "a path");
    }

    #[test]
    fn passage_has_the_entities_of_its_text() {
        let entities = json!([
            { "type": "bold", "offset": 0, "length": 3 },
            { "type": "code", "offset": 3, "length": 10 },
            { "type": "italic", "offset": 14, "length": 2 },
        ]);
        let entities: Vec<MessageEntity> = serde_json::from_value(entities).unwrap();
        let passage = entities_of_passage("😀 rm *_old_* ok", &entities, "*_old_*", 6).unwrap();
        assert_eq!(parse_forwarded("*_old_*", &passage), "`*_old_*`");
        for (passage, position) in [("*_old_*", 5), ("rm", 1), ("rm", 99)] {
            assert!(entities_of_passage("😀 rm *_old_* ok", &entities, passage, position).is_none(), "{passage}");
        }
    }

    proptest! {
        #[test]
        fn text_that_is_typed_comes_unchanged(text in "\\PC{0,30}|[*_~|`<>\\[\\](): a\n]{0,30}") {
            prop_assert_eq!(parse_forwarded(&text, &[]), text.clone());
            let read = parse_text(&text, &[], &BotIdentity { id: 7, username: "satchel_bot".into() });
            prop_assert_eq!(read, ParsedText { text, ..ParsedText::default() });
        }

        #[test]
        fn any_entities_can_be_read(text in "\\PC{0,30}", spans in prop::collection::vec((0..6_usize, 0..40_usize, 0..40_usize), 0..6)) {
            let kinds = ["mention", "text_mention", "bot_command", "text_link", "bold", "new"];
            let entity = |(kind, offset, length): (usize, usize, usize)| MessageEntity {
                kind: kinds[kind].into(),
                offset,
                length,
                url: None,
                user: None,
                language: None,
                unix_time: None,
            };
            let entities: Vec<MessageEntity> = spans.into_iter().map(entity).collect();
            let bare = |text: &str| text.replace(['*', '@'], "");
            prop_assert_eq!(bare(&parse_forwarded(&text, &entities)), bare(&text));
            let read = parse_text(&text, &entities, &BotIdentity { id: 7, username: "satchel_bot".into() });
            prop_assert!(read.mentions_bot || bare(&read.text).len() <= bare(&text).len());
        }
    }
}
