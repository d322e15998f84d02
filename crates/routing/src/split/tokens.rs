//! The text of a block as a row of tokens: characters, marks, and what is better not cut.

use std::ops::Range;

use satchel_markup::{Inline, InlineKind, Measure, TextSize, plain_text};

use super::serialize::{address_markdown, escape_text};

/// A piece of text, in the order of the source.
#[derive(Debug)]
pub(super) struct Token {
    /// Where it is in the source. Between two tokens are only backslashes that escape the next character.
    pub(super) range: Range<usize>,
    pub(super) kind: TokenKind,
    /// How many spans it is in.
    pub(super) depth: usize,
}

/// What a token is.
#[derive(Debug)]
pub(super) enum TokenKind {
    /// Characters that stand for themselves.
    Text,
    /// Characters of code.
    Code,
    /// What is cut only where it is longer than a chunk.
    Atom(Box<Atom>),
    /// A line break.
    Break,
    /// A line break in code, which is shown as a blank.
    CodeBreak,
    /// The mark before a span.
    Open(usize),
    /// The mark behind a span.
    Close(usize),
}

/// A formula, an address, an image …
#[derive(Debug)]
pub(super) struct Atom {
    pub(super) size: TextSize,
    /// It as Markdown that is read alike anywhere.
    pub(super) markdown: String,
    /// Its characters.
    pub(super) plain: String,
}

/// A span of text between two marks.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) open: Range<usize>,
    pub(super) close: Range<usize>,
    pub(super) open_units: usize,
    pub(super) close_units: usize,
    /// The length of its marks and of those of the spans around it.
    pub(super) nesting: usize,
    /// How many spans it is in, itself included.
    pub(super) depth: usize,
    /// The formatted spans that it adds.
    pub(super) spans: usize,
    /// Its marks as they are written anew.
    pub(super) marks: SpanDelimiters,
}

/// The marks of a span.
#[derive(Debug, Clone)]
pub(super) enum SpanDelimiters {
    /// The same before and behind it.
    Both(&'static str),
    /// So many backticks.
    Ticks(usize),
    /// Those of a link to an address.
    Link(String),
}

impl SpanDelimiters {
    pub(super) fn opening(&self) -> String {
        match self {
            Self::Both(mark) => (*mark).to_owned(),
            Self::Ticks(count) => "`".repeat(*count),
            Self::Link(_) => "[".to_owned(),
        }
    }

    pub(super) fn closing(&self) -> String {
        match self {
            Self::Link(address) => format!("]({})", address_markdown(address)),
            other => other.opening(),
        }
    }
}

/// The tokens of a text.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub(super) tokens: Vec<Token>,
    pub(super) spans: Vec<Span>,
    depth: usize,
    nesting: usize,
    /// The marks of the spans that are open.
    open_marks: Vec<&'static str>,
}

