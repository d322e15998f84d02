//! What a text says once its entities are read: whether it means us, and the words without our name. Pure.

use satchel_domain::script::fenced_block;

use super::wire::{MessageEntity, User};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BotIdentity {
    pub(crate) id: i64,
    /// Its name, without the `@`.
    pub(crate) username: String,
}

/// The words of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ParsedText {
    /// The words, without our name and with the addresses of links.
    pub(crate) text: String,
    /// Whether our name was among them.
    pub(crate) mentions_us: bool,
    /// The command that they begin with.
    pub(crate) command: Option<LeadingCommand>,
}

/// A command at the beginning of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeadingCommand {
    /// One that may be for us: `/files`, `/files@our_bot`. Its name, without the slash.
    OwnBot(String),
    /// `/files@another_bot`.
    OtherBot,
}

/// Reads words that were written to us, or to a group that we are in.
pub(crate) fn parse_text(text: &str, entities: &[MessageEntity], us: &BotIdentity) -> ParsedText {
    read(text, entities, Some(us))
}

/// Words that were written to somebody else: as they are, with the addresses of links.
pub(crate) fn parse_forwarded(text: &str, entities: &[MessageEntity]) -> String {
    read(text, entities, None).text
}

/// Reads a text. Entities that lie elsewhere than they say are passed over.
fn read(text: &str, entities: &[MessageEntity], us: Option<&BotIdentity>) -> ParsedText {
    let mut words = ParsedText::default();
    let mut spans: Vec<(usize, usize, &MessageEntity)> = entities
        .iter()
        .filter_map(|entity| {
            let begin = byte_at(text, entity.offset)?;
            Some((begin, byte_at(text, entity.offset.checked_add(entity.length)?)?, entity))
        })
        .collect();
    spans.sort_by_key(|(begin, ..)| *begin);
    let mut said = 0;
    let mut taken_out = false;
    for (begin, end, entity) in spans {
        // Spans may lie in each other, such as a bold link; what has been written is not written again.
        if begin < said {
            continue;
        }
        let span = &text[begin..end];
        let instead = match (entity.kind.as_str(), us) {
            ("mention", Some(us)) if is_name(span, us) => None,
            ("text_mention", Some(us)) if entity.user.as_ref().is_some_and(|user: &User| user.id == us.id) => None,
            ("bot_command", Some(us)) if begin == 0 => {
                let (name, bot) = span.split_once('@').unwrap_or((span, &us.username));
                if !bot.eq_ignore_ascii_case(&us.username) {
                    words.command = Some(LeadingCommand::OtherBot);
                    continue;
                }
                words.command = Some(LeadingCommand::OwnBot(name.trim_start_matches('/').to_lowercase()));
                Some(name.to_owned())
            }
            ("text_link", _) => match &entity.url {
                Some(url) if !span.contains(url.trim_end_matches('/')) => Some(format!("[{span}]({url})")),
                _ => continue,
            },
            ("pre", _) => match &entity.language {
                // Apps take the fence away that a person types, and say here what stood behind it.
                Some(language) => Some(splice_block(text, begin, end, fenced_block(language, span))),
                None => continue,
            },
            _ => continue,
        };
        append(&mut words.text, &text[said..begin], taken_out);
        taken_out = instead.is_none();
        words.mentions_us |= taken_out;
        words.text.push_str(instead.as_deref().unwrap_or_default());
        said = end;
    }
    append(&mut words.text, &text[said..], taken_out);
    words
}

/// What stands in the place of a span, with line breaks where the text around it has none.
fn splice_block(text: &str, begin: usize, end: usize, block: String) -> String {
    let before = if begin == 0 || text[..begin].ends_with('\n') { "" } else { "\n" };
    let behind = if end == text.len() || text[end..].starts_with('\n') { "" } else { "\n" };
    format!("{before}{block}{behind}")
}

/// Goes on after a name was taken out, so that neither its comma nor a second space is left.
fn append(text: &mut String, mut rest: &str, after_a_name: bool) {
    if after_a_name && text.trim().is_empty() {
        text.clear();
        rest = rest.trim_start_matches([',', ':', ';']).trim_start();
    } else if after_a_name && !rest.starts_with(char::is_alphanumeric) {
        text.truncate(text.trim_end_matches(' ').len());
    }
    text.push_str(rest);
}

fn is_name(span: &str, us: &BotIdentity) -> bool {
    span.strip_prefix('@').is_some_and(|name| name.eq_ignore_ascii_case(&us.username))
}

