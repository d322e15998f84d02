//! Decides which runs of `*`, `_` and `~` are marks.
//!
//! The parser's own rule asks whether a run has blanks, punctuation or letters beside it. It fails where words have no
//! blanks between them, and it takes products, paths and names of programs for emphasis.

use std::ops::Range;

use super::super::{
    characters::{is_letter, is_punctuation, is_unspaced, punctuation_of_length},
    mask::MaskBuilder,
    names::{Word, word_at},
};

/// What faces such as `(*^_^*)` consist of, and what none is without.
const FACE: &str = "^_<>´`▽°;=≧≦◡ω・.-";
const EYES: &str = "^_<>´≧";

/// A run that may open a span.
#[derive(Debug)]
struct OpenRun {
    mark: u8,
    length: usize,
    /// Where its word begins.
    word: usize,
}

/// The state of a paragraph.
#[derive(Debug, Default)]
pub(super) struct EmphasisScanner {
    open: Vec<OpenRun>,
    word: Word,
    /// Where the last face ends.
    face_end: usize,
}

/// A run and what is beside it.
struct MarkRun {
    mark: u8,
    range: Range<usize>,
    before: char,
    behind: char,
}

impl MarkRun {
    fn length(&self) -> usize {
        self.range.len()
    }

    /// Whether it is between two letters of one word.
    fn is_in_word(&self) -> bool {
        let is_letter = |c: char| is_letter(c) && !is_unspaced(c);
        is_letter(self.before) && is_letter(self.behind)
    }

    /// Whether it is between what could be multiplied, or behind what could be repeated.
    fn is_operator(&self) -> bool {
        let is_operand = is_letter(self.before) || matches!(self.before, ')' | ']' | '}');
        let begins_operand = is_letter(self.behind) || matches!(self.behind, '(' | '[' | '{' | '-' | '.');
        let is_product = is_operand && begins_operand && !is_unspaced(self.before) && !is_unspaced(self.behind);
        let is_repetition = self.length() == 1 && matches!(self.before, '.' | ']') && !self.behind.is_whitespace();
        self.mark == b'*' && (is_product || is_repetition)
    }

    /// Whether it is one even where a span could end with it.
    fn is_sure_operator(&self) -> bool {
        let is_factor = self.before.is_ascii_digit() || matches!(self.before, ')' | ']' | '}');
        self.length() == 1 && is_factor && (is_letter(self.behind) || matches!(self.behind, '(' | '[' | '{'))
    }

    /// Whether it is the nose of a face such as `^_^` or `>_<`.
    fn is_nose(&self) -> bool {
        self.length() == 1 && matches!((self.before, self.behind), ('^', '^') | ('>', '<'))
    }

    /// The length of a face with this mark on both sides, up to the second one, if what is behind it in the text is one.
    fn face_length(&self, behind: &str) -> Option<usize> {
        let length = behind.find(char::from(self.mark)).filter(|_| self.length() == 1)?;
        let face = &behind[..length];
        (face.contains(|c| EYES.contains(c)) && face.chars().all(|c| FACE.contains(c))).then_some(length + 1)
    }

    fn can_open(&self) -> bool {
        !self.behind.is_whitespace()
            && (!is_punctuation(self.behind) || self.before.is_whitespace() || is_punctuation(self.before))
            && (self.mark != b'_' || !is_letter(self.before))
    }

    fn can_close(&self) -> bool {
        !self.before.is_whitespace()
            && (!is_punctuation(self.before) || self.behind.is_whitespace() || is_punctuation(self.behind))
            && (self.mark != b'_' || !is_letter(self.behind))
    }
}

impl EmphasisScanner {
    /// Whether a run of this mark is open, so that another one would close it.
    pub(super) fn is_open(&self, mark: u8) -> bool {
        self.open.iter().any(|run| run.mark == mark)
    }

    /// Whether the backslash at `at` is part of a path.
    pub(super) fn keeps_backslash(&mut self, text: &str, at: usize, paragraph: Range<usize>) -> bool {
        let word = self.word_at(text, at, &paragraph);
        word.has_backslashes && word.literal.contains(&at)
    }

