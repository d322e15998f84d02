//! Which links were revoked: a small file beside the key, read once and rewritten when something is revoked.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use satchel_domain::{AttachmentId, Timestamp};

use crate::{
    WebError,
    signing::{beside, for_the_owner},
};

/// The longest life of a link; what was revoked longer ago has expired by itself.
pub(crate) const LONGEST_LINK: Duration = Duration::from_secs(720 * 60 * 60);

/// When the links of a file were last revoked.
type Times = BTreeMap<AttachmentId, Timestamp>;

/// The revoked links.
#[derive(Debug, Clone)]
pub(crate) struct RevokedLinks {
    path: PathBuf,
    times: Arc<Mutex<Times>>,
}

impl RevokedLinks {
    /// Reads the file that lies beside the key.
    pub(crate) fn load(key_file: &Path) -> Result<Self, WebError> {
        let path = beside(key_file, "revoked");
        let times = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Times::new()),
            // A list that can't be read must not make revoked links work again.
            read => read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::from)),
        };
        let doing = || format!("read which links were revoked, {}", path.display());
        let times = times.map_err(|error| WebError::failed(doing(), error))?;
        Ok(Self { times: Arc::new(Mutex::new(times)), path })
    }

    /// When links of a file were last revoked.
    pub(crate) fn last(&self, attachment: AttachmentId) -> Option<Timestamp> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).get(&attachment).copied()
    }

    /// Revokes all links of a file that were made until `now`. Returns once that is durable.
    pub(crate) async fn revoke(&self, attachment: AttachmentId, now: Timestamp) -> io::Result<()> {
        let Self { path, times } = self.clone();
        let revoking = tokio::task::spawn_blocking(move || {
            // Held while the file is written, so that a later list is never replaced by an earlier one.
            let mut known = times.lock().unwrap_or_else(PoisonError::into_inner);
            let mut times = known.clone();
            times.retain(|_, revoked| now.since(*revoked) <= LONGEST_LINK);
            // A link that was made in the moment of an earlier revocation counts as made after it.
            let earlier = times.get(&attachment).map_or(now, |revoked| Timestamp(revoked.0 + 1));
            times.insert(attachment, now.max(earlier));
            replace(&path, &times)?;
            *known = times;
            Ok(())
        });
        revoking.await.map_err(io::Error::other)?
    }
}

fn replace(path: &Path, times: &Times) -> io::Result<()> {
    let temporary = beside(path, "new");
    let _ = fs::remove_file(&temporary);
    let mut file = for_the_owner(&temporary)?;
    file.write_all(&serde_json::to_vec(times)?)?;
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
    async fn what_was_revoked_stays_so_and_is_forgotten_once_no_link_can_live() {
        let dir = tempfile::tempdir().unwrap();
        let key_file = dir.path().join("web.key");
        let (first, second) = (AttachmentId(Uuid::from_u128(1)), AttachmentId(Uuid::from_u128(2)));
        let revoked = RevokedLinks::load(&key_file).unwrap();
        revoked.revoke(first, Timestamp(1_000)).await.unwrap();
        let again = RevokedLinks::load(&key_file).unwrap();
        assert_eq!((again.last(first), again.last(second)), (Some(Timestamp(1_000)), None));
        let later = Timestamp(1_001).plus(LONGEST_LINK);
        again.revoke(second, later).await.unwrap();
        assert_eq!((again.last(first), again.last(second)), (None, Some(later)));
    }

    #[test]
    fn a_damaged_list_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let key_file = dir.path().join("web.key");
        fs::write(dir.path().join("web.key.revoked"), b"{\"half").unwrap();
        assert!(RevokedLinks::load(&key_file).is_err());
    }
}
