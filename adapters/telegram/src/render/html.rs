//! Writer for Telegram's HTML: escapes and counts characters, nests spans only as Telegram allows, and tells which
//! addresses become links.
//!
//! <https://core.telegram.org/bots/api#formatting-options>: bold, italic, struck and hidden text may contain and be
//! part of anything but code; links and code can't contain each other; quotes can't be nested.

use std::mem;

use satchel_markup::{ChatSpan, ChatWriter};

/// How many spans may be formatted.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntityBudget {
    /// All together.
    pub(super) max: usize,
    /// How many links there are. They come first: without formatting, an address would have to be shown.
    pub(super) links: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HtmlTag {
    Bold,
    Italic,
    Struck,
    Spoiler,
    Quote,
}

impl HtmlTag {
    fn name(self) -> &'static str {
        match self {
            Self::Bold => "b",
            Self::Italic => "i",
            Self::Struck => "s",
            Self::Spoiler => "tg-spoiler",
            Self::Quote => "blockquote",
        }
    }
}

/// An open span. Its tag is written with the first character: an empty span would count as an entity.
#[derive(Debug)]
enum OpenSpan {
    Tagged {
        tag: HtmlTag,
        is_written: bool,
    },
    Link {
        address: String,
        is_written: bool,
    },
    /// A link for which there is no room: its address is shown behind it.
    UntaggedLink {
        address: String,
    },
    /// One that isn't allowed here, or for which there is no room.
    Plain,
}

/// An address at the end of the HTML that Telegram makes a link by itself, unless the text goes on as one could.
#[derive(Debug)]
struct BareAddress {
    start: usize,
    address: String,
}

#[derive(Debug, Default)]
pub(super) struct HtmlWriter {
    text: String,
    open: Vec<OpenSpan>,
    bare_address: Option<BareAddress>,
    units: usize,
    entities: usize,
    links: usize,
    budget: Option<EntityBudget>,
}

impl HtmlWriter {
    /// Creates a writer. With a budget, the text of spans beyond it is plain; Telegram itself would drop the formatting
    /// of some, but not necessarily of the last ones.
    pub(super) fn new(budget: Option<EntityBudget>) -> Self {
        Self { budget, ..Self::default() }
    }

    /// How many UTF-16 units are visible.
    pub(super) fn units(&self) -> usize {
        self.units
    }

    /// How many formatted spans there are.
    pub(super) fn entities(&self) -> usize {
        self.entities
    }

    /// How many of them are links.
    pub(super) fn links(&self) -> usize {
        self.links
    }

    /// Closes all spans and returns the HTML.
    pub(super) fn into_text(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }

    /// Whether there is room for a span that is no link.
    fn has_room(&self) -> bool {
        self.budget.is_none_or(|budget| self.entities + budget.links.saturating_sub(self.links) < budget.max)
    }

    fn has_link_room(&self) -> bool {
        self.budget.is_none_or(|budget| self.entities < budget.max)
    }

    /// Writes the tags of spans that are open and empty so far.
    fn start_spans(&mut self) {
        for index in 0..self.open.len() {
            let span = mem::replace(&mut self.open[index], OpenSpan::Plain);
            self.open[index] = match span {
                OpenSpan::Tagged { tag, is_written: false } if self.has_room() => {
                    self.start_tag(tag);
                    OpenSpan::Tagged { tag, is_written: true }
                }
                OpenSpan::Tagged { is_written: false, .. } => OpenSpan::Plain,
                OpenSpan::Link { address, is_written: false } if self.has_link_room() => {
                    self.count_link();
                    self.text.push_str(&link_tag(&address));
                    OpenSpan::Link { address, is_written: true }
                }
                OpenSpan::Link { address, is_written: false } => OpenSpan::UntaggedLink { address },
                written => written,
            };
        }
    }

    fn count_link(&mut self) {
        self.entities += 1;
        self.links += 1;
    }

    /// Makes an address a link where Telegram would read the next character as a part of it.
    fn end_bare_address(&mut self, next: Option<char>) {
        let Some(BareAddress { start, address }) = self.bare_address.take() else { return };
        // It takes no room of a link that was written, whose address would have to be shown.
        if next.is_some_and(char::is_alphanumeric) && self.has_room() {
            self.count_link();
            self.text.insert_str(start, &link_tag(&address));
            self.text.push_str("</a>");
        }
    }

    /// Whether code here would be shown as text: in a link, in hidden text, and in a span that it would cut in two when
    /// there is no room for more.
    fn is_code_plain(&self) -> bool {
        let is_plain = |open: &OpenSpan| match open {
            OpenSpan::Link { .. } | OpenSpan::Tagged { tag: HtmlTag::Spoiler, .. } => true,
            OpenSpan::Tagged { tag, .. } => self.budget.is_some() && *tag != HtmlTag::Quote,
            OpenSpan::UntaggedLink { .. } | OpenSpan::Plain => false,
        };
        !self.has_room() || self.open.iter().any(is_plain)
    }

