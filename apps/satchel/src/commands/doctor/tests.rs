//! Tests of what the doctor warns of without asking anybody.

use std::{path::Path, sync::Arc};

use satchel_domain::{ChannelName, InboundMessage, Sender, SystemTask, UndecodableUpdate};
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{Inbox, ledger::ClaimMode};

use super::*;
use crate::config::{ConfigSources, load_text};

/// Loads a configuration that was found nowhere.
fn load(yaml: &str, cwd: &Path) -> LoadedConfig {
    let sources = ConfigSources { file: None, set: &[], environment: &[], cwd };
    load_text(Path::new("satchel.yaml"), yaml, &sources).unwrap()
}

/// What is found about people.
fn people_findings(yaml: &str) -> Vec<String> {
    let findings = platforms::check_people(load(yaml, Path::new("/")).config());
    findings.into_iter().map(|finding| finding.found).collect()
}

/// A database, and the configuration that names it.
struct CheckedDatabase {
    ledger: SqliteLedger,
    loaded: LoadedConfig,
    _directory: tempfile::TempDir,
}

impl CheckedDatabase {
    async fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let loaded = load(&format!("storage: {{ data_dir: '{}' }}\n", directory.path().display()), directory.path());
        let clock = Arc::new(SystemClock::new());
        let ledger = SqliteLedger::open(directory.path(), Settings::default(), clock, Arc::new(UuidV7)).await;
        Self { ledger: ledger.unwrap(), loaded, _directory: directory }
    }

    /// What the doctor warns of.
    async fn warnings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        storage::check_database(self.loaded.config(), &mut findings).await;
        let warnings = findings.into_iter().filter(|finding| finding.level == FindingLevel::Warning);
        warnings.map(|finding| finding.found).collect()
    }
}

/// What is warned of, as check and words.
async fn warned(yaml: &str) -> Vec<(&'static str, String)> {
    let directory = tempfile::tempdir().unwrap();
    let loaded = load(yaml, directory.path());
    let config = loaded.config();
    let decision = models::select_models(&config.models).await;
    let findings = environment::check_encryption(config, &decision).into_iter().chain(web::check_metrics(config));
    findings
        .map(|finding| {
            assert!(finding.level == FindingLevel::Warning && finding.advice.is_some(), "{finding:?}");
            (finding.check, finding.found)
        })
        .collect()
}

#[tokio::test]
async fn unencrypted_key_transport_is_warned_about() {
    let model =
        |provider: &str, rest: &str| format!("model: m\nmodels:\n  m: {{ provider: {provider}, model: x, {rest} }}\n");
    for (yaml, check, setting) in [
        (model("openai", "base_url: 'http://box:8000/v1/', api_key: canary"), "model", "models.m.base_url"),
        (model("ollama", "base_url: 'http://me:canary@box:11434/'"), "model", "models.m.base_url"),
        (
            model("openai", "base_url: 'http://127.0.0.1.example.com/v1/', api_key: canary"),
            "model",
            "models.m.base_url",
        ),
        (
            "model: offline\ntelegram: { token: '1:canary', api_url: 'http://10.0.0.1:8081' }\n".to_owned(),
            "telegram",
            "telegram.api_url",
        ),
        (
            "model: offline\ndiscord: { token: canary, api_url: 'http://[fd00::1]/' }\n".to_owned(),
            "discord",
            "discord.api_url",
        ),
        ("model: offline\nmetrics: { listen: '0.0.0.0:9187' }\n".to_owned(), "metrics", "0.0.0.0:9187"),
        ("model: offline\nmetrics: { listen: '[::]:9187' }\n".to_owned(), "metrics", "[::]:9187"),
    ] {
        let warned = warned(&yaml).await;
        let [(of, found)] = warned.as_slice() else { panic!("{yaml}: {warned:?}") };
        assert!(*of == check && found.contains(setting) && !found.contains("canary"), "{yaml}: {warned:?}");
    }
    for yaml in [
        model("openai", "base_url: 'http://box:8000/v1/'"),
        model("openai", "base_url: 'https://box:8000/v1/', api_key: canary"),
        model("openai", "base_url: 'http://localhost:8000/v1/', api_key: canary"),
        model("openai", "base_url: 'http://[::1]:8000/v1/', api_key: canary"),
        "model: offline\nmodels:\n  m: { provider: openai, model: x, base_url: 'http://box/', api_key: canary }\n"
            .to_owned(),
        "model: offline\ntelegram: { token: '1:canary', api_url: 'http://127.0.0.1:8081' }\n".to_owned(),
        "model: offline\ntelegram: { api_url: 'http://10.0.0.1:8081' }\n".to_owned(),
        "model: offline\nmetrics: { listen: '127.0.0.1:9187' }\n".to_owned(),
    ] {
        assert_eq!(warned(&yaml).await, [], "{yaml}");
    }
}

