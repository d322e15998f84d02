//! What Satchel keeps is for its owner alone, wherever it lies and whatever the umask; what it hands out goes by the umask.

#![expect(clippy::panic, reason = "a file that isn't where it must be ends the test with its name")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use satchel_requirements::{find_superuser, required};
use satchel_system::real_binary::{TestHome, run_to_end, satchel_binary};

use super::server_process::ServerProcess;

/// Satchel, started where new files are made with this umask.
fn command_with_umask(home: &TestHome, umask: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "umask \"$1\"; shift; exec \"$@\"", "sh", umask]).arg(satchel_binary()).args(arguments);
    home.apply_to(&mut command);
    command
}

fn read_mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode()
        & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// Everything beneath a directory, and itself.
fn list_tree(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("it is ours").map(|entry| entry.expect("it is read").path());
        entries.for_each(|entry| all.extend(list_tree(&entry)));
    }
    all
}

/// Every entry has the mode of a directory or of a file.
fn assert_modes(case: &str, root: &Path, directory: u32, file: u32) {
    for path in list_tree(root) {
        let expected = if path.is_dir() { directory } else { file };
        assert_eq!(format!("{:o}", read_mode(&path)), format!("{expected:o}"), "{case}: {}", path.display());
    }
}

/// Where everything lies elsewhere than in the data directory.
fn external_storage(home: &TestHome) -> Vec<String> {
    let root = home.root().display();
    [
        format!("storage.database_url=sqlite:{root}/database/satchel.db"),
        format!("storage.blobs_url=file:{root}/bytes"),
        format!("workspace.shared_dir={root}/shared"),
    ]
    .into_iter()
    .flat_map(|setting| ["--set".to_owned(), setting])
    .collect()
}

#[tokio::test]
async fn umask_applies_to_exports_but_not_stored_data() {
    for (umask, directories, files) in [("000", 0o777, 0o666), ("022", 0o755, 0o644), ("077", 0o700, 0o600)] {
        let home = TestHome::new();
        let photo = home.write_file("photo.txt", "words");
        let photo = photo.display().to_string();
        let chat = |text: &str, more: &[String]| {
            let mut arguments = vec!["chat", "--once", text, "--json", "--attach", &photo];
            arguments.extend(more.iter().map(String::as_str));
            let output = run_to_end(&mut command_with_umask(&home, umask, &arguments));
            assert_eq!(output.exit_code(), Some(0), "{umask}: {output:#?}");
        };
        chat("save this as things/a.txt and send it back", &[]);
        let server = ServerProcess::from_command(&mut command_with_umask(
            &home,
            umask,
            &["run", "--set", "web.listen=127.0.0.1:0", "--set", "model=offline"],
        ));
        server.send_and_wait("list my files").await;
        assert_modes(umask, &home.data_directory(), 0o700, 0o600);
        server.send_signal("TERM");
        assert_eq!(server.wait_for_exit().exit_code(), Some(0));
        assert_modes(umask, &home.data_directory(), 0o700, 0o600);
        assert!(
            list_tree(&home.data_directory()).iter().any(|path| path.ends_with("shared/things/a.txt")),
            "it was saved"
        );

        assert!(list_tree(&home.work_directory().join("files")).len() > 1, "something was sent");
        assert_modes(umask, &home.work_directory().join("files"), directories, files);
        let export = home.work_directory().join("export.txt");
        let arguments = ["attachments", "export", "1", "--to", &export.display().to_string()];
        let output = run_to_end(&mut command_with_umask(&home, umask, &arguments));
        assert_eq!(output.exit_code(), Some(0), "{umask}: {output:#?}");
        assert_modes(umask, &export, files, files);

        chat("save this as things/b.txt", &external_storage(&home));
        for kept in ["data", "database", "bytes"] {
            assert_modes(umask, &home.root().join(kept), 0o700, 0o600);
        }
        assert!(home.root().join("shared/things/b.txt").is_file(), "it was saved");
        assert_modes(umask, &home.root().join("shared"), directories, files);
    }
}

