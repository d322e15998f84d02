//! The contract of `DeclaredFiles` on a real disk.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use satchel_ports::{BlobHint, ByteStream, DeclaredFileError, DeclaredFiles};
use tempfile::TempDir;

use super::{DirectoryDeclaredFiles, ExcludedPaths, OwnDirectory};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x03\x08\x06\0\0\0";

/// A root with files, beside a secret that nothing in it may reach.
struct DeclaredHarness {
    home: TempDir,
    files: DirectoryDeclaredFiles,
}

impl DeclaredHarness {
    fn new() -> Self {
        Self::with_quota(1_000)
    }

    fn with_quota(quota: u64) -> Self {
        Self::with_excluded(quota, |_| ExcludedPaths::default())
    }

    /// The root holds the configuration, the data and the workspace that all conversations share.
    fn with_own_files() -> Self {
        let harness = Self::with_excluded(1_000, |root| ExcludedPaths {
            own_directories: vec![OwnDirectory { path: root.join("satchel-data"), is_own: |name| name == "web-token" }],
            paths: vec![root.join("satchel.yaml"), root.join("shared")],
        });
        for path in [
            "satchel.yaml",
            "satchel.yaml.bak",
            "satchel-data/web-token",
            "satchel-data/workspaces/ann/shared/holiday.png",
            "shared/theirs.png",
            ".env",
            ".cache/e.png",
        ] {
            harness.write(path);
        }
        harness
    }

    fn with_excluded(quota: u64, excluded: impl FnOnce(&Path) -> ExcludedPaths) -> Self {
        let home = TempDir::new().unwrap();
        for (path, content) in [
            ("root/a.png", PNG),
            ("root/b.txt", b"text".as_slice()),
            ("root/sub/c.png", PNG),
            ("root/sub/deep/d.png", PNG),
            ("outside/secret.txt", b"secret"),
        ] {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let excluded = excluded(&home.path().join("root"));
        let files = DirectoryDeclaredFiles::open(&home.path().join("downloads"), quota, excluded).unwrap();
        Self { home, files }
    }

    /// Writes a picture beneath the root.
    fn write(&self, path: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, PNG).unwrap();
    }

    fn root(&self) -> PathBuf {
        self.home.path().join("root")
    }

    async fn list(&self, directory: &str, is_recursive: bool) -> Vec<String> {
        let files = self.files.list(&self.root(), directory, is_recursive).await.unwrap();
        files.into_iter().map(|file| file.path).collect()
    }

    async fn open_error(&self, path: impl AsRef<Path>) -> DeclaredFileError {
        self.files.open(&self.root(), path.as_ref()).await.expect_err("it must not be opened")
    }

    fn temporary_files(&self) -> usize {
        fs::read_dir(self.home.path().join("downloads")).unwrap().count()
    }
}

fn stream_of(chunks: &[&'static [u8]]) -> ByteStream {
    stream::iter(chunks.iter().map(|chunk| Ok(Bytes::from_static(chunk))).collect::<Vec<_>>()).boxed()
}

async fn read(content: ByteStream) -> Vec<u8> {
    content
        .try_fold(Vec::new(), async |mut all, chunk| {
            all.extend_from_slice(&chunk);
            Ok(all)
        })
        .await
        .unwrap()
}

#[tokio::test]
async fn listing_is_sorted_and_stays_in_its_directory() {
    let harness = DeclaredHarness::new();
    assert_eq!(harness.list("", false).await, ["a.png", "b.txt"]);
    assert_eq!(harness.list("", true).await, ["a.png", "b.txt", "sub/c.png", "sub/deep/d.png"]);
    assert_eq!(harness.list("sub", false).await, ["sub/c.png"]);
    assert_eq!(harness.list("sub", true).await, ["sub/c.png", "sub/deep/d.png"]);
    assert!(harness.list("missing", true).await.is_empty());
}

#[tokio::test]
async fn listing_leaves_out_links_that_lead_out() {
    let harness = DeclaredHarness::new();
    let root = harness.root();
    symlink("../outside/secret.txt", root.join("out.txt")).unwrap();
    symlink(harness.home.path().join("outside"), root.join("outside")).unwrap();
    symlink("sub/c.png", root.join("in.png")).unwrap();
    symlink(".", root.join("loop")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), rustix::fs::Mode::RUSR).unwrap();
    assert_eq!(harness.list("", true).await, ["a.png", "b.txt", "in.png", "sub/c.png", "sub/deep/d.png"]);
    let files = harness.files.list(&root, "", false).await.unwrap();
    let linked = files.iter().find(|file| file.path == "in.png").unwrap();
    assert_eq!(linked.canonical, root.canonicalize().unwrap().join("sub/c.png"));
    symlink(root.join("sub"), root.join("absolute")).unwrap();
    assert_eq!(harness.list("absolute", true).await, ["absolute/c.png", "absolute/deep/d.png"], "a link that is named");
    let error = harness.files.list(&root, "outside", true).await.unwrap_err();
    assert!(matches!(error, DeclaredFileError::Outside { .. }), "{error}");
}

