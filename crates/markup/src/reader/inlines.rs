//! Scans the text of a paragraph for marks, and decides for each whether it is meant as one.

mod emphasis;

use std::ops::Range;

use self::emphasis::EmphasisScanner;
use super::{
    addresses::address_at,
    characters::{is_letter, is_unspaced},
    formulas::FormulaFinder,
    mask::MaskBuilder,
    notes::{Note, NoteKind},
    tables::cells,
};

/// The longest run of backticks that begins code here. A longer one hides nothing that would matter.
const MAX_TICKS: usize = 32;

/// The longest address of a link of which the end is looked for.
const MAX_ADDRESS_BYTES: usize = 4_096;

/// What may be a mark, or part of one.
pub(super) const DELIMITERS: &[u8; 11] = b"*_~`\\$|:<[]";

const IS_MARK: [bool; 256] = mark_table();

const fn mark_table() -> [bool; 256] {
    let mut table = [false; 256];
    let mut index = 0;
    while index < DELIMITERS.len() {
        table[DELIMITERS[index] as usize] = true;
        index += 1;
    }
    table
}

/// Scans the paragraphs of a passage, one after the other.
pub(super) struct InlineScanner<'text> {
    text: &'text str,
    /// Up to where a formula that begins in the paragraph may go on.
    formula_end: usize,
    formulas: FormulaFinder,
    notes: Vec<Note>,
    /// Up to where the text has been scanned; a formula goes over lines that look like other paragraphs.
    scanned_to: usize,
}

/// The paragraph, or the row of a table, that is scanned.
struct Passage<'scan, 'text> {
    scanner: &'scan mut InlineScanner<'text>,
    mask: &'scan mut MaskBuilder<'text>,
    range: Range<usize>,
    is_row: bool,
    emphasis: EmphasisScanner,
    /// How many brackets are open.
    brackets: usize,
    /// The lengths of runs of backticks that no other one closes.
    unclosed_ticks: u64,
    /// The bars that may open a spoiler, and whether a blank is behind them.
    spoiler: Option<(usize, bool)>,
    /// Whether a command of TeX is among it, once that matters.
    has_tex: Option<bool>,
}

impl<'text> InlineScanner<'text> {
    pub(super) fn new(text: &'text str) -> Self {
        Self { text, formula_end: 0, formulas: FormulaFinder::default(), notes: Vec::new(), scanned_to: 0 }
    }

    /// What was found, in the order of the text.
    pub(super) fn finish(mut self) -> Vec<Note> {
        self.notes.sort_by_key(|note| note.range.start);
        self.notes
    }

    /// Scans a paragraph. A formula that begins in it may go on to `formula_end`.
    pub(super) fn scan_paragraph(&mut self, range: Range<usize>, formula_end: usize, mask: &mut MaskBuilder<'text>) {
        self.formula_end = formula_end;
        self.scan(range, false, mask);
    }

    pub(super) fn scan_row(&mut self, range: Range<usize>, mask: &mut MaskBuilder<'text>) {
        self.scan(range, true, mask);
    }

    fn scan(&mut self, range: Range<usize>, is_row: bool, mask: &mut MaskBuilder<'text>) {
        let range = range.start.max(self.scanned_to)..range.end;
        if range.is_empty() {
            return;
        }
        let Some(first) = next_mark(self.text, range.clone()) else { return };
        let mut passage = Passage {
            scanner: self,
            mask,
            range: range.clone(),
            is_row,
            emphasis: EmphasisScanner::default(),
            brackets: 0,
            unclosed_ticks: 0,
            spoiler: None,
            has_tex: None,
        };
        let mut at = passage.scan_at(first);
        while let Some(next) = next_mark(passage.scanner.text, at..range.end) {
            at = passage.scan_at(next);
        }
        self.scanned_to = at;
    }
}

fn next_mark(text: &str, range: Range<usize>) -> Option<usize> {
    let bytes = text.as_bytes().get(range.clone())?;
    bytes.iter().position(|byte| IS_MARK[usize::from(*byte)]).map(|offset| range.start + offset)
}

fn has_command(text: &str) -> bool {
    text.contains('\\')
        && text
            .match_indices('\\')
            .any(|(at, _)| text[at + 1..].bytes().take(2).filter(u8::is_ascii_alphabetic).count() == 2)
}