/// Where in the text so many UTF-16 units end; `None` in the middle of a character and beyond the end.
fn byte_at(text: &str, units: usize) -> Option<usize> {
    let mut passed = 0;
    for (at, character) in text.char_indices() {
        if passed >= units {
            return (passed == units).then_some(at);
        }
        passed += character.len_utf16();
    }
    (passed == units).then_some(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn words_of(text: &str, entities: Value) -> ParsedText {
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
            let words = words_of(text, json!([{ "type": "mention", "offset": offset, "length": 12 }]));
            assert!(words.mentions_us, "{text}");
            assert_eq!(words.text, left, "{text}");
        }
    }

    #[test]
    fn other_names_stay_and_mean_nobody() {
        for (text, entity) in [
            ("@ann look", json!({ "type": "mention", "offset": 0, "length": 4 })),
            ("@satchel_bots look", json!({ "type": "mention", "offset": 0, "length": 13 })),
            ("Ann look", json!({ "type": "text_mention", "offset": 0, "length": 3, "user": { "id": 8 } })),
            ("mail me@satchel_bot", json!({ "type": "email", "offset": 5, "length": 14 })),
        ] {
            assert_eq!(words_of(text, json!([entity])), ParsedText { text: text.into(), ..ParsedText::default() });
        }
        let by_id = json!([{ "type": "text_mention", "offset": 0, "length": 3, "user": { "id": 7 } }]);
        assert!(words_of("You look", by_id).mentions_us);
    }

    #[test]
    fn a_command_is_the_first_word_only() {
        let command = |offset, length| json!([{ "type": "bot_command", "offset": offset, "length": length }]);
        let ours = |name: &str, text: &str| ParsedText {
            text: text.into(),
            mentions_us: false,
            command: Some(LeadingCommand::OwnBot(name.into())),
        };
        assert_eq!(words_of("/files", command(0, 6)), ours("files", "/files"));
        assert_eq!(words_of("/Files@satchel_bot now", command(0, 18)), ours("files", "/Files now"));
        assert_eq!(words_of("/files@other_bot", command(0, 16)).command, Some(LeadingCommand::OtherBot));
        assert_eq!(words_of("see /files", command(4, 6)).command, None);
    }

    #[test]
    fn words_to_others_keep_their_names_and_commands() {
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
        assert_eq!(words_of("read this now", link("https://a.example/b")).text, "read [this](https://a.example/b) now");
        let shown = json!([{ "type": "text_link", "offset": 0, "length": 9, "url": "https://a.example/" }]);
        assert_eq!(words_of("a.example", shown).text, "[a.example](https://a.example/)");
    }

    #[test]
    fn code_with_language_becomes_fenced_block() {
        let pre = |offset: usize, length: usize, language: Option<&str>| json!([{ "type": "pre", "offset": offset, "length": length, "language": language }]);
        let script = "x = \"ä\"\nreturn x";
        let length = script.encode_utf16().count();
        let whole = words_of(script, pre(0, length, Some("starlark"))).text;
        assert_eq!(satchel_domain::script::parse_script_message(&whole), Some("x = \"ä\"\nreturn x\n"), "{whole}");
        let within = words_of("see code, ok", pre(4, 4, Some("rust"))).text;
        assert_eq!(within, "see \n```rust\ncode\n```\n, ok");
        assert_eq!(words_of(script, pre(0, length, None)).text, script, "without a label nothing is known of it");
    }

    #[test]
    fn entities_that_lie_elsewhere_are_passed_over() {
        for (offset, length) in [(0, 99), (99, 1), (1, 1), (usize::MAX, 2), (2, usize::MAX)] {
            let entity = json!([{ "type": "mention", "offset": offset, "length": length }]);
            assert_eq!(words_of("😀 @satchel_bot", entity).text, "😀 @satchel_bot");
        }
        let twice = json!([
            { "type": "text_link", "offset": 0, "length": 4, "url": "https://x.example" },
            { "type": "text_link", "offset": 0, "length": 4, "url": "https://y.example" },
            { "type": "text_link", "offset": 2, "length": 2, "url": "https://z.example" },
        ]);
        assert_eq!(words_of("this", twice).text, "[this](https://x.example)");
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
            prop_assert!(read.mentions_us || read.text.to_lowercase().len() <= text.to_lowercase().len());
        }
    }
}
