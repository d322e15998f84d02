//! Runs a program under strace and reads what it asked the kernel for, and when.

#![expect(clippy::panic, reason = "what is not as it must be ends the test with all that is known")]

use std::{collections::HashMap, process::Command};

use satchel_system::real_binary::{ProcessOutput, run_to_end};

const TRACED_CALLS: &str = "trace=fsync,fdatasync,sync_file_range,rename,renameat,renameat2,link,linkat,\
                       write,writev,pwrite64,pwritev,sendto,sendmsg,read,readv,recvfrom,recvmsg";

/// One call, with the lines of the trace on which it began and ended.
#[derive(Debug)]
pub(crate) struct SystemCall {
    pub(crate) start_line: usize,
    pub(crate) end_line: usize,
    name: String,
    /// Its arguments with descriptors' paths, and its answer.
    pub(crate) text: String,
}

impl SystemCall {
    pub(crate) fn is_sync(&self) -> bool {
        ["fsync", "fdatasync"].contains(&self.name.as_str()) && self.text.trim_end().ends_with("= 0")
    }

    pub(crate) fn is_rename(&self) -> bool {
        self.name.starts_with("rename") || self.name.starts_with("link")
    }

    pub(crate) fn is_write(&self) -> bool {
        ["write", "writev", "pwrite64", "pwritev", "sendto", "sendmsg"].contains(&self.name.as_str())
    }

    pub(crate) fn is_read(&self) -> bool {
        ["read", "readv", "recvfrom", "recvmsg"].contains(&self.name.as_str())
    }
}

/// A program that has ended and what it asked for.
pub(crate) struct TracedRun {
    pub(crate) output: ProcessOutput,
    pub(crate) calls: Vec<SystemCall>,
}

/// Looks for an strace that may trace.
pub(crate) fn find_strace() -> Result<(), &'static str> {
    let output = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    match output {
        Ok(ran) if ran.status.success() => Ok(()),
        Ok(_) => Err("the right to trace with strace"),
        Err(_) => Err("strace"),
    }
}

/// Runs a program to its end under strace.
pub(crate) fn run_traced(program: Command) -> TracedRun {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace");
    let mut command = Command::new("strace");
    // What a command clears can't be asked of it; none that is traced needs anything of this process's environment.
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.args(["-f", "-y", "-s", "70000", "-e", "signal=none", "-e", TRACED_CALLS, "-o"]).arg(&trace);
    command.arg("--").arg(program.get_program()).args(program.get_args());
    if let Some(directory) = program.get_current_dir() {
        command.current_dir(directory);
    }
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = run_to_end(command.stdin(std::process::Stdio::piped()));
    let trace = std::fs::read(&trace).expect("strace writes what it saw");
    TracedRun { output, calls: parse_trace(&String::from_utf8_lossy(&trace)) }
}

/// The place of the first call that fits.
pub(crate) fn find_position(calls: &[SystemCall], description: &str, is_match: impl Fn(&SystemCall) -> bool) -> usize {
    let found = calls.iter().position(is_match);
    found.unwrap_or_else(|| panic!("never among {} calls: {description}", calls.len()))
}

/// Puts calls together that were interrupted by those of other threads.
fn parse_trace(trace: &str) -> Vec<SystemCall> {
    let mut calls = Vec::new();
    let mut unfinished: HashMap<&str, (usize, String)> = HashMap::new();
    for (at, line) in trace.lines().enumerate() {
        let Some((thread, entry)) = line.split_once(' ') else { continue };
        let said = entry.trim_start();
        if let Some(beginning) = said.strip_suffix("<unfinished ...>") {
            unfinished.insert(thread, (at, beginning.to_owned()));
            continue;
        }
        let (start_line, whole) = match said.strip_prefix("<... ").and_then(|rest| rest.split_once("resumed>")) {
            Some((_, end)) => match unfinished.remove(thread) {
                Some((begun, beginning)) => (begun, beginning + end),
                None => continue,
            },
            None => (at, said.to_owned()),
        };
        let Some((name, text)) = whole.split_once('(') else { continue };
        calls.push(SystemCall { start_line, end_line: at, name: name.to_owned(), text: text.to_owned() });
    }
    calls
}

#[test]
fn interrupted_calls_are_joined() {
    let calls = parse_trace(
        "7 write(3</d/a>, \"x\", 1) = 1\n7 fsync(3</d/a> <unfinished ...>\n9 read(4, \"y\", 9) = 1\n7 <... fsync resumed>) = 0\n",
    );
    let seen: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.start_line, call.end_line)).collect();
    assert_eq!(seen, [("write", 0, 0), ("read", 2, 2), ("fsync", 1, 3)]);
    assert!(calls[2].is_sync() && calls[2].text.contains("/d/a"));
}
