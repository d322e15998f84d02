//! A formula that once ended the process, on the page of the real binary: as it comes, and after a restart.

use std::time::Duration;

use satchel_fake_model::ModelReply;
use satchel_system::real_binary::TestHome;

use super::{retries::home_with_model, server_process::ServerProcess};

/// Longer than a page waits for its text on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Opens the stream of the page in a tab, and reads it until it has this text.
async fn wait_in_tab(home: &TestHome, server: &ServerProcess, text: &str) {
    let token = std::fs::read_to_string(home.data_directory().join("web-token")).expect("a token");
    let client = satchel::platforms::client().expect("HTTP can be spoken");
    let request = client.get(format!("{}/api/conversations/test/events", server.page)).bearer_auth(token.trim());
    let mut stream = request.timeout(TIMEOUT).send().await.expect("the page answers");
    let mut shown = String::new();
    while !shown.contains(text) {
        let chunk = stream.chunk().await.expect("the server lives").expect("the stream stays open");
        shown.push_str(&String::from_utf8_lossy(&chunk));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn formula_of_nested_commands_never_stops_the_server() {
    let (fake, home) = home_with_model().await;
    let formula = format!("$${}x$$", "\\sqrt%\n".repeat(200));
    fake.reply(ModelReply::text(&formula));
    let server = ServerProcess::start(&home, &[]);
    let (turn, ()) = tokio::join!(server.send_and_wait("show me roots"), wait_in_tab(&home, &server, "sqrt%"));
    let source = format!("<p><code>{formula}</code></p>");
    assert_eq!(turn["parts"][0]["html"], *source, "{turn:#}");

    server.send_signal("KILL");
    server.wait_for_exit();
    let server = ServerProcess::start(&home, &[]);
    wait_in_tab(&home, &server, "sqrt%").await;
    assert_eq!(server.wait_for_reply(&turn["id"]).await["parts"][0]["html"], *source);
}
