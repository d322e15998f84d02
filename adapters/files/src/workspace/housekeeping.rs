//! What is done to workspaces while nobody looks: leftovers of dead processes go, and `/tmp` of who has been idle.

use std::{
    io,
    path::Path,
    sync::{Arc, PoisonError},
    time::{Duration, SystemTime},
};

use cap_std::fs::Dir;
use satchel_domain::path::Mount;

use super::{DirectoryWorkspace, place::Place, usage};
use crate::{directory, temp};

impl DirectoryWorkspace {
    /// Removes the temporary files of processes that are dead and returns how many there were.
    ///
    /// It walks all workspaces, so it is meant to run beside everything else after a start.
    ///
    /// # Errors
    /// When a directory can't be read.
    pub async fn remove_leftovers(&self) -> io::Result<u64> {
        self.in_background(|place| {
            let shared = place.shared.as_ref().map(|(shared, _)| remove_leftovers(shared)).transpose()?;
            Ok(remove_leftovers(&place.root)? + shared.unwrap_or(0))
        })
        .await
    }

    /// Empties `/tmp` of every conversation in whose `/tmp` nothing has been changed for `idle`; returns the bytes freed.
    ///
    /// # Errors
    /// When a directory can't be read or emptied.
    pub async fn sweep_tmp(&self, idle: Duration) -> io::Result<u64> {
        self.in_background(move |place| {
            let mut freed = 0;
            for conversation in place.root.entries()? {
                if let Ok(conversation) = conversation?.file_name().into_string() {
                    freed += sweep_tmp(place, &conversation, idle)?;
                }
            }
            Ok(freed)
        })
        .await
    }

    async fn in_background(&self, work: impl FnOnce(&Place) -> io::Result<u64> + Send + 'static) -> io::Result<u64> {
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

fn sweep_tmp(place: &Place, conversation: &str, idle: Duration) -> io::Result<u64> {
    let tmp = match place.root.open_dir(Path::new(conversation).join(Mount::Tmp.name())) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(0),
        opened => opened?,
    };
    let usage = place.usage(conversation);
    // Held all the while, so that no file gets its name between the look at the times and the removal.
    let mut usage = usage.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_idle(&tmp, idle)? {
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

/// Tells whether nothing was changed for as long; a file that is being written is a change.
fn is_idle(tmp: &Dir, idle: Duration) -> io::Result<bool> {
    let now = SystemTime::now();
    let is_old =
        |modified: cap_std::time::SystemTime| now.duration_since(modified.into_std()).unwrap_or_default() >= idle;
    let mut old = is_old(tmp.dir_metadata()?.modified()?);
    directory::walk(tmp, |_, entry| {
        old = old && is_old(entry.metadata()?.modified()?);
        Ok(())
    })?;
    Ok(old)
}
