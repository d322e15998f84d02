//! Whether a text defines links or footnotes, which may be used anywhere in it.

/// Whether a line might define one: a label in brackets at its beginning, and a colon.
pub(super) fn has_definitions(text: &str) -> bool {
    if !text.contains("]:") {
        return false;
    }
    let container = |byte: &u8| matches!(byte, b' ' | b'\t' | b'>' | b'-' | b'+' | b'*' | b'.' | b')' | b'0'..=b'9');
    let mut line_start = 0;
    while let Some(line) = text.as_bytes().get(line_start..) {
        let inside = line.iter().position(|byte| !container(byte)).unwrap_or(line.len());
        if let Some(label) = line[inside..].strip_prefix(b"[") {
            let mut escaped = false;
            let end = label.iter().position(|byte| {
                let bracket = !escaped && matches!(byte, b'[' | b']');
                escaped = !escaped && *byte == b'\\';
                bracket
            });
            if end.is_some_and(|end| label[end..].starts_with(b"]:")) {
                return true;
            }
        }
        let Some(newline) = line.iter().position(|byte| *byte == b'\n') else { break };
        line_start += newline + 1;
    }
    false
}
