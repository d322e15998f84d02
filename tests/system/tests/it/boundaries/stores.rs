//! A database that can't be used, a disk without room, a directory that may not be written to.

use std::{
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use satchel_domain::Ending;
use satchel_ledger_sqlite::Settings;
use satchel_local::ScriptedModel;
use satchel_requirements::required;
use satchel_system::{
    crash::ChannelAdapter,
    real_binary::{TestHome, run_to_end, satchel_binary, wait_for_exit},
};

use super::files::command_without_privileges;
use crate::product::{Product, ProductSetup};

/// Runs statements on the database with Python's SQLite.
fn run_sqlite_script(home: &TestHome, statements: &str) -> Result<(), &'static str> {
    let script =
        format!("import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\n{statements}\ndb.commit()\ndb.close()\n");
    let mut command = Command::new("python3");
    command.args(["-c", &script]).arg(home.data_directory().join("satchel.db"));
    let has_succeeded = command.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if has_succeeded { Ok(()) } else { Err("python3 with sqlite3, to do to the database what Satchel never does") }
}

/// Damages a database's bytes.
type DamageFn<'a> = dyn Fn(Vec<u8>) -> Vec<u8> + 'a;

#[test]
fn broken_database_is_reported_and_left_unchanged() {
    let garbage: Vec<u8> = (0..20_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let cases: [(&str, &DamageFn<'_>, &str); 4] = [
        ("garbage", &|_| garbage.clone(), "not a Satchel database"),
        ("cut off", &|mut whole| whole.drain(..9_000).collect(), "damaged"),
        ("another program's file", &|_| b"PK\x03\x04 a zip archive".repeat(400), "not a Satchel database"),
        (
            "overwritten in the middle",
            &|mut whole| {
                whole[100..60_000].fill(0xA5);
                whole
            },
            "damaged",
        ),
    ];
    for (case, damage, expected) in cases {
        let home = TestHome::new();
        assert_eq!(home.run_once("hi", &[]).exit_code(), Some(0), "{case}");
        let database = home.data_directory().join("satchel.db");
        let Some(()) = required(run_sqlite_script(&home, "db.execute('pragma wal_checkpoint(truncate)')")) else {
            return;
        };
        let broken = damage(std::fs::read(&database).expect("the first run left a database"));
        for beside in ["satchel.db-wal", "satchel.db-shm"] {
            let _is_gone_after_a_good_end = std::fs::remove_file(home.data_directory().join(beside));
        }
        std::fs::write(&database, &broken).expect("it is ours");
        for arguments in [&["chat", "--once", "hi"][..], &["attachments", "list"], &["outbox", "list"]] {
            let output = home.run(arguments);
            output.assert_no_crash(case);
            assert_eq!(output.exit_code(), Some(1), "{case}, {arguments:?}: {output:#?}");
            assert!(
                output.stderr.contains("satchel.db") && output.stderr.contains(expected),
                "{case}: {}",
                output.stderr
            );
        }
        assert!(std::fs::read(&database).is_ok_and(|now| now == broken), "{case}: evidence is not written over");
    }
}

#[test]
fn newer_database_is_left_untouched() {
    let home = TestHome::new();
    assert_eq!(home.run_once("hi", &[]).exit_code(), Some(0));
    let newer = "db.execute(\"pragma user_version = 99991231\")";
    let Some(()) = required(run_sqlite_script(&home, newer)) else { return };
    let output = home.run(&["chat", "--once", "hi"]);
    output.assert_no_crash("newer");
    assert_eq!(output.exit_code(), Some(1), "{output:#?}");
    assert!(output.stderr.contains("newer Satchel") && output.stderr.contains("update"), "{}", output.stderr);
}

#[test]
fn unwritable_data_directory_is_reported() {
    for (case, filled) in [("empty", false), ("in use before", true)] {
        let home = TestHome::new();
        std::fs::create_dir_all(home.data_directory()).expect("a directory");
        if filled {
            assert_eq!(home.run_once("hi", &[]).exit_code(), Some(0));
        }
        let Some(mut command) = required(command_without_privileges(&home)) else { return };
        let closed = Command::new("chmod").args(["-R", "a-w"]).arg(home.data_directory()).status();
        assert!(closed.is_ok_and(|status| status.success()));
        let output = run_to_end(command.args(["chat", "--once", "hi"]));
        output.assert_no_crash(case);
        assert_eq!(output.exit_code(), Some(1), "{case}: {output:#?}");
        let data = home.data_directory().display().to_string();
        assert!(output.stderr.contains(&data), "{case}: {}", output.stderr);
        assert!(["permission", "read-only"].iter().any(|why| output.stderr.contains(why)), "{case}: {}", output.stderr);
        std::fs::set_permissions(home.data_directory(), PermissionsExt::from_mode(0o755)).expect("root may");
    }
}

/// A file system of its own for one script, which vanishes with it.
fn command_on_small_disk(home: &TestHome, script: &str) -> Result<Command, &'static str> {
    let disk = home.root().join("disk");
    std::fs::create_dir(&disk).expect("a new directory");
    let namespace_flags = ["--mount", "--map-root-user"];
    let mount = format!("mount -t tmpfs -o size=2m tmpfs '{}'", disk.display());
    let probe = Command::new("unshare").args(namespace_flags).args(["sh", "-c", &mount]).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        return Err("the right to mount a small disk");
    }
    let mut command = Command::new("unshare");
    home.apply_to(&mut command);
    command.env("SATCHEL_STORAGE__DATA_DIR", &disk).env("DISK", &disk).env("SATCHEL", satchel_binary());
    command.args(namespace_flags).args(["sh", "-c", &format!("{mount} && {script}")]);
    Ok(command)
}

