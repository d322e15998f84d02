//! Telegram's HTML as it is written: escaped, counted, and nested only as Telegram allows it.
//!
//! <https://core.telegram.org/bots/api#formatting-options>: bold, italic and struck text may contain and be part of
//! anything but code; links and code can't contain each other; quotes can't be nested.

use std::fmt::Write;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HtmlSpan {
    Bold,
    Italic,
    Struck,
    /// A link to this address.
    Link(String),
    Quote,
}

/// A span that is open, or one that can't stand where it is and has no tag.
#[derive(Debug)]
struct OpenSpan {
    span: Option<HtmlSpan>,
    /// A tag is written only when characters follow it: an empty one would count as an entity.
    written: bool,
}

#[derive(Debug, Default)]
pub(super) struct HtmlWriter {
    text: String,
    open: Vec<OpenSpan>,
    units: usize,
    entities: usize,
    /// The most spans that are formatted; `None` for any number.
    most: Option<usize>,
}

impl HtmlWriter {
    /// HTML in which at most so many spans are formatted; the words of further ones stand bare. Telegram would drop their
    /// formatting too, and chooses for itself which.
    pub(super) fn with_entity_limit(entities: Option<usize>) -> Self {
        Self { most: entities, ..Self::default() }
    }

    /// How many UTF-16 units a person sees.
    pub(super) fn units(&self) -> usize {
        self.units
    }

    /// How many formatted spans there are.
    pub(super) fn entities(&self) -> usize {
        self.entities
    }

    /// The HTML. Spans that are still open would be an error to Telegram.
    pub(super) fn into_text(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }

    /// Begins a span. One that Telegram doesn't allow here is passed over.
    pub(super) fn open(&mut self, span: HtmlSpan) {
        let allowed = !self.open.iter().flat_map(|open| &open.span).any(|around| match (&span, around) {
            (HtmlSpan::Link(_), HtmlSpan::Link(_)) => true,
            (span, around) => span == around,
        });
        self.open.push(OpenSpan { span: allowed.then_some(span), written: false });
    }

    /// Ends the innermost span.
    pub(super) fn close(&mut self) {
        if let Some(OpenSpan { span: Some(span), written: true }) = self.open.pop() {
            self.end_tag(&span);
        }
    }

    /// Whether a span is open.
    pub(super) fn is_in_span(&self) -> bool {
        !self.open.is_empty()
    }

    /// Writes characters into the open spans.
    pub(super) fn push_text(&mut self, words: &str) {
        if words.is_empty() {
            return;
        }
        for index in 0..self.open.len() {
            if self.open[index].written {
                continue;
            }
            self.open[index].written = true;
            if !self.has_room() {
                self.open[index].span = None;
            }
            if let Some(span) = self.open[index].span.clone() {
                self.start_tag(&span);
            }
        }
        self.characters(words);
    }

    /// Writes characters before spans that are open and empty so far, such as the line break before a bold word.
    pub(super) fn between(&mut self, words: &str) {
        self.characters(words);
    }

    /// Writes a piece of code. Bold and its like end before it and go on behind it; in a link it is words like others.
    pub(super) fn push_code(&mut self, code: &str) {
        if code.is_empty() {
            return;
        }
        if !self.has_room() || self.open.iter().any(|open| matches!(open.span, Some(HtmlSpan::Link(_)))) {
            return self.push_text(code);
        }
        for index in (0..self.open.len()).rev() {
            match self.open[index].span.clone() {
                Some(HtmlSpan::Quote) => break,
                Some(span) if self.open[index].written => {
                    self.open[index].written = false;
                    self.end_tag(&span);
                }
                _ => {}
            }
        }
        self.write_quote();
        self.entities += 1;
        self.text.push_str("<code>");
        self.characters(code);
        self.text.push_str("</code>");
    }

    /// Writes a block of code.
    pub(super) fn code_block(&mut self, language: &str, code: &str) {
        if code.is_empty() {
            return;
        }
        if !self.has_room() {
            return self.push_text(code);
        }
        self.write_quote();
        self.entities += 1;
        if language.is_empty() {
            self.text.push_str("<pre>");
            self.characters(code);
            self.text.push_str("</pre>");
        } else {
            self.text.push_str("<pre><code class=\"language-");
            escape(language, &mut self.text);
            self.text.push_str("\">");
            self.characters(code);
            self.text.push_str("</code></pre>");
        }
    }

    /// Writes the tag of the quote that code is the first thing in; nothing else may be around it.
    fn write_quote(&mut self) {
        let quote = self.open.iter_mut().find(|open| open.span == Some(HtmlSpan::Quote) && !open.written);
        if let Some(quote) = quote {
            quote.written = true;
            self.start_tag(&HtmlSpan::Quote);
        }
    }

    fn has_room(&self) -> bool {
        self.most.is_none_or(|most| self.entities < most)
    }

    fn start_tag(&mut self, span: &HtmlSpan) {
        self.entities += 1;
        match span {
            HtmlSpan::Link(address) => {
                self.text.push_str("<a href=\"");
                escape(address, &mut self.text);
                self.text.push_str("\">");
            }
            _ => write!(self.text, "<{}>", name(span)).expect("a text takes everything"),
        }
    }

    fn end_tag(&mut self, span: &HtmlSpan) {
        write!(self.text, "</{}>", name(span)).expect("a text takes everything");
    }

    fn characters(&mut self, characters: &str) {
        self.units += characters.encode_utf16().count();
        escape(characters, &mut self.text);
    }
}

fn name(span: &HtmlSpan) -> &'static str {
    match span {
        HtmlSpan::Bold => "b",
        HtmlSpan::Italic => "i",
        HtmlSpan::Struck => "s",
        HtmlSpan::Link(_) => "a",
        HtmlSpan::Quote => "blockquote",
    }
}

/// Telegram asks for these three; the quote besides, because addresses stand in attributes.
fn escape(characters: &str, into: &mut String) {
    for character in characters.chars() {
        match character {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '"' => into.push_str("&quot;"),
            other => into.push(other),
        }
    }
}
