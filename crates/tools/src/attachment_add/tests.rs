//! The promises of `attachment.add`: all or nothing, pairwise overrides, and every guardrail with its numbers.

use crate::fakes::stored_files;

use std::{num::NonZeroU64, sync::Arc};

use satchel_domain::{AttachmentId, CallId, Timestamp};
use satchel_ports::{MockBlobs, MockWorkspace, WorkspaceError, workspace::WorkspaceFile};

use super::*;
use crate::{
    AuditedWorkspace,
    fakes::{ToolHarness, attachment, chunked, conversation, digest, disk_full_error},
};

fn world() -> ToolHarness {
    let world = ToolHarness::new();
    world.put_file("/shared/a.png", b"\x89PNG picture");
    world.put_file("/shared/b.csv", b"1;2");
    world.put_file("/tmp/notes", b"notes");
    world
}

#[tokio::test]
async fn files_are_attached_in_order_with_metadata() {
    let world = world();
    let outcome =
        world.call("attachment.add", json!({"paths": ["/tmp/notes", "/shared/a.png", "/shared/b.csv"]})).await.unwrap();
    assert_eq!(outcome.text, None, "a script gets the id only when there is no text");
    let made = outcome.new_files();
    assert_eq!(
        outcome.data.unwrap(),
        json!({"ok": true, "attachments": [
            {"id": made[0].id, "filename": "notes", "mimeType": "text/plain", "bytes": 5},
            {"id": made[1].id, "filename": "a.png", "mimeType": "image/png", "bytes": 12},
            {"id": made[2].id, "filename": "b.csv", "mimeType": "text/csv", "bytes": 3},
        ]})
    );
    for file in &made {
        assert_eq!(file.source, AttachmentSource::Tool);
        assert_eq!((file.created_at, file.visibility), (Timestamp(7_000), Visibility::Deliver));
    }
    assert_eq!(made[1].sha256, digest(b"\x89PNG picture"));
    assert_eq!(world.stored(&made[1].sha256), b"\x89PNG picture");
}

/// Models name files without a mount.
#[tokio::test]
async fn paths_without_a_mount_are_attached_from_shared() {
    let world = world();
    let outcome = world.call("attachment.add", json!({"paths": ["a.png", "~/b.csv"]})).await.unwrap();
    let files = outcome.new_files();
    let names: Vec<_> = files.iter().map(|file| file.filename.as_str()).collect();
    assert_eq!(names, ["a.png", "b.csv"]);
    assert_eq!(files[0].sha256, digest(b"\x89PNG picture"));
}

#[tokio::test]
async fn overrides_go_pairwise_and_paths_win_over_path() {
    let world = world();
    let outcome = world
        .call(
            "attachment.add",
            json!({
                "paths": ["/tmp/notes", "/shared/b.csv"], "path": "/shared/a.png",
                "filenames": [null, "../Übersicht.csv"], "filename": "ignored", "mimeTypes": ["Text/Markdown"],
                "descriptions": ["my notes"], "visibility": "internal",
            }),
        )
        .await
        .unwrap();
    let files = outcome.new_files();
    let shown: Vec<_> = files
        .iter()
        .map(|file| (file.filename.as_str(), file.mime.as_str(), file.description.as_str(), file.visibility))
        .collect();
    assert_eq!(
        shown,
        [
            ("notes", "text/markdown", "my notes", Visibility::Internal),
            ("Übersicht.csv", "text/csv", "", Visibility::Internal)
        ]
    );
    let one = world.call("attachment.add", json!({"path": "/tmp/notes", "filename": "n.csv"})).await.unwrap();
    let file = one.new_files().remove(0);
    assert_eq!((file.filename.as_str(), file.mime.as_str()), ("n.csv", "text/csv"));
}

