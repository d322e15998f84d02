//! The text of a message: mentions become names, and the message that it replies to or forwards is quoted. Pure.
//!
//! Discord writes `<@42>` for a person, `<#7>` for a channel, `<:wave:9>` for a guild's own emoji, `<t:0:R>` for a time and
//! `</files:3>` for a command (Message Formatting). In code and behind a backslash they are literal text. Everything else that
//! people format is Markdown already.

use std::fmt::Write;

use satchel_domain::{
    FileReference, MessageRef, Timestamp,
    filename::is_unsafe_char,
    quoting::{self, QuoteAuthor},
};

use super::{InboundReader, LeadingCommand, MESSAGE_NAME, ParsedMessage, forward, message_files, quoted_files};
use crate::{
    cache::GuildCache,
    inbound::wire::{Component, Embed, Message, MessageContent, PollMedia, User},
};

/// A component that is text (Component Types).
const TEXT_DISPLAY: u64 = 10;

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
    Time(Timestamp),
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
    while let Some(next) = text[at..].find(['<', '`', '\\']).map(|next| at + next) {
        if text[next..].starts_with('\\') {
            // What it stands before is no markup.
            at = next + 1 + usize::from(text[next + 1..].starts_with(|escaped: char| escaped.is_ascii_punctuation()));
            continue;
        }
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
            MentionTag::Role(id) => match names.cache.role_name(id) {
                Some(name) => Some(format!("@{}", mention_text(name.trim_start_matches('@')))),
                None => continue,
            },
            MentionTag::Time(time) => match time.to_utc_minute() {
                Some(minute) => Some(minute),
                None => continue,
            },
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
    } else if let Some(time) = inside.strip_prefix("t:") {
        let (seconds, style) = time.split_once(':').unwrap_or((time, "f"));
        number(seconds.strip_prefix('-').unwrap_or(seconds))?;
        let is_style = style.len() == 1 && style.bytes().all(|byte| byte.is_ascii_alphabetic());
        is_style.then_some(MentionTag::Time(Timestamp(seconds.parse::<i64>().ok()?.checked_mul(1_000)?)))?
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

/// The message that is replied to, or from which a thread was started.
pub(super) struct RepliedMessage {
    pub(super) author: QuoteAuthor,
    pub(super) text: String,
    pub(super) files: Vec<FileReference>,
}

/// How much is shown of the message that is replied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyDisclosure {
    Full,
    /// That there is one.
    Hidden,
}

/// Returns the text and files of a message, together with those of the message that it replies to or forwards.
pub(super) fn compose_text_and_files(
    parsed: &ParsedMessage<'_>,
    reader: &InboundReader,
    disclosure: ReplyDisclosure,
) -> (String, Vec<FileReference>) {
    let Message { head, content } = parsed.message;
    let mut files = message_files(parsed.message);
    files.extend(parsed.unreadable.map(|reason| FileReference::unreadable(MESSAGE_NAME, reason)));
    let own_text =
        quoting::escape_openings(&join_text([&parsed.text.text, &describe_content(content).unwrap_or_default()]));
    if head.is_forward() {
        let (quotation, forwarded_files) = forward::quote_forward(head, parsed.original, reader);
        files.extend(forwarded_files);
        return (
            if own_text.is_empty() { quotation } else { quoting::append_below_quote(&quotation, &own_text) },
            files,
        );
    }
    let replied = replied_message(parsed, reader, disclosure);
    let Some(replied) = replied.filter(|replied| includes_reply(parsed.command, replied)) else {
        // A mention alone is a message, too.
        let is_mention_only = own_text.is_empty() && files.is_empty();
        return (
            if is_mention_only { quoting::escape_openings(&reader.forwarded_text(content)) } else { own_text },
            files,
        );
    };
    let names: Vec<String> = replied.files.iter().map(|file| file.filename.to_string()).collect();
    files.extend(replied.files);
    let quotation = quoting::quote_reply(&replied.author, &names, &replied.text);
    let text = match parsed.command {
        // A command must come first to be recognised.
        Some(_) => format!("{own_text}\n\n{quotation}"),
        None if own_text.is_empty() => quotation,
        None => quoting::append_below_quote(&quotation, &own_text),
    };
    (text, files)
}

/// Whether the message that is replied to is included: not with Satchel's own commands, and not with another command
/// that replies to the bot.
fn includes_reply(command: Option<LeadingCommand>, replied: &RepliedMessage) -> bool {
    match command {
        Some(LeadingCommand::Own) => false,
        Some(LeadingCommand::Other) => replied.author != QuoteAuthor::Bot,
        None => true,
    }
}

fn replied_message(
    parsed: &ParsedMessage<'_>,
    reader: &InboundReader,
    disclosure: ReplyDisclosure,
) -> Option<RepliedMessage> {
    let message = parsed.message.head.replied_to()?;
    if disclosure == ReplyDisclosure::Hidden {
        return Some(RepliedMessage { author: QuoteAuthor::Stranger, text: String::new(), files: Vec::new() });
    }
    Some(quote_message(message, reader))
}

