//! The promises of the configuration, tested through [`load`].

mod acceptance;
mod guide;
mod locations;
mod together;

use std::{ffi::OsString, fs, path::Path};

use secrecy::ExposeSecret;

use super::*;
use crate::{
    commands,
    models::{ModelCandidate, ModelSelection},
};

const CANARY: &str = "canary-5f1d0e";

/// A directory with a configuration in it, the environment and the command line beside it.
struct Place {
    dir: tempfile::TempDir,
    environment: Vec<(OsString, OsString)>,
    set: Vec<String>,
}

impl Place {
    fn empty() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), environment: Vec::new(), set: Vec::new() }
    }

    fn with(yaml: &str) -> Self {
        let place = Self::empty();
        fs::write(place.dir.path().join("satchel.yaml"), yaml).unwrap();
        place
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    fn set(mut self, pair: &str) -> Self {
        self.set.push(pair.to_owned());
        self
    }

    fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.dir.path().join(name), content).unwrap();
        self
    }

    fn load(&self) -> Result<LoadedConfig, ConfigProblems> {
        self.load_from(self.dir.path(), None)
    }

    /// Loads in another directory, where `--config` names this file. The service of this machine is the one of the place.
    fn load_from(&self, cwd: &Path, option: Option<&Path>) -> Result<LoadedConfig, ConfigProblems> {
        let (file, data_dir) = (self.dir.path().join("etc/satchel/satchel.yaml"), self.dir.path().join("var/satchel"));
        let service = ServicePaths { file: &file, data_dir: &data_dir };
        load_at(&DefaultPaths { option, environment: &self.environment, cwd, service }, &self.set)
    }

    /// Makes a directory in it.
    fn directory(&self, name: &str) -> PathBuf {
        let directory = self.dir.path().join(name);
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    fn config(&self) -> Config {
        self.load().unwrap().into_config().unwrap()
    }

    /// All that is wrong, with the directory's own name taken out.
    fn complaint(&self) -> String {
        let problems = match self.load() {
            Err(problems) => problems,
            Ok(loaded) => match loaded.into_config() {
                Err(problems) => problems,
                Ok(_) => return "accepted".to_owned(),
            },
        };
        problems.to_string().replace(&self.dir.path().display().to_string(), "<dir>")
    }

    fn setting(&self, key: &str) -> ConfigSetting {
        self.load().unwrap().settings.into_iter().find(|setting| setting.key == key).unwrap()
    }
}