impl<'text> Passage<'_, 'text> {
    /// Decides about the mark at a position, and returns where to look on.
    fn scan_at(&mut self, at: usize) -> usize {
        let text = self.scanner.text;
        let byte = text.as_bytes()[at];
        match byte {
            b'*' | b'_' | b'~' => {
                let end = self.run_end(at, byte);
                self.emphasis.scan_run(text, at..end, self.range.clone(), self.mask);
                end
            }
            b'`' => self.scan_ticks(at),
            b'\\' => self.scan_backslash(at),
            b'$' => self.scan_formula(at).unwrap_or_else(|| self.run_end(at, b'$')),
            b':' => self.scan_address(at),
            b'<' => self.scan_angle(at),
            b'[' => {
                self.brackets += 1;
                at + 1
            }
            b']' => self.scan_bracket(at),
            b'|' => self.scan_bar(at),
            _ => at + 1,
        }
    }

    fn detect_tex(&mut self) -> bool {
        let text = &self.scanner.text[self.range.clone()];
        *self.has_tex.get_or_insert_with(|| has_command(text))
    }

    fn run_end(&self, at: usize, mark: u8) -> usize {
        let rest = &self.scanner.text.as_bytes()[at..self.range.end];
        at + rest.iter().take_while(|byte| **byte == mark).count()
    }

    fn before(&self, at: usize) -> Option<char> {
        self.scanner.text[self.range.start..at].chars().next_back()
    }

    fn behind(&self, at: usize) -> Option<char> {
        self.scanner.text[at..self.range.end].chars().next()
    }

    fn scan_ticks(&mut self, at: usize) -> usize {
        let end = self.run_end(at, b'`');
        let ticks = end - at;
        if ticks >= MAX_TICKS || self.unclosed_ticks & (1 << ticks) != 0 {
            return end;
        }
        let bytes = self.scanner.text.as_bytes();
        let mut next = end;
        while let Some(found) = bytes[next..self.range.end].iter().position(|byte| *byte == b'`') {
            let run_end = self.run_end(next + found, b'`');
            if run_end - (next + found) == ticks {
                self.hide_pipes(at..run_end);
                return run_end;
            }
            next = run_end;
        }
        self.unclosed_ticks |= 1 << ticks;
        end
    }

    /// Keeps the pipes of code in the cell of a table, if the row has more cells with them than without.
    fn hide_pipes(&mut self, code: Range<usize>) {
        let bytes = self.scanner.text.as_bytes();
        if self.is_row && bytes[code.clone()].contains(&b'|') {
            let row = &bytes[self.range.clone()];
            if cells(row, true).len() < cells(row, false).len() {
                code.filter(|at| bytes[*at] == b'|' && bytes[*at - 1] != b'\\')
                    .for_each(|at| self.mask.hide(at..at + 1));
            }
        }
    }

    fn scan_formula(&mut self, at: usize) -> Option<usize> {
        let end = if self.is_row { self.range.end } else { self.scanner.formula_end };
        let found = self.scanner.formulas.formula_at(self.scanner.text, at, end)?;
        self.hide_formula(found.range.clone());
        let end = found.range.end;
        let kind = NoteKind::Formula { tex: found.tex, is_display: found.is_display };
        self.scanner.notes.push(Note { range: found.range, kind });
        Some(end)
    }

    /// Hides the marks of a formula, but not those of quotations at the beginnings of its lines.
    fn hide_formula(&mut self, range: Range<usize>) {
        let bytes = self.scanner.text.as_bytes();
        let mut start = range.start;
        while start < range.end {
            let end =
                bytes[start..range.end].iter().position(|byte| *byte == b'\n').map_or(range.end, |at| start + at + 1);
            self.mask.hide(start..end);
            let prefix = bytes[end..range.end].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'>')).count();
            start = end + prefix;
        }
    }

    fn scan_backslash(&mut self, at: usize) -> usize {
        let text = self.scanner.text;
        let escaped = text.as_bytes()[..self.range.end].get(at + 1).copied().unwrap_or(b' ');
        if self.emphasis.keeps_backslash(text, at, self.range.clone()) {
            self.mask.hide(at..at + 1);
            return at + 1;
        }
        if matches!(escaped, b'(' | b'[' | b'b')
            && let Some(end) = self.scan_formula(at)
        {
            return end;
        }
        match escaped {
            // Two of them break a line of a formula, or begin the name of a server. Half of them would mean nothing.
            b'\\' => {
                let run = self.run_end(at, b'\\') - at;
                self.mask.hide(at..at + run - run % 2);
                at + run - run % 2
            }
            b'{' | b'}' | b',' | b';' if self.detect_tex() => {
                self.mask.hide(at..at + 1);
                at + 2
            }
            escaped if escaped.is_ascii_punctuation() => at + 2,
            _ => at + 1,
        }
    }

    fn scan_address(&mut self, at: usize) -> usize {
        let start = self.range.start;
        let emphasis = &self.emphasis;
        let found = address_at(self.scanner.text, at, start, self.range.end, |mark| emphasis.is_open(mark));
        let Some(found) = found else { return at + 1 };
        let end = found.range.end;
        // A mark that was escaped in it is the mark.
        let bytes = self.scanner.text.as_bytes();
        let mut next = at;
        while next < end {
            let is_escape = bytes[next] == b'\\' && bytes.get(next + 1).is_some_and(u8::is_ascii_punctuation);
            if !is_escape {
                self.mask.hide(next..next + 1);
            }
            next += if is_escape { 2 } else { 1 };
        }
        self.emphasis.end_word(end);
        if found.is_link {
            self.scanner.notes.push(Note { range: found.range, kind: NoteKind::Address });
        }
        end
    }

    /// Passes over an address, a tag, or what a platform writes between `<` and `>`.
    fn scan_angle(&mut self, at: usize) -> usize {
        let text = self.scanner.text;
        let rest = &text[at + 1..self.range.end];
        let length = rest.find(|c: char| matches!(c, '>' | '<') || c.is_whitespace()).unwrap_or(rest.len());
        if !rest[length..].starts_with('>') {
            return at + 1;
        }
        let inside = &rest[..length];
        let is_address = inside.contains("://") || inside.starts_with("mailto:") || is_mail(inside);
        let is_tag = inside.trim_start_matches('/').starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_address && !is_tag {
            self.mask.hide(at + 1..at + 1 + length);
        }
        at + length + 2
    }

    /// Passes over the address of a link, in which no mark is one.
    fn scan_bracket(&mut self, at: usize) -> usize {
        let is_open = self.brackets > 0;
        self.brackets = self.brackets.saturating_sub(1);
        let text = self.scanner.text;
        if !is_open || !text[at + 1..self.range.end].starts_with('(') {
            return if text[at + 1..self.range.end].starts_with(':') { self.scan_definition(at) } else { at + 1 };
        }
        let mut depth = 0_usize;
        let limit = text.floor_char_boundary(self.range.end.min(at + 1 + MAX_ADDRESS_BYTES));
        for (offset, c) in text[at + 1..limit].char_indices() {
            match c {
                '(' => depth += 1,
                ')' if depth == 1 => return at + 1 + offset + 1,
                ')' => depth -= 1,
                '\n' => break,
                _ => {}
            }
        }
        at + 1
    }

    /// Passes over the address that defines a link: `[label]: address`.
    fn scan_definition(&self, at: usize) -> usize {
        let text = self.scanner.text;
        if !text[self.range.start..at].starts_with('[') {
            return at + 1;
        }
        let rest = &text[at + 2..self.range.end];
        let blanks = rest.len() - rest.trim_start().len();
        at + 2 + blanks + rest[blanks..].find(char::is_whitespace).unwrap_or(rest.len() - blanks)
    }

    /// A bar between cells, or one of two that hide what is between them.
    fn scan_bar(&mut self, at: usize) -> usize {
        let end = self.run_end(at, b'|');
        if self.is_row {
            (self.emphasis, self.brackets, self.spoiler) = (EmphasisScanner::default(), 0, None);
            return end;
        }
        if end - at != 2 {
            return end;
        }
        let (before, behind) = (self.before(at), self.behind(end));
        let is_blank = |c: Option<char>| c.is_none_or(char::is_whitespace);
        let is_in_word = |c: Option<char>| c.is_some_and(|c| is_letter(c) && !is_unspaced(c));
        if let Some((start, is_padded)) = self.spoiler {
            let rest = self.scanner.text[end..self.range.end].trim_start_matches([' ', '\t', '\r']);
            let ends_line = rest.is_empty() || rest.starts_with('\n');
            let closes = !is_blank(before) || (is_padded && ends_line);
            if closes && !is_in_word(behind) {
                self.spoiler = None;
                self.scanner.notes.push(Note { range: start..start + 2, kind: NoteKind::SpoilerStart });
                self.scanner.notes.push(Note { range: at..end, kind: NoteKind::SpoilerEnd });
                return end;
            }
        }
        let line = self.scanner.text[self.range.start..at].trim_end_matches([' ', '\t', '>', '#']);
        let begins_line = line.is_empty() || line.ends_with('\n');
        if !is_in_word(before) && (!is_blank(behind) || begins_line) {
            self.spoiler = Some((at, is_blank(behind)));
        }
        end
    }
}

fn is_mail(text: &str) -> bool {
    text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'))
}
