//! Tests of `file_delete`.

use std::sync::Arc;

use satchel_ports::MockWorkspace;

use super::*;
use crate::{AuditedWorkspace, fakes::ToolHarness};

fn world_with_files() -> ToolHarness {
    let world = ToolHarness::new();
    for path in ["/shared/a/b.txt", "/shared/a/c.txt", "/shared/a/deep/d.txt", "/shared/e.md", "/tmp/f.txt"] {
        world.put_file(path, b"12345");
    }
    world
}

fn tier(arguments: Value) -> SafetyTier {
    FileDelete(ToolHarness::new().services()).tier(&arguments)
}

#[tokio::test]
async fn file_is_deleted_and_others_stay() {
    let world = world_with_files();
    let answer = world.data("file_delete", json!({"path": "a/b.txt"})).await;
    let undo = "the person can send /undo to bring it back, for a day";
    assert_eq!(answer, json!({"deleted": true, "path": "/shared/a/b.txt", "undo": undo}));
    assert_eq!((world.file("/shared/a/b.txt"), world.file("/shared/a/c.txt")), (None, Some(b"12345".to_vec())));
    let error = world.error("file_delete", json!({"path": "a/b.txt"})).await;
    assert_eq!(error, "nothing was deleted: there is no `/shared/a/b.txt`; file_list shows what there is");
}

#[test]
fn only_calls_for_several_files_are_privileged() {
    for arguments in
        [json!({"path": "a.txt"}), json!({"paths": ["a[1].txt"]}), json!({"path": "a", "recursive": false})]
    {
        assert_eq!(tier(arguments.clone()), SafetyTier::SideEffecting, "{arguments}");
    }
    for arguments in [
        json!({"path": "a/*.txt"}),
        json!({"path": "a/?.txt"}),
        json!({"path": "/tmp/**"}),
        json!({"path": "a[1].txt"}),
        json!({"path": "{a,b}.txt"}),
        json!({"paths": ["a", "b"]}),
        json!({"path": "a", "recursive": true}),
    ] {
        assert_eq!(tier(arguments.clone()), SafetyTier::Privileged, "{arguments}");
    }
}

#[tokio::test]
async fn pattern_deletes_the_files_that_match() {
    let world = world_with_files();
    let answer = world.data("file_delete", json!({"path": "a/*.txt"})).await;
    assert_eq!((&answer["count"], &answer["paths"]), (&json!(2), &json!(["/shared/a/b.txt", "/shared/a/c.txt"])));
    assert!(world.file("/shared/a/deep/d.txt").is_some() && world.file("/tmp/f.txt").is_some());
    let answer = world.data("file_delete", json!({"path": "**/*.{txt,md}"})).await;
    assert_eq!(answer["paths"], json!(["/shared/a/deep/d.txt", "/shared/e.md"]));
    let error = world.error("file_delete", json!({"path": "/tmp/*.md"})).await;
    assert_eq!(error, "nothing was deleted: no file matches `/tmp/*.md`");
    assert!(world.file("/tmp/f.txt").is_some());
}

/// Mutation: `photo 1.jpg` is deleted, which the pattern matches.
#[tokio::test]
async fn file_that_is_named_like_a_pattern_is_meant_alone() {
    let world = ToolHarness::new();
    for name in ["/shared/photo [1].jpg", "/shared/photo 1.jpg"] {
        world.put_file(name, b"1");
    }
    let answer = world.data("file_delete", json!({"path": "photo [1].jpg"})).await;
    assert_eq!(answer["paths"], json!(["/shared/photo [1].jpg"]));
    assert!(world.file("/shared/photo 1.jpg").is_some());
}

/// Mutation: the files that were found by then are deleted, or it says that none matches.
#[tokio::test]
async fn pattern_for_too_many_files_deletes_none() {
    let mut world = world_with_files();
    world.limits.search_files = 2;
    let error = world.error("file_delete", json!({"path": "*.md"})).await;
    assert_eq!(
        error,
        "nothing was deleted: `/shared` holds more than 2 files and directories, so that not all of them could be \
         compared with `/shared/*.md`; give a pattern for a smaller directory"
    );
    let world = world_with_files();
    for number in 0..=1_000 {
        world.put_file(&format!("/tmp/{number}.txt"), b"");
    }
    let error = world.error("file_delete", json!({"path": "/tmp/*.txt"})).await;
    assert!(error.contains("more than 1000 files match `/tmp/*.txt`; delete them in smaller groups"), "{error}");
    assert!(world.file("/tmp/0.txt").is_some() && world.file("/shared/e.md").is_some());
}

