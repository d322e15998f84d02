//! Rows of tables as they are written: where cells begin and end, and lines of dashes with too many or too few of them.

use std::ops::Range;

/// Whether a line separates the headings of a table from its rows.
pub(super) fn is_delimiter_row(line: &[u8]) -> bool {
    let (mut dashes, mut pipes) = (0_usize, 0_usize);
    for byte in line {
        match byte {
            b'-' => dashes += 1,
            b'|' => pipes += 1,
            b':' | b' ' | b'\t' | b'\r' => {}
            _ => return false,
        }
    }
    let cells = line.split(|byte| *byte == b'|').map(<[u8]>::trim_ascii).filter(|cell| !cell.is_empty());
    dashes > 0 && pipes > 0 && cells.into_iter().all(is_delimiter_cell)
}

fn is_delimiter_cell(cell: &[u8]) -> bool {
    let cell = cell.strip_prefix(b":").unwrap_or(cell);
    let cell = cell.strip_suffix(b":").unwrap_or(cell);
    !cell.is_empty() && cell.iter().all(|byte| *byte == b'-')
}

/// The cells of a row: what is between its pipes, without those at its edges. A pipe behind a backslash is text, and so is
/// one in code, where `code_has_pipes`.
pub(super) fn cells(row: &[u8], code_has_pipes: bool) -> Vec<Range<usize>> {
    let end = row.trim_ascii_end().len();
    let start = row.len() - row.trim_ascii_start().len();
    let (mut cells, mut at) = (Vec::new(), start);
    let mut cell_start = start + usize::from(row.get(start) == Some(&b'|'));
    at = at.max(cell_start);
    while at < end {
        match row[at] {
            b'\\' => at += 1,
            b'`' if code_has_pipes => at = end_of_code(&row[..end], at).unwrap_or(at),
            b'|' => {
                cells.push(cell_start..at);
                cell_start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    if cell_start < end {
        cells.push(cell_start..end);
    }
    cells
}

/// The last byte of the code that begins at `at`.
fn end_of_code(row: &[u8], at: usize) -> Option<usize> {
    let ticks = row[at..].iter().take_while(|byte| **byte == b'`').count();
    let mut next = at + ticks;
    while next < row.len() {
        let run = row[next..].iter().take_while(|byte| **byte == b'`').count();
        if run == ticks {
            return Some(next + run - 1);
        }
        next += run.max(1);
    }
    None
}

/// A line of dashes of the same length for so many columns; `None` where it has as many, or can't have.
pub(super) fn fit_delimiter_row(line: &[u8], columns: usize) -> Option<Vec<u8>> {
    let cells = cells(line, false);
    let mut fitted = line.to_vec();
    if cells.len() > columns {
        let surplus = cells.get(columns)?.start;
        fitted[surplus..].fill(b' ');
        return Some(fitted);
    }
    let mut missing = columns - cells.len();
    for cell in cells.iter().rev() {
        let mut dashes = cell.clone().filter(|at| line[*at] == b'-').collect::<Vec<_>>();
        // Every second dash can become a pipe, as long as one is before and one behind it.
        while missing > 0 && dashes.len() >= 3 {
            dashes.pop();
            fitted[dashes.pop()?] = b'|';
            missing -= 1;
        }
    }
    (missing == 0 && columns > cells.len()).then_some(fitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(row: &str, code_has_pipes: bool) -> Vec<&str> {
        cells(row.as_bytes(), code_has_pipes).into_iter().map(|cell| row[cell].trim()).collect()
    }

    #[test]
    fn cells_are_between_pipes() {
        assert_eq!(parts("| a | b |", true), ["a", "b"]);
        assert_eq!(parts("a|b", true), ["a", "b"]);
        assert_eq!(parts("| a \\| b | |", true), ["a \\| b", ""]);
        assert_eq!(parts("| `a|b` | c |", true), ["`a|b`", "c"]);
        assert_eq!(parts("| `a|b` | c |", false), ["`a", "b`", "c"]);
        assert_eq!(parts("| ` | c |", true), ["`", "c"]);
    }

    #[test]
    fn delimiter_rows_are_known_and_fitted() {
        for (line, expected) in [
            ("|---|---|", true),
            (":-: | -:", true),
            ("|-|", true),
            ("---", false),
            ("| a |", false),
            ("|", false),
            ("| - : - |", false),
        ] {
            assert_eq!(is_delimiter_row(line.as_bytes()), expected, "{line}");
        }
        let fit = |line: &str, columns| {
            fit_delimiter_row(line.as_bytes(), columns).map(|line| String::from_utf8(line).unwrap())
        };
        assert_eq!(fit("|---|---|", 2), None);
        assert_eq!(fit("|---|---|---|", 2), Some("|---|---|    ".to_owned()));
        assert_eq!(fit("|---|---|", 3), Some("|---|-|-|".to_owned()));
        assert_eq!(fit("|-|-|", 3), None);
    }
}
