//! What is before the text of a line: marks of quotations and lists, and indentation.

/// The beginning of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LinePrefix {
    /// Where the text begins, from the beginning of the line.
    pub(super) bytes: usize,
    /// How many quotations it is in.
    pub(super) quotes: usize,
    /// Whether the mark of a list is among it.
    pub(super) has_item: bool,
    /// Whether its first mark is that of a quotation.
    pub(super) begins_with_quote: bool,
    /// The columns of blanks before the text, behind the last mark.
    pub(super) indent: usize,
    /// The column of the first mark of a list.
    pub(super) mark_column: usize,
    /// The columns at which the texts of its items begin, outermost first; 0 where there are no more.
    pub(super) item_columns: [usize; MAX_ITEMS],
}

/// How many marks of lists on one line are looked at.
pub(super) const MAX_ITEMS: usize = 4;

/// The columns by which a line is indented more than the innermost of these items that it is in.
pub(super) fn indent_in_item(indent: usize, items: &[usize]) -> usize {
    indent - items.iter().rev().find(|column| **column <= indent).unwrap_or(&0)
}

/// Reads the beginning of a line, which has no line break, behind items whose texts begin at these columns. Columns are
/// counted from the last mark of a quotation.
pub(super) fn read_prefix(line: &[u8], items: &[usize]) -> LinePrefix {
    let mut prefix = LinePrefix::default();
    let (mut at, mut column, mut indent, mut marks) = (0, 0, 0, 0);
    loop {
        match line.get(at) {
            Some(b' ') => (at, column, indent) = (at + 1, column + 1, indent + 1),
            Some(b'\t') => {
                let width = 4 - column % 4;
                (at, column, indent) = (at + 1, column + width, indent + width);
            }
            Some(b'>') if indent_in_item(indent, items) < 4 => {
                prefix.begins_with_quote |= !prefix.has_item && prefix.quotes == 0;
                prefix.quotes += 1;
                (at, column, indent) = (at + 1, 0, 0);
            }
            Some(_) if indent < 4 || (!prefix.has_item && indent_in_item(indent, items) < 4) => {
                let width = item_mark(&line[at..]);
                if width == 0 || is_rule(&line[at..]) {
                    break;
                }
                if !prefix.has_item {
                    (prefix.has_item, prefix.mark_column) = (true, column);
                }
                (at, column, indent) = (at + width, column + width, 0);
                if marks < MAX_ITEMS {
                    prefix.item_columns[marks] = column + 1;
                    marks += 1;
                }
            }
            _ => break,
        }
    }
    (prefix.bytes, prefix.indent) = (at, indent);
    prefix
}

/// The length of a list's mark with which a line begins; 0 if there is none.
pub(super) fn item_mark(line: &[u8]) -> usize {
    let ends = |at: usize| line.get(at).is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    match line.first() {
        Some(b'-' | b'+' | b'*') if ends(1) => 1,
        Some(b'0'..=b'9') => {
            let digits = line.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
            let is_mark = digits < 10 && matches!(line.get(digits), Some(b'.' | b')')) && ends(digits + 1);
            if is_mark { digits + 1 } else { 0 }
        }
        _ => 0,
    }
}

/// Whether a line is nothing but three or more of the same mark.
pub(super) fn is_rule(line: &[u8]) -> bool {
    let Some(mark @ (b'-' | b'*' | b'_')) = line.first() else { return false };
    let marks = line.iter().filter(|byte| *byte == mark).count();
    marks >= 3 && line.iter().all(|byte| byte == mark || matches!(byte, b' ' | b'\t' | b'\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_before_a_text_are_counted() {
        for (line, bytes, quotes, has_item) in [
            ("text", 0, 0, false),
            ("> text", 2, 1, false),
            ("> > text", 4, 2, false),
            (">>text", 2, 2, false),
            ("- text", 2, 0, true),
            ("  12. text", 6, 0, true),
            ("> - text", 4, 1, true),
            ("* * *", 0, 0, false),
            ("*text*", 0, 0, false),
            ("1.5 text", 0, 0, false),
            ("-", 1, 0, true),
            ("", 0, 0, false),
        ] {
            let prefix = read_prefix(line.as_bytes(), &[]);
            assert_eq!((prefix.bytes, prefix.quotes, prefix.has_item), (bytes, quotes, has_item), "{line:?}");
        }
    }
}
