//! The excerpt that a search shows of a text, around the first word that was found.

use satchel_ports::ledger::ExcerptPiece;

/// What stands around a word that was found: characters that no text has a use for.
pub const MATCH_START: char = '\u{e000}';
pub const MATCH_END: char = '\u{e001}';

/// How many characters an excerpt has before the first word that was found, and from it on.
const EXCERPT_BEFORE: usize = 50;
const EXCERPT_AFTER: usize = 150;

/// Cuts what stands around the first word that was found, and splits it at the marks.
#[must_use]
pub fn excerpt(marked: &str) -> Vec<ExcerptPiece> {
    let first = marked.find(MATCH_START).unwrap_or(0);
    let before = marked[..first].char_indices().rev().nth(EXCERPT_BEFORE - 1).map_or(0, |(at, _)| at);
    let behind = marked[first..].char_indices().nth(EXCERPT_AFTER).map_or(marked.len(), |(at, _)| first + at);
    let mut pieces = Vec::new();
    let mut push = |text: String, matched| pieces.push(ExcerptPiece { text, matched });
    if before > 0 {
        push("…".to_owned(), false);
    }
    for (index, marked) in marked[before..behind].split(MATCH_START).enumerate() {
        let (found, rest) = match index {
            0 => ("", marked),
            _ => marked.split_once(MATCH_END).unwrap_or((marked, "")),
        };
        push(found.to_owned(), true);
        push(rest.to_owned(), false);
    }
    if behind < marked.len() {
        push("…".to_owned(), false);
    }
    pieces.retain(|piece| !piece.text.is_empty());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpt_is_split_at_matches() {
        let pieces = |marked: &str| -> Vec<_> {
            let pieces = excerpt(marked).into_iter();
            pieces.map(|piece| if piece.matched { format!("[{}]", piece.text) } else { piece.text }).collect()
        };
        assert_eq!(pieces("the \u{e000}rent\u{e001} of \u{e000}May\u{e001}"), ["the ", "[rent]", " of ", "[May]"]);
        assert_eq!(pieces("\u{e000}a\u{e001}"), ["[a]"]);
        let long = format!("{}\u{e000}rent\u{e001}{}", "ä".repeat(60), "ö".repeat(200));
        let expected = ["…".to_owned(), "ä".repeat(50), "[rent]".to_owned(), "ö".repeat(144), "…".to_owned()];
        assert_eq!(pieces(&long), expected, "what is far from the first word is cut");
    }
}
