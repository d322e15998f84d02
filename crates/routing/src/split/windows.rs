//! Reads a long Markdown text in windows: the time and the memory for reading then grow with the text and no faster.
//!
//! A window ends at a blank line before a line that isn't indented. There every paragraph, list and quote is closed,
//! and only a fence or HTML might go on, in which case the next window begins with it.

use super::structure::MarkdownStructure;

/// Reads a text in windows of about this many bytes.
pub(super) fn parse_in_windows(text: &str, window_bytes: usize) -> MarkdownStructure {
    let mut structure = MarkdownStructure::default();
    // A link may be defined anywhere behind its use, and lines may end in more ways than one: a text with either is
    // read as a whole.
    let defines_links = may_define_links(text);
    let is_single_window = text.len() <= window_bytes || text.contains('\r') || defines_links;
    let window_bytes = if is_single_window { text.len() } else { window_bytes };
    if !text.starts_with(char::is_whitespace) {
        structure.seams.push(0);
    }
    let (mut start, mut size) = (0, window_bytes);
    while start < text.len() {
        let end = find_boundary(text, start.saturating_add(size));
        match structure.parse_passage(text, start..end) {
            Some(tail) if end < text.len() => {
                structure.discard_tail(&tail);
                let line = text[..tail.at].rfind('\n').map_or(0, |newline| newline + 1);
                // A block longer than the window is read again in ever longer ones, most of it once.
                size = if line > start { window_bytes } else { size.saturating_mul(4) };
                start = line;
            }
            _ => (start, size) = (end, window_bytes),
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
fn find_boundary(text: &str, from: usize) -> usize {
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
