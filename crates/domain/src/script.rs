//! Scripts in messages, and the texts of their results.

/// The tool that runs scripts.
pub const SCRIPT_TOOL: &str = "execute_script";

/// The longest script, in bytes.
pub const MAX_SCRIPT_BYTES: usize = 1 << 20;

/// What stands before a script's value, where that is no list and no dict.
pub const RESULT_PREFIX: &str = "Script result: ";

/// The result of a script without a value.
pub const NO_VALUE_TEXT: &str = "Script executed successfully with no return value.";

/// The script that a message is: one fenced block labelled `starlark`, with nothing before and behind it.
#[must_use]
pub fn parse_script_message(text: &str) -> Option<&str> {
    let (opening_line, rest) = text.trim().split_once('\n')?;
    let fence = opening_line.find(|c| c != '`').filter(|length| *length >= 3)?;
    if !opening_line[fence..].trim().eq_ignore_ascii_case("starlark") {
        return None;
    }
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        let line_end = end + line.len();
        let ticks = line.trim();
        if ticks.len() >= fence && ticks.bytes().all(|byte| byte == b'`') {
            return (line_end == rest.len()).then(|| &rest[..end]);
        }
        end = line_end;
    }
    None
}

/// A script as a message.
#[must_use]
pub fn to_script_message(script: &str) -> String {
    fenced_block("starlark", script)
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
        fn any_message_can_be_looked_at(message in "\\PC*|[`\n\rstarlk é]{0,40}") {
            let _ = parse_script_message(&message);
        }
    }
}