#[test]
fn file_without_space_is_reported_and_conversation_continues() {
    let home = TestHome::new();
    home.write_file("three.bin", vec![7; 3_000_000]);
    home.write_file("small.txt", "small");
    let script = "\"$SATCHEL\" chat --once 'save these' --attach three.bin --attach small.txt\n\
                  echo \"first: $?\"\n\
                  \"$SATCHEL\" chat --once 'send small.txt'\n\
                  echo \"second: $?\"\n\
                  ls \"$DISK\"/blobs/incoming";
    let Some(mut command) = required(command_on_small_disk(&home, script)) else { return };
    let output = run_to_end(&mut command);
    output.assert_no_crash("full disk");
    assert!(output.stdout.contains("three.bin") && output.stdout.contains("the disk is nearly full: "), "{output:#?}");
    assert!(output.stdout.contains("first: 0") && output.stdout.contains("second: 0"), "{output:#?}");
    assert!(output.stdout.ends_with("second: 0\n"), "no half of a file is left: {output:#?}");
    let delivered = home.work_directory().join("files/1-small.txt");
    assert_eq!(std::fs::read_to_string(delivered).ok().as_deref(), Some("small"));
}

#[test]
fn message_without_space_is_refused_and_reported() {
    let home = TestHome::new();
    let script = "\"$SATCHEL\" chat --once hi > /dev/null\n\
                  head -c 2097152 /dev/zero > \"$DISK\"/filler 2>/dev/null\n\
                  \"$SATCHEL\" chat --once 'write a.txt: kept'\n\
                  echo \"full: $?\"\n\
                  rm \"$DISK\"/filler\n\
                  \"$SATCHEL\" chat --once 'write b.txt: kept'\n\
                  echo \"after: $?\"";
    let Some(mut command) = required(command_on_small_disk(&home, script)) else { return };
    let output = run_to_end(&mut command);
    output.assert_no_crash("full disk");
    assert!(output.stdout.contains("full: 1"), "{output:#?}");
    assert!(output.stderr.contains("no space is left"), "{output:#?}");
    assert!(output.stdout.contains("after: 0"), "with room again it works again: {output:#?}");
}

