//! What `file_edit` promises: it changes one thing in a file, and says what it changed or why it changed nothing.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use satchel_ports::{MockWorkspace, WorkspaceError};

use super::*;
use crate::{
    AuditedWorkspace,
    fakes::{ToolHarness, chunked},
};

#[tokio::test]
async fn one_match_is_replaced_and_diffed() {
    let world = ToolHarness::new();
    world.put_file("/shared/todo.md", "\u{feff}milk\r\nтее\r\nbread".as_bytes());
    let answer = world.data("file_edit", json!({"path": "~/todo.md", "old": "тее", "new": "coffee\r\ntea"})).await;
    assert_eq!(
        answer,
        json!({
            "edited": true, "path": "/shared/todo.md", "replaced": 1, "bytes_written": 27,
            "diff": "@@ -1,3 +1,4 @@\n \u{feff}milk\r\n-тее\r\n+coffee\r\n+tea\r\n bread\n\\ No newline at end of file\n",
        })
    );
    let edited = world.file("/shared/todo.md").unwrap();
    assert_eq!(edited, "\u{feff}milk\r\ncoffee\r\ntea\r\nbread".as_bytes());
}

#[tokio::test]
async fn match_is_chosen_by_number_or_all() {
    let world = ToolHarness::new();
    world.put_file("/tmp/a", b"x x x");
    let answer = world.data("file_edit", json!({"path": "/tmp/a", "old": "x", "new": "y", "occurrence": 2})).await;
    assert_eq!(answer["replaced"], 1);
    assert_eq!(world.file("/tmp/a").unwrap(), b"x y x");
    let answer = world.data("file_edit", json!({"path": "/tmp/a", "old": "x", "new": "", "all": true})).await;
    assert_eq!(answer["replaced"], 2);
    assert_eq!(world.file("/tmp/a").unwrap(), b" y ");
}

#[tokio::test]
async fn invalid_edit_is_explained_and_changes_nothing() {
    let mut world = ToolHarness::new();
    (world.limits.edit_bytes, world.limits.save_bytes) = (10, 12);
    world.put_file("/shared/a.txt", b"a b\nc\nb");
    world.put_file("/shared/a.bin", b"ab\xff\xfe");
    world.put_file("/shared/zero", b"ab\0");
    world.put_file("/shared/large", b"0123456789".repeat(3).as_slice());
    let edit = |path: &str, old: &str, new: &str| json!({"path": path, "old": old, "new": new});
    for (arguments, says) in [
        (json!({"path": "/shared/a.txt", "old": "a"}), "missing field `new`"),
        (json!({"old": "a", "new": "b"}), "missing field `path`"),
        (edit("/vault/a", "a", "b"), "`/vault/a` can't be written by this tool"),
        (edit("/shared/", "a", "b"), "names a directory"),
        (edit("/shared/none", "a", "b"), "nothing was edited: `/shared/none` does not exist"),
        (edit("/shared/a.txt", "", "b"), "argument `old`: it is empty"),
        (edit("/shared/a.txt", "a", "a"), "argument `new`: it is the same as `old`"),
        (edit("/shared/a.txt", "zebra", "a"), "nothing was edited: `old` is not in `/shared/a.txt`"),
        (edit("/shared/a.txt", "b", "z"), "in `/shared/a.txt` 2 times, at lines 1, 3"),
        (edit("/shared/a.txt", "c", "1234567"), "13 bytes (13 B), the maximum is 12 bytes"),
        (edit("/shared/a.bin", "a", "b"), "`/shared/a.bin` is not text (byte 2 of 4)"),
        (edit("/shared/zero", "a", "b"), "`/shared/zero` is not text (byte 2 of 3)"),
        (edit("/shared/large", "a", "b"), "has 30 bytes (30 B), and at most 10 bytes (10 B) can be edited"),
        (
            json!({"path": "/shared/a.txt", "old": "b", "new": "c", "all": true, "occurrence": 1}),
            "`occurrence` and `all` exclude each other",
        ),
        (json!({"path": "/shared/a.txt", "old": "b", "new": "c", "occurrence": 3}), "allowed are 1 to 2"),
        (json!({"path": "/shared/a.txt", "old": "b", "new": "c", "occurrence": "first"}), "argument `occurrence`"),
    ] {
        let error = world.error("file_edit", arguments.clone()).await;
        assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
    }
    assert_eq!(world.file("/shared/a.txt").unwrap(), b"a b\nc\nb");
}

