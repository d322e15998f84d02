//! Discord's own Markdown: what a person sees of a message.
//!
//! Discord reads messages with Khan Academy's simple-markdown: at each position the first rule that matches takes its
//! piece, by expressions that know neither words nor the rules of CommonMark. Order and expressions of the rules are
//! those of simple-markdown's `defaultRules` (`escape`, `autolink`, `url`, `link`, `em`, `strong`, `u`, `inlineCode`,
//! `br`) and of two recreations of Discord's rules on top of it: nurdism's `discord.ts` ("as of 2024": `blockQuote`,
//! `codeBlock`, `strike`, `spoiler`, `subtext`, `heading`, `list`, `text`, `timestamp`, mentions), and ItzDerock's
//! discord-markdown-parser (`slashCommand`, `guildNavigation`). Of masked links Discord's employees and users say in
//! discord/discord-api-docs: only `http`, `https` and `discord` (#6088), no backslashes in their text (#6185), and no
//! link at all where the text has an address (#7721) or an emoji (#6810). Smileys such as `:D` are a person's own
//! setting.

mod inline;
mod line;

use std::ops::Range;

use crate::message::DiscordMessage;

/// How deep lists are nested at most (`list`).
const MAX_LIST_LEVEL: usize = 11;

/// A text as a person sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenText {
    /// The characters; items of lists begin with `• ` or their number. Mentions, times and Discord's emoji stay as they
    /// were written.
    pub text: String,
    /// How they are shown, inner marks first.
    pub marks: Vec<SeenMark>,
    /// The text with its marks, as `[b:bold]`.
    pub outline: String,
}

/// How a piece of a text is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenMark {
    /// How.
    pub kind: MarkKind,
    /// Where in the text, in bytes.
    pub range: Range<usize>,
}

/// How a piece of a text is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkKind {
    /// `**bold**`
    Bold,
    /// `*italic*` or `_italic_`
    Italic,
    /// `__underlined__`
    Underlined,
    /// `~~struck~~`
    Struck,
    /// `||hidden||`
    Spoiler,
    /// Code within a line.
    Code,
    /// Code on lines of its own, in a language.
    CodeBlock(String),
    /// `> quoted`
    Quote,
    /// `# Heading`, of a level.
    Heading(usize),
    /// `-# small`
    Subtext,
    /// A link to an address.
    Link(String),
    /// A person, a role, a channel, a command, a time or an emoji of Discord.
    Mention,
}

impl MarkKind {
    fn name(&self) -> String {
        match self {
            Self::Bold => "b".to_owned(),
            Self::Italic => "i".to_owned(),
            Self::Underlined => "u".to_owned(),
            Self::Struck => "s".to_owned(),
            Self::Spoiler => "spoiler".to_owned(),
            Self::Code => "code".to_owned(),
            Self::CodeBlock(language) => format!("pre {language}").trim_end().to_owned(),
            Self::Quote => "quote".to_owned(),
            Self::Heading(level) => format!("h{level}"),
            Self::Subtext => "small".to_owned(),
            Self::Link(address) => format!("link {address}"),
            Self::Mention => "mention".to_owned(),
        }
    }
}

impl SeenText {
    /// The addresses that a person can press.
    #[must_use]
    pub fn links(&self) -> Vec<String> {
        let address = |mark: &SeenMark| match &mark.kind {
            MarkKind::Link(address) => Some(address.clone()),
            _ => None,
        };
        self.marks.iter().filter_map(address).collect()
    }
}

impl DiscordMessage {
    /// What a person sees of its text.
    #[must_use]
    pub fn seen(&self) -> SeenText {
        read_markdown(&self.content)
    }
}

/// Reads a message as Discord's apps do.
#[must_use]
pub fn read_markdown(content: &str) -> SeenText {
    // simple-markdown, `preprocess`
    let source = content.replace("\r\n", "\n").replace('\r', "\n").replace('\u{c}', "").replace('\t', "    ");
    let mut reader = MarkdownReader::default();
    let state = ReaderState { in_quote: false, list_level: 0, allows_heading: true, allows_escape: true };
    reader.read(&source, state, "");
    reader.seen
}

#[derive(Debug, Clone, Copy)]
struct ReaderState {
    in_quote: bool,
    list_level: usize,
    allows_heading: bool,
    allows_escape: bool,
}

/// A piece that an inline rule matched: its length, and where its content is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Capture {
    length: usize,
    content: Range<usize>,
}

#[derive(Debug, Default)]
struct MarkdownReader {
    seen: SeenText,
}

