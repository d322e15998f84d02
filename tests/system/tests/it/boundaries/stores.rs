//! A database that can't be used, a disk without room, a directory that may not be written to.

use std::{
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use satchel_domain::Ending;
use satchel_ledger::Settings;
use satchel_local::ScriptedModel;
use satchel_requirements::required;
use satchel_system::{
    crash::ChannelAdapter,
    real_binary::{Household, await_end, finish, satchel_binary},
};

use super::files::as_nobody;
use crate::product::{Product, ProductSetup};

/// Does something to the database with somebody else's SQLite.
fn python(household: &Household, what: &str) -> Result<(), &'static str> {
    let script = format!("import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\n{what}\ndb.commit()\ndb.close()\n");
    let mut command = Command::new("python3");
    command.args(["-c", &script]).arg(household.data().join("satchel.db"));
    let done = command.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if done { Ok(()) } else { Err("python3 with sqlite3, to do to the database what Satchel never does") }
}

/// What is done to a database's bytes.
type Breaking<'a> = dyn Fn(Vec<u8>) -> Vec<u8> + 'a;

#[test]
fn broken_database_is_reported_and_left_unchanged() {
    let garbage: Vec<u8> = (0..20_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let cases: [(&str, &Breaking<'_>, &str); 4] = [
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
    for (case, break_it, told) in cases {
        let household = Household::new();
        assert_eq!(household.once("hi", &[]).code(), Some(0), "{case}");
        let database = household.data().join("satchel.db");
        let Some(()) = required(python(&household, "db.execute('pragma wal_checkpoint(truncate)')")) else { return };
        let broken = break_it(std::fs::read(&database).expect("the first run left a database"));
        for beside in ["satchel.db-wal", "satchel.db-shm"] {
            let _is_gone_after_a_good_end = std::fs::remove_file(household.data().join(beside));
        }
        std::fs::write(&database, &broken).expect("it is ours");
        for arguments in [&["chat", "--once", "hi"][..], &["attachments", "list"], &["outbox", "list"]] {
            let ran = household.run(arguments);
            ran.assert_orderly(case);
            assert_eq!(ran.code(), Some(1), "{case}, {arguments:?}: {ran:#?}");
            assert!(ran.stderr.contains("satchel.db") && ran.stderr.contains(told), "{case}: {}", ran.stderr);
        }
        assert!(std::fs::read(&database).is_ok_and(|now| now == broken), "{case}: evidence is not written over");
    }
}

#[test]
fn newer_database_is_left_untouched() {
    let household = Household::new();
    assert_eq!(household.once("hi", &[]).code(), Some(0));
    let newer = "db.execute(\"insert into _sqlx_migrations (version, description, installed_on, success, checksum, \
                 execution_time) values (99991231, 'of tomorrow', datetime(), 1, x'00', 1)\")";
    let Some(()) = required(python(&household, newer)) else { return };
    let ran = household.run(&["chat", "--once", "hi"]);
    ran.assert_orderly("newer");
    assert_eq!(ran.code(), Some(1), "{ran:#?}");
    assert!(ran.stderr.contains("newer Satchel") && ran.stderr.contains("update"), "{}", ran.stderr);
}

#[test]
fn unwritable_data_directory_is_reported() {
    for (case, filled) in [("empty", false), ("in use before", true)] {
        let household = Household::new();
        std::fs::create_dir_all(household.data()).expect("a directory");
        if filled {
            assert_eq!(household.once("hi", &[]).code(), Some(0));
        }
        let Some(mut command) = required(as_nobody(&household)) else { return };
        let closed = Command::new("chmod").args(["-R", "a-w"]).arg(household.data()).status();
        assert!(closed.is_ok_and(|status| status.success()));
        let ran = finish(command.args(["chat", "--once", "hi"]));
        ran.assert_orderly(case);
        assert_eq!(ran.code(), Some(1), "{case}: {ran:#?}");
        let data = household.data().display().to_string();
        assert!(ran.stderr.contains(&data), "{case}: {}", ran.stderr);
        assert!(["permission", "read-only"].iter().any(|why| ran.stderr.contains(why)), "{case}: {}", ran.stderr);
        std::fs::set_permissions(household.data(), PermissionsExt::from_mode(0o755)).expect("root may");
    }
}

/// A file system of its own for one script, which vanishes with it.
fn on_a_small_disk(household: &Household, script: &str) -> Result<Command, &'static str> {
    let disk = household.root().join("disk");
    std::fs::create_dir(&disk).expect("a new directory");
    let unshared = ["--mount", "--map-root-user"];
    let mount = format!("mount -t tmpfs -o size=1m tmpfs '{}'", disk.display());
    let probe = Command::new("unshare").args(unshared).args(["sh", "-c", &mount]).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        return Err("the right to mount a small disk");
    }
    let mut command = Command::new("unshare");
    household.at_home(&mut command);
    command.env("SATCHEL_STORAGE__DATA_DIR", &disk).env("DISK", &disk).env("SATCHEL", satchel_binary());
    command.args(unshared).args(["sh", "-c", &format!("{mount} && {script}")]);
    Ok(command)
}

#[test]
fn file_without_space_is_reported_and_conversation_continues() {
    let household = Household::new();
    household.file("three.bin", vec![7; 3_000_000]);
    household.file("small.txt", "small");
    let script = "\"$SATCHEL\" chat --once 'save these' --attach three.bin --attach small.txt\n\
                  echo \"first: $?\"\n\
                  \"$SATCHEL\" chat --once 'send small.txt'\n\
                  echo \"second: $?\"\n\
                  ls \"$DISK\"/blobs/incoming";
    let Some(mut command) = required(on_a_small_disk(&household, script)) else { return };
    let ran = finish(&mut command);
    ran.assert_orderly("full disk");
    assert!(ran.stdout.contains("three.bin") && ran.stdout.contains("the disk is nearly full: "), "{ran:#?}");
    assert!(ran.stdout.contains("first: 0") && ran.stdout.contains("second: 0"), "{ran:#?}");
    assert!(ran.stdout.ends_with("second: 0\n"), "no half of a file is left: {ran:#?}");
    let delivered = household.work().join("files/1-small.txt");
    assert_eq!(std::fs::read_to_string(delivered).ok().as_deref(), Some("small"));
}

#[test]
fn message_without_space_is_refused_and_reported() {
    let household = Household::new();
    let script = "\"$SATCHEL\" chat --once hi > /dev/null\n\
                  head -c 1048576 /dev/zero > \"$DISK\"/filler 2>/dev/null\n\
                  \"$SATCHEL\" chat --once 'write a.txt: kept'\n\
                  echo \"full: $?\"\n\
                  rm \"$DISK\"/filler\n\
                  \"$SATCHEL\" chat --once 'write b.txt: kept'\n\
                  echo \"after: $?\"";
    let Some(mut command) = required(on_a_small_disk(&household, script)) else { return };
    let ran = finish(&mut command);
    ran.assert_orderly("full disk");
    assert!(ran.stdout.contains("full: 1"), "{ran:#?}");
    assert!(ran.stderr.contains("no space is left"), "{ran:#?}");
    assert!(ran.stdout.contains("after: 0"), "with room again it works again: {ran:#?}");
}

#[tokio::test]
async fn full_database_leaves_message_with_the_platform() {
    let mut setup = ProductSetup::for_platform(ChannelAdapter::Telegram);
    setup.settings = Settings { max_bytes: Some(400 * 1024), ..Settings::default() };
    let product = Product::start(setup, Arc::new(ScriptedModel::from_texts(["one", "two"]))).await;
    assert_eq!(product.send("hello", Vec::new()).await.ending, Some(Ending::Done));
    product.platform.person_says(&product.conversation, &"x".repeat(600 * 1024));
    let tried_again = async {
        while product.failures() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), tried_again).await.expect("storing it is tried again");
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
        let household = Household::new();
        let ran = household.run(arguments);
        ran.assert_orderly("no data");
        assert_eq!((ran.code(), ran.stdout.as_str()), (Some(1), ""), "{arguments:?}: {ran:#?}");
        let data = household.data().display().to_string();
        for words in [data.as_str(), "configuration: none found", "`--config FILE`", "nothing was created"] {
            assert!(ran.stderr.contains(words), "{arguments:?}: no {words:?} in {}", ran.stderr);
        }
        assert!(!household.data().exists(), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn looking_elsewhere_names_the_running_data_directory() {
    let (home, elsewhere) = (Household::new(), Household::new());
    let mut chat = home.satchel(&["chat"]);
    let chat = chat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let data = home.data();
    let is_locked = || {
        let locks = std::fs::read_dir(data.join("owners")).into_iter().flatten().flatten();
        data.join("satchel.db").exists()
            && locks.map(|lock| lock.path()).any(|lock| lock.extension().is_some_and(|end| end == "lock"))
    };
    let begun = Instant::now();
    while !is_locked() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the chat opens its data");
        std::thread::sleep(Duration::from_millis(2));
    }
    elsewhere.file("satchel.yaml", "log: info\n");
    let ran = elsewhere.run(&["pair", "list"]);
    // The same where a second database was begun and never used.
    let empty = Household::new();
    let begun = finish(empty.satchel(&["chat"]).stdin(Stdio::null()));
    let looked = empty.run(&["attachments", "list"]);
    await_end(chat).assert_orderly("chat");
    assert_eq!((begun.code(), looked.code()), (Some(0), Some(0)), "{looked:#?}");
    let here = format!("note: the data in {} is empty", empty.data().display());
    let running = format!("Satchel is running with the data in {}", data.canonicalize().expect("it exists").display());
    assert!(looked.stderr.contains(&here) && looked.stderr.contains(&running), "{}", looked.stderr);
    let alone = empty.run(&["attachments", "list"]);
    assert!(!alone.stderr.contains(&running), "{}", alone.stderr);
    assert_eq!(ran.code(), Some(1), "{ran:#?}");
    let running = format!("Satchel is running with the data in {}", data.canonicalize().expect("it exists").display());
    for words in [running.as_str(), "configuration: satchel.yaml"] {
        assert!(ran.stderr.contains(words), "no {words:?} in {}", ran.stderr);
    }
}
