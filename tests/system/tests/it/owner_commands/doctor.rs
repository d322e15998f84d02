//! `satchel doctor`: what it finds well, what it warns of, and what it calls a problem.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt};

use satchel_fake_model::{FakeModelServer, ModelWire};
use satchel_system::real_binary::{ProcessOutput, TestHome, run_to_end};
use serde_json::Value;

use super::{server_process::ServerProcess, stub_server::StubServer};

/// A problem: its name, the settings that cause it, the check that finds it, its level, and the expected texts.
type DoctorCase<'a> = (&'a str, &'a [&'a str], &'a str, &'a str, &'a [&'a str]);

/// What was found of one subject, as level and words.
fn findings(output: &ProcessOutput, check: &str) -> Vec<(String, String)> {
    let all = output.json()["findings"].as_array().cloned().unwrap_or_default();
    let text = |finding: &Value, of: &str| finding[of].as_str().unwrap_or_default().to_owned();
    let of_check = all.iter().filter(|finding| finding["check"] == check);
    of_check
        .map(|finding| {
            assert_eq!(finding["level"] == "ok", finding["advice"].is_null(), "what is wrong has a remedy: {finding}");
            (text(finding, "level"), format!("{} → {}", text(finding, "found"), text(finding, "advice")))
        })
        .collect()
}

/// The page on a port that nobody uses for long, and nothing reserved on the disk: whether the disk of the machine that
/// runs the tests has room for the default reserve says nothing of Satchel.
const ANY_MACHINE: [&str; 4] = ["--set", "web.listen=127.0.0.1:0", "--set", "storage.reserve=0"];

/// What the doctor finds in a home, as JSON.
fn run_doctor(home: &TestHome, settings: &[&str]) -> ProcessOutput {
    let mut command = home.satchel_command(&["doctor", "--json"]);
    command.args(ANY_MACHINE);
    for setting in settings {
        command.args(["--set", setting]);
    }
    run_to_end(&mut command)
}

pub(super) fn assert_found(output: &ProcessOutput, check: &str, level: &str, words: &[&str]) {
    output.assert_no_crash(check);
    let found = findings(output, check);
    let fits = |(of, text): &(String, String)| of == level && words.iter().all(|words| text.contains(words));
    assert!(found.iter().any(fits), "no {level} with {words:?} among {found:?}");
    let expected = if output.stdout.contains(r#""level": "problem""#) { 1 } else { 0 };
    assert_eq!(output.exit_code(), Some(expected), "{output:#?}");
}

#[test]
fn fresh_machine_is_healthy_and_stays_untouched() {
    let home = TestHome::new();
    let output = run_doctor(&home, &["model=offline"]);
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
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
        assert_found(&output, check, "ok", &[words]);
    }
    assert!(!home.data_directory().exists(), "it looked and changed nothing");
    let lines = run_to_end(home.satchel_command(&["doctor", "--set", "model=offline"]).args(ANY_MACHINE));
    assert!(lines.stdout.lines().any(|line| line.starts_with("ok       database ")), "{lines:#?}");
}

#[tokio::test]
async fn running_server_has_no_findings() {
    let home = TestHome::new();
    let server = ServerProcess::start(&home, &["--set", "model=offline"]);
    server.send_and_wait("list my files").await;
    let listen = format!("web.listen={}", server.page.trim_start_matches("http://"));
    let output =
        run_to_end(home.satchel_command(&["doctor", "--json", "--set", "model=offline"]).args(["--set", &listen]));
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    assert_found(&output, "web", "ok", &["is served by Satchel"]);
    assert_found(&output, "database", "ok", &["is healthy", "schema version"]);
    assert_found(&output, "processes", "ok", &["one other process"]);
    assert_found(&output, "permissions", "ok", &["only its owner"]);
    server.send_and_wait("what did I send").await;
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
}

#[test]
fn every_problem_is_reported_with_a_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let listen = format!("web.listen={}", taken.local_addr().expect("it is bound"));
    let stub_server =
        StubServer::respond_with(|_| (200, "date: Mon, 03 Nov 2025 10:00:00 GMT\r\n".to_owned(), String::new()));
    let their_url = format!("models.main.base_url={}/v1/", stub_server.url());
    let cases: [DoctorCase<'_>; 8] = [
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
        let home = TestHome::new();
        let mut arguments = vec!["doctor", "--json"];
        if !settings.iter().any(|setting| setting.starts_with("web.listen")) {
            arguments.extend(["--set", "web.listen=127.0.0.1:0"]);
        }
        settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
        let mut command = home.satchel_command(&arguments);
        // Nobody is to be asked over the network but who stands in the case.
        command.env("SATCHEL_TELEGRAM__API_URL", "http://127.0.0.1:9");
        println!("{case}");
        assert_found(&run_to_end(&mut command), check, level, words);
    }
}

