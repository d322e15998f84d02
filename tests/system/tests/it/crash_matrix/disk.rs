//! The files on disk after the last process has exited, independent of the ledger's records.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use satchel_domain::Sha256;
use sha2::Digest;

/// The files of a data directory.
#[derive(Debug, Default)]
pub(crate) struct DiskSnapshot {
    /// The files of the conversations' workspaces, by their path beneath the directory of all workspaces.
    pub(crate) workspaces: BTreeMap<String, Vec<u8>>,
    /// The digests of all bytes in the store of blobs.
    pub(crate) blobs: BTreeSet<Sha256>,
}

impl DiskSnapshot {
    /// Opens and reads all of them.
    pub(crate) fn read(data: &Path) -> Self {
        let digest = |bytes: &Vec<u8>| Sha256(sha2::Sha256::digest(bytes).into());
        Self {
            workspaces: read_files(&data.join("workspaces")),
            blobs: read_files(&data.join("blobs")).values().map(digest).collect(),
        }
    }

    /// The bytes of the files of this name, in whichever workspace.
    pub(crate) fn saved_copies(&self, name: &str) -> Vec<&[u8]> {
        let named = self.workspaces.iter().filter(|(path, _)| path.rsplit('/').next() == Some(name));
        named.map(|(_, bytes)| bytes.as_slice()).collect()
    }
}

/// All files beneath a directory, by their path in it. One that is gone by the time it is opened was not there.
fn read_files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(directory) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                directories.push(path);
            } else if let Ok(bytes) = fs::read(&path) {
                let below = path.strip_prefix(root).expect("it lies beneath the root").display().to_string();
                found.insert(below, bytes);
            }
        }
    }
    found
}
