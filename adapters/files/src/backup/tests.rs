//! What backups contain, and that the last good one stays good.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use satchel_domain::{Sha256, Timestamp};

use super::*;
use crate::blobs;

const LAYOUT: RestoreLayout<'_> = RestoreLayout { database: "satchel.db", blobs: "blobs" };

/// A data directory with a database of many chunks, a file, and a workspace of every kind.
struct BackupHarness {
    directory: tempfile::TempDir,
    blobs: Vec<Sha256>,
}

impl BackupHarness {
    fn new() -> Self {
        let mut harness = Self { directory: tempfile::tempdir().unwrap(), blobs: Vec::new() };
        for directory in ["blobs", "workspaces/web=a/shared/notes", "workspaces/web=a/tmp", "workspaces/web=a/vault"] {
            fs::create_dir_all(harness.data().join(directory)).unwrap();
        }
        let pages: Vec<u8> = (0_u32..3 << 20).flat_map(|number| (number / 1024).to_le_bytes()).collect();
        harness.write("copy.db", &pages);
        harness.put_blob(b"a photo");
        harness.write("workspaces/web=a/shared/notes/todo.txt", b"buy milk");
        harness.write("workspaces/web=a/shared/.satchel-7-0.part", b"half a f");
        harness.write("workspaces/web=a/tmp/scratch.txt", b"1 + 1");
        harness.write("workspaces/web=a/vault/key", b"sesame");
        harness.write("web-token", b"open");
        harness
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn repository_path(&self) -> PathBuf {
        self.directory.path().join("backups")
    }

    fn write(&self, path: &str, content: &[u8]) {
        fs::write(self.data().join(path), content).unwrap();
    }

    fn put_blob(&mut self, content: &[u8]) -> PathBuf {
        let sha256 = Sha256::digest(content);
        let path = self.data().join("blobs").join(blobs::blob_path(&sha256));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        self.blobs.push(sha256);
        path
    }

    fn repository(&self) -> BackupRepository {
        BackupRepository::create(&self.repository_path()).unwrap()
    }

    fn with_contents<T>(
        &self,
        second: i64,
        secrets: Option<&[&str]>,
        store: impl FnOnce(&BackupContents<'_>) -> T,
    ) -> T {
        store(&BackupContents {
            taken_at: Timestamp(second * 1_000),
            time: &format!("20260302T1804{second:02}Z"),
            data_dir: &self.data(),
            database: &self.data().join("copy.db"),
            database_version: 16,
            blobs_dir: &self.data().join("blobs"),
            blobs: &self.blobs,
            workspaces: "workspaces",
            secrets,
        })
    }

    fn try_add(
        &self,
        repository: &mut BackupRepository,
        second: i64,
        secrets: Option<&[&str]>,
    ) -> Result<BackupReport, BackupError> {
        self.with_contents(second, secrets, |contents| repository.add(contents, &BackupProgress::default()))
    }

    /// Writes an archive.
    fn write_archive(&self, out: impl io::Write) -> Result<BackupReport, BackupError> {
        let archive = BackupArchive::new(out, &self.data()).unwrap();
        self.with_contents(1, None, |contents| archive.write(contents, &BackupProgress::default()))
    }

    fn add(&self, second: i64) -> BackupReport {
        self.try_add(&mut self.repository(), second, None).unwrap()
    }

    /// Restores the newest backup, and returns all files with their contents.
    fn restore(&self, name: &str) -> Vec<(String, Vec<u8>)> {
        let repository = self.repository();
        let (id, manifest) = repository.newest(Timestamp(i64::MAX)).unwrap();
        let target = self.directory.path().join(name);
        repository.restore((&id, &manifest), &target, LAYOUT, &BackupProgress::default()).unwrap().publish().unwrap();
        let mut files = Vec::new();
        let mut pending = vec![target.clone()];
        while let Some(path) = pending.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.permissions().mode() & 0o777;
            if metadata.is_dir() {
                assert_eq!(mode, 0o700, "{}", path.display());
                pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else {
                assert_eq!(mode, 0o600, "{}", path.display());
                let relative = path.strip_prefix(&target).unwrap().to_str().unwrap().to_owned();
                files.push((relative, fs::read(&path).unwrap()));
            }
        }
        files.sort();
        files
    }
}

fn names(files: &[(String, Vec<u8>)]) -> Vec<&str> {
    files.iter().map(|(name, _)| name.as_str()).filter(|name| !name.starts_with("blobs/")).collect()
}

#[test]
fn restored_copy_has_all_but_tmp_and_secrets() {
    let harness = BackupHarness::new();
    let outside = harness.directory.path().join("outside");
    fs::write(&outside, "not ours").unwrap();
    symlink(&outside, harness.data().join("workspaces/web=a/shared/link")).unwrap();
    let report = harness.add(1);
    assert_eq!((report.files, report.missing.len()), (2, 0), "{report:?}");
    assert_eq!(report.skipped, [PathBuf::from("workspaces/web=a/shared/link")]);
    let files = harness.restore("restored");
    assert_eq!(names(&files), ["satchel.db", "workspaces/web=a/shared/notes/todo.txt"]);
    assert_eq!(files[1].1, fs::read(harness.data().join("copy.db")).unwrap());
    assert_eq!(files[0], (format!("blobs/{}", blobs::blob_path(&harness.blobs[0]).display()), b"a photo".to_vec()));
    assert_eq!(files[2].1, b"buy milk");
    harness.try_add(&mut harness.repository(), 2, Some(&["web-key", "web-token"])).unwrap();
    let files = harness.restore("with-secrets");
    let expected = ["satchel.db", "web-token", "workspaces/web=a/shared/notes/todo.txt", "workspaces/web=a/vault/key"];
    assert_eq!(names(&files), expected);
}

#[test]
fn only_changes_are_stored_by_later_backups() {
    let mut harness = BackupHarness::new();
    let first = harness.add(1);
    assert_eq!(first.written, first.bytes);
    assert_eq!(harness.add(2).written, 0);
    harness.put_blob(b"another photo");
    harness.write("workspaces/web=a/shared/notes/todo.txt", b"buy tea!");
    let mut pages = fs::read(harness.data().join("copy.db")).unwrap();
    pages[5 << 20] ^= 1;
    harness.write("copy.db", &pages);
    assert_eq!(harness.add(3).written, 13 + 8 + (4 << 20), "a file, a note and a chunk");
    assert_eq!(harness.restore("restored").last().unwrap().1, b"buy tea!");
}

#[test]
fn missing_and_damaged_blobs_are_reported() {
    let mut harness = BackupHarness::new();
    let stored_before = harness.put_blob(b"a film");
    harness.add(1);
    fs::write(stored_before, "a fist").unwrap();
    fs::write(harness.put_blob(b"a scan"), "a scam").unwrap();
    fs::remove_file(harness.put_blob(b"a song")).unwrap();
    let report = harness.add(2);
    assert_eq!(report.missing, [b"a scan", b"a song"].map(Sha256::digest));
    let files = harness.restore("restored");
    assert!(files.iter().any(|(_, content)| content == b"a film"), "what an earlier backup has is not lost");
}

#[test]
fn verify_finds_damage_and_next_backup_repairs_it() {
    let harness = BackupHarness::new();
    let (first, second) = (harness.add(1), harness.add(2));
    let object = harness.repository_path().join("objects").join(format!("{:02x}", harness.blobs[0].0[0]));
    let object = object.join(harness.blobs[0].to_string());
    fs::write(&object, "a phot0").unwrap();
    let report = harness.repository().verify().unwrap();
    assert_eq!((report.good.len(), report.damaged.len()), (0, 2), "{report:?}");
    let third = harness.add(3);
    assert_eq!(third.written, 7);
    let report = harness.repository().verify().unwrap();
    assert_eq!(report.good, [first.id, second.id, third.id.clone()]);
    let manifest = harness.repository_path().join("manifests").join(format!("{}.json", third.id));
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("todo.txt", "todo.tex")).unwrap();
    let report = harness.repository().verify().unwrap();
    assert_eq!((report.good.len(), &report.damaged[0].0), (2, &third.id), "{report:?}");
}

#[test]
fn prune_removes_what_no_other_backup_needs() {
    let mut harness = BackupHarness::new();
    harness.add(1);
    let forgotten = harness.blobs[0];
    harness.blobs.clear();
    harness.put_blob(b"another photo");
    harness.add(2);
    let made = harness.add(3).id;
    let repository = harness.repository();
    assert_eq!(repository.prune(3, &made).unwrap(), PruneReport::default());
    assert!(repository.objects.find(&forgotten).unwrap().is_some());
    assert_eq!(repository.prune(2, &made).unwrap(), PruneReport { backups: 1, bytes: 7 });
    assert!(repository.objects.find(&forgotten).unwrap().is_none(), "what is forgotten leaves the backups");
    drop(repository);
    let report = harness.repository().verify().unwrap();
    assert_eq!((report.good.len(), report.damaged.len()), (2, 0));
}

/// The state of a process that is killed before it has named its manifest.
#[test]
fn unfinished_backup_does_not_count() {
    let mut harness = BackupHarness::new();
    let first = harness.add(1);
    harness.put_blob(b"another photo");
    let (repository, path) = (harness.repository(), harness.repository_path());
    repository.objects.put(&harness.blobs[1], &mut b"another photo".as_slice(), &mut |_| {}).unwrap();
    drop(repository);
    let leftovers_of_copy = [".satchel-1-0.part", ".satchel-1-0.part-journal", ".satchel-2-0.part-journal"];
    leftovers_of_copy.iter().for_each(|name| fs::write(path.join(name), "half a file").unwrap());
    assert_eq!(harness.repository().list().unwrap(), [first.id]);
    assert_eq!(leftovers(&path), Vec::<String>::new());
    assert_eq!(harness.restore("restored").len(), 3);
    assert_eq!(harness.add(2).written, 0, "what was stored is stored");
}

/// Two processes may write an archive of one data directory at once.
#[test]
fn journal_of_running_backup_stays() {
    let harness = BackupHarness::new();
    let archive = BackupArchive::new(Vec::<u8>::new(), &harness.data()).unwrap();
    let staging = archive.create_staging_file().unwrap();
    let mut journal = staging.path().as_os_str().to_owned();
    journal.push("-journal");
    fs::write(&journal, "under way").unwrap();
    harness.write_archive(Vec::<u8>::new()).unwrap();
    assert!(staging.path().exists() && fs::exists(&journal).unwrap());
}

#[test]
fn directory_that_vanishes_gets_no_manifest() {
    let harness = BackupHarness::new();
    let (mut repository, path) = (harness.repository(), harness.repository_path());
    // What is left of the mount point of a disk that was unplugged.
    fs::rename(&path, path.with_extension("unplugged")).unwrap();
    fs::create_dir(&path).unwrap();
    let error = harness.try_add(&mut repository, 1, None).unwrap_err();
    assert!(matches!(error, BackupError::Vanished(_)), "{error:?}");
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    let missing = BackupRepository::create(&harness.directory.path().join("unmounted/backups")).unwrap_err();
    assert!(missing.to_string().contains("unmounted"), "{missing}");
}

#[test]
fn one_process_at_a_time_writes() {
    let harness = BackupHarness::new();
    let repository = harness.repository();
    for opened in
        [BackupRepository::create(&harness.repository_path()), BackupRepository::open(&harness.repository_path())]
    {
        assert!(matches!(opened, Err(BackupError::Busy(_))), "{opened:?}");
    }
    drop(repository);
    assert!(BackupRepository::open(&harness.repository_path()).is_ok());
}

#[test]
fn restore_leaves_other_data_alone() {
    let harness = BackupHarness::new();
    harness.add(1);
    let repository = harness.repository();
    let (id, manifest) = repository.newest(Timestamp(i64::MAX)).unwrap();
    let counter = BackupProgress::default();
    let refused = repository.restore((&id, &manifest), &harness.data(), LAYOUT, &counter).unwrap_err();
    assert!(matches!(refused, BackupError::NotEmpty(_)), "{refused:?}");
    let target = harness.directory.path().join("restored");
    let restored = repository.restore((&id, &manifest), &target, LAYOUT, &counter).unwrap();
    fs::create_dir(&target).unwrap();
    fs::write(target.join("satchel.db"), "somebody was faster").unwrap();
    assert!(matches!(restored.publish(), Err(BackupError::NotEmpty(_))));
    assert_eq!(fs::read(target.join("satchel.db")).unwrap(), b"somebody was faster");
    assert!(!target.with_extension("restoring").exists());
}

#[test]
fn manifest_leads_nowhere_else() {
    let harness = BackupHarness::new();
    let repository = harness.repository();
    for path in ["../outside", "/etc/passwd", "a/../../b", ""] {
        let mut manifest = BackupManifest::new(Timestamp(1), harness.data(), false, 16);
        manifest.directories.push(PathBuf::from(path));
        let (id, bytes) = manifest.encode("20260302T180411Z");
        fs::write(harness.repository_path().join("manifests").join(format!("{id}.json")), bytes).unwrap();
        let error = repository.manifest(&id).unwrap_err();
        assert!(error.to_string().contains("outside the data directory"), "{error}");
    }
}

/// A clock that was wrong once must neither stand in for the present nor crowd it out.
#[test]
fn backup_from_the_future_counts_for_none() {
    let harness = BackupHarness::new();
    let future = harness.add(9_000).id;
    let made = harness.add(2).id;
    let repository = harness.repository();
    let now = repository.manifest(&made).unwrap().taken_at;
    assert_eq!(repository.newest(now).unwrap().0, made);
    assert_eq!(repository.prune(2, &made).unwrap().backups, 0);
    assert_eq!(repository.prune(1, &made).unwrap().backups, 1);
    assert_eq!(repository.list().unwrap(), [made]);
    assert!(repository.manifest(&future).is_err());
}

/// After a disaster its disk is mounted read-only.
#[test]
fn read_only_repository_is_restored() {
    let harness = BackupHarness::new();
    harness.add(1);
    let path = harness.repository().path.clone();
    fs::remove_file(path.join("lock")).unwrap();
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    let repository = BackupRepository::open(&path).unwrap();
    let (id, manifest) = repository.newest(Timestamp(i64::MAX)).unwrap();
    let target = harness.directory.path().join("restored");
    repository.restore((&id, &manifest), &target, LAYOUT, &BackupProgress::default()).unwrap().publish().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before, "nothing was written");
}

