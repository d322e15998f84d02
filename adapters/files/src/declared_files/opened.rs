//! An opened file: checked, hashed, and read through its handle, whatever becomes of its name.

use std::{
    ffi::OsStr,
    fmt,
    fs::{File, Metadata},
    io::{self, Read, Seek},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use rustix::fs::{Mode, OFlags, openat};
use satchel_blob_content::detect;
use satchel_domain::{Filename, Sha256};
use satchel_ports::{BlobHint, ByteStream, DeclaredFileError, OpenedFile, ReadableFile};
use sha2::{Digest, Sha256 as Hasher};

use super::{DeclaredRoot, downloads::DownloadedFile, io_error, own_file_error};

const CHUNK_BYTES: usize = 64 << 10;

/// No link is followed, since the path is free of them. A pipe that is swapped in makes nobody wait.
const FILE_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK);

/// Passing through a directory needs no permission to list it.
#[cfg(target_os = "linux")]
const DIRECTORY_FLAGS: OFlags = FILE_FLAGS.union(OFlags::DIRECTORY).union(OFlags::PATH);
#[cfg(not(target_os = "linux"))]
const DIRECTORY_FLAGS: OFlags = FILE_FLAGS.union(OFlags::DIRECTORY);

/// The bytes of a file.
pub(super) struct HeldFile {
    file: Arc<File>,
    path: PathBuf,
    /// What keeps a temporary file.
    _download: Option<DownloadedFile>,
}

/// Opens a file beneath a root.
pub(super) fn open(root: &DeclaredRoot, path: &Path) -> Result<OpenedFile, DeclaredFileError> {
    let relative = root.relative_path(path)?;
    if relative.as_os_str().is_empty() {
        return Err(DeclaredFileError::NotRegular(path.to_owned()));
    }
    let (file, metadata) = match open_beneath(root, &relative, path) {
        Ok(opened) => opened,
        Err(error) => {
            let is_other = root.directory.symlink_metadata(&relative).is_ok_and(|found| !found.is_file());
            return Err(if is_other && matches!(error, DeclaredFileError::Io { .. }) {
                DeclaredFileError::NotRegular(path.to_owned())
            } else {
                error
            });
        }
    };
    if !metadata.is_file() {
        return Err(DeclaredFileError::NotRegular(path.to_owned()));
    }
    let name = relative.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let hint = BlobHint { filename: Some(Filename::from_untrusted(&name)), ..BlobHint::default() };
    let (bytes, sha256) = digest(&file).map_err(|error| io_error("read", path, error))?;
    check(file, root.canonical.join(relative), bytes, sha256, &hint, None)
}

/// Opens a file by a path without links, one directory after the other, each of which is compared with what is excluded.
/// What is swapped between the check of the path and this is thus neither followed nor overlooked.
fn open_beneath(root: &DeclaredRoot, relative: &Path, given: &Path) -> Result<(File, Metadata), DeclaredFileError> {
    let open_entry = |directory: &File, name: &OsStr, flags: OFlags| {
        let opened = openat(directory, name, flags, Mode::empty());
        let file = File::from(opened.map_err(|error| io_error("open", given, error.into()))?);
        let metadata = file.metadata().map_err(|error| io_error("read", given, error))?;
        match root.exclusions.is_excluded(&metadata) {
            true => Err(own_file_error(given)),
            false => Ok((file, metadata)),
        }
    };
    let start = root.directory.try_clone().map_err(|error| io_error("open", given, error))?;
    let mut directory = start.into_std_file();
    for name in relative.parent().into_iter().flatten() {
        (directory, _) = open_entry(&directory, name, DIRECTORY_FLAGS)?;
    }
    open_entry(&directory, relative.file_name().unwrap_or_default(), FILE_FLAGS)
}

/// Detects the type of a file whose digest is known.
pub(super) fn check(
    mut file: File,
    path: PathBuf,
    bytes: u64,
    sha256: Sha256,
    hint: &BlobHint,
    download: Option<DownloadedFile>,
) -> Result<OpenedFile, DeclaredFileError> {
    let detected = detect::detect_content(&mut file, hint).map_err(|error| io_error("read", &path, error))?;
    let content = Arc::new(HeldFile { file: Arc::new(file), path, _download: download });
    Ok(OpenedFile { mime: detected.0, bytes, sha256, media: detected.1, content })
}

fn digest(mut file: &File) -> io::Result<(u64, Sha256)> {
    file.rewind()?;
    let mut hasher = Hasher::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = 0;
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok((bytes, Sha256(hasher.finalize().into()))),
            length => {
                hasher.update(&chunk[..length]);
                bytes += length as u64;
            }
        }
    }
}

impl fmt::Debug for HeldFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ReadableFile for HeldFile {
    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn read(&self) -> ByteStream {
        let chunks = stream::try_unfold((Arc::clone(&self.file), 0_u64), |(file, offset)| async move {
            let reader = Arc::clone(&file);
            let chunk = tokio::task::spawn_blocking(move || read_chunk(&reader, offset));
            let chunk = chunk.await.map_err(io::Error::other)??;
            let next = offset + chunk.len() as u64;
            Ok((!chunk.is_empty()).then_some((chunk, (file, next))))
        });
        chunks.boxed()
    }
}

fn read_chunk(file: &File, offset: u64) -> io::Result<Bytes> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let length = file.read_at(&mut chunk, offset)?;
    chunk.truncate(length);
    Ok(chunk.into())
}
