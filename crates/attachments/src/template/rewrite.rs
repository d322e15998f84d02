//! Rewrites an expression for minijinja: paths become variables, so that leading dots and hyphens need no care there.

use super::{
    TemplateContext, TemplateError,
    context::ROOTS,
    engine,
    go_syntax::{self, is_control_word},
};

/// The words of minijinja that stand between two terms, or before one.
const OPERATOR_KEYWORDS: [&str; 7] = ["and", "or", "not", "in", "is", "if", "else"];

const LITERAL_KEYWORDS: [&str; 6] = ["true", "false", "none", "True", "False", "None"];

/// The longest expression, in bytes.
const MAX_EXPRESSION_BYTES: usize = 2 << 10;

/// The root of the outputs of tasks.
const TASKS: &str = "tasks";

/// An expression whose paths are variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TemplateExpression {
    source: String,
    code: String,
    paths: Vec<Vec<String>>,
}

impl TemplateExpression {
    /// Parses the code between `{{` and `}}`.
    pub(super) fn parse(source: &str) -> Result<Self, TemplateError> {
        if source.len() > MAX_EXPRESSION_BYTES {
            // The parser calls itself for each operator.
            let beginning: String = source.chars().take(40).collect();
            let message = format!("the expression is longer than {} KB", MAX_EXPRESSION_BYTES >> 10);
            return Err(TemplateError::in_expression(&format!("{beginning}…"), message));
        }
        let first_word: String = source.chars().take_while(|c| c.is_ascii_alphabetic()).collect();
        if is_control_word(&first_word) {
            return Err(TemplateError::in_expression(source, go_syntax::describe_control(&first_word)));
        }
        let expression = Rewriter::new(source).run()?;
        engine::check(&expression)?;
        Ok(expression)
    }

    /// The expression as it was written.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// The expression for minijinja.
    pub(super) fn code(&self) -> &str {
        &self.code
    }

    /// The paths, by the numbers of their variables.
    pub(super) fn paths(&self) -> impl Iterator<Item = &[String]> {
        self.paths.iter().map(Vec::as_slice)
    }

    /// The name of a path's variable.
    pub(super) fn variable(index: usize) -> String {
        format!("_{index}")
    }

    pub(super) fn referenced_tasks(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().filter(|path| path[0] == TASKS).filter_map(|path| Some(path.get(1)?.as_str()))
    }

    pub(super) fn referenced_inputs(&self) -> impl Iterator<Item = ReferencedInput<'_>> {
        self.paths.iter().filter_map(|path| match path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["workflow", "input", name, ..] => Some(ReferencedInput { name, is_of_run: true }),
            ["input", name, ..] => Some(ReferencedInput { name, is_of_run: false }),
            ["input"] | ["workflow", "input"] | ["workflow"] => {
                Some(ReferencedInput { name: ANY_INPUT, is_of_run: true })
            }
            _ => None,
        })
    }

    /// Whether it names something that only a run has: inputs, outputs, what started it.
    pub(super) fn needs_run(&self) -> bool {
        let is_of_run = |path: &Vec<String>| {
            matches!(
                path.iter().map(String::as_str).collect::<Vec<_>>().as_slice(),
                ["input" | "trigger" | TASKS, ..] | ["workflow"] | ["workflow", "input", ..]
            )
        };
        self.paths.iter().any(is_of_run)
    }

    /// Whether it needs the output of a task that hasn't run yet.
    pub(super) fn is_pending(&self, context: &TemplateContext) -> bool {
        self.paths.iter().any(|path| context.is_pending(path))
    }
}

/// Stands for every input, where an expression looks at all of them.
pub(crate) const ANY_INPUT: &str = "*";

/// An input that is mentioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReferencedInput<'a> {
    pub(crate) name: &'a str,
    /// Whether only the run can give it, and not the task itself.
    pub(crate) is_of_run: bool,
}

/// What may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Term,
    Operator,
    /// The name of a filter or a test.
    Name,
}

struct Rewriter<'a> {
    source: &'a str,
    rest: &'a str,
    code: String,
    paths: Vec<Vec<String>>,
    expected: Expected,
}

impl<'a> Rewriter<'a> {
    fn new(source: &'a str) -> Self {
        Self { source, rest: source, code: String::new(), paths: Vec::new(), expected: Expected::Term }
    }

