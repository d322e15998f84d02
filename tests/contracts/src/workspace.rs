//! The promises of [`Workspace`], one function each; [`workspace_contract!`](crate::workspace_contract) runs them all.

pub mod faults;
mod trash;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, future::join_all, stream};
use satchel_domain::{ConversationId, WorkspacePath};
use satchel_ports::{ByteStream, Workspace, WorkspaceError, WriteMode, workspace::WorkspaceEntryKind};
use satchel_wait::wait_until_async;
use secrecy::ExposeSecret;

pub use self::trash::*;

/// The room of each conversation in a fixture, in bytes.
pub const QUOTA: u64 = 4_000_000;

/// Workspaces that are made for one test, each conversation with a `/shared` of its own and [`QUOTA`] bytes of room.
#[async_trait]
pub trait WorkspaceFixture: Send + Sync + Sized {
    /// Makes workspaces without a file.
    async fn new() -> Self;

    fn workspace(&self) -> Arc<dyn Workspace>;

    /// Where a path lies on the disk, so that a test can plant what no tool can make.
    fn host_path(&self, conversation: &ConversationId, path: &WorkspacePath) -> PathBuf;

    /// Counts the temporary files of all conversations.
    async fn count_leftovers(&self) -> usize;
}

/// Runs every promise of [`Workspace`] against a [`WorkspaceFixture`].
#[macro_export]
macro_rules! workspace_contract {
    ($fixture:ty) => {
        $crate::workspace_contract!(@each $fixture:
            read_returns_written_bytes
            missing_parents_are_created
            create_new_keeps_existing_file
            replace_truncates_old_content
            concurrent_create_new_has_one_winner
            failed_write_keeps_old_file
            dropped_write_keeps_old_file
            write_over_limit_fails_at_once
            write_over_quota_fails
            quota_releases_replaced_and_removed_bytes
            read_outside_mount_is_refused
            write_outside_mount_is_refused
            links_inside_are_followed
            only_regular_files_are_opened
            directories_are_not_files
            conversations_are_isolated
            rename_moves_all_and_replaces_nothing
            removed_conversation_leaves_nothing
            list_is_sorted_without_links
            unused_mount_is_empty
            missing_file_is_not_found
            files_and_empty_directories_are_removed
            deleted_file_is_hidden_and_restored
            deleted_directory_is_restored_with_its_files
            restore_replaces_nothing
            restore_takes_the_newest_batch_once
            trash_counts_and_makes_room
            trash_is_swept_by_age
            links_are_moved_to_trash_not_their_targets
            vault_is_read_only
            vault_is_read_as_secrets_alone
            mount_directory_is_kept
            names_are_kept_as_given
        );
    };
    (@each $fixture:ty: $($promise:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                $crate::workspace::$promise(<$fixture as $crate::workspace::WorkspaceFixture>::new().await).await;
            }
        )*
    };
}

/// Mutation: buffers are lost or swapped in a file that is longer than one.
pub async fn read_returns_written_bytes(fixture: impl WorkspaceFixture) {
    for (name, length) in [("/shared/empty", 0), ("/shared/small", 5), ("/tmp/large", 1_000_000)] {
        let content: Vec<u8> = (0..length).map(|i: usize| (i ^ (i >> 8)) as u8).collect();
        assert_eq!(create(&fixture, name, &content).await.unwrap(), length as u64);
        assert_eq!(read(&fixture, name).await.unwrap(), content, "{name}");
        assert_eq!(fixture.workspace().read(&main_conversation(), &path(name)).await.unwrap().bytes, length as u64);
    }
    assert_eq!(fixture.count_leftovers().await, 0);
}

/// Mutation: only the last parent is made.
pub async fn missing_parents_are_created(fixture: impl WorkspaceFixture) {
    create(&fixture, "/shared/a/b/c/d.txt", b"deep").await.unwrap();
    assert_eq!(read(&fixture, "/shared/a/b/c/d.txt").await.unwrap(), b"deep");
}