#[tokio::test]
async fn concurrent_edits_of_a_file_all_count() {
    let lines: Vec<String> = (0..20).map(|line| format!("<{line}>")).collect();
    let disk = Arc::new(Mutex::new(lines.join("\n").into_bytes()));
    let mut workspace = MockWorkspace::new();
    let read_from = disk.clone();
    workspace.expect_read().returning(move |_, _| {
        let content = read_from.lock().unwrap().clone();
        let bytes = content.len() as u64;
        // Lets the other edits run between reading and writing.
        let content = Box::pin(stream::once(async {
            tokio::task::yield_now().await;
            Ok(Bytes::from(content))
        }));
        Ok(WorkspaceFile { bytes, content })
    });
    let written_to = disk.clone();
    workspace.expect_write().returning(move |_, _, content, _, bytes| {
        let chunks: Vec<_> = content.map(Result::unwrap).collect().now_or_never().unwrap();
        *written_to.lock().unwrap() = chunks.concat();
        Ok(bytes)
    });
    let world = ToolHarness::new();
    let tool =
        FileEdit::new(ToolServices { workspace: AuditedWorkspace::new(Arc::new(workspace)), ..world.services() });
    let context = world.context();
    let edits = lines
        .iter()
        .map(|line| tool.call(json!({"path": "/shared/a.txt", "old": line, "new": line.replace('<', "[")}), &context));
    assert!(futures::future::join_all(edits).await.iter().all(Result::is_ok));
    assert_eq!(*disk.lock().unwrap(), lines.join("\n").replace('<', "[").as_bytes());
}

#[tokio::test]
async fn program_gets_the_whole_diff() {
    let world = ToolHarness::new();
    world.put_file("/shared/a.txt", "x\n".repeat(1_000).as_bytes());
    let arguments = json!({"path": "/shared/a.txt", "old": "x", "new": "y", "all": true});
    let answer = world.call_for_program("file_edit", arguments).await.unwrap().data.unwrap();
    assert_eq!((answer["replaced"].as_u64(), answer["diff"].as_str().unwrap().lines().count()), (Some(1_000), 2_001));
}

/// Edits a file that a workspace reads as `content`, and fails to write.
async fn failed_edit(
    content: &'static [u8],
    failure: impl Fn(&WorkspacePath) -> WorkspaceError + Send + 'static,
) -> String {
    let world = ToolHarness::new();
    let mut workspace = MockWorkspace::new();
    workspace.expect_read().returning(|_, _| Ok(WorkspaceFile { bytes: 1, content: chunked(content) }));
    workspace.expect_write().returning(move |_, path, _, mode, _| {
        assert_eq!(mode, WriteMode::Replace);
        Err(failure(path))
    });
    let mut services = ToolServices { workspace: AuditedWorkspace::new(Arc::new(workspace)), ..world.services() };
    services.limits.edit_bytes = 20;
    let tool = FileEdit::new(services);
    tool.call(json!({"path": "/tmp/a", "old": "a", "new": "b"}), &world.context()).await.unwrap_err().0
}

#[tokio::test]
async fn failed_write_says_whether_the_file_changed() {
    let error = failed_edit(b"a", |_| WorkspaceError::QuotaExceeded { quota: 2_000_000_000 }).await;
    assert!(error.starts_with("the write failed and nothing was edited: the workspace is full"), "{error}");
    let unconfirmed =
        |path: &WorkspacePath| WorkspaceError::Unconfirmed { path: path.clone(), reason: "input/output error".into() };
    let error = failed_edit(b"a", unconfirmed).await;
    assert!(error.starts_with("`/tmp/a` was written, but the disk did not confirm"), "{error}");
    assert!(!error.contains("nothing"), "{error}");
}

#[tokio::test]
async fn file_that_grows_while_read_is_refused() {
    let error = failed_edit(&[b'x'; 30], |_| unreachable!("nothing is written")).await;
    assert!(error.contains("`/tmp/a` has 21 bytes") && error.contains("at most 20 bytes"), "{error}");
}
