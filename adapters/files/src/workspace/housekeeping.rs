//! What is done to workspaces while nobody looks: leftovers of dead processes go, and `/tmp` of idle conversations.

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
    /// Removes the temporary files of processes that are dead and returns how many there were. It walks all workspaces.
    pub(super) async fn remove_temporary_files(&self) -> io::Result<u64> {
        self.in_background(|place| {
            let shared = place.shared.as_ref().map(|(shared, _)| remove_leftovers(shared)).transpose()?;
            Ok(remove_leftovers(&place.root)? + shared.unwrap_or(0))
        })
        .await
    }

    /// Closes to others what earlier versions left open to them in the workspaces; returns how many there were.
    /// Nobody else reaches it since the start itself.
    ///
    /// # Errors
    /// When something can't be read or closed; everything else is closed all the same.
    pub async fn close_to_others(&self) -> io::Result<u64> {
        self.in_background(|place| {
            let (mut closed, mut first) = (0, Ok(()));
            for conversation in place.root.entries()? {
                let conversation = conversation?.file_name();
                match modes::close_if_open(&place.root, Path::new(&conversation)) {
                    Ok(was_open) => closed += u64::from(was_open),
                    Err(error) if first.is_ok() => first = Err(error),
                    Err(_) => {}
                }
            }
            first.map(|()| closed)
        })
        .await
    }

    pub(super) async fn empty_idle_tmp(&self, active: &[ConversationId], read_at: SystemTime) -> io::Result<u64> {
        let active: HashSet<String> = active.iter().map(ConversationId::to_file_name).collect();
        self.in_background(move |place| {
            let mut freed = 0;
            for conversation in place.root.entries()? {
                match conversation?.file_name().into_string() {
                    Ok(conversation) if !active.contains(&conversation) => {
                        freed += sweep_tmp(place, &conversation, read_at)?;
                    }
                    _ => {}
                }
            }
            Ok(freed)
        })
        .await
    }

    async fn in_background(
        &self,
        work: impl FnOnce(&WorkspaceRoot) -> io::Result<u64> + Send + 'static,
    ) -> io::Result<u64> {
        let place = Arc::clone(&self.place);
        tokio::task::spawn_blocking(move || work(&place)).await.map_err(io::Error::other)?
    }
}

fn remove_leftovers(root: &Dir) -> io::Result<u64> {
    let mut removed = 0;
    directory::walk(root, |directory, entry| {
        match entry.file_name().to_str().map(|name| temp::remove_leftover(directory, name)) {
            Some(Ok(true)) => removed += 1,
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(())
    })?;
    Ok(removed)
}

fn sweep_tmp(place: &WorkspaceRoot, conversation: &str, read_at: SystemTime) -> io::Result<u64> {
    let tmp = match place.root.open_dir(Path::new(conversation).join(Mount::Tmp.name())) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(0),
        opened => opened?,
    };
    let usage = place.usage(conversation);
    // Held all the while, so that no file gets its name between the look at the times and the removal.
    let mut usage = usage.lock().unwrap_or_else(PoisonError::into_inner);
    if is_changed(&tmp, read_at)? {
        return Ok(0);
    }
    let bytes = usage::measure(&tmp)?;
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

/// Tells whether anything was changed after that; a file that is being written is a change of its directory.
///
/// The system's own time of change counts, for a script sets a file's time of modification to whatever it likes.
fn is_changed(tmp: &Dir, read_at: SystemTime) -> io::Result<bool> {
    let read_at = read_at.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(MAX_CLOCK_LAG);
    let read_at = (read_at.as_secs().cast_signed(), i64::from(read_at.subsec_nanos()));
    let is_later = |metadata: &Metadata| (metadata.ctime(), metadata.ctime_nsec()) > read_at;
    let mut changed = is_later(&tmp.dir_metadata()?);
    directory::walk(tmp, |_, entry| {
        changed = changed || is_later(&entry.metadata()?);
        Ok(())
    })?;
    Ok(changed)
}
