//! Which matches of a text are replaced: pure, exact to the byte, and with an error that helps where it is unclear.

use satchel_domain::{WorkspacePath, size::format_bytes};
use satchel_ports::ToolError;

use crate::error;

/// How many matches an error lists by their lines.
const MAX_LISTED_LINES: usize = 5;

/// Which of several matches is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchChoice {
    /// The only one.
    Unique,
    /// One by its number, counted from 1.
    Occurrence(u64),
    All,
}

/// What an edit makes of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EditResult {
    pub(super) text: String,
    /// How many matches were replaced.
    pub(super) replaced: usize,
}

/// Replaces `old`, which is not empty, by `new` in the text of a file; everything else stays as it is.
///
/// # Errors
/// When there is no such match, when it is unclear which is meant, or when the result has more than `max_bytes` bytes.
pub(super) fn replace(
    path: &WorkspacePath,
    text: &str,
    (old, new): (&str, &str),
    choice: MatchChoice,
    max_bytes: u64,
) -> Result<EditResult, ToolError> {
    let matches: Vec<usize> = text.match_indices(old).map(|(at, _)| at).collect();
    if matches.is_empty() {
        return Err(error::tool_error(format!(
            "nothing was edited: `old` is not in `{path}`; {}",
            describe_near_match(text, old)
        )));
    }
    let chosen = choose_matches(path, text, old, &matches, choice)?;
    let kept_bytes = (text.len() - chosen.len() * old.len()) as u64;
    let bytes = (chosen.len() as u64).saturating_mul(new.len() as u64).saturating_add(kept_bytes);
    if bytes > max_bytes {
        return Err(error::tool_error(format!(
            "nothing was edited: `{path}` would have {bytes} bytes ({}), the maximum is {max_bytes} bytes ({})",
            format_bytes(bytes),
            format_bytes(max_bytes)
        )));
    }
    let mut replaced = String::with_capacity(usize::try_from(bytes).unwrap_or_default());
    let mut end = 0;
    for at in chosen {
        replaced.push_str(&text[end..*at]);
        replaced.push_str(new);
        end = at + old.len();
    }
    replaced.push_str(&text[end..]);
    Ok(EditResult { text: replaced, replaced: chosen.len() })
}

fn choose_matches<'m>(
    path: &WorkspacePath,
    text: &str,
    old: &str,
    matches: &'m [usize],
    choice: MatchChoice,
) -> Result<&'m [usize], ToolError> {
    let count = matches.len();
    let times = || if count == 1 { "once".to_owned() } else { format!("{count} times") };
    match choice {
        MatchChoice::All => Ok(matches),
        MatchChoice::Occurrence(number) => {
            let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
            index.and_then(|index| matches.get(index..=index)).ok_or_else(|| {
                error::tool_error(format!(
                    "nothing was edited: argument `occurrence`: {number} is not allowed; `old` is in `{path}` {}, \
                     {}: allowed are 1 to {count}",
                    times(),
                    list_lines(text, matches)
                ))
            })
        }
        MatchChoice::Unique if count > 1 => Err(error::tool_error(format!(
            "nothing was edited: `old` is in `{path}` {}, {}: add the text around the one that you mean to `old` and \
             `new`, or set `occurrence` to its number (1 to {count}), or `all` to true",
            times(),
            list_lines(text, matches)
        ))),
        // `aa` is once in `aaa` as matches are counted, but which two letters are meant is unclear.
        MatchChoice::Unique if overlaps_itself(text, old, matches[0]) => Err(error::tool_error(format!(
            "nothing was edited: `old` is in `{path}` more than once, in matches that overlap, {}: add the text around \
             the one that you mean to `old` and `new`",
            list_lines(text, matches)
        ))),
        MatchChoice::Unique => Ok(matches),
    }
}

/// Whether another match begins within the one at `at`.
fn overlaps_itself(text: &str, old: &str, at: usize) -> bool {
    let next = text.ceil_char_boundary(at + 1);
    text[next..].contains(old)
}

