//! Runs a program of one's own: no shell, hardly any environment, and an end with all that it has started.

use std::{ffi::OsString, process::Stdio};

use bytes::BytesMut;
use rustix::process::{Pid, Signal, kill_process_group};
use satchel_domain::filename::is_unsafe_char;
use satchel_ports::SpeechError;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::mpsc,
};

use crate::mix::AudioChunk;

/// How much of standard error is looked at, in bytes.
const MAX_STDERR_BYTES: usize = 4 << 10;

/// How much of its first line is told, in characters.
const MAX_REASON_CHARS: usize = 160;

/// How many bytes are read at once.
const PIECE: usize = 64 << 10;

/// A program that is running. Dropping it ends it and everything that it has started.
struct ChildGroup {
    child: Child,
    group: Option<Pid>,
}

impl Drop for ChildGroup {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            // One that has ended already can't be ended, and that is all right.
            let _ended = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs a program, hands its standard output to `out`, and waits for its end. Its standard input is `words`.
///
/// Dropping the future ends the program. Whoever takes no more of its output ends it too, and that is no error.
pub(crate) async fn run(
    command: &[OsString],
    environment: &[(OsString, OsString)],
    words: &str,
    out: mpsc::Sender<AudioChunk>,
) -> Result<(), SpeechError> {
    let (program, arguments) = command.split_first().expect("a command was checked not to be empty");
    let name = name_of(program);
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
        let why = match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such program".to_owned(),
            std::io::ErrorKind::PermissionDenied => "it is not executable".to_owned(),
            _ => error.to_string(),
        };
        SpeechError { reason: format!("failed to start `{name}`: {why}"), remedy: None, retryable: false }
    })?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let stdin = child.stdin.take().expect("standard input is a pipe");
    let stdout = child.stdout.take().expect("standard output is a pipe");
    let stderr = child.stderr.take().expect("standard error is a pipe");
    let mut running = ChildGroup { child, group };
    let broken = |error: std::io::Error| SpeechError {
        reason: format!("failed to read the output of `{name}`: {error}"),
        remedy: None,
        retryable: true,
    };
    let ((), taken, complaint) =
        tokio::join!(write_stdin(stdin, words), forward_stdout(stdout, out), first_line(stderr));
    if !taken.map_err(broken)? {
        return Ok(());
    }
    let status = running.child.wait().await.map_err(broken)?;
    // It was waited for, so its number may be another's from now on.
    running.group = None;
    if status.success() {
        return Ok(());
    }
    let ended = status.code().map_or_else(|| "was killed".to_owned(), |code| format!("ended with {code}"));
    let reason =
        if complaint.is_empty() { format!("`{name}` {ended}") } else { format!("`{name}` {ended}: {complaint}") };
    // One that was killed may have been in the way of something bigger.
    Err(SpeechError { reason, remedy: None, retryable: status.code().is_none() })
}

/// The program's name as people know it.
pub(crate) fn name_of(program: &OsString) -> String {
    let name = std::path::Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    name.chars().filter(|c| !is_unsafe_char(*c) && *c != '`').take(60).collect()
}

/// Writes the words. A program that doesn't read them may still have something to say.
async fn write_stdin(mut stdin: ChildStdin, words: &str) {
    let _told = stdin.write_all(words.as_bytes()).await;
    let _closed = stdin.shutdown().await;
}

/// Hands over the output; `false` when nobody takes more of it.
async fn forward_stdout(mut stdout: ChildStdout, out: mpsc::Sender<AudioChunk>) -> std::io::Result<bool> {
    loop {
        let mut piece = BytesMut::with_capacity(PIECE);
        if stdout.read_buf(&mut piece).await? == 0 {
            return Ok(out.send(AudioChunk::End).await.is_ok());
        }
        if out.send(AudioChunk::Bytes(piece.freeze())).await.is_err() {
            return Ok(false);
        }
    }
}

/// The first line that says something. The rest is read too, or the program would wait for somebody to read it.
async fn first_line(mut stderr: ChildStderr) -> String {
    let mut heard = Vec::new();
    let mut piece = [0; 1024];
    while let Ok(length @ 1..) = stderr.read(&mut piece).await {
        let room = MAX_STDERR_BYTES.saturating_sub(heard.len()).min(length);
        heard.extend_from_slice(&piece[..room]);
    }
    let heard = String::from_utf8_lossy(&heard);
    let line = heard.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !is_unsafe_char(*c)).take(MAX_REASON_CHARS).collect()
}
