//! Finds the formulas in a Markdown text and takes them out of it before it is parsed, because what stands in a formula is
//! no Markdown.

use std::{borrow::Cow, ops::Range};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The first of the private characters that stand for the formulas of a text.
const FIRST_PLACEHOLDER: char = '\u{F0000}';

/// The maximum number of delimiters that are tried as the beginning of a formula, and of bytes in which its end is looked
/// for. Together they bound the time that a text of nothing but delimiters takes.
const MAX_OPENINGS: usize = 2_000;
pub(super) const MAX_FORMULA_BYTES: usize = 4_000;

/// A formula of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Formula<'t> {
    /// With its delimiters.
    pub(super) source: &'t str,
    pub(super) tex: &'t str,
    pub(super) is_display: bool,
}

/// A piece of a text from which formulas were taken.
pub(super) enum Piece<'p, 't> {
    Text(&'p str),
    Formula(Formula<'t>),
}

/// The formulas of a text, in their order.
pub(super) struct Formulas<'t>(Vec<Formula<'t>>);

impl<'t> Formulas<'t> {
    /// Splits a piece of the text at its formulas.
    pub(super) fn split<'p>(&self, mut rest: &'p str) -> Vec<Piece<'p, 't>> {
        let mut pieces = Vec::new();
        while let Some((at, formula)) = self.next_in(rest) {
            pieces.push(Piece::Text(&rest[..at]));
            pieces.push(Piece::Formula(formula));
            rest = &rest[at + FIRST_PLACEHOLDER.len_utf8()..];
        }
        pieces.push(Piece::Text(rest));
        pieces
    }

    /// Puts the sources of formulas back, where none can be shown.
    pub(super) fn restore<'p>(&self, text: &'p str) -> Cow<'p, str> {
        if self.next_in(text).is_none() {
            return Cow::Borrowed(text);
        }
        let source = |piece: &Piece<'p, 't>| match piece {
            Piece::Text(text) => (*text).to_owned(),
            Piece::Formula(formula) => formula.source.to_owned(),
        };
        Cow::Owned(self.split(text).iter().map(source).collect())
    }

    fn next_in(&self, text: &str) -> Option<(usize, Formula<'t>)> {
        if self.0.is_empty() {
            return None;
        }
        text.char_indices().find_map(|(at, c)| {
            let index = u32::from(c).checked_sub(u32::from(FIRST_PLACEHOLDER))?;
            Some((at, *self.0.get(usize::try_from(index).ok()?)?))
        })
    }
}

/// Takes the formulas out of a text; a private character stands in place of each.
pub(super) fn take_formulas(text: &str, options: Options) -> (Cow<'_, str>, Formulas<'_>) {
    let has_delimiter = text.contains('$') || text.contains("\\(") || text.contains("\\[");
    // A text with private characters of its own keeps them, and has no formulas.
    if !has_delimiter || text.contains(|c| c >= FIRST_PLACEHOLDER) {
        return (Cow::Borrowed(text), Formulas(Vec::new()));
    }
    let words = TextRanges::parse(text, options);
    if words.have_placeholders {
        return (Cow::Borrowed(text), Formulas(Vec::new()));
    }
    let mut formulas = Vec::new();
    let mut rest = String::with_capacity(text.len());
    let (mut copied, mut at) = (0, 0);
    let mut openings = 0;
    while let Some(found) = text[at..].find(['$', '\\']) {
        let start = at + found;
        openings += 1;
        if openings > MAX_OPENINGS {
            break;
        }
        let Some(formula) = formula_at(text, start, &words) else {
            at = start + opening_length(&text[start..]);
            continue;
        };
        at = start + formula.source.len();
        rest.push_str(&text[copied..start]);
        copied = at;
        // There are fewer formulas than private characters.
        let index = u32::try_from(formulas.len()).unwrap_or_default();
        rest.extend(char::from_u32(u32::from(FIRST_PLACEHOLDER) + index));
        formulas.push(formula);
    }
    rest.push_str(&text[copied..]);
    (Cow::Owned(rest), Formulas(formulas))
}

/// How much of a text is passed over at a delimiter that opens no formula; a backslash takes the next character with it.
fn opening_length(text: &str) -> usize {
    let escaped = text.strip_prefix('\\').and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
    let is_display = text.starts_with("$$");
    if is_display { 2 } else { 1 + escaped }
}

