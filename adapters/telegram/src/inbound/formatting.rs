//! Writes a text with its entities as Markdown, as people type it where there are no entities. Pure.
//!
//! A model reads the text and no parser does, so it stays readable: nothing that a person typed is escaped. Formatting only
//! adds characters; each character of the text stays, in its order.

mod spans;

use std::{cmp::Reverse, collections::BTreeSet, ops::Range};

use satchel_domain::script::fenced_block;

pub(super) use self::spans::EntitySpan;
use self::spans::{InlineFormat, TextFormats, WrittenSpans};

/// Returns a text as Markdown. The spans are sorted: outer ones come before those within them.
pub(super) fn to_markdown(text: &str, spans: &[EntitySpan<'_>]) -> String {
    EntityMarkdown { text, spans: WrittenSpans::new(text, spans), ticks: unused_tick_count(text) }.write_markdown()
}

/// The least number of backticks for code that no other backticks of the text can be taken for.
fn unused_tick_count(text: &str) -> usize {
    let counts: BTreeSet<usize> = text.split(|character: char| character != '`').map(str::len).collect();
    (1..).find(|count| !counts.contains(count)).unwrap_or(1)
}

struct EntityMarkdown<'a> {
    text: &'a str,
    spans: WrittenSpans<'a>,
    /// How many backticks stand on both sides of code within a line.
    ticks: usize,
}

/// A part of a text in which nothing changes.
#[derive(Debug, Clone)]
struct LineToken<'a> {
    kind: LineTokenKind<'a>,
    range: Range<usize>,
    formats: TextFormats,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineTokenKind<'a> {
    Text,
    Space,
    LineBreak,
    /// Code within a line.
    Code,
    /// Code on lines of its own, with its label.
    Block(&'a str),
}

impl LineTokenKind<'_> {
    fn is_block(self) -> bool {
        matches!(self, Self::Block(_))
    }
}