/// Mutation: `CreateNew` is `Replace`.
pub async fn create_new_keeps_existing_file(fixture: impl WorkspaceFixture) {
    create(&fixture, "/shared/a", b"old").await.unwrap();
    let refused = create(&fixture, "/shared/a", b"new").await;
    assert!(matches!(&refused, Err(WorkspaceError::Exists(there)) if *there == path("/shared/a")), "{refused:?}");
    assert_eq!(read(&fixture, "/shared/a").await.unwrap(), b"old");
    assert_eq!(fixture.count_leftovers().await, 0);
}

/// Mutation: the old file is written over from its start, so that its end stays.
pub async fn replace_truncates_old_content(fixture: impl WorkspaceFixture) {
    replace(&fixture, "/shared/a", b"first and long").await.unwrap();
    replace(&fixture, "/shared/a", b"second").await.unwrap();
    assert_eq!(read(&fixture, "/shared/a").await.unwrap(), b"second");
    assert_eq!(fixture.count_leftovers().await, 0);
}

/// Mutation: whether the file exists is looked up before the write, not decided by the disk.
pub async fn concurrent_create_new_has_one_winner(fixture: impl WorkspaceFixture) {
    let fixture = &fixture;
    for round in 0..20 {
        let name = &format!("/shared/{round}");
        let contents: Vec<[u8; 1]> = (0..6).map(|writer| [writer]).collect();
        let writes = join_all(contents.iter().map(|content| create(fixture, name, content))).await;
        let winners: Vec<usize> = (0..writes.len()).filter(|writer| writes[*writer].is_ok()).collect();
        assert_eq!(winners.len(), 1, "round {round}: {writes:?}");
        let others = writes.iter().filter(|write| matches!(write, Err(WorkspaceError::Exists(_))));
        assert_eq!(others.count(), 5, "round {round}: {writes:?}");
        assert_eq!(read(fixture, name).await.unwrap(), [winners[0] as u8]);
    }
}

/// Mutation: the file is opened for writing in its place.
pub async fn failed_write_keeps_old_file(fixture: impl WorkspaceFixture) {
    create(&fixture, "/shared/old", b"old").await.unwrap();
    for (name, mode) in [("/shared/old", WriteMode::Replace), ("/shared/new", WriteMode::CreateNew)] {
        let broken = repeated_bytes(600_000).chain(stream::iter([Err(io::Error::other("reset"))])).boxed();
        let failed = fixture.workspace().write(&main_conversation(), &path(name), broken, mode, QUOTA).await;
        assert!(
            matches!(&failed, Err(WorkspaceError::Failed { reason, .. }) if reason.contains("reset")),
            "{failed:?}"
        );
    }
    assert_eq!(read(&fixture, "/shared/old").await.unwrap(), b"old");
    assert_eq!(list_paths(&fixture, "/shared").await, ["/shared/old"]);
    assert_eq!(fixture.count_leftovers().await, 0);
}

/// Mutation: a dropped write goes on in the background, or its temporary file is shown.
pub async fn dropped_write_keeps_old_file(fixture: impl WorkspaceFixture) {
    create(&fixture, "/shared/old", b"old").await.unwrap();
    for (name, mode) in [("/shared/old", WriteMode::Replace), ("/shared/new", WriteMode::CreateNew)] {
        let endless = repeated_bytes(600_000).chain(stream::pending()).boxed();
        let workspace = fixture.workspace();
        let (here, path) = (main_conversation(), path(name));
        let write = workspace.write(&here, &path, endless, mode, QUOTA);
        assert!(tokio::time::timeout(Duration::from_millis(60), write).await.is_err());
    }
    assert_eq!(read(&fixture, "/shared/old").await.unwrap(), b"old");
    assert_eq!(list_paths(&fixture, "/shared").await, ["/shared/old"]);
    // What a dropped write has in hand is finished first.
    wait_until_async("no temporary file stays", async || fixture.count_leftovers().await == 0).await;
}

