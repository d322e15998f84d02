//! Switches, names, lists of texts, the agents of chats, the members of groups, and entries of sections that are not
//! built yet.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value as Json, json};

use super::schema_with_kind;
use crate::config::tree::ConfigValue;

pub(super) const NAMES: &str = "names";
pub(super) const TEXTS: &str = "texts";
pub(super) const SWITCH: &str = "switch";
pub(super) const CHAT_AGENTS: &str = "chat-agents";
pub(super) const GROUP_MEMBERS: &str = "group-members";
pub(super) const TASK_INPUTS: &str = "task-inputs";
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

/// The agents of chats, by the ids of the chats.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChatAgents(pub BTreeMap<String, ChatAgent>);

/// The agent of a chat: its name, or its name and whether nobody may choose another one there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ChatAgent {
    Name(String),
    Settings { agent: String, locked: bool },
}

impl ChatAgent {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Name(name) | Self::Settings { agent: name, .. } => name,
        }
    }

    pub(crate) fn is_locked(&self) -> bool {
        matches!(self, Self::Settings { locked: true, .. })
    }
}

/// The ids of members, by the names of the groups that list them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupMembers(pub BTreeMap<String, Vec<String>>);

/// Values by the names of a task's inputs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskInputs(pub BTreeMap<String, String>);

/// The entries of a section that is not built yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnbuiltEntries;

impl Serialize for UnbuiltEntries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for UnbuiltEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <()>::deserialize(deserializer).map(|()| Self)
    }
}

/// Implements [`JsonSchema`] with a kind and a fixed schema.
macro_rules! impl_json_schema {
    ($type:ty, $kind:expr, $schema:tt) => {
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                $kind.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                schema_with_kind($kind, json!($schema))
            }
        }
    };
}

impl_json_schema!(Switch, SWITCH, { "enum": [true, false, "on", "off"] });
impl_json_schema!(Names, NAMES, {
    "anyOf": [{ "type": "string" }, { "type": "array", "minItems": 1, "items": { "type": ["string", "integer"] } }]
});
impl_json_schema!(Texts, TEXTS, { "type": "array", "items": { "type": ["string", "integer"] } });
// Not `additionalProperties`, which would make it a section with settings of its own.
impl_json_schema!(ChatAgents, CHAT_AGENTS, {
    "type": "object",
    "patternProperties": { ".": { "anyOf": [
        { "type": "string" },
        {
            "type": "object",
            "required": ["agent"],
            "additionalProperties": false,
            "properties": { "agent": { "type": "string" }, "locked": { "type": "boolean" } }
        }
    ] } }
});
impl_json_schema!(GroupMembers, GROUP_MEMBERS, {
    "type": "object", "patternProperties": { ".": { "type": "array", "items": { "type": ["string", "integer"] } } }
});
impl_json_schema!(TaskInputs, TASK_INPUTS, {
    "type": "object", "patternProperties": { ".": { "type": ["string", "integer"] } }
});
impl_json_schema!(UnbuiltEntries, DECLARED, { "type": ["array", "object"] });

/// The texts in a schema's `enum`.
pub(in crate::config) fn enum_choices(schema: &Json) -> Option<Vec<&str>> {
    Some(schema.get("enum")?.as_array()?.iter().filter_map(Json::as_str).collect())
}

pub(in crate::config) fn to_text(value: &ConfigValue) -> Option<String> {
    match value {
        ConfigValue::Text(text) | ConfigValue::Untyped(text) => Some(text.clone()),
        _ => None,
    }
}

/// The texts of a list; the environment and the command line separate them with commas.
pub(super) fn to_texts(value: &ConfigValue) -> Option<Vec<String>> {
    match value {
        ConfigValue::List(items) => items
            .iter()
            .map(|item| match &item.value {
                ConfigValue::Integer(number) => Some(number.to_string()),
                value => to_text(value),
            })
            .collect(),
        ConfigValue::Untyped(text) => {
            let text = text.trim().trim_start_matches('[').trim_end_matches(']');
            let items = text.split(',').map(|item| item.trim().trim_matches(['"', '\'']).to_owned());
            Some(items.filter(|item| !item.is_empty()).collect())
        }
        _ => None,
    }
}

