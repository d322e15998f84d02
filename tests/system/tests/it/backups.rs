//! Backups with the real binary: of a running process, killed, on a full disk, through a pipe, and restored.

mod kill_points;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use satchel_domain::Sha256;
use satchel_fake_kit::FakeFile;
use satchel_fake_telegram::{FakeTelegram, FileKind, PersonMessage, TelegramRules};
use satchel_requirements::required;
use satchel_system::real_binary::{ProcessOutput, TestHome, run_to_end, satchel_binary};
use satchel_wait::wait_until;

use crate::full_disk::small_disk::SmallDisk;

const ANN: i64 = 41;

fn path_text(path: &Path) -> &str {
    path.to_str().expect("temporary directories have UTF-8 names")
}

/// Runs `satchel backup` with these arguments on the home's data.
fn run_backup(home: &TestHome, arguments: &[&str]) -> ProcessOutput {
    home.run(&[&["backup"], arguments].concat())
}

/// Makes a backup that must succeed.
fn back_up(home: &TestHome, directory: &Path) -> ProcessOutput {
    let output = run_backup(home, &["create", path_text(directory)]);
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    output
}

fn list_backups(home: &TestHome, directory: &Path) -> Vec<String> {
    let output = run_backup(home, &["list", path_text(directory), "--json"]);
    let listed = output.json();
    let ids = listed.as_array().expect("a list").iter().map(|backup| backup["id"].as_str().expect("an id").to_owned());
    ids.collect()
}

fn assert_verified(home: &TestHome, directory: &Path) {
    let output = run_backup(home, &["verify", path_text(directory)]);
    assert!(output.exit_code() == Some(0) && !output.stdout.contains("DAMAGED"), "{output:#?}");
}

/// Restores the newest backup, and returns the digests of the files that its ledger has, each of which it has whole.
fn restored_files(home: &TestHome, directory: &Path, name: &str) -> BTreeSet<String> {
    let target = home.root().join(name);
    let output = run_backup(home, &["restore", path_text(directory), "--to", path_text(&target)]);
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    files_in(home, &target)
}

fn files_in(home: &TestHome, data_dir: &Path) -> BTreeSet<String> {
    let data = format!("storage.data_dir={}", path_text(data_dir));
    let listed = home.run(&["attachments", "list", "--json", "--set", &data]).json();
    let digests = listed.as_array().expect("a list").iter().map(|file| file["sha256"].as_str().expect("a digest"));
    digests
        .map(|digest| {
            let blob = data_dir.join("blobs").join(&digest[..2]).join(&digest[2..4]).join(digest);
            let bytes = fs::read(&blob).expect("the copy has the bytes of its files");
            assert_eq!(Sha256::digest(bytes).to_string(), digest);
            digest.to_owned()
        })
        .collect()
}

/// A process that is killed when dropped.
struct KilledAtEnd(Child);