impl MarkdownReader {
    fn read<'a>(&mut self, source: &'a str, state: ReaderState, previous: &'a str) {
        let (mut rest, mut previous) = (source, previous);
        while !rest.is_empty() {
            let length =
                self.read_block(rest, state, previous).unwrap_or_else(|| self.read_inline(rest, state, previous));
            (previous, rest) = rest.split_at(length);
        }
    }

    /// Reads what begins a line, and returns how long it is.
    fn read_block(&mut self, rest: &str, state: ReaderState, previous: &str) -> Option<usize> {
        let begins_line = previous.is_empty() || previous.ends_with('\n');
        if begins_line && state.allows_heading {
            if let Some((level, capture)) = line::heading(rest) {
                return Some(self.read_line(MarkKind::Heading(level), rest, &capture, state, previous));
            }
            if let Some(capture) = line::subtext(rest) {
                return Some(self.read_line(MarkKind::Subtext, rest, &capture, state, previous));
            }
        }
        if let Some((language, capture)) = line::code_block(rest) {
            self.begin_line();
            self.mark(MarkKind::CodeBlock(language.to_owned()), |reader| reader.push(&rest[capture.content.clone()]));
            if !rest[capture.length..].is_empty() && !rest[capture.length..].starts_with('\n') {
                self.push("\n");
            }
            return Some(capture.length);
        }
        let begins_indented_line = previous.is_empty() || previous.trim_end_matches(' ').ends_with('\n');
        if begins_indented_line
            && !state.in_quote
            && let Some((length, content)) = line::quote(rest)
        {
            let state = ReaderState { in_quote: true, ..state };
            self.mark(MarkKind::Quote, |reader| reader.read(&content, state, previous));
            return Some(length);
        }
        if begins_indented_line && state.list_level < MAX_LIST_LEVEL {
            return line::list(rest).map(|list| self.read_list(&list, state, previous));
        }
        None
    }

    fn read_line(
        &mut self,
        kind: MarkKind,
        rest: &str,
        capture: &Capture,
        state: ReaderState,
        previous: &str,
    ) -> usize {
        self.mark(kind, |reader| reader.read(rest[capture.content.clone()].trim(), state, previous));
        if rest[..capture.length].ends_with('\n') {
            self.push("\n");
        }
        capture.length
    }

    fn read_list(&mut self, list: &line::List, state: ReaderState, previous: &str) -> usize {
        let inner = ReaderState { list_level: state.list_level + 1, allows_heading: false, ..state };
        for (index, item) in list.items.iter().enumerate() {
            self.begin_line();
            self.push(&"  ".repeat(state.list_level));
            match list.start {
                Some(start) => self.push(&format!("{}. ", start + index)),
                None => self.push("• "),
            }
            self.read(item, inner, previous);
        }
        if list.ends_line {
            self.begin_line();
        }
        list.length
    }

    fn read_inline(&mut self, rest: &str, state: ReaderState, previous: &str) -> usize {
        if state.allows_escape
            && let Some(capture) = inline::escape(rest)
        {
            return self.read_literal(rest, &capture);
        }
        if let Some(capture) = inline::autolink(rest).or_else(|| inline::url(rest)) {
            let address = &rest[capture.content.clone()];
            self.mark(MarkKind::Link(address.to_owned()), |reader| reader.push(address));
            return capture.length;
        }
        if let Some((capture, address)) = inline::link(rest) {
            let label = &rest[capture.content.clone()];
            if !inline::is_safe_link(label, address) {
                self.push(&rest[..capture.length]);
                return capture.length;
            }
            let state = ReaderState { allows_escape: false, ..state };
            self.mark(MarkKind::Link(address.to_owned()), |reader| reader.read(label, state, previous));
            return capture.length;
        }
        if let Some((kind, capture)) = best_emphasis(rest) {
            self.mark(kind, |reader| reader.read(&rest[capture.content.clone()], state, previous));
            return capture.length;
        }
        if let Some(capture) = inline::struck(rest) {
            self.mark(MarkKind::Struck, |reader| reader.read(&rest[capture.content.clone()], state, previous));
            return capture.length;
        }
        if let Some((length, code)) = inline::code(rest) {
            self.mark(MarkKind::Code, |reader| reader.push(code));
            return length;
        }
        if let Some(length) = inline::line_break(rest) {
            self.push("\n");
            return length;
        }
        if let Some(length) = inline::mention(rest) {
            self.mark(MarkKind::Mention, |reader| reader.push(&rest[..length]));
            return length;
        }
        if let Some(capture) = inline::shortcode(rest).or_else(|| inline::emoticon(rest)) {
            return self.read_literal(rest, &capture);
        }
        if let Some(capture) = inline::spoiler(rest) {
            self.mark(MarkKind::Spoiler, |reader| reader.read(&rest[capture.content.clone()], state, previous));
            return capture.length;
        }
        let length = inline::text(rest);
        self.push(&rest[..length]);
        length
    }

    fn read_literal(&mut self, rest: &str, capture: &Capture) -> usize {
        self.push(&rest[capture.content.clone()]);
        capture.length
    }

    fn mark(&mut self, kind: MarkKind, read: impl FnOnce(&mut Self)) {
        let start = self.seen.text.len();
        self.seen.outline.push_str(&format!("[{}:", kind.name()));
        read(self);
        self.seen.outline.push(']');
        let range = start..self.seen.text.len();
        if !range.is_empty() {
            self.seen.marks.push(SeenMark { kind, range });
        }
    }

    /// Ends the line, if anything is on it.
    fn begin_line(&mut self) {
        if !self.seen.text.is_empty() && !self.seen.text.ends_with('\n') {
            self.push("\n");
        }
    }

    fn push(&mut self, text: &str) {
        self.seen.text.push_str(text);
        self.seen.outline.push_str(text);
    }
}

/// The longest of `em`, `strong` and `u`, which have a quality; `em` wins ties, `u` loses them.
fn best_emphasis(rest: &str) -> Option<(MarkKind, Capture)> {
    let italic = inline::italic(rest).map(|capture| (2, MarkKind::Italic, capture));
    let bold = inline::bold(rest).map(|capture| (1, MarkKind::Bold, capture));
    let underlined = inline::underlined(rest).map(|capture| (0, MarkKind::Underlined, capture));
    let matches = [italic, bold, underlined].into_iter().flatten();
    matches.max_by_key(|(rank, _, capture)| (capture.length, *rank)).map(|(_, kind, capture)| (kind, capture))
}
