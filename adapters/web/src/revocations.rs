//! The revoked links: a small file beside the key, read once and rewritten with each revocation.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use satchel_domain::{AttachmentId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    WebError,
    signing::{create_private_file, sibling_path},
};

/// The revocation of a file's links.
///
/// Revoked links are recognised by the count and not by a clock, so that one that was created while the clock was ahead
/// is revoked like all others. For the same reason a revocation is never deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Revocation {
    pub(crate) times: u32,
    /// The time of the last revocation.
    pub(crate) at: Timestamp,
}

/// The revocations by file.
type RevocationMap = BTreeMap<AttachmentId, Revocation>;

#[derive(Debug, Clone)]
pub(crate) struct RevokedLinks {
    path: PathBuf,
    revocations: Arc<Mutex<RevocationMap>>,
    /// Held while the file is written, so that an older list never replaces a newer one, and readers don't wait for the
    /// disk.
    write_lock: Arc<Mutex<()>>,
}

impl RevokedLinks {
    /// Reads the file beside the key.
    pub(crate) fn load(key_file: &Path) -> Result<Self, WebError> {
        let path = sibling_path(key_file, "revoked");
        let revocations = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(RevocationMap::new()),
            // An unreadable list must not make revoked links valid again.
            read => read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::from)),
        };
        let doing = || format!("read which links were revoked, {}", path.display());
        let revocations = revocations.map_err(|error| WebError::from_io(doing(), error))?;
        Ok(Self { path, revocations: Arc::new(Mutex::new(revocations)), write_lock: Arc::default() })
    }

    /// Returns the revocation of a file's links, if there is one.
    pub(crate) fn get(&self, attachment: AttachmentId) -> Option<Revocation> {
        self.revocations.lock().unwrap_or_else(PoisonError::into_inner).get(&attachment).copied()
    }

    /// Revokes all existing links of a file. Returns once that is durable.
    pub(crate) async fn revoke(&self, attachment: AttachmentId, now: Timestamp) -> io::Result<()> {
        let revoked = self.clone();
        let revoking = tokio::task::spawn_blocking(move || {
            let _writing = revoked.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
            let mut revocations = revoked.revocations.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let times = revocations.get(&attachment).map_or(0, |revoked| revoked.times);
            revocations.insert(attachment, Revocation { times: times.saturating_add(1), at: now });
            replace_file(&revoked.path, &revocations)?;
            *revoked.revocations.lock().unwrap_or_else(PoisonError::into_inner) = revocations;
            Ok(())
        });
        revoking.await.map_err(io::Error::other)?
    }
}

fn replace_file(path: &Path, revocations: &RevocationMap) -> io::Result<()> {
    let temporary = sibling_path(path, "new");
    let _ = fs::remove_file(&temporary);
    let mut file = create_private_file(&temporary)?;
    file.write_all(&serde_json::to_vec(revocations)?)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn what_was_revoked_stays_so_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let key_file = dir.path().join("web.key");
        let [first, second] = [1, 2].map(|n| AttachmentId(Uuid::from_u128(n)));
        let revoked = RevokedLinks::load(&key_file).unwrap();
        revoked.revoke(first, Timestamp(1_000)).await.unwrap();
        let years_later = Timestamp(1_000_000_000_000);
        revoked.revoke(second, years_later).await.unwrap();
        revoked.revoke(second, Timestamp(2_000)).await.unwrap();
        let again = RevokedLinks::load(&key_file).unwrap();
        let expected = [Revocation { times: 1, at: Timestamp(1_000) }, Revocation { times: 2, at: Timestamp(2_000) }];
        assert_eq!([again.get(first), again.get(second)], expected.map(Some));
        assert_eq!(again.get(AttachmentId(Uuid::from_u128(3))), None);
    }

    #[test]
    fn a_damaged_list_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let key_file = dir.path().join("web.key");
        fs::write(dir.path().join("web.key.revoked"), b"{\"half").unwrap();
        assert!(RevokedLinks::load(&key_file).is_err());
    }
}
