//! Format specs in f-strings, such as `{price:>{width}.2f}`, as calls of a built-in function.

use starlark_syntax::lexer::FStringQuote;

use super::TextEdit;
use crate::builtins::FORMAT;

/// Where the parts of a replacement with a format spec are.
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

/// The brace that ends a spec which begins here; `None` when the string or its line ends before it does.
pub(super) fn find_end(text: &str, from: usize, quote: FStringQuote) -> Option<usize> {
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

/// Whether the lexer finds the end of a replacement with this spec, though it takes it for a part of the expression.
pub(super) fn can_be_lexed(spec: &str) -> bool {
    !spec.contains(|character: char| "#'\"()[]{}\\".contains(character) || character.is_control())
}

impl SpecSpan {
    /// What makes a call of it; `None` for a conversion that doesn't exist, which the parser will name.
    pub(super) fn edits(&self, text: &str) -> Option<Vec<TextEdit>> {
        let conversion = match self.conversion {
            None => None,
            Some(at) => match text.get(at + 1..self.colon)?.trim() {
                "r" => Some("repr("),
                "s" => Some("str("),
                _ => return None,
            },
        };
        let mut edits = vec![edit(self.start, self.start, format!("{FORMAT}({}", conversion.unwrap_or_default()))];
        let closed = if conversion.is_some() { ")" } else { "" };
        let mut replaced_from = self.conversion.unwrap_or(self.colon);
        let mut joined = format!("{closed},");
        let mut from = self.colon + 1;
        // The expressions in the spec stay where they are, so that an error in them has its place.
        while let Some(opening) = text[from..self.end].find('{').map(|at| from + at) {
            let closing = matching_brace(text, opening + 1, self.end)?;
            let literal = skip_quoted(&text[from..opening]);
            edits.push(edit(replaced_from, opening + 1, format!("{joined}{literal}+str(")));
            joined = ")+".to_owned();
            (replaced_from, from) = (closing, closing + 1);
        }
        let literal = skip_quoted(&text[from..self.end]);
        edits.push(edit(replaced_from, self.end, format!("{joined}{literal})")));
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

fn edit(from: usize, to: usize, inserted: String) -> TextEdit {
    TextEdit { at: from, removed: to - from, inserted, returns: false }
}

/// The text as a string of Starlark on one line.
fn skip_quoted(text: &str) -> String {
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