#[tokio::test]
async fn file_is_opened_with_detected_type_and_digest() {
    let harness = DeclaredHarness::new();
    for path in [PathBuf::from("a.png"), PathBuf::from("./sub/../a.png"), harness.root().join("a.png")] {
        let opened = harness.files.open(&harness.root(), &path).await.unwrap();
        assert_eq!((opened.mime.as_str(), opened.bytes), ("image/png", PNG.len() as u64));
        assert_eq!((opened.media.width, opened.media.height), (Some(2), Some(3)));
        assert_eq!(read(opened.content.read()).await, PNG);
        assert_eq!(read(opened.content.read()).await, PNG, "it can be read again");
        assert_eq!(opened.content.path().unwrap(), harness.root().canonicalize().unwrap().join("a.png"));
    }
}

#[tokio::test]
async fn paths_and_links_that_lead_out_are_refused() {
    let harness = DeclaredHarness::new();
    let root = harness.root();
    symlink("../outside/secret.txt", root.join("relative")).unwrap();
    symlink(harness.home.path().join("outside/secret.txt"), root.join("absolute")).unwrap();
    symlink("../outside", root.join("directory")).unwrap();
    symlink("relative", root.join("chain")).unwrap();
    for path in [
        "../outside/secret.txt",
        "relative",
        "absolute",
        "directory/secret.txt",
        "chain",
        "/etc/passwd",
        "sub/../../outside/secret.txt",
        "/proc/self/environ",
        "../outside/missing.txt",
    ] {
        let error = harness.open_error(path).await;
        assert!(matches!(error, DeclaredFileError::Outside { .. }), "{path}: {error}");
    }
}

#[tokio::test]
async fn root_that_is_a_link_is_followed() {
    let harness = DeclaredHarness::new();
    let link = harness.home.path().join("link");
    symlink(harness.root(), &link).unwrap();
    let opened = harness.files.open(&link, Path::new("a.png")).await.unwrap();
    assert_eq!(opened.content.path().unwrap(), harness.root().canonicalize().unwrap().join("a.png"));
    assert_eq!(harness.files.open(&link, &link.join("a.png")).await.unwrap().mime, "image/png");
}

#[tokio::test]
async fn only_regular_files_are_opened() {
    let harness = DeclaredHarness::new();
    let pipe = harness.root().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    for path in ["pipe", "sub", ".", ""] {
        let error = harness.open_error(path).await;
        assert!(matches!(error, DeclaredFileError::NotRegular(_)), "{path:?}: {error}");
    }
    assert!(matches!(harness.open_error("missing").await, DeclaredFileError::Missing(_)));
    assert!(matches!(harness.open_error("a.png/x").await, DeclaredFileError::Missing(_)));
}

/// The check looks at one file. A link that replaces it in between leads to nothing that the path may not name.
async fn assert_swapped_link_is_not_followed(harness: &DeclaredHarness, secret: PathBuf) {
    let root = harness.root();
    let (target, spare) = (root.join("b.txt"), root.join("spare"));
    let is_done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let swapping = {
        let is_done = std::sync::Arc::clone(&is_done);
        std::thread::spawn(move || {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                symlink(&secret, &spare).unwrap();
                fs::rename(&spare, &target).unwrap();
                fs::write(&spare, "text").unwrap();
                fs::rename(&spare, &target).unwrap();
            }
        })
    };
    for _ in 0..2_000 {
        if let Ok(opened) = harness.files.open(&root, Path::new("b.txt")).await {
            assert_ne!(read(opened.content.read()).await, b"secret");
        }
    }
    is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    swapping.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swapped_link_leads_nowhere() {
    let harness = DeclaredHarness::new();
    let secret = harness.home.path().join("outside/secret.txt");
    assert_swapped_link_is_not_followed(&harness, secret).await;
}

