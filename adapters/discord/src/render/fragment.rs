//! Writes fragments in Discord's Markdown. Literal text is escaped where Discord would read it as markup, and marks are
//! written only where Discord reads them as marks.

use super::grammar::{self, DiscordSpan};

/// A face that Discord knows, with its backslash.
const SHRUG: &str = "¯\\_(ツ)_/¯";

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fragment {
    /// Literal text on one line.
    Literal(String),
    /// Markup that is complete: code, or a link.
    Raw(String),
    /// An address that Discord links to, and whether it is in angle brackets.
    Address { text: String, is_angled: bool },
    /// Line breaks, or the mark of a quotation, an item or a heading. A line begins behind it.
    LineStart { text: String, kind: LineBeginning },
    /// The mark before a span.
    Open(DiscordSpan),
    /// The mark behind it.
    Close(DiscordSpan),
}

/// What begins behind a mark at the beginning of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineBeginning {
    Text,
    /// A heading, which begins with no `#` of its own.
    Heading,
}

impl Fragment {
    /// The first character that it writes, as far as it matters to what is before it.
    fn first_char(&self) -> Option<char> {
        // Such a character has a backslash.
        let escaped = |c: char| if "*_~|`".contains(c) { '\\' } else { c };
        match self {
            Self::Literal(text) => text.chars().next().map(escaped),
            Self::Raw(text) | Self::LineStart { text, .. } => text.chars().next(),
            Self::Address { is_angled: true, .. } => Some('<'),
            Self::Address { text, .. } => text.chars().next(),
            Self::Open(span) | Self::Close(span) => usual_mark(*span).chars().next(),
        }
    }
}

/// The mark on each side of a span. Italics have another one beside a star.
fn usual_mark(span: DiscordSpan) -> &'static str {
    match span {
        DiscordSpan::Bold => "**",
        DiscordSpan::Italic => "*",
        DiscordSpan::Struck => "~~",
        DiscordSpan::Spoiler => "||",
    }
}

/// How often each character is in a text that could be a mark.
#[derive(Debug, Default)]
struct MarkCounts {
    star: usize,
    underscore: usize,
    tick: usize,
    tilde: usize,
    bar: usize,
}

impl MarkCounts {
    fn count(fragments: &[Fragment]) -> Self {
        let mut counts = Self::default();
        for fragment in fragments {
            match fragment {
                Fragment::Literal(text) | Fragment::Raw(text) | Fragment::Address { text, .. } => {
                    text.chars().for_each(|c| counts.add(c));
                }
                Fragment::Open(span) | Fragment::Close(span) => usual_mark(*span).chars().for_each(|c| counts.add(c)),
                Fragment::LineStart { .. } => {}
            }
        }
        counts
    }

    fn add(&mut self, c: char) {
        match c {
            '*' => self.star += 1,
            '_' => self.underscore += 1,
            '`' => self.tick += 1,
            '~' => self.tilde += 1,
            '|' => self.bar += 1,
            _ => {}
        }
    }
}

/// A span that is open, and where its mark is in the output.
#[derive(Debug)]
struct OpenMark {
    start: usize,
    mark: &'static str,
    /// Whether bold text ends right before it, whose mark a star would belong to.
    is_behind_bold: bool,
}

#[derive(Debug)]
struct MarkdownOutput<'fragments> {
    fragments: &'fragments [Fragment],
    counts: MarkCounts,
    output: String,
    open: Vec<OpenMark>,
    /// The positions of literal characters that could be marks and have no backslash so far.
    unescaped: Vec<usize>,
    /// What begins here, if a line does.
    line: Option<LineBeginning>,
    escapes: bool,
}

/// Writes fragments as Markdown. Without `escapes`, characters are what they are, whatever Discord makes of them.
pub(super) fn write_fragments(fragments: &[Fragment], escapes: bool) -> String {
    let mut writer = MarkdownOutput {
        fragments,
        counts: MarkCounts::count(fragments),
        output: String::new(),
        open: Vec::new(),
        unescaped: Vec::new(),
        line: Some(LineBeginning::Text),
        escapes,
    };
    for (index, fragment) in fragments.iter().enumerate() {
        writer.write(fragment, index);
    }
    writer.escape_the_rest();
    writer.output
}

