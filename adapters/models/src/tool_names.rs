//! Maps the names of tools to names that providers accept, and back.

use std::collections::HashMap;

use satchel_ports::ToolSpec;

/// The longest name, in characters: every provider accepts 64, and a suffix may make equal names unique.
const MAX_NAME_CHARS: usize = 60;

/// Names that providers or the vendor's client reserve for their own tools.
const RESERVED: [&str; 5] = ["web_search", "googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext"];

/// The unique names of one request's tools on the wire.
#[derive(Debug, Default)]
pub(crate) struct ToolNames {
    wire_names: HashMap<String, String>,
    original_names: HashMap<String, String>,
}

impl ToolNames {
    /// Names the tools. A valid name stays; the others are changed as little as possible.
    pub(crate) fn new(tools: &[ToolSpec]) -> Self {
        let mut names = Self::default();
        let (valid, invalid): (Vec<_>, Vec<_>) = tools.iter().partition(|tool| sanitize_name(&tool.name) == tool.name);
        for tool in valid.into_iter().chain(invalid) {
            let stem = sanitize_name(&tool.name);
            let numbered = (2..).map(|number| format!("{stem}_{number}"));
            let is_free = |name: &String| !names.original_names.contains_key(name);
            let name = std::iter::once(stem.clone()).chain(numbered).find(is_free).expect("numbers don't run out");
            names.original_names.insert(name.clone(), tool.name.clone());
            names.wire_names.insert(tool.name.clone(), name);
        }
        names
    }

    /// The name on the wire; also of a tool that is no longer offered but appears in the history.
    pub(crate) fn to_wire(&self, name: &str) -> String {
        self.wire_names.get(name).cloned().unwrap_or_else(|| sanitize_name(name))
    }

    /// Satchel's name of a tool that the model called. A name that the model made up stays unchanged.
    pub(crate) fn restore_name(&self, name: String) -> String {
        self.original_names.get(&name).cloned().unwrap_or(name)
    }
}

/// The nearest name of letters, digits, `_` and `-` that begins with a letter or `_` (Gemini).
fn sanitize_name(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut wire_name: String =
        name.chars().map(|c| if is_allowed(c) { c } else { '_' }).take(MAX_NAME_CHARS).collect();
    if !wire_name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        wire_name = format!("t_{wire_name}").chars().take(MAX_NAME_CHARS).collect();
    }
    if RESERVED.contains(&wire_name.as_str()) {
        wire_name.push('_');
    }
    wire_name
}

#[cfg(test)]
mod tests {
    use satchel_ports::SafetyTier;

    use super::*;

    fn tools(names: &[&str]) -> Vec<ToolSpec> {
        let tool = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: serde_json::json!({"type": "object"}),
            tier: SafetyTier::ReadOnly,
            time_limit: None,
        };
        names.iter().map(tool).collect()
    }

    #[test]
    fn wire_names_are_valid_unique_and_reversible() {
        let long = "x".repeat(200);
        let longer = format!("{long}y");
        let given = [
            "attachment.save_all",
            "attachment_save_all",
            "attachment/save_all",
            "file_read",
            "web.search",
            "web_search",
            "codeExecution",
            "7zip",
            "-",
            "übersetze",
            "",
            &long,
            &longer,
        ];
        let names = ToolNames::new(&tools(&given));
        let mut seen = std::collections::HashSet::new();
        for name in given {
            let wire = names.to_wire(name);
            assert!((1..=64).contains(&wire.len()), "{wire}");
            assert!(wire.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{wire}");
            assert!(wire.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'), "{wire}");
            assert!(!RESERVED.contains(&wire.as_str()), "{wire} is a tool of the provider's own");
            assert!(seen.insert(wire.clone()), "{wire} stands for two tools");
            assert_eq!(names.restore_name(wire), name);
        }
        assert_eq!(names.to_wire("attachment_save_all"), "attachment_save_all", "a fit name stays, whatever its place");
        assert_eq!(names.to_wire("file_read"), "file_read");
    }

    #[test]
    fn unknown_tool_name_stays_unchanged() {
        let names = ToolNames::new(&tools(&["file_read"]));
        assert_eq!(names.restore_name("make_coffee".into()), "make_coffee");
        assert_eq!(names.to_wire("gone.tool"), "gone_tool", "a tool of the history that is not offered any more");
    }
}