#[tokio::test]
async fn directory_is_deleted_only_on_request() {
    let world = world_with_files();
    let error = world.error("file_delete", json!({"path": "a"})).await;
    assert_eq!(
        error,
        "nothing was deleted: `/shared/a` is a directory that isn't empty; set `recursive` to true to delete it with \
         everything in it"
    );
    let answer = world.data("file_delete", json!({"path": "a", "recursive": true})).await;
    assert_eq!((&answer["count"], &answer["paths"]), (&json!(1), &json!(["/shared/a"])));
    assert!(world.file("/shared/a/b.txt").is_none() && world.file("/shared/e.md").is_some());
    let world = world_with_files();
    let paths = json!({"paths": ["a/deep/d.txt", "a", "e.md"], "recursive": true});
    assert_eq!(world.data("file_delete", paths).await["paths"], json!(["/shared/a", "/shared/e.md"]));
}

#[tokio::test]
async fn paths_that_can_not_be_deleted_are_named() {
    let world = world_with_files();
    world.put_file("/shared/x[1].txt", b"1");
    let outcome = world.call("file_delete", json!({"paths": ["x[1].txt", "gone.txt", "e.md"]})).await.unwrap();
    assert!(outcome.failed);
    assert_eq!(outcome.text.as_deref(), Some("Error: 1 of 3 could not be deleted"));
    let data = outcome.data.unwrap();
    assert_eq!(data["paths"], json!(["/shared/e.md", "/shared/x[1].txt"]));
    assert_eq!(data["not_deleted"][0]["path"], "/shared/gone.txt");
    assert!(world.file("/shared/x[1].txt").is_none());
}

#[tokio::test]
async fn question_says_what_would_be_deleted() {
    let world = world_with_files();
    let tool = world.registry().get("file_delete").unwrap();
    let conversation = world.context().conversation;
    let preview = async |arguments: Value| tool.preview(&arguments, &conversation).await;
    assert_eq!(
        preview(json!({"path": "a", "recursive": true})).await.as_deref(),
        Some(
            "3 files, 15 B: `/shared/a/b.txt`, `/shared/a/c.txt`, `/shared/a/deep/d.txt`. `/undo` brings them back for a \
             day."
        )
    );
    assert_eq!(preview(json!({"path": "/vault/*"})).await, None, "the policy stands before it");
    assert_eq!(preview(json!({"path": "*.none"})).await, None);
    (0..30).for_each(|number| world.put_file(&format!("/tmp/many/{number:02}"), b"1"));
    let many = preview(json!({"path": "/tmp/many/*"})).await.unwrap();
    assert!(
        many.starts_with("30 files, 30 B: `/tmp/many/00`") && many.contains("`/tmp/many/19`, and 10 more"),
        "{many}"
    );
}

#[tokio::test]
async fn invalid_delete_call_is_explained_and_deletes_nothing() {
    let world = ToolHarness::new();
    for (arguments, says) in [
        (json!({}), "neither `path` nor `paths` is given"),
        (json!({"path": "a", "paths": ["b"]}), "both `path` and `paths` are given"),
        (json!({"path": "/vault/key"}), "`/vault/key` can't be written by this tool"),
        (json!({"path": "/vault/*"}), "`/vault/*` can't be written by this tool"),
        (json!({"paths": ["a", "/vault/key"]}), "`/vault/key` can't be written by this tool"),
        (json!({"path": "/shared"}), "names a directory"),
        (json!({"path": "/shared/../vault/key"}), "climbs"),
        (json!({"path": "a[b"}), "`a[b` is not a pattern (unclosed character class; missing ']')"),
        (json!({"path": "*.txt", "recursive": true}), "`recursive` is for a directory, but `path` is a pattern"),
        (json!({"path": "/shared/a", "force": true}), "unknown field `force`"),
    ] {
        let error = world.error("file_delete", arguments.clone()).await;
        assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
    }
    assert!(world.touched().is_empty());

    let mut workspace = MockWorkspace::new();
    workspace.expect_list().returning(|_, path| Err(WorkspaceError::NotADirectory(path.clone())));
    workspace.expect_read().returning(|_, path| Err(WorkspaceError::NotFound(path.clone())));
    workspace.expect_trash().returning(|_, path, _, _| {
        Err(WorkspaceError::Failed { path: path.clone(), reason: "the disk is on fire".to_owned() })
    });
    let tool = FileDelete(ToolServices { workspace: AuditedWorkspace::new(Arc::new(workspace)), ..world.services() });
    let error = tool.call(json!({"path": "/tmp/a"}), &world.context()).await.unwrap_err().0;
    assert_eq!(error, "nothing was deleted: `/tmp/a` failed: the disk is on fire");
}

#[tokio::test]
async fn stopped_call_deletes_no_more() {
    let world = world_with_files();
    let context = world.context();
    context.cancel.cancel();
    let tool = world.registry().get("file_delete").unwrap();
    let error = tool.call(json!({"path": "a/*.txt"}), &context).await.unwrap_err().0;
    assert!(error.contains("nothing was deleted: the call was stopped"), "{error}");
    assert!(world.file("/shared/a/b.txt").is_some());
}
