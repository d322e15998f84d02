//! The command on a configuration in a directory, with a web server on this machine.

use std::{fs, os::unix::fs::symlink, path::Path};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::{adapters, config, config::ConfigSources, stores};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x03\x08\x06\0\0\0";

/// A Friday, half past six in the evening, in Greenwich.
const NOW: Timestamp = Timestamp(1_795_199_400_000);

const CONFIG: &str = r#"
attachments: { allow_hosts: [127.0.0.0/8], max_download_size_bytes: 1000 }
storage: { data_dir: data }
templates: { env: [CITY] }
agents:
  - id: painter
    instructions: You paint.
    attachments:
      - { type: image, paths: ["./assets/**/*.png"], meta: { source: local } }
    actions:
      - { id: paint, prompt: "Paint {{ .input.subject }}." }
      - id: compare
        prompt: Compare.
        attachments: [{ type: url, url: "https://example.com/rules?token=secret" }]
tasks:
  - { id: generate-image, agent: painter, action: paint }
  - id: check
    agent: painter
    action: compare
    input: { subject: "{{ .workflow.id }} in {{ .env.CITY }}" }
    attachments:
      - { type: image, url: "http://127.0.0.1:PORT/good.png", name: "{{ .input.subject }}" }
      - { type: image, path: "{{ .tasks.generate-image.output.path }}" }
      - { type: file, path: ./notes.txt, optional: true }
      - { type: image, paths: ["./missing/*.png"], optional: true }
"#;

/// A directory with a configuration, files and a server.
struct ResolveHarness {
    home: TempDir,
}

impl ResolveHarness {
    async fn new(config: &str) -> Self {
        let home = TempDir::new().unwrap();
        let config = config.replace("PORT", &serve().await.to_string());
        for (path, content) in [
            ("satchel.yaml", config.as_bytes()),
            ("assets/a.png", PNG),
            ("assets/deep/b.png", PNG),
            ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"),
            ("text.png", b"not an image"),
        ] {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Self { home }
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Runs the command; what it prints, with the error at the end.
    async fn resolve(&self, options: ResolveOptions) -> String {
        let mut out = Vec::new();
        let result = self.run(&options, &mut out).await;
        let mut text = String::from_utf8(out).unwrap();
        if let Err(error) = result {
            text.push_str(&format!("error: {error}\n"));
        }
        let home = self.home.path().canonicalize().unwrap();
        let text = text.replace(home.to_str().unwrap(), "HOME").replace(&find_port(&text), "PORT");
        // The widths of the columns depend on the port and the directory.
        collapse_columns(&text)
    }

    async fn run(&self, options: &ResolveOptions, out: &mut dyn Write) -> anyhow::Result<()> {
        let cwd = self.home.path();
        let environment = [("CITY", "Berlin"), ("SECRET", "s3cret")].map(|(name, value)| (name.into(), value.into()));
        let loaded = config::load(&ConfigSources { file: None, set: &[], environment: &environment, cwd })?;
        let config = loaded.config();
        let (files, fetcher) = (stores::open_declared_files(config).await?, adapters::open_fetcher(config));
        let policy = config.attachments.resolution_policy();
        let services = ResolveServices { files: &*files, fetcher: &*fetcher, policy, now: NOW };
        run(options, &loaded, &services, cwd, out).await
    }
}

/// Leaves two spaces between columns.
fn collapse_columns(table: &str) -> String {
    let mut text = table.to_owned();
    while text.contains("   ") {
        text = text.replace("   ", "  ");
    }
    text
}

/// The port in a text, or something that is not in it.
fn find_port(text: &str) -> String {
    let after = text.split("127.0.0.1:").nth(1).unwrap_or_default();
    let port: String = after.chars().take_while(char::is_ascii_digit).collect();
    if port.is_empty() { "no port".to_owned() } else { port }
}

fn options(file: &str) -> ResolveOptions {
    ResolveOptions { file: file.into(), task: None, input: Vec::new(), schedule: None, no_fetch: false, json: false }
}

/// Serves some files; its port.
async fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap();
            let path = String::from_utf8_lossy(&head[..length]).split(' ').nth(1).unwrap_or_default().to_owned();
            let (mime, body): (&str, Vec<u8>) = match path.split('?').next().unwrap_or_default() {
                "/good.png" => ("text/html", PNG.to_vec()),
                "/page.png" => ("image/png", b"<!DOCTYPE html><html><script>alert(1)</script></html>".to_vec()),
                "/big.png" => ("image/png", [PNG, &[0; 2000]].concat()),
                _ => ("text/plain", Vec::new()),
            };
            let status = if body.is_empty() { "404 Not Found" } else { "200 OK" };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: {mime}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
        }
    });
    port
}

