//! Selects tools by their names or by patterns, as agents declare them. Pure.

use globset::Glob;
use satchel_domain::filename::to_inline_code;

use crate::{path_fields, registry::provider_name};

/// The longest pattern that an error repeats, in characters.
const MAX_PATTERN_CHARS: usize = 100;

/// A name or pattern that selects no tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool {pattern}; there are: {tools}")]
pub struct UnknownToolError {
    /// The pattern, as it is shown.
    pattern: String,
    /// All tools.
    tools: String,
}

/// Returns those of the available tools that the patterns select, in their order. A pattern is a name, in Satchel's
/// spelling or in that of providers, or a glob such as `attachment.*`. A tool that Satchel brings along may be named even
/// where this installation doesn't offer it.
///
/// # Errors
/// When a pattern selects no tool.
pub fn select_tools<'a>(patterns: &[String], available: &[&'a str]) -> Result<Vec<&'a str>, UnknownToolError> {
    let mut is_selected = vec![false; available.len()];
    for pattern in patterns {
        let matcher = Glob::new(pattern).ok().map(|glob| glob.compile_matcher());
        let matches =
            |name: &str| matcher.as_ref().is_some_and(|glob| glob.is_match(name) || glob.is_match(provider_name(name)));
        let mut is_known = path_fields::tool_names().any(matches);
        for (selected, name) in is_selected.iter_mut().zip(available) {
            let matched = matches(name);
            *selected |= matched;
            is_known |= matched;
        }
        if !is_known {
            let tools = available.join(", ");
            return Err(UnknownToolError { pattern: to_inline_code(pattern, MAX_PATTERN_CHARS), tools });
        }
    }
    Ok(available.iter().zip(is_selected).filter_map(|(name, selected)| selected.then_some(*name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AVAILABLE: [&str; 4] = ["attachment.add", "attachment.read", "dice", "file_read"];

    fn select(patterns: &[&str]) -> Result<Vec<&'static str>, String> {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        select_tools(&patterns, &AVAILABLE).map_err(|error| error.to_string())
    }

    #[test]
    fn names_and_patterns_select_tools() {
        let cases: [(&[&str], &[&str]); 7] = [
            (&[], &[]),
            (&["file_read", "dice"], &["dice", "file_read"]),
            (&["attachment.*"], &["attachment.add", "attachment.read"]),
            (&["attachment_read"], &["attachment.read"]),
            (&["*_read", "dic?"], &["attachment.read", "dice", "file_read"]),
            (&["*"], &AVAILABLE),
            // Satchel's own, which isn't offered here.
            (&["send_voice", "dice"], &["dice"]),
        ];
        for (patterns, selected) in cases {
            assert_eq!(select(patterns).unwrap(), selected, "{patterns:?}");
        }
    }

    #[test]
    fn unknown_tool_is_an_error() {
        for pattern in ["file_raed", "File_read", "map.*", "[", ""] {
            let error = select(&["dice", pattern]).unwrap_err();
            let tools = "attachment.add, attachment.read, dice, file_read";
            let shown = to_inline_code(pattern, MAX_PATTERN_CHARS);
            assert_eq!(error, format!("there is no tool {shown}; there are: {tools}"));
        }
    }
}
