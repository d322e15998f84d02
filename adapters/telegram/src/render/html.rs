//! Writer for Telegram's HTML: escapes and counts characters, nests spans only as Telegram allows, and tells which
//! addresses become links.
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

/// An open span, or one that is not allowed here and has no tag (`None`).
#[derive(Debug)]
struct OpenSpan {
    span: Option<HtmlSpan>,
    /// Whether its tag has been written. It is written with the first character: an empty span would count as an
    /// entity.
    has_tag: bool,
}

#[derive(Debug, Default)]
pub(super) struct HtmlWriter {
    text: String,
    open: Vec<OpenSpan>,
    units: usize,
    entities: usize,
    /// How many spans may be formatted; `None` for any number.
    max_entities: Option<usize>,
}

impl HtmlWriter {
    /// Creates a writer that formats at most this many spans; the text of further ones is plain. Telegram itself would
    /// drop the formatting of some, but not necessarily of the last ones.
    pub(super) fn with_entity_limit(entities: Option<usize>) -> Self {
        Self { max_entities: entities, ..Self::default() }
    }

    /// How many UTF-16 units are visible.
    pub(super) fn units(&self) -> usize {
        self.units
    }

    /// How many formatted spans there are.
    pub(super) fn entities(&self) -> usize {
        self.entities
    }

    /// Closes all spans and returns the HTML.
    pub(super) fn into_text(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }

    /// Opens a span. One that Telegram doesn't allow here gets no tag.
    pub(super) fn open(&mut self, span: HtmlSpan) {
        let allowed = !self.open.iter().flat_map(|open| &open.span).any(|outer| match (&span, outer) {
            (HtmlSpan::Link(_), HtmlSpan::Link(_)) => true,
            (span, outer) => span == outer,
        });
        self.open.push(OpenSpan { span: allowed.then_some(span), has_tag: false });
    }

    /// Closes the innermost span.
    pub(super) fn close(&mut self) {
        if let Some(OpenSpan { span: Some(span), has_tag: true }) = self.open.pop() {
            self.end_tag(&span);
        }
    }

    /// Whether a span is open.
    pub(super) fn is_in_span(&self) -> bool {
        !self.open.is_empty()
    }

    /// Writes characters into the open spans.
    pub(super) fn push_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        for index in 0..self.open.len() {
            if self.open[index].has_tag {
                continue;
            }
            self.open[index].has_tag = true;
            if !self.has_entity_room() {
                self.open[index].span = None;
            }
            if let Some(span) = self.open[index].span.clone() {
                self.start_tag(&span);
            }
        }
        self.push_escaped(text);
    }

    /// Writes characters before spans that are open and empty so far, such as the line break before a bold word.
    pub(super) fn push_before_open_spans(&mut self, text: &str) {
        self.push_escaped(text);
    }

    /// Writes inline code. Bold, italic and struck spans are closed before it and reopened after it; in a link it is
    /// plain text.
    pub(super) fn push_code(&mut self, code: &str) {
        if code.is_empty() {
            return;
        }
        if !self.has_entity_room() || self.open.iter().any(|open| matches!(open.span, Some(HtmlSpan::Link(_)))) {
            return self.push_text(code);
        }
        for index in (0..self.open.len()).rev() {
            match self.open[index].span.clone() {
                Some(HtmlSpan::Quote) => break,
                Some(span) if self.open[index].has_tag => {
                    self.open[index].has_tag = false;
                    self.end_tag(&span);
                }
                _ => {}
            }
        }
        self.start_pending_quote();
        self.entities += 1;
        self.text.push_str("<code>");
        self.push_escaped(code);
        self.text.push_str("</code>");
    }

    /// Writes a block of code.
    pub(super) fn code_block(&mut self, language: &str, code: &str) {
        if code.is_empty() {
            return;
        }
        if !self.has_entity_room() {
            return self.push_text(code);
        }
        self.start_pending_quote();
        self.entities += 1;
        if language.is_empty() {
            self.text.push_str("<pre>");
            self.push_escaped(code);
            self.text.push_str("</pre>");
        } else {
            self.text.push_str("<pre><code class=\"language-");
            escape(language, &mut self.text);
            self.text.push_str("\">");
            self.push_escaped(code);
            self.text.push_str("</code></pre>");
        }
    }

    /// Writes the tag of an open quote that starts with code; only a quote may contain code.
    fn start_pending_quote(&mut self) {
        let quote = self.open.iter_mut().find(|open| open.span == Some(HtmlSpan::Quote) && !open.has_tag);
        if let Some(quote) = quote {
            quote.has_tag = true;
            self.start_tag(&HtmlSpan::Quote);
        }
    }

    fn has_entity_room(&self) -> bool {
        self.max_entities.is_none_or(|max| self.entities < max)
    }

    fn start_tag(&mut self, span: &HtmlSpan) {
        self.entities += 1;
        match span {
            HtmlSpan::Link(address) => {
                self.text.push_str("<a href=\"");
                escape(address, &mut self.text);
                self.text.push_str("\">");
            }
            _ => write!(self.text, "<{}>", tag_name(span)).expect("a text takes everything"),
        }
    }

    fn end_tag(&mut self, span: &HtmlSpan) {
        write!(self.text, "</{}>", tag_name(span)).expect("a text takes everything");
    }

    fn push_escaped(&mut self, characters: &str) {
        self.units += characters.encode_utf16().count();
        escape(characters, &mut self.text);
    }
}

fn tag_name(span: &HtmlSpan) -> &'static str {
    match span {
        HtmlSpan::Bold => "b",
        HtmlSpan::Italic => "i",
        HtmlSpan::Struck => "s",
        HtmlSpan::Link(_) => "a",
        HtmlSpan::Quote => "blockquote",
    }
}

/// Telegram requires the first three; the quotation mark is for addresses in attributes.
fn escape(characters: &str, output: &mut String) {
    for character in characters.chars() {
        match character {
            '&' => output.push_str("&amp;"),
            '<' => output.push_str("&lt;"),
            '>' => output.push_str("&gt;"),
            '"' => output.push_str("&quot;"),
            other => output.push(other),
        }
    }
}

/// Returns the address if Telegram accepts it as a link. Other schemes would be silently dropped there, or should not
/// be opened.
pub(super) fn link_target(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let is_supported = ["http", "https", "tg"].iter().any(|supported| scheme.eq_ignore_ascii_case(supported));
    let is_well_formed = !rest.is_empty() && !address.chars().any(|c| c.is_whitespace() || c.is_control());
    (is_supported && is_well_formed).then(|| address.to_owned())
}

/// Returns an address that can't be a link as text; `None` if the link's text shows it already. Telegram detects mail
/// addresses in plain text by itself.
pub(super) fn address_text(address: &str, link_text: &str) -> Option<String> {
    let visible = address.strip_prefix("mailto:").unwrap_or(address).trim();
    (!visible.is_empty() && visible != link_text.trim()).then(|| format!(" ({visible})"))
}
