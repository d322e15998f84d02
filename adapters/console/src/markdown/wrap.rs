//! Fills lines with styled words, measured in terminal columns.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::paint;
use crate::screen::ScreenStyle;

/// A run of harmless text in one style.
#[derive(Debug, Clone)]
pub(crate) struct StyledRun {
    /// The text; a line break in it is kept.
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// Breaks spans into painted lines at spaces. A word that is longer than a line stays whole: it may be a link.
pub(crate) fn wrap(spans: &[StyledRun], width: Option<usize>, look: ScreenStyle) -> Vec<String> {
    let mut filler = LineFiller { look, width: width.unwrap_or(usize::MAX), ..LineFiller::default() };
    for span in spans {
        for (index, line) in span.text.split('\n').enumerate() {
            if index > 0 {
                filler.end_of_line();
            }
            for piece in line.split_inclusive(' ') {
                filler.add(piece, span.style);
            }
        }
    }
    filler.end_of_line();
    while filler.lines.last().is_some_and(String::is_empty) {
        filler.lines.pop();
    }
    filler.lines
}

#[derive(Default)]
struct LineFiller {
    look: ScreenStyle,
    width: usize,
    lines: Vec<String>,
    /// What is sure to stand on the current line: style, text.
    line: Vec<(Style, String)>,
    columns: usize,
    /// The word that may still move to the next line; it can change its style in the middle.
    word: Vec<(Style, String)>,
    word_columns: usize,
}

impl LineFiller {
    fn add(&mut self, piece: &str, style: Style) {
        let word = piece.trim_end_matches(' ');
        append(&mut self.word, style, piece);
        self.word_columns += word.width();
        if self.columns > 0 && self.columns + self.word_columns > self.width {
            self.break_line();
        }
        if word.len() < piece.len() {
            let spaces = piece.len() - word.len();
            self.keep_word();
            self.columns += spaces;
        }
    }

    fn keep_word(&mut self) {
        for (style, text) in self.word.drain(..) {
            append(&mut self.line, style, &text);
        }
        self.columns += std::mem::take(&mut self.word_columns);
    }

    fn end_of_line(&mut self) {
        self.keep_word();
        self.break_line();
    }

    fn break_line(&mut self) {
        if let Some((_, last)) = self.line.last_mut() {
            last.truncate(last.trim_end_matches(' ').len());
        }
        self.lines.push(self.line.drain(..).map(|(style, text)| paint(&text, style, self.look)).collect());
        self.columns = 0;
    }
}

fn append(runs: &mut Vec<(Style, String)>, style: Style, text: &str) {
    match runs.last_mut() {
        Some((last, run)) if *last == style => run.push_str(text),
        _ => runs.push((style, text.to_owned())),
    }
}

/// Cuts a painted line to so many columns; what is cut loses its styles, so that none stays open.
pub(crate) fn cut(line: &str, columns: usize) -> String {
    let mut bare = String::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            // Harmless text holds no escapes, so that this one is ours: `ESC [ … m`.
            '\x1b' => drop(characters.by_ref().find(|c| *c == 'm')),
            '\t' => bare.push(' '),
            _ => bare.push(character),
        }
    }
    if bare.width() <= columns {
        return line.replace('\t', " ");
    }
    let mut taken = 0;
    let fits = |character: &char| {
        taken += character.width().unwrap_or(0);
        taken <= columns
    };
    bare.chars().take_while(fits).collect()
}
