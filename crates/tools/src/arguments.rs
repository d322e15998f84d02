//! The way from what a model wrote to a tool's typed arguments, and from their type to the schema that it is shown.

use std::fmt::Display;

use satchel_domain::WorkspacePath;
use satchel_ports::{SafetyTier, ToolError, ToolSpec};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Deserializer, de, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::error;

/// The longest description of a file, in bytes. What doesn't fit into a caption is sent as text, so a longer one would
/// flood its chat.
const MAX_DESCRIPTION_BYTES: usize = 4 << 10;

/// Describes a tool whose arguments are `T`. The doc comments of its fields are what the model reads.
pub(crate) fn tool_spec<T: JsonSchema>(name: &str, tier: SafetyTier, description: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: argument_schema::<T>(),
        tier,
        time_limit: None,
    }
}

/// Reads a tool's arguments, or says which is wrong, what was given and what is allowed.
///
/// `null` counts as absent, because some providers fill in every optional argument with it.
pub(crate) fn parse_arguments<T: DeserializeOwned + JsonSchema>(arguments: Value) -> Result<T, ToolError> {
    let given = match arguments {
        Value::Object(given) => given,
        Value::Null => Map::new(),
        other => {
            let excerpt: String = other.to_string().chars().take(100).collect();
            return Err(error::tool_error(format!(
                "the arguments must be a JSON object, not {excerpt}; {}",
                describe_arguments::<T>()
            )));
        }
    };
    let given: Map<String, Value> = given.into_iter().filter(|(_, value)| !value.is_null()).collect();
    serde_path_to_error::deserialize(Value::Object(given)).map_err(|error| {
        let prefix = match error.path().to_string().as_str() {
            "." => String::new(),
            path => format!("argument `{path}`: "),
        };
        // The allowed arguments come before what was given could push them out of the error's length.
        let reason: String = error.inner().to_string().chars().take(400).collect();
        error::tool_error(format!("{prefix}{reason}; {}", describe_arguments::<T>()))
    })
}

/// Names the arguments of `T` with their types, for errors.
fn describe_arguments<T: JsonSchema>() -> String {
    let schema = argument_schema::<T>();
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let arguments: Vec<String> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let kind = property["type"].as_str().unwrap_or("value");
            let suffix = if required.contains(&name.as_str()) { ", required" } else { "" };
            format!("`{name}` ({kind}{suffix})")
        })
        .collect();
    format!("allowed are {}", arguments.join(", "))
}

fn argument_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        object.remove("description");
        object.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    simplify_schema(&mut schema);
    schema
}

/// Takes out of a schema what some providers refuse and no model needs: formats, nulls, types that may be null, and
/// the source's line breaks.
fn simplify_schema(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.remove("format");
            if let Some(Value::String(description)) = object.get_mut("description") {
                *description = description.replace('\n', " ");
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            object.values_mut().for_each(simplify_schema);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify_schema),
        _ => {}
    }
}

/// Reads a MIME type, or says how one is written.
pub(crate) fn parse_mime(given: &str) -> Result<String, ToolError> {
    let mime = given.trim().to_ascii_lowercase();
    // The token characters of RFC 6838, 4.2: nothing that could end a header.
    let is_name = |name: &str| {
        (1..=127).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    match mime.split_once('/') {
        Some((kind, subtype)) if is_name(kind) && is_name(subtype) => Ok(mime),
        _ => {
            let excerpt: String = given.escape_debug().take(100).collect();
            Err(error::tool_error(format!(
                "`{excerpt}` is not a MIME type: they are written type/subtype, such as image/png"
            )))
        }
    }
}

/// Takes the description of a file, or says that it is too long.
pub(crate) fn check_description(file: impl Display, description: String) -> Result<String, ToolError> {
    let bytes = description.len();
    if bytes > MAX_DESCRIPTION_BYTES {
        return Err(error::tool_error(format!(
            "the description of {file} has {bytes} bytes; at most {MAX_DESCRIPTION_BYTES} are allowed: say more in the text"
        )));
    }
    Ok(description)
}

/// The path of a file, as opposed to a directory: neither a mount nor written with a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkspaceFilePath(pub(crate) WorkspacePath);

impl<'de> Deserialize<'de> for WorkspaceFilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = String::deserialize(deserializer)?;
        let path: WorkspacePath = given.parse().map_err(de::Error::custom)?;
        if path.file_name().is_none() || given.ends_with('/') {
            return Err(de::Error::custom(format!(
                "`{path}` names a directory: add a filename, such as {path}/photo.jpg"
            )));
        }
        Ok(Self(path))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its reading is tested")]
    struct Arguments {
        #[schemars(with = "String")]
        path: WorkspaceFilePath,
        index: Option<u64>,
        #[serde(default)]
        names: Vec<String>,
        #[serde(default)]
        overwrite: bool,
    }

    #[test]
    fn argument_error_names_argument_value_and_allowed() {
        let allowed =
            "allowed are `path` (string, required), `index` (integer), `names` (array), `overwrite` (boolean)";
        for (given, says) in [
            (json!("save it"), vec!["must be a JSON object", "\"save it\""]),
            (json!([1]), vec!["must be a JSON object", "[1]"]),
            (json!({}), vec!["missing field `path`"]),
            (json!(null), vec!["missing field `path`"]),
            (json!({"path": "/shared/a", "pth": 1}), vec!["unknown field `pth`"]),
            (json!({"path": 7}), vec!["argument `path`", "integer `7`"]),
            (json!({"path": "/etc/passwd"}), vec!["argument `path`", "`/etc/passwd`", "/shared"]),
            (json!({"path": "/shared/dir/"}), vec!["argument `path`", "names a directory", "/shared/dir/photo.jpg"]),
            (json!({"path": "/shared"}), vec!["argument `path`", "names a directory"]),
            (json!({"path": "/tmp/a", "index": -1}), vec!["argument `index`", "`-1`"]),
            (json!({"path": "/tmp/a", "index": "0"}), vec!["argument `index`", "string \"0\""]),
            (json!({"path": "/tmp/a", "names": ["a", 2]}), vec!["argument `names[1]`", "`2`"]),
            (json!({"path": "/tmp/a", "index": "x".repeat(100_000)}), vec!["argument `index`"]),
        ] {
            let error = parse_arguments::<Arguments>(given.clone()).expect_err("a wrong argument").0;
            for words in says.into_iter().chain([allowed]) {
                assert!(error.contains(words), "{given:.80}: `{words}` is not in `{error}`");
            }
            assert!(error.len() < 1100, "{} bytes", error.len());
        }
    }

    #[test]
    fn null_counts_as_absent() {
        let read =
            parse_arguments::<Arguments>(json!({"path": "~/a", "index": null, "names": null, "overwrite": null}));
        assert!(read.is_ok_and(|read| read.path.0.to_string() == "/shared/a" && read.index.is_none()));
    }
}