/// Nothing beneath the root stops such a link, so what it leads to has to be looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swapped_link_leads_into_no_excluded_directory() {
    let harness = DeclaredHarness::with_own_files();
    let secret = harness.root().join("satchel-data/secret.txt");
    fs::write(&secret, "secret").unwrap();
    assert_swapped_link_is_not_followed(&harness, secret).await;
}

#[tokio::test]
async fn own_files_are_refused_however_named() {
    let harness = DeclaredHarness::with_own_files();
    let root = harness.root();
    symlink("satchel-data/web-token", root.join("token")).unwrap();
    symlink(root.join("satchel-data"), root.join("pictures")).unwrap();
    symlink("pictures/workspaces/ann", root.join("chain")).unwrap();
    symlink(".env", root.join("env")).unwrap();
    fs::hard_link(root.join("satchel-data/web-token"), root.join("sub/second-name")).unwrap();
    fs::hard_link(root.join("satchel.yaml"), root.join("sub/settings")).unwrap();
    let absolute = |path: &str| root.join(path).display().to_string();
    for path in [
        "satchel-data/web-token".to_owned(),
        "satchel-data/workspaces/ann/shared/holiday.png".to_owned(),
        "sub/../satchel-data/web-token".to_owned(),
        "./satchel-data//web-token".to_owned(),
        "token".to_owned(),
        "pictures/web-token".to_owned(),
        "chain/shared/holiday.png".to_owned(),
        "shared/theirs.png".to_owned(),
        "satchel.yaml".to_owned(),
        "satchel.yaml.bak".to_owned(),
        "sub/second-name".to_owned(),
        "sub/settings".to_owned(),
        ".env".to_owned(),
        "env".to_owned(),
        ".cache/e.png".to_owned(),
        "sub/../.cache/e.png".to_owned(),
        absolute("satchel-data/web-token"),
        absolute("satchel.yaml"),
        absolute(".env"),
        format!("/proc/self/root{}", absolute("satchel-data/web-token")),
    ] {
        let error = harness.open_error(&path).await;
        assert!(matches!(error, DeclaredFileError::Excluded { .. }), "{path}: {error}");
    }
    assert_eq!(harness.files.open(&root, Path::new("sub/c.png")).await.unwrap().mime, "image/png");
    let error = harness.open_error("satchel-data/web-token").await.to_string();
    assert_eq!(error, "satchel-data/web-token is not allowed: Satchel's data and configuration can't be attached");
}

/// An error that says what is missing would tell which files there are.
#[tokio::test]
async fn missing_own_files_are_refused_like_existing_ones() {
    let harness = DeclaredHarness::with_own_files();
    for path in ["satchel-data/none", "satchel-data/blobs/ab/cd", "shared/none.png", "satchel.yaml.old", ".none/x"] {
        let error = harness.open_error(path).await;
        assert!(matches!(error, DeclaredFileError::Excluded { .. }), "{path}: {error}");
    }
    assert!(matches!(harness.open_error("satchel-dat").await, DeclaredFileError::Missing(_)));
}

#[tokio::test]
async fn listing_leaves_out_own_and_hidden_files() {
    let harness = DeclaredHarness::with_own_files();
    let root = harness.root();
    symlink("satchel-data/workspaces/ann/shared/holiday.png", root.join("link.png")).unwrap();
    symlink(".cache/e.png", root.join("shown.png")).unwrap();
    symlink("a.png", root.join(".hidden.png")).unwrap();
    symlink("satchel-data", root.join("pictures")).unwrap();
    fs::hard_link(root.join("satchel-data/web-token"), root.join("sub/second-name.png")).unwrap();
    fs::hard_link(root.join("satchel.yaml"), root.join("sub/settings.png")).unwrap();
    assert_eq!(harness.list("", true).await, ["a.png", "b.txt", "sub/c.png", "sub/deep/d.png"]);
    for directory in ["satchel-data", "satchel-data/workspaces", "pictures", "shared", ".cache"] {
        let error = harness.files.list(&root, directory, true).await.expect_err(directory);
        assert!(matches!(error, DeclaredFileError::Excluded { .. }), "{directory}: {error}");
    }
}

