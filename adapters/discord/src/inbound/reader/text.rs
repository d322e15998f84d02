//! Parses the text of a message: removes the bot's mention and replaces ids by names. Pure.
//!
//! Discord writes `<@42>` for a person, `<#7>` for a channel, `<:wave:9>` for a guild's own emoji and `</files:3>` for
//! a command (Message Formatting). In code they are literal text.

use satchel_domain::filename::is_unsafe_char;

use crate::{cache::GuildCache, inbound::wire::User};

/// The names for ids in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct MentionNames<'a> {
    pub(super) people: &'a [User],
    pub(super) cache: &'a GuildCache,
}

/// The ids whose mention addresses the bot.
#[derive(Debug, Clone, Copy)]
pub(super) struct BotMentions {
    pub(super) user: u64,
    /// The role that a guild has made for the bot; people confuse it with the bot's user.
    pub(super) role: Option<u64>,
}

/// The parsed text of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ParsedText {
    /// The text without the bot's mentions.
    pub(super) text: String,
    /// Whether the bot was mentioned.
    pub(super) mentions_bot: bool,
}

/// A tag between `<` and `>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MentionTag<'a> {
    Person(u64),
    Role(u64),
    Channel(u64),
    Emoji(&'a str),
    Command(&'a str),
}

/// Parses a text that was written to the bot or in its channel.
pub(super) fn parse_text(text: &str, names: MentionNames<'_>, bot: BotMentions) -> ParsedText {
    replace_mentions(text, names, Some(bot))
}

/// Parses a text that was written to someone else: all names stay.
pub(super) fn parse_forwarded(text: &str, names: MentionNames<'_>) -> String {
    replace_mentions(text, names, None).text
}

fn replace_mentions(text: &str, names: MentionNames<'_>, bot: Option<BotMentions>) -> ParsedText {
    let mut parsed = ParsedText::default();
    let mut removed_mention = false;
    let (mut copied_to, mut at) = (0, 0);
    while let Some(next) = text[at..].find(['<', '`']).map(|next| at + next) {
        if text[next..].starts_with('`') {
            at = next + code_length(&text[next..]);
            continue;
        }
        at = next + 1;
        let Some((tag, end)) = parse_tag(&text[at..]).map(|(tag, length)| (tag, at + length)) else { continue };
        let replacement = match tag {
            MentionTag::Person(id) if bot.is_some_and(|bot| bot.user == id) => None,
            MentionTag::Role(id) if bot.is_some_and(|bot| bot.role == Some(id)) => None,
            MentionTag::Person(id) => match names.people.iter().find(|person| person.id.0 == id) {
                Some(person) => Some(format!("@{}", mention_text(person.name()))),
                None => continue,
            },
            MentionTag::Channel(id) => match names.cache.channel_name(id) {
                Some(name) => Some(format!("#{}", mention_text(&name))),
                None => continue,
            },
            MentionTag::Role(_) => continue,
            MentionTag::Emoji(name) => Some(format!(":{name}:")),
            MentionTag::Command(name) => Some(format!("/{name}")),
        };
        append_after_tag(&mut parsed.text, &text[copied_to..next], removed_mention);
        removed_mention = replacement.is_none();
        parsed.mentions_bot |= removed_mention;
        parsed.text.push_str(replacement.as_deref().unwrap_or_default());
        (copied_to, at) = (end, end);
    }
    append_after_tag(&mut parsed.text, &text[copied_to..], removed_mention);
    parsed
}

/// Parses a tag after its `<`. Returns it with its length including the `>`.
fn parse_tag(text: &str) -> Option<(MentionTag<'_>, usize)> {
    let (inside, _) = text.split_once('>')?;
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<u64>().ok()).flatten()
    };
    let tag = if let Some(id) = inside.strip_prefix("@&") {
        MentionTag::Role(number(id)?)
    } else if let Some(id) = inside.strip_prefix("@!").or_else(|| inside.strip_prefix('@')) {
        MentionTag::Person(number(id)?)
    } else if let Some(id) = inside.strip_prefix('#') {
        MentionTag::Channel(number(id)?)
    } else if let Some(command) = inside.strip_prefix('/') {
        let (name, id) = command.rsplit_once(':')?;
        number(id)?;
        (!name.contains(char::is_control)).then_some(MentionTag::Command(name))?
    } else {
        let (name, id) = inside.strip_prefix("a:").or_else(|| inside.strip_prefix(':'))?.split_once(':')?;
        number(id)?;
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then_some(MentionTag::Emoji(name))?
    };
    Some((tag, inside.len() + 1))
}

