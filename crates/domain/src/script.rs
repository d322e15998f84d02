//! Scripts in messages, and the texts of their results.

use serde_json::{Map, Value};

/// The tool that runs scripts.
pub const SCRIPT_TOOL: &str = "execute_script";

/// The longest script, in bytes.
pub const MAX_SCRIPT_BYTES: usize = 1 << 20;

/// What stands before a script's value, where that is no list and no dict.
pub const RESULT_PREFIX: &str = "Script result: ";

/// The result of a script without a value.
pub const NO_VALUE_TEXT: &str = "Script executed successfully with no return value.";

/// The label of a script's block.
const LABEL: &str = "starlark";

/// The script that a message is: one fenced block labelled `starlark`, with nothing before and behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptMessage<'a> {
    /// The script.
    pub source: &'a str,
    /// The variables that it finds set, by name; a JSON object behind the label.
    pub globals: Map<String, Value>,
}

impl<'a> ScriptMessage<'a> {
    /// Reads the script that a message is; `None` if it is none.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let (opening_line, rest) = text.trim().split_once('\n')?;
        let fence = opening_line.find(|c| c != '`').filter(|length| *length >= 3)?;
        let info = opening_line[fence..].trim();
        let (label, globals) = info.split_once(char::is_whitespace).unwrap_or((info, ""));
        if !label.eq_ignore_ascii_case(LABEL) {
            return None;
        }
        let globals = if globals.is_empty() { Map::new() } else { serde_json::from_str(globals).ok()? };
        let mut end = 0;
        for line in rest.split_inclusive('\n') {
            let line_end = end + line.len();
            let ticks = line.trim();
            if ticks.len() >= fence && ticks.bytes().all(|byte| byte == b'`') {
                return (line_end == rest.len()).then(|| Self { source: &rest[..end], globals });
            }
            end = line_end;
        }
        None
    }

    /// Writes it as a message.
    #[must_use]
    pub fn to_message(&self) -> String {
        if self.globals.is_empty() {
            return fenced_block(LABEL, self.source);
        }
        // A fence of backticks allows none behind its label, and JSON has them in texts only.
        let globals = Value::Object(self.globals.clone()).to_string().replace('`', "\\u0060");
        fenced_block(&format!("{LABEL} {globals}"), self.source)
    }
}

/// The source of the script that a message is.
#[must_use]
pub fn parse_script_message(text: &str) -> Option<&str> {
    ScriptMessage::parse(text).map(|script| script.source)
}

/// A script without variables as a message.
#[must_use]
pub fn to_script_message(script: &str) -> String {
    ScriptMessage { source: script, globals: Map::new() }.to_message()
}

/// Code as a labelled block, whose fence nothing in it can close.
#[must_use]
pub fn fenced_block(label: &str, code: &str) -> String {
    let longest_run = code.lines().map(|line| line.trim().bytes().take_while(|byte| *byte == b'`').count()).max();
    let fence = "`".repeat(longest_run.unwrap_or(0).max(2) + 1);
    let end = if code.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{label}\n{code}{end}{fence}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_lone_labelled_block_is_a_script() {
        for (message, script) in [
            ("```starlark\nreturn 1\n```", Some("return 1\n")),
            ("  ```` Starlark \nx = \"\"\"\n```\n\"\"\"\n````\n", Some("x = \"\"\"\n```\n\"\"\"\n")),
            ("```starlark\r\nreturn 1\r\n```", Some("return 1\r\n")),
            ("```starlark\n```", Some("")),
            ("```python\nreturn 1\n```", None),
            ("```starlarkish\nreturn 1\n```", None),
            ("```\nreturn 1\n```", None),
            ("run this: ```starlark\nreturn 1\n```", None),
            ("please\n```starlark\nreturn 1\n```", None),
            ("```starlark\nreturn 1\n```\nand tell me", None),
            ("```starlark\nreturn 1\n```\n```starlark\nreturn 2\n```", None),
            ("```starlark\nreturn 1", None),
            ("``starlark\nreturn 1\n``", None),
            ("```starlark return 1```", None),
            ("```starlark {\"a\": 1}\nreturn a\n```", Some("return a\n")),
            ("```starlark [1]\nreturn 1\n```", None),
            ("```starlark {\"a\": 1\nreturn a\n```", None),
            ("```starlark return 1\n```", None),
            ("", None),
        ] {
            assert_eq!(parse_script_message(message), script, "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_fenced_is_found_again(script in "[`a-z\n \t\"]{0,60}") {
            let expected = if script.ends_with('\n') { script.clone() } else { format!("{script}\n") };
            let message = to_script_message(&script);
            prop_assert_eq!(parse_script_message(&message), Some(expected.as_str()));
        }

        #[test]
        fn globals_come_back_with_their_script(
            globals in prop::collection::btree_map("\\PC{0,9}", "[\\PC\n]{0,20}", 0..3),
        ) {
            let globals: Map<String, Value> = globals.into_iter().map(|(name, text)| (name, text.into())).collect();
            let script = ScriptMessage { source: "return 1\n", globals };
            let message = script.to_message();
            prop_assert_eq!(ScriptMessage::parse(&message), Some(script.clone()));
            prop_assert_eq!(message.lines().next().map(|line| line.trim_start_matches('`').contains('`')), Some(false));
        }

        #[test]
        fn any_message_can_be_looked_at(message in "\\PC*|[`\n\rstarlk é]{0,40}") {
            let _ = parse_script_message(&message);
        }
    }
}
