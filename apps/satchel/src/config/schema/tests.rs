//! The schema and the reader say the same: about keys, and about values as far as a schema can.

use std::collections::BTreeSet;

use boon::{Compiler, SchemaIndex, Schemas};

use super::*;
use crate::config::{load_text, origin::Problems};

const EVERY_KEY: &str = include_str!("../tests/every_key.yaml");

/// The compiled schema, as an editor uses it.
struct Editor {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Editor {
    fn new() -> Self {
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.add_resource("satchel.schema.json", schema()).unwrap();
        let index = compiler.compile("satchel.schema.json", &mut schemas).unwrap();
        Self { schemas, index }
    }

    fn complaint(&self, yaml: &str) -> Option<String> {
        // As YAML 1.2 has it, and with it the editors: `off` is text.
        let options = serde_saphyr::options! { strict_booleans: true };
        let value: Value = serde_saphyr::from_str_with_options(yaml, options).unwrap();
        self.schemas.validate(&value, self.index).err().map(|error| format!("{error:#}"))
    }
}

/// For whoever writes configuration files.
pub(crate) fn assert_accepted(yaml: &str) {
    assert_eq!(Editor::new().complaint(yaml), None, "{yaml}");
    assert!(reader_says(yaml).is_ok(), "{yaml}: {}", reader_says(yaml).unwrap_err());
}

fn reader_says(yaml: &str) -> Result<(), Problems> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("secret"), "four words of mine").unwrap();
    let path = directory.path().join("satchel.yaml");
    let sources = Sources { file: None, set: &[], environment: &[], cwd: directory.path() };
    load_text(&path, yaml, &sources).map(drop)
}

/// Every key of the schema.
fn keys(section: &Value, at: &str, found: &mut BTreeSet<String>) {
    let mut inner: Vec<(&str, &Value)> = Vec::new();
    if let Some(properties) = section["properties"].as_object() {
        inner.extend(properties.iter().map(|(name, value)| (name.as_str(), value)));
    }
    if section["additionalProperties"].is_object() {
        inner.push((NAME, &section["additionalProperties"]));
    }
    for (name, value) in inner {
        let key = if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
        let is_section = value.get("properties").is_some() || value["additionalProperties"].is_object();
        match is_section {
            true => keys(value, &key, found),
            false => drop(found.insert(key)),
        }
    }
}

#[test]
fn the_schema_has_the_readers_keys_and_no_others() {
    let mut found = BTreeSet::new();
    keys(&schema(), "", &mut found);
    let mut known = BTreeSet::new();
    for field in fields() {
        if matches!(field.kind, Kind::Secret | Kind::TextOrFile) {
            known.insert(format!("{}_file", field.key));
        }
        known.insert(field.key);
    }
    assert_eq!(found, known);
    assert!(known.contains("models.NAME.api_key_file") && known.len() > 55, "{}", known.len());
}

#[test]
fn every_key_and_section_is_described_and_nothing_else_is() {
    let mut named = BTreeSet::new();
    for field in fields() {
        let names: Vec<&str> = field.key.split('.').collect();
        named.extend((1..=names.len()).map(|depth| names[..depth].join(".")));
    }
    let described: BTreeSet<String> = DESCRIPTIONS.iter().map(|(key, _)| (*key).to_owned()).collect();
    assert_eq!(described, named);
    for (key, words) in DESCRIPTIONS {
        assert!(words.ends_with('.') && words.len() > 5, "{key}: {words:?}");
    }
}

#[test]
fn what_can_be_given_is_accepted() {
    for yaml in [
        EVERY_KEY,
        "{}\n",
        "instructions: |\n  You are Ada's librarian.\n  Be brief.\n",
        "instructions_file: secret\n",
        "model: [a, offline]\nmodels:\n  a: { provider: gemini }\n",
        "telegram:\n  # token: x\nturn:\n",
        "web: { listen: off }\n",
        "web: { listen: '[::1]:80' }\n",
        "workspace: { quota: 5 }\n",
        "workspace: { quota: 10 kb }\n",
        "storage: { reserve: 0 }\n",
        "storage: { reserve: 1GiB }\n",
        "delivery: { max_age: 2d }\n",
        "schedules: { r: { cron: '@daily', conversation: 'web:r', prompt: hi, enabled: off } }\n",
        "schedules: { r: { cron: '@daily', conversation: 'web:r', script: return 1, enabled: true } }\n",
        "storage: { database_url: 'postgres://u@h/d', blobs_url: 's3://b' }\nbus: { url: 'nats://h' }\n",
    ] {
        assert_accepted(yaml);
    }
}

