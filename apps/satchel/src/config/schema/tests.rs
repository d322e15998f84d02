//! The schema and the reader say the same: about keys, and about values as far as a schema can.

use std::collections::BTreeSet;

use boon::{Compiler, SchemaIndex, Schemas};

use super::*;
use crate::config::{ConfigSources, load_text, origin::ConfigProblems};

const EVERY_KEY: &str = include_str!("../tests/every_key.yaml");

/// The compiled schema, as an editor uses it.
struct Editor {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Editor {
    fn new() -> Self {
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.add_resource("satchel.schema.json", schema().clone()).unwrap();
        let index = compiler.compile("satchel.schema.json", &mut schemas).unwrap();
        Self { schemas, index }
    }

    fn complaint(&self, yaml: &str) -> Option<String> {
        // As YAML 1.2 has it, and with it the editors: `off` is text.
        let options = serde_saphyr::options! { strict_booleans: true };
        let value: Json = serde_saphyr::from_str_with_options(yaml, options).unwrap();
        self.schemas.validate(&value, self.index).err().map(|error| format!("{error:#}"))
    }
}

/// For whoever writes configuration files.
pub(crate) fn assert_accepted(yaml: &str) {
    assert_eq!(Editor::new().complaint(yaml), None, "{yaml}");
    assert!(reader_says(yaml).is_ok(), "{yaml}: {}", reader_says(yaml).unwrap_err());
}

fn reader_says(yaml: &str) -> Result<(), ConfigProblems> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("secret"), "four words of mine").unwrap();
    let path = directory.path().join("satchel.yaml");
    let sources = ConfigSources { file: None, set: &[], environment: &[], cwd: directory.path() };
    load_text(&path, yaml, &sources).map(drop)
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
        "telegram: { agents: { -100123: default } }\n",
        "nats: { groups: { desk: [orders, hr] } }\n",
        "storage: { reserve: 0 }\n",
        "storage: { reserve: 1GiB }\n",
        "delivery: { max_age: 2d }\n",
        "schedules: { r: { cron: '@daily', conversation: 'web:r', prompt: hi, enabled: off } }\n",
        "schedules: { r: { cron: '@daily', conversation: 'web:r', script: return 1, enabled: true } }\n",
        "storage: { database_url: 'postgres://u@h/d', blobs_url: 's3://bucket/files?region=eu-west-1' }\nbus: { url: 'nats://h' }\n",
    ] {
        assert_accepted(yaml);
    }
}

#[test]
fn editor_schema_rejects_what_the_reader_rejects() {
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
        "telegram: { agents: [default] }\n",
        "telegram: { agents: { 5: [default] } }\n",
        "nats: { groups: [orders] }\n",
        "nats: { groups: { desk: orders } }\n",
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
    assert_eq!(schema["properties"]["models"]["additionalProperties"]["properties"]["provider"]["default"], Json::Null);
}

/// The keys and sections of a schema with what is said of them.
fn described<'a>(schema: &'a Json, at: &str, found: &mut Vec<(String, &'a str)>) {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let each = entry_schema(schema).map(|each| (NAME_PLACEHOLDER, each));
    for (name, property) in properties.map(|(name, property)| (name.as_str(), property)).chain(each) {
        let key = if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
        described(property, &key, found);
        found.push((key, property["description"].as_str().unwrap_or_default()));
    }
}

#[test]
fn every_key_and_section_is_described() {
    let mut found = Vec::new();
    described(schema(), "", &mut found);
    assert!(found.len() > 130, "{}", found.len());
    for (key, words) in found {
        assert!(words.ends_with('.') && words.len() > 5 && !words.contains('\n'), "{key}: {words:?}");
    }
}

#[test]
fn the_changelog_names_the_keys_without_effect() {
    let mut found = Vec::new();
    described(schema(), "", &mut found);
    let without_effect = found.iter().filter(|(_, words)| words.ends_with("No effect yet."));
    let without_effect: BTreeSet<&str> = without_effect.map(|(key, _)| key.as_str()).collect();
    let (_, limits) = include_str!("../../../../../CHANGELOG.md").split_once("### Known limits\n").unwrap();
    let line = limits.split("\n- ").find(|line| line.contains("no effect yet")).unwrap_or_default();
    let named: BTreeSet<&str> = line.split('`').skip(1).step_by(2).collect();
    assert_eq!(named, without_effect);
}