#[test]
fn restore_removes_only_what_a_restore_has_left() {
    let harness = BackupHarness::new();
    harness.add(1);
    let repository = harness.repository();
    let (id, manifest) = repository.newest(Timestamp(i64::MAX)).unwrap();
    let (target, beside) = (harness.directory.path().join("new"), harness.directory.path().join("new.restoring"));
    let restore = || repository.restore((&id, &manifest), &target, LAYOUT, &BackupProgress::default());
    let running = restore().unwrap();
    assert!(matches!(restore(), Err(BackupError::Busy(_))), "another restore is under way");
    // As a kill would leave it.
    std::mem::forget(running);
    fs::remove_dir_all(&beside).unwrap();
    fs::create_dir(&beside).unwrap();
    fs::write(beside.join("letters.txt"), "mine").unwrap();
    assert!(matches!(restore(), Err(BackupError::NotEmpty(_))));
    assert_eq!(fs::read(beside.join("letters.txt")).unwrap(), b"mine");
    fs::remove_file(beside.join("letters.txt")).unwrap();
    fs::write(beside.join("restore-in-progress"), "").unwrap();
    restore().unwrap().publish().unwrap();
    assert!(!beside.exists() && !target.join("restore-in-progress").exists());
}

/// Where a file system has no locks, another process may prune at the same time.
#[test]
fn backup_whose_objects_are_gone_is_not_published() {
    let harness = BackupHarness::new();
    let made = harness.add(1).id;
    let repository = harness.repository();
    let manifest = repository.manifest(&made).unwrap();
    let object = manifest.objects().next().unwrap().sha256;
    repository.objects.remove(&object).unwrap();
    let refused = repository.publish("20990101T000000.000Z", &manifest).unwrap_err();
    assert!(refused.to_string().contains("write the manifest"), "{refused}");
    assert_eq!(repository.list().unwrap(), [made]);
}

