//! The JSON Schema of the configuration file, made of what the reader asks for, so that the two can't differ.
//!
//! Draft 7, because that is what the editors' YAML servers know best.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{
    CONFIG_VARIABLE, Sources,
    descriptions::DESCRIPTIONS,
    fields::{Field, Kind},
    origin::Origin,
    overlay::variable_of,
    reader::Reader,
    tree::{self, Node},
};

/// Stands for whatever name the owner gives a model or a schedule.
const NAME: &str = "NAME";

/// The schema of `satchel.yaml`.
#[must_use]
pub fn schema() -> Value {
    let mut root = section("");
    root.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
    root.insert("title".to_owned(), json!("Satchel's configuration"));
    root.insert(
        "description".to_owned(),
        json!(format!(
            "Every key can also be given by an environment variable (`delivery.max_age` is {}) or with --set. \
             {CONFIG_VARIABLE} names the file.",
            variable_of("delivery.max_age")
        )),
    );
    for field in fields() {
        place(&mut root, "", &field.key, &field);
    }
    Value::Object(root)
}

/// Everything that the reader asks for, with one model and one schedule of the name `NAME`.
pub(super) fn fields() -> Vec<Field> {
    let mut root = Node::empty_section();
    if let tree::Value::Section(entries) = &mut root.value {
        let given = |value| Node { value, origin: Origin::Default };
        for (section, name, value) in [("models", "provider", "offline"), ("schedules", "cron", "@daily")] {
            let field = (name.to_owned(), given(tree::Value::Given(value.to_owned())));
            let named = (NAME.to_owned(), given(tree::Value::Section(vec![field])));
            entries.push((section.to_owned(), given(tree::Value::Section(vec![named]))));
        }
    }
    let nowhere = Path::new("");
    let mut reader = Reader::new(root, nowhere, Vec::new());
    super::read(&mut reader, &Sources { file: None, set: &[], environment: &[], cwd: nowhere });
    reader.finish().fields
}

/// The keys that stand in no section, the ones that name a file instead of a value among them.
pub(super) fn plain_keys() -> Vec<String> {
    let plain = fields().into_iter().filter(|field| !field.key.contains('.'));
    let file_key = |field: &Field| has_file_key(field).then(|| format!("{}_file", field.key));
    plain.flat_map(|field| std::iter::once(field.key.clone()).chain(file_key(&field))).collect()
}

/// Whether a second key, which ends with `_file`, can name a file that holds the value.
fn has_file_key(field: &Field) -> bool {
    matches!(field.kind, Kind::Secret | Kind::TextOrFile)
}

/// Puts a field into the section `at`, whose `properties` hold it or the section that does.
fn place(into: &mut Map<String, Value>, at: &str, rest: &str, field: &Field) {
    let (name, inner) = match rest.split_once('.') {
        Some((name, inner)) => (name, Some(inner)),
        None => (rest, None),
    };
    let key = if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    // A name that the owner chooses is no property: whatever stands there is a section of this shape.
    let entries = match name {
        NAME => into,
        _ => into.entry("properties").or_insert_with(|| json!({})).as_object_mut().expect("properties are an object"),
    };
    let name = if name == NAME { "additionalProperties" } else { name };
    match inner {
        Some(inner) => {
            if !entries.get(name).is_some_and(Value::is_object) {
                entries.insert(name.to_owned(), Value::Object(section(&key)));
            }
            let section = entries[name].as_object_mut().expect("a section is an object");
            place(section, &key, inner, field);
        }
        None => {
            entries.insert(name.to_owned(), described(value_of(field), &key));
            if has_file_key(field) {
                let words = format!("The file that holds `{key}`; instead of it, never beside it.");
                entries
                    .insert(format!("{name}_file"), json!({ "type": "string", "minLength": 1, "description": words }));
            }
        }
    }
}

/// A section without keys. One that holds nothing but comments is null to YAML.
fn section(key: &str) -> Map<String, Value> {
    let mut section = Map::new();
    section.insert("type".to_owned(), json!(["object", "null"]));
    section.insert("additionalProperties".to_owned(), json!(false));
    match key {
        "models" => drop(section.insert("propertyNames".to_owned(), json!({ "pattern": r"^[^.]+$" }))),
        "models.NAME" => {
            section.insert("type".to_owned(), json!("object"));
            section.insert("required".to_owned(), json!(["provider"]));
        }
        "schedules" => drop(section.insert("propertyNames".to_owned(), json!({ "pattern": r"^[A-Za-z0-9_-]{1,64}$" }))),
        "schedules.NAME" => {
            section.insert("type".to_owned(), json!("object"));
            section.insert("required".to_owned(), json!(["cron", "conversation"]));
            let alternatives = ["prompt", "script", "script_file"].map(|key| json!({ "required": [key] }));
            section.insert("oneOf".to_owned(), json!(alternatives));
        }
        _ => {}
    }
    if let Some(words) = description(key) {
        section.insert("description".to_owned(), json!(words));
    }
    section
}

fn value_of(field: &Field) -> Value {
    let mut value = match &field.kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Names => json!({
            "anyOf": [{ "type": "string" }, { "type": "array", "minItems": 1, "items": { "type": ["string", "integer"] } }]
        }),
        Kind::Switch => json!({ "enum": [true, false, "on", "off"] }),
        Kind::Choice(words) => json!({ "type": "string", "enum": words }),
        Kind::Size => json!({
            "anyOf": [
                { "type": "integer", "minimum": 1 },
                { "type": "string", "pattern": r"^\s*0*[1-9][0-9]*\s*(([KkMmGgTt][Ii]?)?[Bb])?\s*$" }
            ],
            "examples": ["500KB", "50MB", "2GiB"]
        }),
        Kind::SizeOrZero => json!({
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": r"^\s*[0-9]+\s*(([KkMmGgTt][Ii]?)?[Bb])?\s*$" }
            ],
            "examples": ["500MB", "1GiB", 0]
        }),
        Kind::Duration => json!({
            "type": "string", "pattern": r"^\s*0*[1-9][0-9]*\s*(ms|s|m|h|d)\s*$", "examples": ["30s", "10m", "24h", "2d"]
        }),
        Kind::Count(range) => json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() }),
        Kind::Path => json!({ "type": "string", "minLength": 1 }),
        Kind::Url(pattern) => json!({ "type": "string", "pattern": pattern }),
        Kind::Secret | Kind::TextOrFile => json!({ "type": "string", "pattern": r"\S" }),
        Kind::Texts => json!({ "type": "array", "items": { "type": ["string", "integer"] } }),
        Kind::Choices(words) => json!({ "type": "array", "items": { "type": "string", "enum": words } }),
        Kind::Declared => json!({ "type": ["array", "object"] }),
        Kind::Listen => json!({
            "type": "string", "pattern": r"^(off|[0-9.]+:[0-9]{1,5}|\[[0-9A-Fa-f:.]+\]:[0-9]{1,5})$",
            "examples": ["127.0.0.1:8787", "off"]
        }),
    };
    let required = field.key == format!("models.{NAME}.provider");
    if let (Some(default), Some(object), false) = (&field.default, value.as_object_mut(), required) {
        object.insert("default".to_owned(), default.clone());
    }
    value
}

fn described(mut value: Value, key: &str) -> Value {
    if let (Some(words), Some(object)) = (description(key), value.as_object_mut()) {
        object.insert("description".to_owned(), json!(words));
    }
    value
}

fn description(key: &str) -> Option<&'static str> {
    DESCRIPTIONS.iter().find(|(described, _)| *described == key).map(|(_, words)| *words)
}

#[cfg(test)]
pub(crate) mod tests;