impl Tokens {
    /// The tokens of a text of the tree.
    pub(super) fn new(content: &[Inline<'_>], source: &str, measure: &Measure) -> Self {
        let mut tokens = Self::default();
        tokens.push_all(content, source, measure);
        tokens
    }

    /// The tokens of characters that stand for themselves: their lines.
    pub(super) fn of_characters(text: &str) -> Self {
        let mut tokens = Self::default();
        let mut start = 0;
        while let Some(newline) = text[start..].find('\n') {
            let end = start + newline;
            let next = text[end..].find(|c| c != '\n' && c != '\r').map_or(text.len(), |offset| end + offset);
            tokens.push(start..end, TokenKind::Text);
            tokens.push(end..next, TokenKind::Break);
            start = next;
        }
        tokens.push(start..text.len(), TokenKind::Text);
        tokens
    }

    fn push(&mut self, range: Range<usize>, kind: TokenKind) {
        if !range.is_empty() {
            self.tokens.push(Token { range, kind, depth: self.depth });
        }
    }

    fn push_all(&mut self, content: &[Inline<'_>], source: &str, measure: &Measure) {
        for inline in content {
            self.push_inline(inline, source, measure);
        }
    }

    fn push_inline(&mut self, inline: &Inline<'_>, source: &str, measure: &Measure) {
        let range = inline.range.clone();
        match &inline.kind {
            InlineKind::Text(text) if **text == source[range.clone()] => self.push(range, TokenKind::Text),
            InlineKind::Text(text) => self.push_atom(inline, escape_text(text), measure),
            InlineKind::Break { .. } => self.push(range, TokenKind::Break),
            InlineKind::Code(code) => self.push_code(inline, code, source, measure),
            InlineKind::Formula(formula) => self.push_atom(inline, formula.source.to_string(), measure),
            InlineKind::Address { text, address } => {
                // Beside the mark of a span an address might take it.
                let is_bare = self.depth == 0
                    && text == address
                    && address.starts_with("http")
                    && !source[range].starts_with('<');
                let markdown = if is_bare { text.to_string() } else { format!("<{text}>") };
                self.push_atom(inline, markdown, measure);
            }
            InlineKind::FootnoteReference(label) => self.push_atom(inline, escape_text(&format!("[{label}]")), measure),
            InlineKind::Image { address, content } => {
                let text = escape_text(&plain_text(content));
                self.push_atom(inline, format!("![{text}]({})", address_markdown(address)), measure);
            }
            InlineKind::Emphasis(content) => self.push_marked(inline, content, "*", source, measure),
            InlineKind::Strong(content) => self.push_marked(inline, content, "**", source, measure),
            InlineKind::Struck(content) => self.push_marked(inline, content, "~~", source, measure),
            InlineKind::Spoiler(content) => self.push_marked(inline, content, "||", source, measure),
            InlineKind::Link { address, content } => {
                self.push_span(inline, content, SpanDelimiters::Link(address.to_string()), source, measure);
            }
        }
    }

    fn push_atom(&mut self, inline: &Inline<'_>, markdown: String, measure: &Measure) {
        let size = measure.inline(inline, self.depth);
        let plain = plain_text(std::slice::from_ref(inline));
        self.push(inline.range.clone(), TokenKind::Atom(Box::new(Atom { size, markdown, plain })));
    }

    fn push_marked(
        &mut self,
        inline: &Inline<'_>,
        content: &[Inline<'_>],
        mark: &'static str,
        source: &str,
        measure: &Measure,
    ) {
        // Bold text in bold text is bold.
        let marks = SpanDelimiters::Both(if self.open_marks.contains(&mark) { "" } else { mark });
        self.open_marks.push(mark);
        self.push_span(inline, content, marks, source, measure);
        self.open_marks.pop();
    }

    fn push_span(
        &mut self,
        inline: &Inline<'_>,
        content: &[Inline<'_>],
        marks: SpanDelimiters,
        source: &str,
        measure: &Measure,
    ) {
        let (Some(first), Some(last)) = (content.first(), content.last()) else {
            return self.push_atom(inline, String::new(), measure);
        };
        let open = inline.range.start..first.range.start;
        let close = last.range.end..inline.range.end;
        let span = self.open(open, close, measure.span_delimiters(inline), 1, marks);
        self.push_all(content, source, measure);
        self.close(span);
    }

    fn push_code(&mut self, inline: &Inline<'_>, code: &str, source: &str, measure: &Measure) {
        let text = &source[inline.range.clone()];
        let ticks = text.len() - text.trim_start_matches('`').len();
        let inside = text.get(ticks..text.len() - ticks).unwrap_or_default();
        let is_padded = inside.len() > code.len() && inside.starts_with(' ') && inside.ends_with(' ');
        let padding = usize::from(is_padded);
        let start = inline.range.start + ticks + padding;
        let end = inline.range.end - ticks - padding;
        if start >= end {
            return self.push_atom(inline, text.to_owned(), measure);
        }
        let open = inline.range.start..start;
        let close = end..inline.range.end;
        let spans = 1 + self.depth;
        let span = self.open(open, close, measure.span_delimiters(inline), spans, SpanDelimiters::Ticks(ticks));
        let mut at = start;
        for line in source[start..end].split_inclusive('\n') {
            let text = line.trim_end_matches(['\n', '\r']);
            let prefix = if at > start { text.len() - text.trim_start_matches([' ', '\t', '>']).len() } else { 0 };
            self.extend_break(at..at + prefix);
            self.push(at + prefix..at + text.len(), TokenKind::Code);
            self.push(at + text.len()..at + line.len(), TokenKind::CodeBreak);
            at += line.len();
        }
        self.close(span);
    }

    /// Lets a line break go on over what is before the next line.
    fn extend_break(&mut self, prefix: Range<usize>) {
        if let Some(Token { range, kind: TokenKind::CodeBreak, .. }) = self.tokens.last_mut() {
            range.end = prefix.end;
        }
    }

    fn open(
        &mut self,
        open: Range<usize>,
        close: Range<usize>,
        (open_units, close_units): (usize, usize),
        spans: usize,
        marks: SpanDelimiters,
    ) -> usize {
        self.depth += 1;
        self.nesting += open_units + close_units;
        let index = self.spans.len();
        let span = Span {
            open: open.clone(),
            close,
            open_units,
            close_units,
            nesting: self.nesting,
            depth: self.depth,
            spans,
            marks,
        };
        self.spans.push(span);
        self.tokens.push(Token { range: open, kind: TokenKind::Open(index), depth: self.depth });
        index
    }

    fn close(&mut self, span: usize) {
        let Span { close, open_units, close_units, .. } = &self.spans[span];
        let (close, units) = (close.clone(), open_units + close_units);
        self.tokens.push(Token { range: close, kind: TokenKind::Close(span), depth: self.depth });
        self.depth -= 1;
        self.nesting -= units;
    }
}
