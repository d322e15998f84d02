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
    pub bounds: AttachmentBounds,
    /// The path of the item, such as `tasks.classify.attachments[0]`.
    pub item: String,
    pub position: SourcePosition,
    /// The directory of the file that owns it, beneath which its paths are.
    pub root: Arc<Path>,
}

/// How much of an attachment its model gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttachmentBounds {
    /// Of an image, in pixels.
    pub max_width: Option<u32>,
    /// Of an image, in pixels.
    pub max_height: Option<u32>,
    /// Of a PDF: the first of its pages.
    pub max_pages: Option<u32>,
}

impl AttachmentBounds {
    /// Whether an image has to be made smaller, or may have to be because its size is unknown.
    #[must_use]
    pub fn bounds_image(&self) -> bool {
        self.max_width.is_some() || self.max_height.is_some()
    }

    /// The longest side of the copy of an image that keeps within them; `None` if the image does.
    #[must_use]
    pub fn longest_side(&self, width: Option<u32>, height: Option<u32>) -> Option<u32> {
        let (max_width, max_height) = (self.max_width.unwrap_or(u32::MAX), self.max_height.unwrap_or(u32::MAX));
        let (Some(width), Some(height)) = (width, height) else {
            return self.bounds_image().then(|| max_width.min(max_height));
        };
        if width <= max_width && height <= max_height {
            return None;
        }
        let longest = u64::from(width.max(height));
        let scaled = |max: u32, side: u32| longest * u64::from(max.min(side)) / u64::from(side.max(1));
        let side = scaled(max_width, width).min(scaled(max_height, height)).max(1);
        Some(u32::try_from(side).unwrap_or(u32::MAX))
    }

    /// Adds those of a later declaration of the same resource, which come first.
    pub(crate) fn overwrite(&mut self, later: Self) {
        self.max_width = later.max_width.or(self.max_width);
        self.max_height = later.max_height.or(self.max_height);
        self.max_pages = later.max_pages.or(self.max_pages);
    }
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

    /// Whether it names something that only a run of tasks has: inputs, outputs, what started it.
    #[must_use]
    pub fn needs_run(&self) -> bool {
        self.templates().iter().any(|text| text.template.needs_run())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_keeps_within_width_and_height() {
        let bounds = |max_width, max_height| AttachmentBounds { max_width, max_height, max_pages: None };
        for (bounds, size, expected) in [
            (bounds(Some(100), None), (Some(100), Some(900)), None),
            (bounds(Some(100), None), (Some(200), Some(100)), Some(100)),
            (bounds(Some(100), None), (Some(200), Some(400)), Some(200)),
            (bounds(Some(100), Some(50)), (Some(200), Some(400)), Some(50)),
            (bounds(Some(100), Some(300)), (Some(400), Some(200)), Some(100)),
            (bounds(Some(1), Some(1)), (Some(9_000), Some(1)), Some(1)),
            (bounds(Some(100), Some(50)), (None, None), Some(50)),
            (bounds(None, None), (None, None), None),
        ] {
            assert_eq!(bounds.longest_side(size.0, size.1), expected, "{bounds:?} {size:?}");
        }
    }
}
