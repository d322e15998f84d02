//! Switches, names, lists of texts, and what is declared for later.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value as Json, json};

use super::schema_of;
use crate::config::tree::ConfigValue;

pub(super) const NAMES: &str = "names";
pub(super) const TEXTS: &str = "texts";
pub(super) const SWITCH: &str = "switch";
pub(super) const DECLARED: &str = "declared";

/// `true` or `false`, or `on` or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Switch(pub bool);

/// `off` or `on`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnOff {
    Off,
    On,
}

impl OnOff {
    #[must_use]
    pub fn is_on(self) -> bool {
        self == Self::On
    }
}

/// One name, or several in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Names(pub Vec<String>);

/// A list of texts. Numbers count as texts, because ids of people are numbers on some platforms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Texts(pub Vec<String>);

impl Texts {
    pub(crate) fn from_strs(texts: &[&str]) -> Self {
        Self(texts.iter().map(|text| (*text).to_owned()).collect())
    }
}

/// Anything that a part that isn't built yet will understand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Declared;

impl Serialize for Declared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Declared {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <()>::deserialize(deserializer).map(|()| Self)
    }
}

/// Describes a type to editors under the name of its kind.
macro_rules! describe {
    ($type:ty, $kind:expr, $schema:tt) => {
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                $kind.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                schema_of($kind, json!($schema))
            }
        }
    };
}

describe!(Switch, SWITCH, { "enum": [true, false, "on", "off"] });
describe!(Names, NAMES, {
    "anyOf": [{ "type": "string" }, { "type": "array", "minItems": 1, "items": { "type": ["string", "integer"] } }]
});
describe!(Texts, TEXTS, { "type": "array", "items": { "type": ["string", "integer"] } });
describe!(Declared, DECLARED, { "type": ["array", "object"] });

/// The words of an `enum`.
pub(in crate::config) fn words(schema: &Json) -> Option<Vec<&str>> {
    Some(schema.get("enum")?.as_array()?.iter().filter_map(Json::as_str).collect())
}

pub(in crate::config) fn as_text(written: &ConfigValue) -> Option<String> {
    match written {
        ConfigValue::Text(text) | ConfigValue::Given(text) => Some(text.clone()),
        _ => None,
    }
}

/// Texts of a list; in the environment and on the command line they are separated by commas.
pub(super) fn as_texts(written: &ConfigValue) -> Option<Vec<String>> {
    match written {
        ConfigValue::List(items) => items
            .iter()
            .map(|item| match &item.value {
                ConfigValue::Integer(number) => Some(number.to_string()),
                value => as_text(value),
            })
            .collect(),
        ConfigValue::Given(text) => {
            let text = text.trim().trim_start_matches('[').trim_end_matches(']');
            let items = text.split(',').map(|item| item.trim().trim_matches(['"', '\'']).to_owned());
            Some(items.filter(|item| !item.is_empty()).collect())
        }
        _ => None,
    }
}

pub(super) fn read_names(written: &ConfigValue) -> Option<Json> {
    let names = match written {
        ConfigValue::Text(name) => vec![name.clone()],
        written => as_texts(written)?,
    };
    (!names.is_empty()).then(|| json!(names))
}

pub(super) fn read_switch(written: &ConfigValue) -> Option<Json> {
    match written {
        ConfigValue::Boolean(on) => Some(json!(on)),
        written => match as_text(written)?.as_str() {
            "on" | "true" => Some(json!(true)),
            "off" | "false" => Some(json!(false)),
            _ => None,
        },
    }
}

pub(super) fn count_declared(written: &ConfigValue) -> Option<usize> {
    match written {
        ConfigValue::List(items) => Some(items.len()),
        ConfigValue::Section(entries) => Some(entries.len()),
        _ => None,
    }
}