#[test]
fn file_mistakes_report_position_and_allowed_values() {
    let cases = [
        ("unknown key", "telegram:\n  tokn: x\n"),
        ("unknown section", "telgram:\n  token: x\n"),
        ("key of another section", "data_dir: here\n"),
        ("nothing like it", "storage:\n  zzzzzzzzzz: 1\n"),
        ("section as a value", "storage: here\n"),
        ("value as a section", "model:\n  name: x\n"),
        ("list instead of text", "log: [a]\n"),
        ("number instead of text", "model: 4\n"),
        ("truth value instead of text", "model: true\n"),
        ("text instead of number", "turn:\n  model_calls: lots\n"),
        ("number out of range", "turn:\n  model_calls: 0\n  tool_calls: -1\n"),
        ("fraction instead of number", "turn:\n  model_calls: 2.5\n"),
        ("bare duration", "delivery:\n  max_age: 24\n"),
        ("bad duration", "delivery:\n  max_age: soon\n"),
        ("bad size", "workspace:\n  quota: 2 gigs\n"),
        ("size of nothing", "workspace:\n  quota: 0\n"),
        ("bad reserve", "storage:\n  reserve: 5%\n"),
        ("bad choice", "delivery:\n  pace: fast\n  on_doubt: 3\n"),
        ("bad choice in a list", "tools:\n  confirm: [dangerous]\n"),
        (
            "tools that nobody has",
            "tools:\n  script:\n    allowed_tools: [file_read, file_raed, attachment.save, fly]\n",
        ),
        ("bad URL", "telegram:\n  api_url: telegram.org\n"),
        ("bad database", "storage:\n  database_url: mysql://x\n  blobs_url: 'file:'\n"),
        ("bad bus", "bus:\n  url: amqp://x\n"),
        ("bad address", "web:\n  listen: localhost\n"),
        ("open to everybody", "web:\n  listen: 0.0.0.0:80\n  token: off\n"),
        ("open to everybody, token unreadable", "web:\n  listen: 0.0.0.0:80\n  token: [a]\n"),
        ("open by its address", "web:\n  public_url: https://satchel.example.com\n  token: off\n"),
        ("guessable token", "web:\n  token: sesame\n"),
        ("token that looks like off", "web:\n  token: Off\n"),
        ("token that looks like none", "web:\n  token: None\n"),
        ("token that looks like no", "web:\n  token: \"no\"\n"),
        ("token that looks like false", "web:\n  token: \"FALSE\"\n"),
        ("no proxies", "web:\n  trusted_proxies:\n    - 10.0.0.0/8\n    - proxy.lan\n    - 0.0.0.0/0\n"),
        ("one proxy, no list", "web:\n  trusted_proxies: 10.0.0.0/8\n"),
        ("bad MIME type", "attachments:\n  allowed_mime_types:\n    image: [png]\n"),
        ("no host", "attachments:\n  allow_hosts: [files.lan, 'http://files.lan', '*.lan']\n"),
        ("unknown provider", "models:\n  a:\n    provider: openia\n"),
        ("no provider", "models:\n  a:\n    model: x\n"),
        ("unknown key of a model", "models:\n  a:\n    provider: offline\n    apikey: x\n"),
        ("unknown kind of file", "models:\n  a:\n    provider: ollama\n    accepts: [picture]\n"),
        ("one kind of file, no list", "models:\n  a:\n    provider: ollama\n    accepts: image\n"),
        ("kinds that can't be sent", "models:\n  a:\n    provider: ollama\n    accepts: [image, pdf, audio]\n"),
        ("unknown model", "model: fast\nmodels:\n  slow:\n    provider: offline\n"),
        ("unknown models", "model: [slow, fast, offline, faster]\nmodels:\n  slow:\n    provider: offline\n"),
        ("no models", "model: []\n"),
        ("models as a list", "models: [a]\n"),
        ("two at once", "turn:\n  model_calls: x\ndelivery:\n  max_age: y\nfoo: 1\n"),
        ("duplicate key", "log: a\nlog: b\n"),
        ("duplicate key below", "turn:\n  model_calls: 1\n  model_calls: 2\n"),
        ("unclosed list", "tools:\n  confirm: [privileged\nlog: a\n"),
        ("unclosed quote", "log: \"info\nmodel: a\n"),
        ("unquoted template", "log: {{ .level }}\n"),
        ("unquoted template in a list", "tools:\n  confirm:\n    - {{ tier }}\n"),
        ("tab", "turn:\n\tmodel_calls: 3\n"),
        ("wrong indentation", "turn:\n  model_calls: 3\n model: x\n"),
        ("no such anchor", "log: *level\n"),
        ("two documents", "log: a\n---\nlog: b\n"),
        ("text alone", "hello\n"),
        ("list alone", "- a\n- b\n"),
        ("number as a key", "turn:\n  3: x\n"),
        ("empty key", "'': x\n"),
        ("a dot in a key", "turn.model_calls: 3\n"),
        ("a dot in a name", "models:\n  a.b:\n    provider: offline\n"),
    ];
    let shown: Vec<String> =
        cases.iter().map(|(name, yaml)| format!("## {name}\n{}", Place::with(yaml).complaint())).collect();
    insta::assert_snapshot!(shown.join("\n\n"));
}

#[test]
fn scripts_may_be_allowed_tools_by_either_spelling() {
    let config =
        Place::with("tools: { script: { allowed_tools: [attachment.add, attachment_read, send_voice] } }").config();
    let allowed = config.tools.script.allowed_tools.unwrap().0;
    assert_eq!(allowed, ["attachment.add", "attachment_read", "send_voice"]);
    assert_eq!(
        Place::with("tools: { script: { allowed_tools: [] } }").config().tools.script.allowed_tools,
        Some(leaf::list::Texts(vec![]))
    );
    assert_eq!(Place::empty().config().tools.script.allowed_tools, None);
}

