//! `satchel init`: what it asks, tries out, refuses and writes.

use std::{
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use satchel_fake_telegram::{FakeTelegram, TelegramRules};
use satchel_system::real_binary::{ProcessOutput, TestHome, run_to_end, type_lines, wait_for_exit};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::stub_server::StubServer;

const TELEGRAM: &str = "123456789:AA-canary-telegram";
const DISCORD: &str = "canary.discord.token";

/// Telegram and Discord at one address, each knowing one token.
fn stub_platforms() -> StubServer {
    StubServer::respond_with(|head| {
        let json = || "content-type: application/json\r\n".to_owned();
        if head.starts_with(&format!("GET /bot{TELEGRAM}/getMe ")) {
            (200, json(), r#"{"ok":true,"result":{"id":123456789,"is_bot":true,"username":"satchel_bot"}}"#.to_owned())
        } else if head.starts_with("GET /bot") {
            (404, json(), r#"{"ok":false,"error_code":404,"description":"Not Found"}"#.to_owned())
        } else if head.contains(&format!("authorization: Bot {DISCORD}\r\n")) {
            (200, json(), r#"{"id":"1","username":"satchel","bot":true}"#.to_owned())
        } else {
            (401, json(), r#"{"message":"401: Unauthorized","code":0}"#.to_owned())
        }
    })
}

fn init_command(home: &TestHome, server: &StubServer, arguments: &[&str]) -> Command {
    let mut command = home.satchel_command(&["init"]);
    command.args(arguments).env("SATCHEL_TELEGRAM__API_URL", server.url());
    command.env("SATCHEL_DISCORD__API_URL", server.url());
    command
}

fn run_with_input(command: &mut Command, lines: &[&str]) -> ProcessOutput {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the binary starts");
    type_lines(&mut child, lines);
    wait_for_exit(child)
}

/// The file is for its owner alone, `config check` takes it, and nothing that was typed was shown.
fn assert_written(home: &TestHome, output: &ProcessOutput, case: &str) -> String {
    output.assert_no_crash(case);
    assert_eq!(output.exit_code(), Some(0), "{case}: {output:#?}");
    assert!(!format!("{}{}", output.stdout, output.stderr).contains("canary"), "{case}: {output:#?}");
    let path = home.work_directory().join("satchel.yaml");
    let mode = std::fs::metadata(&path).expect("it was written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{case}");
    let checked = home.run(&["config", "check"]);
    assert_eq!(checked.exit_code(), Some(0), "{case}: {checked:#?}");
    std::fs::read_to_string(path).expect("it is text")
}

#[test]
fn script_creates_file_without_questions() {
    let (home, server) = (TestHome::new(), stub_platforms());
    let output = run_to_end(&mut init_command(
        &home,
        &server,
        &["--yes", "--model", "offline", "--telegram-token", TELEGRAM, "--discord-token", DISCORD],
    ));
    let file = assert_written(&home, &output, "a script");
    assert!(file.contains(&format!("\n  token: \"{TELEGRAM}\"")), "{file}");
    assert!(file.contains(&format!("\n  token: \"{DISCORD}\"")), "{file}");
    assert_eq!(server.requests().len(), 2, "both tokens were tried out");
    let again = run_to_end(&mut init_command(&home, &server, &["--yes", "--model", "offline"]));
    assert_eq!(again.exit_code(), Some(2), "{again:#?}");
    assert!(again.stderr.contains("--force"), "{again:#?}");
    assert_eq!(std::fs::read_to_string(home.work_directory().join("satchel.yaml")).expect("it stays"), file);
    let forced = run_to_end(&mut init_command(&home, &server, &["--yes", "--model", "offline", "--force"]));
    assert!(!assert_written(&home, &forced, "forced").contains("canary"));
    let left: Vec<_> = std::fs::read_dir(home.work_directory()).expect("it can be listed").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn invalid_input_is_explained_and_nothing_is_written() {
    let server = stub_platforms();
    let cases: [(&str, &[&str], &[&str]); 5] = [
        ("no token", &["--telegram-token", "canary"], &["Telegram: this is not a Telegram token", "@BotFather"]),
        ("path tricks", &["--telegram-token", "1:canary/../x"], &["this is not a Telegram token"]),
        ("unknown token", &["--telegram-token", "5:canary"], &["Telegram doesn't accept this token"]),
        ("unknown Discord token", &["--discord-token", "canary"], &["Discord doesn't accept this token"]),
        (
            "a server that isn't there",
            &["--model", "ollama", "--base-url", "http://127.0.0.1:9/", "--model-name", "m"],
            &["the model can't be used", "--no-check"],
        ),
    ];
    for (case, arguments, told) in cases {
        let home = TestHome::new();
        let mut command = init_command(&home, &server, &["--yes"]);
        let output = run_to_end(command.args(arguments));
        output.assert_no_crash(case);
        assert_eq!(output.exit_code(), Some(1), "{case}: {output:#?}");
        for words in told {
            assert!(output.stderr.contains(words), "{case}: no {words:?} in {output:#?}");
        }
        assert!(!format!("{}{}", output.stdout, output.stderr).contains("canary"), "{case}: {output:#?}");
        assert!(!home.work_directory().join("satchel.yaml").exists(), "{case}");
    }
    let home = TestHome::new();
    let unchecked = ["--yes", "--no-check", "--model", "gemini", "--api-key", "canary-key"];
    let output = run_to_end(&mut init_command(&home, &server, &unchecked));
    assert!(assert_written(&home, &output, "unchecked").contains("api_key: \"canary-key\""));
}

#[test]
fn invalid_answer_repeats_question() {
    let (home, server) = (TestHome::new(), stub_platforms());
    let lines = ["6", "what is a token?", "7:canary-but-wrong", TELEGRAM, "canary", DISCORD];
    let output = run_with_input(&mut init_command(&home, &server, &[]), &lines);
    let file = assert_written(&home, &output, "a person");
    assert!(file.contains("model: offline\n") && file.contains(TELEGRAM) && file.contains(DISCORD), "{file}");
    assert_eq!(output.stdout.matches("That did not work").count(), 3, "{output:#?}");
    assert!(output.stdout.contains("Telegram knows it as @satchel_bot"), "{output:#?}");
    assert!(output.stdout.contains("Discord knows it as satchel"), "{output:#?}");

    let kept = run_with_input(&mut init_command(&home, &server, &[]), &["n"]);
    assert_eq!(kept.exit_code(), Some(1), "{kept:#?}");
    assert!(kept.stderr.contains("was not changed"), "{kept:#?}");
    let gone = run_with_input(&mut init_command(&home, &server, &[]), &["y", "6"]);
    assert_eq!(gone.exit_code(), Some(1), "{gone:#?}");
    assert!(gone.stderr.contains("nothing was written"), "{gone:#?}");
    assert_eq!(std::fs::read_to_string(home.work_directory().join("satchel.yaml")).expect("it stays"), file);
}

/// A `satchel.yaml` beside it changes where data is looked for; what was said before must not seem lost.
#[test]
fn init_keeps_earlier_conversations_reachable() {
    let (home, server) = (TestHome::new(), stub_platforms());
    let at_home = |arguments: &[&str]| {
        let mut command = home.satchel_command(arguments);
        run_to_end(command.env_remove("SATCHEL_STORAGE__DATA_DIR"))
    };
    let said = at_home(&["chat", "--once", "hello", "--json"]);
    assert_eq!(said.exit_code(), Some(0), "{said:#?}");
    let mut command = init_command(&home, &server, &["--yes", "--model", "offline"]);
    let output = run_to_end(command.env_remove("SATCHEL_STORAGE__DATA_DIR"));
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    assert!(output.stdout.contains(".local/share/satchel"), "{output:#?}");
    let parts = at_home(&["outbox", "list", "--all"]);
    assert!(parts.stdout.contains("console:main"), "{parts:#?}");
}

/// A word that is no choice must not mean "no model".
#[test]
fn unknown_word_for_the_model_repeats_the_question() {
    let (home, server) = (TestHome::new(), stub_platforms());
    let output = run_with_input(&mut init_command(&home, &server, &[]), &["banana", "opnai", "offline", "", ""]);
    let file = assert_written(&home, &output, "words");
    assert!(file.contains("model: offline\n"), "{file}");
    let stdout = &output.stdout;
    assert!(stdout.contains("`banana` is none of these: the names are openai, anthropic, gemini, ollama"), "{stdout}");
    assert!(stdout.contains("`opnai` is none of these: did you mean `openai`?"), "{stdout}");
}

#[test]
fn models_of_an_own_server_are_listed_and_one_is_chosen() {
    let (home, platforms) = (TestHome::new(), stub_platforms());
    let server = StubServer::respond_with(|head| {
        let json = "content-type: application/json\r\n".to_owned();
        match head.starts_with("GET /v1/models ") {
            true => (200, json, r#"{"data":[{"id":"llama-3.3-70b"},{"id":"qwen3:8b"}]}"#.to_owned()),
            false => (404, json, "{}".to_owned()),
        }
    });
    let address = format!("{}/v1", server.url());
    let lines = ["server", &address, "", "qwen3:9b", "n", "2", "", ""];
    let output = run_with_input(&mut init_command(&home, &platforms, &[]), &lines);
    let file = assert_written(&home, &output, "an own server");
    assert!(file.contains("    model: \"qwen3:8b\"\n"), "{file}");
    let stdout = &output.stdout;
    assert!(stdout.contains("The server has these models:\n   1  llama-3.3-70b\n   2  qwen3:8b\n"), "{stdout}");
    assert!(stdout.contains("The server lists no model `qwen3:9b`: did you mean `qwen3:8b`?"), "{stdout}");
}

/// Anybody may write to a bot: the owner is who has read the code at the terminal.
#[tokio::test]
async fn who_sends_the_code_to_the_bot_becomes_its_owner() {
    const ANN: i64 = 41;
    const BOB: i64 = 42;
    let home = TestHome::new();
    let telegram = FakeTelegram::start(TelegramRules::default()).await.expect("a loopback port");
    for (person, name) in [(ANN, "Ann"), (BOB, "Bob")] {
        telegram.person(person, name);
        telegram.private_chat(person);
    }
    let mut command: tokio::process::Command = home.satchel_command(&["init"]).into();
    command.env("SATCHEL_TELEGRAM__API_URL", telegram.api_url()).kill_on_drop(true);
    let mut init = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary starts");
    let mut input = init.stdin.take().expect("standard input is a pipe");
    // It stays open: somebody is at the terminal, and presses nothing.
    let answers = format!("6\n{}\n\n", telegram.token());
    input.write_all(answers.as_bytes()).await.expect("it reads");
    let mut lines = BufReader::new(init.stdout.take().expect("standard output is a pipe")).lines();
    let mut shown = String::new();
    let code = loop {
        let line = lines.next_line().await.expect("text").unwrap_or_else(|| panic!("it ended without a code: {shown}"));
        if let Some((_, code)) = line.split_once("?start=") {
            break code.to_owned();
        }
        shown.push_str(&line);
    };
    telegram.person_sends(BOB, BOB, "hello, I am the owner");
    telegram.person_sends(ANN, ANN, code.as_str());
    while let Some(line) = lines.next_line().await.expect("text") {
        shown.push_str(&line);
    }
    assert!(init.wait().await.expect("it ends").success(), "{shown}");
    assert!(shown.contains("ok: Ann (id 41) owns the bot"), "{shown}");
    let file = std::fs::read_to_string(home.work_directory().join("satchel.yaml")).expect("it was written");
    assert!(file.contains("  owners: [\"41\"]\n"), "{file}");
    let checked = home.run(&["config", "check"]);
    assert_eq!(checked.exit_code(), Some(0), "{checked:#?}");
    assert_eq!(telegram.unconfirmed_updates(), 2, "what Bob wrote still waits for its answer");
}