#[tokio::test]
async fn full_database_leaves_message_with_the_platform() {
    let mut setup = ProductSetup::for_platform(ChannelAdapter::Telegram);
    setup.settings = Settings { max_bytes: Some(400 * 1024), ..Settings::default() };
    let product = Product::start(setup, Arc::new(ScriptedModel::from_texts(["one", "two"]))).await;
    assert_eq!(product.send("hello", Vec::new()).await.ending, Some(Ending::Done));
    product.platform.person_says(&product.conversation, &"x".repeat(600 * 1024));
    let retries = async {
        while product.failed_messages() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), retries).await.expect("storing it is tried again");
    assert_eq!(product.platform.unconfirmed_updates(), 1, "the platform was not told that it is taken");
    assert_eq!(product.texts(), ["one"]);
    product.stop().await;
}

#[test]
fn looking_where_no_data_is_creates_none() {
    let part = "0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e";
    for arguments in [
        &["pair", "list"][..],
        &["pair", "list", "--json"],
        &["pair", "approve", "ABCD-EFGH"],
        &["outbox", "list"],
        &["outbox", "show", part],
        &["attachments", "list", "--json"],
        &["attachments", "show", "17"],
        &["attachments", "usage"],
        &["attachments", "remove", "17"],
        &["attachments", "gc"],
    ] {
        let home = TestHome::new();
        let output = home.run(arguments);
        output.assert_no_crash("no data");
        assert_eq!((output.exit_code(), output.stdout.as_str()), (Some(1), ""), "{arguments:?}: {output:#?}");
        let data = home.data_directory().display().to_string();
        for words in [data.as_str(), "configuration: none found", "`--config FILE`", "nothing was created"] {
            assert!(output.stderr.contains(words), "{arguments:?}: no {words:?} in {}", output.stderr);
        }
        assert!(!home.data_directory().exists(), "{arguments:?}");
    }
}

/// A job names its configuration, and is started wherever the system starts jobs.
#[test]
fn named_configuration_means_the_same_data_from_anywhere() {
    let home = TestHome::new();
    let (file, elsewhere) = (home.root().join("etc/family.yaml"), home.root().join("elsewhere"));
    for directory in [&home.root().join("etc"), &elsewhere] {
        std::fs::create_dir(directory).expect("a new directory");
    }
    std::fs::write(&file, "model: offline\n").expect("it takes files");
    let run = |directory: &std::path::Path, arguments: &[&str]| {
        let mut command = home.satchel_command(&["--config", file.to_str().expect("a temporary path is text")]);
        command.args(arguments).env_remove("SATCHEL_STORAGE__DATA_DIR").current_dir(directory);
        run_to_end(&mut command)
    };
    let written = run(&home.work_directory(), &["chat", "--once", "hi"]);
    assert_eq!(written.exit_code(), Some(0), "{written:#?}");
    let data = home.root().join("etc/satchel-data");
    assert!(data.join("satchel.db").is_file() && !home.work_directory().join("satchel-data").exists());
    // A missing part may be in other data, so the error says which was used.
    let part = "0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e";
    let missing = run(&elsewhere, &["outbox", "show", part]);
    assert_eq!(missing.exit_code(), Some(1), "{missing:#?}");
    let place = format!("data: {} (configuration: {})", data.display(), file.display());
    assert!(missing.stderr.contains(&format!("there is no part {part}\n{place}")), "{}", missing.stderr);
    assert!(!elsewhere.join("satchel-data").exists());
}

