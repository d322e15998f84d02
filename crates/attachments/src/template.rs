//! Templates in declarations: text with `{{ … }}`, in which minijinja's expressions and filters stand.
//!
//! A text is split once into literals and expressions. What an expression yields is never parsed again, so an input
//! that holds `{{` stays as it is. A path may be written `workflow.id` or, as in Go, `.workflow.id`; its keys may hold
//! hyphens. A text that mentions the output of a task that hasn't run yet is deferred as a whole.

mod context;
mod engine;
mod error;
mod go_syntax;
mod rewrite;
#[cfg(test)]
mod tests;

use std::ops::Range;

use self::rewrite::TemplateExpression;
pub(crate) use self::rewrite::{ANY_INPUT, ReferencedInput};
pub use self::{context::TemplateContext, error::TemplateError};

/// The longest text that a template may yield, in bytes.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// A parsed text.
#[derive(Debug, Clone)]
pub struct Template {
    source: String,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone)]
enum Segment {
    Literal(String),
    Expression(TemplateExpression),
}

/// A template's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RenderedText {
    Text(String),
    /// It needs the output of a task that hasn't run yet.
    Deferred,
}

/// A rendered text, and which bytes of it expressions yielded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextWithValues {
    pub(crate) text: String,
    pub(crate) values: Vec<Range<usize>>,
}

impl Template {
    /// Splits a text into literals and expressions.
    ///
    /// # Errors
    /// When an expression has no end, or isn't one of minijinja's.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        let mut segments = Vec::new();
        let mut rest = source;
        while let Some(start) = rest.find("{{") {
            refuse_statement(&rest[..start])?;
            let inside = &rest[start + 2..];
            let length = expression_length(inside).ok_or_else(|| TemplateError::unclosed(inside))?;
            let (code, trims_before, trims_after) = without_trim_markers(&inside[..length]);
            push_literal(&mut segments, if trims_before { rest[..start].trim_end() } else { &rest[..start] });
            segments.push(Segment::Expression(TemplateExpression::parse(code)?));
            rest = &inside[length + 2..];
            if trims_after {
                rest = rest.trim_start();
            }
        }
        refuse_statement(rest)?;
        push_literal(&mut segments, rest);
        Ok(Self { source: source.to_owned(), segments })
    }

    /// The text as it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text, if it holds no expression.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        match self.segments.as_slice() {
            [] => Some(""),
            [Segment::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The tasks that it mentions by name.
    pub fn referenced_tasks(&self) -> impl Iterator<Item = &str> {
        self.expressions().flat_map(TemplateExpression::referenced_tasks)
    }

    /// The inputs that it mentions by name.
    pub(crate) fn referenced_inputs(&self) -> impl Iterator<Item = ReferencedInput<'_>> {
        self.expressions().flat_map(TemplateExpression::referenced_inputs)
    }

    /// Whether it names something that only a run has.
    pub(crate) fn needs_run(&self) -> bool {
        self.expressions().any(TemplateExpression::needs_run)
    }

    /// Renders the text, or defers it.
    ///
    /// # Errors
    /// When something is missing or isn't text. What doesn't depend on a pending task is checked in a deferred text, too.
    pub fn render(&self, context: &TemplateContext) -> Result<RenderedText, TemplateError> {
        let rendered = self.render_with_values(context)?;
        Ok(rendered.map_or(RenderedText::Deferred, |rendered| RenderedText::Text(rendered.text)))
    }

    /// As [`Template::render`], with the place of each value in the text; `None` defers it.
    pub(crate) fn render_with_values(
        &self,
        context: &TemplateContext,
    ) -> Result<Option<TextWithValues>, TemplateError> {
        let mut text = String::new();
        let mut values = Vec::new();
        let mut is_deferred = false;
        for segment in &self.segments {
            let start = text.len();
            match segment {
                Segment::Literal(literal) => text.push_str(literal),
                Segment::Expression(expression) if expression.is_pending(context) => is_deferred = true,
                Segment::Expression(expression) => {
                    text.push_str(&engine::evaluate(expression, context)?);
                    values.push(start..text.len());
                }
            }
            if text.len() > MAX_TEXT_BYTES {
                return Err(TemplateError::too_long(MAX_TEXT_BYTES));
            }
        }
        Ok((!is_deferred).then_some(TextWithValues { text, values }))
    }

    fn expressions(&self) -> impl Iterator<Item = &TemplateExpression> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Expression(expression) => Some(expression),
            Segment::Literal(_) => None,
        })
    }
}

fn push_literal(segments: &mut Vec<Segment>, text: &str) {
    if !text.is_empty() {
        segments.push(Segment::Literal(text.to_owned()));
    }
}

/// Refuses minijinja's statements and comments, which a user of it would expect to work.
fn refuse_statement(literal: &str) -> Result<(), TemplateError> {
    match ["{%", "{#"].into_iter().find(|opening| literal.contains(opening)) {
        Some(opening) => Err(TemplateError::statement(opening)),
        None => Ok(()),
    }
}

/// The length of an expression up to its `}}`, which may stand in a string of it without ending it.
fn expression_length(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut is_escaped = false;
    let mut depth = 0_u32;
    for (index, character) in text.char_indices() {
        match (quote, character) {
            _ if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '{') => depth += 1,
            (None, '}') if depth > 0 => depth -= 1,
            (None, '}') if text[index..].starts_with("}}") => return Some(index),
            (None, _) => {}
        }
    }
    None
}

/// Takes the markers of `{{- … -}}` off, which trim the text around an expression.
fn without_trim_markers(code: &str) -> (&str, bool, bool) {
    let (code, before) = code.strip_prefix("- ").map_or((code, false), |code| (code, true));
    let (code, after) = code.strip_suffix(" -").map_or((code, false), |code| (code, true));
    (code.trim(), before, after)
}