/// Returns the length of the code at the start of a text; only that of its backticks if it doesn't end.
fn code_length(text: &str) -> usize {
    let ticks = text.bytes().take_while(|byte| *byte == b'`').count();
    let mut at = ticks;
    while let Some(next) = text[at..].find('`').map(|next| at + next) {
        let found = text[next..].bytes().take_while(|byte| *byte == b'`').count();
        at = next + found;
        if found == ticks {
            return at;
        }
    }
    ticks
}

/// Appends text; after a removed mention without its comma and without a second space.
fn append_after_tag(text: &mut String, mut rest: &str, after_mention: bool) {
    if after_mention && text.trim().is_empty() {
        text.clear();
        rest = rest.trim_start_matches([',', ':', ';']).trim_start();
    } else if after_mention && !rest.starts_with(char::is_alphanumeric) {
        text.truncate(text.trim_end_matches(' ').len());
    }
    text.push_str(rest);
}

fn mention_text(name: &str) -> String {
    name.chars().filter(|c| !is_unsafe_char(*c)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const OURS: BotMentions = BotMentions { user: 7, role: Some(71) };

    fn known() -> GuildCache {
        let known = GuildCache::default();
        known.record_channel(&json!({ "id": "501", "name": "satchel" }));
        known
    }

    fn people() -> Vec<User> {
        serde_json::from_value(json!([
            { "id": "42", "username": "ann", "global_name": "Ann Lee" },
            { "id": "43", "username": "bob", "member": { "nick": "Bobby" } },
            { "id": "7", "username": "satchel", "bot": true },
        ]))
        .unwrap()
    }

    fn words_of(text: &str) -> ParsedText {
        parse_text(text, MentionNames { people: &people(), cache: &known() }, OURS)
    }

    #[test]
    fn bot_mention_is_removed_with_adjacent_punctuation() {
        for (text, left) in [
            ("<@7> what is this?", "what is this?"),
            ("<@!7>, what is this?", "what is this?"),
            ("hey <@7>, what", "hey, what"),
            ("hey <@7> what", "hey what"),
            ("what is this <@7>", "what is this"),
            ("what is this <@&71>?", "what is this?"),
            ("a\n<@7>\nb", "a\n\nb"),
            ("<@7> <@7> ещё", "ещё"),
            ("👨‍👩‍👧 <@7> ещё", "👨‍👩‍👧 ещё"),
            ("<@7>", ""),
        ] {
            let words = words_of(text);
            assert!(words.mentions_bot, "{text}");
            assert_eq!(words.text, left, "{text}");
        }
    }

    #[test]
    fn ids_become_the_names_that_people_see() {
        for (text, said) in [
            ("<@42> and <@!43>", "@Ann Lee and @Bobby"),
            ("see <#501>", "see #satchel"),
            ("<:wave:9><a:dance_2:10>", ":wave::dance_2:"),
            ("</files:3> or </voice on:4>", "/files or /voice on"),
        ] {
            assert_eq!(words_of(text), ParsedText { text: said.into(), mentions_bot: false });
        }
    }

    #[test]
    fn unknown_mentions_and_non_tags_stay_unchanged() {
        for text in [
            "<@99> <#99> <@&99> <id:customize>",
            "at <t:1700000000:R>",
            "a < b > c <@42 <<@> <@x> <@-1> <#> <:wave:> <:a b:1> </:> <@99999999999999999999>",
            "<@+7>",
            "<@",
            "<",
        ] {
            assert_eq!(words_of(text), ParsedText { text: text.into(), mentions_bot: false });
        }
    }

    #[test]
    fn mentions_in_code_stay_literal() {
        for text in ["`<@7>`", "``a ` <@42>``", "```rs\n<:wave:9> <@7>\n```", "`` <@7> ` ``"] {
            assert_eq!(words_of(text), ParsedText { text: text.into(), mentions_bot: false });
        }
        assert_eq!(words_of("` <@42> ``").text, "` @Ann Lee ``", "it never ends");
        assert_eq!(words_of("`a` <@42> `<@42>`").text, "`a` @Ann Lee `<@42>`");
    }

    #[test]
    fn words_to_others_keep_our_name() {
        let names = MentionNames { people: &people(), cache: &known() };
        assert_eq!(parse_forwarded("<@7> ask <@42>", names), "@satchel ask @Ann Lee");
    }

    #[test]
    fn a_name_cannot_break_its_line() {
        let people: Vec<User> = serde_json::from_value(json!([{ "id": "1", "username": "a\n> b\u{202E}" }])).unwrap();
        assert_eq!(parse_forwarded("<@1>", MentionNames { people: &people, cache: &known() }), "@a> b");
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "([<>`@#:/!&a ]|[0-9]|\\PC){0,40}") {
            let read = words_of(&text);
            prop_assert!(text.contains('<') || read.text == text, "{:?}", read.text);
            let ticks = |text: &str| text.matches('`').count();
            prop_assert_eq!(ticks(&read.text), ticks(&text));
        }
    }
}
