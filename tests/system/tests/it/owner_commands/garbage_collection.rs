//! The collection of bytes that nothing refers to, beside a server that runs, is killed, and is started again.

use std::{
    fs::File,
    net::TcpListener,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use satchel_system::real_binary::{TestHome, run_to_end};

use super::server_process::ServerProcess;

/// Older than any grace that is given to bytes which no row names yet.
const BLOB_AGE: Duration = Duration::from_secs(3 * 60 * 60);

/// What is uploaded for a message, and what is uploaded for none.
const USED_CONTENT: &str = "It waits for its turn.\n";
const UNUSED_CONTENT: &str = "Nobody ever sent it.\n";

/// Makes all stored bytes old, collects twice (the first marks, the next removes what is still marked), and returns
/// what is left.
fn collect_garbage(home: &TestHome) -> Vec<String> {
    let blobs = stored_blobs(&home.data_directory().join("blobs"));
    for path in &blobs {
        let file = File::options().write(true).open(path).expect("stored bytes can be opened");
        file.set_modified(SystemTime::now() - BLOB_AGE).expect("their time can be set");
    }
    for _ in 0..2 {
        let output = home.run(&["attachments", "gc"]);
        assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    }
    blobs.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

/// The files beneath the directories of two digits, where blobs lie.
fn stored_blobs(blobs: &Path) -> Vec<PathBuf> {
    let list = |directory: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let is_shard = |path: &PathBuf| path.is_dir() && path.file_name().is_some_and(|name| name.len() == 2);
    let shards = list(blobs).into_iter().filter(is_shard).flat_map(|first| list(&first)).filter(is_shard);
    shards.flat_map(|second| list(&second)).collect()
}

/// Catches: a collection that takes what was uploaded for a message whose turn hasn't begun.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_upload_survives_collections_and_kill() {
    // It takes connections and never answers: the turn before stays where it is.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let address = silent.local_addr().expect("it is bound");
    let home = TestHome::new();
    let shared = home.work_directory().join("shared");
    std::fs::create_dir(&shared).expect("a new directory");
    let model = |chosen: &str| {
        format!(
            "model: {chosen}\nmodels: {{ silent: {{ provider: ollama, base_url: 'http://{address}/', model: none }} }}\n\
             workspace: {{ shared_dir: '{}' }}\n",
            shared.display()
        )
    };
    home.write_file("satchel.yaml", model("silent"));
    let server = ServerProcess::start(&home, &[]);
    let first = server.send("list my files", &[]).await;
    let accepted = tokio::task::spawn_blocking(move || silent.accept().map(|(connection, _)| (silent, connection)));
    let running = accepted.await.expect("it does not panic").expect("the model is asked");

    let upload = server.upload("kept.txt", USED_CONTENT).await;
    server.upload("loose.txt", UNUSED_CONTENT).await;
    let second = server.send("save this as kept.txt", &[upload]).await;
    assert_eq!(stored_blobs(&home.data_directory().join("blobs")).len(), 2);
    assert_eq!(collect_garbage(&home), [USED_CONTENT], "beside the server that runs");
    server.send_signal("KILL");
    assert_eq!(server.wait_for_exit().exit_code(), None);
    assert_eq!(collect_garbage(&home), [USED_CONTENT], "while nobody runs");

    drop(running);
    home.write_file("satchel.yaml", model("offline"));
    let server = ServerProcess::start(&home, &[]);
    server.wait_for_reply(&first).await;
    server.wait_for_reply(&second).await;
    assert_eq!(std::fs::read_to_string(shared.join("kept.txt")).ok().as_deref(), Some(USED_CONTENT));
    assert_eq!(collect_garbage(&home), [USED_CONTENT], "it is an attachment now");
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
    let listed = run_to_end(&mut home.satchel_command(&["attachments", "list", "--json"])).json();
    assert_eq!(listed[0]["filename"], "kept.txt", "{listed:#}");
}
