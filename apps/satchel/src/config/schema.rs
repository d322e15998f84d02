//! The JSON Schema of the configuration file, derived from [`Config`], by which the tree is checked and editors help.
//!
//! Draft 7, because that is what the editors' YAML servers know best. Besides its vocabulary a setting may have `x-kind`
//! (how its text is read), `x-default` (what counts without it, in words) and `x-next` (what it switches on that isn't
//! built yet; of a URL, by its scheme).

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value as Json, json};

use super::{
    CONFIG_VARIABLE, Config,
    leaf::{Kind, Leaf, address::FilePath, schema_of},
    overrides::variable_of,
    tree::{ConfigNode, ConfigValue},
};

/// Stands for any name that the owner gives a model or a schedule.
pub(super) const NAME: &str = "NAME";

/// The `x-kind` of a key that names the file with the value of another.
const FILE_OF: &str = "file-of";

static SCHEMA: LazyLock<Json> = LazyLock::new(|| {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut root = settings.into_generator().into_root_schema_for::<Config>().to_value();
    complete(&mut root, "");
    root["type"] = json!(["object", "null"]);
    root["title"] = json!("Satchel's configuration");
    root["description"] = json!(format!(
        "Every key can also be given by an environment variable (`delivery.max_age` is {}) or with --set. \
         {CONFIG_VARIABLE} names the file.",
        variable_of("delivery.max_age")
    ));
    root
});

/// The schema of `satchel.yaml`.
#[must_use]
pub fn schema() -> &'static Json {
    &SCHEMA
}

/// The keys that stand in no section, the ones that name a file instead of a value among them.
pub(super) fn plain_keys() -> Vec<&'static str> {
    let properties = schema()["properties"].as_object().into_iter().flatten();
    properties.filter(|(_, property)| !is_section(property)).map(|(name, _)| name.as_str()).collect()
}

/// The schema of each section of a section whose keys the owner names.
pub(super) fn each_named(schema: &Json) -> Option<&Json> {
    schema.get("additionalProperties").filter(|each| each.is_object())
}

pub(super) fn is_section(schema: &Json) -> bool {
    schema.get("properties").is_some() || each_named(schema).is_some()
}

/// Whether it is a second key that names the file with the value of the first.
pub(super) fn names_a_file(schema: &Json) -> bool {
    schema["x-kind"] == FILE_OF
}

/// What counts where nothing is given: the default, or what stands for it in words.
pub(super) fn default_of(schema: &Json) -> Json {
    let default = schema.get("default").or_else(|| schema.get("x-default"));
    default.cloned().unwrap_or(Json::Null)
}

/// What a value that passed switches on and isn't built yet.
pub(super) fn not_built<'a>(schema: &'a Json, node: &ConfigNode) -> Option<&'a str> {
    let next = schema.get("x-next")?;
    match &node.value {
        ConfigValue::List(items) if items.is_empty() => None,
        ConfigValue::Section(entries) if entries.is_empty() => None,
        ConfigValue::Text(url) | ConfigValue::Given(url) => next.get(url.split_once(':')?.0)?.as_str(),
        _ => next.as_str(),
    }
}

/// Completes what is derived: sections may be empty and hold no unknown keys, settings are never null, and beside what
/// can be given by file stands the key that names it.
fn complete(schema: &mut Json, key: &str) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Json::String(words)) = object.get_mut("description") {
        *words = words.replace('\n', " ");
    }
    if let Some(each) = object.get_mut("additionalProperties").filter(|each| each.is_object()) {
        complete(each, &format!("{key}.{NAME}"));
        each["type"] = json!("object");
    } else if let Some(Json::Object(properties)) = object.remove("properties") {
        let required = object.get("required").cloned().unwrap_or(Json::Null);
        let is_required = |name: &String| required.as_array().is_some_and(|names| names.contains(&json!(name)));
        let mut completed = Map::new();
        for (name, mut property) in properties {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            complete(&mut property, &key);
            // What can't be left out has no default.
            if let (true, Some(property)) = (is_required(&name), property.as_object_mut()) {
                property.remove("default");
            }
            let has_file_key = Kind::find(&property).is_some_and(|kind| kind.read_file.is_some());
            completed.insert(name.clone(), property);
            if has_file_key {
                let mut file = schema_of(FILE_OF, FilePath::schema()).to_value();
                file["description"] = json!(format!("The file that holds `{key}`; instead of it, never beside it."));
                completed.insert(format!("{name}_file"), file);
            }
        }
        object.insert("properties".to_owned(), Json::Object(completed));
        object.insert("additionalProperties".to_owned(), json!(false));
    } else {
        never_null(object);
        return;
    }
    object.remove("default");
    object.insert("type".to_owned(), json!(["object", "null"]));
}

/// Takes away what an `Option` adds: a setting that isn't given is not null but absent.
fn never_null(object: &mut Map<String, Json>) {
    let is_null = |schema: &Json| schema["type"] == "null";
    if let Some(Json::Array(any_of)) = object.get("anyOf")
        && any_of.iter().any(is_null)
    {
        let of: Vec<Json> = any_of.iter().filter(|schema| !is_null(schema)).cloned().collect();
        object.remove("anyOf");
        for inner in of {
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