/// The lines at which the first few matches begin.
fn list_lines(text: &str, matches: &[usize]) -> String {
    let lines: Vec<String> =
        matches.iter().take(MAX_LISTED_LINES).map(|at| line_number(text, *at).to_string()).collect();
    let noun = if matches.len() == 1 { "line" } else { "lines" };
    let more = match matches.len().saturating_sub(MAX_LISTED_LINES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("at {noun} {}{more}", lines.join(", "))
}

/// The number of the line, counted from 1, that has the byte at `at`.
fn line_number(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

/// Says what to do about a text that isn't there: where it almost is, or how to see what is there.
fn describe_near_match(text: &str, old: &str) -> String {
    let with_lf = |text: &str| text.replace("\r\n", "\n");
    let unified = with_lf(text);
    if let Some(at) = unified.find(&with_lf(old)) {
        let (actual, given) = if old.contains("\r\n") { ("\\n", "\\r\\n") } else { ("\\r\\n", "\\n") };
        return format!(
            "it is at line {} if line ends are ignored: the lines there end in {actual}, those of `old` in {given}",
            line_number(&unified, at)
        );
    }
    if let Some(line) = find_ignoring_whitespace(text, old) {
        return format!(
            "it is at line {line} if spaces, tabs and line breaks are ignored: copy them from the file exactly as \
             file_read shows them"
        );
    }
    "every character counts, spaces and line breaks too; file_read shows the text as it is now".to_owned()
}

/// The line at which a match begins if white space is ignored.
fn find_ignoring_whitespace(text: &str, old: &str) -> Option<usize> {
    let without_whitespace = |text: &str| text.split_whitespace().collect::<String>();
    let dense_old = without_whitespace(old);
    if dense_old.is_empty() {
        return None;
    }
    let mut bytes_before = without_whitespace(text).find(&dense_old)?;
    let first = text.char_indices().filter(|(_, c)| !c.is_whitespace()).find(|(_, c)| {
        let is_first = bytes_before == 0;
        bytes_before = bytes_before.saturating_sub(c.len_utf8());
        is_first
    });
    first.map(|(at, _)| line_number(text, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(text: &str, old: &str, new: &str, choice: MatchChoice) -> Result<String, String> {
        let path = "/shared/a.txt".parse().unwrap();
        let replacement = replace(&path, text, (old, new), choice, 1_000);
        replacement.map(|replacement| replacement.text).map_err(|error| error.0)
    }

    #[test]
    fn replacement_leaves_every_other_byte() {
        for (text, old, new, choice, expected) in [
            ("\u{feff}a\r\nb\r\nc", "b", "B\n", MatchChoice::Unique, "\u{feff}a\r\nB\n\r\nc"),
            ("a\nb\n", "a\nb\n", "", MatchChoice::Unique, ""),
            ("один два", "два", "три", MatchChoice::Unique, "один три"),
            ("x x x", "x", "y", MatchChoice::Occurrence(2), "x y x"),
            ("x x x", "x", "y", MatchChoice::Occurrence(3), "x x y"),
            ("x x x", "x", "xx", MatchChoice::All, "xx xx xx"),
            ("aaa", "aa", "b", MatchChoice::All, "ba"),
            ("aaa", "aa", "b", MatchChoice::Occurrence(1), "ba"),
            ("abab", "abab", "c", MatchChoice::Unique, "c"),
            ("once", "once", "twice", MatchChoice::All, "twice"),
        ] {
            assert_eq!(replaced(text, old, new, choice).as_deref(), Ok(expected), "{text:?} {old:?} {choice:?}");
        }
    }

    #[test]
    fn unclear_match_is_refused_with_lines() {
        let text = "x\nno\nx x\n\nx\nx\nx\n";
        let error = replaced(text, "x", "y", MatchChoice::Unique).unwrap_err();
        for says in ["in `/shared/a.txt` 6 times, at lines 1, 3, 3, 5, 6 and 1 more", "(1 to 6)", "`all` to true"] {
            assert!(error.contains(says), "`{says}` is not in `{error}`");
        }
        for number in [0, 7, u64::MAX] {
            let error = replaced(text, "x", "y", MatchChoice::Occurrence(number)).unwrap_err();
            assert!(error.contains(&format!("`occurrence`: {number} is not allowed")), "{error}");
            assert!(error.contains("6 times") && error.ends_with("allowed are 1 to 6"), "{error}");
        }
        let error = replaced("b\naaa", "aa", "c", MatchChoice::Unique).unwrap_err();
        assert!(error.contains("in matches that overlap, at line 2: add"), "{error}");
        let error = replaced("йцйцй", "йцй", "c", MatchChoice::Unique).unwrap_err();
        assert!(error.contains("overlap"), "{error}");
    }

    #[test]
    fn missing_text_is_explained_by_near_match() {
        for (text, old, says) in [
            ("a\nb\r\nc\r\n", "b\nc", "it is at line 2 if line ends are ignored: the lines there end in \\r\\n"),
            ("a\nb\nc\n", "b\r\nc", "it is at line 2 if line ends are ignored: the lines there end in \\n"),
            ("one\n\ttwo  три\nfour", "  two три four", "it is at line 2 if spaces, tabs and line breaks are ignored"),
            ("ёжёжёжёж\n\n  fn a() {\n", "fn a( ) {", "it is at line 3 if spaces"),
            ("one", "two", "every character counts"),
            ("one", "  ", "every character counts"),
        ] {
            let error = replaced(text, old, "new", MatchChoice::Unique).unwrap_err();
            assert!(error.contains("`old` is not in `/shared/a.txt`; ") && error.contains(says), "{error}");
        }
    }

    #[test]
    fn too_large_result_is_refused_with_both_numbers() {
        let text = "x".repeat(100);
        assert_eq!(replaced(&text, "x", "0123456789", MatchChoice::All).map(|text| text.len()), Ok(1_000));
        let error = replaced(&text, "x", "0123456789.", MatchChoice::All).unwrap_err();
        assert!(error.contains("1100 bytes (1.1 KB), the maximum is 1000 bytes (1 KB)"), "{error}");
    }
}
