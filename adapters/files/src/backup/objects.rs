//! Objects of a repository: `objects/ab/<sha256>`. One that has its name is whole, verified and on the disk.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use cap_std::fs::Dir;
use satchel_domain::Sha256;
use satchel_ports::FileAccess;
use sha2::Digest;

use crate::{directory, native_runner::NativeWriter, temp::TempFile};

pub(super) const OBJECTS_DIRECTORY: &str = "objects";

const BLOCK_BYTES: usize = 512 * 1024;

/// How many blocks may wait to be hashed.
const MAX_UNHASHED_BLOCKS: usize = 4;

/// Why an object could not be stored or read.
#[derive(Debug)]
pub(super) enum ObjectError {
    /// Its bytes could not be read.
    Source(io::Error),
    /// Its bytes are not those that its hash names.
    Damaged,
    /// They could not be written.
    Target(io::Error),
}

/// The objects of one repository.
#[derive(Debug)]
pub(super) struct ObjectStore {
    /// The directory of the repository.
    root: Dir,
}

impl ObjectStore {
    /// The objects of a repository, by its directory.
    pub(super) fn new(root: Dir) -> Self {
        Self { root }
    }

    /// The size of an object; `None` if there is none.
    pub(super) fn find(&self, sha256: &Sha256) -> io::Result<Option<u64>> {
        match self.root.symlink_metadata(object_path(sha256)) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores an object; its name is on the disk when [`Self::sync`] has returned.
    pub(super) fn put(
        &self,
        sha256: &Sha256,
        content: &mut dyn Read,
        written: &mut dyn FnMut(u64),
    ) -> Result<(), ObjectError> {
        let path = object_path(sha256);
        let shard = path.parent().unwrap_or(Path::new(OBJECTS_DIRECTORY));
        directory::ensure(&self.root, shard, FileAccess::Owner).map_err(ObjectError::Target)?;
        let mut temp = create_temp_file(&self.root).map_err(ObjectError::Target)?;
        let digest = copy_and_hash(content, |block| {
            temp.append(block)?;
            written(block.len() as u64);
            Ok(())
        })?;
        if digest != *sha256 {
            return Err(ObjectError::Damaged);
        }
        temp.sync().and_then(|()| temp.replace(&path)).map_err(ObjectError::Target)
    }

    /// Returns once the names of all objects are on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        let objects = self.root.open_dir(OBJECTS_DIRECTORY)?;
        for shard in objects.entries()? {
            directory::sync(&objects.open_dir(shard?.file_name())?)?;
        }
        // A process that was killed may have created them without that.
        directory::sync(&objects)?;
        directory::sync(&self.root)
    }

    pub(super) fn open_object(&self, sha256: &Sha256) -> io::Result<File> {
        Ok(self.root.open(object_path(sha256))?.into_std())
    }

    /// Takes its name from a damaged object, so that the next backup stores it anew where the data still has it.
    pub(super) fn remove(&self, sha256: &Sha256) -> io::Result<()> {
        self.root.remove_file(object_path(sha256))
    }

    /// Removes the objects that are not wanted, and returns how many bytes that freed.
    pub(super) fn retain(&self, is_wanted: impl Fn(&Sha256) -> bool) -> io::Result<u64> {
        let objects = self.root.open_dir(OBJECTS_DIRECTORY)?;
        let mut freed = 0;
        for shard in objects.entries()? {
            let shard = objects.open_dir(shard?.file_name())?;
            for entry in shard.entries()? {
                let entry = entry?;
                let sha256 = entry.file_name().to_str().and_then(|name| name.parse().ok());
                if sha256.is_some_and(|sha256| !is_wanted(&sha256)) {
                    freed += entry.metadata()?.len();
                    shard.remove_file(entry.file_name())?;
                }
            }
        }
        Ok(freed)
    }
}

/// Creates a file that only its owner can read in a directory, under a temporary name.
pub(super) fn create_temp_file(root: &Dir) -> io::Result<TempFile> {
    TempFile::create(Box::new(NativeWriter::new(root.try_clone()?, FileAccess::Owner)), Path::new(""))
}

/// Hashes what a reader returns.
pub(super) fn hash(content: &mut dyn Read) -> io::Result<Sha256> {
    copy_and_hash(content, |_| Ok(())).map_err(|error| match error {
        ObjectError::Source(error) | ObjectError::Target(error) => error,
        ObjectError::Damaged => io::ErrorKind::InvalidData.into(),
    })
}

/// Hands blocks over to `write` while the ones before are hashed on another thread.
pub(super) fn copy_and_hash(
    content: &mut dyn Read,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<Sha256, ObjectError> {
    thread::scope(|scope| {
        let (blocks, unhashed) = mpsc::sync_channel::<Vec<u8>>(MAX_UNHASHED_BLOCKS);
        let (recycle, recycled) = mpsc::channel();
        let hasher = scope.spawn(move || {
            let mut hasher = sha2::Sha256::new();
            for block in unhashed {
                hasher.update(&block);
                // The copy may be over.
                let _ = recycle.send(block);
            }
            Sha256(hasher.finalize().into())
        });
        loop {
            let mut block: Vec<u8> = recycled.try_recv().unwrap_or_else(|_| Vec::with_capacity(BLOCK_BYTES));
            block.clear();
            let read = content.take(BLOCK_BYTES as u64).read_to_end(&mut block).map_err(ObjectError::Source)?;
            if read == 0 {
                break;
            }
            write(&block).map_err(ObjectError::Target)?;
            // A hasher that panicked is noticed when it is joined.
            let _ = blocks.send(block);
        }
        drop(blocks);
        hasher.join().map_err(|_| ObjectError::Target(io::Error::other("the thread that hashes panicked")))
    })
}

/// The path of an object in its repository.
pub(super) fn object_path(sha256: &Sha256) -> PathBuf {
    Path::new(OBJECTS_DIRECTORY).join(format!("{:02x}", sha256.0[0])).join(sha256.to_string())
}
