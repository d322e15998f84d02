//! A matching line as the answer shows it.

/// How much of a line is shown, in characters.
const MAX_LINE_CHARS: usize = 200;

/// How much of it before the match, in characters, where the line is longer.
const CHARS_BEFORE_MATCH: usize = 60;

/// The line, or the part of a long one around the match, without control characters that a reader could not see. Tabs
/// stay, because `file_edit` needs them as they are.
pub(super) fn line_excerpt(line: &str, match_start: usize) -> String {
    let chars = line.chars().count();
    let hidden = chars.saturating_sub(MAX_LINE_CHARS);
    let start = line[..match_start].chars().count().saturating_sub(CHARS_BEFORE_MATCH).min(hidden);
    let mut excerpt = String::from(if start > 0 { "…" } else { "" });
    for c in line.chars().skip(start).take(MAX_LINE_CHARS) {
        if c.is_control() && c != '\t' {
            excerpt.extend(c.escape_default());
        } else {
            excerpt.push(c);
        }
    }
    if start < hidden {
        excerpt.push('…');
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_is_cut_around_the_match() {
        let line = |before: usize, after: usize| format!("{}X{}", "й".repeat(before), "z".repeat(after));
        for (before, after, shown_before, shown_after, starts_cut, ends_cut) in [
            (0, 0, 0, 0, false, false),
            (100, 99, 100, 99, false, false),
            (60, 300, 60, 139, false, true),
            (61, 300, 60, 139, true, true),
            (1_000, 300, 60, 139, true, true),
            (1_000, 139, 60, 139, true, false),
            (1_000, 0, 199, 0, true, false),
        ] {
            let expected = line(shown_before, shown_after);
            let expected =
                format!("{}{expected}{}", if starts_cut { "…" } else { "" }, if ends_cut { "…" } else { "" });
            assert_eq!(line_excerpt(&line(before, after), "й".len() * before), expected, "{before} {after}");
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(line_excerpt("\ta \"b\"\\\u{1b}[1m\r\u{85}é", 0), "\ta \"b\"\\\\u{1b}[1m\\r\\u{85}é");
    }
}
