//! The compose file of a cluster, held against the product: its commands, its configuration, its images and its secrets.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use clap::Parser;
use satchel::cli::Cli;
use satchel_requirements::{find_programs, required};
use satchel_system::real_binary::{TestHome, run_to_end, workspace_root};
use satchel_yaml::{YamlNode, YamlValue};
use serde_json::Value;

/// Where a container finds its secrets.
const SECRETS_DIR: &str = "/run/secrets/";

/// The services of the compose file that are Satchel, and how many there are of each.
const ROLES: [(&str, u64); 3] = [("gateway", 2), ("agent", 3), ("delivery", 2)];

/// What the files of the secrets hold, of which none may be printed.
const SECRETS: [(&str, &str); 10] = [
    ("postgres_password", "canary-postgres"),
    ("database_url", "postgres://satchel:canary-postgres@postgres/satchel"),
    ("nats_users", "user: satchel, password: \"canary-nats\""),
    ("bus_url", "nats://satchel:canary-nats@nats:4222"),
    ("s3_user", "satchel"),
    ("s3_password", "canary-s3"),
    ("blobs_url", "s3://satchel:canary-s3@satchel/files?endpoint=http://s3:9000"),
    ("telegram_token", "1:canary-telegram"),
    ("model_key", "canary-model"),
    ("web_token", "canary-web-token"),
];

fn read_example(name: &str) -> String {
    fs::read_to_string(workspace_root().join("docs/examples/cluster").join(name)).expect("the example has it")
}

fn to_json(node: &YamlNode) -> Value {
    match &node.value {
        YamlValue::Null => Value::Null,
        YamlValue::Boolean(value) => (*value).into(),
        YamlValue::Integer(number) => u64::try_from(*number).expect("no number is negative").into(),
        YamlValue::Decimal(number) => (*number).into(),
        YamlValue::Text(text) => text.as_str().into(),
        YamlValue::List(items) => items.iter().map(to_json).collect(),
        YamlValue::Map(entries) => {
            Value::Object(entries.iter().map(|entry| (entry.key.clone(), to_json(&entry.node))).collect())
        }
    }
}

fn compose() -> Value {
    to_json(&satchel_yaml::parse(&read_example("compose.yaml")).expect("it is YAML"))
}

