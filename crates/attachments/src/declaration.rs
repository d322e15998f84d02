//! A declared attachment as it was written, with its templates and positions.

use std::{path::Path, sync::Arc};

use crate::{
    kind::{AttachmentKind, SourceField},
    problem::{DeclarationProblem, SourcePosition},
    template::Template,
};

/// A text of a declaration, parsed as a template.
#[derive(Debug, Clone)]
pub struct TemplateText {
    pub template: Template,
    pub position: SourcePosition,
}

/// One item of `attachments:`.
#[derive(Debug, Clone)]
pub struct Declaration {
    pub kind: DeclaredKind,
    pub source: DeclaredSource,
    pub name: Option<TemplateText>,
    /// A hint; the detected type decides.
    pub mime: Option<TemplateText>,
    pub meta: Vec<(String, MetaValue)>,
    /// Whether the model is told when it can't be had, instead of a failed task.
    pub optional: bool,
    /// The path of the item, such as `tasks.classify.attachments[0]`.
    pub item: String,
    pub position: SourcePosition,
    /// The directory of the file that owns it, beneath which its paths are.
    pub root: Arc<Path>,
}

/// The kind, which a template may decide.
#[derive(Debug, Clone)]
pub enum DeclaredKind {
    Fixed(AttachmentKind),
    Template(TemplateText),
}

/// Where the bytes are.
#[derive(Debug, Clone)]
pub struct DeclaredSource {
    pub field: SourceField,
    /// One text, or those of a list.
    pub texts: Vec<TemplateText>,
}

/// A value of `meta`, whose texts are templates.
#[derive(Debug, Clone)]
pub enum MetaValue {
    /// A number, a truth value or null.
    Fixed(serde_json::Value),
    Text(TemplateText),
    List(Vec<MetaValue>),
    Map(Vec<(String, MetaValue)>),
}

impl Declaration {
    /// All of its templates.
    pub fn templates(&self) -> Vec<&TemplateText> {
        let mut templates: Vec<&TemplateText> = Vec::new();
        if let DeclaredKind::Template(text) = &self.kind {
            templates.push(text);
        }
        templates.extend(&self.source.texts);
        templates.extend(self.name.iter().chain(&self.mime));
        for (_, value) in &self.meta {
            value.collect(&mut templates);
        }
        templates
    }

    /// Whether it names an input or the output of a task.
    #[must_use]
    pub fn needs_run(&self) -> bool {
        self.templates().iter().any(|text| {
            let template = &text.template;
            template.referenced_tasks().next().is_some() || template.referenced_inputs().next().is_some()
        })
    }

    pub(crate) fn problem(&self, position: &SourcePosition, message: String) -> DeclarationProblem {
        DeclarationProblem { position: position.clone(), item: self.item.clone(), message }
    }
}

impl MetaValue {
    fn collect<'a>(&'a self, templates: &mut Vec<&'a TemplateText>) {
        match self {
            Self::Fixed(_) => {}
            Self::Text(text) => templates.push(text),
            Self::List(items) => items.iter().for_each(|item| item.collect(templates)),
            Self::Map(entries) => entries.iter().for_each(|(_, value)| value.collect(templates)),
        }
    }
}
