//! Reads maps and texts of a YAML tree, and gathers what is wrong with them.

use std::{path::Path, sync::Arc};

use satchel_yaml::{YamlEntry, YamlNode, YamlPosition, YamlValue};

use crate::{
    declaration::TemplateText,
    problem::{DeclarationProblem, SourcePosition},
    template::Template,
};

/// The longest excerpt of a given value in a message, in characters.
const MAX_EXCERPT_CHARS: usize = 60;

/// Reads one file.
pub(super) struct DeclarationReader<'a> {
    pub(super) file: &'a Arc<Path>,
    /// Its directory.
    pub(super) directory: &'a Arc<Path>,
    pub(super) problems: Vec<DeclarationProblem>,
}

/// A map whose keys are all known.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    entries: &'a [YamlEntry],
    /// The path of the map, such as `agents.cook`.
    pub(super) item: &'a str,
    pub(super) position: YamlPosition,
}

impl<'a> Fields<'a> {
    /// The value of a key, unless it is null.
    pub(super) fn find(&self, key: &str) -> Option<&'a YamlNode> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        (entry.node.value != YamlValue::Null).then_some(&entry.node)
    }

    pub(super) fn key_position(&self, key: &str) -> YamlPosition {
        self.entries.iter().find(|entry| entry.key == key).map_or(self.position, |entry| entry.key_position)
    }
}

impl DeclarationReader<'_> {
    pub(super) fn position(&self, position: YamlPosition) -> SourcePosition {
        SourcePosition { file: Arc::clone(self.file), line: position.line, column: position.column }
    }

    pub(super) fn report(&mut self, position: YamlPosition, item: &str, message: impl Into<String>) {
        let problem =
            DeclarationProblem { position: self.position(position), item: item.to_owned(), message: message.into() };
        self.problems.push(problem);
    }

    /// Reads a map and reports the keys that aren't allowed in it.
    pub(super) fn fields<'n>(&mut self, node: &'n YamlNode, item: &'n str, allowed: &[&str]) -> Option<Fields<'n>> {
        let YamlValue::Map(entries) = &node.value else {
            let allowed = allowed.join(", ");
            self.report(node.position, item, format!("must be a map with {allowed}, not {}", describe(&node.value)));
            return None;
        };
        for entry in entries.iter().filter(|entry| !allowed.contains(&entry.key.as_str())) {
            let message = format!("unknown field `{}`; allowed are {}", excerpt(&entry.key), allowed.join(", "));
            self.report(entry.key_position, item, message);
        }
        Some(Fields { entries, item, position: node.position })
    }

    /// The items of a list, which may be missing.
    pub(super) fn list<'n>(&mut self, fields: Fields<'n>, key: &str) -> &'n [YamlNode] {
        match fields.find(key) {
            None => &[],
            Some(YamlNode { value: YamlValue::List(items), .. }) => items,
            Some(node) => {
                self.report_type(node, fields.item, key, "a list");
                &[]
            }
        }
    }

    /// A text, which may be missing.
    pub(super) fn optional_text<'n>(&mut self, fields: Fields<'n>, key: &str) -> Option<(&'n str, YamlPosition)> {
        let node = fields.find(key)?;
        self.text(node, fields.item, key)
    }

    /// A text that has to be given.
    pub(super) fn required_text<'n>(&mut self, fields: Fields<'n>, key: &str) -> Option<(&'n str, YamlPosition)> {
        match fields.find(key) {
            Some(node) => self.text(node, fields.item, key),
            None => {
                self.report(fields.position, fields.item, format!("`{key}` is missing"));
                None
            }
        }
    }

    pub(super) fn text<'n>(&mut self, node: &'n YamlNode, item: &str, key: &str) -> Option<(&'n str, YamlPosition)> {
        match &node.value {
            YamlValue::Text(text) if text.trim().is_empty() => {
                self.report(node.position, item, format!("`{key}` is empty"));
                None
            }
            YamlValue::Text(text) => Some((text, node.position)),
            _ => {
                self.report_type(node, item, key, "text");
                None
            }
        }
    }

    /// A template, which may be missing.
    pub(super) fn optional_template(&mut self, fields: Fields<'_>, key: &str) -> Option<TemplateText> {
        let node = fields.find(key)?;
        self.template(node, fields.item, key)
    }

    pub(super) fn template(&mut self, node: &YamlNode, item: &str, key: &str) -> Option<TemplateText> {
        let (text, position) = self.text(node, item, key)?;
        match Template::parse(text) {
            Ok(template) => Some(TemplateText { template, position: self.position(position) }),
            Err(error) => {
                self.report(position, item, format!("`{key}`: {error}"));
                None
            }
        }
    }

    pub(super) fn report_type(&mut self, node: &YamlNode, item: &str, key: &str, expected: &str) {
        self.report(node.position, item, format!("`{key}` must be {expected}, not {}", describe(&node.value)));
    }
}

/// What a value is, for a message.
pub(super) fn describe(value: &YamlValue) -> String {
    match value {
        YamlValue::Null => "nothing".to_owned(),
        YamlValue::Boolean(value) => format!("{value} (quote it if text is meant)"),
        YamlValue::Integer(value) => format!("the number {value} (quote it if text is meant)"),
        YamlValue::Decimal(value) => format!("the number {value} (quote it if text is meant)"),
        YamlValue::Text(text) => format!("{:?}", excerpt(text)),
        YamlValue::List(_) => "a list".to_owned(),
        YamlValue::Map(_) => "a map".to_owned(),
    }
}

pub(super) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(MAX_EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