/// Mutation: the limit is checked at the end, or counts one byte less.
pub async fn write_over_limit_fails_at_once(fixture: impl WorkspaceFixture) {
    let endless = stream::repeat_with(|| Ok(Bytes::from_static(&[1; 1000]))).boxed();
    let refused =
        fixture.workspace().write(&main_conversation(), &path("/tmp/a"), endless, WriteMode::Replace, 5_999).await;
    assert!(matches!(refused, Err(WorkspaceError::TooLarge { limit: 5_999, .. })), "{refused:?}");
    assert_eq!(list_paths(&fixture, "/tmp").await, [""; 0]);
    let fits = fixture
        .workspace()
        .write(&main_conversation(), &path("/tmp/a"), repeated_bytes(6_000), WriteMode::CreateNew, 6_000)
        .await;
    assert_eq!(fits.unwrap(), 6_000);
}

/// Mutation: the quota is looked at before a write only, or for each mount alone.
pub async fn write_over_quota_fails(fixture: impl WorkspaceFixture) {
    let workspace = fixture.workspace();
    let half = QUOTA as usize / 2;
    workspace
        .write(&main_conversation(), &path("/shared/a"), repeated_bytes(half), WriteMode::CreateNew, u64::MAX)
        .await
        .unwrap();
    let endless = stream::repeat_with(|| Ok(Bytes::from_static(&[1; 10_000]))).boxed();
    let refused = workspace.write(&main_conversation(), &path("/tmp/b"), endless, WriteMode::CreateNew, u64::MAX).await;
    assert!(matches!(refused, Err(WorkspaceError::QuotaExceeded { quota: QUOTA })), "{refused:?}");
    assert_eq!(list_paths(&fixture, "/tmp").await, [""; 0]);
    workspace
        .write(&main_conversation(), &path("/tmp/b"), repeated_bytes(half), WriteMode::CreateNew, u64::MAX)
        .await
        .unwrap();
    let other = conversation("web:other");
    workspace.write(&other, &path("/tmp/b"), repeated_bytes(half), WriteMode::CreateNew, u64::MAX).await.unwrap();
}

/// Mutation: a replaced or removed file goes on counting, or one that broke off does.
pub async fn quota_releases_replaced_and_removed_bytes(fixture: impl WorkspaceFixture) {
    let workspace = fixture.workspace();
    let nearly_all = QUOTA as usize / 10 * 9;
    for _ in 0..3 {
        workspace
            .write(&main_conversation(), &path("/shared/a"), repeated_bytes(nearly_all), WriteMode::Replace, u64::MAX)
            .await
            .unwrap();
    }
    workspace.remove(&main_conversation(), &path("/shared/a")).await.unwrap();
    let broken = repeated_bytes(nearly_all).chain(stream::iter([Err(io::Error::other("reset"))])).boxed();
    workspace.write(&main_conversation(), &path("/tmp/b"), broken, WriteMode::CreateNew, u64::MAX).await.unwrap_err();
    workspace
        .write(&main_conversation(), &path("/tmp/b"), repeated_bytes(nearly_all), WriteMode::CreateNew, u64::MAX)
        .await
        .unwrap();
    // By hand, behind our back.
    fs::remove_file(fixture.host_path(&main_conversation(), &path("/tmp/b"))).unwrap();
    workspace
        .write(&main_conversation(), &path("/shared/c"), repeated_bytes(nearly_all), WriteMode::CreateNew, u64::MAX)
        .await
        .unwrap();
}