#[test]
fn unpacked_archive_is_a_directory_of_backups() {
    let mut harness = BackupHarness::new();
    let damaged = harness.put_blob(b"a letter");
    fs::write(&damaged, b"a lettex").unwrap();
    harness.write(".satchel-1-0.part", b"left by a process that was killed");
    let mut archive = Vec::new();
    let report = harness.write_archive(&mut archive).unwrap();
    assert_eq!(report.missing, [Sha256::digest(b"a letter")]);
    tar::Archive::new(archive.as_slice()).unpack(harness.repository_path()).unwrap();
    let verified = BackupRepository::open(&harness.repository_path()).unwrap().verify().unwrap();
    assert_eq!((verified.good, verified.damaged), (vec![report.id], Vec::new()));
    let from_archive = harness.restore("from-archive");
    fs::remove_dir_all(harness.repository_path()).unwrap();
    harness.add(1);
    assert_eq!(from_archive, harness.restore("from-directory"));
    assert_eq!(names(&from_archive), ["satchel.db", "workspaces/web=a/shared/notes/todo.txt"]);
    assert_eq!(leftovers(&harness.data()), Vec::<String>::new());
}

/// Takes so many bytes, and then no more.
struct ClosedPipe(usize);

impl io::Write for ClosedPipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn archive_that_is_cut_short_contains_no_backup() {
    let harness = BackupHarness::new();
    let mut archive = Vec::new();
    harness.write_archive(&mut archive).unwrap();
    // Two empty blocks end it; so the last ones of the manifest are missing.
    let manifest = archive.len() - 4 * 512;
    for taken in [0, 1, 512, archive.len() / 2, manifest] {
        let error = harness.write_archive(ClosedPipe(taken)).unwrap_err();
        assert!(matches!(error, BackupError::Stream(_)), "{taken}: {error}");
        assert_eq!(leftovers(&harness.data()), Vec::<String>::new(), "{taken}");
        let target = harness.directory.path().join(format!("cut-at-{taken}"));
        let _cut_short = tar::Archive::new(&archive[..taken]).unpack(&target);
        match BackupRepository::open(&target).and_then(|repository| repository.newest(Timestamp(i64::MAX))) {
            Err(BackupError::Empty(_) | BackupError::Io { .. } | BackupError::Damaged { .. }) => {}
            other => panic!("{taken}: {other:?}"),
        }
    }
}

/// The temporary files in a directory.
fn leftovers(directory: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.filter(|name| name.starts_with(".satchel-")).collect()
}
