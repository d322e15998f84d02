//! Moves the revocations that earlier versions stored in `web-key.revoked` into the ledger.

use std::{collections::BTreeMap, fs, io, path::Path};

use satchel_domain::AttachmentId;
use satchel_ports::ledger::Storage;
use serde::Deserialize;

use crate::{WebError, signing::sibling_path};

/// The revocation of a file's links, as the file has it.
#[derive(Debug, Deserialize)]
struct OldRevocation {
    times: u32,
}

/// Moves what the file says into the ledger. The file stays under another name. If the process dies during the move, the
/// next start counts some revocations again.
///
/// # Errors
/// When the file can't be read, because revoked links would open again, and when the ledger fails.
pub(crate) async fn move_into_ledger(key_file: &Path, storage: &dyn Storage) -> Result<(), WebError> {
    let path = sibling_path(key_file, "revoked");
    let revocations: BTreeMap<AttachmentId, OldRevocation> = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => {
            let parsed = read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::from));
            let doing = || format!("read which links were revoked, {}", path.display());
            parsed.map_err(|error| WebError::from_io(doing(), error))?
        }
    };
    for (attachment, OldRevocation { times }) in revocations {
        let failed = |error| WebError::from_io("move the revoked links into the ledger", error);
        // A file that is no longer known has no link that opens.
        while storage.revoke_links(attachment).await.map_err(failed)?.is_some_and(|revoked| revoked.count < times) {}
    }
    match fs::rename(&path, sibling_path(key_file, "revoked.moved")) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed.map_err(|error| WebError::from_io(format!("rename {}", path.display()), error)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use satchel_domain::LinkRevocation;
    use satchel_ports::MockStorage;
    use uuid::Uuid;

    use super::*;

    /// Counts the revocations of these files.
    fn storage(known: [AttachmentId; 2]) -> (MockStorage, Arc<Mutex<BTreeMap<AttachmentId, u32>>>) {
        let counts = Arc::new(Mutex::new(BTreeMap::from(known.map(|file| (file, 0)))));
        let (mut storage, counted) = (MockStorage::new(), Arc::clone(&counts));
        storage.expect_revoke_links().returning(move |file| {
            let mut counts = counted.lock().unwrap();
            let Some(count) = counts.get_mut(&file) else { return Ok(None) };
            *count += 1;
            Ok(Some(LinkRevocation { count: *count, planned_count: *count }))
        });
        (storage, counts)
    }

    #[tokio::test]
    async fn old_revocations_are_moved_once() {
        let dir = tempfile::tempdir().unwrap();
        let (key_file, old) = (dir.path().join("web-key"), dir.path().join("web-key.revoked"));
        let [once, twice, forgotten] = [1, 2, 3].map(|n| AttachmentId(Uuid::from_u128(n)));
        let (storage, counts) = storage([once, twice]);
        let content = format!(
            r#"{{"{once}":{{"times":1,"at":5}},"{twice}":{{"times":2,"at":9}},"{forgotten}":{{"times":1,"at":9}}}}"#
        );
        fs::write(&old, content).unwrap();
        for _start in 0..2 {
            move_into_ledger(&key_file, &storage).await.unwrap();
            assert_eq!(*counts.lock().unwrap(), BTreeMap::from([(once, 1), (twice, 2)]));
            assert!(!old.exists() && dir.path().join("web-key.revoked.moved").exists());
        }
    }

    #[tokio::test]
    async fn damaged_file_of_revocations_is_an_error_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (key_file, old) = (dir.path().join("web-key"), dir.path().join("web-key.revoked"));
        fs::write(&old, b"{\"half").unwrap();
        let error = move_into_ledger(&key_file, &MockStorage::new()).await.unwrap_err();
        assert!(error.to_string().contains("web-key.revoked"), "{error}");
        assert!(old.exists());
    }
}
