//! Where the mounts of a conversation lie on the disk.

use std::{
    collections::HashMap,
    fmt::Write,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use cap_std::fs::Dir;
use satchel_domain::{ConversationId, Sha256, WorkspacePath, path::Mount};
use satchel_ports::WorkspaceError;
use sha2::Digest;

use super::{failure, usage::Usage};
use crate::{
    OpenError, directory,
    modes::{self, Audience},
};

/// The longest name that is written out; a longer one is a digest.
const LONGEST: usize = 200;

/// The root of all workspaces.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) root: Dir,
    path: PathBuf,
    pub(super) shared: Option<(Dir, PathBuf)>,
    pub(super) quota: u64,
    usages: Mutex<HashMap<String, Arc<Mutex<Usage>>>>,
}

impl Place {
    pub(super) fn open(root: &Path, shared: Option<&Path>, quota: u64) -> Result<Self, OpenError> {
        let shared = match shared {
            Some(path) => Some((directory::open_root(path, Audience::Umask)?, path.to_owned())),
            None => None,
        };
        let path = root.to_owned();
        let root = directory::open_root(root, Audience::Owner)?;
        // What earlier versions left open beneath it is closed in the background: nobody else reaches it any more.
        modes::close_directory(&root, &path);
        Ok(Self { root, path, shared, quota, usages: Mutex::default() })
    }

    pub(super) fn host_directory(&self, conversation: &ConversationId, mount: Mount) -> PathBuf {
        match &self.shared {
            Some((_, path)) if mount == Mount::Shared => path.clone(),
            _ => self.path.join(directory_name(conversation)).join(mount.name()),
        }
    }

    /// Opens the mount of a path.
    pub(super) fn mount(&self, conversation: &ConversationId, path: &WorkspacePath) -> Result<Dir, WorkspaceError> {
        match &self.shared {
            Some((shared, _)) if path.mount() == Mount::Shared => shared.try_clone(),
            _ => self.root.open_dir(Self::below_root(conversation, path.mount())),
        }
        .map_err(|error| failure(path, error))
    }

    /// Opens the mount of a path, made when it is missing.
    pub(super) fn ensure_mount(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
    ) -> Result<Dir, WorkspaceError> {
        match &self.shared {
            Some((shared, _)) if path.mount() == Mount::Shared => shared.try_clone(),
            _ => directory::ensure(&self.root, &Self::below_root(conversation, path.mount()), Audience::Owner),
        }
        .map_err(|error| failure(path, error))
    }

    /// For whom the files of a mount are: those in a directory that the operator shares out are handed out.
    pub(super) fn audience(&self, mount: Mount) -> Audience {
        match mount == Mount::Shared && self.shared.is_some() {
            true => Audience::Umask,
            false => Audience::Owner,
        }
    }

    /// Tells whether what is written to the mount counts for the conversation's quota.
    pub(super) fn is_counted(&self, mount: Mount) -> bool {
        mount == Mount::Tmp || self.shared.is_none()
    }

    /// What the conversation uses: also the lock under which its files get their names and its directories are made.
    pub(super) fn usage(&self, conversation_directory: &str) -> Arc<Mutex<Usage>> {
        let mut usages = self.usages.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(usages.entry(conversation_directory.to_owned()).or_default())
    }

    /// Renames a conversation's directory, if the other's isn't there or is empty.
    pub(super) fn hand_over(&self, from: &ConversationId, to: &ConversationId) -> io::Result<bool> {
        let (from, to) = (directory_name(from), directory_name(to));
        match self.root.rename(&from, &self.root, &to) {
            Ok(()) => directory::sync(&self.root)?,
            Err(error) if is_left_alone(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        // Both are counted anew.
        self.usages.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| *name != from && *name != to);
        Ok(true)
    }

    fn below_root(conversation: &ConversationId, mount: Mount) -> PathBuf {
        Path::new(&directory_name(conversation)).join(mount.name())
    }
}

/// Whether there was nothing to rename, or something in its place.
fn is_left_alone(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotFound};
    matches!(error.kind(), NotFound | DirectoryNotEmpty | AlreadyExists)
}

/// Names the conversation's directory: another one for each, also where a disk doesn't tell upper from lower case.
pub(super) fn directory_name(conversation: &ConversationId) -> String {
    let mut name = format!("{}=", conversation.channel());
    for c in conversation.key().chars() {
        match c {
            '/' => name.push('+'),
            c if c.is_ascii_uppercase() => name.extend(['^', c.to_ascii_lowercase()]),
            c => name.push(c),
        }
    }
    // Some systems drop a dot at the end of a name.
    if name.ends_with('.') {
        name.push('=');
    }
    if name.len() > LONGEST {
        let digest = Sha256(sha2::Sha256::digest(conversation.to_string()).into());
        name.clear();
        write!(name, "={digest}").expect("writing to a string doesn't fail");
    }
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn conversation(text: &str) -> ConversationId {
        text.parse().unwrap()
    }

    #[test]
    fn directories_are_named_so_that_people_find_them() {
        for (id, name) in [
            ("telegram:-100123/42", "telegram=-100123+42"),
            ("console:main", "console=main"),
            ("web:aB", "web=a^b"),
            ("web:..", "web=..="),
        ] {
            assert_eq!(directory_name(&conversation(id)), name);
        }
        assert_eq!(directory_name(&conversation(&format!("web:{}", "A".repeat(200)))).len(), 65);
    }

    proptest! {
        #[test]
        fn different_conversations_have_different_directories(
            a in "(web|x):[aAbB./@_-]{1,6}", b in "(web|x):[aAbB./@_-]{1,6}",
        ) {
            let (a, b) = (conversation(&a), conversation(&b));
            let (name, other) = (directory_name(&a), directory_name(&b));
            prop_assert_eq!(a == b, name.eq_ignore_ascii_case(&other));
            prop_assert!(!name.contains(['/', '\\', ':']) && name != "." && name != "..");
        }
    }
}
