//! One pass over the tokens of a script, which collects the edits.

use std::{borrow::Cow, ops::Range};

use starlark_syntax::{
    codemap::CodeMap,
    lexer::{FStringQuote, Lexer, Token},
};

use super::{
    TextEdit,
    spec::{self, SpecSpan},
};
use crate::{builtins::RETURN, evaluate::dialect};

/// How often the pass restarts after a format spec that the lexer can't skip, each time with that spec hidden.
const MAX_HIDDEN_SPECS: usize = 100;

/// The result of the pass.
pub(super) struct PassResult<'a> {
    /// The script with a space for every tab that is not in a string.
    pub(super) base: Cow<'a, str>,
    /// The edits.
    pub(super) edits: Vec<TextEdit>,
}

/// Runs the pass over a script.
pub(super) fn run_pass(script: &str) -> PassResult<'_> {
    let mut masked = script.replace('\t', " ");
    let mut edits = Vec::new();
    let mut hides_left = MAX_HIDDEN_SPECS;
    loop {
        let mut pass = RewritePass { is_statement_start: true, can_hide: hides_left > 0, ..RewritePass::default() };
        let Some(hidden) = pass.run(&masked) else {
            edits.append(&mut pass.edits);
            return PassResult { base: replace_tabs(script, &pass.strings), edits };
        };
        masked.replace_range(hidden.range.clone(), &" ".repeat(hidden.range.len()));
        edits.extend(hidden.edits);
        hides_left = hides_left.saturating_sub(1);
    }
}

/// Replaces every tab outside of these ranges by a space.
fn replace_tabs<'a>(script: &'a str, strings: &[Range<usize>]) -> Cow<'a, str> {
    if !script.contains('\t') {
        return Cow::Borrowed(script);
    }
    let mut base = String::with_capacity(script.len());
    let mut copied = 0;
    for string in strings {
        base.push_str(&script[copied..string.start].replace('\t', " "));
        base.push_str(&script[string.clone()]);
        copied = string.end;
    }
    base.push_str(&script[copied..].replace('\t', " "));
    Cow::Owned(base)
}

/// An open expression in an f-string.
struct Replacement {
    start: usize,
    /// How many brackets are open in it.
    brackets: usize,
    /// Where the `!` of its conversion is.
    conversion: Option<usize>,
}

/// A function that the pass is in.
enum FunctionScope {
    Head,
    /// After the colon of its head.
    Colon,
    /// In a body that is all that is indented deeper than this.
    Block(usize),
    /// In a body that is the rest of the line.
    Line,
}

/// A format spec that is hidden from the lexer from now on.
struct HiddenSpec {
    edits: Vec<TextEdit>,
    range: Range<usize>,
}

/// The state of the pass.
#[derive(Default)]
struct RewritePass {
    edits: Vec<TextEdit>,
    /// The ranges of strings, which keep their tabs.
    strings: Vec<Range<usize>>,
    can_hide: bool,
    indent: usize,
    functions: Vec<FunctionScope>,
    brackets: usize,
    /// How many brackets were open at each `lambda` whose colon is still to come.
    lambdas: Vec<usize>,
    quotes: Vec<FStringQuote>,
    replacements: Vec<Replacement>,
    is_statement_start: bool,
    /// In a `return` outside of a function: whether a value has been seen.
    open_return: Option<bool>,
    /// Where the last token ended.
    last_token_end: usize,
    /// Where the format spec ends that the pass is in.
    spec_end: usize,
    /// How many lexer errors it may still contain: at most one per byte, since the lexer may repeat one for ever.
    spec_errors: usize,
}

impl RewritePass {
    /// Visits the tokens up to the end or the first error, which the parser will find too.
    fn run(&mut self, text: &str) -> Option<HiddenSpec> {
        for token in Lexer::new(text, &dialect(), CodeMap::new("script".to_owned(), text.to_owned())) {
            match token {
                Ok((start, token, end)) => {
                    let in_spec = start < self.spec_end && !matches!(token, Token::FStringExprEnd);
                    if in_spec {
                        continue;
                    }
                    if let Some(hidden) = self.visit_token(text, start, &token, end) {
                        return Some(hidden);
                    }
                }
                Err(_) if self.last_token_end < self.spec_end && self.spec_errors > 0 => self.spec_errors -= 1,
                Err(_) => break,
            }
        }
        self.close_return();
        None
    }

