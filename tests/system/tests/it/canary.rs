//! Secrets and private texts stay where they belong: each test plants a canary, runs Satchel, and searches everything.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use satchel_system::real_binary::{ProcessOutput, TestHome, run_to_end};

/// What only the configuration may hold.
const SECRET: &str = "canary-9c41e7d5-secret";

/// What a person wrote, named a file, put into it, and what came of it.
const PRIVATE_TEXTS: [&str; 3] = ["quicksilver-message", "quicksilver-content", "quicksilver-name"];

/// Where a secret is configured.
enum SecretSource {
    ConfigFile,
    Environment,
    SecretFile,
    CommandLine,
}

/// Every secret that there is, with the rest of what its section needs.
const SECRET_KEYS: [&str; 8] = [
    "telegram.token",
    "telegram.api_url",
    "telegram.webhook",
    "discord.token",
    "discord.api_url",
    "web.token",
    "storage.database_url",
    "storage.blobs_url",
];

fn secret_value(key: &str) -> String {
    match key {
        "telegram.token" => format!("123456:{SECRET}"),
        "storage.database_url" => format!("postgres://ann:{SECRET}@db.example/satchel"),
        "storage.blobs_url" => format!("s3://AKIA:{SECRET}@bucket"),
        key if key.ends_with("url") || key.ends_with("webhook") => format!("https://ann:{SECRET}@api.example/hook"),
        _ => SECRET.to_owned(),
    }
}

/// Plants a secret and prepares a command that meets it.
fn plant_secret(home: &TestHome, key: &str, source: &SecretSource, arguments: &[&str]) -> Command {
    let value = secret_value(key);
    let (section, name) = key.split_once('.').expect("secrets stand in sections");
    let mut command = home.satchel_command(&["--log", "trace"]);
    match source {
        SecretSource::ConfigFile => {
            home.write_file("satchel.yaml", format!("{section}:\n  {name}: {value:?}\n"));
        }
        SecretSource::Environment => {
            command.env(format!("SATCHEL_{}__{}", section.to_uppercase(), name.to_uppercase()), &value);
        }
        SecretSource::SecretFile => {
            home.write_file("the-secret", &value);
            home.write_file("satchel.yaml", format!("{section}:\n  {name}_file: the-secret\n"));
        }
        SecretSource::CommandLine => {
            command.arg("--set").arg(format!("{key}={value}"));
        }
    }
    command.args(arguments);
    command
}

/// Everything beneath a directory that holds these bytes.
fn find_files_containing(directory: &Path, bytes: &[u8], excluded: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of ours can be listed").flatten() {
        let path = entry.path();
        let is_excluded = |name: &OsStr| excluded.iter().any(|spared| *spared == name);
        if path.is_dir() {
            find_files_containing(&path, bytes, excluded, found);
        } else if !path.file_name().is_some_and(is_excluded) {
            let content = fs::read(&path).unwrap_or_default();
            if content.windows(bytes.len()).any(|window| window == bytes) {
                found.push(path);
            }
        }
    }
}

fn assert_no_secret(output: &ProcessOutput, case: &str) {
    output.assert_no_crash(case);
    assert!(!output.stdout.contains(SECRET), "{case}: {}", output.stdout);
    assert!(!output.stderr.contains(SECRET), "{case}: {}", output.stderr);
}

#[test]
fn secret_appears_only_where_it_was_put() {
    let sources =
        [SecretSource::ConfigFile, SecretSource::Environment, SecretSource::SecretFile, SecretSource::CommandLine];
    for key in SECRET_KEYS {
        for (at, source) in sources.iter().enumerate() {
            let home = TestHome::new();
            home.write_file("a.txt", "content");
            let once = ["chat", "--once", "save this and send it back", "--attach", "a.txt", "--json"];
            for arguments in [&once[..], &["config", "show"], &["config", "show", "--json"], &["config", "check"]] {
                let case = format!("{key}, way {at}, {arguments:?}");
                let output = run_to_end(&mut plant_secret(&home, key, source, arguments));
                // `*_file` is for secrets proper; where a URL has no such key, the answer is an error, without the value.
                assert_no_secret(&output, &case);
            }
            let mut found = Vec::new();
            find_files_containing(home.root(), SECRET.as_bytes(), &["satchel.yaml", "the-secret"], &mut found);
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
        let home = TestHome::new();
        home.write_file("satchel.yaml", yaml);
        for arguments in [&["chat", "--once", "hi"][..], &["config", "show"], &["config", "check"]] {
            assert_no_secret(&home.run(arguments), &format!("{case}, {arguments:?}"));
        }
    }
}

/// A secret beside a whole run: everything that a run writes, at the loudest level, is searched.
#[test]
fn full_tool_run_never_prints_nearby_secrets() {
    let home = TestHome::new();
    home.write_file("a.txt", "content");
    home.write_file("the-secret", SECRET);
    // The key in the environment would be taken for the model's, and the run be about something else.
    home.write_file("satchel.yaml", "model: offline\nweb:\n  token_file: the-secret\n");
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
        let mut command = home.satchel_command(&["--log", "trace", "chat", "--once", text, "--json"]);
        command.env("OPENAI_API_KEY", SECRET);
        for file in files {
            command.arg("--attach").arg(file);
        }
        let output = run_to_end(&mut command);
        assert_no_secret(&output, text);
        logged |= output.stderr.lines().any(|line| line.starts_with('{'));
    }
    for arguments in [&["attachments", "list"][..], &["outbox", "list", "--all"], &["config", "show"]] {
        assert_no_secret(&home.run(arguments), &arguments.join(" "));
    }
    assert!(logged, "the loudest level says something, so that the search means something");
    let mut found = Vec::new();
    find_files_containing(home.root(), SECRET.as_bytes(), &["the-secret"], &mut found);
    assert_eq!(found, Vec::<PathBuf>::new());
}

#[test]
fn message_contents_are_never_logged() {
    let [message, content, name] = PRIVATE_TEXTS;
    let home = TestHome::new();
    let file = format!("{name}.txt");
    home.write_file(&file, content);
    for (filter, searched) in [
        (None, &PRIVATE_TEXTS[..]),
        (Some("warn,satchel=info"), &PRIVATE_TEXTS),
        (Some("satchel=debug"), &PRIVATE_TEXTS),
    ] {
        let mut arguments = vec!["chat", "--once"];
        let text = format!("save this as {message}.txt, overwrite");
        arguments.extend([text.as_str(), "--json", "--attach", file.as_str()]);
        if let Some(filter) = filter {
            arguments.splice(0..0, ["--log", filter]);
        }
        let output = home.run(&arguments);
        output.assert_no_crash("a run");
        assert!(output.stdout.contains(message), "the run is about what is searched for: {output:#?}");
        for words in searched {
            assert!(!output.stderr.contains(words), "{filter:?}: {words} in {}", output.stderr);
        }
    }
}
