//! `satchel run`: it serves, it counts, it stops in good order, and it says why it can't start.

use std::{
    io::Write,
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

use satchel_fake_discord::{DiscordRules, FakeDiscord};
use satchel_fake_telegram::{FakeTelegram, TelegramRules};
use satchel_system::real_binary::{TestHome, run_to_end};

use super::server_process::{ServerProcess, get_page};

#[tokio::test]
async fn server_serves_page_and_metrics_until_stopped() {
    let home = TestHome::new();
    let mut server = ServerProcess::start(&home, &[]);
    assert!(server.greeting.contains("Satchel is at http://127.0.0.1:"), "{}", server.greeting);
    assert!(server.greeting.contains("offline model"), "{}", server.greeting);
    assert_eq!(get_page(&format!("{}/readyz", server.page)).await.0, 200);
    assert_eq!(get_page(&format!("{}/", server.page)).await.0, 200);
    let turn = server.send_and_wait("list my files").await;
    assert_eq!(turn["ending"], "done", "{turn:#}");

    let (status, figures) = get_page(&server.metrics).await;
    assert_eq!(status, 200);
    for line in [
        r#"satchel_messages_total{channel="web"} 1"#,
        r#"satchel_turns_total{channel="web",ending="done"} 1"#,
        r#"satchel_parts_total{channel="web",kind="text",state="sent"} 1"#,
        r#"satchel_attempts_total{channel="web",kind="text",answer="sent"} 1"#,
        // Asked for what to do, and then for words about what came of it.
        r#"satchel_model_calls_total{model="offline",outcome="done"} 2"#,
        r#"satchel_model_first_piece_seconds_count{model="offline"} 2"#,
        "satchel_oldest_part_age_seconds 0.0",
        "# EOF",
    ] {
        assert!(figures.lines().any(|found| found == line), "{line} in\n{figures}");
    }
    assert_eq!(get_page(&format!("{}/metrics", server.page)).await.0, 401, "there the figures need a login");
    // What is free of a disk that others write to is another number at each look.
    let lasting = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with("satchel_disk_free_bytes{")).map(str::to_owned).collect()
    };
    let (status, of_page) = server.get("/metrics").await;
    assert_eq!((status, lasting(&of_page)), (200, lasting(&figures)), "the page has the same figures");

    let mode = std::fs::metadata(home.data_directory()).expect("the data directory is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "nobody else can look into what was said");
    server.send_signal("TERM");
    server.wait_for_log("stopping");
    let output = server.wait_for_exit();
    output.assert_no_crash("a stop in good order");
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
}

#[tokio::test]
async fn conversation_survives_stop_and_restart() {
    let home = TestHome::new();
    let server = ServerProcess::start(&home, &[]);
    let before = server.send_and_wait("list my files").await;
    server.send_signal("INT");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
    let server = ServerProcess::start(&home, &[]);
    server.send_and_wait("what did I send").await;
    let (_, turns) = server.get("/api/conversations/test/turns").await;
    assert!(turns.contains(before["id"].as_str().expect("a turn has an id")), "{turns}");
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
}

