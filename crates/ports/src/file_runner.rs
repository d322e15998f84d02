//! What reads and changes files beneath the directory of a mount, and nothing outside it.

use std::{ffi::OsString, fs::File, io, path::Path, time::SystemTime};

use satchel_domain::path::Mount;

/// The mounts that one piece of work may open, and whether it may change them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileProfile {
    /// Reads `/shared` and `/tmp`.
    FileReadOnly,
    /// Reads and changes `/shared` and `/tmp`.
    FileReadWrite,
    /// Reads `/vault`.
    VaultRead,
}

impl FileProfile {
    /// Whether work with this profile may open the mount.
    #[must_use]
    pub fn allows(self, mount: Mount) -> bool {
        match self {
            Self::FileReadOnly | Self::FileReadWrite => matches!(mount, Mount::Shared | Mount::Tmp),
            Self::VaultRead => mount == Mount::Vault,
        }
    }

    /// Refuses a mount that the profile doesn't allow.
    ///
    /// # Errors
    /// An attempt to leave what is allowed.
    pub fn check(self, mount: Mount) -> io::Result<()> {
        match self.allows(mount) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{mount} is closed to {self:?}"))),
        }
    }
}

/// Who may access what is created in a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileAccess {
    /// Only its owner: Satchel's private data.
    Owner,
    /// As the umask allows: what Satchel shares.
    Umask,
}

impl FileAccess {
    /// The mode of a new directory, before the umask.
    #[must_use]
    pub fn directory_mode(self) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::Umask => 0o777,
        }
    }

    /// The mode of a new file, before the umask.
    #[must_use]
    pub fn file_mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Umask => 0o666,
        }
    }
}

/// The open directory of a mount.
#[derive(Debug)]
pub struct MountDirectory {
    /// Which mount it is.
    pub mount: Mount,
    /// A handle of the directory.
    pub directory: File,
    /// Who may access what is created in it.
    pub access: FileAccess,
}

/// What something in a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// What a file system knows of something in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    /// What it is.
    pub kind: FileKind,
    /// The size of a file in bytes.
    pub bytes: u64,
    /// When it was last changed.
    pub modified_at: SystemTime,
}

/// Whether a symbolic link at the end of a path stands for itself or for what it points at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkMode {
    /// For itself.
    Keep,
    /// For what it points at.
    Follow,
}

/// Does pieces of work on files, each on its own and beneath one directory.
///
/// # Contract
/// - Nothing outside the directory is read, changed, listed or described, whatever a path says and whatever links and
///   swaps happen meanwhile. An attempt is an error of the kind `PermissionDenied` without an error code of the system;
///   a mount that the profile doesn't allow is one too.
/// - Paths are relative to the directory and are taken as bytes; the empty path is the directory itself. Links are
///   followed as long as they stay beneath it.
/// - Work on one file never waits for another process: a pipe or device is an error or is opened without waiting.
/// - Every call blocks, and may be made on any thread.
#[cfg_attr(feature = "mocks", mockall::automock)]
pub trait FileRunner: Send + Sync {
    /// Starts work that reads, with any profile.
    ///
    /// # Errors
    /// When the profile doesn't allow the mount, or the work can't start.
    fn reader(&self, mount: MountDirectory, profile: FileProfile) -> io::Result<Box<dyn FileReader>>;

    /// Starts work that changes files, with the profile [`FileProfile::FileReadWrite`].
    ///
    /// # Errors
    /// When the profile doesn't allow the mount, or the work can't start.
    fn writer(&self, mount: MountDirectory) -> io::Result<Box<dyn FileWriter>>;
}

/// Work that reads: any number of lists, and one file.
#[cfg_attr(feature = "mocks", mockall::automock)]
pub trait FileReader: Send {
    /// Describes what is at a path.
    ///
    /// # Errors
    /// When there is nothing, or it can't be described.
    fn stat(&mut self, path: &Path, links: LinkMode) -> io::Result<FileStat>;

    /// Opens a file and describes it.
    ///
    /// # Errors
    /// When there is nothing, or it can't be opened.
    fn open(&mut self, path: &Path) -> io::Result<FileStat>;

    /// Reads on in the open file; fewer bytes than `buffer` has only at the end of the file.
    ///
    /// # Errors
    /// When no file is open, or the disk fails.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// The names in a directory with what each is, in no order.
    ///
    /// # Errors
    /// When it is not a directory, or can't be read.
    fn list(&mut self, path: &Path) -> io::Result<Vec<(OsString, FileKind)>>;
}

/// Work that changes files: one new file, and any number of changes to names.
#[cfg_attr(feature = "mocks", mockall::automock)]
pub trait FileWriter: Send {
    /// Describes what is at a path.
    ///
    /// # Errors
    /// When there is nothing, or it can't be described.
    fn stat(&mut self, path: &Path, links: LinkMode) -> io::Result<FileStat>;

    /// Creates a directory and its parents, each durable before the next; no error where they exist.
    ///
    /// # Errors
    /// When something else is in the way, or the disk fails.
    fn create_dirs(&mut self, path: &Path) -> io::Result<()>;

    /// Narrows the work to a directory, whose handle is kept: later paths count from it, wherever it is moved.
    ///
    /// # Errors
    /// When it is not a directory, or can't be opened.
    fn enter(&mut self, path: &Path) -> io::Result<()>;

    /// Creates the new file. The handle is for locks and questions about the disk; bytes go through [`Self::write`].
    ///
    /// # Errors
    /// When anything has that name, or the disk fails.
    fn create(&mut self, path: &Path) -> io::Result<File>;

    /// Appends all bytes to the new file.
    ///
    /// # Errors
    /// When no file was created, or the disk fails or is full.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Returns when the new file's bytes are on disk.
    ///
    /// # Errors
    /// When no file was created, or the disk fails.
    fn sync(&mut self) -> io::Result<()>;

    /// Gives a file a second name; never in place of anything.
    ///
    /// # Errors
    /// When anything has that name, or the file system has no hard links.
    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()>;

    /// Renames, in place of the file that has the name.
    ///
    /// # Errors
    /// When there is nothing to rename, or a directory has the name.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;

    /// Renames, never in place of anything.
    ///
    /// # Errors
    /// When anything has that name, or the file system can't rename so.
    fn rename_new(&mut self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file or a link.
    ///
    /// # Errors
    /// When there is none.
    fn remove_file(&mut self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// When there is none, or something is in it.
    fn remove_dir(&mut self, path: &Path) -> io::Result<()>;

    /// Returns when the names in a directory are on disk.
    ///
    /// # Errors
    /// When it is not a directory, or the disk fails.
    fn sync_dir(&mut self, path: &Path) -> io::Result<()>;
}