#[test]
fn what_is_refused_is_marked_in_the_editor_too() {
    let editor = Editor::new();
    for yaml in [
        "telegram:\n  tokn: x\n",
        "modle: x\n",
        "storage: here\n",
        "models: [a]\n",
        "model: 4\n",
        "model: []\n",
        "turn: { model_calls: 0 }\n",
        "turn: { model_calls: lots }\n",
        "turn: { model_calls: 2.5 }\n",
        "delivery: { max_age: 24 }\n",
        "delivery: { max_age: soon }\n",
        "delivery: { max_age: 0s }\n",
        "delivery: { pace: fast }\n",
        "workspace: { quota: 2 gigs }\n",
        "storage: { reserve: 5% }\n",
        "storage: { reserve: -1 }\n",
        "workspace: { quota: 0 }\n",
        "tools: { confirm: [dangerous] }\n",
        "telegram: { api_url: telegram.org }\n",
        "telegram: { token: ' ' }\n",
        "instructions: ' '\n",
        "instructions: [a]\n",
        "storage: { database_url: 'mysql://x' }\n",
        "storage: { blobs_url: 'file:' }\n",
        "bus: { url: 'amqp://x' }\n",
        "web: { listen: localhost }\n",
        "models: { a: { provider: openia } }\n",
        "models: { a: { model: x } }\n",
        "models: { 'a.b': { provider: offline } }\n",
        "schedules: daily\n",
        "schedules: { r: { cron: '@daily', prompt: hi } }\n",
        "schedules: { r: { prompt: hi, conversation: 'web:r' } }\n",
        "schedules: { r: { cron: '@daily', conversation: 'web:r' } }\n",
        "schedules: { r: { cron: '@daily', conversation: 'web:r', prompt: hi, script: return 1 } }\n",
        "schedules: { r: { cron: '@daily', conversation: 'web:r', prompt: hi, enabled: maybe } }\n",
        "schedules: { 'a b': { cron: '@daily', conversation: 'web:r', prompt: hi } }\n",
    ] {
        assert!(editor.complaint(yaml).is_some(), "{yaml}");
        assert!(reader_says(yaml).is_err(), "{yaml}");
    }
}

#[test]
fn the_defaults_are_those_that_count() {
    let schema = schema();
    let default = |section: &str, key: &str| schema["properties"][section]["properties"][key]["default"].clone();
    assert_eq!(default("delivery", "max_age"), json!("24h"));
    assert_eq!(default("turn", "model_calls"), json!(25));
    assert_eq!(default("web", "listen"), json!("127.0.0.1:8787"));
    assert_eq!(default("metrics", "listen"), json!("off"));
    assert_eq!(default("tools", "confirm"), json!(["privileged"]));
    assert_eq!(
        schema["properties"]["models"]["additionalProperties"]["properties"]["provider"]["default"],
        Value::Null
    );
}

const GUIDE: &str = include_str!("../../../../../docs/guide/configuration.md");

/// The keys in the first columns of a text's tables: `a.{b,c}` stands for two of them, `.c` beside `a.b` for `a.c`.
fn keys_of_tables(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let cell = row.split(" | ").next().unwrap();
        let mut section = String::new();
        for written in cell.split('`').skip(1).step_by(2) {
            let written = written.split(':').next().unwrap();
            let key = match written.strip_prefix('.') {
                Some(_) => format!("{section}{written}"),
                None => written.to_owned(),
            };
            section = key.rsplit_once('.').map_or(String::new(), |(section, _)| section.to_owned());
            match key.split_once('{') {
                Some((section, names)) => {
                    let names = names.trim_end_matches('}').split(',');
                    found.extend(names.map(|name| format!("{section}{name}")));
                }
                None => drop(found.insert(key)),
            }
        }
    }
    found
}

#[test]
fn the_guide_names_every_setting() {
    let known: BTreeSet<String> = fields().into_iter().map(|field| field.key).collect();
    assert_eq!(keys_of_tables(GUIDE), known);
}

#[test]
fn documents_name_the_keys_without_effect() {
    let without_effect: BTreeSet<&str> = DESCRIPTIONS
        .iter()
        .filter(|(_, description)| description.ends_with("No effect yet."))
        .map(|(key, _)| *key)
        .collect();
    let (_, guide) = GUIDE.split_once("have no effect yet\n").unwrap();
    let (guide, _) = guide.split_once("\n## ").unwrap();
    let guide = keys_of_tables(guide);
    let is_below = |key: &str, section: &str| key == section || key.starts_with(&format!("{section}."));
    for key in &guide {
        assert!(without_effect.iter().any(|section| is_below(key, section)), "`{key}` has an effect");
    }
    for section in &without_effect {
        assert!(guide.iter().any(|key| is_below(key, section)), "the guide doesn't say that `{section}` has no effect");
    }
    let (_, limits) = include_str!("../../../../../CHANGELOG.md").split_once("### Known limits\n").unwrap();
    let line = limits.split("\n- ").find(|line| line.contains("no effect yet")).unwrap();
    let told: BTreeSet<&str> = line.split('`').skip(1).step_by(2).collect();
    assert_eq!(told, without_effect, "the changelog");
}