/// An upload that never ends keeps the first stop waiting for a while; the second signal does not care.
#[tokio::test]
async fn second_signal_stops_at_once() {
    let home = TestHome::new();
    let mut server = ServerProcess::start(&home, &[]);
    let host = server.page.trim_start_matches("http://").to_owned();
    let token = std::fs::read_to_string(home.data_directory().join("web-token")).expect("it made a token");
    let mut upload = TcpStream::connect(&host).expect("it listens");
    write!(
        upload,
        "POST /api/conversations/test/uploads?filename=a.bin HTTP/1.1\r\nhost: {host}\r\ncontent-length: 1000\r\n\
         authorization: Bearer {}\r\ncontent-type: application/octet-stream\r\n\r\nonly the beginning",
        token.trim()
    )
    .expect("it reads");
    // It is in flight once what came of it is being stored.
    let incoming = home.data_directory().join("blobs/incoming");
    let started_at = Instant::now();
    while std::fs::read_dir(&incoming).is_ok_and(|mut files| files.next().is_none()) {
        assert!(started_at.elapsed() < Duration::from_secs(30), "the upload is not accepted");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.send_signal("INT");
    server.wait_for_log("stopping");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(server.is_alive(), "what is in flight is waited for");
    server.send_signal("INT");
    let output = server.wait_for_exit();
    output.assert_no_crash("the second signal");
    assert_eq!(output.exit_code(), Some(1), "{output:#?}");
    assert!(output.stderr.contains("stopped; messages"), "{output:#?}");
}

#[test]
fn start_failure_is_explained() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let on = format!("web.listen={address}");
    let figures_on = format!("metrics.listen={address}");
    let cases: [(&str, &[&str], i32, &[&str]); 7] = [
        ("nothing to serve", &["web.listen=off"], 2, &["nothing to serve", "web.listen", "satchel chat"]),
        (
            "open to everybody",
            &["web.listen=0.0.0.0:0", "web.token=off"],
            2,
            &["--set: `web.token: off`", "web.listen", "127.0.0.1:0"],
        ),
        ("port taken", &[&on], 1, &[&address]),
        ("port of the figures taken", &[&figures_on, "web.listen=127.0.0.1:0"], 1, &["metrics.listen", &address]),
        (
            "a model without a key",
            &["models.main.provider=anthropic", "web.listen=127.0.0.1:0"],
            2,
            &["models.main.api_key", "ANTHROPIC_API_KEY"],
        ),
        (
            "a bus that is away",
            &["bus.url=nats://ada:S3CRET@127.0.0.1:1", "web.listen=127.0.0.1:0"],
            1,
            &["`bus.url` can't be used", "NATS can't be reached at 127.0.0.1:1"],
        ),
        ("requests without a bus", &["nats.requests=on"], 2, &["nats.requests", "name it with `bus.url`"]),
    ];
    for (case, settings, code, told) in cases {
        let home = TestHome::new();
        let mut arguments = vec!["run"];
        settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
        let output = home.run(&arguments);
        output.assert_no_crash(case);
        assert_eq!(output.exit_code(), Some(code), "{case}: {output:#?}");
        for words in told {
            assert!(output.stderr.contains(words), "{case}: no {words:?} in {}", output.stderr);
        }
        assert_eq!(output.stdout, "", "{case}: nobody is greeted");
    }
}

#[tokio::test]
async fn second_start_says_where_satchel_runs_and_how_to_log_in() {
    let home = TestHome::new();
    let mut server = ServerProcess::start(&home, &[]);
    let listen = format!("web.listen={}", server.page.trim_start_matches("http://"));
    let second = home.run(&["run", "--set", &listen]);
    second.assert_no_crash("a second start");
    assert_eq!(second.exit_code(), Some(1), "{second:#?}");
    let data = home.data_directory().canonicalize().expect("it is there").display().to_string();
    for words in ["is already running at ", &server.page, &data, "`satchel web link`"] {
        assert!(second.stderr.contains(words), "no {words:?} in {}", second.stderr);
    }
    assert_eq!(second.stdout, "", "nobody is greeted");
    let other = home.run(&["run", "--set", &listen, "--set", "storage.data_dir=elsewhere"]);
    assert_eq!(other.exit_code(), Some(1), "{other:#?}");
    assert!(other.stderr.contains("with other data") && other.stderr.contains(&data), "{}", other.stderr);
    assert!(!home.work_directory().join("elsewhere").exists(), "it made nothing");
    assert!(server.is_alive());
}

/// Two processes may share their data, as a second one takes over when the first ends. It must not happen unnoticed.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn second_process_on_the_same_data_says_that_satchel_is_already_running() {
    const SAID: &str = "Satchel is already running with this data";
    let home = TestHome::new();
    let mut first = ServerProcess::start(&home, &[]);
    let mut second = ServerProcess::start(&home, &[]);
    let data = home.data_directory().canonicalize().expect("it is there").display().to_string();
    let line = second.log_text.lines().find(|line| line.contains(SAID)).unwrap_or_default().to_owned();
    assert!(line.contains(&data), "{}", second.log_text);
    assert!(!first.log_text.contains(SAID), "{}", first.log_text);
    let gateway = ServerProcess::start(&home, &["--role", "gateway"]);
    assert!(!gateway.log_text.contains(SAID), "roles are for several processes: {}", gateway.log_text);
    assert!(first.is_alive() && second.is_alive());
}

