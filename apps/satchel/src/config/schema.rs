//! The JSON Schema of the configuration file, derived from [`Config`], for checking the tree and for editors.
//!
//! Draft 7, because editors' YAML servers support it best. In addition to its vocabulary a setting may have `x-kind`
//! (how its text is parsed), `x-default` (its default, as text) and `x-next` (what it enables that isn't built yet; for
//! a URL, by its scheme).

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value as Json, json};

use super::{
    CONFIG_VARIABLE, Config,
    leaf::{Leaf, LeafKind, address::FilePath, schema_with_kind},
    overrides::variable_name,
    tree::{ConfigNode, ConfigValue},
};

/// The placeholder for the name of a model or a schedule.
pub(super) const NAME_PLACEHOLDER: &str = "NAME";

/// The `x-kind` of a `…_file` key.
const FILE_KEY_KIND: &str = "file-of";

static SCHEMA: LazyLock<Json> = LazyLock::new(|| {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut root = settings.into_generator().into_root_schema_for::<Config>().to_value();
    complete_schema(&mut root, "");
    root["type"] = json!(["object", "null"]);
    root["title"] = json!("Satchel's configuration");
    root["description"] = json!(format!(
        "Every key can also be given by an environment variable (`delivery.max_age` is {}) or with --set. \
         {CONFIG_VARIABLE} names the file.",
        variable_name("delivery.max_age")
    ));
    root
});

/// The schema of `satchel.yaml`.
#[must_use]
pub fn schema() -> &'static Json {
    &SCHEMA
}

/// The keys outside of sections, including their `…_file` keys.
pub(super) fn top_level_keys() -> Vec<&'static str> {
    let properties = schema()["properties"].as_object().into_iter().flatten();
    properties.filter(|(_, property)| !is_section(property)).map(|(name, _)| name.as_str()).collect()
}

/// What a setting does, by its key; empty for an unknown one.
pub(crate) fn describe(key: &str) -> &'static str {
    let step = |schema: &'static Json, name| schema["properties"].get(name).or_else(|| entry_schema(schema));
    let found = key.split('.').try_fold(schema(), step);
    found.and_then(|setting| setting["description"].as_str()).unwrap_or_default()
}

/// The schema of the entries of a section with keys of the owner's choice.
pub(super) fn entry_schema(schema: &Json) -> Option<&Json> {
    schema.get("additionalProperties").filter(|entry_schema| entry_schema.is_object())
}

pub(super) fn is_section(schema: &Json) -> bool {
    schema.get("properties").is_some() || entry_schema(schema).is_some()
}

/// Whether it is the schema of a `…_file` key.
pub(super) fn is_file_key(schema: &Json) -> bool {
    schema["x-kind"] == FILE_KEY_KIND
}

/// The default, or its text.
pub(super) fn default_value(schema: &Json) -> Json {
    let default = schema.get("default").or_else(|| schema.get("x-default"));
    default.cloned().unwrap_or(Json::Null)
}

/// The unbuilt feature that a valid value enables.
pub(super) fn unbuilt_feature<'a>(schema: &'a Json, node: &ConfigNode) -> Option<&'a str> {
    let unbuilt = schema.get("x-next")?;
    match &node.value {
        ConfigValue::List(items) if items.is_empty() => None,
        ConfigValue::Section(entries) if entries.is_empty() => None,
        ConfigValue::Text(url) | ConfigValue::Untyped(url) => unbuilt.get(url.split_once(':')?.0)?.as_str(),
        _ => unbuilt.as_str(),
    }
}

/// Completes the derived schema: sections may be empty and have no unknown keys, settings are never null, and values
/// that a file may hold get a `…_file` key.
fn complete_schema(schema: &mut Json, key: &str) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Json::String(description)) = object.get_mut("description") {
        *description = description.replace('\n', " ");
    }
    if let Some(entry_schema) = object.get_mut("additionalProperties").filter(|each| each.is_object()) {
        complete_schema(entry_schema, &format!("{key}.{NAME_PLACEHOLDER}"));
        entry_schema["type"] = json!("object");
    } else if let Some(Json::Object(properties)) = object.remove("properties") {
        let required = object.get("required").cloned().unwrap_or(Json::Null);
        let is_required = |name: &String| required.as_array().is_some_and(|names| names.contains(&json!(name)));
        let mut completed = Map::new();
        for (name, mut property) in properties {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            complete_schema(&mut property, &key);
            // A required setting has no default.
            if let (true, Some(property)) = (is_required(&name), property.as_object_mut()) {
                property.remove("default");
            }
            let has_file_key = LeafKind::for_schema(&property).is_some_and(|kind| kind.read_file.is_some());
            completed.insert(name.clone(), property);
            if has_file_key {
                let mut file = schema_with_kind(FILE_KEY_KIND, FilePath::schema()).to_value();
                file["description"] = json!(format!("The file that holds `{key}`; instead of it, never beside it."));
                completed.insert(format!("{name}_file"), file);
            }
        }
        object.insert("properties".to_owned(), Json::Object(completed));
        object.insert("additionalProperties".to_owned(), json!(false));
    } else {
        remove_null(object);
        return;
    }
    object.remove("default");
    object.insert("type".to_owned(), json!(["object", "null"]));
}

/// Removes the null that an `Option` adds: a setting that isn't given is absent.
fn remove_null(object: &mut Map<String, Json>) {
    let is_null = |schema: &Json| schema["type"] == "null";
    if let Some(Json::Array(any_of)) = object.get("anyOf")
        && any_of.iter().any(is_null)
    {
        let alternatives: Vec<Json> = any_of.iter().filter(|schema| !is_null(schema)).cloned().collect();
        object.remove("anyOf");
        for inner in alternatives {
            object.extend(inner.as_object().cloned().unwrap_or_default());
        }
    }
    if let Some(Json::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Json::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if object.get("default").is_some_and(Json::is_null) {
        object.remove("default");
    }
}

#[cfg(test)]
pub(crate) mod tests;