#[tokio::test]
async fn every_entry_says_origin_and_result() {
    let harness = ResolveHarness::new(CONFIG).await;
    insta::assert_snapshot!(harness.resolve(options("satchel.yaml")).await);
    let left = fs::read_dir(harness.home.path().join("data/downloads")).unwrap().count();
    assert_eq!(left, 0, "temporary files are gone");
}

#[tokio::test]
async fn json_has_every_entry() {
    let harness = ResolveHarness::new(CONFIG).await;
    let json = ResolveOptions { json: true, task: Some("check".to_owned()), ..options("./satchel.yaml") };
    insta::assert_snapshot!(harness.resolve(json).await);
}

#[tokio::test]
async fn playbook_uses_agents_of_the_configuration() {
    let harness = ResolveHarness::new(CONFIG).await;
    let task = "tasks:\n  - id: night\n    agent: painter\n    action: compare\n    attachments: [{ type: file, path: ../satchel.yaml }, \
                { type: file, path: '{{ .workflow.id }}.csv' }, { type: file, path: '{{ .input.city }}' }]\n";
    harness.write("playbooks/nightly.yaml", task);
    harness.write("playbooks/nightly.csv", "a,b\n");
    harness.write("elsewhere/other.yaml", &task.replace("night", "other"));
    let input = vec![("city".to_owned(), "{{ .env.CITY }}".to_owned())];
    let nightly = harness.resolve(ResolveOptions { input: input.clone(), ..options("playbooks/nightly.yaml") }).await;
    let other = harness.resolve(ResolveOptions { input, ..options("elsewhere/other.yaml") }).await;
    insta::assert_snapshot!(format!("{nightly}\n{other}"));
}

#[tokio::test]
async fn what_is_not_of_its_kind_fails() {
    let config = r#"
attachments: { allow_hosts: [127.0.0.0/8], max_download_size_bytes: 1000 }
storage: { data_dir: data }
agents:
  - id: a
    instructions: x
    attachments:
      - { type: image, path: drawing.svg }
      - { type: image, path: text.png }
      - { type: image, url: "http://127.0.0.1:PORT/page.png?key=secret" }
      - { type: image, url: "http://127.0.0.1:PORT/big.png?key=secret" }
      - { type: image, url: "http://127.0.0.1:PORT/gone.png?key=secret" }
      - { type: pdf, url: "http://127.0.0.1:PORT/good.png", optional: true }
      - { type: image, url: "http://me:secret@127.0.0.1:PORT/good.png" }
      - { type: file, path: /etc/passwd }
      - { type: file, path: ../x }
      - { type: file, path: assets }
"#;
    let harness = ResolveHarness::new(config).await;
    let text = harness.resolve(options("satchel.yaml")).await;
    assert!(!text.contains("secret"), "{text}");
    insta::assert_snapshot!(text);
}

#[tokio::test]
async fn mistakes_of_files_and_options_are_named() {
    let harness = ResolveHarness::new(CONFIG).await;
    harness.write("bad.yaml", "log: debug\nagents: [{ id: x }]\n");
    harness.write("twin.yaml", "agents: [{ id: painter, instructions: x }]\n");
    harness.write("empty.yaml", "");
    harness.write("typo.yaml", "tasks: [{ id: t, agent: painter, action: compare, attachments: [{ type: file, path: '{{ .input.nope }}' }] }]\n");
    let mut text = String::new();
    for options in [
        options("bad.yaml"),
        options("twin.yaml"),
        options("empty.yaml"),
        options("typo.yaml"),
        options("none.yaml"),
        ResolveOptions { task: Some("chek".to_owned()), ..options("satchel.yaml") },
    ] {
        text.push_str(&harness.resolve(options).await);
    }
    insta::assert_snapshot!(text);
}

/// Catches: a value, a link or a glob that gives a task the settings, or the files of other people.
#[tokio::test]
async fn own_data_and_settings_are_never_attached() {
    let config = r#"
storage: { data_dir: data }
workspace: { shared_dir: shared }
models: { main: { provider: openai, api_key_file: keys/openai } }
agents: [{ id: reader, instructions: x, actions: [{ id: read, prompt: x }] }]
tasks:
  - id: report
    agent: reader
    action: read
    attachments: [{ type: file, path: "{{ .input.name }}" }, { type: image, paths: ["**/*.png"] }]
"#;
    let harness = ResolveHarness::new(config).await;
    for path in ["data/web-token", "data/workspaces/ann/shared/holiday.png", "shared/theirs.png", "keys/openai"] {
        harness.write(path, "canary");
    }
    harness.write("playbooks/more.yaml", "agents: [{ id: other, instructions: x }]\n");
    symlink("data/web-token", harness.home.path().join("link")).unwrap();
    let report = async |name: &str| {
        let input = vec![("name".to_owned(), name.to_owned())];
        harness.resolve(ResolveOptions { input, ..options("satchel.yaml") }).await
    };
    for name in ["data/web-token", "link", "shared/theirs.png", "keys/openai", "satchel.yaml", "playbooks/more.yaml"] {
        let text = report(name).await;
        assert!(text.contains("Satchel's data and configuration can't be attached"), "{name}: {text}");
        assert!(text.contains("assets/deep/b.png") && !text.contains("holiday.png"), "{name}: {text}");
        assert_eq!(text.contains("theirs.png"), name == "shared/theirs.png", "{name}: {text}");
    }
    for name in ["../satchel.yaml", "assets/../data/web-token", ".env"] {
        let text = report(name).await;
        assert!(text.contains("comes from a value"), "{name}: {text}");
    }
    let text = report("assets/deep/b.png").await;
    assert!(!text.contains("can't be attached") && !text.contains("comes from a value"), "{text}");
}