#[tokio::test]
async fn sandbox_starts_and_off_is_warned_about() {
    let check = async |yaml: &str| environment::check_sandbox(load(yaml, Path::new("/")).config()).await;
    let started = check("model: offline\n").await;
    assert!(started.level == FindingLevel::Ok && started.found.contains("starts in"), "{started:?}");
    let off = check("tools: { sandbox: off }\n").await;
    assert!(off.level == FindingLevel::Warning && off.found.contains("`tools.sandbox` is off"), "{off:?}");
}

#[test]
fn unowned_bot_triggers_a_warning() {
    let found = |section: &str| people_findings(&format!("telegram: {{ {section} }}\n"));
    assert!(found("token: '1:a'")[0].starts_with("no owner is set and `telegram.allow_users` is empty"));
    assert!(found("token: '1:a', allow_users: ['*']")[0].contains("nobody can approve people from a chat"));
    assert_eq!(found("token: '1:a', owners: [12]"), [] as [&str; 0]);
    assert_eq!(found("allow_users: ['@ada']"), [] as [&str; 0], "there is no bot");
}

#[test]
fn members_who_are_not_allowed_are_warned_about() {
    let found = |section: &str| {
        let groups = "groups: { desk: [orders, hr] }";
        people_findings(&format!("bus: {{ url: 'nats://box' }}\nnats: {{ {section}, {groups} }}\n"))
    };
    let warning = "`nats.groups.desk` lists hr, who is not in `nats.allow_users`";
    assert_eq!(found("requests: on, allow_users: [orders]"), [warning]);
    for section in [
        "requests: on, allow_users: [orders, hr]",
        "requests: on, allow_users: [orders], owners: [hr]",
        "requests: on, allow_users: ['*']",
        "requests: off",
    ] {
        assert_eq!(found(section), [] as [&str; 0], "{section}");
    }
}

#[tokio::test]
async fn what_could_not_be_read_is_warned_of() {
    let database = CheckedDatabase::open().await;
    for (key, expected) in [
        ("1", "1 update from telegram could not be decoded and is stored"),
        ("2", "2 updates from telegram could not be decoded and are stored"),
    ] {
        let channel = ChannelName::new("telegram").unwrap();
        let (raw, reason) = (serde_json::json!({}), "new".to_owned());
        let update = UndecodableUpdate { channel, key: key.to_owned(), sender: None, raw, reason };
        database.ledger.record_undecodable(&update).await.unwrap();
        assert_eq!(database.warnings().await, [expected]);
    }
}

#[tokio::test]
async fn messages_of_send_that_wait_are_named_with_their_conversations() {
    let database = CheckedDatabase::open().await;
    for (key, place, expected) in [
        ("1", "console:main", "1 message of `satchel send` waits to be delivered in console:main"),
        ("2", "telegram:7", "2 messages of `satchel send` wait to be delivered: console:main (1), telegram:7 (1)"),
    ] {
        let message = InboundMessage {
            system_task: Some(SystemTask::DeliverNotification { text: "done".to_owned() }),
            ..InboundMessage::new(place.parse().unwrap(), key.to_owned(), Sender::new("notification", "Notification"))
        };
        database.ledger.receive(&message, ClaimMode::Never).await.unwrap();
        assert_eq!(database.warnings().await, [expected]);
    }
}
