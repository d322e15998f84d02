//! What a script can't reach: real files on the disk, beside its mounts and in another conversation.
//!
//! Each attack names a file that is there and that its path, or its link, would lead to. The same calls reach what is the
//! conversation's own.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use satchel_domain::{ConversationId, path::Mount, script::to_script_message};
use satchel_files::DirectoryWorkspace;
use satchel_system::crash::ChannelAdapter;

use super::Desk;
use crate::test_platform::TestPlatform;

/// What the files hold that no script may see, and what those hold that it may.
const SECRET: &str = "secret = 'plover'";
const OWN: &str = "own = 'lapwing'";

/// Files around a conversation, and its own.
struct Around {
    desk: Desk,
    other: ConversationId,
    workspaces: DirectoryWorkspace,
}

impl Around {
    async fn new() -> Self {
        let desk = Desk::open().await;
        let workspaces = desk.product.directory.path().join("workspaces");
        let workspaces = DirectoryWorkspace::open(&workspaces, None, 1 << 20).expect("the product has made it");
        Self { desk, other: TestPlatform::other_conversation(ChannelAdapter::Discord), workspaces }
    }

    /// Where something of the conversation's own mount lies on the disk.
    fn own(&self, mount: Mount, path: &str) -> PathBuf {
        self.workspaces.host_directory(&self.desk.product.conversation, mount).join(path)
    }

    /// The same of the other conversation.
    fn foreign(&self, mount: Mount, path: &str) -> PathBuf {
        self.workspaces.host_directory(&self.other, mount).join(path)
    }

    /// Runs a script that must neither see nor deliver anything, and say so.
    async fn assert_refused(&self, script: &str) {
        let answer = self.desk.run(script).await;
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
    let around = Around::new().await;
    let outside = around.desk.product.directory.path().join("outside.star");
    let theirs = around.foreign(Mount::Tmp, "theirs.txt");
    write(&around.own(Mount::Shared, "own.txt"), OWN);
    write(&around.own(Mount::Tmp, "own.star"), OWN);
    write(&around.own(Mount::Vault, "key"), SECRET);
    write(&around.own(Mount::Shared, "../beside.txt"), SECRET);
    write(&around.foreign(Mount::Shared, "theirs.txt"), SECRET);
    write(&theirs, SECRET);
    write(&outside, SECRET);
    for (link, target) in [
        ("leads-out", outside.clone()),
        ("leads-over", around.foreign(Mount::Shared, "")),
        ("leads-up", "../beside.txt".into()),
        ("stays", "own.txt".into()),
    ] {
        symlink(target, around.own(Mount::Shared, link)).expect("a link can be made");
    }

    let shared = |path: &str| around.own(Mount::Shared, path);
    let outside_text = outside.display().to_string();
    for (path, leads_to) in [
        (outside_text.as_str(), outside.clone()),
        ("/vault/key", around.own(Mount::Vault, "key")),
        ("/shared/../vault/key", shared("../vault/key")),
        ("/shared/../beside.txt", shared("../beside.txt")),
        ("/shared/../../discord=8/shared/theirs.txt", shared("../../discord=8/shared/theirs.txt")),
        ("/shared/leads-out", shared("leads-out")),
        ("/shared/leads-up", shared("leads-up")),
        ("/shared/leads-over/theirs.txt", shared("leads-over/theirs.txt")),
        ("/tmp/theirs.txt", theirs),
    ] {
        assert_eq!(fs::read_to_string(&leads_to).ok().as_deref(), Some(SECRET), "{path} leads to a file");
        around.assert_refused(&format!("return file_read(path=\"{path}\")")).await;
        around.assert_refused(&format!("return tools_execute(\"attachment.add\", paths=[\"{path}\"])")).await;
    }
    for path in ["/shared/own.txt", "/shared/stays", "/tmp/own.star"] {
        let read = around.desk.run(&format!("return file_read(path=\"{path}\")")).await;
        assert!(read.text.contains("lapwing"), "{path}: {}", read.text);
    }

    let file = |name| to_script_message(&format!("attachment_create(content=\"{SECRET}\", filename=\"{name}\")"));
    let record = around.desk.product.send_in(&around.other, &file("theirs.txt"), Vec::new()).await;
    let foreign_id = record.response.expect("a reply").attachments[0].id;
    for call in ["attachment_read", "attachment_get"] {
        around.assert_refused(&format!("return {call}(\"{foreign_id}\")")).await;
    }
    let returned = around.desk.run(&format!("return {{\"attachment_id\": \"{foreign_id}\"}}")).await;
    assert!(returned.text.contains("is no attachment of this conversation"), "{}", returned.text);
    assert!(returned.files.is_empty() && returned.delivered.is_empty(), "another conversation's file is not sent");
    let own = around.desk.run(&format!("attachment_create(content=\"{OWN}\", filename=\"own.txt\")")).await;
    let read = around.desk.run(&format!("return attachment_read(\"{}\")", own.files[0].id)).await;
    assert!(read.text.contains("lapwing"), "{}", read.text);
    around.desk.product.stop().await;
}

/// The language has no way out either: what other dialects have for it is there for nothing, also at a file of one's own.
#[tokio::test(flavor = "multi_thread")]
async fn scripts_load_and_open_nothing() {
    let around = Around::new().await;
    let outside = around.desk.product.directory.path().join("outside.star");
    write(&outside, SECRET);
    write(&around.own(Mount::Shared, "own.star"), SECRET);
    let outside = outside.display();
    for script in [
        format!("load(\"{outside}\", \"secret\")\nreturn secret"),
        "load(\"/shared/own.star\", \"secret\")\nreturn secret".to_owned(),
        format!("return open(\"{outside}\").read()"),
        "return __import__(\"os\")".to_owned(),
        "return execute_script(script=\"return 1\")".to_owned(),
        "return tools_execute(\"execute_script\", script=\"return 1\")".to_owned(),
    ] {
        around.assert_refused(&script).await;
    }
    assert_eq!(around.desk.run("return 1").await.text, "Script result: 1");
    around.desk.product.stop().await;
}
