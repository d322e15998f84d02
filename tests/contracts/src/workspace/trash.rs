//! The promises about deleted files.

use std::{fs, path::Path};

use satchel_domain::Timestamp;
use satchel_ports::{
    WorkspaceError, WriteMode,
    workspace::{RestoredFiles, TrashBatch, TrashedEntry, WorkspaceEntryKind},
};
use uuid::Uuid;

use super::{
    QUOTA, WorkspaceFixture, create, create_symlink, list_paths, main_conversation, path, plant_links, read,
    repeated_bytes,
};

/// Mutations: the trash is listed, or a path into it is read, written or removed; the old path is lost.
pub async fn deleted_file_is_hidden_and_restored(fixture: impl WorkspaceFixture) {
    create(&fixture, "/shared/a/b.txt", b"deleted").await.unwrap();
    create(&fixture, "/shared/a/c.txt", b"kept").await.unwrap();
    let moved = trash(&fixture, "/shared/a/b.txt", 1).await.unwrap();
    assert_eq!((moved.kind, moved.bytes), (WorkspaceEntryKind::File, 7));
    assert!(matches!(read(&fixture, "/shared/a/b.txt").await, Err(WorkspaceError::NotFound(_))));
    assert_eq!(list_paths(&fixture, "/shared").await, ["/shared/a"]);
    assert!(matches!(trash(&fixture, "/shared/a/b.txt", 2).await, Err(WorkspaceError::NotFound(_))));
    let hidden = path("/shared/.deleted");
    let workspace = fixture.workspace();
    for error in [
        workspace.list(&main_conversation(), &hidden).await.err(),
        workspace.remove(&main_conversation(), &hidden).await.err(),
        workspace.trash(&main_conversation(), &hidden, batch(3), true).await.err(),
    ] {
        assert!(matches!(error, Some(WorkspaceError::NotFound(_))), "{error:?}");
    }
    assert!(matches!(create(&fixture, "/shared/.deleted/x", b"x").await, Err(WorkspaceError::Failed { .. })));
    assert_eq!(restore(&fixture, 1).await.restored, [path("/shared/a/b.txt")]);
    assert_eq!(read(&fixture, "/shared/a/b.txt").await.unwrap(), b"deleted");
    create(&fixture, "/shared/dir/.deleted", b"a name like any other").await.unwrap();
}

/// Mutations: a directory is moved although something is in it; only its files come back.
pub async fn deleted_directory_is_restored_with_its_files(fixture: impl WorkspaceFixture) {
    for name in ["/tmp/dir/a", "/tmp/dir/deep/b"] {
        create(&fixture, name, name.as_bytes()).await.unwrap();
    }
    let refused = trash(&fixture, "/tmp/dir", 1).await;
    assert!(matches!(&refused, Err(WorkspaceError::NotEmpty(at)) if *at == path("/tmp/dir")), "{refused:?}");
    let workspace = fixture.workspace();
    let moved = workspace.trash(&main_conversation(), &path("/tmp/dir"), batch(2), true).await.unwrap();
    assert_eq!(moved.kind, WorkspaceEntryKind::Directory);
    assert_eq!(list_paths(&fixture, "/tmp").await, [""; 0]);
    assert_eq!(restore(&fixture, 1).await.restored, [path("/tmp/dir")]);
    assert_eq!(read(&fixture, "/tmp/dir/deep/b").await.unwrap(), b"/tmp/dir/deep/b");
    for name in ["/tmp/dir/deep/b", "/tmp/dir/deep"] {
        trash(&fixture, name, 3).await.unwrap();
    }
}

/// Mutation: what has the path now is lost.
pub async fn restore_replaces_nothing(fixture: impl WorkspaceFixture) {
    let workspace = fixture.workspace();
    for name in ["/shared/dir/a", "/shared/dir/b", "/shared/x"] {
        create(&fixture, name, b"old").await.unwrap();
    }
    workspace.trash(&main_conversation(), &path("/shared/dir"), batch(1), true).await.unwrap();
    trash(&fixture, "/shared/x", 1).await.unwrap();
    for name in ["/shared/dir/a", "/shared/x/inside"] {
        create(&fixture, name, b"new").await.unwrap();
    }
    let mut files = restore(&fixture, 1).await;
    files.blocked.sort();
    assert_eq!(files.restored, [path("/shared/dir/b")]);
    assert_eq!(files.blocked, [path("/shared/dir/a"), path("/shared/x")]);
    assert_eq!(read(&fixture, "/shared/dir/a").await.unwrap(), b"new");
    workspace.remove(&main_conversation(), &path("/shared/dir/a")).await.unwrap();
    assert_eq!(restore(&fixture, 2).await.restored, [path("/shared/dir/a")]);
    assert_eq!(read(&fixture, "/shared/dir/a").await.unwrap(), b"old");
}

