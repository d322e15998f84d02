//! Wraps styled text, measured in terminal columns.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::paint;
use crate::screen::ScreenStyle;

/// A run of sanitized text in one style.
#[derive(Debug, Clone)]
pub(crate) struct StyledRun {
    /// The text; its line breaks are kept.
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// Wraps spans at spaces into painted lines. A word that is longer than a line isn't split: it may be a link.
pub(crate) fn wrap_runs(spans: &[StyledRun], width: Option<usize>, screen_style: ScreenStyle) -> Vec<String> {
    let mut filler = LineFiller { screen_style, width: width.unwrap_or(usize::MAX), ..LineFiller::default() };
    for span in spans {
        for (index, line) in span.text.split('\n').enumerate() {
            if index > 0 {
                filler.end_line();
            }
            for piece in line.split_inclusive(' ') {
                filler.add(piece, span.style);
            }
        }
    }
    filler.end_line();
    while filler.lines.last().is_some_and(String::is_empty) {
        filler.lines.pop();
    }
    filler.lines
}

#[derive(Default)]
struct LineFiller {
    screen_style: ScreenStyle,
    width: usize,
    lines: Vec<String>,
    /// The committed runs of the current line.
    line: Vec<(Style, String)>,
    columns: usize,
    /// The last word, which may still move to the next line; it can have several styles.
    word: Vec<(Style, String)>,
    word_columns: usize,
}

impl LineFiller {
    fn add(&mut self, piece: &str, style: Style) {
        let word = piece.trim_end_matches(' ');
        append_run(&mut self.word, style, piece);
        self.word_columns += word.width();
        if self.columns > 0 && self.columns + self.word_columns > self.width {
            self.break_line();
        }
        if word.len() < piece.len() {
            let spaces = piece.len() - word.len();
            self.commit_word();
            self.columns += spaces;
        }
    }

    fn commit_word(&mut self) {
        for (style, text) in self.word.drain(..) {
            append_run(&mut self.line, style, &text);
        }
        self.columns += std::mem::take(&mut self.word_columns);
    }

    fn end_line(&mut self) {
        self.commit_word();
        self.break_line();
    }

    fn break_line(&mut self) {
        if let Some((_, last)) = self.line.last_mut() {
            last.truncate(last.trim_end_matches(' ').len());
        }
        self.lines.push(self.line.drain(..).map(|(style, text)| paint(&text, style, self.screen_style)).collect());
        self.columns = 0;
    }
}

fn append_run(runs: &mut Vec<(Style, String)>, style: Style, text: &str) {
    match runs.last_mut() {
        Some((last, run)) if *last == style => run.push_str(text),
        _ => runs.push((style, text.to_owned())),
    }
}

/// Truncates a painted line to a number of columns. A truncated line loses its styles, so that none stays open.
pub(crate) fn truncate_line(line: &str, columns: usize) -> String {
    let mut bare = String::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            // Sanitized text has no escapes, so this is one of our styles: `ESC [ … m`.
            '\x1b' => drop(characters.by_ref().find(|c| *c == 'm')),
            '\t' => bare.push(' '),
            _ => bare.push(character),
        }
    }
    if bare.width() <= columns {
        return line.replace('\t', " ");
    }
    let mut used = 0;
    let fits = |character: &char| {
        used += character.width().unwrap_or(0);
        used <= columns
    };
    bare.chars().take_while(fits).collect()
}
