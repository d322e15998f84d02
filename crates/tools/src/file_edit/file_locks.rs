//! Locks of the files being edited: an edit reads a file and replaces it, and the calls of one answer run concurrently.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use satchel_domain::WorkspacePath;
use tokio::sync::OwnedMutexGuard;

/// One lock a path, for all conversations together: `/shared` may be one directory for all of them. That files with
/// the same name in separate directories wait for each other costs no more than the length of an edit.
#[derive(Default)]
pub(super) struct FileLocks(Mutex<HashMap<WorkspacePath, Arc<tokio::sync::Mutex<()>>>>);

impl FileLocks {
    /// Waits until no other edit of the file runs, and keeps others waiting until the guard is dropped.
    pub(super) async fn lock(&self, path: &WorkspacePath) -> OwnedMutexGuard<()> {
        let file_lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // One that nobody else holds or waits for is no longer needed.
            locks.retain(|_, file_lock| Arc::strong_count(file_lock) > 1);
            Arc::clone(locks.entry(path.clone()).or_default())
        };
        file_lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn only_edits_of_one_file_wait() {
        let locks = FileLocks::default();
        let path = |name: &str| WorkspacePath::root(satchel_domain::path::Mount::Tmp).join(name).unwrap();
        let first = locks.lock(&path("a")).await;
        assert!(locks.lock(&path("a")).now_or_never().is_none());
        assert!(locks.lock(&path("b")).now_or_never().is_some());
        drop(first);
        assert!(locks.lock(&path("a")).now_or_never().is_some());
        let _c = locks.lock(&path("c")).await;
        assert_eq!(locks.0.lock().unwrap().len(), 1, "what is no longer edited is forgotten");
    }
}