impl MarkdownOutput<'_> {
    fn write(&mut self, fragment: &Fragment, index: usize) {
        match fragment {
            Fragment::Literal(text) if self.escapes => self.push_literal(text, self.next_char(index)),
            Fragment::Literal(text) => self.output.push_str(text),
            Fragment::Raw(text) => {
                // Code beside code would be one.
                if text.starts_with('`') && self.output.ends_with('`') {
                    self.output.push(' ');
                }
                self.output.push_str(text);
            }
            Fragment::Address { text, is_angled } => {
                let is_bare = !is_angled && self.is_bare_address(text, index);
                // It would escape the bracket.
                if !is_bare && self.ends_with_backslash() {
                    self.output.push('\\');
                }
                let angled = if is_bare { text.clone() } else { format!("<{text}>") };
                self.output.push_str(&angled);
            }
            Fragment::LineStart { text, .. } => self.output.push_str(text),
            Fragment::Open(span) => self.open_span(*span, index),
            Fragment::Close(span) => self.close_span(*span, index),
        }
        self.line = match fragment {
            Fragment::LineStart { kind, .. } => Some(*kind),
            Fragment::Open(_) => self.line,
            Fragment::Literal(text) if is_blank(text) => self.line,
            _ => None,
        };
    }

    /// Whether the output ends with a backslash that escapes what comes next.
    fn ends_with_backslash(&self) -> bool {
        let backslashes = self.output.len() - self.output.trim_end_matches('\\').len();
        self.escapes && backslashes % 2 == 1
    }

    fn next_char(&self, index: usize) -> Option<char> {
        self.fragments[index + 1..].iter().find_map(Fragment::first_char)
    }

    /// Whether Discord reads an address to its end and no further.
    fn is_bare_address(&self, text: &str, index: usize) -> bool {
        let mut tail = text.to_owned();
        for fragment in &self.fragments[index + 1..] {
            match fragment {
                Fragment::Literal(text) => tail.push_str(text),
                // Behind a span, its content ends.
                Fragment::LineStart { .. } | Fragment::Close(_) => break,
                _ => tail.extend(fragment.first_char()),
            }
            if tail[text.len()..].contains(char::is_whitespace) {
                break;
            }
        }
        grammar::address_length(&tail) == Some(text.len())
    }

    fn open_span(&mut self, span: DiscordSpan, index: usize) {
        let before = index.checked_sub(1).map(|before| &self.fragments[before]);
        let is_behind_bold = before == Some(&Fragment::Close(DiscordSpan::Bold));
        let is_italic = span == DiscordSpan::Italic;
        let mark = if is_italic && (is_behind_bold || self.is_before_bold(index)) { "_" } else { usual_mark(span) };
        self.open.push(OpenMark { start: self.output.len(), mark, is_behind_bold });
        self.output.push_str(mark);
    }

    /// Whether bold text begins right behind the italics that begin here.
    fn is_before_bold(&self, index: usize) -> bool {
        let mut behind =
            self.fragments[index..].iter().skip_while(|fragment| **fragment != Fragment::Close(DiscordSpan::Italic));
        behind.nth(1) == Some(&Fragment::Open(DiscordSpan::Bold))
    }

    /// Closes a span with marks that Discord reads as those of the span; else it has none.
    fn close_span(&mut self, span: DiscordSpan, index: usize) {
        let Some(OpenMark { start, mark, is_behind_bold }) = self.open.pop() else { return };
        let begin = start + mark.len();
        let content = self.output.split_off(begin);
        self.output.truncate(start);
        let candidates: &[(&str, &str)] = match span {
            DiscordSpan::Italic if is_behind_bold => &[("_", "_")],
            DiscordSpan::Italic if mark == "_" => &[("_", "_"), ("*", "*")],
            DiscordSpan::Italic => &[("*", "*"), ("_", "_")],
            // A bar at the end would be taken for one of the marks.
            DiscordSpan::Spoiler => &[("||", "||"), ("|| ", " ||")],
            DiscordSpan::Bold => &[("**", "**")],
            DiscordSpan::Struck => &[("~~", "~~")],
        };
        // What is in a span is read by itself.
        let next = match self.fragments.get(index + 1) {
            Some(Fragment::Close(_)) => None,
            Some(Fragment::Open(DiscordSpan::Italic)) if span == DiscordSpan::Bold => Some('_'),
            _ => self.next_char(index),
        };
        let is_read = |(before, behind): &&(&str, &str)| {
            let written = format!("{before}{content}{behind}");
            let in_place: String = written.chars().chain(next).collect();
            grammar::is_span(span, &in_place, written.len())
        };
        let (before, behind) = candidates.iter().find(is_read).copied().unwrap_or_default();
        self.output.extend([before, content.as_str(), behind]);
        for at in self.unescaped.iter_mut().filter(|at| **at >= begin) {
            *at = *at - begin + start + before.len();
        }
    }

    fn push_literal(&mut self, text: &str, next: Option<char>) {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let (piece, behind) = rest.split_at(self.push_piece(rest, c, next));
            // A mark may be indented.
            self.line = self.line.filter(|_| is_blank(piece));
            rest = behind;
        }
    }

    /// Whether a text is an address of which Discord would read what comes next as a part, such as the mark of code.
    fn would_address_go_on(text: &str, next: Option<char>) -> bool {
        let length = grammar::address_length(text);
        length == Some(text.len())
            && next.is_some_and(|next| grammar::address_length(&format!("{text}{next}")) != length)
    }

    /// Writes the character at the beginning of a text, or what Discord takes as a whole, and returns how long it is.
    fn push_piece(&mut self, rest: &str, c: char, next: Option<char>) -> usize {
        if Self::would_address_go_on(rest, next) {
            if self.ends_with_backslash() {
                self.output.push('\\');
            }
            self.output.extend(["<", rest, ">"]);
            return rest.len();
        }
        let whole = grammar::mention_length(rest)
            .or_else(|| grammar::address_length(rest))
            .or_else(|| rest.starts_with(SHRUG).then_some(SHRUG.len()));
        if let Some(length) = whole {
            self.output.push_str(&rest[..length]);
            return length;
        }
        if let Some(length) = self.line.and_then(|line| line_mark_length(rest, line)) {
            self.output.extend([&rest[..length - 1], "\\", &rest[length - 1..length]]);
            return length;
        }
        self.push_char(c, rest[c.len_utf8()..].chars().next().or(next));
        c.len_utf8()
    }

    fn push_char(&mut self, c: char, next: Option<char>) {
        let previous = self.output.chars().next_back().unwrap_or('\n');
        let next = next.unwrap_or('\n');
        let is_mark = match c {
            '\\' => grammar::is_escapable(next),
            '*' => {
                let is_apart = previous.is_whitespace() && next.is_whitespace() && self.open.is_empty();
                self.counts.star > 1 && !is_apart
            }
            '_' => {
                let is_in_word = previous.is_alphanumeric() && next.is_ascii_alphanumeric();
                // Behind the mark of struck text, it would undo it.
                (self.counts.underscore > 1 && !is_in_word) || previous == '~'
            }
            '`' => self.counts.tick > 1,
            '~' => self.counts.tilde > 3 && (previous == '~' || next == '~'),
            '|' => self.counts.bar > 3 && (previous == '|' || next == '|'),
            _ => false,
        };
        if is_mark {
            self.output.push('\\');
        } else if "*_`~|[<:".contains(c) {
            self.unescaped.push(self.output.len());
        }
        self.output.push(c);
    }

    /// Escapes what Discord would still read as markup, from the end, because what is before depends on what is behind.
    fn escape_the_rest(&mut self) {
        for at in std::mem::take(&mut self.unescaped).into_iter().rev() {
            if grammar::begins_markup(&self.output[at..]) {
                self.output.insert(at, '\\');
            }
        }
    }
}

fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c == ' ')
}

/// The length of the mark of a heading, a quotation or an item at the beginning of a line, up to the character that a
/// backslash has to be before.
fn line_mark_length(text: &str, line: LineBeginning) -> Option<usize> {
    let behind = |mark: char| text.trim_start_matches(mark);
    let count = |mark: char| text.len() - behind(mark).len();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let is_mark = match text.chars().next()? {
        // A heading may have its text on the next line.
        '#' => {
            line == LineBeginning::Heading
                || (count('#') <= 3 && matches!(behind('#').chars().next(), None | Some(' ')))
        }
        '>' => matches!(count('>'), 1 | 3) && behind('>').starts_with(' '),
        '-' => text.starts_with("- ") || text.starts_with("-# "),
        '*' => text.starts_with("* "),
        '0'..='9' => text[digits..].starts_with(". "),
        _ => false,
    };
    is_mark.then_some(digits + 1)
}
