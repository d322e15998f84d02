//! The page is always locked: `satchel run` prints a link, `satchel web link` another, and neither the token.

use std::os::unix::fs::PermissionsExt;

use satchel_system::real_binary::Household;

use super::serving::{Serving, get, log_in};

fn link(household: &Household) -> String {
    let ran = household.run(&["web", "link"]);
    assert_eq!(ran.code(), Some(0), "{ran:#?}");
    ran.stdout.trim().to_owned()
}

#[tokio::test]
async fn login_link_works_once_across_processes() {
    let household = Household::new();
    let server = Serving::start(&household, &[]);
    let printed = server.link.clone().expect("it printed a link");
    let (other, last) = (link(&household), link(&household));
    assert!(other.starts_with(&format!("{}/#login=", server.page)), "{other}");
    for link in [&printed, &other] {
        assert!(log_in(link).await.is_ok(), "{link}");
        assert_eq!(log_in(link).await, Err(401), "a replay of {link}");
    }
    server.signal("KILL");
    server.end();
    let server = Serving::start(&household, &[]);
    // It listens on another port now.
    let log_in_there = async |link: &str| {
        let (_, secret) = link.split_once("/#login=").expect("a link has a secret");
        log_in(&format!("{}/#login={secret}", server.page)).await
    };
    for link in [&printed, &other] {
        assert_eq!(log_in_there(link).await, Err(401), "a replay of {link} after a kill");
    }
    assert!(log_in_there(&last).await.is_ok(), "what nobody used works after a kill");
    server.signal("TERM");
    assert_eq!(server.end().code(), Some(0));
}

#[tokio::test]
async fn the_token_is_private_and_never_printed() {
    let household = Household::new();
    let mut server = Serving::start(&household, &["--log", "debug"]);
    let path = household.data().join("web-token");
    let token = std::fs::read_to_string(&path).expect("it made a token").trim().to_owned();
    assert_eq!(std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
    assert_eq!(get(&format!("{}/api/conversations", server.page)).await.0, 401);
    let http = satchel::platforms::client().expect("HTTP can be spoken");
    let list = async |token: &str| {
        let request = http.get(format!("{}/api/conversations", server.page)).bearer_auth(token);
        request.send().await.expect("it answers").status().as_u16()
    };
    assert_eq!((list(&token).await, list("wrong").await), (200, 401));
    server.signal("TERM");
    server.wait_for_words("stopping");
    let ran = server.end();
    assert!(!ran.stdout.contains(&token) && !ran.stderr.contains(&token), "{ran:#?}");
    assert!(!ran.stderr.contains("#login="), "{ran:#?}");
    let again = Serving::start(&household, &[]);
    again.signal("TERM");
    assert_eq!(again.end().code(), Some(0));
    assert_eq!(std::fs::read_to_string(&path).expect("it is there").trim(), token, "it is made once");
}

#[tokio::test]
async fn server_without_token_explains_the_consequence() {
    let household = Household::new();
    let server = Serving::start(&household, &["--set", "web.token=off"]);
    assert_eq!(server.link, None);
    for text in [&server.greeting, &server.logged] {
        assert!(text.contains("every user and program on this machine"), "{text}");
    }
    assert_eq!(get(&format!("{}/api/conversations", server.page)).await.0, 200);
    let ran = household.run(&["web", "link", "--set", "web.token=off"]);
    assert_eq!(ran.code(), Some(2), "{ran:#?}");
    server.signal("TERM");
    assert_eq!(server.end().code(), Some(0));
}

/// Catches: a disk that takes no login link, and with it no Telegram, no Discord and no page.
#[tokio::test]
async fn server_without_room_for_links_still_serves() {
    let household = Household::new();
    std::fs::create_dir(household.data()).expect("a new directory");
    std::fs::write(household.data().join("web-key.logins"), "in the way").expect("a file can be written");
    let server = Serving::start(&household, &[]);
    assert_eq!(get(&format!("{}/readyz", server.page)).await.0, 200);
    server.signal("TERM");
    let ran = server.end();
    assert_eq!(ran.code(), Some(0), "{ran:#?}");
    assert!(ran.stderr.contains("failed to create a login link"), "{ran:#?}");
}

#[test]
fn a_link_for_no_server_names_the_data() {
    let household = Household::new();
    let ran = household.run(&["web", "link"]);
    assert_eq!(ran.code(), Some(1), "{ran:#?}");
    let data = household.data();
    assert!(ran.stderr.contains(&data.display().to_string()) && ran.stderr.contains("satchel run"), "{ran:#?}");
    assert!(!data.exists(), "nothing is made");
    let ran = household.run(&["web", "link", "--set", "web.listen=off"]);
    assert_eq!(ran.code(), Some(2), "{ran:#?}");
    assert!(ran.stderr.contains("web.listen"), "{ran:#?}");
}