/// Catches: an upgrade after which everything that was said seems to be gone.
#[test]
fn data_that_an_earlier_version_had_elsewhere_is_not_passed_over() {
    let home = TestHome::new();
    let (etc, earlier) = (home.root().join("etc"), home.root().join(".local/share/satchel"));
    std::fs::create_dir(&etc).expect("a new directory");
    let file = etc.join("family.yaml");
    std::fs::write(&file, "model: offline\n").expect("it takes files");
    home.write_file("x.star", "return 1\n");
    let run = |arguments: &[&str]| {
        let mut command = home.satchel_command(arguments);
        run_to_end(command.env_remove("SATCHEL_STORAGE__DATA_DIR"))
    };
    let written = run(&["chat", "--once", "hi"]);
    assert!(written.exit_code() == Some(0) && earlier.join("satchel.db").is_file(), "{written:#?}");
    let config = file.to_str().expect("a temporary path is text");
    let (keep, data) = (format!("storage.data_dir={}", earlier.display()), etc.join("satchel-data"));
    let told = [
        format!("there is no data in {},", data.display()),
        format!("`storage.data_dir: {}` keeps that data", earlier.display()),
    ];
    for arguments in [
        &["run", "--set", "web.listen=127.0.0.1:0"][..],
        &["chat", "--once", "hi"],
        &["script", "run", "x.star"],
        &["task", "run", "any"],
        &["send", "console:main", "hi"],
        &["outbox", "list"],
        &["web", "link"],
    ] {
        let output = run(&[arguments, &["--config", config]].concat());
        assert_eq!((output.exit_code(), output.stdout.as_str()), (Some(2), ""), "{arguments:?}: {output:#?}");
        assert!(told.iter().all(|words| output.stderr.contains(words)), "{arguments:?}: {output:#?}");
        assert!(!data.exists(), "{arguments:?}");
    }
    let doctor = run(&["doctor", "--config", config, "--set", "web.listen=127.0.0.1:0"]);
    assert!(doctor.exit_code() == Some(1) && doctor.stdout.contains(&told[0]), "{doctor:#?}");
    let parts = run(&["outbox", "list", "--all", "--config", config, "--set", &keep]);
    assert!(parts.exit_code() == Some(0) && parts.stdout.contains("console:main"), "{parts:#?}");
}

#[cfg(target_os = "linux")]
#[test]
fn looking_elsewhere_names_the_running_data_directory() {
    let (home, elsewhere) = (TestHome::new(), TestHome::new());
    let mut chat = home.satchel_command(&["chat"]);
    let chat = chat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let data = home.data_directory();
    let is_locked = || {
        let locks = std::fs::read_dir(data.join("owners")).into_iter().flatten().flatten();
        data.join("satchel.db").exists()
            && locks.map(|lock| lock.path()).any(|lock| lock.extension().is_some_and(|end| end == "lock"))
    };
    let started_at = Instant::now();
    while !is_locked() {
        assert!(started_at.elapsed() < Duration::from_secs(30), "the chat opens its data");
        std::thread::sleep(Duration::from_millis(2));
    }
    elsewhere.write_file("satchel.yaml", "log: info\n");
    let output = elsewhere.run(&["pair", "list"]);
    // The same where a second database was begun and never used.
    let empty = TestHome::new();
    let begun = run_to_end(empty.satchel_command(&["chat"]).stdin(Stdio::null()));
    let looked = empty.run(&["attachments", "list"]);
    wait_for_exit(chat).assert_no_crash("chat");
    assert_eq!((begun.exit_code(), looked.exit_code()), (Some(0), Some(0)), "{looked:#?}");
    let here = format!("note: the data in {} is empty", empty.data_directory().display());
    let running = format!("Satchel is running with the data in {}", data.canonicalize().expect("it exists").display());
    assert!(looked.stderr.contains(&here) && looked.stderr.contains(&running), "{}", looked.stderr);
    let alone = empty.run(&["attachments", "list"]);
    assert!(!alone.stderr.contains(&running), "{}", alone.stderr);
    assert_eq!(output.exit_code(), Some(1), "{output:#?}");
    let running = format!("Satchel is running with the data in {}", data.canonicalize().expect("it exists").display());
    for words in [running.as_str(), "configuration: satchel.yaml"] {
        assert!(output.stderr.contains(words), "no {words:?} in {}", output.stderr);
    }
}
