//! Every key given wrongly in every way, what `config show` makes of secrets and defaults, and the schema itself.

use serde_json::Value;

use super::*;

/// Values that are wrong for most kinds of settings.
const WRONG: [&str; 8] = ["[{ a: 1 }]", "[]", "{ a: 1 }", "' '", "-1", "2.5", "true", "zzz zzz"];

/// Every key of the schema, `NAME` standing for a name.
fn keys(section: &Value, at: &str, found: &mut Vec<String>) {
    let properties =
        section["properties"].as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value));
    let each = section["additionalProperties"].is_object().then_some(("NAME", &section["additionalProperties"]));
    for (name, value) in properties.chain(each) {
        let key = if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
        let is_section = value.get("properties").is_some() || value["additionalProperties"].is_object();
        if is_section {
            keys(value, &key, found);
        }
        found.push(key);
    }
}

fn all_keys() -> Vec<String> {
    let mut found = Vec::new();
    keys(schema::schema(), "", &mut found);
    found.sort_unstable();
    found
}

/// A file with one value, and with what stands beside it where it is needed.
fn file(key: &str, value: &str) -> String {
    let beside = match key {
        "models.NAME" | "schedules.NAME" => "",
        key if key.starts_with("models.NAME.") && key != "models.NAME.provider" => "provider: offline",
        "schedules.NAME.cron" => "conversation: 'web:a', prompt: hi",
        "schedules.NAME.conversation" => "cron: '@daily', prompt: hi",
        "schedules.NAME.prompt" | "schedules.NAME.script" | "schedules.NAME.script_file" => {
            "cron: '@daily', conversation: 'web:a'"
        }
        key if key.starts_with("schedules.NAME.") => "cron: '@daily', conversation: 'web:a', prompt: hi",
        _ => "",
    };
    let Some((section, name)) = key.rsplit_once('.') else { return format!("{key}: {value}\n") };
    let mut text = String::new();
    for (depth, name) in section.split('.').enumerate() {
        text += &format!("{}{name}:\n", "  ".repeat(depth));
    }
    let indentation = "  ".repeat(section.split('.').count());
    for line in beside.split(", ").filter(|line| !line.is_empty()) {
        text += &format!("{indentation}{line}\n");
    }
    text + &format!("{indentation}{name}: {value}\n")
}

