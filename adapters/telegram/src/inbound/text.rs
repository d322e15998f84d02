//! Parses a text with its entities: whether it mentions the bot, its command, and the text without the mention. Pure.

use satchel_domain::script::fenced_block;

use super::wire::{MessageEntity, User};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BotIdentity {
    pub(crate) id: i64,
    /// Its name, without the `@`.
    pub(crate) username: String,
}

/// The parsed text of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ParsedText {
    /// The text without mentions of the bot and with the addresses of links.
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
    parse(text, entities, Some(bot))
}

/// Parses a text that was written to someone else: unchanged, but with the addresses of links.
pub(crate) fn parse_forwarded(text: &str, entities: &[MessageEntity]) -> String {
    parse(text, entities, None).text
}

/// Parses a text. Entities with invalid offsets are ignored.
fn parse(text: &str, entities: &[MessageEntity], bot: Option<&BotIdentity>) -> ParsedText {
    let mut parsed = ParsedText::default();
    let mut spans: Vec<(usize, usize, &MessageEntity)> = entities
        .iter()
        .filter_map(|entity| {
            let start = byte_offset(text, entity.offset)?;
            Some((start, byte_offset(text, entity.offset.checked_add(entity.length)?)?, entity))
        })
        .collect();
    spans.sort_by_key(|(start, ..)| *start);
    let mut copied_to = 0;
    let mut removed_mention = false;
    for (start, end, entity) in spans {
        // Spans may be nested, such as a bold link; text that was copied is not copied again.
        if start < copied_to {
            continue;
        }
        let span = &text[start..end];
        let replacement = match (entity.kind.as_str(), bot) {
            ("mention", Some(bot)) if is_bot_mention(span, bot) => None,
            ("text_mention", Some(bot)) if entity.user.as_ref().is_some_and(|user: &User| user.id == bot.id) => None,
            ("bot_command", Some(bot)) if start == 0 => {
                let (name, username) = span.split_once('@').unwrap_or((span, &bot.username));
                if !username.eq_ignore_ascii_case(&bot.username) {
                    parsed.command = Some(LeadingCommand::OtherBot);
                    continue;
                }
                parsed.command = Some(LeadingCommand::OwnBot(name.trim_start_matches('/').to_lowercase()));
                Some(name.to_owned())
            }
            ("text_link", _) => match &entity.url {
                Some(url) if !span.contains(url.trim_end_matches('/')) => Some(format!("[{span}]({url})")),
                _ => continue,
            },
            ("pre", _) => match &entity.language {
                // Apps remove the fence that a person types, and report its language here.
                Some(language) => Some(splice_block(text, start, end, fenced_block(language, span))),
                None => continue,
            },
            _ => continue,
        };
        append_text(&mut parsed.text, &text[copied_to..start], removed_mention);
        removed_mention = replacement.is_none();
        parsed.mentions_bot |= removed_mention;
        parsed.text.push_str(replacement.as_deref().unwrap_or_default());
        copied_to = end;
    }
    append_text(&mut parsed.text, &text[copied_to..], removed_mention);
    parsed
}

/// Returns a block that replaces a span, with line breaks where the surrounding text has none.
fn splice_block(text: &str, start: usize, end: usize, block: String) -> String {
    let before = if start == 0 || text[..start].ends_with('\n') { "" } else { "\n" };
    let after = if end == text.len() || text[end..].starts_with('\n') { "" } else { "\n" };
    format!("{before}{block}{after}")
}

/// Appends text; after a removed mention, without the mention's punctuation or a double space.
fn append_text(text: &mut String, mut rest: &str, after_mention: bool) {
    if after_mention && text.trim().is_empty() {
        text.clear();
        rest = rest.trim_start_matches([',', ':', ';']).trim_start();
    } else if after_mention && !rest.starts_with(char::is_alphanumeric) {
        text.truncate(text.trim_end_matches(' ').len());
    }
    text.push_str(rest);
}

fn is_bot_mention(span: &str, bot: &BotIdentity) -> bool {
    span.strip_prefix('@').is_some_and(|name| name.eq_ignore_ascii_case(&bot.username))
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
            ("Ann look", json!({ "type": "text_mention", "offset": 0, "length": 3, "user": { "id": 8 } })),
            ("mail me@satchel_bot", json!({ "type": "email", "offset": 5, "length": 14 })),
        ] {
            assert_eq!(
                parse_with_entities(text, json!([entity])),
                ParsedText { text: text.into(), ..ParsedText::default() }
            );
        }
        let by_id = json!([{ "type": "text_mention", "offset": 0, "length": 3, "user": { "id": 7 } }]);
        assert!(parse_with_entities("You look", by_id).mentions_bot);
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
        assert_eq!(
            parse_with_entities(script, pre(0, length, None)).text,
            script,
            "without a label nothing is known of it"
        );
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

    proptest! {
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
            };
            let entities: Vec<MessageEntity> = spans.into_iter().map(entity).collect();
            prop_assert_eq!(parse_forwarded(&text, &entities), text.clone());
            let read = parse_text(&text, &entities, &BotIdentity { id: 7, username: "satchel_bot".into() });
            prop_assert!(read.mentions_bot || read.text.to_lowercase().len() <= text.to_lowercase().len());
        }
    }
}
