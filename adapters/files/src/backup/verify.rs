//! Reads everything that backups need, and checks it against its hashes.

use std::collections::{BTreeMap, BTreeSet};

use satchel_domain::Sha256;

use super::{BackupError, BackupId, BackupRepository, objects};

/// What was found in a repository.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// The backups that restore all that they contain.
    pub good: Vec<BackupId>,
    /// Those that don't, and why.
    pub damaged: Vec<(BackupId, String)>,
    /// How many objects were read.
    pub objects: usize,
    pub bytes: u64,
}

impl BackupRepository {
    /// Checks all backups. A damaged object loses its name, so that the next backup stores it anew where the data still
    /// has it.
    ///
    /// # Errors
    /// When the directory can't be read.
    pub fn verify(&self) -> Result<VerifyReport, BackupError> {
        let (mut report, mut needed) = (VerifyReport::default(), BTreeMap::<Sha256, BTreeSet<BackupId>>::new());
        for id in self.list()? {
            match self.manifest(&id) {
                Ok(manifest) => {
                    for object in manifest.objects() {
                        needed.entry(object.sha256).or_default().insert(id.clone());
                    }
                    report.good.push(id);
                }
                Err(error @ (BackupError::Damaged { .. } | BackupError::Newer { .. })) => {
                    report.damaged.push((id, error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        let mut lost: BTreeMap<BackupId, usize> = BTreeMap::new();
        for (sha256, backups) in &needed {
            match self.check_object(sha256)? {
                Some(bytes) => report.bytes += bytes,
                None => backups.iter().for_each(|id| *lost.entry(id.clone()).or_default() += 1),
            }
        }
        report.objects = needed.len();
        report.good.retain(|id| !lost.contains_key(id));
        let describe = |count| format!("{count} of its objects are missing or damaged");
        report.damaged.extend(lost.into_iter().map(|(id, count)| (id, describe(count))));
        Ok(report)
    }

    /// Reads an object, and returns its size if it is as it was.
    fn check_object(&self, sha256: &Sha256) -> Result<Option<u64>, BackupError> {
        let failed = |error| BackupError::at("read an object in", self.path.as_path())(error);
        let mut file = match self.objects.open_object(sha256) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        match objects::hash(&mut file) {
            Ok(found) if found == *sha256 => Ok(Some(file.metadata().map_err(failed)?.len())),
            Ok(_) => {
                self.objects.remove(sha256).map_err(|error| self.write_error("remove a damaged object from", error))?;
                Ok(None)
            }
            // A sector that can't be read.
            Err(error) => {
                tracing::warn!(sha256 = %sha256, %error, "an object of a backup can't be read");
                Ok(None)
            }
        }
    }
}
