//! What the entities of a text are written as, and which parts of it they cover. Pure.

use std::ops::Range;

use satchel_domain::Timestamp;

use crate::inbound::wire::MessageEntity;

/// The entities that can be combined, each with what is written on both sides. Of those that end together, the first is
/// outside.
const STYLES: [(&str, &str); 5] =
    [("spoiler", "||"), ("strikethrough", "~~"), ("underline", "__"), ("bold", "**"), ("italic", "*")];

/// An entity, with the bytes of the text that it covers.
#[derive(Debug, Clone)]
pub(in crate::inbound) struct EntitySpan<'a> {
    pub(in crate::inbound) range: Range<usize>,
    pub(in crate::inbound) entity: &'a MessageEntity,
}

/// A format within a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InlineFormat {
    /// One of [`STYLES`], by its index.
    Style(usize),
    /// What the text leads to or names, by the index of its entity: a link, a person or a time.
    Target(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntityFormat {
    Inline(InlineFormat),
    Code,
    Pre,
    Quote,
}

/// The formats of one character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TextFormats {
    /// A bit for each of [`STYLES`].
    styles: u8,
    target: Option<usize>,
}

/// A part of a text that is code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntityCode<'a> {
    pub(super) range: Range<usize>,
    /// Its language, if it stands on lines of its own; empty if that is unknown.
    pub(super) label: Option<&'a str>,
}

/// The entities of a text that are written.
pub(super) struct WrittenSpans<'a> {
    entities: Vec<&'a MessageEntity>,
    /// The range, the format, and the index of the entity.
    spans: Vec<(Range<usize>, EntityFormat, usize)>,
}

impl TextFormats {
    pub(super) fn has(self, format: InlineFormat) -> bool {
        match format {
            InlineFormat::Style(style) => self.styles & (1 << style) != 0,
            InlineFormat::Target(target) => self.target == Some(target),
        }
    }

    /// Those that both have.
    pub(super) fn common(self, other: Self) -> Self {
        Self { styles: self.styles & other.styles, target: self.target.filter(|target| other.target == Some(*target)) }
    }

    pub(super) fn iter(self) -> impl Iterator<Item = InlineFormat> {
        let styles = (0..STYLES.len()).map(InlineFormat::Style).filter(move |style| self.has(*style));
        self.target.map(InlineFormat::Target).into_iter().chain(styles)
    }

    fn add(&mut self, format: InlineFormat) {
        match format {
            InlineFormat::Style(style) => self.styles |= 1 << style,
            // A text can lead to one target only.
            InlineFormat::Target(target) => self.target = self.target.or(Some(target)),
        }
    }
}

impl<'a> WrittenSpans<'a> {
    /// Selects the entities that are written. One that begins or ends within an address covers all of it: an address with
    /// other characters in it would be another one.
    pub(super) fn new(text: &str, spans: &[EntitySpan<'a>]) -> Self {
        let addresses = find_addresses(text, spans);
        let written = spans.iter().enumerate().filter_map(|(index, EntitySpan { range, entity })| {
            let format = entity_format(entity, &text[range.clone()], index)?;
            Some((around_addresses(range.clone(), &addresses), format, index))
        });
        Self { entities: spans.iter().map(|span| span.entity).collect(), spans: written.collect() }
    }

    /// The formats of a part of the text: all that any of its characters has.
    pub(super) fn formats_of(&self, part: &Range<usize>) -> TextFormats {
        let mut formats = TextFormats::default();
        for (range, format, _) in &self.spans {
            if let EntityFormat::Inline(format) = format
                && range.start < part.end
                && part.start < range.end
            {
                formats.add(*format);
            }
        }
        formats
    }

    /// What is written before a text with this format.
    pub(super) fn opening(&self, format: InlineFormat) -> &'static str {
        match format {
            InlineFormat::Style(style) => STYLES[style].1,
            InlineFormat::Target(target) => match self.entities[target].kind.as_str() {
                "text_link" => "[",
                "text_mention" => "@",
                _ => "",
            },
        }
    }

    /// What is written behind a text with this format.
    pub(super) fn closing(&self, format: InlineFormat) -> String {
        match format {
            InlineFormat::Style(style) => STYLES[style].1.to_owned(),
            InlineFormat::Target(target) => {
                let entity = self.entities[target];
                let address = entity.url.as_deref().map(|url| format!("]({})", link_target(url)));
                let time = || written_time(entity).map(|time| format!(" ({time})"));
                address.filter(|_| entity.kind == "text_link").or_else(time).unwrap_or_default()
            }
        }
    }

    /// Whether these are the formats of a link that nobody sees, because its text is blank.
    pub(super) fn is_blank_link(&self, text: &str, formats: TextFormats) -> bool {
        formats.target.is_some_and(|target| {
            let mut spans = self.spans.iter().filter(|(.., index)| *index == target);
            spans.any(|(range, ..)| text[range.clone()].trim().is_empty())
        })
    }

    /// The quotes of the text in order, without line breaks around them.
    pub(super) fn quotes(&self, text: &str) -> Vec<Range<usize>> {
        let mut quotes: Vec<Range<usize>> = Vec::new();
        for (range, ..) in self.spans.iter().filter(|(_, format, _)| *format == EntityFormat::Quote) {
            let start = range.start.max(quotes.last().map_or(0, |last| last.end)).min(range.end);
            let quote = without_line_breaks(text, start..range.end);
            if !text[quote.clone()].trim().is_empty() {
                quotes.push(quote);
            }
        }
        quotes
    }