/// Backups and a Bot API server may use the directory of the configuration: only what they write is left out.
#[tokio::test]
async fn directory_that_a_setting_names_may_hold_the_declarations() {
    let config = r#"
storage: { data_dir: data }
backup: { to: . }
telegram: { api_url: 'http://localhost:8081', local_files: . }
agents: [{ id: reader, instructions: x, actions: [{ id: read, prompt: x }] }]
tasks:
  - id: report
    agent: reader
    action: read
    attachments: [{ type: image, paths: ["**/*.png"] }]
"#;
    let harness = ResolveHarness::new(config).await;
    for path in ["objects/ab/backup.png", "12345:token/photos/theirs.png"] {
        harness.write(path, "canary");
    }
    let text = harness.resolve(options("satchel.yaml")).await;
    assert!(text.contains("assets/deep/b.png") && !text.contains("can't be attached"), "{text}");
    assert!(!text.contains("backup.png") && !text.contains("theirs.png"), "{text}");
}

/// Only variables of the list can be named.
#[tokio::test]
async fn other_variables_stay_hidden() {
    let harness = ResolveHarness::new(&CONFIG.replace(".env.CITY", ".env.SECRET")).await;
    let text = harness.resolve(ResolveOptions { task: Some("check".to_owned()), ..options("satchel.yaml") }).await;
    assert!(text.contains("`input.subject`: `{{ .env.SECRET }}`: `env.SECRET` is not given; there is CITY"), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
}

/// A template finds the same values here as when the task runs, started by a person or by a schedule.
#[tokio::test]
async fn templates_find_the_values_of_runs() {
    let config = r#"
storage: { data_dir: data }
telegram: { token: '1:a' }
schedules:
  nightly: { cron: "0 3 * * *", timezone: Europe/Berlin, task: report, input: { city: Bonn }, conversation: "telegram:7" }
  hello: { cron: "0 8 * * *", prompt: hi, conversation: "telegram:7" }
agents: [{ id: reader, instructions: x, actions: [{ id: read, prompt: x }] }]
tasks:
  - { id: other, agent: reader, action: read }
  - id: report
    agent: reader
    action: read
    attachments:
      - type: url
        url: "https://a.example/{{ .trigger.kind }}/{{ .input.city }}/{{ .workflow.exec_id | length }}"
        name: "{{ .trigger.due | default(\"now\") }}"
"#;
    let harness = ResolveHarness::new(config).await;
    let input = vec![("city".to_owned(), "Ulm".to_owned())];
    let by_person = harness.resolve(ResolveOptions { input, ..options("satchel.yaml") }).await;
    assert!(by_person.contains("task other"), "{by_person}");
    assert!(by_person.contains("https://a.example/message/Ulm/36  named, not fetched  now  tasks."), "{by_person}");
    let of = |schedule: &str| ResolveOptions { schedule: Some(schedule.to_owned()), ..options("satchel.yaml") };
    let by_schedule = harness.resolve(of("nightly")).await;
    assert!(!by_schedule.contains("task other"), "{by_schedule}");
    let expected = "https://a.example/schedule/Bonn/36  named, not fetched  2026-11-21 03:00 Europe/Berlin  tasks.";
    assert!(by_schedule.contains(expected), "{by_schedule}");
    assert_eq!(harness.resolve(of("hello")).await, "error: the schedule `hello` runs no task\n");
    assert_eq!(harness.resolve(of("x")).await, "error: there is no schedule `x`; there is nightly, hello\n");
}

#[tokio::test]
async fn nothing_is_opened_without_fetching() {
    let harness = ResolveHarness::new(&CONFIG.replace("PORT", "1")).await;
    let text = harness.resolve(ResolveOptions { no_fetch: true, ..options("satchel.yaml") }).await;
    assert!(text.contains("not checked") && !text.contains("FAILED"), "{text}");
    assert!(Path::new(&harness.home.path().join("data")).exists());
}