    /// Begins a new word at `at`, behind an address.
    pub(super) fn end_word(&mut self, at: usize) {
        self.word = Word { range: at..at, ..Word::default() };
    }

    /// The word around `at`. Words are visited in the order of the text, so none is looked for twice.
    fn word_at(&mut self, text: &str, at: usize, paragraph: &Range<usize>) -> &Word {
        if at >= self.word.range.end {
            self.word = word_at(text, at, self.word.range.end.max(paragraph.start), paragraph.end);
        }
        &self.word
    }

    /// Decides about a run: hides it in the mask if it stands for itself, and lets the parser see it as a mark if it is
    /// one.
    pub(super) fn scan_run(
        &mut self,
        text: &str,
        range: Range<usize>,
        paragraph: Range<usize>,
        mask: &mut MaskBuilder<'_>,
    ) {
        let word = self.word_at(text, range.start, &paragraph);
        let (is_literal, word) = (word.literal.contains(&range.start), word.range.start);
        let run = MarkRun {
            mark: text.as_bytes()[range.start],
            before: text[paragraph.start..range.start].chars().next_back().unwrap_or(' '),
            behind: text[range.end..paragraph.end].chars().next().unwrap_or(' '),
            range,
        };
        let opener = self.opener(&run);
        if opener.is_none()
            && let Some(length) = run.face_length(&text[run.range.end..paragraph.end])
        {
            self.face_end = run.range.end + length;
        }
        if run.range.start < self.face_end || run.is_nose() {
            return mask.hide(run.range);
        }
        // A path may end with a mark, and so may what it is in.
        let rest = &text[run.range.end..self.word.range.end.max(run.range.end)];
        let ends_span = opener.is_some() && run.can_close() && rest.chars().all(is_punctuation);
        if (is_literal && !ends_span) || (run.mark == b'~' && run.length() != 2) {
            return mask.hide(run.range);
        }
        let opens_in_word = opener.is_some_and(|opener| self.open[opener].word == word);
        if run.is_in_word() {
            // An ending behind bold words, such as `**New York**er`. Powers come in pairs, or with numbers.
            let is_only_one = self.word.double_stars == 1;
            let is_ending = opener.is_some() && is_only_one && run.before.is_alphabetic() && run.behind.is_alphabetic();
            if run.length() >= 2 && run.mark != b'_' && (opens_in_word || is_ending) {
                return self.close(opener, run.length());
            }
            return mask.hide(run.range);
        }
        if run.is_operator() && !opens_in_word && (opener.is_none() || run.is_sure_operator()) {
            return mask.hide(run.range);
        }
        let (mut can_open, mut can_close) = (run.can_open(), run.can_close());
        if opener.is_some() {
            let is_ending = is_letter(run.behind) && (run.length() >= 2 || is_unspaced(run.behind));
            if !can_close && run.mark != b'_' && !run.before.is_whitespace() && is_ending {
                mask.put(run.range.end, punctuation_of_length(run.behind).as_bytes());
                can_close = true;
            }
            if can_close {
                return self.close(opener, run.length());
            }
        } else if !can_open && run.mark == b'*' && !run.behind.is_whitespace() && is_unspaced(run.before) {
            let before = run.range.start - run.before.len_utf8();
            mask.put(before, punctuation_of_length(run.before).as_bytes());
            can_open = true;
        }
        if can_open {
            self.open.push(OpenRun { mark: run.mark, length: run.length(), word });
        }
    }

    /// The innermost open run that this one could close.
    fn opener(&self, run: &MarkRun) -> Option<usize> {
        let matches = |open: &OpenRun| open.length == run.length() || open.length >= 3 || run.length() >= 3;
        self.open.iter().rposition(|open| open.mark == run.mark && matches(open))
    }

    fn close(&mut self, opener: Option<usize>, length: usize) {
        let Some(index) = opener else { return };
        self.open.truncate(index + 1);
        match self.open.last_mut() {
            Some(open) if open.length > length => open.length -= length,
            _ => {
                self.open.pop();
            }
        }
    }
}