/// As in a container with one volume, which holds `satchel.yaml` and the data.
#[tokio::test]
async fn root_in_data_directory_loses_own_entries() {
    let harness = DeclaredHarness::with_excluded(1_000, |root| ExcludedPaths {
        own_directories: vec![OwnDirectory {
            path: root.to_owned(),
            is_own: |name| ["blobs", "web-token"].contains(&name),
        }],
        paths: Vec::new(),
    });
    for path in ["blobs/ab/x.png", "web-token"] {
        harness.write(path);
        assert!(matches!(harness.open_error(path).await, DeclaredFileError::Excluded { .. }), "{path}");
    }
    assert_eq!(harness.list("", true).await, ["a.png", "b.txt", "sub/c.png", "sub/deep/d.png"]);
    assert_eq!(harness.files.open(&harness.root(), Path::new("a.png")).await.unwrap().mime, "image/png");
    let error = harness.files.open(&harness.root().join("blobs"), Path::new("ab/x.png")).await.unwrap_err();
    assert!(matches!(error, DeclaredFileError::Excluded { .. }), "a root in an own entry has nothing: {error}");
}

#[tokio::test]
async fn stored_file_lives_as_long_as_its_handle() {
    let harness = DeclaredHarness::new();
    let stored = harness.files.store(stream_of(&[b"\x89PNG\r\n", b"\x1a\n rest"]), &BlobHint::default()).await.unwrap();
    assert_eq!((stored.mime.as_str(), stored.bytes, harness.temporary_files()), ("image/png", 13, 1));
    let copy = stored.clone();
    drop(stored);
    assert_eq!(read(copy.content.read()).await, fs::read(copy.content.path().unwrap()).unwrap());
    drop(copy);
    assert_eq!(harness.temporary_files(), 0);
}

#[tokio::test]
async fn failed_and_cancelled_downloads_leave_nothing() {
    let harness = DeclaredHarness::new();
    let broken = stream::iter([Ok(Bytes::from_static(b"ab")), Err(io::Error::other("cut off"))]).boxed();
    let error = harness.files.store(broken, &BlobHint::default()).await.unwrap_err();
    assert!(matches!(&error, DeclaredFileError::Source(source) if source.to_string() == "cut off"), "{error}");
    assert_eq!(harness.temporary_files(), 0);
    let endless = stream::iter([Ok(Bytes::from_static(b"ab"))]).chain(stream::pending()).boxed();
    {
        let hint = BlobHint::default();
        let storing = harness.files.store(endless, &hint);
        tokio::pin!(storing);
        while harness.temporary_files() == 0 {
            assert!(storing.as_mut().now_or_never().is_none());
            tokio::task::yield_now().await;
        }
    }
    // The thread that writes the last chunk ends by itself.
    while harness.temporary_files() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn full_quota_is_an_error_and_comes_back() {
    let harness = DeclaredHarness::with_quota(10);
    let first = harness.files.store(stream_of(&[b"123456"]), &BlobHint::default()).await.unwrap();
    let error = harness.files.store(stream_of(&[b"123", b"456"]), &BlobHint::default()).await.unwrap_err();
    assert!(matches!(error, DeclaredFileError::QuotaExceeded { limit: 10 }), "{error}");
    assert_eq!(harness.temporary_files(), 1);
    drop(first);
    let second = harness.files.store(stream_of(&[b"1234567890"]), &BlobHint::default()).await.unwrap();
    assert_eq!(second.bytes, 10);
}

#[tokio::test]
async fn next_start_removes_what_a_dead_process_left() {
    let harness = DeclaredHarness::new();
    let downloads = harness.home.path().join("downloads");
    fs::write(downloads.join(".satchel-1-1.part"), b"old").unwrap();
    let alive = harness.files.store(stream_of(&[b"new"]), &BlobHint::default()).await.unwrap();
    let _next = DirectoryDeclaredFiles::open(&downloads, 10, ExcludedPaths::default()).unwrap();
    assert_eq!(harness.temporary_files(), 1);
    assert_eq!(read(alive.content.read()).await, b"new");
}
