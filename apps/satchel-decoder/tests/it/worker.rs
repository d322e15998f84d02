//! The process itself: how it confines itself, and how it ends.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
};

/// A worker that was started by hand.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _reaped = self.0.wait();
    }
}

impl Worker {
    /// Starts the program with these arguments and reads its first line.
    fn start(arguments: &[&str]) -> (Self, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_satchel-decoder"));
        command.args(arguments).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut worker = Self(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(worker.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        (worker, line)
    }

    fn exit_code(&mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ready_worker_is_confined() {
    let (worker, line) = Worker::start(&["--memory", "300000000"]);
    assert_eq!(line, "{\"ready\":{\"version\":3}}\n");
    let process = format!("/proc/{}", worker.0.id());
    let tasks: Vec<_> = std::fs::read_dir(format!("{process}/task")).unwrap().collect();
    assert_eq!(tasks.len(), 2);
    for task in tasks {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        for line in ["NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(status.contains(line), "{line} in\n{status}");
        }
    }
    let limits = std::fs::read_to_string(format!("{process}/limits")).unwrap();
    let limit = |name: &str| limits.lines().find_map(|line| line.strip_prefix(name)).unwrap().split_whitespace().nth(1);
    assert_eq!(limit("Max address space"), Some("300000000"));
    for name in ["Max open files", "Max file size", "Max processes", "Max core file size"] {
        assert_eq!(limit(name), Some("0"), "{name}");
    }
}

#[test]
fn worker_exits_with_its_host() {
    let (mut worker, _) = Worker::start(&[]);
    drop(worker.0.stdin.take());
    assert_eq!(worker.exit_code(), Some(2), "it had no request");
    let (mut worker, _) = Worker::start(&[]);
    worker.0.stdin.as_mut().unwrap().write_all(b"not a request\n").unwrap();
    assert_eq!(worker.exit_code(), Some(2));
}

#[test]
fn options_are_explained() {
    for (arguments, expected) in [(&["--version"][..], "satchel-decoder 0."), (&["--help"], "satchel-decoder reads")] {
        let (mut worker, line) = Worker::start(arguments);
        assert!(line.starts_with(expected), "{line}");
        assert_eq!(worker.exit_code(), Some(0));
    }
    for arguments in [&["--memory"][..], &["--memory", "lots"], &["file.pdf"]] {
        let (mut worker, line) = Worker::start(arguments);
        assert_eq!((line.as_str(), worker.exit_code()), ("", Some(2)));
    }
}
