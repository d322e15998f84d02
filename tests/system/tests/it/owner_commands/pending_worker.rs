//! `satchel run --wait-for-worker`: scripts start running once the worker exists, without a restart.

use std::os::unix::fs::symlink;

use satchel_system::real_binary::{TestHome, script_worker};

use super::server_process::ServerProcess;

const SCRIPT: &str = "```starlark\nreturn 6 * 7\n```";

#[tokio::test]
async fn script_waits_for_worker_that_appears_later() {
    let home = TestHome::new();
    let worker = home.root().join("satchel-script");
    let setting = format!("tools.script.worker={}", worker.display());
    let mut server = ServerProcess::start(&home, &["--wait-for-worker", "--set", "model=offline", "--set", &setting]);
    let turn = server.send(SCRIPT, &[]).await;
    server.wait_for_log("a script waits until the script worker is built");
    symlink(script_worker(), &worker).expect("nothing has its name");
    let turn = server.wait_for_reply(&turn).await;
    assert!(turn["parts"][0]["text"].as_str().is_some_and(|text| text.contains("42")), "{turn:#}");
    assert!(server.log_text.contains("the script worker is not built yet"), "{}", server.log_text);
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
}

#[tokio::test]
async fn missing_worker_turns_scripts_off_by_default() {
    let home = TestHome::new();
    let setting = format!("tools.script.worker={}", home.root().join("satchel-script").display());
    let server = ServerProcess::start(&home, &["--set", "model=offline", "--set", &setting]);
    assert!(server.log_text.contains("scripts are off: the script worker was not found"), "{}", server.log_text);
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
}
