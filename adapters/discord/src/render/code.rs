//! Code as Discord shows it.
//!
//! A fence has three backticks whatever is in it, and so has none that holds another one. Such code is shown line by
//! line, each as code within a line, which keeps its characters.

use super::plain;

/// What breaks up a fence in code, where there is no room for other means: nobody sees it.
const ZERO_WIDTH_SPACE: char = '\u{200b}';

/// Code within a line; `None` if no number of backticks can hold it. Three of them begin a block.
pub(super) fn inline_code(code: &str) -> Option<String> {
    let runs: Vec<usize> = code.split(|c| c != '`').map(str::len).collect();
    let ticks = "`".repeat((1..=2).find(|ticks| !runs.contains(ticks))?);
    // Discord takes away one blank that is between backticks, or blanks, and the code's own.
    let blank = |is_beside_tick: bool| if is_beside_tick { " " } else { "" };
    let before = blank(code.trim_start_matches(' ').starts_with('`'));
    let behind = blank(code.trim_end_matches(' ').ends_with('`'));
    (!code.is_empty()).then(|| format!("{ticks}{before}{code}{behind}{ticks}"))
}

/// Code without a fence: each line is code within a line. Each but the first begins with `prefix`.
pub(super) fn code_lines(code: &str, prefix: &str) -> String {
    let line = |line: &str| match line.trim() {
        "" => String::new(),
        _ => inline_code(line).unwrap_or_else(|| plain::escape_markup(line)),
    };
    code.split('\n').map(line).collect::<Vec<_>>().join(&format!("\n{prefix}"))
}

/// Code on lines of its own, each of which but the first begins with `prefix`.
pub(super) fn code_block(code: &str, language: &str, prefix: &str, is_fence_broken: bool) -> String {
    if code.trim().is_empty() {
        return String::new();
    }
    let fits_lines = || code.lines().all(|line| line.trim().is_empty() || inline_code(line).is_some());
    if code.contains("```") && !is_fence_broken && fits_lines() {
        return code_lines(code, prefix);
    }
    let line_break = format!("\n{prefix}");
    let code = code.replace("```", &format!("``{ZERO_WIDTH_SPACE}`")).replace('\n', &line_break);
    format!("```{language}{line_break}{code}{line_break}```")
}