/// Returns another message as it is quoted.
pub(super) fn quote_message(message: &Message, reader: &InboundReader) -> RepliedMessage {
    let Message { head, content } = message;
    let is_by_bot = head.author.id.0 == reader.bot.user_id;
    let mut texts = vec![full_text(content, reader)];
    let mut files = quoted_files(content, head);
    if is_by_bot {
        let shown_in = Some(MessageRef(head.id.0.to_string()));
        files
            .iter_mut()
            .filter_map(|file| file.quoted.as_mut())
            .for_each(|quoted| quoted.shown_in.clone_from(&shown_in));
    }
    for forwarded in head.message_snapshots.iter().map(|snapshot| &snapshot.message) {
        texts.push(full_text(forwarded, reader));
        files.extend(quoted_files(forwarded, head));
    }
    texts.retain(|text| !text.is_empty());
    RepliedMessage {
        author: if is_by_bot { QuoteAuthor::Bot } else { QuoteAuthor::Person(head.author.name().to_owned()) },
        text: texts.join("\n"),
        files,
    }
}

/// Returns the full text of someone else's message.
pub(super) fn full_text(content: &MessageContent, reader: &InboundReader) -> String {
    let text = join_text([&reader.forwarded_text(content), &describe_content(content).unwrap_or_default()]);
    let shown = join_text([&embed_text(content), &component_text(&content.components)]);
    join_text([&text, &parse_forwarded(&shown, reader.mention_names(content))])
}

impl InboundReader {
    fn forwarded_text(&self, content: &MessageContent) -> String {
        parse_forwarded(&content.text, self.mention_names(content))
    }
}

fn join_text(parts: [&str; 2]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Describes stickers and polls; `None` if the message has none.
pub(super) fn describe_content(content: &MessageContent) -> Option<String> {
    let mut text = String::new();
    for sticker in &content.sticker_items {
        push_line(&mut text, &format!("[sticker: {}]", sticker.name));
    }
    if let Some(poll) = &content.poll {
        let media_text = |media: &PollMedia| media.text.clone().unwrap_or_default();
        push_line(&mut text, &format!("[poll: {}]", media_text(&poll.question)));
        for answer in &poll.answers {
            push_line(&mut text, &format!("- {}", media_text(&answer.poll_media)));
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Returns the text of a message's embeds, the only content of some bots' messages, without links that repeat its text.
pub(super) fn embed_text(content: &MessageContent) -> String {
    let mut text = String::new();
    for Embed { title, description, url: link, fields, author, footer, image, thumbnail } in &content.embeds {
        let mut embed_lines = String::new();
        push_line(&mut embed_lines, author.as_ref().map_or("", |author| author.name.as_str()));
        let url = link.as_deref().filter(|url| !content.text.contains(url.trim_end_matches('/')));
        match (title, url) {
            (Some(title), Some(url)) => push_line(&mut embed_lines, &format!("[{title}]({url})")),
            (Some(title), None) => push_line(&mut embed_lines, title),
            (None, Some(url)) => push_line(&mut embed_lines, url),
            (None, None) => {}
        }
        if let Some(description) = description {
            push_line(&mut embed_lines, description);
        }
        for field in fields {
            push_line(&mut embed_lines, &format!("{}: {}", field.name, field.value));
        }
        push_line(&mut embed_lines, footer.as_ref().map_or("", |footer| footer.text.as_str()));
        // Of a picture alone there is nothing else to be read.
        if let Some(image) = image.as_ref().or(thumbnail.as_ref()).filter(|_| embed_lines.is_empty() && link.is_none())
        {
            push_line(&mut embed_lines, &image.url);
        }
        push_line(&mut text, &embed_lines);
    }
    text
}

/// Returns the text of a message that an app has laid out in components.
fn component_text(components: &[Component]) -> String {
    let mut text = String::new();
    for component in components {
        if component.kind == TEXT_DISPLAY {
            push_line(&mut text, component.content.as_deref().unwrap_or_default());
        }
        push_line(&mut text, &component_text(&component.components));
    }
    text
}

fn push_line(text: &mut String, line: &str) {
    if !line.is_empty() {
        let _ = write!(text, "{}{line}", if text.is_empty() { "" } else { "\n" });
    }
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
        let roles = json!([{ "id": "1", "name": "@everyone" }, { "id": "72", "name": "cooks" }]);
        known.record_guild(&json!({ "id": "1", "roles": roles }));
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
            ("<@&72> of <@&1>", "@cooks of @everyone"),
            ("at <t:1700000000:R>, <t:0>, <t:-60:D>", "at 2023-11-14T22:13Z, 1970-01-01T00:00Z, 1969-12-31T23:59Z"),
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
            "at <t:> <t:x> <t:+5> <t:5:> <t:5:RR> <t:5:1> <t:99999999999999> <t:9223372036854775807:R>",
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
    fn escaped_characters_are_no_markup() {
        for (text, read) in [
            ("\\`<@42>\\`", "\\`@Ann Lee\\`"),
            ("\\<@42> <@42>", "\\<@42> @Ann Lee"),
            ("\\\\<@42>", "\\\\@Ann Lee"),
            ("C:\\new\\ <@42>", "C:\\new\\ @Ann Lee"),
            ("`\\` <@42>", "`\\` @Ann Lee"),
            ("\\", "\\"),
        ] {
            assert_eq!(words_of(text).text, read, "{text}");
        }
    }

    #[test]
    fn formatting_of_people_comes_unchanged() {
        for text in [
            "buy ~~milk~~ eggs bread",
            "`rm *_old_*` and ``a ` b``",
            "```sh\nrm *_old_*\n```",
            "> quoted\n>>> and all\nof this",
            "-# small ||hidden|| __under__ **bold** *it* [here](https://a.example)",
            "2*3*4 = 24, see __init__.py and \\*not this\\*",
        ] {
            assert_eq!(words_of(text), ParsedText { text: text.into(), mentions_bot: false });
        }
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
