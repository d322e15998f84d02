//! What a script can't reach: real files on the disk, beside its mounts and in another conversation.
//!
//! Each attack names a file that is there and that its path, or its link, would lead to. The same calls reach what is
//! the conversation's own.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
};

use satchel_domain::{ConversationId, path::Mount, script::to_script_message};
use satchel_files::DirectoryWorkspace;
use satchel_sandbox::SandboxRunner;
use satchel_system::crash::ChannelAdapter;

use super::ScriptHarness;
use crate::test_platform::TestPlatform;

/// What the files hold that no script may see, and what those hold that it may.
const SECRET: &str = "secret = 'plover'";
const OWN: &str = "own = 'lapwing'";

/// Files around a conversation, and its own.
struct ReachHarness {
    script_harness: ScriptHarness,
    other: ConversationId,
    workspaces: DirectoryWorkspace,
}

impl ReachHarness {
    async fn new() -> Self {
        let script_harness = ScriptHarness::open().await;
        let workspaces = script_harness.product.directory.path().join("workspaces");
        let workspaces = DirectoryWorkspace::open(&workspaces, None, 1 << 20, Arc::new(SandboxRunner::default()))
            .expect("the product has made it");
        Self { script_harness, other: TestPlatform::other_conversation(ChannelAdapter::Discord), workspaces }
    }

    /// Where something of the conversation's own mount lies on the disk.
    fn own_path(&self, mount: Mount, path: &str) -> PathBuf {
        self.workspaces.host_directory(&self.script_harness.product.conversation, mount).join(path)
    }

    /// The same of the other conversation.
    fn foreign_path(&self, mount: Mount, path: &str) -> PathBuf {
        self.workspaces.host_directory(&self.other, mount).join(path)
    }

    /// Runs a script that must neither see nor deliver anything, and say so.
    async fn assert_refused(&self, script: &str) {
        let answer = self.script_harness.run(script).await;
        assert!(answer.text.starts_with("Error: "), "{script}: {}", answer.text);
        assert!(!answer.text.contains("plover"), "{script}: {}", answer.text);
        assert!(answer.files.is_empty() && answer.delivered.is_empty(), "{script} has made or sent a file");
    }
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("it lies in a directory")).expect("directories can be made");
    fs::write(path, content).expect("a file can be written");
}

/// The attack: everything by which a script might get out.
#[tokio::test(flavor = "multi_thread")]
async fn script_reaches_only_its_conversation() {
    let harness = ReachHarness::new().await;
    let outside = harness.script_harness.product.directory.path().join("outside.star");
    let theirs = harness.foreign_path(Mount::Tmp, "theirs.txt");
    write(&harness.own_path(Mount::Shared, "own.txt"), OWN);
    write(&harness.own_path(Mount::Tmp, "own.star"), OWN);
    write(&harness.own_path(Mount::Vault, "key"), SECRET);
    write(&harness.own_path(Mount::Shared, "../beside.txt"), SECRET);
    write(&harness.foreign_path(Mount::Shared, "theirs.txt"), SECRET);
    write(&theirs, SECRET);
    write(&outside, SECRET);
    for (link, target) in [
        ("leads-out", outside.clone()),
        ("leads-over", harness.foreign_path(Mount::Shared, "")),
        ("leads-up", "../beside.txt".into()),
        ("stays", "own.txt".into()),
    ] {
        symlink(target, harness.own_path(Mount::Shared, link)).expect("a link can be made");
    }

    let shared = |path: &str| harness.own_path(Mount::Shared, path);
    let outside_text = outside.display().to_string();
    for (path, leads_to) in [
        (outside_text.as_str(), outside.clone()),
        ("/vault/key", harness.own_path(Mount::Vault, "key")),
        ("/shared/../vault/key", shared("../vault/key")),
        ("/shared/../beside.txt", shared("../beside.txt")),
        ("/shared/../../discord=8/shared/theirs.txt", shared("../../discord=8/shared/theirs.txt")),
        ("/shared/leads-out", shared("leads-out")),
        ("/shared/leads-up", shared("leads-up")),
        ("/shared/leads-over/theirs.txt", shared("leads-over/theirs.txt")),
        ("/tmp/theirs.txt", theirs),
    ] {
        assert_eq!(fs::read_to_string(&leads_to).ok().as_deref(), Some(SECRET), "{path} leads to a file");
        harness.assert_refused(&format!("return file_read(path=\"{path}\")")).await;
        harness.assert_refused(&format!("return tools_execute(\"attachment.add\", paths=[\"{path}\"])")).await;
    }
    for path in ["/shared/own.txt", "/shared/stays", "/tmp/own.star"] {
        let read = harness.script_harness.run(&format!("return file_read(path=\"{path}\")")).await;
        assert!(read.text.contains("lapwing"), "{path}: {}", read.text);
    }

    let file = |name| to_script_message(&format!("attachment_create(content=\"{SECRET}\", filename=\"{name}\")"));
    let record = harness.script_harness.product.send_in(&harness.other, &file("theirs.txt"), Vec::new()).await;
    let foreign_id = record.response.expect("a reply").attachments[0].id;
    for call in ["attachment_read", "attachment_get"] {
        harness.assert_refused(&format!("return {call}(\"{foreign_id}\")")).await;
    }
    let returned = harness.script_harness.run(&format!("return {{\"attachment_id\": \"{foreign_id}\"}}")).await;
    assert!(returned.text.contains("is no attachment of this conversation"), "{}", returned.text);
    assert!(returned.files.is_empty() && returned.delivered.is_empty(), "another conversation's file is not sent");
    let own = harness.script_harness.run(&format!("attachment_create(content=\"{OWN}\", filename=\"own.txt\")")).await;
    let read = harness.script_harness.run(&format!("return attachment_read(\"{}\")", own.files[0].id)).await;
    assert!(read.text.contains("lapwing"), "{}", read.text);
    harness.script_harness.product.stop().await;
}

/// The language has no way out either: what other dialects have for it is there for nothing, also at a file of one's own.
#[tokio::test(flavor = "multi_thread")]
async fn scripts_load_and_open_nothing() {
    let harness = ReachHarness::new().await;
    let outside = harness.script_harness.product.directory.path().join("outside.star");
    write(&outside, SECRET);
    write(&harness.own_path(Mount::Shared, "own.star"), SECRET);
    let outside = outside.display();
    for script in [
        format!("load(\"{outside}\", \"secret\")\nreturn secret"),
        "load(\"/shared/own.star\", \"secret\")\nreturn secret".to_owned(),
        format!("return open(\"{outside}\").read()"),
        "return __import__(\"os\")".to_owned(),
        "return execute_script(script=\"return 1\")".to_owned(),
        "return tools_execute(\"execute_script\", script=\"return 1\")".to_owned(),
    ] {
        harness.assert_refused(&script).await;
    }
    assert_eq!(harness.script_harness.run("return 1").await.text, "Script result: 1");
    harness.script_harness.product.stop().await;
}