#[test]
fn damaged_or_mismatched_database_is_reported() {
    let home = TestHome::new();
    let said = home.run_once("hello", &[]);
    assert_eq!(said.exit_code(), Some(0), "{said:#?}");
    let path = home.data_directory().join("satchel.db");
    fs::set_permissions(home.data_directory(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let output = run_doctor(&home, &["model=offline"]);
    assert_found(&output, "permissions", "warning", &["chmod 700"]);
    assert_eq!(output.exit_code(), Some(0), "a warning is no problem");

    // Whoever closes the database last, as the doctor just did, brings everything into this one file.
    let good = fs::read(&path).expect("it is there");
    let mut damaged = good.clone();
    let from = damaged.len() / 3;
    damaged[from..].fill(0xa5);
    fs::write(&path, damaged).expect("it can be written");
    assert_found(&run_doctor(&home, &["model=offline"]), "database", "problem", &["damaged", "backup"]);
    fs::write(&path, "no database, whatever its name says; and long enough to be read").expect("it can be written");
    assert_found(&run_doctor(&home, &["model=offline"]), "database", "problem", &["not a Satchel database"]);
    fs::write(&path, good).expect("it can be written");
    assert_found(&run_doctor(&home, &["model=offline"]), "database", "ok", &["is healthy"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn model_is_probed() {
    let fake = FakeModelServer::start().await.expect("a loopback port");
    let wire = ModelWire::Anthropic;
    let home = TestHome::new();
    let file = |key: &str, model: &str| {
        let url = fake.base_url(wire);
        let yaml = format!(
            "models:\n  main: {{ provider: anthropic, base_url: \"{url}\", api_key: \"{key}\", model: \"{model}\" }}\n"
        );
        let path = home.write_file("satchel.yaml", yaml);
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("it is ours");
    };
    file(FakeModelServer::KEY, wire.model());
    assert_found(&run_doctor(&home, &[]), "model", "ok", &["answers"]);
    file("canary-wrong", wire.model());
    let output = run_doctor(&home, &[]);
    assert_found(&output, "model", "problem", &["key", "models.main"]);
    assert!(!output.stdout.contains("canary"), "{output:#?}");
    file(FakeModelServer::KEY, "no-such-model");
    assert_found(&run_doctor(&home, &[]), "model", "problem", &["no-such-model"]);
    fs::set_permissions(home.work_directory().join("satchel.yaml"), fs::Permissions::from_mode(0o644))
        .expect("it is ours");
    assert_found(&run_doctor(&home, &[]), "permissions", "warning", &["chmod 600"]);
}

#[test]
fn discord_bot_without_message_content_is_reported() {
    for (flags, may_read) in [(0, false), (1 << 18, true), (1 << 19, true)] {
        let discord = StubServer::respond_with(move |head| {
            let body = if head.starts_with("GET /api/v10/applications/@me ") {
                format!(r#"{{"id":"2","flags":{flags}}}"#)
            } else {
                r#"{"id":"1","username":"satchel","bot":true}"#.to_owned()
            };
            (200, "content-type: application/json\r\n".to_owned(), body)
        });
        let home = TestHome::new();
        let url = format!("discord.api_url={}", discord.url());
        let output = run_doctor(&home, &["model=offline", "discord.token=x.y.z", &url, "discord.owners=['7']"]);
        assert_found(&output, "discord", "ok", &["the token belongs to satchel"]);
        let invitation =
            "https://discord.com/oauth2/authorize?client_id=2&scope=bot+applications.commands&permissions=";
        assert_found(&output, "discord", "ok", &[invitation]);
        let warned = findings(&output, "discord").iter().any(|(_, told)| told.contains("Message Content Intent"));
        assert_eq!(warned, !may_read, "{flags}: {output:#?}");
        let asked = discord.requests();
        let mut calls = asked.iter().filter(|head| head.contains(" /api/v10/"));
        assert!(calls.all(|head| head.contains("authorization: Bot x.y.z\r\n")), "{asked:?}");
    }
}