    fn visit_token(&mut self, text: &str, start: usize, token: &Token, end: usize) -> Option<HiddenSpec> {
        match token {
            Token::Comment(_) => return None,
            Token::Indent => {
                self.indent += 1;
                return None;
            }
            Token::Dedent => {
                self.indent = self.indent.saturating_sub(1);
                let indent = self.indent;
                self.functions.retain(|function| !matches!(function, FunctionScope::Block(outer) if *outer >= indent));
                return None;
            }
            Token::Newline | Token::Semicolon => {
                self.close_return();
                self.is_statement_start = true;
                self.lambdas.clear();
                if matches!(token, Token::Newline) {
                    self.on_line_end();
                }
                return None;
            }
            _ => {}
        }
        let starts_statement = std::mem::replace(&mut self.is_statement_start, false);
        if let Some(has_value) = &mut self.open_return {
            *has_value = true;
        }
        if let Some(function @ FunctionScope::Colon) = self.functions.last_mut() {
            *function = FunctionScope::Line;
        }
        self.last_token_end = end;
        match token {
            Token::Return if starts_statement && self.functions.is_empty() => {
                self.push_edit(start..end, format!("{RETURN}(("), true);
                self.open_return = Some(false);
            }
            Token::Def => self.functions.push(FunctionScope::Head),
            Token::Lambda => self.lambdas.push(self.brackets),
            Token::OpeningRound | Token::OpeningSquare | Token::OpeningCurly => self.on_bracket(1),
            Token::ClosingRound | Token::ClosingSquare | Token::ClosingCurly => self.on_bracket(-1),
            Token::String(_) | Token::Bytes(_) | Token::FStringText(_) => self.strings.push(start..end),
            Token::FStringStart(quote) => self.quotes.push(*quote),
            Token::FStringEnd => {
                self.quotes.pop();
            }
            Token::FStringExprStart => {
                self.replacements.push(Replacement { start: end, brackets: 0, conversion: None });
            }
            Token::FStringExprEnd => {
                self.replacements.pop();
            }
            Token::FStringBang => {
                if let Some(replacement) = self.replacements.last_mut() {
                    replacement.conversion = Some(start);
                }
            }
            Token::Colon => return self.on_colon(text, start),
            _ => {}
        }
        None
    }

    /// A colon ends the head of a `lambda`, starts a format spec or a slice, or ends the head of a block.
    fn on_colon(&mut self, text: &str, offset: usize) -> Option<HiddenSpec> {
        if self.lambdas.last() == Some(&self.brackets) {
            self.lambdas.pop();
            return None;
        }
        if let Some(replacement) = self.replacements.last() {
            return if replacement.brackets == 0 { self.on_spec(text, offset) } else { None };
        }
        if self.brackets == 0 {
            self.is_statement_start = true;
            if let Some(function @ FunctionScope::Head) = self.functions.last_mut() {
                *function = FunctionScope::Colon;
            }
        }
        None
    }

    /// Handles a colon at the top level of an f-string's expression: the text up to the brace is its format spec.
    fn on_spec(&mut self, text: &str, colon: usize) -> Option<HiddenSpec> {
        let quote = self.quotes.last()?;
        let replacement = self.replacements.last()?;
        let end = spec::find_spec_end(text, colon + 1, *quote)?;
        let spec = SpecSpan { start: replacement.start, conversion: replacement.conversion, colon, end };
        let edits = spec.to_edits(text)?;
        if spec::can_be_lexed(&text[colon + 1..end]) {
            self.edits.extend(edits);
            self.spec_end = end;
            self.spec_errors = end - colon;
            return None;
        }
        self.can_hide.then_some(HiddenSpec { edits, range: colon..end })
    }

    fn on_bracket(&mut self, delta: isize) {
        self.brackets = self.brackets.saturating_add_signed(delta);
        if let Some(replacement) = self.replacements.last_mut() {
            replacement.brackets = replacement.brackets.saturating_add_signed(delta);
        }
    }

    fn on_line_end(&mut self) {
        match self.functions.last_mut() {
            Some(FunctionScope::Line | FunctionScope::Head) => {
                self.functions.pop();
            }
            Some(function @ FunctionScope::Colon) => *function = FunctionScope::Block(self.indent),
            Some(FunctionScope::Block(_)) | None => {}
        }
    }

    fn close_return(&mut self) {
        if let Some(has_value) = self.open_return.take() {
            let closing = if has_value { "))" } else { "None))" };
            self.push_edit(self.last_token_end..self.last_token_end, closing.to_owned(), true);
        }
    }

    fn push_edit(&mut self, replaced: Range<usize>, inserted: String, is_return: bool) {
        self.edits.push(TextEdit { start: replaced.start, removed_bytes: replaced.len(), inserted, is_return });
    }
}
