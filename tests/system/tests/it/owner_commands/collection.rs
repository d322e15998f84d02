//! The collection of bytes that nothing refers to, beside a server that runs, is killed, and is started again.

use std::{
    fs::File,
    net::TcpListener,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use satchel_system::real_binary::{Household, finish};

use super::serving::Serving;

/// Older than any grace that is given to bytes which no row names yet.
const OLD: Duration = Duration::from_secs(3 * 60 * 60);

/// What is uploaded for a message, and what is uploaded for none.
const KEPT: &str = "It waits for its turn.\n";
const LOOSE: &str = "Nobody ever sent it.\n";

/// Makes all stored bytes old, collects twice (the first marks, the next removes what is still marked), and returns what
/// is left.
fn collect(household: &Household) -> Vec<String> {
    let blobs = stored(&household.data().join("blobs"));
    for path in &blobs {
        let file = File::options().write(true).open(path).expect("stored bytes can be opened");
        file.set_modified(SystemTime::now() - OLD).expect("their time can be set");
    }
    for _ in 0..2 {
        let ran = household.run(&["attachments", "gc"]);
        assert_eq!(ran.code(), Some(0), "{ran:#?}");
    }
    blobs.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

/// The files beneath the directories of two digits, where blobs lie.
fn stored(blobs: &Path) -> Vec<PathBuf> {
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
    let household = Household::new();
    let shared = household.work().join("shared");
    std::fs::create_dir(&shared).expect("a new directory");
    let model = |chosen: &str| {
        format!(
            "model: {chosen}\nmodels: {{ silent: {{ provider: ollama, base_url: 'http://{address}/', model: none }} }}\n\
             workspace: {{ shared_dir: '{}' }}\n",
            shared.display()
        )
    };
    household.file("satchel.yaml", model("silent"));
    let server = Serving::start(&household, &[]);
    let first = server.submit("list my files", &[]).await;
    let accepted = tokio::task::spawn_blocking(move || silent.accept().map(|(connection, _)| (silent, connection)));
    let running = accepted.await.expect("it does not panic").expect("the model is asked");

    let upload = server.upload("kept.txt", KEPT).await;
    server.upload("loose.txt", LOOSE).await;
    let second = server.submit("save this as kept.txt", &[upload]).await;
    assert_eq!(stored(&household.data().join("blobs")).len(), 2);
    assert_eq!(collect(&household), [KEPT], "beside the server that runs");
    server.signal("KILL");
    assert_eq!(server.end().code(), None);
    assert_eq!(collect(&household), [KEPT], "while nobody runs");

    drop(running);
    household.file("satchel.yaml", model("offline"));
    let server = Serving::start(&household, &[]);
    server.wait_for_answer(&first).await;
    server.wait_for_answer(&second).await;
    assert_eq!(std::fs::read_to_string(shared.join("kept.txt")).ok().as_deref(), Some(KEPT));
    assert_eq!(collect(&household), [KEPT], "it is an attachment now");
    server.signal("TERM");
    assert_eq!(server.end().code(), Some(0));
    let listed = finish(&mut household.satchel(&["attachments", "list", "--json"])).json();
    assert_eq!(listed[0]["filename"], "kept.txt", "{listed:#}");
}
