//! Secrets and words that must not be anywhere else: a canary is planted, a whole run is made, everything is searched.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use satchel_system::real_binary::{Household, Ran, finish};

/// What only the configuration may hold.
const SECRET: &str = "canary-9c41e7d5-secret";

/// What a person wrote, named a file, put into it, and what came of it.
const WORDS: [&str; 3] = ["quicksilver-message", "quicksilver-content", "quicksilver-name"];

/// How a secret comes in.
enum Way {
    InTheFile,
    InTheEnvironment,
    InAFileOfItsOwn,
    OnTheCommandLine,
}

/// Every secret that there is, with the rest of what its section needs.
const SECRETS: [&str; 8] = [
    "telegram.token",
    "telegram.api_url",
    "telegram.webhook",
    "discord.token",
    "discord.api_url",
    "web.token",
    "storage.database_url",
    "storage.blobs_url",
];

fn value_of(key: &str) -> String {
    match key {
        "telegram.token" => format!("123456:{SECRET}"),
        "storage.database_url" => format!("postgres://ann:{SECRET}@db.example/satchel"),
        "storage.blobs_url" => format!("s3://AKIA:{SECRET}@bucket"),
        key if key.ends_with("url") || key.ends_with("webhook") => format!("https://ann:{SECRET}@api.example/hook"),
        _ => SECRET.to_owned(),
    }
}

/// Plants a secret and prepares a command that meets it.
fn planted(household: &Household, key: &str, way: &Way, arguments: &[&str]) -> Command {
    let value = value_of(key);
    let (section, name) = key.split_once('.').expect("secrets stand in sections");
    let mut command = household.satchel(&["--log", "trace"]);
    match way {
        Way::InTheFile => {
            household.file("satchel.yaml", format!("{section}:\n  {name}: {value:?}\n"));
        }
        Way::InTheEnvironment => {
            command.env(format!("SATCHEL_{}__{}", section.to_uppercase(), name.to_uppercase()), &value);
        }
        Way::InAFileOfItsOwn => {
            household.file("the-secret", &value);
            household.file("satchel.yaml", format!("{section}:\n  {name}_file: the-secret\n"));
        }
        Way::OnTheCommandLine => {
            command.arg("--set").arg(format!("{key}={value}"));
        }
    }
    command.args(arguments);
    command
}

/// Everything beneath a directory that holds these bytes.
fn holding(directory: &Path, bytes: &[u8], spared: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of ours can be listed").flatten() {
        let path = entry.path();
        let is_spared = |name: &OsStr| spared.iter().any(|spared| *spared == name);
        if path.is_dir() {
            holding(&path, bytes, spared, found);
        } else if !path.file_name().is_some_and(is_spared) {
            let content = fs::read(&path).unwrap_or_default();
            if content.windows(bytes.len()).any(|window| window == bytes) {
                found.push(path);
            }
        }
    }
}

fn assert_silent(ran: &Ran, case: &str) {
    ran.assert_orderly(case);
    assert!(!ran.stdout.contains(SECRET), "{case}: {}", ran.stdout);
    assert!(!ran.stderr.contains(SECRET), "{case}: {}", ran.stderr);
}

#[test]
fn secret_appears_only_where_it_was_put() {
    let ways = [Way::InTheFile, Way::InTheEnvironment, Way::InAFileOfItsOwn, Way::OnTheCommandLine];
    for key in SECRETS {
        for (at, way) in ways.iter().enumerate() {
            let household = Household::new();
            household.file("a.txt", "content");
            let once = ["chat", "--once", "save this and send it back", "--attach", "a.txt", "--json"];
            for arguments in [&once[..], &["config", "show"], &["config", "show", "--json"], &["config", "check"]] {
                let case = format!("{key}, way {at}, {arguments:?}");
                let ran = finish(&mut planted(&household, key, way, arguments));
                // `*_file` is for secrets proper; where a URL has no such key, the answer is an error, without the value.
                assert_silent(&ran, &case);
            }
            let mut found = Vec::new();
            holding(household.root(), SECRET.as_bytes(), &["satchel.yaml", "the-secret"], &mut found);
            assert_eq!(found, Vec::<PathBuf>::new(), "{key}, way {at}");
        }
    }
}

