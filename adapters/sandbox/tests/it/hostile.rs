//! Guests that misbehave: each is stopped with its own reason, and nothing else notices.

use std::{
    fs::{self, File},
    io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use satchel_domain::path::Mount;
use satchel_ports::{
    FileAccess, FileProfile, FileReader, FileRunner, FileWriter,
    file_runner::{LinkMode, MountDirectory},
};
use satchel_sandbox::{GuestSource, Limits, SandboxRunner};

const IMPORTS: &str = r#"
    (import "wasi_snapshot_preview1" "path_open"
      (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))"#;

const WRITE_IMPORT: &str =
    r#"(import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))"#;

const CREATE: &str = r#"
    (func (export "create") (param $length i32) (result i32 i32)
      (call $path_open (i32.const 3) (i32.const 0) (i32.const 4096) (local.get $length) (i32.const 5)
        (i64.const 0x42) (i64.const 0) (i32.const 0) (i32.const 12))
      (i32.load (i32.const 12)))"#;

fn module(imports: &str, body: &str) -> String {
    format!(r#"(module {IMPORTS} {imports} (memory (export "memory") 5 5) {body})"#)
}

struct Hostile {
    directory: tempfile::TempDir,
    runner: SandboxRunner,
}

impl Hostile {
    /// A sandbox whose reading guest has this body.
    fn reader(body: &str, limits: Limits) -> Self {
        Self::new(module("", body), module("", ""), limits)
    }

    /// A sandbox whose writing guest creates files and has this body.
    fn writer(body: &str) -> Self {
        Self::new(module("", ""), module(WRITE_IMPORT, &format!("{CREATE} {body}")), Limits::default())
    }

    fn new(reader: String, writer: String, limits: Limits) -> Self {
        let source = GuestSource { reader: reader.into(), writer: writer.into() };
        Self { directory: tempfile::tempdir().unwrap(), runner: SandboxRunner::new(source, limits) }
    }

    fn mount(&self) -> MountDirectory {
        let directory = File::open(self.directory.path()).unwrap();
        MountDirectory { mount: Mount::Shared, directory, access: FileAccess::Owner }
    }

    fn open_reader(&self) -> io::Result<Box<dyn FileReader>> {
        self.runner.reader(self.mount(), FileProfile::FileReadOnly)
    }

    fn open_writer(&self) -> io::Result<Box<dyn FileWriter>> {
        self.runner.writer(self.mount())
    }

    /// Why `stat` fails for a path of this length.
    fn stat_error(&self, length: usize) -> String {
        let mut reader = self.open_reader().unwrap();
        reader.stat(Path::new(&"p".repeat(length)), LinkMode::Keep).unwrap_err().to_string()
    }
}

fn stat(body: &str) -> String {
    format!(r#"(func $stat (export "stat") (param $length i32) (param i32) (result i32) {body} (i32.const 0))"#)
}

#[test]
fn a_loop_is_stopped_by_its_fuel() {
    let hostile = Hostile::reader(&stat("(loop $again (br $again))"), Limits::default());
    assert_eq!(hostile.stat_error(1), "the sandbox stopped the operation: it computed for too long");
}

#[test]
fn deadline_stops_a_loop_with_fuel() {
    let limits = Limits { fuel: u64::MAX, deadline: Duration::from_millis(100), ..Limits::default() };
    let hostile = Hostile::reader(&stat("(loop $again (br $again))"), limits);
    let start = Instant::now();
    assert_eq!(hostile.stat_error(1), "the sandbox stopped the operation: it took too long");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn memory_beyond_the_cap_is_refused() {
    let grow = stat("(loop $again (drop (memory.grow (i32.const 1))) (br $again))");
    let text = module("", &grow).replace("5 5", "5 60000");
    let hostile = Hostile::new(text.clone(), module("", ""), Limits::default());
    let error = hostile.stat_error(1);
    assert!(error.starts_with("the sandbox stopped the operation: ") && error.contains("memory"), "{error}");
    let hostile = Hostile::new(text.replace("5 60000", "17 60000"), module("", ""), Limits::default());
    assert!(hostile.open_reader().is_err(), "a memory that is too large from the beginning");
}

#[test]
fn recursion_is_stopped() {
    let hostile = Hostile::reader(&stat("(drop (call $stat (i32.const 0) (i32.const 0)))"), Limits::default());
    assert_eq!(hostile.stat_error(1), "the sandbox stopped the operation: it called itself too deeply");
}

#[test]
fn endless_calls_of_the_host_are_stopped() {
    let limits = Limits { fuel: u64::MAX, ..Limits::default() };
    let hostile = Hostile::reader(&stat("(loop $again (drop (call $fd_close (i32.const 9))) (br $again))"), limits);
    assert_eq!(hostile.stat_error(1), "the sandbox stopped the operation: it made too many calls");
}

#[test]
fn guest_writes_only_given_bytes() {
    let write = r#"
        (func (export "write") (param $length i32) (result i32)
          (i32.store (i32.const 0) (i32.const 65536))
          (i32.store (i32.const 4) (local.get $length))
          (loop $again
            (drop (call $fd_write (i32.load (i32.const 12)) (i32.const 0) (i32.const 1) (i32.const 8)))
            (br $again))
          (i32.const 0))"#;
    let hostile = Hostile::writer(write);
    let mut writer = hostile.open_writer().unwrap();
    writer.create(Path::new("file")).unwrap();
    let error = writer.write(&[7; 1000]).unwrap_err().to_string();
    assert_eq!(error, "the sandbox stopped the operation: it wrote more than it was given");
    assert_eq!(fs::read(hostile.directory.path().join("file")).unwrap(), [7; 1000]);
}

#[test]
fn a_pointer_outside_the_memory_stops_the_guest() {
    let read = "(drop (call $fd_read (i32.const 3) (i32.const 0x7fffffff) (i32.const 1) (i32.const 8)))";
    let hostile = Hostile::reader(&stat(read), Limits::default());
    assert_eq!(hostile.stat_error(1), "the sandbox stopped the operation: it pointed outside its memory");
}

/// Deny by default: what a profile doesn't open can't even be named.
#[test]
fn unopened_imports_are_refused() {
    let imports = |name: &str| format!(r#"(import "wasi_snapshot_preview1" "{name}" (func (result i32)))"#);
    for name in [
        "args_get",
        "clock_res_get",
        "clock_time_get",
        "environ_get",
        "fd_fdstat_set_flags",
        "fd_filestat_set_size",
        "fd_prestat_get",
        "path_symlink",
        "path_readlink",
        "poll_oneoff",
        "proc_exit",
        "proc_raise",
        "random_get",
        "sched_yield",
        "sock_accept",
        "sock_send",
    ] {
        for hostile in [
            Hostile::new(module(&imports(name), ""), module("", ""), Limits::default()),
            Hostile::new(module("", ""), module(&imports(name), ""), Limits::default()),
        ] {
            let error = hostile.runner.warm_up().unwrap_err().to_string();
            let unknown = format!("unknown import: `wasi_snapshot_preview1::{name}`");
            assert!(error.contains(&unknown), "{name}: {error}");
        }
    }
    let writing = [
        "fd_write",
        "fd_sync",
        "path_create_directory",
        "path_link",
        "path_remove_directory",
        "path_rename",
        "path_unlink_file",
    ];
    for name in writing {
        let hostile = Hostile::new(module(&imports(name), ""), module("", ""), Limits::default());
        let error = hostile.runner.warm_up().unwrap_err().to_string();
        let unknown = format!("unknown import: `wasi_snapshot_preview1::{name}`");
        assert!(error.contains(&unknown), "{name} while reading: {error}");
    }
    let own = r#"(import "satchel" "path_rename_new" (func (result i32)))"#;
    let error = Hostile::new(module(own, ""), module("", ""), Limits::default()).runner.warm_up().unwrap_err();
    assert!(error.to_string().contains("unknown import: `satchel::path_rename_new`"), "{error}");
}

/// A guest that reads can't create or change a file by the flags with which it opens.
#[test]
fn reading_guest_can_not_open_for_writing() {
    for (flags, rights) in [(5, 0x42), (1, 0x2), (8, 0x2), (0, 0x42), (4, 0x2)] {
        let open = format!(
            "(return (call $path_open (i32.const 3) (i32.const 1) (i32.const 4096) (local.get $length) (i32.const {flags})
               (i64.const {rights}) (i64.const 0) (i32.const 0) (i32.const 12)))"
        );
        let hostile = Hostile::reader(&stat(&open), Limits::default());
        fs::write(hostile.directory.path().join("pp"), "old").unwrap();
        for length in [1, 2] {
            hostile.stat_error(length);
        }
        assert_eq!(fs::read(hostile.directory.path().join("pp")).unwrap(), b"old");
        assert_eq!(fs::read_dir(hostile.directory.path()).unwrap().count(), 1, "{flags} {rights}");
    }
}

#[test]
fn foreign_descriptors_do_nothing() {
    for descriptor in [0, 1, 2, 4, 15, 16, -1] {
        let read = format!(
            "(i32.store (i32.const 4) (i32.const 10))
             (return (call $fd_read (i32.const {descriptor}) (i32.const 0) (i32.const 1) (i32.const 8)))"
        );
        let error = Hostile::reader(&stat(&read), Limits::default()).stat_error(1);
        assert!(error.contains("Bad file descriptor"), "{descriptor}: {error}");
    }
}

#[test]
fn a_guest_holds_few_descriptors() {
    let open = "(loop $again
        (br_if $again (i32.eqz (call $path_open (i32.const 3) (i32.const 1) (i32.const 4096) (i32.const 0)
          (i32.const 2) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 12)))))
        (return (i32.const 1))";
    let error = Hostile::reader(&stat(open), Limits::default()).stat_error(1);
    assert!(error.contains("Too many open files"), "{error}");
}

/// The host takes no length, descriptor or count from a guest unchecked, and no write for done that wasn't.
#[test]
fn false_answers_of_a_guest_are_errors() {
    let answers = r#"
        (func (export "open") (param i32) (result i32) (i32.const 0))
        (func (export "read") (param i32) (result i32 i32) (i32.const 0) (i32.const 0x7fffffff))
        (func (export "open_dir") (param i32) (result i32) (i32.const 0))
        (func (export "read_dir") (param i64) (result i32 i32) (i32.const 0) (i32.const 262144))
        (func (export "stat") (param i32) (param i32) (result i32) (i32.const 77))"#;
    let hostile = Hostile::reader(answers, Limits::default());
    let mut reader = hostile.open_reader().unwrap();
    reader.open(Path::new("a")).unwrap();
    let error = reader.read(&mut [0; 10]).unwrap_err().to_string();
    assert_eq!(error, "the sandbox stopped the operation: it returned more than it has");
    let error = reader.list(Path::new("a")).unwrap_err().to_string();
    assert_eq!(error, "the directory has more than 1000000 entries", "names without end");
    assert_eq!(hostile.stat_error(1), "the sandbox's guest failed with 77");
    assert!(hostile.open_writer().unwrap().sync().is_err(), "a function that is missing");
    let idle = Hostile::writer(r#"(func (export "write") (param i32) (result i32) (i32.const 0))"#);
    let mut writer = idle.open_writer().unwrap();
    writer.create(Path::new("file")).unwrap();
    assert_eq!(writer.write(b"12345").unwrap_err().to_string(), "the sandbox's guest left out 5 bytes");
    for descriptor in [2, 3, 99, -1] {
        let create =
            format!(r#"(func (export "create") (param i32) (result i32 i32) (i32.const 0) (i32.const {descriptor}))"#);
        let hostile = Hostile::new(module("", ""), module("", &create), Limits::default());
        assert!(hostile.open_writer().unwrap().create(Path::new("a")).is_err(), "{descriptor}");
    }
}

/// Mutation: the host counts up to the cookie that it is given.
#[test]
fn directory_cookie_beyond_the_end_ends() {
    let read_dir = r#"
        (import "wasi_snapshot_preview1" "fd_readdir" (func $fd_readdir (param i32 i32 i32 i64 i32) (result i32)))"#;
    let stat = stat(
        "(drop (call $fd_readdir (i32.const 3) (i32.const 65536) (i32.const 1000) (i64.const -2) (i32.const 8)))
         (return (i32.load (i32.const 8)))",
    );
    let hostile = Hostile::new(module(read_dir, &stat), module("", ""), Limits::default());
    assert!(hostile.open_reader().unwrap().stat(Path::new("a"), LinkMode::Keep).is_ok(), "no bytes and no entries");
}

#[test]
fn each_piece_of_work_has_a_fresh_guest() {
    let count = r#"
        (global $calls (mut i32) (i32.const 0))
        (func (export "stat") (param i32) (param i32) (result i32)
          (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
          (i32.store (i32.const 70000) (i32.add (i32.load (i32.const 70000)) (i32.const 1)))
          (i32.or (i32.ne (global.get $calls) (i32.const 1)) (i32.ne (i32.load (i32.const 70000)) (i32.const 1))))"#;
    let hostile = Hostile::reader(count, Limits::default());
    for _ in 0..3 {
        let mut reader = hostile.open_reader().unwrap();
        assert!(reader.stat(Path::new("a"), LinkMode::Keep).is_ok());
        assert!(reader.stat(Path::new("a"), LinkMode::Keep).is_err(), "the count goes on within the work");
    }
}

/// One guest loops until its deadline while others do their work.
#[test]
fn others_do_not_notice_a_guest_that_loops() {
    let limits = Limits { fuel: u64::MAX, deadline: Duration::from_secs(2), ..Limits::default() };
    let loops = stat("(if (i32.eq (local.get $length) (i32.const 1)) (then (loop $again (br $again))))");
    let hostile = Arc::new(Hostile::reader(&loops, limits));
    let looping = std::thread::spawn({
        let hostile = Arc::clone(&hostile);
        move || hostile.stat_error(1)
    });
    let mut calls = 0;
    while !looping.is_finished() {
        hostile.open_reader().unwrap().stat(Path::new("pp"), LinkMode::Keep).unwrap();
        calls += 1;
    }
    assert_eq!(looping.join().unwrap(), "the sandbox stopped the operation: it took too long");
    assert!(calls > 10, "{calls}");
}
