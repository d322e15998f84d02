//! One pass over the tokens of a script, which finds what has to be edited.

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

/// How often the pass starts anew for a format spec that the lexer can't read past, each time with that spec hidden.
const MOST_HIDDEN: usize = 100;

/// What the pass found.
pub(super) struct PassResult<'a> {
    /// The script with a space for every tab that is not in a string.
    pub(super) base: Cow<'a, str>,
    /// What has to be edited in it.
    pub(super) edits: Vec<TextEdit>,
}

/// Goes over a script.
pub(super) fn run_pass(script: &str) -> PassResult<'_> {
    let mut lexed = script.replace('\t', " ");
    let mut edits = Vec::new();
    let mut may_hide = MOST_HIDDEN;
    loop {
        let mut pass = RewritePass { starts_statement: true, may_hide: may_hide > 0, ..RewritePass::default() };
        let Some(hidden) = pass.run(&lexed) else {
            edits.append(&mut pass.edits);
            return PassResult { base: untabbed(script, &pass.strings), edits };
        };
        lexed.replace_range(hidden.range.clone(), &" ".repeat(hidden.range.len()));
        edits.extend(hidden.edits);
        may_hide = may_hide.saturating_sub(1);
    }
}

/// The script with a space for every tab that is in none of these ranges.
fn untabbed<'a>(script: &'a str, strings: &[Range<usize>]) -> Cow<'a, str> {
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

/// An expression in an f-string that has not ended yet.
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

/// Where the pass is, and what it has found so far.
#[derive(Default)]
struct RewritePass {
    edits: Vec<TextEdit>,
    /// Where text stands that keeps its tabs.
    strings: Vec<Range<usize>>,
    may_hide: bool,
    indent: usize,
    functions: Vec<FunctionScope>,
    brackets: usize,
    /// How many brackets were open at each `lambda` whose colon is still to come.
    lambdas: Vec<usize>,
    quotes: Vec<FStringQuote>,
    replacements: Vec<Replacement>,
    starts_statement: bool,
    /// In a `return` outside of a function: whether a value has been seen.
    returning: Option<bool>,
    /// Where the last token ended.
    end: usize,
    /// Where the format spec ends that the pass is in.
    spec_end: usize,
    /// How many errors of the lexer it may still contain: at most one a byte, and the lexer may repeat one for ever.
    spec_errors: usize,
}

impl RewritePass {
    /// Goes over the tokens up to the end or the first error, which the parser will find too.
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
                Err(_) if self.end < self.spec_end && self.spec_errors > 0 => self.spec_errors -= 1,
                Err(_) => break,
            }
        }
        self.end_return();
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
                self.end_return();
                self.starts_statement = true;
                self.lambdas.clear();
                if matches!(token, Token::Newline) {
                    self.end_line();
                }
                return None;
            }
            _ => {}
        }
        let starts_statement = std::mem::replace(&mut self.starts_statement, false);
        if let Some(has_value) = &mut self.returning {
            *has_value = true;
        }
        if let Some(function @ FunctionScope::Colon) = self.functions.last_mut() {
            *function = FunctionScope::Line;
        }
        self.end = end;
        match token {
            Token::Return if starts_statement && self.functions.is_empty() => {
                self.edit(start..end, format!("{RETURN}(("), true);
                self.returning = Some(false);
            }
            Token::Def => self.functions.push(FunctionScope::Head),
            Token::Lambda => self.lambdas.push(self.brackets),
            Token::OpeningRound | Token::OpeningSquare | Token::OpeningCurly => self.bracket(1),
            Token::ClosingRound | Token::ClosingSquare | Token::ClosingCurly => self.bracket(-1),
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
            Token::Colon => return self.colon(text, start),
            _ => {}
        }
        None
    }

    /// A colon ends the head of a `lambda`, begins a format spec or a slice, or ends the head of a block.
    fn colon(&mut self, text: &str, at: usize) -> Option<HiddenSpec> {
        if self.lambdas.last() == Some(&self.brackets) {
            self.lambdas.pop();
            return None;
        }
        if let Some(replacement) = self.replacements.last() {
            return if replacement.brackets == 0 { self.spec(text, at) } else { None };
        }
        if self.brackets == 0 {
            self.starts_statement = true;
            if let Some(function @ FunctionScope::Head) = self.functions.last_mut() {
                *function = FunctionScope::Colon;
            }
        }
        None
    }

    /// A colon at the top of an expression in an f-string: what follows it up to the brace is its format spec.
    fn spec(&mut self, text: &str, colon: usize) -> Option<HiddenSpec> {
        let quote = self.quotes.last()?;
        let replacement = self.replacements.last()?;
        let end = spec::find_end(text, colon + 1, *quote)?;
        let spec = SpecSpan { start: replacement.start, conversion: replacement.conversion, colon, end };
        let edits = spec.edits(text)?;
        if spec::can_be_lexed(&text[colon + 1..end]) {
            self.edits.extend(edits);
            self.spec_end = end;
            self.spec_errors = end - colon;
            return None;
        }
        self.may_hide.then_some(HiddenSpec { edits, range: colon..end })
    }

    fn bracket(&mut self, opened: isize) {
        self.brackets = self.brackets.saturating_add_signed(opened);
        if let Some(replacement) = self.replacements.last_mut() {
            replacement.brackets = replacement.brackets.saturating_add_signed(opened);
        }
    }

    fn end_line(&mut self) {
        match self.functions.last_mut() {
            Some(FunctionScope::Line | FunctionScope::Head) => {
                self.functions.pop();
            }
            Some(function @ FunctionScope::Colon) => *function = FunctionScope::Block(self.indent),
            Some(FunctionScope::Block(_)) | None => {}
        }
    }

    fn end_return(&mut self) {
        if let Some(has_value) = self.returning.take() {
            let closing = if has_value { "))" } else { "None))" };
            self.edit(self.end..self.end, closing.to_owned(), true);
        }
    }

    fn edit(&mut self, replaced: Range<usize>, inserted: String, returns: bool) {
        self.edits.push(TextEdit { at: replaced.start, removed: replaced.len(), inserted, returns });
    }
}