#[tokio::test]
async fn health_is_asked_for_without_another_program() {
    let home = TestHome::new();
    let server = ServerProcess::start(&home, &[]);
    let page = format!("web.listen={}", server.page.trim_start_matches("http://"));
    let address = server.metrics.trim_start_matches("http://").trim_end_matches("/metrics");
    let metrics = format!("metrics.listen={address}");
    let check = |arguments: &[&str]| {
        let mut all = vec!["healthcheck", "--set", &page, "--set", &metrics];
        all.extend(arguments);
        home.run(&all)
    };
    for arguments in [&[][..], &["--role", "gateway"], &["--role", "agent"], &["--role", "delivery"]] {
        let output = check(arguments);
        assert_eq!((output.exit_code(), output.stdout.as_str()), (Some(0), "ready\n"), "{arguments:?}: {output:#?}");
    }
    let without = home.run(&["healthcheck", "--role", "agent"]);
    assert!(without.exit_code() == Some(2) && without.stderr.contains("`metrics.listen`"), "{without:#?}");
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
    for arguments in [&[][..], &["--role", "agent"]] {
        let output = check(arguments);
        assert!(output.exit_code() == Some(1) && output.stderr.contains("no answer from "), "{output:#?}");
    }
}

/// A text that can't be a token is a mistake of its owner.
#[tokio::test(flavor = "multi_thread")]
async fn malformed_token_is_a_configuration_error() {
    for (platform, told) in [("TELEGRAM", "@BotFather"), ("DISCORD", "Reset Token")] {
        let home = TestHome::new();
        let mut satchel = home.satchel_command(&["run", "--set", "web.listen=off"]);
        satchel.env(format!("SATCHEL_{platform}__TOKEN"), "no token");
        let output = run_to_end(&mut satchel);
        output.assert_no_crash(platform);
        assert_eq!(output.exit_code(), Some(2), "{platform}: {output:#?}");
        assert!(output.stderr.contains(told) && output.stderr.contains("satchel doctor"), "{platform}: {output:#?}");
        assert!(!output.stderr.contains("no token") && !output.stdout.contains("no token"), "{platform}: {output:#?}");
    }
}

/// Catches: a revoked token by which the page and the other platform go down, too.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_tokens_close_their_channels_and_nothing_else() {
    let telegram = FakeTelegram::start(TelegramRules::default()).await.expect("a loopback port");
    let discord = FakeDiscord::start(DiscordRules::unpaced()).await.expect("a loopback port");
    let home = TestHome::new();
    let settings = format!(
        "telegram: {{ token: '123456789:NobodysTokenCanary', api_url: '{}' }}\n\
         discord: {{ token: 'NzY1.Nobodys.TokenCanary', api_url: '{}' }}\n",
        telegram.api_url(),
        discord.api_url()
    );
    home.write_file("satchel.yaml", settings);
    let mut server = ServerProcess::start(&home, &[]);
    for told in ["Telegram no longer accepts the bot's token", "Discord no longer accepts the bot's token"] {
        server.wait_for_log(told);
    }
    let (status, state) = get_page(&format!("{}/readyz", server.page)).await;
    assert_eq!(status, 200);
    for (channel, platform) in [("telegram", "Telegram"), ("discord", "Discord")] {
        let closed = |line: &str| {
            line.starts_with(&format!("{channel} is closed for "))
                && line.ends_with(&format!(": {platform} no longer accepts the bot's token"))
        };
        assert!(state.lines().any(closed), "{channel}: {state}");
    }
    let (_, figures) = get_page(&server.metrics).await;
    assert!(figures.contains(r#"satchel_channel_closed{channel="telegram",reason="account_refused"} 1"#), "{figures}");
    let turn = server.send_and_wait("list my files").await;
    assert_eq!(turn["ending"], "done", "{turn:#}");
    server.send_signal("TERM");
    let output = server.wait_for_exit();
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    assert!(!output.stderr.contains("TokenCanary"), "{output:#?}");
}

#[test]
fn schema_is_printed_as_json() {
    let home = TestHome::new();
    let output = home.run(&["config", "schema"]);
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    let schema = output.json();
    assert_eq!(
        schema["properties"]["delivery"]["properties"]["on_doubt"]["enum"],
        serde_json::json!(["resend", "hold"])
    );
    assert!(schema["properties"]["web"]["properties"]["listen"]["description"].is_string());
}
