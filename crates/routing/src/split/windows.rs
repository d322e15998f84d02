//! Reads a long Markdown text in windows: the time and the memory for reading then grow with the text and no faster.
//!
//! A window ends at a blank line before a line that isn't indented. There every paragraph, list and quote is closed, and
//! only a fence or HTML might go on, in which case the next window begins with it.

use super::structure::MarkdownStructure;

/// Reads a text in windows of about this many bytes.
pub(super) fn read(text: &str, window: usize) -> MarkdownStructure {
    let mut structure = MarkdownStructure::default();
    // A link may be defined anywhere behind its use, and lines may end in more ways than one: a text with either is read
    // as a whole.
    let defines_links = may_define_links(text);
    let whole = text.len() <= window || text.contains('\r') || defines_links;
    let window = if whole { text.len() } else { window };
    if !text.starts_with(char::is_whitespace) {
        structure.seams.push(0);
    }
    let (mut start, mut size) = (0, window);
    while start < text.len() {
        let end = boundary(text, start.saturating_add(size));
        match structure.read(text, start..end) {
            Some(open) if end < text.len() => {
                structure.discard_tail(&open);
                let line = text[..open.at].rfind('\n').map_or(0, |newline| newline + 1);
                // A block longer than the window is read again in ever longer ones, most of it once.
                size = if line > start { window } else { size.saturating_mul(4) };
                start = line;
            }
            _ => (start, size) = (end, window),
        }
    }
    structure.seams.push(text.len());
    if defines_links {
        // A chunk without the definitions is read otherwise.
        structure.seams.clear();
    }
    structure
}

/// The first place at or behind `from` at which a window may end.
fn boundary(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes().get(from..).unwrap_or_default();
    let is_boundary = |bytes: &[u8]| bytes[0] == b'\n' && bytes[1] == b'\n' && !bytes[2].is_ascii_whitespace();
    bytes.windows(3).position(is_boundary).map_or(text.len(), |newlines| from + newlines + 2)
}

/// Whether a line might define a link: a label in brackets at its beginning, and a colon.
fn may_define_links(text: &str) -> bool {
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
        let Some(newline) = text[line_start..].find('\n') else { break };
        line_start += newline + 1;
    }
    false
}
