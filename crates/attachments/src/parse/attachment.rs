//! Reads the items of `attachments:`.

use std::sync::Arc;

use satchel_yaml::{YamlNode, YamlValue};

use super::reader::{DeclarationReader, Fields};
use crate::{
    declaration::{AttachmentBounds, Declaration, DeclaredKind, DeclaredSource, MetaValue, TemplateText},
    expand::{check_glob, is_glob},
    kind::{AttachmentKind, SourceField},
    render::{check_source, check_url, list_sources, unknown_kind},
};

const FIELDS: [&str; 12] = [
    "type",
    "url",
    "path",
    "urls",
    "paths",
    "name",
    "mime",
    "meta",
    "optional",
    "max_width",
    "max_height",
    "max_pages",
];

impl DeclarationReader<'_> {
    /// Reads the declarations of a task, an agent or an action, whose path is `owner`.
    pub(super) fn attachments(&mut self, fields: Fields<'_>) -> Vec<Declaration> {
        let owner = fields.item;
        let items = self.list(fields, "attachments");
        let read = |(index, node): (usize, &YamlNode)| {
            let item = format!("{owner}.attachments[{index}]");
            self.attachment(node, &item)
        };
        items.iter().enumerate().filter_map(read).collect()
    }

    fn attachment(&mut self, node: &YamlNode, item: &str) -> Option<Declaration> {
        let known_problems = self.problems.len();
        let fields = self.fields(node, item, &FIELDS)?;
        let kind = self.kind(fields);
        let source = self.source(fields, kind.as_ref());
        let name = self.optional_template(fields, "name");
        let mime = self.optional_template(fields, "mime");
        let meta = self.meta(fields);
        let optional = self.switch(fields, "optional");
        let bounds = self.bounds(fields, kind.as_ref());
        if self.problems.len() > known_problems {
            return None;
        }
        let position = self.position(node.position);
        let root = Arc::clone(self.directory);
        Some(Declaration {
            kind: kind?,
            source: source?,
            name,
            mime,
            meta,
            optional,
            bounds,
            item: item.to_owned(),
            position,
            root,
        })
    }

    fn kind(&mut self, fields: Fields<'_>) -> Option<DeclaredKind> {
        let Some(node) = fields.find("type") else {
            let kinds = AttachmentKind::ALL.map(AttachmentKind::name).join(", ");
            self.report(fields.position, fields.item, format!("`type` is missing; allowed are {kinds}"));
            return None;
        };
        let text = self.template(node, fields.item, "type")?;
        let Some(literal) = text.template.literal() else { return Some(DeclaredKind::Template(text)) };
        let kind = AttachmentKind::parse(literal);
        if kind.is_none() {
            self.report(node.position, fields.item, unknown_kind(literal));
        }
        kind.map(DeclaredKind::Fixed)
    }

    /// The one source that a declaration has.
    fn source(&mut self, fields: Fields<'_>, kind: Option<&DeclaredKind>) -> Option<DeclaredSource> {
        let given: Vec<SourceField> =
            SourceField::ALL.into_iter().filter(|field| fields.find(field.name()).is_some()).collect();
        let kind = match kind {
            Some(DeclaredKind::Fixed(kind)) => Some(*kind),
            _ => None,
        };
        let allowed = kind.map_or(&SourceField::ALL[..], AttachmentKind::sources);
        let field = match given.as_slice() {
            [] => {
                self.report(fields.position, fields.item, format!("no source: give {}", list_sources(allowed)));
                return None;
            }
            [field] => *field,
            several => {
                let names: Vec<String> = several.iter().map(|field| format!("`{}`", field.name())).collect();
                let position = fields.key_position(several[1].name());
                self.report(position, fields.item, format!("{} are given: keep one of them", names.join(" and ")));
                return None;
            }
        };
        if let Some(Err(message)) = kind.map(|kind| check_source(kind, field)) {
            self.report(fields.key_position(field.name()), fields.item, message);
            return None;
        }
        let texts = self.source_texts(fields, field)?;
        Some(DeclaredSource { field, texts })
    }

    fn source_texts(&mut self, fields: Fields<'_>, field: SourceField) -> Option<Vec<TemplateText>> {
        let (item, key) = (fields.item, field.name());
        match field {
            SourceField::Url | SourceField::Path => {
                let node = fields.find(key)?;
                Some(vec![self.source_text(node, item, key, field)?])
            }
            SourceField::Urls | SourceField::Paths => {
                let items = self.list(fields, key);
                if items.is_empty() && matches!(fields.find(key)?.value, YamlValue::List(_)) {
                    self.report(fields.key_position(key), item, format!("`{key}` is an empty list"));
                }
                let texts = items.iter().enumerate().map(|(index, node)| {
                    let key = format!("{key}[{index}]");
                    self.source_text(node, item, &key, field)
                });
                texts.collect::<Vec<_>>().into_iter().collect()
            }
        }
    }

    /// A URL, a path or a glob, checked as far as it is no template.
    fn source_text(&mut self, node: &YamlNode, item: &str, key: &str, field: SourceField) -> Option<TemplateText> {
        let text = self.template(node, item, key)?;
        let checked = match (field, text.template.literal()) {
            (SourceField::Url | SourceField::Urls, Some(url)) => check_url(url).map(drop),
            (SourceField::Path | SourceField::Paths, Some(path)) if path.starts_with('~') => {
                Err("`~` isn't expanded: write the whole path, or one that counts from this file".to_owned())
            }
            (SourceField::Paths, Some(pattern)) if is_glob(pattern) => check_glob(pattern),
            _ => Ok(()),
        };
        match checked {
            Ok(()) => Some(text),
            Err(reason) => {
                self.report(node.position, item, format!("`{key}`: {reason}"));
                None
            }
        }
    }

    fn meta(&mut self, fields: Fields<'_>) -> Vec<(String, MetaValue)> {
        match fields.find("meta") {
            None => Vec::new(),
            Some(YamlNode { value: YamlValue::Map(entries), .. }) => entries
                .iter()
                .filter_map(|entry| {
                    let key = format!("meta.{}", entry.key);
                    Some((entry.key.clone(), self.meta_value(&entry.node, fields.item, &key)?))
                })
                .collect(),
            Some(node) => {
                self.report_type(node, fields.item, "meta", "a map");
                Vec::new()
            }
        }
    }

    fn meta_value(&mut self, node: &YamlNode, item: &str, key: &str) -> Option<MetaValue> {
        let value = match &node.value {
            YamlValue::Null => MetaValue::Fixed(serde_json::Value::Null),
            YamlValue::Boolean(value) => MetaValue::Fixed((*value).into()),
            YamlValue::Decimal(value) => MetaValue::Fixed((*value).into()),
            YamlValue::Integer(value) => match i64::try_from(*value) {
                Ok(value) => MetaValue::Fixed(value.into()),
                Err(_) => {
                    self.report(node.position, item, format!("`{key}` is a number that is too large"));
                    return None;
                }
            },
            // An empty text is a value like any other here.
            YamlValue::Text(text) if text.trim().is_empty() => MetaValue::Fixed(text.clone().into()),
            YamlValue::Text(_) => MetaValue::Text(self.template(node, item, key)?),
            YamlValue::List(items) => {
                let items = items.iter().enumerate();
                let values = items.map(|(index, node)| self.meta_value(node, item, &format!("{key}[{index}]")));
                MetaValue::List(values.collect::<Option<_>>()?)
            }
            YamlValue::Map(entries) => {
                let values = entries.iter().map(|entry| {
                    Some((entry.key.clone(), self.meta_value(&entry.node, item, &format!("{key}.{}", entry.key))?))
                });
                MetaValue::Map(values.collect::<Option<_>>()?)
            }
        };
        Some(value)
    }

    fn bounds(&mut self, fields: Fields<'_>, kind: Option<&DeclaredKind>) -> AttachmentBounds {
        AttachmentBounds {
            max_width: self.bound(fields, kind, "max_width", AttachmentKind::Image),
            max_height: self.bound(fields, kind, "max_height", AttachmentKind::Image),
            max_pages: self.bound(fields, kind, "max_pages", AttachmentKind::Pdf),
        }
    }

    /// A number that only one kind takes.
    fn bound(
        &mut self,
        fields: Fields<'_>,
        kind: Option<&DeclaredKind>,
        key: &str,
        taken_by: AttachmentKind,
    ) -> Option<u32> {
        let node = fields.find(key)?;
        if let Some(DeclaredKind::Fixed(kind)) = kind
            && *kind != taken_by
        {
            let message = format!("`type: {kind}` takes no `{key}`, `type: {taken_by}` does");
            self.report(fields.key_position(key), fields.item, message);
            return None;
        }
        let number = match node.value {
            YamlValue::Integer(number) => u32::try_from(number).ok().filter(|number| *number > 0),
            _ => None,
        };
        if number.is_none() {
            self.report_type(node, fields.item, key, "a whole number from 1");
        }
        number
    }

    fn switch(&mut self, fields: Fields<'_>, key: &str) -> bool {
        match fields.find(key) {
            None => false,
            Some(YamlNode { value: YamlValue::Boolean(value), .. }) => *value,
            Some(node) => {
                self.report_type(node, fields.item, key, "true or false");
                false
            }
        }
    }
}