impl EntityMarkdown<'_> {
    fn write_markdown(&self) -> String {
        let mut markdown = String::new();
        let mut at = 0;
        for quote in self.spans.quotes(self.text) {
            let is_behind_quote = at > 0 && self.text[at..quote.start].trim().is_empty();
            append_section(&mut markdown, &self.write_lines(at..quote.start));
            // Without a blank line two quotes would be one.
            while is_behind_quote && !markdown.ends_with("\n\n") {
                markdown.push('\n');
            }
            let lines = self.write_lines(quote.clone());
            let lines =
                lines.split('\n').map(|line| if line.is_empty() { ">".to_owned() } else { format!("> {line}") });
            append_section(&mut markdown, &lines.collect::<Vec<_>>().join("\n"));
            at = quote.end;
        }
        append_section(&mut markdown, &self.write_lines(at..self.text.len()));
        markdown
    }

    /// Writes a part of the text without its quotes.
    fn write_lines(&self, section: Range<usize>) -> String {
        let tokens = self.tokens(section);
        let mut markdown = String::new();
        let mut open: Vec<InlineFormat> = Vec::new();
        let mut previous: Option<LineTokenKind<'_>> = None;
        for (index, token) in tokens.iter().enumerate() {
            let unchanged = open.iter().take_while(|format| token.formats.has(**format)).count();
            for format in open.drain(unchanged..).rev() {
                markdown.push_str(&self.spans.closing(format));
            }
            let starts_line = token.kind.is_block() || previous.is_some_and(LineTokenKind::is_block);
            if starts_line
                && token.kind != LineTokenKind::LineBreak
                && !markdown.is_empty()
                && !markdown.ends_with('\n')
            {
                markdown.push('\n');
            }
            // One that was closed within another is opened behind the space.
            let mut opening: Vec<InlineFormat> = token
                .formats
                .iter()
                .filter(|format| token.kind != LineTokenKind::Space && !open.contains(format))
                .collect();
            // What lasts longest is outside.
            opening.sort_by_key(|format| {
                Reverse(tokens[index..].iter().take_while(|token| token.formats.has(*format)).count())
            });
            for format in opening {
                markdown.push_str(self.spans.opening(format));
                open.push(format);
            }
            self.write_token(&mut markdown, token, previous == Some(LineTokenKind::Code));
            previous = Some(token.kind);
        }
        while let Some(format) = open.pop() {
            markdown.push_str(&self.spans.closing(format));
        }
        markdown
    }

    fn write_token(&self, markdown: &mut String, token: &LineToken<'_>, is_behind_code: bool) {
        let text = &self.text[token.range.clone()];
        let written = match token.kind {
            LineTokenKind::Text | LineTokenKind::Space | LineTokenKind::LineBreak => text.to_owned(),
            LineTokenKind::Code => self.inline_code(text),
            LineTokenKind::Block(label) => fenced_block(label, text),
        };
        let is_beside_code = is_behind_code || token.kind == LineTokenKind::Code;
        if is_beside_code && markdown.ends_with('`') && written.starts_with('`') {
            // A backtick that a person typed is none of the code's.
            markdown.push(' ');
        }
        markdown.push_str(&written);
    }

    fn inline_code(&self, code: &str) -> String {
        let ticks = "`".repeat(self.ticks);
        let touches_ticks = code.starts_with('`') || code.ends_with('`');
        // Readers take one blank off both ends.
        let loses_blanks = code.starts_with(' ') && code.ends_with(' ') && !code.trim().is_empty();
        let blank = if touches_ticks || loses_blanks { " " } else { "" };
        format!("{ticks}{blank}{code}{blank}{ticks}")
    }

    fn tokens(&self, section: Range<usize>) -> Vec<LineToken<'_>> {
        let mut tokens = Vec::new();
        let mut at = section.start;
        for code in self.spans.codes(self.text, &section) {
            self.push_text(&mut tokens, at..code.range.start);
            let (kind, formats) = match code.label {
                Some(label) => (LineTokenKind::Block(label), TextFormats::default()),
                None => (LineTokenKind::Code, self.spans.formats_of(&code.range)),
            };
            at = code.range.end;
            tokens.push(LineToken { kind, range: code.range, formats });
        }
        self.push_text(&mut tokens, at..section.end);
        confine_to_text(tokens.iter_mut());
        confine_to_text(tokens.iter_mut().rev());
        tokens
    }

    fn push_text(&self, tokens: &mut Vec<LineToken<'_>>, range: Range<usize>) {
        for (offset, character) in self.text[range.clone()].char_indices() {
            let start = range.start + offset;
            let end = start + character.len_utf8();
            let formats = self.spans.formats_of(&(start..end));
            let kind = match character {
                '\n' => LineTokenKind::LineBreak,
                blank if blank.is_whitespace() && !self.spans.is_blank_link(self.text, formats) => LineTokenKind::Space,
                _ => LineTokenKind::Text,
            };
            match tokens.last_mut() {
                Some(last) if last.kind == kind && last.formats == formats => last.range.end = end,
                _ => tokens.push(LineToken { kind, range: start..end, formats }),
            }
        }
    }
}

/// Appends lines to a text, on lines of their own.
fn append_section(markdown: &mut String, lines: &str) {
    if !markdown.is_empty() && !lines.is_empty() && !markdown.ends_with('\n') && !lines.starts_with('\n') {
        markdown.push('\n');
    }
    markdown.push_str(lines);
}

/// Takes formats off spaces that don't follow a text with the same ones in their line: no format starts or ends with a space,
/// and none goes over the end of a line.
fn confine_to_text<'t, 'a: 't>(tokens: impl Iterator<Item = &'t mut LineToken<'a>>) {
    let mut before = TextFormats::default();
    for token in tokens {
        match token.kind {
            LineTokenKind::Text | LineTokenKind::Code => before = token.formats,
            LineTokenKind::Space => token.formats = token.formats.common(before),
            LineTokenKind::LineBreak | LineTokenKind::Block(_) => {
                token.formats = TextFormats::default();
                before = TextFormats::default();
            }
        }
    }
}

#[cfg(test)]
mod tests;
