//! Streamed text as lines that can be printed before the model has finished.
//!
//! Deltas can be lost, repeated or reordered, so the printed lines are compared with the final text: if they aren't its
//! beginning, the whole text is printed.

use satchel_domain::TurnId;

use crate::{
    markdown::{render, settled_len},
    screen::ScreenStyle,
};

/// The maximum size of streamed text; the rest is printed with the final text.
const MAX_LIVE_BYTES: usize = 64 * 1024;

/// One model message on the screen.
#[derive(Debug)]
pub(crate) struct StreamingText {
    /// The turn that it belongs to.
    pub(crate) turn: TurnId,
    /// Which of the turn's model messages.
    pub(crate) message: u32,
    /// The printed lines of the turn's messages before it.
    earlier: Vec<String>,
    text: String,
    printed: Vec<String>,
    is_frozen: bool,
}

/// The lines to draw.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TextUpdate {
    /// Complete lines.
    pub(crate) lines: Vec<String>,
    /// The incomplete last line; redrawn by the next update.
    pub(crate) live_line: Option<String>,
}

impl StreamingText {
    pub(crate) fn new(turn: TurnId, message: u32) -> Self {
        Self { turn, message, earlier: Vec::new(), text: String::new(), printed: Vec::new(), is_frozen: false }
    }

    /// The next message of the same turn, below this one.
    pub(crate) fn into_next(self, message: u32) -> Self {
        Self { earlier: self.printed_lines(), ..Self::new(self.turn, message) }
    }

    pub(crate) fn push(&mut self, delta: &str) {
        if self.text.len() + delta.len() > MAX_LIVE_BYTES {
            self.is_frozen = true;
        } else if !self.is_frozen {
            self.text.push_str(delta);
        }
    }

    /// Whether any of its lines were printed.
    pub(crate) fn has_text(&self) -> bool {
        !self.printed.is_empty()
    }

    /// Returns the lines that have become stable since the last call.
    pub(crate) fn update(&mut self, style: ScreenStyle) -> TextUpdate {
        let mut lines = if self.is_frozen { Vec::new() } else { render(stable_prefix(&self.text), style) };
        let last = lines.pop();
        match lines.strip_prefix(&*self.printed) {
            Some(new_lines) => {
                let new_lines = new_lines.to_vec();
                self.printed = lines;
                TextUpdate { lines: new_lines, live_line: last }
            }
            None => {
                // Later text changed earlier lines, for example by a setext heading.
                self.is_frozen = self.has_text();
                TextUpdate::default()
            }
        }
    }

    /// Completes a message that isn't the reply. Returns the lines that are not printed yet.
    pub(crate) fn finish(&mut self, style: ScreenStyle) -> Vec<String> {
        let lines = render(&self.text, style);
        let remaining = lines.strip_prefix(&*self.printed).unwrap_or(&lines).to_vec();
        self.printed = lines;
        remaining
    }

    /// Returns the lines of the final text that are not printed yet: all of them if it differs from the streamed text. It has
    /// the turn's earlier messages, too, unless the last one repeats them or alone is the reply.
    pub(crate) fn remaining_lines<'a>(&self, lines: &'a [String]) -> &'a [String] {
        match lines.strip_prefix(&*self.printed_lines()) {
            Some([blank, rest @ ..]) if self.printed.is_empty() && blank.is_empty() => rest,
            Some(rest) => rest,
            None => lines.strip_prefix(&*self.printed).unwrap_or(lines),
        }
    }

    /// The printed lines of the turn's messages, this one included, as the reply has them.
    fn printed_lines(&self) -> Vec<String> {
        match (self.earlier.as_slice(), self.printed.as_slice()) {
            ([], printed) => printed.to_vec(),
            (earlier, []) => earlier.to_vec(),
            (earlier, printed) => [earlier, &[String::new()], printed].concat(),
        }
    }
}

/// Returns the prefix of a streamed text that later deltas can't change: it ends before an unclosed marker, an incomplete
/// line of code, or what may belong to the item of a list before it.
fn stable_prefix(text: &str) -> &str {
    let text = marked_prefix(text);
    &text[..settled_len(text)]
}

/// Returns the prefix of a text that ends before an unclosed marker or an incomplete line of code.
fn marked_prefix(text: &str) -> &str {
    let mut fence: Option<&str> = None;
    let mut paragraph = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        match fence {
            Some(mark) if trimmed.starts_with(mark) => fence = None,
            Some(_) => {}
            None if trimmed.starts_with("```") => fence = Some("```"),
            None if trimmed.starts_with("~~~") => fence = Some("~~~"),
            None => {}
        }
        at += line.len();
        if trimmed.is_empty() || (fence.is_none() && (trimmed.starts_with("```") || trimmed.starts_with("~~~"))) {
            paragraph = at;
        }
    }
    if fence.is_some() {
        return text.rfind('\n').map_or("", |end| &text[..=end]);
    }
    &text[..open_mark_start(text, paragraph)]
}

