//! Files on the disk of a self-hosted Bot API server: opened beneath its directory, never through a symbolic link.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    path::{Component, Path, PathBuf},
};

use futures::StreamExt;
use rustix::{
    fs::{Mode, OFlags, open as open_root, openat},
    io::Errno,
};
use satchel_ports::{FetchedFile, FileFetchError};
use tokio_util::io::ReaderStream;

use super::{not_configured_error, permanent_error, retryable_error};

/// Chunk size of a read.
const CHUNK_BYTES: usize = 64 * 1024;

/// Flags for every `open`: don't follow links, don't block on a pipe.
const OPEN_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK);

/// Opens a file at the absolute `path` that the server returned, which must be beneath `root`.
pub(super) async fn open_local(root: Option<&Path>, path: &Path) -> Result<FetchedFile, FileFetchError> {
    let Some(root) = root else {
        return Err(not_configured_error(
            "the Bot API server stores the file on its own disk",
            "set `telegram.local_files` to that directory",
        ));
    };
    let Some(names) = relative_components(root, path) else {
        return Err(not_configured_error(
            "the Bot API server stores the file where I have no access",
            "its path is outside `telegram.local_files`",
        ));
    };
    let root = root.to_owned();
    let result = tokio::task::spawn_blocking(move || open_beneath(&root, &names)).await;
    match result.map_err(|_| retryable_error("it could not be opened"))? {
        Ok((file, bytes)) => {
            let content = ReaderStream::with_capacity(tokio::fs::File::from_std(file), CHUNK_BYTES).boxed();
            Ok(FetchedFile::Bytes { bytes: Some(bytes), content })
        }
        Err(LocalOpenError::Root(error)) => {
            tracing::warn!(%error, "failed to open the directory `telegram.local_files`");
            Err(retryable_error("failed to open the Bot API server's directory"))
        }
        Err(LocalOpenError::File(error)) => Err(match error.kind() {
            io::ErrorKind::NotFound => retryable_error("the Bot API server no longer has the file"),
            io::ErrorKind::PermissionDenied => not_configured_error(
                "I have no permission to read the Bot API server's files",
                "give the user that runs Satchel read access to `telegram.local_files`",
            ),
            _ => permanent_error("the Bot API server's copy is not a regular file"),
        }),
    }
}

/// The components from `root` to `path`; `None` if it is not beneath `root` or contains `..`.
fn relative_components(root: &Path, path: &Path) -> Option<Vec<PathBuf>> {
    let rest = path.strip_prefix(root).ok()?;
    let names: Option<Vec<PathBuf>> = rest
        .components()
        .map(|component| match component {
            Component::Normal(name) => Some(PathBuf::from(name)),
            _ => None,
        })
        .collect();
    names.filter(|names| !names.is_empty())
}

enum LocalOpenError {
    Root(io::Error),
    File(io::Error),
}

/// Opens each directory relative to its parent, so that a directory that is swapped meanwhile can't lead outside.
fn open_beneath(root: &Path, names: &[PathBuf]) -> Result<(File, u64), LocalOpenError> {
    let directory_flags = OPEN_FLAGS.union(OFlags::DIRECTORY);
    // The root itself may be a link: the operator named it.
    let root_flags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);
    let mut parent = open_root(root, root_flags, Mode::empty()).map_err(|error| LocalOpenError::Root(error.into()))?;
    let file_error = |error: Errno| LocalOpenError::File(error.into());
    let (name, parents) =
        names.split_last().map_or((OsStr::new("."), names), |(name, parents)| (name.as_os_str(), parents));
    for directory in parents {
        parent = openat(&parent, directory.as_os_str(), directory_flags, Mode::empty()).map_err(file_error)?;
    }
    let file = File::from(openat(&parent, name, OPEN_FLAGS, Mode::empty()).map_err(file_error)?);
    let metadata = file.metadata().map_err(LocalOpenError::File)?;
    if !metadata.is_file() {
        return Err(LocalOpenError::File(io::ErrorKind::InvalidInput.into()));
    }
    Ok((file, metadata.len()))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, process::Command, time::Duration};

    use futures::TryStreamExt;

    use super::*;

    async fn read(root: Option<&Path>, path: &Path) -> Result<Vec<u8>, String> {
        let result =
            tokio::time::timeout(Duration::from_secs(5), open_local(root, path)).await.expect("opening never waits");
        match result.map_err(|error| error.to_string())? {
            FetchedFile::Bytes { bytes, content } => {
                let read: Vec<u8> = content.try_collect::<Vec<_>>().await.unwrap().concat();
                assert_eq!(bytes, Some(read.len() as u64));
                Ok(read)
            }
            FetchedFile::Stored(_) => Err("it is stored".to_owned()),
        }
    }

    #[tokio::test]
    async fn only_plain_files_beneath_the_root_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("secret");
        let root = dir.path().join("files");
        let documents = root.join("1:token/documents");
        std::fs::create_dir_all(&documents).unwrap();
        std::fs::write(&outside, "secret").unwrap();
        std::fs::write(documents.join("file_0.txt"), "hello").unwrap();
        std::fs::create_dir_all(dir.path().join("files-of-another")).unwrap();
        std::fs::write(dir.path().join("files-of-another/x"), "other").unwrap();
        symlink(&outside, documents.join("link")).unwrap();
        symlink(documents.join("file_0.txt"), documents.join("inner-link")).unwrap();
        symlink(dir.path(), root.join("up")).unwrap();
        symlink(&documents, root.join("inner-directory")).unwrap();
        assert!(Command::new("mkfifo").arg(documents.join("pipe")).status().unwrap().success());

        assert_eq!(read(Some(&root), &documents.join("file_0.txt")).await.unwrap(), b"hello");
        for attack in [
            outside.clone(),
            documents.join("../../../secret"),
            root.join("../secret"),
            documents.join("link"),
            documents.join("inner-link"),
            root.join("up/secret"),
            root.join("inner-directory/file_0.txt"),
            dir.path().join("files-of-another/x"),
            documents.clone(),
            documents.join("pipe"),
            root.clone(),
            "/dev/zero".into(),
            "/etc/passwd".into(),
        ] {
            let failed = read(Some(&root), &attack).await.expect_err("it lies elsewhere");
            assert!(failed.starts_with("refused: "), "{}: {failed}", attack.display());
            assert!(!failed.contains("1:token") && !failed.contains("secret"), "{failed}");
        }
        let gone = read(Some(&root), &documents.join("gone")).await.expect_err("it is gone");
        assert!(gone.starts_with("not fetched: "), "{gone}");
        // Configuration keys, which only the operator can change, are not shown to everyone.
        let nowhere = dir.path().join("nowhere");
        for (root, path) in [(&root, documents.join("link")), (&nowhere, nowhere.join("x"))] {
            match open_local(Some(root), &path).await.expect_err("it can't be opened") {
                FileFetchError::Permanent { reason } | FileFetchError::Retryable { reason } => {
                    assert!(!reason.contains("telegram."), "{reason}");
                }
                FileFetchError::NotConfigured { reason, .. } => panic!("{reason}"),
            }
        }
        let unknown = read(None, &documents.join("file_0.txt")).await.expect_err("nobody said where it may lie");
        assert!(unknown.contains("telegram.local_files"), "{unknown}");
    }
}
