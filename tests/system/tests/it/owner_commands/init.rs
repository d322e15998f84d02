//! `satchel init`: what it asks, tries out, refuses and writes.

use std::{
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use satchel_system::real_binary::{Household, Ran, await_end, finish, type_lines};

use super::stranger::Stranger;

const TELEGRAM: &str = "123456789:AA-canary-telegram";
const DISCORD: &str = "canary.discord.token";

/// Telegram and Discord at one address, each knowing one token.
fn platforms() -> Stranger {
    Stranger::answering(|head| {
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

fn init(household: &Household, platforms: &Stranger, more: &[&str]) -> Command {
    let mut command = household.satchel(&["init"]);
    command.args(more).env("SATCHEL_TELEGRAM__API_URL", platforms.url());
    command.env("SATCHEL_DISCORD__API_URL", platforms.url());
    command
}

fn answering(command: &mut Command, lines: &[&str]) -> Ran {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the binary starts");
    type_lines(&mut child, lines);
    await_end(child)
}

/// The file is for its owner alone, `config check` takes it, and nothing that was typed was shown.
fn assert_written(household: &Household, ran: &Ran, case: &str) -> String {
    ran.assert_orderly(case);
    assert_eq!(ran.code(), Some(0), "{case}: {ran:#?}");
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("canary"), "{case}: {ran:#?}");
    let path = household.work().join("satchel.yaml");
    let mode = std::fs::metadata(&path).expect("it was written").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{case}");
    let checked = household.run(&["config", "check"]);
    assert_eq!(checked.code(), Some(0), "{case}: {checked:#?}");
    std::fs::read_to_string(path).expect("it is text")
}

#[test]
fn a_script_gets_a_file_without_being_asked() {
    let (household, platforms) = (Household::new(), platforms());
    let ran = finish(&mut init(
        &household,
        &platforms,
        &["--yes", "--model", "offline", "--telegram-token", TELEGRAM, "--discord-token", DISCORD],
    ));
    let file = assert_written(&household, &ran, "a script");
    assert!(file.contains(&format!("\n  token: \"{TELEGRAM}\"")), "{file}");
    assert!(file.contains(&format!("\n  token: \"{DISCORD}\"")), "{file}");
    assert_eq!(platforms.asked().len(), 2, "both tokens were tried out");
    let again = finish(&mut init(&household, &platforms, &["--yes", "--model", "offline"]));
    assert_eq!(again.code(), Some(2), "{again:#?}");
    assert!(again.stderr.contains("--force"), "{again:#?}");
    assert_eq!(std::fs::read_to_string(household.work().join("satchel.yaml")).expect("it stays"), file);
    let forced = finish(&mut init(&household, &platforms, &["--yes", "--model", "offline", "--force"]));
    assert!(!assert_written(&household, &forced, "forced").contains("canary"));
    let left: Vec<_> = std::fs::read_dir(household.work()).expect("it can be listed").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn invalid_input_is_explained_and_nothing_is_written() {
    let platforms = platforms();
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
        let household = Household::new();
        let mut command = init(&household, &platforms, &["--yes"]);
        let ran = finish(command.args(arguments));
        ran.assert_orderly(case);
        assert_eq!(ran.code(), Some(1), "{case}: {ran:#?}");
        for words in told {
            assert!(ran.stderr.contains(words), "{case}: no {words:?} in {ran:#?}");
        }
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("canary"), "{case}: {ran:#?}");
        assert!(!household.work().join("satchel.yaml").exists(), "{case}");
    }
    let household = Household::new();
    let unchecked = ["--yes", "--no-check", "--model", "gemini", "--api-key", "canary-key"];
    let ran = finish(&mut init(&household, &platforms, &unchecked));
    assert!(assert_written(&household, &ran, "unchecked").contains("api_key: \"canary-key\""));
}

#[test]
fn a_person_is_asked_again_after_a_slip() {
    let (household, platforms) = (Household::new(), platforms());
    let lines = ["6", "what is a token?", "7:canary-but-wrong", TELEGRAM, "canary", DISCORD];
    let ran = answering(&mut init(&household, &platforms, &[]), &lines);
    let file = assert_written(&household, &ran, "a person");
    assert!(file.contains("model: offline\n") && file.contains(TELEGRAM) && file.contains(DISCORD), "{file}");
    assert_eq!(ran.stdout.matches("That did not work").count(), 3, "{ran:#?}");
    assert!(ran.stdout.contains("Telegram knows it as @satchel_bot"), "{ran:#?}");
    assert!(ran.stdout.contains("Discord knows it as satchel"), "{ran:#?}");

    let kept = answering(&mut init(&household, &platforms, &[]), &["n"]);
    assert_eq!(kept.code(), Some(1), "{kept:#?}");
    assert!(kept.stderr.contains("was not changed"), "{kept:#?}");
    let gone = answering(&mut init(&household, &platforms, &[]), &["y", "6"]);
    assert_eq!(gone.code(), Some(1), "{gone:#?}");
    assert!(gone.stderr.contains("nothing was written"), "{gone:#?}");
    assert_eq!(std::fs::read_to_string(household.work().join("satchel.yaml")).expect("it stays"), file);
}

/// A `satchel.yaml` beside it changes where data is looked for; what was said before must not seem lost.
#[test]
fn what_was_said_before_stays_in_reach() {
    let (household, platforms) = (Household::new(), platforms());
    let at_home = |arguments: &[&str]| {
        let mut command = household.satchel(arguments);
        finish(command.env_remove("SATCHEL_STORAGE__DATA_DIR"))
    };
    let said = at_home(&["chat", "--once", "hello", "--json"]);
    assert_eq!(said.code(), Some(0), "{said:#?}");
    let mut command = init(&household, &platforms, &["--yes", "--model", "offline"]);
    let ran = finish(command.env_remove("SATCHEL_STORAGE__DATA_DIR"));
    assert_eq!(ran.code(), Some(0), "{ran:#?}");
    assert!(ran.stdout.contains(".local/share/satchel"), "{ran:#?}");
    let parts = at_home(&["outbox", "list", "--all"]);
    assert!(parts.stdout.contains("console:main"), "{parts:#?}");
}