/// Returns the start of the first unclosed emphasis, code, formula or link at or after `from`; the end of the text if
/// there is none.
fn open_mark_start(text: &str, from: usize) -> usize {
    let mut open: Vec<(&str, usize)> = Vec::new();
    let mut before = ' ';
    let mut at = from;
    while let Some(mark) = text[at..].chars().next() {
        let in_code = open.last().is_some_and(|(open, _)| open.starts_with('`'));
        let length = match mark {
            '`' | '*' | '_' | '~' | '$' => text[at..].len() - text[at..].trim_start_matches(mark).len(),
            // An escaped character is no mark, but may begin or end a formula.
            '\\' if !in_code => 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
            _ => mark.len_utf8(),
        };
        let run = &text[at..at + length];
        let next = text[at + length..].chars().next();
        match mark {
            '`' | '*' | '_' | '~' if !in_code || mark == '`' => {
                let opening = open.iter().rposition(|(open, _)| *open == run);
                if let Some(index) = opening.filter(|_| !before.is_whitespace() || in_code) {
                    open.truncate(index);
                } else if next.is_none_or(|next| !next.is_whitespace()) && !(mark == '_' && before.is_alphanumeric()) {
                    open.push((run, at));
                }
            }
            '\\' if matches!(run, "\\(" | "\\[") => open.push((run, at)),
            '\\' if matches!(run, "\\)" | "\\]") => {
                let opening = if run == "\\)" { "\\(" } else { "\\[" };
                let index = open.iter().rposition(|(open, _)| *open == opening);
                open.truncate(index.unwrap_or(open.len()));
            }
            '$' if !in_code => match open.iter().rposition(|(open, _)| *open == run) {
                Some(index) => open.truncate(index),
                None if run == "$$" || !before.is_alphanumeric() => open.push((run, at)),
                None => {}
            },
            '[' if !in_code => open.push(("[", at)),
            ']' if next.is_some_and(|next| next != '(') => open.retain(|(open, _)| *open != "["),
            ')' => open.retain(|(open, _)| *open != "["),
            _ => {}
        }
        before = run.chars().next_back().unwrap_or(mark);
        at += length;
    }
    open.first().map_or(text.len(), |(_, at)| *at)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const LOOK: ScreenStyle = ScreenStyle { terminal: true, colour: true, width: Some(40) };

    /// Streams `text` in pieces of `size` characters; returns the lines that were shown for good.
    fn stream(text: &str, size: usize) -> (StreamingText, Vec<String>) {
        let mut growing = StreamingText::new(TurnId(Uuid::nil()), 0);
        let mut shown = Vec::new();
        let characters: Vec<char> = text.chars().collect();
        for piece in characters.chunks(size) {
            growing.push(&piece.iter().collect::<String>());
            shown.extend(growing.update(LOOK).lines);
        }
        (growing, shown)
    }

    #[test]
    fn stream_and_remainder_form_text_exactly_once() {
        let texts = [
            "One line.",
            "# Title\n\nA **bold\nstatement** and `some code`, then a [link](https://example.org/x) in a long line.\n\nEnd",
            "List:\n\n- one *thing*\n- two\n  1. inner\n  2. more\n\n> a quote\n> of two lines\n\n```rust\nfn main() {\n\n    a_b();\n\n\n}\n```\n\nDone * 2.",
            "Steps:\n\n1. one\n- a *bullet*\n- more\n2. two\n\nBefore\n| a | b |\n|---|---|\n| 1 | `2` |\nbehind.\n\nSo \\[\nx = 1\n\\] for $5 and \\(a_1\\), ||hidden *text*||.\n\n>>> All of\nthis\n\nis quoted",
            "1 * 2 * 3 and snake_case_word, [not a link] after all, and so on and on until the line is full.",
        ];
        for text in texts {
            for size in [1, 2, 3, 7, 50, 1000] {
                let (growing, mut shown) = stream(text, size);
                let whole = render(text, LOOK);
                assert!(whole.starts_with(&shown), "{size}: {shown:#?}");
                shown.extend_from_slice(growing.remaining_lines(&whole));
                assert_eq!(shown, whole, "{text:?} by {size}");
            }
        }
    }

    #[test]
    fn a_long_answer_is_shown_before_it_ends() {
        let (_, shown) = stream("The first line.\n\nThe second one.\n\nThe third", 4);
        assert_eq!(shown, ["The first line.", "", "The second one.", ""]);
    }

    #[test]
    fn text_differing_from_stream_is_returned_whole() {
        let (growing, shown) = stream("Hello.\n\nWorld.\n\nMore", 5);
        assert!(!shown.is_empty());
        let other = render("(possible duplicate)\nHello.\n\nWorld.\n\nMore", LOOK);
        assert_eq!(growing.remaining_lines(&other), other);
    }

    #[test]
    fn marks_that_are_still_open_wait() {
        for (text, sure) in [
            ("a **bo", "a "),
            ("a **bold** b", "a **bold** b"),
            ("a `co", "a "),
            ("see [here](htt", "see "),
            ("see [here](x) now", "see [here](x) now"),
            ("```\na\nb", "```\na\n"),
            ("* item\n* two", "* item\n* two"),
            ("2 * 3", "2 * 3"),
            ("so \\( x", "so "),
            ("so \\( x_1 \\) is", "so \\( x_1 \\) is"),
            ("$$\nx", ""),
            ("for $5 and $6, and", "for $5 and $6, and"),
            ("a \\* b", "a \\* b"),
            ("1. one\n- bullet", "1. one\n"),
            ("1. one\n- bullet\n2. two", "1. one\n- bullet\n2. two"),
            ("1. one\n- bullet\n\nText", "1. one\n- bullet\n\nText"),
        ] {
            assert_eq!(stable_prefix(text), sure, "{text:?}");
        }
    }

    #[test]
    fn endless_text_stops_growing_on_screen() {
        let (growing, _) = stream(&"word ".repeat(30_000), 10_000);
        assert!(growing.text.len() <= MAX_LIVE_BYTES && growing.is_frozen);
    }
}