    /// The code in a part of the text, in order. Code that touches other code within a line is one with it: the backticks
    /// between them would be taken for its own.
    pub(super) fn codes(&self, text: &str, section: &Range<usize>) -> Vec<EntityCode<'a>> {
        let mut codes: Vec<EntityCode<'a>> = Vec::new();
        for (range, format, index) in &self.spans {
            let label = match format {
                EntityFormat::Code => None,
                EntityFormat::Pre => Some(self.entities[*index].language.as_deref().map_or("", first_line)),
                _ => continue,
            };
            let free_from = codes.last().map_or(section.start, |last| last.range.end);
            let (start, end) = (range.start.max(section.start), range.end.min(section.end));
            if let Some(last) = codes.last_mut()
                && last.label.is_none()
                && label.is_none()
                && start <= free_from
            {
                last.range.end = free_from.max(end);
            } else if start.max(free_from) < end {
                codes.push(EntityCode { range: start.max(free_from)..end, label });
            }
        }
        for code in codes.iter_mut().filter(|code| code.label.is_none()) {
            code.range = without_line_breaks(text, code.range.clone());
            // It can't go over the end of a line.
            code.label = text[code.range.clone()].contains('\n').then_some("");
        }
        codes.retain(|code| !code.range.is_empty());
        codes
    }
}

/// What an entity with this text is written as; `None` for those that a reader sees in the text itself.
fn entity_format(entity: &MessageEntity, text: &str, index: usize) -> Option<EntityFormat> {
    let target = Some(EntityFormat::Inline(InlineFormat::Target(index)));
    match entity.kind.as_str() {
        "code" => Some(EntityFormat::Code),
        "pre" => Some(EntityFormat::Pre),
        "blockquote" | "expandable_blockquote" => Some(EntityFormat::Quote),
        "text_link" => {
            target.filter(|_| entity.url.as_ref().is_some_and(|url| !text.contains(url.trim_end_matches('/'))))
        }
        "text_mention" => target.filter(|_| !text.starts_with('@')),
        "date_time" => target.filter(|_| written_time(entity).is_some()),
        kind => {
            let style = STYLES.iter().position(|(name, _)| *name == kind)?;
            Some(EntityFormat::Inline(InlineFormat::Style(style)))
        }
    }
}

/// The time behind a text. Telegram shows it to each reader in their own time zone and format.
fn written_time(entity: &MessageEntity) -> Option<String> {
    Timestamp(entity.unix_time?.saturating_mul(1_000)).to_utc_minute()
}

/// An address as the target of a link, which blanks and brackets would end.
fn link_target(address: &str) -> String {
    let mut depth = 0_i32;
    let closes_early = address.chars().any(|character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        depth < 0
    });
    if closes_early || depth != 0 || address.contains(char::is_whitespace) {
        format!("<{address}>")
    } else {
        address.to_owned()
    }
}

/// The first line of a language's name, which must not leave the line of its fence.
fn first_line(language: &str) -> &str {
    language.trim().split(['\n', '\r', '`']).next().unwrap_or_default().trim_end()
}

fn without_line_breaks(text: &str, range: Range<usize>) -> Range<usize> {
    let part = text[range.clone()].trim_end_matches(['\n', '\r']);
    let end = range.start + part.len();
    end - part.trim_start_matches(['\n', '\r']).len()..end
}

/// Returns the addresses of a text in order, apart from each other: those that Telegram has found, and what else has a scheme.
fn find_addresses(text: &str, spans: &[EntitySpan<'_>]) -> Vec<Range<usize>> {
    let found = spans.iter().filter(|span| matches!(span.entity.kind.as_str(), "url" | "email"));
    let with_scheme = text.match_indices("://").filter_map(|(at, _)| {
        let start = text[..at].trim_end_matches(|character: char| character.is_ascii_alphanumeric()).len();
        let rest = &text[at..];
        let rest = &rest[..rest.find(|character: char| !character.is_ascii_graphic()).unwrap_or(rest.len())];
        let rest = rest.trim_end_matches(|character: char| ".,;:!?)]}>\"'`".contains(character));
        (start < at && rest.len() > "://".len()).then(|| start..at + rest.len())
    });
    let mut addresses: Vec<Range<usize>> = found.map(|span| span.range.clone()).chain(with_scheme).collect();
    addresses.sort_by_key(|address| address.start);
    let mut apart: Vec<Range<usize>> = Vec::new();
    for address in addresses {
        match apart.last_mut() {
            Some(last) if address.start < last.end => last.end = last.end.max(address.end),
            _ => apart.push(address),
        }
    }
    apart
}

/// Returns a range that begins and ends within no address.
fn around_addresses(mut range: Range<usize>, addresses: &[Range<usize>]) -> Range<usize> {
    let within = |at: usize| addresses.iter().find(|address| address.start < at && at < address.end);
    if let Some(address) = within(range.start) {
        range.start = address.start;
    }
    if let Some(address) = within(range.end) {
        range.end = address.end;
    }
    range
}