impl Drop for KilledAtEnd {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_of_running_process_has_all_that_was_answered() {
    let (home, telegram) = (TestHome::new(), FakeTelegram::start(TelegramRules::default()).await.expect("a port"));
    let chats: Vec<i64> = (ANN..ANN + 4).collect();
    for chat in &chats {
        telegram.private_chat(telegram.person(*chat, "Ann"));
    }
    home.write_file(
        "satchel.yaml",
        format!(
            "telegram: {{ token: '{}', api_url: '{}', owners: {chats:?} }}\nmodel: offline\nweb: {{ listen: off }}\n\
             delivery: {{ pace: off }}\n",
            telegram.token(),
            telegram.api_url()
        ),
    );
    let mut serve = home.satchel_command(&["run"]);
    let _server = KilledAtEnd(serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts"));
    let directory = home.root().join("backups");
    let mut answered = BTreeSet::new();
    for round in 0..3_u64 {
        let send = |chat: i64, name: &str| {
            let file = FakeFile::generated(
                format!("{name}.bin"),
                "application/octet-stream",
                round * 100 + chat as u64,
                200_000,
            );
            let sent =
                PersonMessage::file(FileKind::Document, file.clone()).caption(&format!("save this as {name}.bin"));
            telegram.person_sends(chat, chat, sent);
            file.sha256().to_string()
        };
        let before: Vec<usize> = chats.iter().map(|chat| telegram.transcript().texts(*chat).len()).collect();
        answered.extend(chats.iter().map(|chat| send(*chat, &format!("file-{round}"))));
        let is_answered = || {
            let counts = chats.iter().map(|chat| telegram.transcript().texts(*chat).len());
            counts.zip(&before).all(|(now, before)| now > *before)
        };
        wait_until("a reply in each chat", is_answered).await;
        // These are on their way while the backup is made.
        chats.iter().for_each(|chat| drop(send(*chat, &format!("later-{round}"))));
        back_up(&home, &directory);
        let restored = restored_files(&home, &directory, &format!("restored-{round}"));
        assert!(answered.is_subset(&restored), "{round}: {answered:?} in {restored:?}");
        let note = home.root().join(format!("restored-{round}/workspaces/telegram={ANN}/shared/file-{round}.bin"));
        assert_eq!(fs::metadata(&note).map(|file| file.len()).ok(), Some(200_000), "{}", note.display());
    }
    assert_eq!(list_backups(&home, &directory).len(), 3);
    assert_verified(&home, &directory);
    let copy = format!("storage.data_dir={}", path_text(&home.root().join("restored-2")));
    let beside = run_backup(&home, &["release", "--unsettled", "drop", "--set", &copy]);
    assert!(beside.exit_code() == Some(1) && beside.stderr.contains("is running with the data in"), "{beside:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_process_makes_backups_and_removes_old_ones() {
    let home = TestHome::new();
    let directory = home.root().join("backups");
    home.write_file(
        "satchel.yaml",
        format!(
            "model: offline\nweb: {{ listen: '127.0.0.1:0' }}\nbackup: {{ to: '{}', every: 300ms, keep: 2 }}\n",
            path_text(&directory)
        ),
    );
    let missing = home.run(&["doctor"]);
    assert!(missing.stdout.contains("no backup can be made in"), "{missing:#?}");
    fs::create_dir(&directory).expect("it is new");
    let mut serve = home.satchel_command(&["run"]);
    let _server = KilledAtEnd(serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts"));
    let manifests = || -> BTreeSet<String> {
        let entries = fs::read_dir(directory.join("manifests")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    wait_until("two backups", || manifests().len() == 2).await;
    let first = manifests();
    wait_until("later ones in their place", || manifests().len() == 2 && manifests().is_disjoint(&first)).await;
}

#[test]
fn restored_copy_starts_once_its_owner_has_decided() {
    let home = TestHome::new();
    assert_eq!(home.run_once("hello", &[]).exit_code(), Some(0));
    back_up(&home, Path::new("../backups"));
    let restored = run_backup(&home, &["restore", "../backups", "--to", "../restored"]);
    assert!(restored.stdout.contains("satchel backup held --set storage.data_dir="), "{restored:#?}");
    let copy = format!("storage.data_dir={}", path_text(&home.root().join("restored")));
    for command in [&["run"][..], &["chat", "--once", "hello"]] {
        let refused = home.run(&[command, &["--set", &copy]].concat());
        assert!(refused.exit_code() == Some(1) && refused.stderr.contains("waits for your decision"), "{refused:#?}");
    }
    let held = run_backup(&home, &["held", "--set", &copy]);
    assert!(held.stdout.starts_with("restored from a backup of ") && held.stdout.contains("fell due"), "{held:#?}");
    let released = run_backup(&home, &["release", "--set", &copy]);
    assert_eq!(released.exit_code(), Some(0), "{released:#?}");
    let reply = home.run(&["chat", "--once", "hello", "--set", &copy]);
    assert_eq!(reply.exit_code(), Some(0), "{reply:#?}");
    let original = run_backup(&home, &["held"]);
    assert!(original.stdout.contains("was not restored from a backup"), "{original:#?}");
}

#[test]
fn killed_backup_leaves_those_before_good() {
    let (home, directory) = (TestHome::new(), PathBuf::from("../backups"));
    let mut files = BTreeSet::new();
    let mut save = |round: u64| {
        let bytes: Vec<u8> = (0..3_000_000_u64).map(|byte| (byte.wrapping_mul(round + 7) >> 5) as u8).collect();
        files.insert(Sha256::digest(&bytes).to_string());
        let file = home.write_file(format!("{round}.bin"), bytes);
        assert_eq!(home.run_once("keep this", &[&file]).exit_code(), Some(0));
        files.clone()
    };
    let mut expected = save(0);
    back_up(&home, &directory);
    let mut killed = 0;
    for round in 1..=12 {
        let saved = save(round);
        let before = list_backups(&home, &directory);
        let mut command = home.satchel_command(&["backup", "create", path_text(&directory)]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
        std::thread::sleep(Duration::from_millis(12 * round)); // The kill is to fall anywhere in the run.
        let _ended_already = child.kill();
        let was_killed = !child.wait().expect("a child can be waited for").success();
        killed += usize::from(was_killed);
        let after = list_backups(&home, &directory);
        assert!(after.starts_with(&before), "{before:?} then {after:?}");
        // It may have been killed with its work done.
        if after.len() > before.len() {
            expected = saved;
        }
        assert_verified(&home, &directory);
        assert_eq!(restored_files(&home, &directory, &format!("restored-{round}")), expected, "{round}");
    }
    assert!(killed > 3, "only {killed} were killed in time");
    let saved = save(13);
    back_up(&home, &directory);
    assert_eq!(restored_files(&home, &directory, "restored"), saved);
}

#[test]
fn full_target_is_reported_and_backup_before_stays_good() {
    let home = TestHome::new();
    let Some(disk) = required(SmallDisk::mount(&home, 12)) else { return };
    let (target, data) = (home.data_directory().join("backups"), home.root().join("small-data"));
    let run = |arguments: &[&str]| {
        let mut command: Command = disk.command(&home, &satchel_binary(), arguments);
        run_to_end(command.env("SATCHEL_STORAGE__DATA_DIR", &data))
    };
    let backup = |arguments: &[&str]| run(&[&["backup"], arguments, &[path_text(&target)]].concat());
    let note = home.write_file("note.txt", "buy milk");
    assert_eq!(run(&["chat", "--once", "keep this", "--attach", path_text(&note)]).exit_code(), Some(0));
    let first = backup(&["create"]);
    assert_eq!(first.exit_code(), Some(0), "{first:#?}");
    let large = home.write_file("large.bin", vec![7; 15_000_000]);
    assert_eq!(run(&["chat", "--once", "keep this", "--attach", path_text(&large)]).exit_code(), Some(0));
    let refused = backup(&["create"]);
    assert_eq!(refused.exit_code(), Some(1), "{refused:#?}");
    assert!(refused.stderr.contains("no space is left for the backup in"), "{refused:#?}");
    let verified = backup(&["verify"]);
    assert!(verified.exit_code() == Some(0) && verified.stdout.starts_with("good"), "{verified:#?}");
    assert_eq!(verified.stdout.matches("good").count(), 1, "{verified:#?}");
    assert!(disk.free_bytes() > 8_000_000, "what was written of the other is removed");
}

#[test]
fn archive_from_standard_output_is_restored() {
    let home = TestHome::new();
    let note = home.write_file("note.txt", "buy milk");
    assert_eq!(home.run_once("keep this", &[&note]).exit_code(), Some(0));
    let output = home.satchel_command(&["backup", "create", "-"]).output().expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.starts_with("backup 2") && said.contains(" files, "), "{said}");
    let archive = home.root().join("archive.tar");
    fs::write(&archive, &output.stdout).expect("a file can be made");
    let directory = home.root().join("unpacked");
    fs::create_dir(&directory).expect("it is new");
    // What everybody has.
    let unpacked = Command::new("tar").args(["-xf", path_text(&archive), "-C", path_text(&directory)]).output();
    assert!(unpacked.as_ref().is_ok_and(|tar| tar.status.success()), "{unpacked:?}");
    assert_verified(&home, &directory);
    let expected = BTreeSet::from([Sha256::digest("buy milk").to_string()]);
    assert_eq!(restored_files(&home, &directory, "restored"), expected);
}

#[test]
fn pipe_that_is_closed_ends_the_backup_with_an_error() {
    let home = TestHome::new();
    home.run_once("hello", &[]);
    let mut command = home.satchel_command(&["backup", "create", "-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("a child can be waited for");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("contains no backup"), "{said}");
}

#[test]
fn what_makes_no_backup_is_refused_in_words() {
    let home = TestHome::new();
    home.run_once("hello", &[]);
    let data = home.data_directory();
    for (arguments, expected) in [
        (["create", path_text(&data.join("backups"))], "are within each other"),
        (["create", "missing/backups"], "failed to open the directory"),
        (["list", path_text(&data)], "there is no backup in"),
        (["verify", "missing"], "failed to open the directory"),
    ] {
        let output = run_backup(&home, &arguments);
        assert!(output.exit_code() == Some(1) && output.stderr.contains(expected), "{arguments:?}: {output:#?}");
    }
    for (arguments, expected) in [
        (&["create", "-", "--keep", "2"][..], "removes backups from a directory"),
        (&["verify", "-"], "an archive is unpacked first"),
        (&["list", "-"], "an archive is unpacked first"),
        (&["restore", "-", "--to", "new"], "an archive is unpacked first"),
    ] {
        let output = run_backup(&home, arguments);
        assert!(output.exit_code() == Some(2) && output.stderr.contains(expected), "{arguments:?}: {output:#?}");
    }
    back_up(&home, Path::new("../backups"));
    let refused = run_backup(&home, &["restore", "../backups", "--to", path_text(&data)]);
    assert!(refused.exit_code() == Some(1) && refused.stderr.contains("is not empty"), "{refused:#?}");
    let unknown = run_backup(&home, &["restore", "../backups", "--to", "new", "--backup", "20200101T000000Z-00000000"]);
    assert!(unknown.stderr.contains("there is no backup 20200101T000000Z-00000000 in"), "{unknown:#?}");
}
