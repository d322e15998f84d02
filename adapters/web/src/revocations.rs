//! Which links were revoked: a small file beside the key, read once and rewritten when something is revoked.

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
    signing::{beside, for_the_owner},
};

/// How the links of a file were revoked.
///
/// Links are told apart by the count, never by a clock: one that was made while the clock was ahead ends like all
/// others. For the same reason a revocation is kept for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Revocation {
    pub(crate) times: u32,
    /// When that was last done.
    pub(crate) at: Timestamp,
}

/// The files whose links were revoked.
type RevocationMap = BTreeMap<AttachmentId, Revocation>;

#[derive(Debug, Clone)]
pub(crate) struct RevokedLinks {
    path: PathBuf,
    known: Arc<Mutex<RevocationMap>>,
    /// Held while the file is written, so that a later list is never replaced by an earlier one, and nobody who only
    /// asks waits for the disk.
    writing: Arc<Mutex<()>>,
}

impl RevokedLinks {
    /// Reads the file that lies beside the key.
    pub(crate) fn load(key_file: &Path) -> Result<Self, WebError> {
        let path = beside(key_file, "revoked");
        let known = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(RevocationMap::new()),
            // A list that can't be read must not make revoked links work again.
            read => read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::from)),
        };
        let doing = || format!("read which links were revoked, {}", path.display());
        let known = known.map_err(|error| WebError::from_io(doing(), error))?;
        Ok(Self { path, known: Arc::new(Mutex::new(known)), writing: Arc::default() })
    }

    /// How the links of a file were revoked, if they were.
    pub(crate) fn get(&self, attachment: AttachmentId) -> Option<Revocation> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&attachment).copied()
    }

    /// Revokes all links of a file that were made until now. Returns once that is durable.
    pub(crate) async fn revoke(&self, attachment: AttachmentId, now: Timestamp) -> io::Result<()> {
        let revoked = self.clone();
        let revoking = tokio::task::spawn_blocking(move || {
            let _writing = revoked.writing.lock().unwrap_or_else(PoisonError::into_inner);
            let mut list = revoked.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let times = list.get(&attachment).map_or(0, |revoked| revoked.times);
            list.insert(attachment, Revocation { times: times.saturating_add(1), at: now });
            replace(&revoked.path, &list)?;
            *revoked.known.lock().unwrap_or_else(PoisonError::into_inner) = list;
            Ok(())
        });
        revoking.await.map_err(io::Error::other)?
    }
}

fn replace(path: &Path, list: &RevocationMap) -> io::Result<()> {
    let temporary = beside(path, "new");
    let _ = fs::remove_file(&temporary);
    let mut file = for_the_owner(&temporary)?;
    file.write_all(&serde_json::to_vec(list)?)?;
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
