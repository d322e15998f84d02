//! What is wrong with a template, for the person who wrote it.

/// Why a template can't be parsed or rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(pub(crate) String);

impl TemplateError {
    pub(crate) fn in_expression(source: &str, message: impl std::fmt::Display) -> Self {
        Self(format!("`{{{{ {source} }}}}`: {message}"))
    }

    pub(crate) fn unclosed(code: &str) -> Self {
        let beginning: String = code.trim().chars().take(40).collect();
        Self(format!("`{{{{ {beginning}` has no closing `}}}}`"))
    }

    pub(crate) fn statement(opening: &str) -> Self {
        Self(format!(
            "`{opening}` begins a statement or a comment, and only expressions work here: write {{{{ a if condition else b }}}}; \
             a literal `{opening}` is {{{{ \"{opening}\" }}}}"
        ))
    }

    pub(crate) fn too_long(limit: usize) -> Self {
        Self(format!("yields more than {} KB of text", limit >> 10))
    }
}