fn services(compose: &Value) -> impl Iterator<Item = (&String, &Value)> {
    compose["services"].as_object().expect("there are services").iter()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Writes the secrets into a directory, and returns it.
fn write_secrets(home: &TestHome) -> PathBuf {
    let secrets = home.root().join("run/secrets");
    fs::create_dir_all(&secrets).expect("a new directory");
    for (name, content) in SECRETS {
        fs::write(secrets.join(name), format!("{content}\n")).expect("a new file");
    }
    secrets
}

/// A text of the example with the data elsewhere.
fn with_data_in(home: &TestHome, text: &str) -> String {
    text.replace(": /data", &format!(": {}/data", home.root().display()))
}

#[test]
fn every_command_is_one_of_satchel() {
    let compose = compose();
    for (service, replicas) in ROLES {
        let service_node = &compose["services"][service];
        assert_eq!(service_node["deploy"]["replicas"], replicas, "{service}");
        let command = texts(&service_node["command"]);
        assert_eq!(command, ["run", "--role", service, "--wait"]);
        let parsed = Cli::try_parse_from(std::iter::once("satchel").chain(command));
        assert!(parsed.is_ok(), "{service}: {parsed:?}");
    }
    let satchel = services(&compose)
        .filter(|(_, service)| service["image"].as_str().is_some_and(|image| image.starts_with("satchel:")));
    assert_eq!(satchel.count(), ROLES.len(), "the others are no Satchel");
}

#[test]
fn images_are_pinned_and_their_health_is_checked() {
    let compose = compose();
    let dockerfile = read_example("Dockerfile");
    let bases =
        dockerfile.lines().filter_map(|line| line.strip_prefix("FROM ")).filter_map(|line| line.split(' ').next());
    let images =
        services(&compose).map(|(name, service)| service["image"].as_str().unwrap_or_else(|| panic!("{name}")));
    for image in images.chain(bases) {
        let tag = image.rsplit_once(':').map(|(_, tag)| tag);
        // Two numbers at least: 15 and 1.95 move on, 15.14 and 1.95.0 don't.
        let is_version =
            |tag: &str| tag.split(|char: char| !char.is_ascii_digit()).filter(|part| !part.is_empty()).count() > 1;
        assert!(tag.is_some_and(is_version), "{image} is not pinned");
    }
    for (name, service) in services(&compose).filter(|(name, _)| *name != "bucket") {
        assert!(service["healthcheck"]["test"].is_array(), "{name} has no health check");
        assert_eq!(service["restart"], "unless-stopped", "{name}");
    }
}

#[test]
fn every_secret_is_a_file() {
    let compose = compose();
    let secrets = compose["secrets"].as_object().expect("there are secrets");
    let declared: BTreeSet<&str> = secrets.keys().map(String::as_str).collect();
    for (name, secret) in secrets {
        assert_eq!(secret["file"], format!("secrets/{name}"));
    }
    let mut used = BTreeSet::new();
    for (service, node) in services(&compose) {
        let given: BTreeSet<&str> = texts(&node["secrets"]).into_iter().collect();
        assert!(given.is_subset(&declared), "{service}: {given:?}");
        used.extend(given.iter().copied());
        for (variable, value) in node["environment"].as_object().into_iter().flatten() {
            let is_secret = ["PASSWORD", "ROOT_USER", "TOKEN", "KEY"].iter().any(|word| variable.contains(word));
            let file = value.as_str().and_then(|path| path.strip_prefix(SECRETS_DIR));
            assert!(
                !is_secret || variable.ends_with("_FILE") && file.is_some_and(|name| given.contains(name)),
                "{variable}"
            );
        }
    }
    assert_eq!(used, declared, "none is declared for nobody");
    assert_eq!(SECRETS.map(|(name, _)| name).into_iter().collect::<BTreeSet<_>>(), declared);
    let config = read_example("satchel.yaml");
    let read: BTreeSet<&str> = config
        .lines()
        .flat_map(|line| line.split(SECRETS_DIR).skip(1))
        .filter_map(|rest| rest.split([' ', '}']).next())
        .collect();
    for (role, _) in ROLES {
        let given: BTreeSet<&str> = texts(&compose["services"][role]["secrets"]).into_iter().collect();
        assert_eq!(given, read, "{role} gets what satchel.yaml reads");
    }
}

#[test]
fn configuration_has_no_mistakes() {
    let home = TestHome::new();
    let secrets = format!("{}/", write_secrets(&home).display());
    let config = with_data_in(&home, &read_example("satchel.yaml")).replace(SECRETS_DIR, &secrets);
    home.write_file("satchel.yaml", config);
    let mut check = home.satchel_command(&["config", "check"]);
    let checked = run_to_end(check.env_remove("SATCHEL_STORAGE__DATA_DIR"));
    assert_eq!(checked.exit_code(), Some(0), "{checked:#?}");
    assert!(!checked.stderr.contains("warning"), "{checked:#?}");
    let shown = home.run(&["config", "show"]);
    for key in ["storage.database_url", "storage.blobs_url", "bus.url", "telegram.token", "web.token"] {
        assert!(shown.stdout.contains(key), "{key}: {shown:#?}");
    }
    assert!(!format!("{checked:?}{shown:?}").contains("canary"), "{shown:#?}");
}

#[test]
fn nats_accepts_its_configuration() {
    let Some(()) = required(find_programs(&["nats-server"])) else { return };
    let home = TestHome::new();
    let directory = home.root().join("etc/nats");
    fs::create_dir_all(&directory).expect("a new directory");
    let config = directory.join("nats.conf");
    fs::write(&config, with_data_in(&home, &read_example("nats.conf"))).expect("a new file");
    let secrets = write_secrets(&home);
    let test = |config: &Path| run_to_end(Command::new("nats-server").arg("-t").arg("-c").arg(config));
    assert_eq!(test(&config).exit_code(), Some(0), "{:#?}", test(&config));
    fs::remove_file(secrets.join("nats_users")).expect("it is there");
    assert_ne!(test(&config).exit_code(), Some(0), "its users stand in the secret");
}
