//! The text of blocks as fragments: spans, code, addresses and links.

use satchel_markup::{Inline, InlineKind, address_suffix, plain_text};

use super::{
    blocks::{FragmentWriter, RenderDetail},
    code,
    fragment::{Fragment, write_fragments},
    grammar::{self, DiscordSpan},
};

/// What is shown of an image without a text that can't be a link.
const IMAGE_TEXT: &str = "image";

impl<'text> FragmentWriter<'text> {
    pub(super) fn write_inlines(&mut self, content: &[Inline<'text>]) {
        for inline in content {
            self.write_inline(inline);
        }
    }

    /// Writes text with blanks for its line breaks.
    pub(super) fn write_on_one_line(&mut self, content: &[Inline<'text>]) {
        for inline in content {
            match inline.kind {
                InlineKind::Break { .. } => self.push_literal(" "),
                _ => self.write_inline(inline),
            }
        }
    }

    fn write_inline(&mut self, inline: &Inline<'text>) {
        match &inline.kind {
            InlineKind::Text(text) => self.push_literal(text),
            InlineKind::Code(code) => self.push_code(code),
            InlineKind::Emphasis(content) => self.write_span(DiscordSpan::Italic, content),
            InlineKind::Strong(content) => self.write_span(DiscordSpan::Bold, content),
            InlineKind::Struck(content) => self.write_span(DiscordSpan::Struck, content),
            InlineKind::Spoiler(content) => self.write_span(DiscordSpan::Spoiler, content),
            InlineKind::Link { address, content } => self.write_link(address, content),
            InlineKind::Image { address, content } => self.write_link(address, content),
            InlineKind::Address { text, address } => {
                // What was written in angle brackets has no preview.
                let is_angled = self.source.get(inline.range.clone()).is_some_and(|source| source.starts_with('<'));
                self.push_address(text, address, is_angled);
            }
            InlineKind::Formula(formula) => match &formula.unicode {
                Some(unicode) => self.push_literal(unicode),
                None => self.push_code(&formula.plain_text()),
            },
            InlineKind::Break { .. } => self.push_breaks(1, false),
            InlineKind::FootnoteReference(label) => self.push_literal(&format!("[{label}]")),
        }
    }

    pub(super) fn write_span(&mut self, span: DiscordSpan, content: &[Inline<'text>]) {
        let is_open = self.open_span(span);
        self.write_inlines(content);
        if is_open {
            self.close_span();
        }
    }

    /// Opens a span, unless one of its kind is open; `false` if it did not.
    pub(super) fn open_span(&mut self, span: DiscordSpan) -> bool {
        let is_left_out = self.detail >= RenderDetail::Unmarked && span != DiscordSpan::Spoiler;
        if self.open.contains(&span) || is_left_out {
            return false;
        }
        self.open.push(span);
        // Of two spans beside each other, the marks between them would be read otherwise.
        if self.fragments.last() == Some(&Fragment::Close(span)) {
            self.fragments.pop();
        } else {
            self.fragments.push(Fragment::Open(span));
        }
        true
    }

    pub(super) fn close_span(&mut self) {
        if let Some(span) = self.open.pop() {
            self.fragments.push(Fragment::Close(span));
        }
    }

    fn push_code(&mut self, text: &str) {
        // In hidden text, bars would end what is hidden.
        let is_hidden = self.open.contains(&DiscordSpan::Spoiler) && text.contains("||");
        let code = if is_hidden { None } else { code::inline_code(text) };
        match code {
            Some(code) if self.detail < RenderDetail::Unmarked => self.fragments.push(Fragment::Raw(code)),
            _ => self.push_literal(text),
        }
    }

    pub(super) fn push_literal(&mut self, text: &str) {
        match self.fragments.last_mut() {
            Some(Fragment::Literal(before)) => before.push_str(text),
            _ => self.fragments.push(Fragment::Literal(text.to_owned())),
        }
    }

    fn push_address(&mut self, text: &str, address: &str, is_angled: bool) {
        if text == address && grammar::address_length(text).is_some() {
            self.fragments.push(Fragment::Address { text: text.to_owned(), is_angled });
        } else {
            self.push_literal(text);
        }
    }

    /// Writes a link, or an image, which Discord doesn't show within a text. Within another link, it is only its text.
    fn write_link(&mut self, address: &str, content: &[Inline<'text>]) {
        let text = plain_text(content);
        if text.trim().is_empty() {
            return match grammar::address_length(address) {
                Some(_) => self.push_address(address, address, false),
                None => self.push_literal(if address.is_empty() { IMAGE_TEXT } else { address }),
            };
        }
        let label = self.label(content);
        if can_mask(address) && can_be_label(&label) && self.detail < RenderDetail::Unmarked {
            return self.fragments.push(Fragment::Raw(format!("[{label}]({address})")));
        }
        self.write_on_one_line(content);
        let Some(suffix) = address_suffix(address, &text) else { return };
        if grammar::address_length(address) == Some(address.len()) && !address.contains(['>', ' ']) {
            self.push_literal(" ");
            self.push_address(address, address, true);
        } else {
            self.push_literal(&suffix);
        }
    }

    /// The text of a link as Discord's Markdown.
    fn label(&self, content: &[Inline<'text>]) -> String {
        let mut writer = Self::new(self.source, self.detail);
        writer.open.clone_from(&self.open);
        // No line begins in a link.
        writer.fragments.push(Fragment::Raw(String::new()));
        writer.write_label(content);
        write_fragments(&writer.fragments, true).trim().to_owned()
    }

    fn write_label(&mut self, content: &[Inline<'text>]) {
        for inline in content {
            match &inline.kind {
                InlineKind::Link { content, .. } | InlineKind::Image { content, .. } => match content.as_slice() {
                    [] => self.push_literal(IMAGE_TEXT),
                    content => self.write_label(content),
                },
                InlineKind::Break { .. } => self.push_literal(" "),
                _ => self.write_inline(inline),
            }
        }
    }
}

/// Whether Discord links to an address that is behind a text: none with other schemes, and none with brackets within
/// each other.
fn can_mask(address: &str) -> bool {
    let is_web = address.starts_with("https://") || address.starts_with("http://");
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '<' | '>' | '\\');
    let mut depth = 0_usize;
    let is_balanced = address.chars().all(|c| {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return false,
            ')' => depth -= 1,
            _ => {}
        }
        depth <= 1
    });
    is_web && is_balanced && depth == 0 && address.chars().all(is_plain)
}

/// Whether a text can be that of a link. Discord shows backslashes in it, and makes no link where it has brackets, an
/// address, a mention or an emoji.
fn can_be_label(label: &str) -> bool {
    !label.is_empty() && !label.contains(['\\', '[', ']', '<']) && !label.contains("://") && !grammar::has_emoji(label)
}