pub(super) fn read_names(value: &ConfigValue) -> Option<Json> {
    let names = match value {
        ConfigValue::Text(name) => vec![name.clone()],
        value => to_texts(value)?,
    };
    (!names.is_empty()).then(|| json!(names))
}

pub(super) fn read_switch(value: &ConfigValue) -> Option<Json> {
    match value {
        ConfigValue::Boolean(on) => Some(json!(on)),
        value => match to_text(value)?.as_str() {
            "on" | "true" => Some(json!(true)),
            "off" | "false" => Some(json!(false)),
            _ => None,
        },
    }
}

/// The agents of chats; the environment and the command line write `-100123=kids,5=cook`.
pub(super) fn read_chat_agents(value: &ConfigValue) -> Option<Json> {
    let ConfigValue::Section(entries) = value else { return read_text_map(value, to_text) };
    let given = entries.iter().filter(|(_, given)| given.value != ConfigValue::Null);
    let agents: Option<BTreeMap<&String, Json>> =
        given.map(|(chat, given)| Some((chat, read_chat_agent(&given.value)?))).collect();
    agents.map(|agents| json!(agents))
}

/// The name of an agent, or `{ agent: NAME, locked: true }`.
fn read_chat_agent(value: &ConfigValue) -> Option<Json> {
    let ConfigValue::Section(entries) = value else { return to_text(value).map(Json::from) };
    let (mut agent, mut locked) = (None, json!(false));
    for (key, given) in entries.iter().filter(|(_, given)| given.value != ConfigValue::Null) {
        match key.as_str() {
            "agent" => agent = Some(to_text(&given.value)?),
            "locked" => locked = read_switch(&given.value)?,
            _ => return None,
        }
    }
    agent.map(|agent| json!({ "agent": agent, "locked": locked }))
}

/// The members of groups; the environment and the command line name the group of each: `desk=orders,desk=hr`.
pub(super) fn read_group_members(value: &ConfigValue) -> Option<Json> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    match value {
        ConfigValue::Section(entries) => {
            for (name, given) in entries.iter().filter(|(_, given)| given.value != ConfigValue::Null) {
                groups.insert(name.clone(), to_texts(&given.value)?);
            }
        }
        ConfigValue::Untyped(text) => {
            for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
                let (name, member) = item.split_once('=')?;
                groups.entry(name.trim().to_owned()).or_default().push(member.trim().to_owned());
            }
        }
        _ => return None,
    }
    Some(json!(groups))
}

/// The inputs of a task, which may be numbers; written as the agents of chats are.
pub(super) fn read_task_inputs(value: &ConfigValue) -> Option<Json> {
    read_text_map(value, |input| match input {
        ConfigValue::Integer(number) => Some(number.to_string()),
        input => to_text(input),
    })
}

/// Texts by names.
fn read_text_map(value: &ConfigValue, read: fn(&ConfigValue) -> Option<String>) -> Option<Json> {
    let texts: Option<BTreeMap<String, String>> = match value {
        ConfigValue::Section(entries) => {
            let given = entries.iter().filter(|(_, given)| given.value != ConfigValue::Null);
            given.map(|(name, given)| Some((name.clone(), read(&given.value)?))).collect()
        }
        ConfigValue::Untyped(text) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            let assignment = |item: &str| {
                let (name, text) = item.split_once('=')?;
                Some((name.trim().to_owned(), text.trim().to_owned()))
            };
            items.map(assignment).collect()
        }
        _ => None,
    };
    texts.map(|texts| json!(texts))
}

pub(super) fn count_entries(value: &ConfigValue) -> Option<usize> {
    match value {
        ConfigValue::List(items) => Some(items.len()),
        ConfigValue::Section(entries) => Some(entries.len()),
        _ => None,
    }
}
