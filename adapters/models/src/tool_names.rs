//! The names of tools as providers take them, there and back.

use std::collections::HashMap;

use satchel_ports::ToolSpec;

/// The longest name that every provider takes (OpenAI and Gemini: 64), with room to tell equal ones apart.
const LONGEST: usize = 60;

/// Names that providers, or the vendor's client on the way to them, take as tools of their own.
const RESERVED: [&str; 5] = ["web_search", "googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext"];

/// What the tools of one request are called on the wire. No two are called the same.
#[derive(Debug, Default)]
pub(crate) struct ToolNames {
    outward: HashMap<String, String>,
    inward: HashMap<String, String>,
}

impl ToolNames {
    /// Names the tools. A name that is fit as it is stays; the others are changed as little as it takes.
    pub(crate) fn new(tools: &[ToolSpec]) -> Self {
        let mut names = Self::default();
        let (fit, unfit): (Vec<_>, Vec<_>) = tools.iter().partition(|tool| sanitize_name(&tool.name) == tool.name);
        for tool in fit.into_iter().chain(unfit) {
            let stem = sanitize_name(&tool.name);
            let numbered = (2..).map(|number| format!("{stem}_{number}"));
            let free = |name: &String| !names.inward.contains_key(name);
            let name = std::iter::once(stem.clone()).chain(numbered).find(free).expect("numbers don't run out");
            names.inward.insert(name.clone(), tool.name.clone());
            names.outward.insert(tool.name.clone(), name);
        }
        names
    }

    /// The name on the wire; also of a tool that is not offered any more, but stands in the history.
    pub(crate) fn to_wire(&self, name: &str) -> String {
        self.outward.get(name).cloned().unwrap_or_else(|| sanitize_name(name))
    }

    /// Satchel's name of what a model asked for. What the model made up stays as it is.
    pub(crate) fn restore_name(&self, name: String) -> String {
        self.inward.get(&name).cloned().unwrap_or(name)
    }
}

/// The nearest name of letters, digits, `_` and `-` that begins with a letter or `_` (Gemini).
fn sanitize_name(name: &str) -> String {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut fitted: String = name.chars().map(|c| if is_fit(c) { c } else { '_' }).take(LONGEST).collect();
    if !fitted.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        fitted = format!("t_{fitted}").chars().take(LONGEST).collect();
    }
    if RESERVED.contains(&fitted.as_str()) {
        fitted.push('_');
    }
    fitted
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
