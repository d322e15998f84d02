//! What `file_search` promises: it finds lines and files, in pages, and says what it left out.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use satchel_domain::Timestamp;
use satchel_ports::{
    MockWorkspace, WorkspaceError,
    workspace::{WorkspaceEntry, WorkspaceEntryKind, WorkspaceFile},
};

use super::*;
use crate::{
    AuditedWorkspace,
    fakes::{ToolHarness, chunked},
};

fn world_with(files: &[(&str, &[u8])]) -> ToolHarness {
    let world = ToolHarness::new();
    files.iter().for_each(|(path, content)| world.put_file(path, content));
    world
}

fn match_paths(answer: &Value) -> Vec<&str> {
    answer["matches"].as_array().unwrap().iter().map(|found| found["path"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn text_is_found_line_by_line() {
    let world = world_with(&[
        ("/shared/a.txt", "one milk, two milk\r\nМилк\n\tmilk\u{7}".as_bytes()),
        ("/shared/notes/b.md", b"bread\n"),
        ("/shared/notes/old/c.md", b"no\nno\nMILK"),
        ("/tmp/d.txt", b"milk"),
    ]);
    assert_eq!(
        world.data("file_search", json!({"query": "milk"})).await,
        json!({
            "path": "/shared", "total": 2, "more": 0, "files": 3,
            "skipped": {"binary": 0, "too_large": 0, "unreadable": 0},
            "matches": [
                {"path": "/shared/a.txt", "line": 1, "text": "one milk, two milk"},
                {"path": "/shared/a.txt", "line": 3, "text": "\tmilk\\u{7}"},
            ],
        })
    );
    let search = async |arguments| world.data("file_search", arguments).await;
    let any_case = search(json!({"query": "MILK", "ignore_case": true})).await;
    assert_eq!(match_paths(&any_case), ["/shared/a.txt", "/shared/a.txt", "/shared/notes/old/c.md"]);
    assert_eq!(search(json!({"query": "m.lk$", "regex": true})).await["matches"][0]["line"], 1);
    assert_eq!(search(json!({"query": "m.lk"})).await["total"], 0);
    assert_eq!(match_paths(&search(json!({"query": "milk", "path": "/tmp"})).await), ["/tmp/d.txt"]);
    assert_eq!(match_paths(&search(json!({"query": "bread", "path": "notes/b.md"})).await), ["/shared/notes/b.md"]);
    let by_name = search(json!({"query": "o", "glob": "*.md"})).await;
    assert_eq!((match_paths(&by_name).len(), &by_name["files"]), (2, &json!(2)));
    assert_eq!(search(json!({"query": "o", "glob": "old/*.md", "path": "notes"})).await["total"], 2);
    assert_eq!(search(json!({"query": "o", "glob": "old/*.md"})).await["total"], 0);
    let empty = ToolHarness::new().data("file_search", json!({"query": "a", "path": "/tmp"})).await;
    assert_eq!((&empty["total"], &empty["matches"]), (&json!(0), &json!([])));
}

#[tokio::test]
async fn files_are_found_by_name() {
    let world = world_with(&[
        ("/shared/b/a.txt", b"\0"),
        ("/shared/b.txt", b"12"),
        ("/shared/c.md", b""),
        ("/shared/a/x/a.txt", b"1"),
    ]);
    let answer = world.data("file_search", json!({"glob": "*.txt"})).await;
    assert_eq!(
        answer["matches"],
        json!([
            {"path": "/shared/a/x/a.txt", "bytes": 1},
            {"path": "/shared/b/a.txt", "bytes": 1},
            {"path": "/shared/b.txt", "bytes": 2},
        ])
    );
    assert_eq!(answer["files"], 3);
    assert!(world.touched().iter().all(|path| !path.to_string().contains('.')), "nothing is opened");
    let one = world.data("file_search", json!({"glob": "*.TXT", "ignore_case": true, "path": "b.txt"})).await;
    assert_eq!(one["matches"], json!([{"path": "/shared/b.txt", "bytes": 2}]));
}

#[tokio::test]
async fn unsearchable_files_are_skipped_and_counted() {
    let mut world = world_with(&[
        ("/shared/a.bin", b"milk\nmilk\0"),
        ("/shared/b.latin1", b"milk\nmil\xff\n"),
        ("/shared/c.txt", b"0123456789 milk"),
        ("/shared/d.txt", b"milk"),
    ]);
    // The second limit is met only if the file that is too large is not read.
    (world.limits.search_file_bytes, world.limits.search_bytes) = (12, 24);
    let answer = world.data("file_search", json!({"query": "milk"})).await;
    assert_eq!(match_paths(&answer), ["/shared/d.txt"]);
    assert_eq!(answer["skipped"], json!({"binary": 2, "too_large": 1, "unreadable": 0}));
    assert_eq!((&answer["files"], answer.get("incomplete")), (&json!(1), None));
    let one = world.data("file_search", json!({"query": "milk", "path": "a.bin"})).await;
    assert_eq!((&one["total"], &one["skipped"]["binary"]), (&json!(0), &json!(1)));
}

#[tokio::test]
async fn lines_longer_than_searched_are_counted() {
    let long = format!("milk{}milk\nmilk\n{0}tea", "x".repeat(70_000));
    let world = world_with(&[("/shared/min.js", long.as_bytes()), ("/shared/a", b"milk")]);
    let answer = world.data("file_search", json!({"query": "milk"})).await;
    assert_eq!((&answer["total"], &answer["cut_lines"]), (&json!(3), &json!(2)));
    assert_eq!(world.data("file_search", json!({"query": "tea"})).await["total"], 0);
}

#[tokio::test]
async fn limit_that_ends_a_search_is_named() {
    let files: [(&str, &[u8]); 4] =
        [("/shared/a/1", b"x\nx"), ("/shared/a/2", b"x"), ("/shared/b/3", b"x"), ("/shared/c", b"x")];
    let incomplete = async |change: fn(&mut crate::ToolLimits)| {
        let mut world = world_with(&files);
        change(&mut world.limits);
        let answer = world.data("file_search", json!({"query": "x"})).await;
        (answer["total"].as_u64().unwrap(), answer["incomplete"].as_str().unwrap_or_default().to_owned())
    };
    // Two directories and four files.
    assert_eq!(incomplete(|limits| limits.search_files = 6).await, (5, String::new()));
    let (total, says) = incomplete(|limits| limits.search_files = 3).await;
    assert!(
        total == 3 && says.contains("its limit of 3 files and directories; there may be more: set `path`"),
        "{says}"
    );
    assert_eq!(incomplete(|limits| limits.search_bytes = 6).await, (5, String::new()));
    let (total, says) = incomplete(|limits| limits.search_bytes = 5).await;
    assert!(total == 4 && says.contains("its limit of 5 B; there may be more: set `path`"), "{says}");
    assert_eq!(incomplete(|limits| limits.search_matches = 5).await, (5, String::new()));
    // In the middle of a file, and at the end of one.
    for (total, says) in [
        incomplete(|limits| limits.search_matches = 1).await,
        incomplete(|limits| limits.search_matches = 2).await,
        incomplete(|limits| limits.search_matches = 4).await,
    ] {
        assert!(says.contains(&format!("its limit of {total} matches; there may be more: set `path`")), "{says}");
    }
    let mut world = world_with(&files);
    world.limits.search_matches = 1;
    let by_name = world.data("file_search", json!({"glob": "*"})).await;
    assert!(by_name["total"] == 1 && by_name["incomplete"].as_str().unwrap().contains("1 matches"), "{by_name}");
}

#[tokio::test]
async fn binary_bytes_count_for_the_byte_limit() {
    let mut world = world_with(&[("/shared/a", b"1234567890\0"), ("/shared/b", b"x"), ("/shared/c", b"x")]);
    world.limits.search_bytes = 12;
    let answer = world.data("file_search", json!({"query": "x"})).await;
    assert_eq!((&answer["total"], answer["incomplete"].is_string()), (&json!(1), true));
}

#[tokio::test]
async fn many_matches_come_in_pages() {
    let world = world_with(&[("/shared/a.txt", "Xy\n".repeat(250).as_bytes())]);
    let arguments = json!({"query": "x.", "regex": true, "glob": "*.txt", "ignore_case": true});
    let first = world.data("file_search", arguments.clone()).await;
    assert_eq!((&first["total"], &first["more"]), (&json!(250), &json!(150)));
    assert_eq!(
        first["next"],
        json!(
            "file_search {\"query\":\"x.\",\"regex\":true,\"path\":\"/shared\",\"glob\":\"*.txt\",\"ignore_case\":true,\
             \"offset\":100}"
        )
    );
    assert_eq!(world.list_page_lengths("file_search", arguments, "matches").await, [100, 100, 50]);
    let limited = json!({"query": "y", "limit": 120});
    assert_eq!(world.list_page_lengths("file_search", limited, "matches").await, [120, 120, 10]);
    let whole = world.call_for_program("file_search", json!({"query": "y"})).await.unwrap().data.unwrap();
    assert_eq!((whole["matches"].as_array().unwrap().len(), whole.get("next")), (250, None));
}

#[tokio::test]
async fn wrong_calls_say_what_is_wrong() {
    let world = world_with(&[("/shared/a.txt", b"text")]);
    for (arguments, says) in [
        (json!({}), "nothing to find: give `query`"),
        (json!({"query": ""}), "argument `query`: it is empty"),
        (json!({"query": "(", "regex": true}), "argument `query`: it is not a regular expression (at character 1"),
        (json!({"query": "a", "path": "/vault"}), "expected a path beneath /shared or /tmp, but `/vault"),
        (json!({"query": "a", "path": "/"}), "outside the workspace"),
        (json!({"query": "a", "path": "none"}), "nothing was searched: `/shared/none` does not exist"),
        (json!({"query": "a", "limit": 201}), "argument `limit`: 201 is not allowed; allowed are 1 to 200"),
        (json!({"query": "text", "offset": 1}), "argument `offset`: 1 is behind the end; there is 1 entry"),
        (json!({"query": "a", "mode": "regex"}), "unknown field `mode`"),
        (json!({"query": 5}), "argument `query`"),
    ] {
        let error = world.error("file_search", arguments.clone()).await;
        assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
    }
}

/// A workspace in which every directory has a directory `d` and these files.
fn endless_workspace(files: &'static [&str]) -> MockWorkspace {
    let mut workspace = MockWorkspace::new();
    workspace.expect_list().returning(move |_, path| {
        let entry = |name: &str, kind| WorkspaceEntry {
            path: path.join(name).unwrap(),
            kind,
            bytes: 1,
            modified_at: Timestamp(0),
        };
        let files = files.iter().map(|name| entry(name, WorkspaceEntryKind::File));
        Ok([entry("d", WorkspaceEntryKind::Directory)].into_iter().chain(files).collect())
    });
    workspace
}

#[tokio::test]
async fn search_ends_in_endless_directories() {
    let world = ToolHarness::new();
    let mut workspace = endless_workspace(&["a.txt"]);
    workspace.expect_read().returning(|_, _| Ok(WorkspaceFile { bytes: 1, content: chunked(b"x") }));
    let tool = FileSearch(ToolServices { workspace: AuditedWorkspace::new(Arc::new(workspace)), ..world.services() });
    let answer = tool.call(json!({"query": "x"}), &world.context()).await.unwrap().data.unwrap();
    // The one at the top, and 32 beneath it.
    assert_eq!((&answer["total"], &answer["skipped"]["unreadable"]), (&json!(33), &json!(1)));
}

#[tokio::test]
async fn unreadable_files_and_directories_are_counted() {
    let world = ToolHarness::new();
    let mut workspace = MockWorkspace::new();
    workspace.expect_list().returning(|_, path| {
        if path.file_name().is_some() {
            return Err(WorkspaceError::Failed { path: path.clone(), reason: "input/output error".into() });
        }
        let entry = |name: &str, kind| WorkspaceEntry {
            path: path.join(name).unwrap(),
            kind,
            bytes: 1,
            modified_at: Timestamp(0),
        };
        let directory = entry("d", WorkspaceEntryKind::Directory);
        Ok([directory]
            .into_iter()
            .chain(["a", "b", "c", "e"].map(|name| entry(name, WorkspaceEntryKind::File)))
            .collect())
    });
    workspace.expect_read().returning(|_, path| match path.file_name() {
        Some("a") => Err(WorkspaceError::NotFound(path.clone())),
        Some("b") => {
            let broken = [Ok(Bytes::from_static(b"x\n")), Err(std::io::Error::other("input/output error"))];
            Ok(WorkspaceFile { bytes: 9, content: Box::pin(stream::iter(broken)) })
        }
        // It has grown since it was opened.
        Some("c") => Ok(WorkspaceFile { bytes: 1, content: chunked(b"x\n0123456789") }),
        _ => Ok(WorkspaceFile { bytes: 1, content: chunked(b"x") }),
    });
    let mut services = ToolServices { workspace: AuditedWorkspace::new(Arc::new(workspace)), ..world.services() };
    services.limits.search_file_bytes = 10;
    let answer = FileSearch(services).call(json!({"query": "x"}), &world.context()).await.unwrap().data.unwrap();
    assert_eq!(match_paths(&answer), ["/shared/e"]);
    assert_eq!(answer["skipped"], json!({"binary": 0, "too_large": 1, "unreadable": 3}));
}

#[tokio::test]
async fn cancelled_search_ends_between_files() {
    let world = ToolHarness::new();
    let context = world.context();
    let cancel = context.cancel.clone();
    let mut workspace = endless_workspace(&["a", "b", "c"]);
    workspace.expect_read().times(2).returning(move |_, path| {
        if path.file_name() == Some("b") {
            cancel.cancel();
        }
        Ok(WorkspaceFile { bytes: 0, content: chunked(b"") })
    });
    let tool = FileSearch(ToolServices { workspace: AuditedWorkspace::new(Arc::new(workspace)), ..world.services() });
    let error = tool.call(json!({"query": "x"}), &context).await.unwrap_err().0;
    assert_eq!(error, "the search was stopped");
}