#[test]
fn unimplemented_settings_are_reported_with_position() {
    let cases = [
        "agents:\n  - { id: a, instructions: x, actions: [{ id: b, prompt: p }] }\ntasks:\n  - { id: b, agent: a, action: b }\nmcp:\n  c: {}\n",
    ];
    let shown: Vec<String> = cases.iter().map(|yaml| Place::with(yaml).complaint()).collect();
    insta::assert_snapshot!(shown.join("\n"));
    for harmless in [
        "web:\n  listen: off\n",
        "web:\n  listen: 127.0.0.1:8787\n",
        "web:\n  listen: '[::1]:80'\n",
        "web:\n  listen: 0.0.0.0:80\n  token: four words of mine\n",
        "web:\n  public_url: http://localhost:8787\n  token: off\n",
        "web:\n  listen: 0.0.0.0:80\n",
        "web:\n  listen: 127.0.0.1:80\n  token: off\n",
        "metrics:\n  listen: 0.0.0.0:9\n",
        "models:\n  a:\n    provider: openai\n",
        "model: [a, offline]\nmodels:\n  a:\n    provider: gemini\n",
        "agents: []\n",
        "tools:\n  confirm: []\n",
        "tools:\n  confirm: [side_effecting, read_only]\n",
        "telegram:\n",
        "telegram:\n  token: a\n",
        "discord:\n  token: a\n",
    ] {
        assert_eq!(Place::with(harmless).complaint(), "accepted", "{harmless}");
    }
}