/// The formula whose opening delimiter stands at a place.
fn formula_at<'t>(text: &'t str, start: usize, words: &TextRanges) -> Option<Formula<'t>> {
    let (opening, closing, is_display) = match &text[start..] {
        rest if rest.starts_with("\\(") => ("\\(", "\\)", false),
        rest if rest.starts_with("\\[") => ("\\[", "\\]", true),
        rest if rest.starts_with("$$") => ("$$", "$$", true),
        rest if rest.starts_with('$') => ("$", "$", false),
        _ => return None,
    };
    let body = start + opening.len();
    let end = body + find_closing(&text[body..], closing)?;
    let tex = &text[body..end];
    let is_formula = !tex.trim().is_empty()
        && (opening != "$" || is_between_dollars(text, start, end))
        && words.are_joined(text, start + opening.len() - 1, end + closing.len() - 1, is_display);
    is_formula.then(|| Formula { source: &text[start..end + closing.len()], tex: tex.trim(), is_display })
}

/// Where the closing delimiter begins, in the same paragraph.
fn find_closing(text: &str, closing: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().take_while(|(at, _)| *at < MAX_FORMULA_BYTES) {
        if !is_escaped && text[at..].starts_with(closing) {
            return Some(at);
        }
        let ends_paragraph = || text[at + 1..].split('\n').next().is_none_or(|line| line.trim().is_empty());
        if c == '\n' && ends_paragraph() {
            return None;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    None
}

/// Whether dollar signs at two places mean a formula, and not amounts of money.
fn is_between_dollars(text: &str, start: usize, end: usize) -> bool {
    let tex = &text[start + 1..end];
    let opens_after = |before: char| before.is_whitespace() || "([{\"'*_~|>:,;-–—“‘".contains(before);
    let is_amount = tex.starts_with(|first: char| first.is_ascii_digit())
        && !tex.contains(['\\', '^', '_', '=', '{'])
        && tex.split_whitespace().any(|word| word.chars().filter(|c| c.is_alphabetic()).count() > 1);
    text[..start].chars().next_back().is_none_or(opens_after)
        && !tex.starts_with(char::is_whitespace)
        && !tex.ends_with(char::is_whitespace)
        && !text[end + 1..].starts_with(|after: char| after.is_alphanumeric() || after == '$')
        && !is_amount
}

/// Where in a Markdown text words stand that are neither code nor HTML nor an address, and in which block.
struct TextRanges {
    ranges: Vec<(Range<usize>, usize)>,
    /// Whether a character reference, such as `&#xF0000;`, writes a character that stands for a formula.
    have_placeholders: bool,
}

impl TextRanges {
    fn parse(text: &str, options: Options) -> Self {
        let mut ranges = Vec::new();
        let (mut is_code, mut block, mut have_placeholders) = (false, 0, false);
        let has_placeholder = |text: &str| text.contains(|c| c >= FIRST_PLACEHOLDER);
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            have_placeholders |= match &event {
                Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => {
                    has_placeholder(text)
                }
                Event::Start(Tag::Link { dest_url, title, .. } | Tag::Image { dest_url, title, .. }) => {
                    has_placeholder(dest_url) || has_placeholder(title)
                }
                _ => false,
            };
            match event {
                Event::Start(Tag::CodeBlock(_)) => is_code = true,
                Event::End(TagEnd::CodeBlock) => is_code = false,
                Event::Start(
                    Tag::Paragraph
                    | Tag::Heading { .. }
                    | Tag::Item
                    | Tag::TableCell
                    | Tag::BlockQuote(_)
                    | Tag::FootnoteDefinition(_),
                ) => block += 1,
                Event::Text(_) if !is_code => ranges.push((range, block)),
                _ => {}
            }
        }
        Self { ranges, have_placeholders }
    }

    fn block_at(&self, at: usize) -> Option<usize> {
        let next = self.ranges.partition_point(|(range, _)| range.end <= at);
        self.ranges.get(next).filter(|(range, _)| range.contains(&at)).map(|(_, block)| *block)
    }

    /// Whether the delimiters at two places can belong together. In a formula on lines of its own, a line may look like
    /// the beginning of a list.
    fn are_joined(&self, text: &str, opening: usize, closing: usize, is_display: bool) -> bool {
        let (Some(first), Some(last)) = (self.block_at(opening), self.block_at(closing)) else { return false };
        let line = text[..opening].rsplit('\n').next().unwrap_or_default();
        first == last || (is_display && line.trim_matches([' ', '\t', '\\', '$']).is_empty())
    }
}
