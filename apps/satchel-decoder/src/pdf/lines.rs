//! Makes lines of text out of placed glyphs: words by gaps, right-to-left scripts in the order of reading.

use unicode_bidi::{BidiInfo, Level};
use unicode_normalization::UnicodeNormalization;

use super::glyphs::PageGlyph;

/// A gap of this part of the font's size is a space.
const SPACE_GAP: f64 = 0.13;

/// Glyphs whose lines are apart by less than this part of the font's size are on one line.
const LINE_TOLERANCE: f64 = 0.55;

/// A jump back by more than this part of the font's size starts a line.
const JUMP_BACK: f64 = 2.0;

/// The lines of a page.
pub(super) fn lines_of(glyphs: &[PageGlyph]) -> String {
    let mut text = String::new();
    let mut line: Vec<&PageGlyph> = Vec::new();
    for glyph in glyphs {
        if line.last().is_some_and(|last| !continues_line(last, glyph)) {
            write_line(&mut line, &mut text);
        }
        line.push(glyph);
    }
    write_line(&mut line, &mut text);
    text
}

fn continues_line(last: &PageGlyph, next: &PageGlyph) -> bool {
    let is_same_direction =
        (next.direction.0 - last.direction.0).abs() < 0.01 && (next.direction.1 - last.direction.1).abs() < 0.01;
    let (larger, smaller) = (last.size.max(next.size), last.size.min(next.size));
    let is_same_line = (next.across - last.across).abs() < LINE_TOLERANCE * larger.min(smaller * 2.0);
    let jumps_back = next.start - last.end < -JUMP_BACK * larger;
    is_same_direction && is_same_line && (!jumps_back || has_rtl(&next.text) || has_rtl(&last.text))
}

fn write_line(line: &mut Vec<&PageGlyph>, text: &mut String) {
    if line.is_empty() {
        return;
    }
    let is_rtl = line.iter().any(|glyph| has_rtl(&glyph.text));
    if is_rtl {
        line.sort_by(|a, b| a.start.total_cmp(&b.start));
    }
    let mut joined = String::new();
    let mut last: Option<&PageGlyph> = None;
    for glyph in line.drain(..) {
        let has_gap = last.is_some_and(|last| glyph.start - last.end > SPACE_GAP * last.size.max(glyph.size));
        if has_gap && !joined.ends_with(' ') && !glyph.text.starts_with(' ') {
            joined.push(' ');
        }
        match is_rtl {
            // Several characters of one glyph are in the order of reading; they are reversed with the line below.
            true if has_rtl(&glyph.text) => joined.extend(glyph.text.chars().rev()),
            true => joined.push_str(&glyph.text),
            false => write_clean(&glyph.text, &mut joined),
        }
        last = Some(glyph);
    }
    if is_rtl {
        let bidi = BidiInfo::new(&joined, Some(Level::rtl()));
        for paragraph in &bidi.paragraphs {
            write_clean(&bidi.reorder_line(paragraph, paragraph.range.clone()), text);
        }
    } else {
        text.push_str(&joined);
    }
    text.push('\n');
}

/// Writes ligatures and presentation forms as the letters that they stand for.
fn write_clean(text: &str, clean: &mut String) {
    for c in text.chars() {
        match c {
            '\u{fb00}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' => clean.extend(c.nfkc()),
            '\u{ad}' => clean.push('-'),
            '\u{a0}' => clean.push(' '),
            c => clean.push(c),
        }
    }
}

fn has_rtl(text: &str) -> bool {
    text.chars().any(|c| {
        matches!(
            c,
            '\u{590}'..='\u{8ff}'
                | '\u{fb1d}'..='\u{fdff}'
                | '\u{fe70}'..='\u{feff}'
                | '\u{10800}'..='\u{10fff}'
                | '\u{1e800}'..='\u{1efff}'
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glyph(text: &str, start: f64, across: f64) -> PageGlyph {
        PageGlyph { start, end: start + 5.0, across, size: 10.0, direction: (1.0, 0.0), text: text.to_owned() }
    }

    #[test]
    fn gaps_jumps_and_sizes_make_words_and_lines() {
        let glyphs = [
            glyph("a", 0.0, 0.0),
            glyph("ﬁ", 5.0, 2.0),
            glyph("b", 12.0, 0.0),
            glyph("c", 0.0, 14.0),
            PageGlyph { direction: (0.0, 1.0), ..glyph("d", 5.0, 14.0) },
        ];
        assert_eq!(lines_of(&glyphs), "afi b\nc\nd\n");
        assert_eq!(lines_of(&[]), "");
    }

    #[test]
    fn hebrew_is_in_the_order_of_reading() {
        // As it is drawn: the first letter on the right.
        let glyphs = [glyph("ש", 20.0, 0.0), glyph("ל", 15.0, 0.0), glyph("ום", 10.0, 0.0), glyph("7", 0.0, 0.0)];
        assert_eq!(lines_of(&glyphs), "שלום 7\n");
    }
}
