//! The configuration file as a tree in which every value has its origin.
//!
//! serde would stop at the first mistake and keeps no positions, so the file is read into this tree, the environment
//! and the command line are applied to it, and [`super::schema_walk`] checks it against the schema.

use std::{path::Path, sync::Arc};

use satchel_yaml::{YamlError, YamlNode, YamlPosition, YamlValue};

use super::origin::{ConfigProblem, SettingOrigin};

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

/// Reads the text of a file of the configuration.
pub(crate) fn parse(path: &Arc<Path>, text: &str) -> Result<YamlNode, ConfigProblem> {
    let problem =
        |YamlError { position, message }: YamlError| ConfigProblem { origin: origin(path, position), message };
    satchel_yaml::parse(text).map_err(problem)
}

/// Converts a file, whose values are the sections at the top.
pub(crate) fn from_yaml(path: &Arc<Path>, root: &YamlNode) -> Result<ConfigNode, ConfigProblem> {
    let node = to_node(path, &root.value, root.position);
    match node.value {
        ConfigValue::Section(_) => Ok(node),
        ConfigValue::Null => Ok(ConfigNode::empty_section()),
        _ => Err(ConfigProblem { origin: node.origin, message: "expected sections such as `storage:`".to_owned() }),
    }
}

fn origin(path: &Arc<Path>, YamlPosition { line, column }: YamlPosition) -> SettingOrigin {
    SettingOrigin::File { path: Arc::clone(path), line, column }
}

fn to_node(path: &Arc<Path>, value: &YamlValue, position: YamlPosition) -> ConfigNode {
    let value = match value {
        YamlValue::Null => ConfigValue::Null,
        YamlValue::Boolean(value) => ConfigValue::Boolean(*value),
        YamlValue::Integer(value) => ConfigValue::Integer(*value),
        YamlValue::Decimal(value) => ConfigValue::Decimal(*value),
        YamlValue::Text(text) => ConfigValue::Text(text.clone()),
        YamlValue::List(items) => {
            ConfigValue::List(items.iter().map(|item| to_node(path, &item.value, item.position)).collect())
        }
        YamlValue::Map(entries) => {
            let entries = entries.iter();
            let entries =
                entries.map(|entry| (entry.key.clone(), to_node(path, &entry.node.value, entry.key_position)));
            ConfigValue::Section(entries.collect())
        }
    };
    ConfigNode { value, origin: origin(path, position) }
}