    fn run(mut self) -> Result<TemplateExpression, TemplateError> {
        while let Some(next) = self.rest.chars().next() {
            match next {
                _ if next.is_whitespace() => self.copy(next.len_utf8()),
                '"' | '\'' => {
                    self.expect_term()?;
                    self.copy_string(next)?;
                    self.expected = Expected::Operator;
                }
                '0'..='9' => {
                    self.expect_term()?;
                    self.copy_while(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
                    self.expected = Expected::Operator;
                }
                // A key of what a bracket yields.
                '.' if self.code.ends_with([')', ']']) => self.take_sign(next),
                '.' if self.expected != Expected::Name && starts_key(&self.rest[1..]) => {
                    self.expect_term()?;
                    self.rest = &self.rest[1..];
                    self.take_path()?;
                }
                // A repeated list takes no room until it is written, and then all of it.
                '*' => return Err(self.error("`*` can't be used")),
                '$' => return Err(self.error("variables such as `$x` can't be used: name the value by its path")),
                _ if next.is_alphabetic() || next == '_' => self.take_word()?,
                _ => self.take_sign(next),
            }
        }
        let Self { source, code, paths, .. } = self;
        Ok(TemplateExpression { source: source.to_owned(), code, paths })
    }

    fn error(&self, message: impl std::fmt::Display) -> TemplateError {
        TemplateError::in_expression(self.source, message)
    }

    /// Two terms beside each other are a call in Go's way.
    fn expect_term(&self) -> Result<(), TemplateError> {
        match self.expected {
            Expected::Term => Ok(()),
            Expected::Operator | Expected::Name => Err(self.error(go_syntax::describe_call(self.source))),
        }
    }

    fn take_word(&mut self) -> Result<(), TemplateError> {
        let length = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        let word = &self.rest[..length];
        if self.expected == Expected::Name {
            self.copy(length);
            // As in `is not defined`.
            self.expected = if word == "not" { Expected::Name } else { Expected::Operator };
        } else if OPERATOR_KEYWORDS.contains(&word) {
            self.copy(length);
            self.expected = if word == "is" { Expected::Name } else { Expected::Term };
        } else if LITERAL_KEYWORDS.contains(&word) {
            self.expect_term()?;
            self.copy(length);
            self.expected = Expected::Operator;
        } else if go_syntax::is_call(self.rest, length) {
            return Err(self.error(go_syntax::describe_call(self.source)));
        } else {
            self.expect_term()?;
            self.take_path()?;
        }
        Ok(())
    }

    /// Replaces a path by its variable.
    fn take_path(&mut self) -> Result<(), TemplateError> {
        let mut path = vec![self.take_key()];
        loop {
            if let Some(rest) = self.rest.strip_prefix('.').filter(|rest| starts_key(rest)) {
                self.rest = rest;
                path.push(self.take_key());
            } else if let Some((key, rest)) = literal_subscript(self.rest) {
                path.push(key);
                self.rest = rest;
            } else {
                break;
            }
        }
        if !ROOTS.contains(&path[0].as_str()) {
            return Err(self.error(format!("unknown name `{}`; a template knows {}", path[0], ROOTS.join(", "))));
        }
        self.code.push_str(&TemplateExpression::variable(self.paths.len()));
        self.paths.push(path);
        self.expected = Expected::Operator;
        Ok(())
    }

    /// Takes a key, whose hyphens belong to it when they stand between two of its characters.
    fn take_key(&mut self) -> String {
        let is_key_char = |c: char| c.is_alphanumeric() || c == '_';
        let mut length = 0;
        for (index, c) in self.rest.char_indices() {
            let is_inner_hyphen = c == '-' && index > 0 && self.rest[index + 1..].starts_with(is_key_char);
            if !is_key_char(c) && !is_inner_hyphen {
                break;
            }
            length = index + c.len_utf8();
        }
        let (key, rest) = self.rest.split_at(length);
        self.rest = rest;
        key.to_owned()
    }

    fn take_sign(&mut self, sign: char) {
        self.copy(sign.len_utf8());
        self.expected = match sign {
            '|' | '.' => Expected::Name,
            ')' | ']' | '}' => Expected::Operator,
            _ => Expected::Term,
        };
    }

    fn copy(&mut self, length: usize) {
        self.code.push_str(&self.rest[..length]);
        self.rest = &self.rest[length..];
    }

    fn copy_while(&mut self, condition: impl Fn(char) -> bool) {
        self.copy(self.rest.find(|c| !condition(c)).unwrap_or(self.rest.len()));
    }

    fn copy_string(&mut self, quote: char) -> Result<(), TemplateError> {
        let length = string_length(self.rest, quote).ok_or_else(|| self.error("a string has no end"))?;
        self.copy(length);
        Ok(())
    }
}

fn starts_key(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// The length of a string with its quotation marks.
fn string_length(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return Some(index + 1),
            _ => {}
        }
    }
    None
}

/// Reads `["key"]` or `[0]`, whose key is part of the path.
fn literal_subscript(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('[')?.trim_start();
    let quote = inside.chars().next()?;
    let (key, rest) = if matches!(quote, '"' | '\'') {
        let length = string_length(inside, quote)?;
        (&inside[1..length - 1], &inside[length..])
    } else {
        let length = inside.find(|c: char| !c.is_ascii_digit()).filter(|length| *length > 0)?;
        inside.split_at(length)
    };
    // An escape would have to be decoded; minijinja does it, with the whole path up to here as one variable.
    let rest = rest.trim_start().strip_prefix(']').filter(|_| !key.contains('\\'))?;
    Some((key.to_owned(), rest))
}