/// Mutation: links are followed wherever they lead.
pub async fn read_outside_mount_is_refused(fixture: impl WorkspaceFixture) {
    let shared = plant_links(&fixture).await;
    for name in ["file-out", "dir-out/secret", "up-out/secret", "other/secret"] {
        let target = path(&format!("/shared/{name}"));
        let refused = fixture.workspace().read(&main_conversation(), &target).await.err();
        assert!(
            matches!(&refused, Some(WorkspaceError::Escapes(escaped)) if *escaped == target),
            "{name}: {refused:?}"
        );
    }
    let refused = fixture.workspace().list(&main_conversation(), &path("/shared/dir-out")).await;
    assert!(matches!(refused, Err(WorkspaceError::Escapes(_))), "{refused:?}");
    drop(shared);
}

/// Mutation: parents are resolved by their path and not beneath a handle.
pub async fn write_outside_mount_is_refused(fixture: impl WorkspaceFixture) {
    let outside = plant_links(&fixture).await;
    let before = fs::read_dir(outside.join("outside")).unwrap().count();
    for name in ["file-out", "dir-out/new", "dir-out/secret", "up-out/new", "dir-out/deep/new"] {
        let target = format!("/shared/{name}");
        for write in [replace(&fixture, &target, b"evil").await, create(&fixture, &target, b"evil").await] {
            assert!(matches!(write, Err(WorkspaceError::Escapes(_) | WorkspaceError::Exists(_))), "{name}: {write:?}");
        }
        let removed = fixture.workspace().remove(&main_conversation(), &path(&target)).await;
        assert!(name == "file-out" || matches!(removed, Err(WorkspaceError::Escapes(_))), "{name}: {removed:?}");
    }
    assert_eq!(fs::read(outside.join("outside/secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(outside.join("outside")).unwrap().count(), before);
}

/// Mutation: every link is refused, though people keep some.
pub async fn links_inside_are_followed(fixture: impl WorkspaceFixture) {
    create(&fixture, "/shared/real/a", b"inside").await.unwrap();
    let shared = fixture.host_path(&main_conversation(), &path("/shared"));
    create_symlink("real", &shared.join("link"));
    assert_eq!(read(&fixture, "/shared/link/a").await.unwrap(), b"inside");
    create(&fixture, "/shared/link/b", b"too").await.unwrap();
    assert_eq!(read(&fixture, "/shared/real/b").await.unwrap(), b"too");
    create_symlink("real/a", &shared.join("file-link"));
    replace(&fixture, "/shared/file-link", b"own").await.unwrap();
    assert_eq!(read(&fixture, "/shared/real/a").await.unwrap(), b"inside", "the link is replaced, not its target");
}

/// Mutation: a pipe is opened, and the open waits for a writer for ever.
pub async fn only_regular_files_are_opened(fixture: impl WorkspaceFixture) {
    create(&fixture, "/shared/a", b"").await.unwrap();
    let pipe = fixture.host_path(&main_conversation(), &path("/shared/pipe"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let workspace = fixture.workspace();
    let (here, path) = (main_conversation(), path("/shared/pipe"));
    let opened = tokio::time::timeout(Duration::from_secs(5), workspace.read(&here, &path)).await.unwrap();
    assert!(matches!(opened.err(), Some(WorkspaceError::NotAFile(_))));
    let written = tokio::time::timeout(Duration::from_secs(5), replace(&fixture, "/shared/pipe", b"x")).await.unwrap();
    assert!(matches!(written, Err(WorkspaceError::NotAFile(_))), "{written:?}");
}

/// Mutation: a directory is replaced by a file, or read as one.
pub async fn directories_are_not_files(fixture: impl WorkspaceFixture) {
    create(&fixture, "/shared/dir/a", b"a").await.unwrap();
    for name in ["/shared/dir", "/shared"] {
        assert!(matches!(read(&fixture, name).await, Err(WorkspaceError::NotAFile(_))), "{name}");
        let written = replace(&fixture, name, b"x").await;
        assert!(matches!(written, Err(WorkspaceError::NotAFile(_))), "{name}: {written:?}");
    }
    let listed = fixture.workspace().list(&main_conversation(), &path("/shared/dir/a")).await;
    assert!(matches!(&listed, Err(WorkspaceError::NotADirectory(at)) if *at == path("/shared/dir/a")), "{listed:?}");
    let beneath = create(&fixture, "/shared/dir/a/b", b"x").await;
    assert!(matches!(&beneath, Err(WorkspaceError::NotADirectory(at)) if *at == path("/shared/dir/a")), "{beneath:?}");
}

/// Mutation: two conversations are given one directory because their names are made plain.
pub async fn conversations_are_isolated(fixture: impl WorkspaceFixture) {
    let ids = ["web:a", "web:A", "web:a/b", "web:a.b", "web:a_b", "x:a", "web:.", "web:.."].map(conversation);
    for id in &ids {
        let content = stream::iter([Ok(Bytes::from(id.to_string()))]).boxed();
        let write = fixture.workspace().write(id, &path("/shared/who"), content, WriteMode::CreateNew, QUOTA).await;
        write.unwrap();
    }
    for id in &ids {
        let read = fixture.workspace().read(id, &path("/shared/who")).await.unwrap();
        assert_eq!(collect(read.content).await, id.to_string().as_bytes());
    }
}

/// Mutations: what the other conversation has is replaced; the quota of the new one doesn't count what it was given.
pub async fn rename_moves_all_and_replaces_nothing(fixture: impl WorkspaceFixture) {
    let workspace = fixture.workspace();
    let [group, supergroup, stranger] = ["telegram:-1", "telegram:-1001", "telegram:5"].map(conversation);
    let put = async |id: &ConversationId, name: &str, bytes: u64| {
        let content = stream::iter([Ok(Bytes::from(vec![7; usize::try_from(bytes).unwrap()]))]).boxed();
        workspace.write(id, &path(name), content, WriteMode::CreateNew, QUOTA).await
    };
    assert!(!workspace.rename_conversation(&group, &supergroup).await.unwrap(), "there is nothing yet");
    put(&group, "/shared/a/b.txt", QUOTA / 2).await.unwrap();
    put(&stranger, "/shared/own.txt", 1).await.unwrap();
    assert!(!workspace.rename_conversation(&group, &stranger).await.unwrap(), "another has files of its own");
    assert!(workspace.read(&stranger, &path("/shared/own.txt")).await.is_ok());
    assert!(workspace.rename_conversation(&group, &supergroup).await.unwrap());
    assert!(!workspace.rename_conversation(&group, &supergroup).await.unwrap(), "once");
    assert_eq!(workspace.read(&supergroup, &path("/shared/a/b.txt")).await.unwrap().bytes, QUOTA / 2);
    assert!(workspace.read(&group, &path("/shared/a/b.txt")).await.is_err());
    put(&supergroup, "/shared/c.txt", QUOTA / 2 + 1).await.unwrap_err();
    put(&group, "/shared/c.txt", QUOTA / 2 + 1).await.unwrap();
}

/// Mutation: files of a forgotten conversation stay, or another's go with them.
pub async fn removed_conversation_leaves_nothing(fixture: impl WorkspaceFixture) {
    let workspace = fixture.workspace();
    let [gone, other] = ["web:gone", "web:other"].map(|name| -> ConversationId { name.parse().unwrap() });
    let put = async |id: &ConversationId, name: &str, bytes: u64| {
        let content = stream::iter([Ok(Bytes::from(vec![7; usize::try_from(bytes).unwrap()]))]).boxed();
        workspace.write(id, &path(name), content, WriteMode::CreateNew, QUOTA).await
    };
    workspace.remove_conversation(&gone).await.unwrap();
    put(&gone, "/shared/a/b.txt", QUOTA / 2).await.unwrap();
    put(&gone, "/tmp/c.txt", 1).await.unwrap();
    put(&other, "/shared/own.txt", 1).await.unwrap();
    let linked = fixture.host_path(&other, &path("/shared"));
    create_symlink(linked.to_str().unwrap(), &fixture.host_path(&gone, &path("/shared")).join("link"));
    workspace.remove_conversation(&gone).await.unwrap();
    assert!(!fixture.host_path(&gone, &path("/shared")).exists() && !fixture.host_path(&gone, &path("/tmp")).exists());
    assert!(workspace.read(&gone, &path("/shared/a/b.txt")).await.is_err());
    assert!(workspace.read(&other, &path("/shared/own.txt")).await.is_ok(), "a link is removed, not its target");
    put(&gone, "/shared/a/b.txt", QUOTA / 2 + 1).await.unwrap();
}

/// Mutation: the order of the directory is given out, or a link is listed as what it points at.
pub async fn list_is_sorted_without_links(fixture: impl WorkspaceFixture) {
    for name in ["/shared/b", "/shared/c/x", "/shared/a", "/shared/B"] {
        create(&fixture, name, b"12345").await.unwrap();
    }
    create_symlink("a", &fixture.host_path(&main_conversation(), &path("/shared")).join("link"));
    let entries = fixture.workspace().list(&main_conversation(), &path("/shared")).await.unwrap();
    let shown: Vec<(String, WorkspaceEntryKind, u64)> =
        entries.iter().map(|entry| (entry.path.to_string(), entry.kind, entry.bytes)).collect();
    let file = |name: &str| (name.to_owned(), WorkspaceEntryKind::File, 5);
    let directory = ("/shared/c".to_owned(), WorkspaceEntryKind::Directory, 0);
    assert_eq!(shown, [file("/shared/B"), file("/shared/a"), file("/shared/b"), directory]);
    assert!(entries.iter().all(|entry| entry.modified_at.0 > 1_600_000_000_000), "{entries:?}");
}

/// Mutation: a conversation that has written nothing yet gets an error for its own mount.
pub async fn unused_mount_is_empty(fixture: impl WorkspaceFixture) {
    for mount in ["/shared", "/tmp"] {
        assert_eq!(list_paths(&fixture, mount).await, [""; 0], "{mount}");
    }
}

/// Mutation: a missing file reads as an empty one.
pub async fn missing_file_is_not_found(fixture: impl WorkspaceFixture) {
    for written in [false, true] {
        if written {
            create(&fixture, "/shared/other", b"").await.unwrap();
        }
        let target = path("/shared/missing/file");
        let workspace = fixture.workspace();
        for error in [
            workspace.read(&main_conversation(), &target).await.err(),
            workspace.list(&main_conversation(), &target).await.err(),
            workspace.remove(&main_conversation(), &target).await.err(),
        ] {
            assert!(matches!(&error, Some(WorkspaceError::NotFound(at)) if *at == target), "{error:?}");
        }
    }
}

/// Mutation: a directory is removed with all that lies in it.
pub async fn files_and_empty_directories_are_removed(fixture: impl WorkspaceFixture) {
    create(&fixture, "/shared/dir/a", b"a").await.unwrap();
    let workspace = fixture.workspace();
    assert!(matches!(
        workspace.remove(&main_conversation(), &path("/shared/dir")).await,
        Err(WorkspaceError::Failed { .. })
    ));
    assert_eq!(workspace.remove(&main_conversation(), &path("/shared/dir/a")).await.unwrap(), 1);
    assert_eq!(workspace.remove(&main_conversation(), &path("/shared/dir")).await.unwrap(), 0);
    assert_eq!(list_paths(&fixture, "/shared").await, [""; 0]);
}

/// Mutation: only the tools are told that the vault is read-only.
pub async fn vault_is_read_only(fixture: impl WorkspaceFixture) {
    let key = fixture.host_path(&main_conversation(), &path("/vault/key"));
    fs::create_dir_all(key.parent().unwrap()).unwrap();
    fs::write(&key, "secret").unwrap();
    for error in [
        create(&fixture, "/vault/new", b"x").await.err(),
        replace(&fixture, "/vault/key", b"x").await.err(),
        fixture.workspace().remove(&main_conversation(), &path("/vault/key")).await.err(),
        fixture.workspace().trash(&main_conversation(), &path("/vault/key"), batch(1), true).await.err(),
    ] {
        assert!(matches!(error, Some(WorkspaceError::ReadOnly(..))), "{error:?}");
    }
    assert_eq!(fs::read(&key).unwrap(), b"secret");
}

/// Mutations: the vault is read, listed or led to like any other mount; other mounts are read as a vault.
pub async fn vault_is_read_as_secrets_alone(fixture: impl WorkspaceFixture) {
    create(&fixture, "/tmp/public", b"public").await.unwrap();
    create(&fixture, "/shared/a", b"").await.unwrap();
    let vault = fixture.host_path(&main_conversation(), &path("/vault"));
    fs::create_dir_all(&vault).unwrap();
    for (name, content) in [("key", "top secret\n"), ("large", &"x".repeat(64 << 10)), ("larger", &"x".repeat(65_537))]
    {
        fs::write(vault.join(name), content).unwrap();
    }
    fs::write(vault.join("binary"), b"\xff").unwrap();
    create_symlink("../tmp/public", &vault.join("out"));
    create_symlink("../vault/key", &fixture.host_path(&main_conversation(), &path("/shared")).join("in"));
    let workspace = fixture.workspace();
    let secret = async |name: &str| workspace.read_secret(&main_conversation(), &path(name)).await;
    assert_eq!(secret("/vault/key").await.unwrap().expose_secret(), "top secret");
    assert_eq!(secret("/vault/large").await.unwrap().expose_secret().len(), 64 << 10);
    assert!(matches!(secret("/vault/larger").await, Err(WorkspaceError::TooLarge { limit: 65_536, .. })));
    assert!(matches!(secret("/vault/binary").await, Err(WorkspaceError::Failed { .. })));
    assert!(matches!(secret("/vault/missing").await, Err(WorkspaceError::NotFound(_))));
    assert!(matches!(secret("/vault/out").await, Err(WorkspaceError::Escapes(_))));
    assert!(matches!(secret("/tmp/public").await, Err(WorkspaceError::Escapes(_))));
    assert!(matches!(read(&fixture, "/vault/key").await, Err(WorkspaceError::Secret(_))));
    assert!(matches!(read(&fixture, "/shared/in").await, Err(WorkspaceError::Escapes(_))));
    for name in ["/vault", "/vault/key"] {
        let listed = workspace.list(&main_conversation(), &path(name)).await;
        assert!(matches!(listed, Err(WorkspaceError::Secret(_))), "{listed:?}");
    }
}

/// Mutation: the mount's own directory is removed when it is empty.
pub async fn mount_directory_is_kept(fixture: impl WorkspaceFixture) {
    create(&fixture, "/shared/a", b"").await.unwrap();
    fixture.workspace().remove(&main_conversation(), &path("/shared/a")).await.unwrap();
    assert!(fixture.workspace().remove(&main_conversation(), &path("/shared")).await.is_err());
    assert!(fixture.host_path(&main_conversation(), &path("/shared")).is_dir());
}

/// Mutation: names are normalised, cut or lowered, so that what was written isn't found under its name.
pub async fn names_are_kept_as_given(fixture: impl WorkspaceFixture) {
    let longest = format!("/shared/{}", "n".repeat(255));
    let given =
        ["/shared/e\u{301}", "/shared/é", "/shared/ имя с пробелом.txt", "/shared/-rf", "/shared/.hidden", &longest];
    for name in given {
        create(&fixture, name, name.as_bytes()).await.unwrap();
    }
    for name in given {
        assert_eq!(read(&fixture, name).await.unwrap(), name.as_bytes(), "{name}");
    }
    assert_eq!(list_paths(&fixture, "/shared").await.len(), given.len());
}

/// Counts the temporary files beneath a directory.
///
/// # Panics
/// When the directory can't be read.
pub fn count_temp_files(directory: &Path) -> usize {
    let mut found = 0;
    for entry in fs::read_dir(directory).unwrap() {
        // Directories and files may go while they are counted.
        let Ok(entry) = entry else { continue };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found += count_temp_files(&entry.path());
        } else if entry.file_name().to_string_lossy().ends_with(".part") {
            found += 1;
        }
    }
    found
}

/// Plants a file outside and links that lead to it; returns the directory above the mount.
async fn plant_links(fixture: &impl WorkspaceFixture) -> PathBuf {
    create(fixture, "/shared/a", b"").await.unwrap();
    let other = conversation("web:other");
    let secret = stream::iter([Ok(Bytes::from_static(b"secret"))]).boxed();
    fixture.workspace().write(&other, &path("/shared/secret"), secret, WriteMode::CreateNew, QUOTA).await.unwrap();
    let shared = fixture.host_path(&main_conversation(), &path("/shared"));
    let parent = shared.parent().unwrap().to_owned();
    fs::create_dir(parent.join("outside")).unwrap();
    fs::write(parent.join("outside/secret"), "secret").unwrap();
    create_symlink(parent.join("outside/secret").to_str().unwrap(), &shared.join("file-out"));
    create_symlink(parent.join("outside").to_str().unwrap(), &shared.join("dir-out"));
    create_symlink("../outside", &shared.join("up-out"));
    create_symlink(fixture.host_path(&other, &path("/shared")).to_str().unwrap(), &shared.join("other"));
    parent
}

fn create_symlink(target: &str, link: &Path) {
    std::os::unix::fs::symlink(target, link).unwrap();
}

async fn create(fixture: &impl WorkspaceFixture, name: &str, content: &[u8]) -> Result<u64, WorkspaceError> {
    write(fixture, name, content, WriteMode::CreateNew).await
}

async fn replace(fixture: &impl WorkspaceFixture, name: &str, content: &[u8]) -> Result<u64, WorkspaceError> {
    write(fixture, name, content, WriteMode::Replace).await
}

async fn write(
    fixture: &impl WorkspaceFixture,
    name: &str,
    content: &[u8],
    mode: WriteMode,
) -> Result<u64, WorkspaceError> {
    let chunks: Vec<io::Result<Bytes>> =
        content.chunks(70_001).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    fixture.workspace().write(&main_conversation(), &path(name), stream::iter(chunks).boxed(), mode, QUOTA).await
}

async fn read(fixture: &impl WorkspaceFixture, name: &str) -> Result<Vec<u8>, WorkspaceError> {
    Ok(collect(fixture.workspace().read(&main_conversation(), &path(name)).await?.content).await)
}

async fn collect(mut stream: ByteStream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(bytes) = stream.next().await {
        all.extend_from_slice(&bytes.unwrap());
    }
    all
}

async fn list_paths(fixture: &impl WorkspaceFixture, directory: &str) -> Vec<String> {
    let entries = fixture.workspace().list(&main_conversation(), &path(directory)).await.unwrap();
    entries.into_iter().map(|entry| entry.path.to_string()).collect()
}

fn repeated_bytes(length: usize) -> ByteStream {
    let chunks =
        (0..length).step_by(100_000).map(move |offset| Ok(Bytes::from(vec![1; (length - offset).min(100_000)])));
    stream::iter(chunks).boxed()
}

fn main_conversation() -> ConversationId {
    conversation("console:main")
}

fn conversation(id: &str) -> ConversationId {
    id.parse().unwrap()
}

fn path(text: &str) -> WorkspacePath {
    text.parse().unwrap()
}