#[test]
fn every_key_given_wrongly_in_the_file() {
    let mut shown = String::new();
    for key in all_keys() {
        shown += &format!("## {key}\n");
        for value in WRONG {
            shown += &format!("{value} → {}\n", Place::with(&file(&key, value)).complaint());
        }
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn every_key_given_wrongly_elsewhere() {
    let mut shown = String::new();
    for key in all_keys().into_iter().filter(|key| !key.contains("NAME")) {
        let environment = Place::empty().env(&overrides::variable_name(&key), "zzz zzz");
        let command_line = Place::empty().set(&format!("{key}=-1,"));
        shown += &format!("{}\n{}\n", environment.complaint(), command_line.complaint());
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn mistakes_that_span_settings_keep_their_place() {
    let cases = [
        "telegram:\n  owners: [1, '*']\n  local_files: here\ndiscord:\n  owners: ['*']\n",
        "telegram:\n  local_files: here\n  api_url: nowhere\n",
        "speech:\n  speak:\n    command: [a]\n    model: b\n  transcribe:\n    provider: command\n",
        "speech:\n  speak:\n    provider: bogus\n    command: [a]\n    model: b\n",
        "speech:\n  transcribe:\n    model: b\n  speak:\n    provider: openai\n",
        "web:\n  listen: 0.0.0.0:80\n  token: off\n  public_url: https://h\n  trusted_proxies: [a, 10.0.0.1]\n",
        "web:\n  listen: here\n  token: off\n",
        "models:\n  a: {}\n  b: text\n  c:\n    provider: openai\n    accepts: [video, image]\nmodel: [d, a]\n",
        "schedules:\n  a: {}\n  b: text\n  c: { cron: 8, conversation: 9, prompt: 1 }\n",
        "schedules:\n  a: { cron: x, conversation: 'discord:1', script: a, prompt: b, script_file: c }\n",
        "attachments:\n  allow_hosts: ['a b', ok, 'c/d']\n  allowed_mime_types: { image: [a, b], file: ['*/*'] }\n",
        "turn:\n  steering: off\ndelivery: { pace: platform, on_doubt: on }\nbus: { url: 'nats://h' }\n",
        "bus:\n  url: 'nats://u:p@h'\n  nkey: SUA\n  client_key_file: key.pem\n",
        "bus:\n  url: 'nats://h'\n  credentials: a\n  nkey: b\n  client_certificate_file: certificate.pem\n",
        "agents: [a]\ntasks: {}\nmcp: text\n",
        "telegram:\n  limits: { text: 99, caption: 1000001, file_bytes: 0, files_together: 101, request_bytes: 5 }\n",
    ];
    let shown: Vec<String> = cases.iter().map(|yaml| format!("{yaml}{}\n", Place::with(yaml).complaint())).collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn nearest_settings_are_suggested() {
    let places = [
        Place::with("Storage: { dir: x }\nstorage: { Reserve: 1, url: y }\nweb: { look_up: on, tokens: a }\n"),
        Place::with("data-dir: a\ntoken: b\nproxies: c\nmodels: { a: { provider: offline, key: x, base: y } }\n"),
        Place::with("model_calls: 3\ntimeout: 4\nspeech: { provider: openai, speek: { voice: x } }\n"),
        Place::with("tools: { script: { alowed_tools: [] }, scripts: {}, add: { max: 3 } }\n"),
        Place::empty().env("SATCHEL_TOOLS__SCRIPTS__TIMEOUT", "1s").env("SATCHEL_SPEACH__SPEAK__VOICE", "a"),
        Place::empty().set("tools.scripts.timeout=1s").set("models.a.providr=offline").set("limits.text=5"),
    ];
    let shown: Vec<String> = places.iter().map(Place::complaint).collect();
    insta::assert_snapshot!(shown.join("\n\n"));
}

#[test]
fn settings_are_shown_with_origins_and_without_secrets() {
    let secrets = "models:\n  cloud: { provider: openai }\n  box: { provider: openai, base_url: 'http://u:p@box/v1?k=s' }\n\
                   speech:\n  speak: { provider: openai }\n  transcribe: { command: [whisper] }\n\
                   telegram: { token_file: secret, api_url: 'http://localhost:8081', local_files: files }\n\
                   web: { token: off }\nstorage: { database_url: 'postgres://u:p@h/d', blobs_url: 'file:blobs' }\n\
                   schedules: { a: { cron: '@daily', timezone: UTC, conversation: 'telegram:1', prompt: hi } }\n";
    let place = Place::with(secrets)
        .file("secret", CANARY)
        .env("OPENAI_API_KEY", CANARY)
        .env("SATCHEL_DISCORD__TOKEN", CANARY)
        .env("SATCHEL_INSTRUCTIONS_FILE", "secret")
        .set("tools.timeout=3600s")
        .set("attachments.retention.bytes=1000000");
    let found = Place::empty().env("GEMINI_API_KEY", CANARY).env("HOME", "/home/me");
    let cases = [("nothing", Place::empty()), ("secrets", place), ("a key of the environment", found)];
    let shown: Vec<String> = cases
        .iter()
        .map(|(name, place)| format!("## {name}\n{}\n{}\n", shown(place, false), shown(place, true)))
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn every_key_is_shown_as_json() {
    let place = Place::with(include_str!("every_key.yaml")).file("secret", "four words of mine");
    insta::assert_snapshot!(shown(&place, true));
}

#[test]
fn the_schema_is_printed() {
    insta::assert_json_snapshot!(schema::schema());
}
