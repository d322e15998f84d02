//! Backups and restores killed before every change that they make to the disk's names, and before every sync.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Command,
};

use satchel_domain::{Sha256, Timestamp};
use satchel_files::backup::BackupRepository;
use satchel_requirements::required;
use satchel_system::real_binary::{TestHome, run_to_end};

use super::{back_up, files_in, list_backups, path_text, restored_files};
use crate::durability::find_strace;

/// The system calls before which the process is killed. Each is counted by itself.
const KILLED_CALLS: [&str; 11] = [
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "mkdir",
    "mkdirat",
    "unlink",
    "unlinkat",
];

/// Fewer kill points than this mean that the calls are not traced.
const MIN_KILL_POINTS: usize = 20;

const SIGKILL: i32 = 9;

/// Runs `satchel` and kills it before the `number`-th call of this name in one of its threads. Returns whether it got that
/// far.
fn is_killed_at(home: &TestHome, (call, number): (&str, usize), arguments: &[&str]) -> bool {
    let mut command = Command::new("strace");
    home.apply_to(command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]));
    command.args(["-e", &format!("inject={call}:signal=SIGKILL:when={number}")]);
    command.arg(home.satchel_command(arguments).get_program()).args(arguments);
    let output = run_to_end(&mut command);
    match output.status.signal() {
        Some(SIGKILL) => true,
        _ => {
            assert_eq!(output.exit_code(), Some(0), "{call} {number}: {output:#?}");
            false
        }
    }
}

/// Tries every kill point: `try_point` returns whether its process got that far.
fn try_kill_points(mut try_point: impl FnMut((&str, usize)) -> bool) {
    let count = |call: &&str| (1..).take_while(|number| try_point((*call, *number))).count();
    let killed: usize = KILLED_CALLS.iter().map(count).sum();
    assert!(killed >= MIN_KILL_POINTS, "it changes more than {killed} times what is on the disk");
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir(to).expect("it is new");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_directory(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).expect("it can be copied")),
        }
    }
}

/// Has the assistant keep a file, and returns its digest.
fn save(home: &TestHome, name: &str) -> String {
    let content = format!("the content of {name}\n").repeat(1_000);
    let file = home.write_file(name, &content);
    assert_eq!(home.run_once("save this as note.txt", &[&file]).exit_code(), Some(0));
    Sha256::digest(content).to_string()
}

/// The number of good backups; the test fails if one is damaged.
fn count_verified(directory: &Path, case: &str) -> usize {
    let report = BackupRepository::open(directory).and_then(|repository| repository.verify()).expect("it can be read");
    assert_eq!(report.damaged, [], "{case}");
    report.good.len()
}

#[test]
fn backup_killed_at_any_change_leaves_the_one_before() {
    let Some(()) = required(find_strace()) else { return };
    let home = TestHome::new();
    let (base, directory) = (home.root().join("base"), home.root().join("backups"));
    let first = BTreeSet::from([save(&home, "first.txt")]);
    back_up(&home, &base);
    let second: BTreeSet<String> = first.iter().cloned().chain([save(&home, "second.txt")]).collect();
    let before = list_backups(&home, &base);
    try_kill_points(|point| {
        copy_directory(&base, &directory);
        // One backup stays, so that the removal of the other is killed, too.
        let was_killed = is_killed_at(&home, point, &["backup", "create", path_text(&directory), "--keep", "1"]);
        let case = format!("killed-at-{}-{}", point.0, point.1);
        let complete = BackupRepository::open(&directory).and_then(|repository| repository.newest(Timestamp(i64::MAX)));
        let is_new = complete.expect("there is always a backup").0.to_string() != before[0];
        assert!((1..=2).contains(&count_verified(&directory, &case)), "{case}");
        let expected = if is_new { &second } else { &first };
        assert_eq!(restored_files(&home, &directory, &format!("restored-{case}")), *expected, "{case}");
        // What the killed one has left is in nobody's way.
        back_up(&home, &directory);
        assert_eq!(restored_files(&home, &directory, &format!("restored-{case}-later")), second, "{case}");
        assert_eq!(temporary_files(&directory), Vec::<PathBuf>::new(), "{case}");
        fs::remove_dir_all(&directory).expect("it is ours");
        assert!(was_killed || is_new, "{case}");
        was_killed
    });
}

fn temporary_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))).collect()
}

#[test]
fn restore_killed_at_any_change_is_complete_or_not_there() {
    let Some(()) = required(find_strace()) else { return };
    let home = TestHome::new();
    let (directory, target) = (home.root().join("backups"), home.root().join("restored"));
    let files = BTreeSet::from([save(&home, "first.txt")]);
    back_up(&home, &directory);
    let data = format!("storage.data_dir={}", path_text(&target));
    try_kill_points(|point| {
        let restore = ["backup", "restore", path_text(&directory), "--to", path_text(&target)];
        let was_killed = is_killed_at(&home, point, &restore);
        let case = format!("killed at {} {}", point.0, point.1);
        if !target.exists() {
            assert!(was_killed, "{case}");
            let completed = home.run(&restore);
            assert_eq!(completed.exit_code(), Some(0), "{case}: {completed:#?}");
        }
        assert_eq!(files_in(&home, &target), files, "{case}");
        let refused = home.run(&["chat", "--once", "hello", "--set", &data]);
        assert!(refused.stderr.contains("waits for your decision"), "{case}: {refused:#?}");
        fs::remove_dir_all(&target).expect("it is ours");
        was_killed
    });
}
