//! Scans a passage before it is parsed: which marks are meant, and where formulas, addresses and spoilers are.

use std::ops::Range;

use super::{
    inlines::InlineScanner,
    lines::{Line, LineKind, Lines, read_lines},
    mask::{Mask, MaskBuilder},
    notes::Note,
    tables::{cells, fit_delimiter_row},
};

/// A passage that was scanned.
pub(super) struct Scan<'text> {
    /// What the parser is given.
    pub(super) mask: Mask<'text>,
    /// What it doesn't know, in the order of the text.
    pub(super) notes: Vec<Note>,
    /// Where blocks end though the parser would go on.
    pub(super) boundaries: Vec<usize>,
    /// Where everything to the end of the text is quoted.
    pub(super) quote_to_end: Option<usize>,
}

/// Scans a passage, which must begin where no block is open.
pub(super) fn scan(source: &str, passage: Range<usize>, may_quote_to_end: bool) -> Scan<'_> {
    let Lines { lines, boundaries, quote_to_end } = read_lines(source, passage.clone(), may_quote_to_end);
    let mut mask = MaskBuilder::new(source, passage.clone());
    let mut scanner = InlineScanner::new(source);
    let (mut index, mut formula_end) = (0, 0);
    while let Some(line) = lines.get(index) {
        let mut last = index;
        match line.kind {
            LineKind::First | LineKind::Further => {
                while lines.get(last + 1).is_some_and(|next| next.kind == LineKind::Further) {
                    last += 1;
                }
                if formula_end <= line.text {
                    formula_end = text_end(&lines[last..], &boundaries);
                }
                if lines[index..=last].iter().any(|line| line.has_marks) {
                    scanner.scan_paragraph(line.text..lines[last].end, formula_end, &mut mask);
                }
            }
            LineKind::TableHead => {
                scanner.scan_row(line.text..line.end, &mut mask);
                if let Some(delimiter) = lines.get(index + 1) {
                    fit_delimiter(source, line, delimiter, &mut mask);
                }
            }
            LineKind::TableRow => scanner.scan_row(line.text..line.end, &mut mask),
            LineKind::Blank | LineKind::Opaque | LineKind::Underline | LineKind::TableDelimiter => {}
        }
        index = last + 1;
    }
    Scan { mask: mask.finish(), notes: scanner.finish(), boundaries, quote_to_end }
}

/// Where the text ends that begins with a line: the lines of a formula may look like items or headings.
fn text_end(lines: &[Line], boundaries: &[usize]) -> usize {
    let mut end = 0;
    for (index, line) in lines.iter().enumerate() {
        let is_text = matches!(line.kind, LineKind::First | LineKind::Further | LineKind::Underline);
        let is_elsewhere = line.quotes != lines[0].quotes;
        if !is_text || is_elsewhere || (index > 0 && boundaries.binary_search(&line.start).is_ok()) {
            break;
        }
        end = line.end;
    }
    end
}

/// Gives the line of dashes below the headings of a table as many columns as these have.
fn fit_delimiter(source: &str, head: &Line, delimiter: &Line, mask: &mut MaskBuilder<'_>) {
    let bytes = source.as_bytes();
    let columns = cells(&bytes[head.text..head.end], true).len();
    if let Some(fitted) = fit_delimiter_row(&bytes[delimiter.text..delimiter.end], columns) {
        mask.put(delimiter.text, &fitted);
    }
}