/// The person knows it by its number, and would take another one for another file.
#[tokio::test]
async fn saved_file_sent_back_keeps_its_number() {
    let world = world();
    world.receive_bytes(3, "photo.png", "image/png", b"\x89PNG photo");
    world.add_record(attachment(4, "photo.png", "image/png", b"\x89PNG photo"));
    world.add_record(Attachment {
        conversation: "console:other".parse().unwrap(),
        ..attachment(1, "photo.png", "image/png", b"\x89PNG photo")
    });
    world.call("attachment_save", json!({"index": 0, "path": "/shared/trip/photo.png"})).await.unwrap();
    let added = async |arguments| world.call("attachment.add", arguments).await.unwrap();
    let outcome =
        added(json!({"path": "/shared/trip/photo.png", "descriptions": ["us"], "visibility": "internal"})).await;
    let sent = AttachmentId(uuid::Uuid::from_u128(3));
    let file = stored_files(&outcome).remove(0);
    assert_eq!((file.id, file.number.get(), file.source), (sent, 3, AttachmentSource::User));
    assert_eq!((file.description.as_str(), file.visibility), ("us", Visibility::Internal));
    assert_eq!(outcome.data.unwrap()["attachments"][0]["number"], 3);

    let renamed = added(json!({"path": "/shared/trip/photo.png", "filename": "us.png"})).await;
    assert_eq!(renamed.new_files().len(), 1, "under another name it is another file");
    world.put_file("/shared/trip/photo.png", b"\x89PNG edited");
    assert_eq!(added(json!({"path": "/shared/trip/photo.png"})).await.new_files().len(), 1, "so it is when edited");
}

#[tokio::test]
async fn invalid_add_call_is_explained_and_attaches_nothing() {
    let mut world = world();
    world.limits.add_files = 3;
    world.limits.add_file_bytes = 11;
    world.limits.add_call_bytes = 7;
    let mut blobs = MockBlobs::new();
    blobs.expect_put().never();
    let services = ToolServices { blobs: Arc::new(blobs), ..world.services() };
    let tool = crate::built_in(services).get("attachment.add").unwrap();
    for (arguments, says) in [
        (json!({}), "neither `paths` nor `path`"),
        (json!({"paths": []}), "`paths` is empty"),
        (json!({"paths": "/tmp/notes"}), "argument `paths`"),
        (json!({"paths": ["/tmp/notes", 7]}), "but 7 is not a path"),
        (json!({"paths": ["/tmp/notes", "/vault/key"]}), "`/vault/key` can't be read by this tool"),
        (json!({"paths": ["/tmp/notes", "/etc/passwd"]}), "`/etc/passwd` is outside the workspace"),
        (json!({"paths": ["/tmp/notes", "/shared"]}), "argument `paths[1]`: `/shared` names a directory"),
        (json!({"paths": ["/tmp/notes", "/shared/none"]}), "nothing was attached: `/shared/none` does not exist"),
        (json!({"paths": vec!["/tmp/notes"; 4]}), "4 files; at most 3"),
        (json!({"paths": ["/tmp/notes", "/shared/a.png"]}), "`/shared/a.png` has 12 bytes (12 B), at most 11 bytes"),
        (json!({"paths": ["/tmp/notes", "/shared/b.csv"]}), "8 bytes (8 B) together, at most 7 bytes"),
        (json!({"path": "/tmp/notes", "filenames": ["a", "b"]}), "`filenames` has 2 entries for 1 files"),
        (json!({"path": "/tmp/notes", "descriptions": ["a", "b"]}), "`descriptions` has 2 entries for 1 files"),
        (
            json!({"paths": ["/tmp/notes", "/shared/b.csv"], "descriptions": ["x".repeat(4_096), "x".repeat(4_097)]}),
            "the description of `/shared/b.csv` has 4097 bytes; at most 4096 are allowed",
        ),
        (
            json!({"paths": ["/tmp/notes", "/tmp/notes"], "filename": "a"}),
            "`filename` is for one file, but 2 are given",
        ),
        (json!({"paths": ["/tmp/notes", "/tmp/notes"], "mimeType": "a/b"}), "`mimeType` is for one file"),
        (json!({"path": "/tmp/notes", "mimeType": "png"}), "`png` is not a MIME type"),
        (json!({"path": "/tmp/notes", "mimeType": "a/b\r\nX: y"}), "`a/b\\r\\nX: y` is not a MIME type"),
        (json!({"path": "/tmp/notes", "visibility": "secret"}), "argument `visibility`: unknown variant `secret`"),
        (json!({"path": "/tmp/notes", "mime_type": "a/b"}), "unknown field `mime_type`"),
    ] {
        let error = tool.call(arguments.clone(), &world.context()).await.expect_err(says).0;
        assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
    }
}