#[test]
fn error_does_not_repeat_misplaced_secret() {
    let cases = [
        ("a token that isn't text", format!("telegram:\n  token: [{SECRET}]\n")),
        ("a misspelt key", format!("telegram:\n  tokn: {SECRET}\n")),
        ("a key in the wrong section", format!("web:\n  listen: off\ntelegramm:\n  token: {SECRET}\n")),
        ("both the value and its file", format!("telegram:\n  token: {SECRET}\n  token_file: nowhere\n")),
        ("an unreadable database", format!("storage:\n  database_url: mysql://ann:{SECRET}@db/x\n")),
        ("no YAML after it", format!("telegram:\n  token: \"{SECRET}\n  owners: [\n")),
        (
            "an api_key",
            format!(
                "models:\n  main:\n    provider: openai\n    api_key: {SECRET}\n    base_url: http://127.0.0.1:9/v1/\n    \
                 model: m\n"
            ),
        ),
        ("an api_key as a list", format!("models:\n  main:\n    provider: openai\n    api_key: [{SECRET}]\n")),
    ];
    for (case, yaml) in cases {
        let household = Household::new();
        household.file("satchel.yaml", yaml);
        for arguments in [&["chat", "--once", "hi"][..], &["config", "show"], &["config", "check"]] {
            assert_silent(&household.run(arguments), &format!("{case}, {arguments:?}"));
        }
    }
}

/// A secret beside a whole run: everything that a run writes, at the loudest level, is searched.
#[test]
fn full_tool_run_never_prints_nearby_secrets() {
    let household = Household::new();
    household.file("a.txt", "content");
    household.file("the-secret", SECRET);
    // The key in the environment would be taken for the model's, and the run be about something else.
    household.file("satchel.yaml", "model: offline\nweb:\n  token_file: the-secret\n");
    let mut logged = false;
    for (text, files) in [
        ("save this as notes/a.txt and send it back", &["a.txt"][..]),
        ("list my files", &[]),
        ("/tool no_such_tool {}", &[]),
        ("/tool file_read {\"path\": \"/etc/passwd\"}", &[]),
        ("write b.txt: hello", &[]),
        ("/files", &[]),
        ("/outbox", &[]),
        ("take this", &["gone.txt"]),
    ] {
        let mut command = household.satchel(&["--log", "trace", "chat", "--once", text, "--json"]);
        command.env("OPENAI_API_KEY", SECRET);
        for file in files {
            command.arg("--attach").arg(file);
        }
        let ran = finish(&mut command);
        assert_silent(&ran, text);
        logged |= ran.stderr.lines().any(|line| line.starts_with('{'));
    }
    for arguments in [&["attachments", "list"][..], &["outbox", "list", "--all"], &["config", "show"]] {
        assert_silent(&household.run(arguments), &arguments.join(" "));
    }
    assert!(logged, "the loudest level says something, so that the search means something");
    let mut found = Vec::new();
    holding(household.root(), SECRET.as_bytes(), &["the-secret"], &mut found);
    assert_eq!(found, Vec::<PathBuf>::new());
}

#[test]
fn what_people_write_is_in_no_log() {
    let [message, content, name] = WORDS;
    let household = Household::new();
    let file = format!("{name}.txt");
    household.file(&file, content);
    for (filter, searched) in [(None, &WORDS[..]), (Some("warn,satchel=info"), &WORDS), (Some("satchel=debug"), &WORDS)]
    {
        let mut arguments = vec!["chat", "--once"];
        let text = format!("save this as {message}.txt, overwrite");
        arguments.extend([text.as_str(), "--json", "--attach", file.as_str()]);
        if let Some(filter) = filter {
            arguments.splice(0..0, ["--log", filter]);
        }
        let ran = household.run(&arguments);
        ran.assert_orderly("a run");
        assert!(ran.stdout.contains(message), "the run is about what is searched for: {ran:#?}");
        for words in searched {
            assert!(!ran.stderr.contains(words), "{filter:?}: {words} in {}", ran.stderr);
        }
    }
}
