//! The configuration file as a tree in which every value has its position.
//!
//! serde would stop at the first mistake and keeps no positions, so the file is read into this tree, the environment
//! and the command line are applied to it, and [`super::schema_walk`] checks it against the schema.

use std::{fmt, path::Path, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{Error as YamlError, Spanned};

use super::origin::{ConfigProblem, SettingOrigin};

/// How many values a file may hold, aliases counted as often as they are used.
const MAX_VALUES: usize = 20_000;
/// How deep they may be nested.
const MAX_DEPTH: usize = 64;

/// A value and where it was given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConfigNode {
    pub(crate) value: ConfigValue,
    /// Where it was given; for an entry of a section the position of its key.
    pub(crate) origin: SettingOrigin,
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ConfigValue {
    /// Nothing, or `null`: as if the key were missing.
    Null,
    Boolean(bool),
    /// A whole number.
    Integer(i128),
    /// A number with a fraction.
    Decimal(f64),
    /// Text in the file.
    Text(String),
    /// Text from the environment or the command line; the key's schema decides its type.
    Untyped(String),
    List(Vec<ConfigNode>),
    Section(Vec<(String, ConfigNode)>),
}

impl ConfigNode {
    /// A section without entries.
    pub(crate) fn empty_section() -> Self {
        Self { value: ConfigValue::Section(Vec::new()), origin: SettingOrigin::Default }
    }

    /// The entry at the dotted `key`, if it exists and is not null.
    pub(crate) fn find(&self, key: &str) -> Option<&Self> {
        let found = key.split('.').try_fold(self, |node, name| match &node.value {
            ConfigValue::Section(entries) => entries.iter().find(|(entry, _)| entry == name).map(|(_, node)| node),
            _ => None,
        })?;
        (found.value != ConfigValue::Null).then_some(found)
    }
}

/// Reads the text of a configuration file.
pub(crate) fn parse(path: &Arc<Path>, text: &str) -> Result<ConfigNode, ConfigProblem> {
    // Excerpts of the file would show secrets near a mistake.
    // Unquoted words such as `off` and `no`, and numbers such as 012, are text.
    let options = serde_saphyr::options! {
        with_snippet: false,
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        budget: serde_saphyr::budget! { max_nodes: MAX_VALUES, max_depth: MAX_DEPTH },
    };
    let raw: Option<Spanned<RawValue>> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| yaml_problem(path, text, &error))?;
    let Some(raw) = raw else { return Ok(ConfigNode::empty_section()) };
    let node = to_node(path, raw.value, file_origin(path, raw.referenced.line(), raw.referenced.column()));
    match node.value {
        ConfigValue::Section(_) => Ok(node),
        ConfigValue::Null => Ok(ConfigNode::empty_section()),
        _ => Err(ConfigProblem { origin: node.origin, message: "expected sections such as `storage:`".to_owned() }),
    }
}

fn file_origin(path: &Arc<Path>, line: u64, column: u64) -> SettingOrigin {
    SettingOrigin::File { path: Arc::clone(path), line: line.max(1), column: column.max(1) }
}

fn to_node(path: &Arc<Path>, raw: RawValue, origin: SettingOrigin) -> ConfigNode {
    let value = match raw {
        RawValue::Scalar(value) => value,
        RawValue::List(items) => {
            let item = |item: Spanned<RawValue>| {
                let origin = file_origin(path, item.referenced.line(), item.referenced.column());
                to_node(path, item.value, origin)
            };
            ConfigValue::List(items.into_iter().map(item).collect())
        }
        RawValue::Section(entries) => {
            let entry = |(key, value): (Spanned<String>, RawValue)| {
                let origin = file_origin(path, key.referenced.line(), key.referenced.column());
                (key.value, to_node(path, value, origin))
            };
            ConfigValue::Section(entries.into_iter().map(entry).collect())
        }
    };
    ConfigNode { value, origin }
}

/// A value of the YAML parser, before positions are attached.
enum RawValue {
    Scalar(ConfigValue),
    List(Vec<Spanned<RawValue>>),
    Section(Vec<(Spanned<String>, RawValue)>),
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawValueVisitor)
    }
}

struct RawValueVisitor;