    /// Ends the spans that can't contain code, so that they are opened again behind it; `false` where it is shown as
    /// text.
    fn start_code(&mut self) -> bool {
        self.end_bare_address(None);
        self.start_quote();
        if self.is_code_plain() {
            return false;
        }
        for index in (0..self.open.len()).rev() {
            if let OpenSpan::Tagged { tag, is_written: true } = self.open[index]
                && tag != HtmlTag::Quote
            {
                self.open[index] = OpenSpan::Tagged { tag, is_written: false };
                self.end_tag(tag);
            }
        }
        self.entities += 1;
        true
    }

    /// Writes the tag of an open quote that starts with code; only a quote may contain code.
    fn start_quote(&mut self) {
        for index in 0..self.open.len() {
            if matches!(self.open[index], OpenSpan::Tagged { tag: HtmlTag::Quote, is_written: false }) {
                let is_written = self.has_room();
                if is_written {
                    self.start_tag(HtmlTag::Quote);
                }
                self.open[index] =
                    if is_written { OpenSpan::Tagged { tag: HtmlTag::Quote, is_written } } else { OpenSpan::Plain };
            }
        }
    }

    fn start_tag(&mut self, tag: HtmlTag) {
        self.entities += 1;
        self.text.extend(["<", tag.name(), ">"]);
    }

    fn end_tag(&mut self, tag: HtmlTag) {
        self.text.extend(["</", tag.name(), ">"]);
    }

    fn push_escaped(&mut self, characters: &str) {
        self.units += characters.encode_utf16().count();
        escape(characters, &mut self.text);
    }
}

impl ChatWriter for HtmlWriter {
    fn can_link(&self, address: &str) -> bool {
        is_web_link(address)
    }

    /// Opens a span. One that Telegram doesn't allow here gets no tag.
    fn open(&mut self, span: ChatSpan<'_>) {
        let tag = match span {
            ChatSpan::Bold => HtmlTag::Bold,
            ChatSpan::Italic => HtmlTag::Italic,
            ChatSpan::Struck => HtmlTag::Struck,
            ChatSpan::Spoiler => HtmlTag::Spoiler,
            ChatSpan::Quote => HtmlTag::Quote,
            ChatSpan::Link(address) => {
                let is_link = |open: &OpenSpan| matches!(open, OpenSpan::Link { .. } | OpenSpan::UntaggedLink { .. });
                let is_nested = self.open.iter().any(is_link);
                let link = OpenSpan::Link { address: address.to_owned(), is_written: false };
                return self.open.push(if is_nested { OpenSpan::Plain } else { link });
            }
        };
        let is_open = |open: &OpenSpan| matches!(open, OpenSpan::Tagged { tag: outer, .. } if *outer == tag);
        let is_nested = self.open.iter().any(is_open);
        self.open.push(if is_nested { OpenSpan::Plain } else { OpenSpan::Tagged { tag, is_written: false } });
    }

    fn close(&mut self) {
        self.end_bare_address(None);
        match self.open.pop() {
            Some(OpenSpan::Tagged { tag, is_written: true }) => self.end_tag(tag),
            Some(OpenSpan::Link { is_written: true, .. }) => self.text.push_str("</a>"),
            Some(OpenSpan::UntaggedLink { address }) => self.push_text(&format!(" ({address})")),
            Some(OpenSpan::Tagged { .. } | OpenSpan::Link { .. } | OpenSpan::Plain) | None => {}
        }
    }

    fn push_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.end_bare_address(text.chars().next());
        self.start_spans();
        self.push_escaped(text);
    }

    /// Telegram links to addresses by itself.
    fn push_address(&mut self, text: &str, address: &str) {
        self.push_text(text);
        let is_in_link = self.open.iter().any(|span| matches!(span, OpenSpan::Link { .. }));
        if text == address && !is_in_link && self.can_link(address) {
            let length = escaped(text).len();
            self.bare_address = Some(BareAddress { start: self.text.len() - length, address: address.to_owned() });
        }
    }

    fn push_code(&mut self, code: &str) {
        if code.is_empty() {
            return;
        }
        if !self.start_code() {
            return self.push_text(code);
        }
        self.text.push_str("<code>");
        self.push_escaped(code);
        self.text.push_str("</code>");
    }

    fn push_code_block(&mut self, language: &str, code: &str) {
        if code.is_empty() {
            return;
        }
        if !self.start_code() {
            return self.push_text(code);
        }
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

    fn push_breaks(&mut self, breaks: usize, prefix: &str) {
        self.end_bare_address(None);
        self.push_escaped(&"\n".repeat(breaks));
        self.push_escaped(prefix);
    }
}

/// Whether Telegram links to an address. Other schemes, and what is no address, would be silently dropped, or should not be
/// opened.
pub(super) fn is_web_link(address: &str) -> bool {
    let Some((scheme, _)) = address.split_once("://") else { return false };
    let is_supported = ["http", "https", "tg"].iter().any(|supported| scheme.eq_ignore_ascii_case(supported));
    let has_host = reqwest::Url::parse(address).is_ok_and(|address| address.has_host());
    is_supported && has_host && !address.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// A text in which nothing is markup.
pub(super) fn escaped(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    escape(text, &mut output);
    output
}

/// Telegram requires the first three; the quotation mark is for addresses in attributes.
pub(super) fn escape(characters: &str, output: &mut String) {
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

fn link_tag(address: &str) -> String {
    format!("<a href=\"{}\">", escaped(address))
}
