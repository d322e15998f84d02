//! Opens files that the person named: regular files only, without blocking on pipes.

use std::{
    io,
    path::{Path, PathBuf},
};

use tokio::fs::{File, OpenOptions};

/// Why a named file can't be opened, in words for the person.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OpenFileError {
    #[error("there is no such file")]
    NotFound,
    #[error("its path isn't UTF-8; rename the file")]
    NotUtf8,
    #[error("it is a directory; only files can be attached")]
    Directory,
    #[error("it is a pipe or a device; only regular files can be attached")]
    NotRegular,
    #[error("you have no permission to read it")]
    Forbidden,
    #[error("failed to read it: {0}")]
    Unreadable(String),
}

impl From<io::Error> for OpenFileError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::NotFound,
            io::ErrorKind::PermissionDenied => Self::Forbidden,
            io::ErrorKind::IsADirectory => Self::Directory,
            _ => Self::Unreadable(error.to_string()),
        }
    }
}

/// Opens a regular file and returns it with its size.
pub(crate) async fn open_regular_file(path: &Path) -> Result<(File, u64), OpenFileError> {
    let mut options = OpenOptions::new();
    options.read(true);
    // Opening a pipe without a writer would block forever. The type is checked after opening, because the path could
    // lead to another file after an earlier check.
    #[cfg(unix)]
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path).await.map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::NXIO.raw_os_error() => OpenFileError::NotRegular,
        // A path with replacement characters doesn't exist, although the file itself may.
        _ if error.kind() == io::ErrorKind::NotFound && path.to_string_lossy().contains('\u{FFFD}') => {
            OpenFileError::NotUtf8
        }
        _ => error.into(),
    })?;
    let metadata = file.metadata().await?;
    match metadata.file_type() {
        kind if kind.is_dir() => Err(OpenFileError::Directory),
        kind if !kind.is_file() => Err(OpenFileError::NotRegular),
        _ => Ok((file, metadata.len())),
    }
}

/// Returns the absolute path, relative to the current directory if needed.
pub(crate) fn to_absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::{process::Command, time::Duration};

    use super::*;

    #[tokio::test]
    async fn only_regular_files_open_and_nothing_hangs() {
        let dir = tempfile::tempdir().unwrap();
        let (file, empty, pipe) = (dir.path().join("a.txt"), dir.path().join("empty"), dir.path().join("pipe"));
        std::fs::write(&file, b"12345").unwrap();
        std::fs::write(&empty, b"").unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let cases = [
            (file.clone(), Ok(5)),
            (empty, Ok(0)),
            (dir.path().to_owned(), Err(OpenFileError::Directory)),
            (pipe, Err(OpenFileError::NotRegular)),
            ("/dev/zero".into(), Err(OpenFileError::NotRegular)),
            (dir.path().join("gone"), Err(OpenFileError::NotFound)),
            (dir.path().join("\u{FFFD}.txt"), Err(OpenFileError::NotUtf8)),
            (file.join("below"), Err(OpenFileError::NotFound)),
        ];
        for (path, expected) in cases {
            let opened = tokio::time::timeout(Duration::from_secs(5), open_regular_file(&path)).await;
            let opened = opened.unwrap_or_else(|_| hung(&path));
            assert_eq!(opened.map(|(_, bytes)| bytes), expected, "{}", path.display());
        }
    }

    fn hung(path: &Path) -> Result<(File, u64), OpenFileError> {
        Err(OpenFileError::Unreadable(format!("opening {} hung", path.display())))
    }
}
