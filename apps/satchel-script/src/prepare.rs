//! Prepares a script for the interpreter, and knows for every place in the result where it was in the script.
//!
//! Scripts are written as if they were the body of a function in Python. Three things of that Starlark doesn't take:
//! `return` outside of a function, format specs in f-strings, and tabs. The first two become calls of built-in
//! functions by small edits within their lines; nothing is re-indented. A tab becomes one space, which keeps every
//! offset and, in a script that indents each block in one way, the indentation.

mod pass;
mod spec;

use std::borrow::Cow;

/// A script as the interpreter gets it.
pub(crate) struct PreparedScript<'a> {
    /// What the interpreter gets.
    pub(crate) text: String,
    /// What was edited: the script but for its tabs.
    base: Cow<'a, str>,
    edits: Vec<TextEdit>,
}

/// A change of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TextEdit {
    /// Where, in the script.
    at: usize,
    /// How many bytes of it are left out.
    removed: usize,
    /// What stands there instead.
    inserted: String,
    /// Whether it is for a `return`.
    returns: bool,
}

/// Prepares a script, whether or not it is one.
pub(crate) fn prepare(script: &str) -> PreparedScript<'_> {
    let passed = pass::run_pass(script);
    PreparedScript::new(passed.base, passed.edits)
}

impl<'a> PreparedScript<'a> {
    fn new(base: Cow<'a, str>, mut edits: Vec<TextEdit>) -> Self {
        edits.sort_by_key(|edit| edit.at);
        let mut text = String::with_capacity(base.len() + edits.iter().map(|edit| edit.inserted.len()).sum::<usize>());
        let mut copied = 0;
        for edit in &edits {
            text.push_str(&base[copied..edit.at]);
            text.push_str(&edit.inserted);
            copied = edit.at + edit.removed;
        }
        text.push_str(&base[copied..]);
        Self { text, base, edits }
    }

    /// The same with every `return` as it was written.
    pub(crate) fn without_returns(&self) -> Self {
        let edits = self.edits.iter().filter(|edit| !edit.returns).cloned().collect();
        Self::new(self.base.clone(), edits)
    }

    /// Where in the script a place in the text was. What was inserted was where it was inserted.
    pub(crate) fn original(&self, at: usize) -> usize {
        let (mut written, mut read) = (0, 0);
        for edit in &self.edits {
            let start = written + (edit.at - read);
            if at < start {
                break;
            }
            let end = start + edit.inserted.len();
            if at < end {
                return edit.at + (at - start).min(edit.removed);
            }
            (written, read) = (end, edit.at + edit.removed);
        }
        (read + (at - written)).min(self.base.len())
    }
}

#[cfg(test)]
mod tests;
