//! Format specs in f-strings, such as `{price:>{width}.2f}`, as calls of a built-in function.

use starlark_syntax::lexer::FStringQuote;

use super::TextEdit;
use crate::builtins::FORMAT;

/// The offsets of a replacement with a format spec.
pub(super) struct SpecSpan {
    /// The start of its expression.
    pub(super) start: usize,
    /// The `!` of its conversion.
    pub(super) conversion: Option<usize>,
    /// The colon before its spec.
    pub(super) colon: usize,
    /// The brace that ends it.
    pub(super) end: usize,
}

/// Finds the brace that ends a spec; `None` when the string or its line ends first.
pub(super) fn find_spec_end(text: &str, from: usize, quote: FStringQuote) -> Option<usize> {
    let ends_string = match quote {
        FStringQuote::Single => Some('\''),
        FStringQuote::Double => Some('"'),
        FStringQuote::TripleSingle | FStringQuote::TripleDouble => None,
    };
    let mut open = 0_usize;
    for (at, character) in text[from..].char_indices() {
        match character {
            '}' if open == 0 => return Some(from + at),
            '}' => open -= 1,
            '{' => open += 1,
            '\n' if ends_string.is_some() => return None,
            _ if Some(character) == ends_string => return None,
            _ => {}
        }
    }
    None
}

/// Whether the lexer finds the end of a replacement with this spec, although it lexes it as part of the expression.
pub(super) fn can_be_lexed(spec: &str) -> bool {
    !spec.contains(|character: char| "#'\"()[]{}\\".contains(character) || character.is_control())
}

impl SpecSpan {
    /// The edits that turn it into a call; `None` for an unknown conversion, which the parser will report.
    pub(super) fn to_edits(&self, text: &str) -> Option<Vec<TextEdit>> {
        let conversion = match self.conversion {
            None => None,
            Some(offset) => match text.get(offset + 1..self.colon)?.trim() {
                "r" => Some("repr("),
                "s" => Some("str("),
                _ => return None,
            },
        };
        let mut edits = vec![text_edit(self.start, self.start, format!("{FORMAT}({}", conversion.unwrap_or_default()))];
        let closing_paren = if conversion.is_some() { ")" } else { "" };
        let mut replaced_from = self.conversion.unwrap_or(self.colon);
        let mut separator = format!("{closing_paren},");
        let mut position = self.colon + 1;
        // The expressions in the spec stay where they are, so that errors in them keep their positions.
        while let Some(opening) = text[position..self.end].find('{').map(|at| position + at) {
            let closing = matching_brace(text, opening + 1, self.end)?;
            let literal = quote_literal(&text[position..opening]);
            edits.push(text_edit(replaced_from, opening + 1, format!("{separator}{literal}+str(")));
            separator = ")+".to_owned();
            (replaced_from, position) = (closing, closing + 1);
        }
        let literal = quote_literal(&text[position..self.end]);
        edits.push(text_edit(replaced_from, self.end, format!("{separator}{literal})")));
        Some(edits)
    }
}

fn matching_brace(text: &str, from: usize, to: usize) -> Option<usize> {
    let mut open = 0_usize;
    for (at, byte) in text.as_bytes()[from..to].iter().enumerate() {
        match byte {
            b'}' if open == 0 => return Some(from + at),
            b'}' => open -= 1,
            b'{' => open += 1,
            _ => {}
        }
    }
    None
}

fn text_edit(from: usize, to: usize, inserted: String) -> TextEdit {
    TextEdit { start: from, removed_bytes: to - from, inserted, is_return: false }
}

/// Quotes the text as a Starlark string on one line.
fn quote_literal(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
