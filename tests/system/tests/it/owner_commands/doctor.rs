//! `satchel doctor`: what it finds well, what it warns of, and what it calls a problem.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt};

use satchel_fake_model::{FakeModelServer, ModelWire};
use satchel_system::real_binary::{Household, Ran, finish};
use serde_json::Value;

use super::{serving::Serving, stranger::Stranger};

/// Something wrong: its name, the settings that bring it about, what finds it, how bad it is, and what is told.
type Trouble<'a> = (&'a str, &'a [&'a str], &'a str, &'a str, &'a [&'a str]);

/// What was found of one subject, as level and words.
fn found(ran: &Ran, check: &str) -> Vec<(String, String)> {
    let all = ran.json()["findings"].as_array().cloned().unwrap_or_default();
    let text = |finding: &Value, of: &str| finding[of].as_str().unwrap_or_default().to_owned();
    let of_check = all.iter().filter(|finding| finding["check"] == check);
    of_check
        .map(|finding| {
            assert_eq!(finding["level"] == "ok", finding["advice"].is_null(), "what is wrong has a remedy: {finding}");
            (text(finding, "level"), format!("{} → {}", text(finding, "found"), text(finding, "advice")))
        })
        .collect()
}

/// Looks at a household with the page on a port that nobody uses for long.
fn doctor(household: &Household, settings: &[&str]) -> Ran {
    let mut command = household.satchel(&["doctor", "--json", "--set", "web.listen=127.0.0.1:0"]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    finish(&mut command)
}

fn assert_found(ran: &Ran, check: &str, level: &str, words: &[&str]) {
    ran.assert_orderly(check);
    let found = found(ran, check);
    let fits = |(of, told): &(String, String)| of == level && words.iter().all(|words| told.contains(words));
    assert!(found.iter().any(fits), "no {level} with {words:?} among {found:?}");
    let expected = if ran.stdout.contains(r#""level": "problem""#) { 1 } else { 0 };
    assert_eq!(ran.code(), Some(expected), "{ran:#?}");
}

#[test]
fn fresh_machine_is_healthy_and_stays_untouched() {
    let household = Household::new();
    let ran = doctor(&household, &["model=offline"]);
    assert_eq!(ran.code(), Some(0), "{ran:#?}");
    for (check, words) in [
        ("configuration", "no configuration file"),
        ("model", "offline model"),
        ("database", "the first start creates"),
        ("disk", "free"),
        ("web", "is free for the page"),
        ("scripts", "the script worker is ready"),
        ("clock", "not compared"),
        ("limits", "files may be open"),
        ("processes", "no other process"),
    ] {
        assert_found(&ran, check, "ok", &[words]);
    }
    assert!(!household.data().exists(), "it looked and changed nothing");
    let lines =
        finish(&mut household.satchel(&["doctor", "--set", "model=offline", "--set", "web.listen=127.0.0.1:0"]));
    assert!(lines.stdout.lines().any(|line| line.starts_with("ok       database ")), "{lines:#?}");
}

#[tokio::test]
async fn beside_a_running_server_all_is_well_too() {
    let household = Household::new();
    let server = Serving::start(&household, &["--set", "model=offline"]);
    server.say("list my files").await;
    let listen = format!("web.listen={}", server.page.trim_start_matches("http://"));
    let ran = finish(household.satchel(&["doctor", "--json", "--set", "model=offline"]).args(["--set", &listen]));
    assert_eq!(ran.code(), Some(0), "{ran:#?}");
    assert_found(&ran, "web", "ok", &["is served by Satchel"]);
    assert_found(&ran, "database", "ok", &["is healthy", "schema version"]);
    assert_found(&ran, "processes", "ok", &["one other process"]);
    assert_found(&ran, "permissions", "ok", &["only its owner"]);
    server.say("what did I send").await;
    server.signal("TERM");
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn every_problem_is_reported_with_a_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let listen = format!("web.listen={}", taken.local_addr().expect("it is bound"));
    let long_ago = Stranger::answering(|_| (200, "date: Mon, 03 Nov 2025 10:00:00 GMT\r\n".to_owned(), String::new()));
    let their_url = format!("models.main.base_url={}/v1/", long_ago.url());
    let cases: [Trouble<'_>; 9] = [
        ("port taken", &[&listen], "web", "problem", &["another program", "web.listen"]),
        (
            "no such address",
            &["web.listen=203.0.113.7:80", "web.token=a long enough one"],
            "web",
            "problem",
            &["no address"],
        ),
        ("no key", &["models.main.provider=openai"], "model", "problem", &["models.main.api_key", "OPENAI_API_KEY"]),
        (
            "clock",
            &["models.main.provider=openai", "models.main.api_key=k", "models.main.model=m", &their_url],
            "clock",
            "problem",
            &["s off, compared with a server", "timedatectl"],
        ),
        (
            "no worker",
            &["tools.script.worker=/nowhere/at/all"],
            "scripts",
            "warning",
            &["scripts are off: /nowhere/at/all"],
        ),
        (
            "no program",
            &["tools.script.worker=/etc/passwd"],
            "scripts",
            "problem",
            &["can't run", "cargo xtask worker"],
        ),
        ("not built", &["bus.url=nats://h"], "configuration", "problem", &["bus.url", "not built yet"]),
        ("no place", &["storage.data_dir=/dev/null/satchel"], "disk", "problem", &["is in the way"]),
        (
            "open, not encrypted",
            &["web.listen=0.0.0.0:0", "web.token=four words of mine"],
            "web",
            "warning",
            &["not encrypted"],
        ),
    ];
    for (case, settings, check, level, words) in cases {
        let household = Household::new();
        let mut arguments = vec!["doctor", "--json"];
        if !settings.iter().any(|setting| setting.starts_with("web.listen")) {
            arguments.extend(["--set", "web.listen=127.0.0.1:0"]);
        }
        settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
        let mut command = household.satchel(&arguments);
        // Nobody is to be asked over the network but who stands in the case.
        command.env("SATCHEL_TELEGRAM__API_URL", "http://127.0.0.1:9");
        println!("{case}");
        assert_found(&finish(&mut command), check, level, words);
    }
}

#[test]
fn damaged_or_mismatched_database_is_reported() {
    let household = Household::new();
    let said = household.once("hello", &[]);
    assert_eq!(said.code(), Some(0), "{said:#?}");
    let path = household.data().join("satchel.db");
    fs::set_permissions(household.data(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let ran = doctor(&household, &["model=offline"]);
    assert_found(&ran, "permissions", "warning", &["chmod 700"]);
    assert_eq!(ran.code(), Some(0), "a warning is no problem");

    // Whoever closes the database last, as the doctor just did, brings everything into this one file.
    let good = fs::read(&path).expect("it is there");
    let mut damaged = good.clone();
    let from = damaged.len() / 3;
    damaged[from..].fill(0xa5);
    fs::write(&path, damaged).expect("it can be written");
    assert_found(&doctor(&household, &["model=offline"]), "database", "problem", &["damaged", "backup"]);
    fs::write(&path, "no database, whatever its name says; and long enough to be read").expect("it can be written");
    assert_found(&doctor(&household, &["model=offline"]), "database", "problem", &["not a Satchel database"]);
    fs::write(&path, good).expect("it can be written");
    assert_found(&doctor(&household, &["model=offline"]), "database", "ok", &["is healthy"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_asked_whether_it_is_there() {
    let fake = FakeModelServer::start().await.expect("a loopback port");
    let wire = ModelWire::Anthropic;
    let household = Household::new();
    let file = |key: &str, model: &str| {
        let url = fake.base_url(wire);
        let yaml = format!(
            "models:\n  main: {{ provider: anthropic, base_url: \"{url}\", api_key: \"{key}\", model: \"{model}\" }}\n"
        );
        let path = household.file("satchel.yaml", yaml);
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("it is ours");
    };
    file(FakeModelServer::KEY, wire.model());
    assert_found(&doctor(&household, &[]), "model", "ok", &["answers"]);
    file("canary-wrong", wire.model());
    let ran = doctor(&household, &[]);
    assert_found(&ran, "model", "problem", &["key", "models.main"]);
    assert!(!ran.stdout.contains("canary"), "{ran:#?}");
    file(FakeModelServer::KEY, "no-such-model");
    assert_found(&doctor(&household, &[]), "model", "problem", &["no-such-model"]);
    fs::set_permissions(household.work().join("satchel.yaml"), fs::Permissions::from_mode(0o644)).expect("it is ours");
    assert_found(&doctor(&household, &[]), "permissions", "warning", &["chmod 600"]);
}

#[test]
fn discord_bot_without_message_content_is_reported() {
    for (flags, may_read) in [(0, false), (1 << 18, true), (1 << 19, true)] {
        let discord = Stranger::answering(move |head| {
            let body = if head.starts_with("GET /api/v10/applications/@me ") {
                format!(r#"{{"id":"2","flags":{flags}}}"#)
            } else {
                r#"{"id":"1","username":"satchel","bot":true}"#.to_owned()
            };
            (200, "content-type: application/json\r\n".to_owned(), body)
        });
        let household = Household::new();
        let url = format!("discord.api_url={}", discord.url());
        let ran = doctor(&household, &["model=offline", "discord.token=x.y.z", &url, "discord.owners=['7']"]);
        assert_found(&ran, "discord", "ok", &["the token belongs to satchel"]);
        let invitation =
            "https://discord.com/oauth2/authorize?client_id=2&scope=bot+applications.commands&permissions=";
        assert_found(&ran, "discord", "ok", &[invitation]);
        let warned = found(&ran, "discord").iter().any(|(_, told)| told.contains("Message Content Intent"));
        assert_eq!(warned, !may_read, "{flags}: {ran:#?}");
        let asked = discord.asked();
        let mut calls = asked.iter().filter(|head| head.contains(" /api/v10/"));
        assert!(calls.all(|head| head.contains("authorization: Bot x.y.z\r\n")), "{asked:?}");
    }
}
