//! The page is always locked: `satchel run` prints a link, `satchel web link` another, and neither the token.

use std::os::unix::fs::PermissionsExt;

use satchel_system::real_binary::TestHome;

use super::server_process::{BrowserLogin, ServerProcess, get_page, log_in};

fn create_link(home: &TestHome) -> String {
    let output = home.run(&["web", "link"]);
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    output.stdout.trim().to_owned()
}

#[tokio::test]
async fn login_link_works_once_across_processes() {
    let home = TestHome::new();
    let server = ServerProcess::start(&home, &[]);
    let printed = server.link.clone().expect("it printed a link");
    let (other, last) = (create_link(&home), create_link(&home));
    assert!(other.starts_with(&format!("{}/#login=", server.page)), "{other}");
    for link in [&printed, &other] {
        assert!(log_in(link).await.is_ok(), "{link}");
        assert_eq!(log_in(link).await.err(), Some(401), "a replay of {link}");
    }
    server.send_signal("KILL");
    server.wait_for_exit();
    let server = ServerProcess::start(&home, &[]);
    // It listens on another port now.
    let log_in_there = async |link: &str| {
        let (_, secret) = link.split_once("/#login=").expect("a link has a secret");
        log_in(&format!("{}/#login={secret}", server.page)).await
    };
    for link in [&printed, &other] {
        assert_eq!(log_in_there(link).await.err(), Some(401), "a replay of {link} after a kill");
    }
    assert!(log_in_there(&last).await.is_ok(), "what nobody used works after a kill");
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
}

/// Every member of its group reads the journal, for ten minutes after the start.
#[tokio::test]
async fn service_prints_no_login_link_into_the_journal() {
    for variable in ["JOURNAL_STREAM", "INVOCATION_ID"] {
        let home = TestHome::new();
        let mut command = home.satchel_command(&["run", "--set", "web.listen=127.0.0.1:0"]);
        let server = ServerProcess::from_command(command.env(variable, "8:1"));
        assert!(server.link.is_none() && server.greeting.contains(" satchel web link"), "{}", server.greeting);
        assert!(!format!("{}{}", server.greeting, server.log_text).contains("#login="), "{}", server.log_text);
        assert!(log_in(&create_link(&home)).await.is_ok());
    }
}

/// What a browser gets for the list of conversations.
async fn list_status(server: &ServerProcess, login: &BrowserLogin) -> u16 {
    let http = satchel::platforms::client().expect("HTTP can be spoken");
    let request = http.get(format!("{}/api/conversations", server.page)).headers(login.headers());
    request.send().await.expect("it answers").status().as_u16()
}

/// The ids of the logins, as the command line lists them.
fn list_logins(home: &TestHome) -> Vec<String> {
    let output = home.run(&["web", "logins", "--json"]);
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    let listed = output.json();
    let ids = listed["logins"].as_array().into_iter().flatten().filter_map(|login| login["id"].as_str());
    ids.map(str::to_owned).collect()
}

#[tokio::test]
async fn login_ends_for_good_in_every_process() {
    let home = TestHome::new();
    let token = ["--set", "web.token=correct-horse-battery-staple"];
    let server = ServerProcess::start(&home, &token);
    let kept = log_in(server.link.as_deref().expect("it printed a link")).await.expect("a link logs in");
    let ended = log_in(&create_link(&home)).await.expect("a link logs in");
    assert_eq!((list_status(&server, &kept).await, list_status(&server, &ended).await), (200, 200));
    let ids = list_logins(&home);
    assert_eq!(ids.len(), 2);
    // The one that logged in last comes first.
    let output = home.run(&["web", "logout", &ids[0]]);
    assert_eq!((output.exit_code(), output.stdout.trim()), (Some(0), format!("ended: {}", ids[0]).as_str()));
    assert_eq!((list_status(&server, &kept).await, list_status(&server, &ended).await), (200, 401));
    let again = home.run(&["web", "logout", &ids[0]]);
    assert!(again.exit_code() == Some(1) && again.stderr.contains("satchel web logins"), "{again:#?}");
    server.send_signal("KILL");
    server.wait_for_exit();

    let server = ServerProcess::start(&home, &token);
    assert_eq!(list_logins(&home), [ids[1].clone()], "a login outlives its server");
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
    let server = ServerProcess::start(&home, &["--set", "web.token=another-horse-battery-staple"]);
    assert_eq!(list_logins(&home), [] as [String; 0], "a new token ends the logins under the old one");
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
}

#[tokio::test]
async fn token_is_private_and_never_printed() {
    let home = TestHome::new();
    let mut server = ServerProcess::start(&home, &["--log", "debug"]);
    let path = home.data_directory().join("web-token");
    let token = std::fs::read_to_string(&path).expect("it made a token").trim().to_owned();
    assert_eq!(std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
    assert_eq!(get_page(&format!("{}/api/conversations", server.page)).await.0, 401);
    let http = satchel::platforms::client().expect("HTTP can be spoken");
    let list_status = async |token: &str| {
        let request = http.get(format!("{}/api/conversations", server.page)).bearer_auth(token);
        request.send().await.expect("it answers").status().as_u16()
    };
    assert_eq!((list_status(&token).await, list_status("wrong").await), (200, 401));
    server.send_signal("TERM");
    server.wait_for_log("stopping");
    let output = server.wait_for_exit();
    assert!(!output.stdout.contains(&token) && !output.stderr.contains(&token), "{output:#?}");
    assert!(!output.stderr.contains("#login="), "{output:#?}");
    let again = ServerProcess::start(&home, &[]);
    again.send_signal("TERM");
    assert_eq!(again.wait_for_exit().exit_code(), Some(0));
    assert_eq!(std::fs::read_to_string(&path).expect("it is there").trim(), token, "it is made once");
}

#[tokio::test]
async fn server_without_token_explains_the_consequence() {
    let home = TestHome::new();
    let server = ServerProcess::start(&home, &["--set", "web.token=off"]);
    assert_eq!(server.link, None);
    for text in [&server.greeting, &server.log_text] {
        assert!(text.contains("every user and program on this machine"), "{text}");
    }
    assert_eq!(get_page(&format!("{}/api/conversations", server.page)).await.0, 200);
    let output = home.run(&["web", "link", "--set", "web.token=off"]);
    assert_eq!(output.exit_code(), Some(2), "{output:#?}");
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
}

/// Catches: a disk that takes no login link, and with it no Telegram, no Discord and no page.
#[tokio::test]
async fn server_without_room_for_links_still_serves() {
    let home = TestHome::new();
    std::fs::create_dir(home.data_directory()).expect("a new directory");
    std::fs::write(home.data_directory().join("web-key.logins"), "in the way").expect("a file can be written");
    let server = ServerProcess::start(&home, &[]);
    assert_eq!(get_page(&format!("{}/readyz", server.page)).await.0, 200);
    server.send_signal("TERM");
    let output = server.wait_for_exit();
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    assert!(output.stderr.contains("failed to create a login link"), "{output:#?}");
}

#[test]
fn link_without_server_names_data_directory() {
    let home = TestHome::new();
    let output = home.run(&["web", "link"]);
    assert_eq!(output.exit_code(), Some(1), "{output:#?}");
    let data = home.data_directory();
    assert!(
        output.stderr.contains(&data.display().to_string()) && output.stderr.contains("satchel run"),
        "{output:#?}"
    );
    assert!(!data.exists(), "nothing is made");
    let output = home.run(&["web", "link", "--set", "web.listen=off"]);
    assert_eq!(output.exit_code(), Some(2), "{output:#?}");
    assert!(output.stderr.contains("web.listen"), "{output:#?}");
}
