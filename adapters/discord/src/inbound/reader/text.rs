//! What a text says to people: without our name, and with the names that ids stand for. Pure.
//!
//! Discord writes `<@42>` for a person, `<#7>` for a channel, `<:wave:9>` for a guild's own emoji and `</files:3>` for
//! a command (Message Formatting). In code such a thing is nothing but its characters.

use satchel_domain::filename::is_unsafe_char;

use crate::{cache::GuildCache, inbound::wire::User};

/// What ids in a text stand for.
#[derive(Debug, Clone, Copy)]
pub(super) struct MentionNames<'a> {
    /// The people who are mentioned.
    pub(super) people: &'a [User],
    pub(super) known: &'a GuildCache,
}

/// Those by whose mention we are meant.
#[derive(Debug, Clone, Copy)]
pub(super) struct BotMentions {
    pub(super) user: u64,
    /// The role that a guild has made for us, and that people take for us while they type.
    pub(super) role: Option<u64>,
}

/// The words of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ParsedText {
    /// The words, without our name.
    pub(super) text: String,
    /// Whether our name was among them.
    pub(super) mentions_us: bool,
}

/// What stands between `<` and `>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MentionTag<'a> {
    Person(u64),
    Role(u64),
    Channel(u64),
    Emoji(&'a str),
    Command(&'a str),
}

/// Reads words that were written to us, or to a channel that we are in.
pub(super) fn parse_text(text: &str, names: MentionNames<'_>, ours: BotMentions) -> ParsedText {
    read(text, names, Some(ours))
}

/// Words that were written to somebody else: all names stay.
pub(super) fn parse_forwarded(text: &str, names: MentionNames<'_>) -> String {
    read(text, names, None).text
}

fn read(text: &str, names: MentionNames<'_>, ours: Option<BotMentions>) -> ParsedText {
    let mut words = ParsedText::default();
    let mut taken_out = false;
    let (mut said, mut at) = (0, 0);
    while let Some(next) = text[at..].find(['<', '`']).map(|next| at + next) {
        if text[next..].starts_with('`') {
            at = next + code_length(&text[next..]);
            continue;
        }
        at = next + 1;
        let Some((tag, end)) = parse_tag(&text[at..]).map(|(tag, length)| (tag, at + length)) else { continue };
        let instead = match tag {
            MentionTag::Person(id) if ours.is_some_and(|ours| ours.user == id) => None,
            MentionTag::Role(id) if ours.is_some_and(|ours| ours.role == Some(id)) => None,
            MentionTag::Person(id) => match names.people.iter().find(|person| person.id.0 == id) {
                Some(person) => Some(format!("@{}", mention_text(person.name()))),
                None => continue,
            },
            MentionTag::Channel(id) => match names.known.name_of(id) {
                Some(name) => Some(format!("#{}", mention_text(&name))),
                None => continue,
            },
            MentionTag::Role(_) => continue,
            MentionTag::Emoji(name) => Some(format!(":{name}:")),
            MentionTag::Command(name) => Some(format!("/{name}")),
        };
        append(&mut words.text, &text[said..next], taken_out);
        taken_out = instead.is_none();
        words.mentions_us |= taken_out;
        words.text.push_str(instead.as_deref().unwrap_or_default());
        (said, at) = (end, end);
    }
    append(&mut words.text, &text[said..], taken_out);
    words
}

/// Reads a tag behind its `<`, and says how long it is with its `>`.
fn parse_tag(text: &str) -> Option<(MentionTag<'_>, usize)> {
    let (inside, _) = text.split_once('>')?;
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse::<u64>().ok()).flatten()
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

/// How long the code is that begins a text; as long as its backticks where it doesn't end.
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
        known.learn_channel(&json!({ "id": "501", "name": "satchel" }));
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
        parse_text(text, MentionNames { people: &people(), known: &known() }, OURS)
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
            assert!(words.mentions_us, "{text}");
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
            assert_eq!(words_of(text), ParsedText { text: said.into(), mentions_us: false });
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
            assert_eq!(words_of(text), ParsedText { text: text.into(), mentions_us: false });
        }
    }

    #[test]
    fn mentions_in_code_stay_literal() {
        for text in ["`<@7>`", "``a ` <@42>``", "```rs\n<:wave:9> <@7>\n```", "`` <@7> ` ``"] {
            assert_eq!(words_of(text), ParsedText { text: text.into(), mentions_us: false });
        }
        assert_eq!(words_of("` <@42> ``").text, "` @Ann Lee ``", "it never ends");
        assert_eq!(words_of("`a` <@42> `<@42>`").text, "`a` @Ann Lee `<@42>`");
    }

    #[test]
    fn words_to_others_keep_our_name() {
        let names = MentionNames { people: &people(), known: &known() };
        assert_eq!(parse_forwarded("<@7> ask <@42>", names), "@satchel ask @Ann Lee");
    }

    #[test]
    fn a_name_cannot_break_its_line() {
        let people: Vec<User> = serde_json::from_value(json!([{ "id": "1", "username": "a\n> b\u{202E}" }])).unwrap();
        assert_eq!(parse_forwarded("<@1>", MentionNames { people: &people, known: &known() }), "@a> b");
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
