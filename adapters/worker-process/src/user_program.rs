//! Runs a program that the operator has configured: no shell, a minimal environment, and a process group that is killed as a whole.

use std::{ffi::OsString, process::Stdio};

use bytes::{Bytes, BytesMut};
use rustix::process::{Pid, Signal, kill_process_group};
use satchel_domain::filename::is_unsafe_char;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::mpsc,
};

/// How much of standard error is read for the reason, in bytes.
const MAX_STDERR_BYTES: usize = 4 << 10;

/// How much of its first line is reported, in characters.
const MAX_REASON_CHARS: usize = 160;

/// How many bytes are read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// A part of a program's output.
#[derive(Debug)]
pub enum OutputChunk {
    Bytes(Bytes),
    /// The program has closed its output.
    End,
}

/// Why a program didn't do what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct UserProgramError {
    /// Why, with the program's name.
    pub reason: String,
    /// Whether trying again may help.
    pub retryable: bool,
}

/// A running program. Dropping this kills it and everything that it has started.
struct ChildGroup {
    child: Child,
    group: Option<Pid>,
}

impl Drop for ChildGroup {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            // It may have exited already.
            let _ended = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs a program with `input` on its standard input, sends its standard output to `out`, and waits until it exits.
///
/// Dropping the future kills the program. A closed `out` kills it too, which is no error.
///
/// # Errors
/// When the program can't be started or read, or fails.
///
/// # Panics
/// When the command is empty.
pub async fn run_user_program<T: From<OutputChunk>>(
    command: &[OsString],
    environment: &[(OsString, OsString)],
    input: &[u8],
    out: mpsc::Sender<T>,
) -> Result<(), UserProgramError> {
    let (program, arguments) = command.split_first().expect("a command was checked not to be empty");
    let name = program_name(program);
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that what it starts ends with it.
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| {
        let reason = match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such program".to_owned(),
            std::io::ErrorKind::PermissionDenied => "it is not executable".to_owned(),
            _ => error.to_string(),
        };
        UserProgramError { reason: format!("failed to start `{name}`: {reason}"), retryable: false }
    })?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let stdin = child.stdin.take().expect("standard input is a pipe");
    let stdout = child.stdout.take().expect("standard output is a pipe");
    let stderr = child.stderr.take().expect("standard error is a pipe");
    let mut process = ChildGroup { child, group };
    let read_error = |error: std::io::Error| UserProgramError {
        reason: format!("failed to read the output of `{name}`: {error}"),
        retryable: true,
    };
    let ((), forwarded, stderr_line) =
        tokio::join!(write_stdin(stdin, input), forward_stdout(stdout, out), read_first_line(stderr));
    if !forwarded.map_err(read_error)? {
        return Ok(());
    }
    let status = process.child.wait().await.map_err(read_error)?;
    // It has been waited for, so its process id may be reused from now on.
    process.group = None;
    if status.success() {
        return Ok(());
    }
    let exit_text = status.code().map_or_else(|| "was killed".to_owned(), |code| format!("ended with {code}"));
    let reason = if stderr_line.is_empty() {
        format!("`{name}` {exit_text}")
    } else {
        format!("`{name}` {exit_text}: {stderr_line}")
    };
    // A killed program may have been a victim of memory pressure.
    Err(UserProgramError { reason, retryable: status.code().is_none() })
}

/// Collects a program's output; `None` when it has more than so many bytes.
pub async fn collect_output(mut output: mpsc::Receiver<OutputChunk>, max_bytes: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(OutputChunk::Bytes(chunk)) = output.recv().await {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > max_bytes {
            return None;
        }
    }
    Some(bytes)
}

/// The program's file name, for messages.
#[must_use]
pub fn program_name(program: &OsString) -> String {
    let name = std::path::Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    name.chars().filter(|c| !is_unsafe_char(*c) && *c != '`').take(60).collect()
}

/// Writes the input. A program that doesn't read it may still produce output.
async fn write_stdin(mut stdin: ChildStdin, input: &[u8]) {
    let _written = stdin.write_all(input).await;
    let _closed = stdin.shutdown().await;
}

/// Forwards the output; `false` when the receiver is gone.
async fn forward_stdout<T: From<OutputChunk>>(mut stdout: ChildStdout, out: mpsc::Sender<T>) -> std::io::Result<bool> {
    loop {
        let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
        if stdout.read_buf(&mut chunk).await? == 0 {
            return Ok(out.send(OutputChunk::End.into()).await.is_ok());
        }
        if out.send(OutputChunk::Bytes(chunk.freeze()).into()).await.is_err() {
            return Ok(false);
        }
    }
}

/// The first line that is not blank. The rest is read too, or the program would block on a full pipe.
async fn read_first_line(mut stderr: ChildStderr) -> String {
    let mut captured = Vec::new();
    let mut chunk = [0; 1024];
    while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
        let room = MAX_STDERR_BYTES.saturating_sub(captured.len()).min(length);
        captured.extend_from_slice(&chunk[..room]);
    }
    let captured = String::from_utf8_lossy(&captured);
    let line = captured.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !is_unsafe_char(*c)).take(MAX_REASON_CHARS).collect()
}
