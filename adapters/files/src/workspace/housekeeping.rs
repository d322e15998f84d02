//! Background cleaning of workspaces: removes leftovers of dead processes and `/tmp` of idle conversations.

use std::{
    collections::HashSet,
    io,
    path::Path,
    sync::{Arc, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use cap_std::fs::{Dir, Metadata, MetadataExt};
use satchel_domain::{ConversationId, path::Mount};

use super::{DirectoryWorkspace, root::WorkspaceRoot, usage};
use crate::{directory, modes, temp};

/// How far a disk's times may lie behind the clock: by a tick, or by two seconds where a disk counts in twos.
const MAX_CLOCK_LAG: Duration = Duration::from_secs(2);

impl DirectoryWorkspace {
    /// Removes the temporary files of dead processes, and what they had begun to remove; returns how many there were. It
    /// walks all workspaces.
    pub(super) async fn remove_temporary_files(&self) -> io::Result<u64> {
        self.run_in_background(|root| {
            let shared = root.shared.as_ref().map_or(Ok(0), |(shared, _)| remove_leftovers(shared));
            let discarded = root.remove_discarded();
            let own = remove_leftovers(&root.directory);
            Ok(own? + shared? + discarded?)
        })
        .await
    }

    /// Removes other users' access that earlier versions left in the workspaces; returns how many had it. The closed
    /// root already keeps others out.
    ///
    /// # Errors
    /// When an entry can't be read or closed; everything else is closed anyway.
    pub async fn close_to_others(&self) -> io::Result<u64> {
        self.run_in_background(|root| {
            let (mut closed, mut first_error) = (0, Ok(()));
            for conversation in root.directory.entries()? {
                let conversation = conversation?.file_name();
                match modes::close_if_open(&root.directory, Path::new(&conversation)) {
                    Ok(was_open) => closed += u64::from(was_open),
                    Err(error) if first_error.is_ok() => first_error = Err(error),
                    Err(_) => {}
                }
            }
            first_error.map(|()| closed)
        })
        .await
    }

    pub(super) async fn sweep_idle_tmp(&self, active: &[ConversationId], read_at: SystemTime) -> io::Result<u64> {
        let active: HashSet<String> = active.iter().map(ConversationId::to_file_name).collect();
        self.run_in_background(move |root| {
            let mut freed = 0;
            for conversation in root.directory.entries()? {
                match conversation?.file_name().into_string() {
                    Ok(conversation) if !active.contains(&conversation) => {
                        freed += empty_tmp(root, &conversation, read_at)?;
                    }
                    _ => {}
                }
            }
            Ok(freed)
        })
        .await
    }

    pub(super) async fn run_in_background<T: Send + 'static>(
        &self,
        work: impl FnOnce(&WorkspaceRoot) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let root = Arc::clone(&self.root);
        tokio::task::spawn_blocking(move || work(&root)).await.map_err(io::Error::other)?
    }
}

/// Removes every leftover that can be removed; an error means that another one stays.
fn remove_leftovers(root: &Dir) -> io::Result<u64> {
    let (mut removed, mut first_error) = (0, Ok(()));
    directory::walk(root, |directory, entry| {
        match entry.file_name().to_str().map(|name| temp::remove_leftover(directory, name)) {
            Some(Ok(true)) => removed += 1,
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound && first_error.is_ok() => {
                first_error = Err(error);
            }
            _ => {}
        }
        Ok(())
    })?;
    first_error.map(|()| removed)
}

fn empty_tmp(root: &WorkspaceRoot, conversation: &str, read_at: SystemTime) -> io::Result<u64> {
    let tmp = match root.directory.open_dir(Path::new(conversation).join(Mount::Tmp.name())) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(0),
        opened => opened?,
    };
    let usage = root.usage(conversation);
    // Held throughout, so that no file is published between the check of the times and the removal.
    let mut usage = usage.lock().unwrap_or_else(PoisonError::into_inner);
    if is_changed(&tmp, read_at)? {
        return Ok(0);
    }
    let bytes = usage::measure_directory(&tmp)?;
    for entry in tmp.entries()? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => tmp.remove_dir_all(entry.file_name())?,
            false => tmp.remove_file(entry.file_name())?,
        }
    }
    usage.free(bytes);
    Ok(bytes)
}

/// Whether anything was changed after `read_at`; a file that is being written changes its directory.
///
/// The change time counts, because a script can set a file's modification time to any value.
fn is_changed(tmp: &Dir, read_at: SystemTime) -> io::Result<bool> {
    let read_at = read_at.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(MAX_CLOCK_LAG);
    let read_at = (read_at.as_secs().cast_signed(), i64::from(read_at.subsec_nanos()));
    let is_later = |metadata: &Metadata| (metadata.ctime(), metadata.ctime_nsec()) > read_at;
    let mut is_changed = is_later(&tmp.dir_metadata()?);
    directory::walk(tmp, |_, entry| {
        is_changed = is_changed || is_later(&entry.metadata()?);
        Ok(())
    })?;
    Ok(is_changed)
}