#[tokio::test]
async fn turn_total_counts_only_files_from_tools() {
    let mut world = world();
    world.limits.add_turn_bytes = 15;
    world.receive_bytes(1, "sent.bin", "application/octet-stream", &[1; 100]);
    world.add_turn_record(Attachment {
        source: AttachmentSource::Tool,
        ..attachment(2, "made", "text/plain", &[2; 10])
    });
    world.add_record(Attachment {
        source: AttachmentSource::Tool,
        ..attachment(3, "earlier turn", "text/plain", &[3; 10])
    });
    assert!(world.call("attachment.add", json!({"path": "/tmp/notes"})).await.is_ok(), "10 + 5 bytes are allowed");
    world.limits.add_turn_bytes = 14;
    let error = world.error("attachment.add", json!({"path": "/tmp/notes"})).await;
    assert!(error.contains("5 bytes") && error.contains("10 bytes") && error.contains("14 bytes"), "{error}");
}

/// None of them is recorded before all have ended.
#[tokio::test]
async fn concurrent_add_calls_share_the_turn_total() {
    let mut world = world();
    world.limits.add_turn_bytes = 14;
    let tool = world.registry().get("attachment.add").unwrap();
    let nth = |ordinal: u32| {
        let context = world.context();
        ToolContext { call: CallId { ordinal, ..context.call }, ..context }
    };
    let contexts = [nth(0), nth(1), nth(2), nth(3)];
    let call = |ordinal: usize| tool.call(json!({"path": "/tmp/notes"}), &contexts[ordinal]);
    let (first, second, third) = tokio::join!(call(0), call(1), call(2));
    let made = [first.unwrap(), second.unwrap()];
    let error = third.expect_err("5 + 5 + 5 bytes are too many").0;
    assert!(error.contains("5 bytes") && error.contains("10 bytes") && error.contains("14 bytes"), "{error}");

    let made = made.into_iter().flat_map(|outcome| outcome.new_files());
    made.for_each(|file| world.add_turn_record(file.numbered(conversation(), NonZeroU64::MIN)));
    let small = json!({"path": "/shared/b.csv"});
    assert!(tool.call(small, &contexts[3]).await.is_ok(), "what is recorded counts once: 10 + 3 bytes");
}

#[tokio::test]
async fn failed_call_releases_its_reservation() {
    let mut world = world();
    world.limits.add_turn_bytes = 5;
    let mut blobs = MockBlobs::new();
    blobs.expect_put().times(2).returning(|_, _, _| Err(disk_full_error()));
    let tool = AttachmentAdd::new(ToolServices { blobs: Arc::new(blobs), ..world.services() });
    for _ in 0..2 {
        let error = tool.call(json!({"path": "/tmp/notes"}), &world.context()).await.expect_err("the disk is full").0;
        assert!(error.contains("no space is left"), "{error}");
    }
}

#[tokio::test]
async fn file_changed_during_add_is_not_attached() {
    let mut world = world();
    world.limits.add_file_bytes = 10;
    for (second, says) in [(Some(&[0; 11][..]), "has 11 bytes"), (None, "`/tmp/notes` does not exist")] {
        let mut workspace = MockWorkspace::new();
        let mut reads = 0;
        workspace.expect_read().times(2).returning(move |_, path| {
            reads += 1;
            match (reads, second) {
                (1, _) => Ok(WorkspaceFile { bytes: 1, content: chunked(b"x") }),
                (_, Some(content)) => Ok(WorkspaceFile { bytes: content.len() as u64, content: chunked(content) }),
                (_, None) => Err(WorkspaceError::NotFound(path.clone())),
            }
        });
        let tool = AttachmentAdd::new(ToolServices {
            workspace: AuditedWorkspace::new(Arc::new(workspace)),
            ..world.services()
        });
        let error = tool.call(json!({"path": "/tmp/notes"}), &world.context()).await.expect_err(says).0;
        assert!(error.starts_with("nothing was attached") && error.contains(says), "{error}");
    }
}
