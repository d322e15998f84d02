//! The schema of agents and tasks, for editors. The files themselves are checked when they are read.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value as Json, json};

use crate::config::leaf::schema_with_kind;

/// The `x-kind` of both lists.
pub(in crate::config) const KIND: &str = "playbook";

const ID_PATTERN: &str = "^[A-Za-z]([A-Za-z0-9_-]{0,62}[A-Za-z0-9_])?$";

/// The type of `agents`; the entries are read with their positions.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::config) struct DeclaredAgents;

/// The type of `tasks`; the entries are read with their positions.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::config) struct DeclaredTasks;

/// Implements serde's and schemars's traits for a list that the configuration itself doesn't hold.
macro_rules! declared_list {
    ($type:ty, $name:literal, $entry:ident) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_unit()
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <()>::deserialize(deserializer).map(|()| Self)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                schema_with_kind(KIND, json!({ "type": "array", "items": $entry() }))
            }
        }
    };
}

declared_list!(DeclaredAgents, "agents", agent);
declared_list!(DeclaredTasks, "tasks", task);

fn agent() -> Json {
    json!({
        "type": "object",
        "required": ["id", "instructions"],
        "additionalProperties": false,
        "properties": {
            "id": id("The name of the agent."),
            "description": text("One line about the agent, for lists."),
            "instructions": text("Who the agent is and how it should answer, in words for the model."),
            "model": text("A name under `models`; without it the default model."),
            "tools": { "type": "array", "items": { "type": "string" }, "description": "The tools that it may use; without it all." },
            "allow": allow("Who may switch to the agent in chat."),
            "attachments": attachments("Files that stand before its instructions."),
            "actions": {
                "type": "array",
                "description": "Its prompts, which tasks name.",
                "items": {
                    "type": "object",
                    "required": ["id", "prompt"],
                    "additionalProperties": false,
                    "properties": {
                        "id": id("The name of the action."),
                        "prompt": text("What the model is asked. May hold templates."),
                        "attachments": attachments("Files that stand before the prompt."),
                    }
                }
            }
        }
    })
}

fn task() -> Json {
    json!({
        "type": "object",
        "required": ["id", "agent", "action"],
        "additionalProperties": false,
        "properties": {
            "id": id("The name of the task."),
            "type": { "type": "string", "enum": ["basic"], "description": "An agent with one of its actions." },
            "description": text("One line about the task, for lists."),
            "agent": {
                "description": "The agent, by its id.",
                "anyOf": [
                    { "type": "string" },
                    { "type": "object", "required": ["id"], "additionalProperties": false, "properties": { "id": { "type": "string" } } }
                ]
            },
            "action": text("One of the agent's actions, by its id."),
            "allow": allow("Who may run the task in chat."),
            "input": {
                "type": "object",
                "additionalProperties": { "type": "string" },
                "description": "Inputs of the task itself, as `input.NAME` in templates; whoever runs it can't change them."
            },
            "attachments": attachments("Files for the task's agent."),
        }
    })
}

fn attachments(description: &str) -> Json {
    let bound = |description: &str| json!({ "type": "integer", "minimum": 1, "description": description });
    let list = |description: &str| json!({ "type": "array", "minItems": 1, "items": { "type": "string" }, "description": description });
    json!({
        "type": "array",
        "description": description,
        "items": {
            "type": "object",
            "required": ["type"],
            "additionalProperties": false,
            "properties": {
                "type": {
                    "description": "The kind of the file; document is another word for pdf. May be a template.",
                    "anyOf": [
                        { "enum": ["image", "pdf", "document", "audio", "video", "file", "url"] },
                        { "type": "string", "pattern": r"\{\{" }
                    ]
                },
                "url": text("Where it is on the web. May be a template."),
                "path": text("Where it is, relative to this file and beneath its directory. May be a template."),
                "urls": list("Several of them."),
                "paths": list("Several of them; *, **, ?, [a-z] and {a,b} match names."),
                "name": text("What the model calls it. May be a template."),
                "mime": text("A hint at its type; the bytes decide."),
                "meta": { "type": "object", "description": "Anything else that the model is told of it." },
                "optional": { "type": "boolean", "description": "Whether the model is told when it can't be had, instead of a failed task." },
                "max_width": bound("Of an image, in pixels: a larger one is scaled down."),
                "max_height": bound("Of an image, in pixels: a larger one is scaled down."),
                "max_pages": bound("Of a PDF: the model gets the text of so many pages, and not the file."),
            },
            "oneOf": [{ "required": ["url"] }, { "required": ["path"] }, { "required": ["urls"] }, { "required": ["paths"] }]
        }
    })
}

fn id(description: &str) -> Json {
    json!({ "type": "string", "pattern": ID_PATTERN, "description": description })
}

fn text(description: &str) -> Json {
    json!({ "type": "string", "description": description })
}

fn allow(description: &str) -> Json {
    json!({ "type": "string", "enum": ["owners", "everyone"], "default": "owners", "description": description })
}