/// Mutations: a repeat restores the batch before; batches of both mounts are ordered by themselves.
pub async fn restore_takes_the_newest_batch_once(fixture: impl WorkspaceFixture) {
    for (name, number) in [("/shared/first", 1), ("/tmp/second", 2), ("/shared/third", 3), ("/tmp/third", 3)] {
        create(&fixture, name, b"x").await.unwrap();
        trash(&fixture, name, number).await.unwrap();
    }
    let mut third = restore(&fixture, 7).await.restored;
    third.sort();
    assert_eq!(third, [path("/shared/third"), path("/tmp/third")]);
    assert_eq!(restore(&fixture, 7).await, RestoredFiles::default(), "the same request again");
    assert_eq!(restore(&fixture, 8).await.restored, [path("/tmp/second")]);
    assert_eq!(restore(&fixture, 9).await.restored, [path("/shared/first")]);
    assert_eq!(restore(&fixture, 10).await, RestoredFiles::default());
}

/// Mutations: deleted bytes count no longer; they are kept although a write has no room.
pub async fn trash_counts_and_makes_room(fixture: impl WorkspaceFixture) {
    let workspace = fixture.workspace();
    let write = async |name: &str, bytes: usize| {
        let content = repeated_bytes(bytes);
        workspace.write(&main_conversation(), &path(name), content, WriteMode::CreateNew, u64::MAX).await
    };
    let most = QUOTA as usize / 10 * 7;
    write("/shared/a", most).await.unwrap();
    trash(&fixture, "/shared/a", 1).await.unwrap();
    write("/shared/b", QUOTA as usize / 10).await.unwrap();
    assert_eq!(restore(&fixture, 1).await.restored, [path("/shared/a")], "there was room for both");
    trash(&fixture, "/shared/a", 2).await.unwrap();
    write("/tmp/c", most).await.unwrap();
    assert_eq!(restore(&fixture, 2).await, RestoredFiles::default(), "what was deleted made room");
    assert!(matches!(write("/tmp/d", most).await, Err(WorkspaceError::QuotaExceeded { .. })));
}

/// Mutations: all of it is swept, or nothing.
pub async fn trash_is_swept_by_age(fixture: impl WorkspaceFixture) {
    for (name, number) in [("/shared/old", 1), ("/tmp/old", 1), ("/shared/young", 5)] {
        create(&fixture, name, b"12345").await.unwrap();
        trash(&fixture, name, number).await.unwrap();
    }
    let workspace = fixture.workspace();
    assert_eq!(workspace.sweep_trash(batch(1).deleted_at).await.unwrap(), 0);
    assert!(workspace.sweep_trash(batch(5).deleted_at).await.unwrap() >= 10);
    assert_eq!(restore(&fixture, 1).await.restored, [path("/shared/young")]);
    assert_eq!(restore(&fixture, 2).await, RestoredFiles::default());
}

/// Mutation: the link is followed, so that its target is moved or another mount is reached.
pub async fn links_are_moved_to_trash_not_their_targets(fixture: impl WorkspaceFixture) {
    let outside = plant_links(&fixture).await;
    create(&fixture, "/shared/target", b"target").await.unwrap();
    let shared = fixture.host_path(&main_conversation(), &path("/shared"));
    create_symlink("target", &shared.join("link"));
    for name in ["/shared/link", "/shared/file-out", "/shared/dir-out"] {
        trash(&fixture, name, 1).await.unwrap();
    }
    assert_eq!(read(&fixture, "/shared/target").await.unwrap(), b"target");
    assert_eq!(fs::read(outside.join("outside/secret")).unwrap(), b"secret");
    let escaped = trash(&fixture, "/shared/up-out/secret", 2).await;
    assert!(matches!(escaped, Err(WorkspaceError::Escapes(_))), "{escaped:?}");
    restore(&fixture, 1).await;
    assert_eq!(fs::read_link(shared.join("link")).unwrap(), Path::new("target"));
}

async fn trash(fixture: &impl WorkspaceFixture, name: &str, number: u32) -> Result<TrashedEntry, WorkspaceError> {
    fixture.workspace().trash(&main_conversation(), &path(name), batch(number), false).await
}

async fn restore(fixture: &impl WorkspaceFixture, request: u128) -> RestoredFiles {
    fixture.workspace().restore(&main_conversation(), Uuid::from_u128(request)).await.unwrap()
}

/// A deletion at a time of its own.
pub(super) fn batch(number: u32) -> TrashBatch {
    TrashBatch { deleted_at: Timestamp(i64::from(number) * 1000), id: Uuid::from_u128(u128::from(100 - number)) }
}
