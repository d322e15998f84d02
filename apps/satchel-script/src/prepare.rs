//! Prepares a script for the interpreter, and maps every position in the result back to the script.
//!
//! Scripts are written like the body of a Python function. Starlark doesn't accept three things of that: `return`
//! outside of a function, format specs in f-strings, and tabs. The first two become calls of built-in functions by
//! small edits within their lines; nothing is re-indented. A tab becomes one space, which keeps every offset and, if
//! each block is indented consistently, the indentation.

mod pass;
mod spec;

use std::borrow::Cow;

/// A script as the interpreter gets it.
pub(crate) struct PreparedScript<'a> {
    /// The text for the interpreter.
    pub(crate) text: String,
    /// The text before the edits: the script without its tabs.
    base: Cow<'a, str>,
    edits: Vec<TextEdit>,
}

/// A change of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TextEdit {
    /// The offset in the script.
    start: usize,
    /// How many bytes are removed there.
    removed_bytes: usize,
    /// The text that replaces them.
    inserted: String,
    /// Whether it rewrites a `return`.
    is_return: bool,
}

/// Prepares a script; invalid text, too.
pub(crate) fn prepare_script(script: &str) -> PreparedScript<'_> {
    let result = pass::run_pass(script);
    PreparedScript::new(result.base, result.edits)
}

impl<'a> PreparedScript<'a> {
    fn new(base: Cow<'a, str>, mut edits: Vec<TextEdit>) -> Self {
        edits.sort_by_key(|edit| edit.start);
        let mut text = String::with_capacity(base.len() + edits.iter().map(|edit| edit.inserted.len()).sum::<usize>());
        let mut copied = 0;
        for edit in &edits {
            text.push_str(&base[copied..edit.start]);
            text.push_str(&edit.inserted);
            copied = edit.start + edit.removed_bytes;
        }
        text.push_str(&base[copied..]);
        Self { text, base, edits }
    }

    /// The same with every `return` as written.
    pub(crate) fn without_returns(&self) -> Self {
        let edits = self.edits.iter().filter(|edit| !edit.is_return).cloned().collect();
        Self::new(self.base.clone(), edits)
    }

    /// Maps an offset in the text to one in the script. Inserted text maps to the position of its edit.
    pub(crate) fn original_offset(&self, offset: usize) -> usize {
        let (mut output_offset, mut script_offset) = (0, 0);
        for edit in &self.edits {
            let start = output_offset + (edit.start - script_offset);
            if offset < start {
                break;
            }
            let end = start + edit.inserted.len();
            if offset < end {
                return edit.start + (offset - start).min(edit.removed_bytes);
            }
            (output_offset, script_offset) = (end, edit.start + edit.removed_bytes);
        }
        (script_offset + (offset - output_offset)).min(self.base.len())
    }
}

#[cfg(test)]
mod tests;
