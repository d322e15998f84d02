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
use satchel_servers::postgres::PostgresServer;
use satchel_system::real_binary::{TestHome, decoder_worker, run_to_end, script_worker, workspace_root};
use satchel_yaml::{YamlNode, YamlValue};
use serde_json::Value;

/// Where a container finds its secrets.
const SECRETS_DIR: &str = "/run/secrets/";

/// The services of the compose file that are Satchel, and how many there are of each.
const ROLES: [(&str, u64); 3] = [("gateway", 2), ("agent", 3), ("delivery", 2)];

/// What the files of the secrets hold, of which none may be printed.
const SECRETS: [(&str, &str); 11] = [
    ("postgres_password", "canary-postgres"),
    ("satchel_password", "canary-satchel"),
    ("database_url", "postgres://satchel:canary-satchel@postgres/satchel"),
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
    for (service, _) in ROLES {
        let check = texts(&compose["services"][service]["healthcheck"]["test"]);
        assert_eq!(check, ["CMD", "satchel", "healthcheck", "--role", service]);
        let parsed = Cli::try_parse_from(check.into_iter().skip(1));
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

/// What the doctor finds of the example beside what its servers answer, in a home with the example's configuration.
fn run_doctor(home: &TestHome, database_url: &str) -> Value {
    let secrets = format!("{}/", write_secrets(home).display());
    home.write_file("satchel.yaml", with_data_in(home, &read_example("satchel.yaml")).replace(SECRETS_DIR, &secrets));
    let (database, files) = (format!("storage.database_url={database_url}"), "storage.blobs_url=file:files");
    // Nobody is to be asked over the network but the database.
    let nobody = ["bus.url=nats://127.0.0.1:1", "telegram.api_url=http://127.0.0.1:1"];
    let model = ["models.main.base_url=http://127.0.0.1:1/v1/", "web.listen=0.0.0.0:0"];
    let mut doctor = home.satchel_command(&["doctor", "--json"]);
    for setting in [database.as_str(), files].into_iter().chain(nobody).chain(model) {
        doctor.args(["--set", setting]);
    }
    let output = run_to_end(doctor.env_remove("SATCHEL_STORAGE__DATA_DIR"));
    output.assert_no_crash("the doctor of the example");
    assert!(!format!("{output:?}").contains("canary"), "{output:#?}");
    output.json()
}

/// What is found of one subject and is not well.
fn complaints(findings: &Value, check: &str) -> Vec<String> {
    let all = findings["findings"].as_array().into_iter().flatten();
    let of_check = all.filter(|finding| finding["check"] == check && finding["level"] != "ok");
    of_check.map(ToString::to_string).collect()
}

#[test]
fn example_gives_its_doctor_no_reason_to_complain() {
    let _workers = (script_worker(), decoder_worker());
    let found = run_doctor(&TestHome::new(), "postgres://satchel@127.0.0.1:1/satchel");
    for check in ["configuration", "web", "metrics", "permissions", "scripts", "documents", "sandbox", "schedule"] {
        assert_eq!(complaints(&found, check), [] as [&str; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn role_of_the_example_owns_its_schema_and_nothing_else() {
    let Some(server) = required(PostgresServer::start_private().await) else { return };
    let database = server.create_database().await.expect("the server was just started");
    let home = TestHome::new();
    let secrets = format!("{}/", write_secrets(&home).display());
    let roles = home.write_file("roles.sql", read_example("roles.sql").replace(SECRETS_DIR, &secrets));
    let mut psql = Command::new("psql");
    psql.args(["--no-psqlrc", "--host=127.0.0.1", "--username=postgres", "--dbname=tests", "--set=ON_ERROR_STOP=1"]);
    let made = run_to_end(psql.args(["--port", &database.port().to_string(), "--file"]).arg(roles));
    assert_eq!(made.exit_code(), Some(0), "{made:#?}");
    let found = run_doctor(&home, &format!("postgres://satchel:canary-satchel@127.0.0.1:{}/tests", database.port()));
    assert_eq!(complaints(&found, "database"), [] as [&str; 0], "{found:#}");
    let texts = found.to_string();
    assert!(
        texts.contains("schema `satchel` of the database `tests`") && texts.contains("the first start creates"),
        "{texts}"
    );
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