impl<'de> Visitor<'de> for RawValueVisitor {
    type Value = RawValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(ConfigValue::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(ConfigValue::Boolean(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(ConfigValue::Integer(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(ConfigValue::Integer(value.into())))
    }

    fn visit_i128<E>(self, value: i128) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(ConfigValue::Integer(value)))
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<RawValue, E> {
        let value = i128::try_from(value).map_err(|_| E::custom("a number that is far too large"))?;
        Ok(RawValue::Scalar(ConfigValue::Integer(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(ConfigValue::Decimal(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<RawValue, E> {
        Ok(RawValue::Scalar(ConfigValue::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RawValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(RawValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<RawValue, A::Error> {
        let mut section = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            if key.value.is_empty() {
                return Err(A::Error::custom("a key is empty"));
            }
            section.push((key, entries.next_value()?));
        }
        Ok(RawValue::Section(section))
    }
}

/// Converts an error of the YAML parser into a problem that says what to do.
fn yaml_problem(path: &Arc<Path>, text: &str, error: &YamlError) -> ConfigProblem {
    let error = error.without_snippet();
    let (line, column) = error.location().map_or((1, 1), |location| (location.line(), location.column()));
    let line_text = |number: u64| {
        usize::try_from(number).ok().and_then(|number| text.lines().nth(number.checked_sub(1)?)).unwrap_or_default()
    };
    // The parser often notices a mistake only on the next line.
    for line_number in [line, line.saturating_sub(1)] {
        if let Some(column) = unquoted_template(line_text(line_number)) {
            let message = r#"quote templates: write "{{ … }}" with quotation marks around it"#.to_owned();
            return ConfigProblem { origin: file_origin(path, line_number, column), message };
        }
        if let Some(column) = unquoted_sign(line_text(line_number)) {
            let message =
                "quote a value that begins with `*` or `@`: write \"* * * * *\" with quotation marks around it";
            return ConfigProblem { origin: file_origin(path, line_number, column), message: message.to_owned() };
        }
        if let Some(column) = tab_in_indentation(line_text(line_number)) {
            let message = "a tab stands in the indentation: indent with spaces".to_owned();
            return ConfigProblem { origin: file_origin(path, line_number, column), message };
        }
    }
    ConfigProblem { origin: file_origin(path, line, column), message: describe_yaml_error(error) }
}

fn describe_yaml_error(error: &YamlError) -> String {
    match error {
        YamlError::AliasError { error, .. } => describe_yaml_error(error.without_snippet()),
        YamlError::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` stands here twice: remove one"),
        YamlError::DuplicateMappingKey { key: None, .. } => "a key stands here twice: remove one".to_owned(),
        YamlError::Budget { .. }
        | YamlError::AliasReplayCounterOverflow { .. }
        | YamlError::AliasReplayLimitExceeded { .. }
        | YamlError::AliasExpansionLimitExceeded { .. }
        | YamlError::AliasReplayStackDepthExceeded { .. } => {
            "the file holds too much: it is nested too deep, or its aliases (`*name`) multiply".to_owned()
        }
        YamlError::UnknownAnchor { .. } => {
            "`*` begins an alias and there is no such anchor: quote the text if a star is meant".to_owned()
        }
        YamlError::MultipleDocuments { .. } => "`---` begins a second document: one file, one document".to_owned(),
        other => format!("this is not readable as YAML: {}", first_error_line(&other.render())),
    }
}

/// The first line of the parser's message, without the position, which precedes it already.
fn first_error_line(rendered: &str) -> String {
    let line = rendered.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let message = line.split_once(" at line ").map_or(line, |(message, _)| message);
    message.trim_end_matches(['.', ' ']).to_owned()
}

/// The column of a `{{` that YAML parses as a mapping, because only a separator precedes it.
fn unquoted_template(line: &str) -> Option<u64> {
    let start = line.find("{{")?;
    let before = line[..start].trim_end();
    let is_unquoted = before.is_empty() || before.ends_with([':', '-', ',', '[', '{']);
    is_unquoted.then(|| line[..start].chars().count() as u64 + 1)
}

/// The column of a value that starts with a reserved character of YAML, as cron expressions do.
fn unquoted_sign(line: &str) -> Option<u64> {
    let value = line.split_once(": ")?.1.trim_start();
    let before = &line[..line.len() - value.len()];
    ["* ", "*/", "@"].iter().any(|sign| value.starts_with(sign)).then(|| before.chars().count() as u64 + 1)
}

fn tab_in_indentation(line: &str) -> Option<u64> {
    let indentation = &line[..line.len() - line.trim_start().len()];
    indentation.chars().position(|c| c == '\t').map(|index| index as u64 + 1)
}