#[tokio::test]
async fn start_closes_what_an_earlier_version_left_open() {
    let home = TestHome::new();
    let more = external_storage(&home);
    let more: Vec<&str> = more.iter().take(4).map(String::as_str).collect();
    let photo = home.write_file("photo.txt", "words");
    let photo = photo.display().to_string();
    let start = || {
        let mut arguments = vec!["chat", "--once", "save this as things/a.txt", "--attach", &photo];
        arguments.extend(&more);
        let output = home.run(&arguments);
        assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    };
    start();
    // The bytes lie in a directory that holds other things too, and whose mode is not Satchel's to change.
    let letter = home.root().join("bytes/letter.txt");
    fs::write(&letter, "dear Ann").expect("there is room");
    for kept in ["data", "database", "bytes"] {
        for path in list_tree(&home.root().join(kept)) {
            set_mode(&path, if path.is_dir() { 0o755 } else { 0o644 });
        }
    }
    // An earlier version closed this one, and nothing in it.
    set_mode(&home.data_directory().join("workspaces"), 0o700);
    let mut arguments = vec!["run", "--set", "web.listen=127.0.0.1:0", "--set", "model=offline"];
    arguments.extend(&more);
    let mut server = ServerProcess::from_command(&mut home.satchel_command(&arguments));
    server.wait_for_log("removed other users' access to data of an earlier version");
    for kept in ["data", "database"] {
        assert_modes("after the start", &home.root().join(kept), 0o700, 0o600);
    }
    let bytes = home.root().join("bytes");
    assert_eq!((read_mode(&bytes), read_mode(&letter)), (0o755, 0o644), "they are not Satchel's");
    for entry in fs::read_dir(&bytes).expect("it is ours").map(|entry| entry.expect("it is read").path()) {
        if entry != letter {
            assert_modes("after the start", &entry, 0o700, 0o600);
        }
    }
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
}

#[test]
fn doctor_looks_where_the_configuration_points() {
    let home = TestHome::new();
    let more = external_storage(&home);
    let doctor = || {
        let mut command = home.satchel_command(&["doctor", "--json", "--set", "web.listen=127.0.0.1:0"]);
        run_to_end(command.args(["--set", "model=offline"]).args(&more)).stdout
    };
    let photo = home.write_file("photo.txt", "words");
    let mut command = home.satchel_command(&["chat", "--once", "save this as a.txt", "--attach"]);
    let output = run_to_end(command.arg(&photo).args(&more));
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    assert!(
        !doctor().contains(r#""check": "permissions", "level": "warning""#)
            && !doctor().contains("other users of this machine can access")
    );
    for (path, mode, told) in [
        ("data", 0o750, "(mode 750)"),
        ("database", 0o755, "(mode 755)"),
        ("database/satchel.db", 0o640, "(mode 640)"),
        ("bytes", 0o755, "(mode 755)"),
        ("bytes/incoming", 0o707, "(mode 707)"),
        ("shared", 0o777, "every user of this machine can change the files in the shared workspace"),
    ] {
        let path = home.root().join(path);
        let before = read_mode(&path);
        set_mode(&path, mode);
        let found = doctor();
        assert!(found.contains(told) && found.contains(&path.display().to_string()), "{}: {found}", path.display());
        set_mode(&path, before);
    }
}

#[test]
fn doctor_names_the_user_of_a_file_that_was_given_away() {
    let Some(()) = required(find_superuser()) else { return };
    let home = TestHome::new();
    let more = external_storage(&home);
    let output = run_to_end(home.satchel_command(&["chat", "--once", "hi"]).args(&more));
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    let path = home.root().join("database/satchel.db");
    std::os::unix::fs::chown(&path, Some(12_345), None).expect("the superuser may");
    let mut doctor = home.satchel_command(&["doctor", "--json", "--set", "web.listen=127.0.0.1:0"]);
    let found = run_to_end(doctor.args(["--set", "model=offline"]).args(&more)).stdout;
    assert!(found.contains("belongs to user 12345") && found.contains("chown"), "{found}");
}
