//! What SIGTERM lets finish, and what a person reads of it after the next start.

use satchel_domain::script::to_script_message;
use satchel_system::real_binary::{TestHome, script_worker};
use satchel_wait::{wait_until, wait_until_async};
use serde_json::json;

use super::server_process::{ServerProcess, get_page};

/// Returns once the test has written a file. Were it run a second time, its first call would fail.
const SCRIPT: &str = r#"
file_write(path="/shared/started.txt", content="once")
for attempt in range(400):
    if "go.txt" in str(file_list(path="/shared")):
        return "it ran to its end"
    for pause in range(1000000):
        pass
fail("nobody let it go")
"#;

#[tokio::test(flavor = "multi_thread")]
async fn script_that_runs_at_a_stop_ends_and_its_result_arrives_once() {
    let _worker = script_worker();
    let home = TestHome::new();
    let shared = home.data_directory().join("workspaces/web=test/shared");
    let mut server = ServerProcess::start(&home, &[]);
    let message = json!({ "key": "script", "text": to_script_message(SCRIPT), "uploads": [] });
    let (status, answer) = server.post("/api/conversations/test/messages", &message).await;
    assert_eq!(status, 202, "{answer:#}");
    wait_until("the script runs", || shared.join("started.txt").is_file()).await;

    server.send_signal("TERM");
    server.wait_for_log("stopping");
    let ready = format!("{}/readyz", server.page);
    wait_until_async("it is no longer ready", async || get_page(&ready).await.0 != 200).await;
    let (status, words) = get_page(&ready).await;
    assert!(status == 503 && words.contains("stopping"), "{status}: {words}");
    let listen = format!("web.listen={}", server.page.trim_start_matches("http://"));
    let health = home.run(&["healthcheck", "--set", &listen]);
    assert!(health.exit_code() == Some(1) && health.stderr.contains("stopping"), "{health:#?}");
    assert!(server.is_alive(), "it waits for the script");
    std::fs::write(shared.join("go.txt"), "go").expect("the workspace takes files");
    let output = server.wait_for_exit();
    output.assert_no_crash("a stop while a script runs");
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");

    let server = ServerProcess::start(&home, &[]);
    let turn = server.wait_for_reply(&answer["turn"]).await;
    assert_eq!(turn["ending"], "done", "{turn:#}");
    let texts = turn["parts"].to_string();
    assert!(texts.contains("it ran to its end") && !texts.contains("outcome unknown"), "{turn:#}");
    assert_eq!(turn["parts"].as_array().map(Vec::len), Some(1), "{turn:#}");
}
