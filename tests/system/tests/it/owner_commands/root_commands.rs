//! Root's commands where the data is another user's, such as those of an administrator beside a service.

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown},
    path::{Path, PathBuf},
};

use satchel_requirements::{find_superuser, required};
use satchel_system::real_binary::TestHome;

/// The user to whom the data belongs.
const OWNER: u32 = 65_534;

/// Everything beneath a directory, and itself.
fn list_tree(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("it is read").map(|entry| entry.expect("it is read").path());
        entries.for_each(|entry| all.extend(list_tree(&entry)));
    }
    all
}

/// Gives everything beneath a path to another user.
fn give_away(path: &Path) {
    for path in list_tree(path) {
        chown(path, Some(OWNER), None).expect("the superuser may");
    }
}

/// Runs a command of root's that must be refused, and checks that it says what to run instead.
fn assert_refused(home: &TestHome, command: &[&str]) {
    let output = home.run(command);
    output.assert_no_crash(&command.join(" "));
    assert_eq!(output.exit_code(), Some(2), "{command:?}: {output:#?}");
    let is_named = ["-u nobody ", "-u '#65534' "].iter().any(|user| output.stderr.contains(user));
    let told = output.stderr.contains("`sudo --preserve-env=SATCHEL_STORAGE__DATA_DIR -u ");
    assert!(is_named && told && output.stderr.contains(&command.join(" ")), "{command:?}: {output:#?}");
}

/// Only root can work on another user's data, and give files away to try it.
#[test]
fn root_leaves_no_file_in_another_users_data() {
    let Some(()) = required(find_superuser()) else { return };
    let home = TestHome::new();
    let said = home.run_once("hello", &[]);
    assert_eq!(said.exit_code(), Some(0), "{said:#?}");
    home.write_file("x.star", "return 1\n");
    let restored = home.root().join("restored");
    fs::create_dir(&restored).expect("a new directory");
    let commands: [&[&str]; 14] = [
        &["run", "--set", "web.listen=127.0.0.1:0"],
        &["web", "link"],
        &["web", "logins"],
        &["doctor", "--set", "web.listen=127.0.0.1:0"],
        &["chat", "--once", "hi"],
        &["send", "console:main", "hi"],
        &["script", "run", "x.star"],
        &["outbox", "list"],
        &["attachments", "gc"],
        &["attachments", "resolve", "satchel.yaml"],
        &["audit"],
        &["pair", "list"],
        &["backup", "create", "backup"],
        &["backup", "restore", ".", "--to", "../restored"],
    ];
    give_away(&home.data_directory());
    give_away(&restored);
    for command in commands {
        assert_refused(&home, command);
        for path in list_tree(&home.data_directory()).into_iter().chain(list_tree(&restored)) {
            let owner = fs::symlink_metadata(&path).expect("it is there").uid();
            assert_eq!(owner, OWNER, "{command:?} left {}", path.display());
        }
    }
    // Commands that touch no data are as they were.
    for command in [&["config", "check"][..], &["task", "list"]] {
        let output = home.run(command);
        assert_eq!(output.exit_code(), Some(0), "{command:?}: {output:#?}");
    }
}

/// Catches: a first start by root in the home of a service, which can't start there afterwards.
#[test]
fn root_makes_no_directory_in_another_users() {
    let Some(()) = required(find_superuser()) else { return };
    let home = TestHome::new();
    let (service, backups) = (home.root().join("service"), home.root().join("backups"));
    for directory in [&service, &backups] {
        fs::create_dir(directory).expect("a new directory");
        give_away(directory);
    }
    let backup_to = format!("backup.to={}", backups.display());
    let commands: [&[&str]; 5] = [
        &["chat", "--once", "hi", "--set", "storage.data_dir=../service/data"],
        &["run", "--set", "web.listen=127.0.0.1:0", "--set", "storage.data_dir=../service/a/data"],
        &["chat", "--once", "hi", "--set", "storage.blobs_url=file:../service/bytes"],
        &["backup", "restore", ".", "--to", "../service/restored"],
        &["run", "--set", "web.listen=127.0.0.1:0", "--set", &backup_to],
    ];
    for command in commands {
        assert_refused(&home, command);
        for directory in [&service, &backups] {
            assert_eq!(list_tree(directory), std::slice::from_ref(directory), "{command:?}");
        }
        assert!(!home.data_directory().exists(), "{command:?}");
    }
}
