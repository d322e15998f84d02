//! What an edit changed, as a unified diff of limited length.

use std::{fmt::Write, time::Duration};

use satchel_ports::OutcomeReader;
use similar::TextDiff;

/// The longest both texts together may be for a diff, in bytes: splitting them into lines takes many times as much.
const MAX_INPUT_BYTES: usize = 4 << 20;

/// After this time the diff need no longer be the shortest one.
const SEARCH_TIMEOUT: Duration = Duration::from_millis(200);

/// How much of a diff its reader gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DiffLimits {
    max_lines: usize,
    max_bytes: usize,
    /// How much of each line.
    max_line_bytes: usize,
}

impl DiffLimits {
    /// A program gets more, but not all of a very long one: when the answer is too large for it, its call fails, and
    /// that would hide that the file was edited. JSON may escape each byte by six.
    pub(super) fn new(reader: OutcomeReader) -> Self {
        match reader {
            OutcomeReader::Model | OutcomeReader::Person => {
                Self { max_lines: 200, max_bytes: 16 << 10, max_line_bytes: 1_000 }
            }
            OutcomeReader::Program => Self { max_lines: usize::MAX, max_bytes: 1 << 20, max_line_bytes: usize::MAX },
        }
    }
}

/// The hunks of a unified diff with three lines of context; a last line in brackets tells how much is left out.
pub(super) fn unified_diff(old: &str, new: &str, limits: DiffLimits) -> String {
    if old.len() + new.len() > MAX_INPUT_BYTES {
        return "[the diff is left out: the file is too large for one]".to_owned();
    }
    let lines = |text| str::split_inclusive(text, '\n').collect::<Vec<_>>();
    let (old_lines, new_lines) = (lines(old), lines(new));
    let diff =
        TextDiff::configure().timeout(SEARCH_TIMEOUT).newline_terminated(true).diff_slices(&old_lines, &new_lines);
    let mut output = LimitedLines { text: String::new(), limits, lines: 0, left_out: 0 };
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        output.push("", &format!("{}\n", hunk.header()));
        for change in hunk.iter_changes() {
            output.push(&change.tag().to_string(), change.value());
            if change.missing_newline() {
                output.push("", "\n\\ No newline at end of file\n");
            }
        }
    }
    output.finish()
}

/// Lines up to a limit; what comes after it is counted.
struct LimitedLines {
    text: String,
    limits: DiffLimits,
    lines: usize,
    left_out: usize,
}

impl LimitedLines {
    fn push(&mut self, mark: &str, line: &str) {
        let kept = &line[..line.floor_char_boundary(self.limits.max_line_bytes)];
        let has_room =
            self.lines < self.limits.max_lines && self.text.len() + mark.len() + kept.len() <= self.limits.max_bytes;
        // Once a line is left out, so are all that follow: a diff with gaps misleads.
        if self.left_out > 0 || !has_room {
            self.left_out += 1;
            return;
        }
        self.lines += 1;
        self.text.push_str(mark);
        self.text.push_str(kept);
        if kept.len() < line.len() {
            let _ = writeln!(self.text, "… [{} more bytes]", line.len() - kept.len());
        }
    }

    fn finish(mut self) -> String {
        if self.left_out > 0 {
            if !self.text.is_empty() && !self.text.ends_with('\n') {
                self.text.push('\n');
            }
            let noun = if self.left_out == 1 { "line" } else { "lines" };
            let _ = writeln!(self.text, "[{} more {noun} of the diff are left out]", self.left_out);
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model_diff(old: &str, new: &str) -> String {
        unified_diff(old, new, DiffLimits::new(OutcomeReader::Model))
    }

    #[test]
    fn diff_has_hunks_with_three_context_lines() {
        let old: String = (1..=20).map(|line| format!("{line}\n")).collect();
        let new = old.replacen("\n5\n", "\nfive\n5½\n", 1).replace("20\n", "twenty");
        insta::assert_snapshot!(model_diff(&old, &new), @r"
        @@ -2,7 +2,8 @@
         2
         3
         4
        -5
        +five
        +5½
         6
         7
         8
        @@ -17,4 +18,4 @@
         17
         18
         19
        -20
        +twenty
        \ No newline at end of file
        ");
        assert_eq!(model_diff("a\r\nb\r\n", "a\nb\r\n"), "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n");
    }

    #[test]
    fn long_diff_says_how_much_is_left_out() {
        let old: String = (0..300).map(|line| format!("{line}\n")).collect();
        let new = old.replace('\n', ".\n");
        let diff = model_diff(&old, &new);
        assert_eq!(diff.lines().count(), 201);
        assert!(diff.starts_with("@@ -1,300 +1,300 @@\n-0\n"), "{diff}");
        assert!(diff.ends_with("\n-198\n[401 more lines of the diff are left out]\n"), "{diff}");
        let whole = unified_diff(&old, &new, DiffLimits::new(OutcomeReader::Program));
        assert!(whole.lines().count() == 601 && whole.ends_with("+299.\n"), "{whole}");
    }

    #[test]
    fn long_lines_of_a_diff_are_cut() {
        let old = "й".repeat(5_000);
        let diff = model_diff(&old, "");
        assert_eq!(
            diff,
            format!("@@ -1 +0,0 @@\n-{}… [9000 more bytes]\n\n\\ No newline at end of file\n", "й".repeat(500))
        );
        let limits = DiffLimits { max_lines: 10, max_bytes: 30, max_line_bytes: 100 };
        let diff = unified_diff(&format!("a\n{}\nc\n", "b".repeat(30)), "", limits);
        assert_eq!(diff, "@@ -1,3 +0,0 @@\n-a\n[2 more lines of the diff are left out]\n", "without gaps");
        let many: String = (0..100).map(|line| format!("{line}{}\n", "x".repeat(2_000))).collect();
        let diff = model_diff(&many, "");
        assert!(diff.len() < 17_000 && diff.ends_with("[84 more lines of the diff are left out]\n"), "{}", diff.len());
        assert_eq!(model_diff(&"\n".repeat(4 << 20), "x"), "[the diff is left out: the file is too large for one]");
    }
}