#[test]
fn environment_and_arguments_are_validated_like_the_file() {
    let cases = [
        Place::empty().env("SATCHEL_TELEGRAM__TOKN", "x"),
        Place::empty().env("SATCHEL_TELEGRAM__URL", "x"),
        Place::empty().env("SATCHEL_TURN__", "x"),
        Place::empty().env("SATCHEL_AGENTS", "x"),
        Place::empty().env("SATCHEL_TURN__MODEL_CALLS", "many"),
        Place::empty().env("SATCHEL_LOG__LEVEL", "x"),
        Place::empty().env("SATCHEL_TOOLS__SCRIPT__ALLOWED_TOOLS", "file_read,file_lst"),
        Place::empty().env("SATCHEL_FOO__A", "1").env("SATCHEL_FOO__B", "2"),
        Place::with("model: offline\n").env("SATCHEL_MODEL__NAME", "x"),
        Place::empty().set("delivery.max_ag=1h"),
        Place::empty().set("delivery.max_age"),
        Place::empty().set("=x"),
        Place::empty().set("delivery.max_age=1"),
        Place::empty().env("SATCHEL_CONFIG", "missing.yaml"),
        Place::empty().env("SATCHEL_CONFIG", "."),
        Place::empty().file("satchel.yaml", b"log: \xff\n"),
        Place::empty().file("satchel.yaml", "# ".repeat(3 << 20)),
    ];
    let shown: Vec<String> = cases.iter().map(Place::complaint).collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn variable_without_key_warns_with_nearest_setting() {
    let names = ["TELEGRAM_TOKEN", "DATA_DIR", "LOGG", "TURN", "TELEGRM", "NONSENSE", "WEB_PORT", "Instructions_Fil"];
    let place = names.iter().fold(Place::empty(), |place, name| place.env(&format!("SATCHEL_{name}"), CANARY));
    let loaded = place.load().unwrap();
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert!(!warnings.concat().contains(CANARY), "{warnings:?}");
    assert!(loaded.settings.iter().all(|setting| !matches!(setting.origin, SettingOrigin::Environment(_))));
    insta::assert_snapshot!(warnings.join("\n"));
}

#[test]
fn kubernetes_service_variables_have_no_effect() {
    let names = [
        ("SERVICE_HOST", "10.0.171.239"),
        ("SERVICE_PORT", "8787"),
        ("SERVICE_PORT_HTTP", "8787"),
        ("SERVICE_PORT_A__B", "8787"),
        ("PORT", "tcp://10.0.171.239:8787"),
        ("PORT_8787_TCP", "tcp://10.0.171.239:8787"),
        ("PORT_8787_TCP_PROTO", "tcp"),
        ("PORT_8787_TCP_PORT", "8787"),
        ("PORT_53_UDP_ADDR", "10.0.171.239"),
        ("PORT_9_SCTP", "sctp://10.0.171.239:9"),
    ];
    let place = names.iter().fold(Place::empty(), |place, (name, value)| place.env(&format!("SATCHEL_{name}"), value));
    assert_eq!(place.load().unwrap().warnings, []);
    assert_eq!(Place::empty().env("SATCHEL_PORT_HTTP", "x").load().unwrap().warnings.len(), 1);
}

#[test]
fn plain_key_in_environment_is_a_setting() {
    let place = Place::empty().env("SATCHEL_log", "debug").env("SATCHEL_MODEL", "offline");
    let place = place.file("who.txt", "You are Bob's.").env("SATCHEL_INSTRUCTIONS_FILE", "who.txt");
    let loaded = place.load().unwrap();
    assert_eq!(loaded.warnings, []);
    assert_eq!(
        (place.config().log, place.config().instructions),
        (Some("debug".into()), Some(Instructions("You are Bob's.".into())))
    );
}

#[cfg(unix)]
#[test]
fn only_non_utf8_satchel_variables_are_reported() {
    use std::os::unix::ffi::OsStringExt;

    let mut place = Place::empty();
    place.environment.push(("OTHER".into(), OsString::from_vec(vec![0xff])));
    assert_eq!(place.complaint(), "accepted");
    place.environment.push(("SATCHEL_LOG".into(), OsString::from_vec(vec![0xff])));
    assert_eq!(place.complaint(), "SATCHEL_LOG: the value is not UTF-8");
}

#[test]
fn the_stronger_origin_wins_and_is_remembered() {
    let file = || Place::with("delivery:\n  pace: off\n  max_age: 1h\n");
    let origin = |place: &Place| {
        let setting = place.setting("delivery.max_age");
        format!("{} from {}", setting.value.as_str().unwrap(), setting.origin)
    };
    assert_eq!(origin(&Place::empty()), "24h from default");
    assert_eq!(origin(&file()), "1h from satchel.yaml:3");
    let environment = || file().env("SATCHEL_DELIVERY__MAX_AGE", "2h");
    assert_eq!(origin(&environment()), "2h from environment SATCHEL_DELIVERY__MAX_AGE");
    let all = environment().set("delivery.max_age=3h").set("delivery.max_age=4h");
    assert_eq!(origin(&all), "4h from --set");
    assert_eq!(all.config().delivery.max_age.0.as_secs(), 4 * 3600);
    assert_eq!(all.config().delivery.pace, delivery::RateLimitMode::Off);
    assert_eq!(origin(&file().env("SATCHEL_DELIVERY__MAX_AGE", "")), "1h from satchel.yaml:3");
    assert_eq!(origin(&file().env("SATCHEL_delivery__Max_Age", "5h")), "5h from environment SATCHEL_delivery__Max_Age");
}

#[test]
fn overridden_invalid_value_is_ignored() {
    let place = Place::with("delivery:\n  max_age: soon\n").set("delivery.max_age=3h");
    assert_eq!(place.config().delivery.max_age.0.as_secs(), 3 * 3600);
}

#[test]
fn environment_and_arguments_accept_lists_and_names() {
    let place = Place::with("models:\n  My-Model:\n    provider: offline\n")
        .env("SATCHEL_TELEGRAM__ALLOW_USERS", "1, 2,@three")
        .env("SATCHEL_MODELS__MY_MODEL__MODEL", "m")
        .env("SATCHEL_MODELS__NEW__PROVIDER", "offline")
        .set("telegram.owners=[\"4\"]");
    let config = place.config();
    assert_eq!(config.telegram.allow_users.0, ["1", "2", "@three"]);
    assert_eq!(config.telegram.owners.0, ["4"]);
    let names: Vec<_> = config.models.declared.iter().map(|model| (&*model.name, model.model.as_deref())).collect();
    assert_eq!(names, [("My-Model", Some("m")), ("new", None)]);
    assert!(matches!(&config.models.choice, models::ModelChoice::Named(names) if names == &["My-Model"]));
}

#[test]
fn without_anything_there_are_defaults() {
    let config = Place::empty().config();
    assert!(matches!(config.models.choice, models::ModelChoice::Default));
    assert_eq!((config.turn.model_calls.0, config.turn.tool_calls.0), (25, 80));
    assert_eq!(config.delivery.rules(), satchel_domain::delivery::DeliveryRules::default());
    assert_eq!(config.workspace.quota.0, 2 << 30);
}

#[test]
fn reserve_is_a_size_or_none() {
    use satchel_domain::DiskReserve::{Bytes, Standard};
    for (yaml, reserve) in [("", Standard), ("3 GiB", Bytes(3 << 30)), ("0", Bytes(0)), ("0GB", Bytes(0))] {
        let place = Place::with(&format!("storage:\n  reserve: {yaml}\n"));
        let place = if yaml.is_empty() { Place::empty() } else { place };
        assert_eq!(place.config().storage.reserve(), reserve, "{yaml}");
    }
}

#[test]
fn model_choice_prefers_setting_then_declared_then_key() {
    let choice = |place: &Place| {
        let setting = place.setting("model");
        format!(
            "{} from {}",
            setting.value.as_str().map_or_else(|| setting.value.to_string(), str::to_owned),
            setting.origin
        )
    };
    let keys = || Place::empty().env("GEMINI_API_KEY", "g").env("ANTHROPIC_API_KEY", "a").env("OPENAI_API_KEY", "");
    assert_eq!(choice(&Place::empty()), "a local Ollama, or else offline from default");
    assert_eq!(choice(&keys()), "anthropic from environment ANTHROPIC_API_KEY");
    assert_eq!(choice(&keys().env("SATCHEL_MODEL", "offline")), "offline from environment SATCHEL_MODEL");
    let declared = || Place::with("models:\n  b: { provider: gemini }\n  a: { provider: offline }\n");
    assert_eq!(choice(&declared().env("OPENAI_API_KEY", "o")), "b from default");
    assert_eq!(choice(&declared().set("model=a,b")), "[\"a\",\"b\"] from --set");
    let config = declared().set("model=a,b").config();
    assert!(matches!(&config.models.choice, models::ModelChoice::Named(names) if names == &["a", "b"]));
    let models::ModelChoice::FromEnvironment { variable, model } = keys().config().models.choice else {
        panic!("a key was there")
    };
    assert_eq!((variable, model.api_key.unwrap().expose_secret()), ("ANTHROPIC_API_KEY", "a"));
}

#[test]
fn environment_key_goes_only_to_its_provider() {
    let yaml = "models:\n  own: { provider: openai_responses }\n  given: { provider: openai, api_key: mine }\n  \
                elsewhere: { provider: openai, base_url: 'http://box/v1' }\n  other: { provider: gemini }\n";
    let place = Place::with(yaml).env("OPENAI_API_KEY", CANARY);
    let keys: Vec<Option<String>> = place
        .config()
        .models
        .declared
        .iter()
        .map(|model| model.api_key.as_deref().map(|key| key.expose_secret().to_owned()))
        .collect();
    assert_eq!(keys, [Some(CANARY.to_owned()), Some("mine".to_owned()), None, None]);
    let setting = place.setting("models.own.api_key");
    assert_eq!(
        (setting.value.as_str(), setting.origin.to_string().as_str()),
        (Some("********"), "environment OPENAI_API_KEY")
    );
}

#[test]
fn every_key_of_the_specification_can_be_given() {
    let place = Place::with(include_str!("tests/every_key.yaml")).file("secret", "four words of mine");
    let loaded = place.load().unwrap_or_else(|problems| panic!("{problems}"));
    let unset: Vec<_> = loaded
        .settings
        .iter()
        .filter(|setting| setting.origin == SettingOrigin::Default)
        .map(|setting| setting.key.as_str())
        // `script_file` stands in their place.
        .filter(|key| !matches!(key.strip_prefix("schedules.report."), Some("prompt" | "script" | "task" | "input")))
        // So does `bus.nkey`.
        .filter(|key| *key != "bus.credentials")
        .collect();
    assert_eq!(unset, Vec::<&str>::new(), "the example leaves these out");
    assert!(loaded.settings.len() > 55, "{}", loaded.settings.len());
    insta::assert_snapshot!(shown(&place, false));
}

#[test]
fn every_setting_has_an_environment_variable() {
    let keys: Vec<_> = Place::empty().load().unwrap().settings;
    for setting in keys {
        let place = Place::empty().env(&overrides::variable_name(&setting.key), "\u{1}");
        // Whatever becomes of the value, the name is known.
        assert!(!place.complaint().contains("no setting has this name"), "{}", setting.key);
    }
}

#[test]
fn secrets_are_read_from_their_files() {
    let token = |place: &Place| match place.config().web.token {
        web::WebToken::Configured(token) => token.expose_secret().to_owned(),
        other => panic!("{other:?}"),
    };
    let place = Place::with("web:\n  token_file: secret\n").file("secret", "s3cret of mine\r\n\n");
    assert_eq!(token(&place), "s3cret of mine");
    assert!(place.setting("web.token").origin.to_string().ends_with("secret (satchel.yaml:2)"));
    let place = place.env("SATCHEL_WEB__TOKEN", "stronger by far");
    assert_eq!(token(&place), "stronger by far");

    let cases = [
        Place::with("web:\n  token_file: missing\n"),
        Place::with("web:\n  token_file: .\n"),
        Place::with("web:\n  token_file: empty\n").file("empty", "\n"),
        Place::with("web:\n  token_file: long\n").file("long", "x".repeat(70_000)),
        Place::with("web:\n  token_file: bytes\n").file("bytes", [0xff]),
        Place::with("web:\n  token: four words of mine\n  token_file: b\n").file("b", "b"),
        Place::with("web:\n  token: 12345\n"),
        Place::with("web:\n  token: ' '\n"),
        Place::with("log_file: a\n"),
    ];
    let shown: Vec<String> = cases.iter().map(Place::complaint).collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn instructions_are_a_text_or_a_file() {
    let instructions = |place: &Place| place.config().instructions.map(|given| given.0);
    let inline = Place::with("instructions: |\n  You are Ada's librarian.\n  Never rhyme.\n");
    assert_eq!(instructions(&inline).as_deref(), Some("You are Ada's librarian.\nNever rhyme.\n"));
    assert_eq!(Place::empty().config().instructions, None);

    let place = Place::with("log: info\ninstructions_file: who.md\n").file("who.md", "You are Ada's librarian.\n");
    assert_eq!(instructions(&place).as_deref(), Some("You are Ada's librarian.\n"));
    let shown = place.setting("instructions");
    assert_eq!(shown.value.as_str(), Some("You are Ada's librarian.\n"));
    assert!(shown.origin.to_string().ends_with("who.md (satchel.yaml:2)"), "{}", shown.origin);
    let place = place.env("SATCHEL_INSTRUCTIONS", "You are Bob's.");
    assert_eq!(instructions(&place).as_deref(), Some("You are Bob's."), "the stronger origin wins");

    // A relative path counts from the configuration file, wherever Satchel is started.
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("etc")).unwrap();
    fs::write(dir.path().join("etc/who.md"), "You are Ada's.").unwrap();
    fs::write(dir.path().join("etc/satchel.yaml"), "instructions_file: who.md\n").unwrap();
    let sources =
        ConfigSources { file: Some(Path::new("etc/satchel.yaml")), set: &[], environment: &[], cwd: dir.path() };
    assert_eq!(load(&sources).unwrap().config().instructions, Some(Instructions("You are Ada's.".into())));
}

#[test]
fn wrong_instructions_are_named_with_their_place() {
    let by_file = || Place::with("log: info\ninstructions_file: who.md\n");
    let cases = [
        Place::with("instructions: [a]\n"),
        Place::with("log: info\ninstructions: ' '\n"),
        Place::with(&format!("instructions: {}\n", "x".repeat(100_001))),
        by_file(),
        Place::with("instructions_file: .\n"),
        by_file().file("who.md", "\n"),
        by_file().file("who.md", "x".repeat(100_001)),
        by_file().file("who.md", [0xff]),
        Place::with("instructions: a\ninstructions_file: who.md\n").file("who.md", "b"),
    ];
    let shown: Vec<String> = cases.iter().map(Place::complaint).collect();
    insta::assert_snapshot!(shown.join("\n"));
}

/// What `config show` prints, with the directory's own name taken out.
fn shown(place: &Place, json: bool) -> String {
    let mut out = Vec::new();
    let decision =
        ModelSelection { candidates: vec![ModelCandidate::Offline { name: "offline".into() }], reason: "so".into() };
    commands::config::show(&place.load().unwrap(), &decision, json, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap().replace(&place.dir.path().display().to_string(), "<dir>");
    // The directory's name has another length each time and pads the column behind it.
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn no_secret_is_ever_shown() {
    let secret = |yaml: &str| yaml.replace("SECRET", CANARY);
    let accepted = [
        "telegram:\n  token: SECRET\n  webhook: https://h/x?k=SECRET\n  api_url: http://SECRET@h\n",
        "discord:\n  token: SECRET\n",
        "discord:\n  token: !SECRET x\n",
        "models:\n  a:\n    provider: offline\n    api_key: SECRET\n    base_url: http://u:SECRET@h/\n",
        "web:\n  token: SECRET\n",
        "storage:\n  database_url: postgres://u:SECRET@h/d?password=SECRET\n  blobs_url: s3://k:SECRET@bucket\n",
        "bus:\n  url: nats://u:SECRET@h\n",
        "bus:\n  url: nats://h\n  nkey: SECRET\n",
        "bus:\n  url: nats://h\n  credentials: SECRET\n",
        "mcp:\n  a:\n    environment:\n      TOKEN: SECRET\n",
    ];
    for yaml in accepted {
        let place = Place::with(&secret(yaml));
        let loaded = place.load().unwrap();
        let seen = format!("{}{}{:?}{}", shown(&place, false), shown(&place, true), loaded, place.complaint());
        assert!(!seen.contains(CANARY), "{yaml}\n{seen}");
    }
    let refused = [
        "telegram:\n  token: [SECRET]\n",
        "telegram:\n  token: {a: SECRET}\n",
        "telegram:\n  token: SECRET\n  token: SECRET\n",
        "telegram:\n  token: \"SECRET\n",
        "telegram:\n  token: SECRET\n bad: [\n",
        "telegram:\n  tokn: SECRET\n",
        "telegram:\n\ttoken: SECRET\n",
        "telegram:\n  token: SECRET: x\n",
        "telegram:\n  token: @SECRET\n",
        "telegram:\n  token: *SECRET\n",
        "telegram:\n  api_url: SECRET\n",
        "storage:\n  database_url: mysql://SECRET\n",
        "bus:\n  url: SECRET\n",
        "models:\n  a: SECRET\n",
    ];
    for yaml in refused {
        let place = Place::with(&secret(yaml));
        let problems = place.load().expect_err(yaml);
        assert!(!format!("{problems}{problems:?}").contains(CANARY), "{yaml}\n{problems}");
    }
    for place in [
        Place::empty().env("SATCHEL_TELEGRAM__TOKN", CANARY),
        Place::empty().set(&format!("telegram.tokn={CANARY}")),
        Place::empty().set(CANARY),
    ] {
        assert!(!place.load().unwrap_err().to_string().contains(CANARY));
    }
}

#[test]
fn aliases_can_not_multiply_without_end() {
    let mut yaml = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    let mut before = 'a';
    for name in 'b'..='j' {
        let aliases = vec![format!("*{before}"); 9].join(",");
        yaml.push_str(&format!("{name}: &{name} [{aliases}]\n"));
        before = name;
    }
    let complaint = Place::with(&yaml).complaint();
    assert!(complaint.contains("aliases"), "{complaint}");
    let deep = Place::with(&format!("log: {}", "[".repeat(100_000))).complaint();
    assert!(deep.starts_with("satchel.yaml:1:"), "{deep}");
}

#[test]
fn anchors_and_merges_keep_working() {
    let place = Place::with("telegram: &people\n  owners: [1]\ndiscord:\n  <<: *people\n  channels: ['*']\n");
    assert_eq!(place.config().discord.owners.0, ["1"]);
}

#[test]
fn check_counts_what_was_given() {
    let place = Place::with("log: info\n").env("SATCHEL_TURN__MODEL_CALLS", "3").set("delivery.pace=off");
    let mut out = Vec::new();
    commands::config::check(place.load().unwrap(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.ends_with("settings, 1 from satchel.yaml, 1 from the environment, 1 from --set\n"), "{text}");
}
