//! Standard input of `chat --once`: a part of the message, or a file.

use std::{
    fs,
    io::{IsTerminal, Read},
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::Context;
use satchel_console::ConsoleError;
use satchel_domain::size;
use tokio::io::AsyncReadExt;
use uuid::Uuid;

use super::{UsageError, print_error};
use crate::cli::ChatOptions;

/// The longest text that is read from standard input; anything longer must be a file.
const MAX_PIPED_TEXT_BYTES: u64 = 1_000_000;

/// How long standard input may stay open before a notice is printed.
const WAIT_NOTICE_DELAY: Duration = Duration::from_secs(2);

/// After how long a copy of standard input is no longer needed: a file that can't be fetched for a day is refused.
const COPY_TTL: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// The prefix of a copy's directory name.
const COPY_PREFIX: &str = "stdin-";

/// Returns the message of `--once`, followed by piped text; `None` without `--once`.
///
/// # Errors
/// When standard input can't be read, is no text, or there is no message at all.
pub fn read_message(options: &ChatOptions) -> anyhow::Result<Option<String>> {
    let Some(typed) = &options.once else { return Ok(None) };
    let stdin = std::io::stdin();
    let piped = match stdin.is_terminal() || is_attached(&options.attach) {
        true => String::new(),
        false => read_with_notice(|| read_text(stdin.lock()))?,
    };
    Ok(Some(compose(typed.as_deref(), &piped, !options.attach.is_empty())?))
}

/// Whether standard input is one of the files.
#[must_use]
pub fn is_attached(files: &[PathBuf]) -> bool {
    files.iter().any(|file| is_standard_input(file))
}

/// Whether this stands for standard input.
#[must_use]
pub fn is_standard_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Reads, and prints a notice if that takes long: an inherited open pipe never ends.
fn read_with_notice<T>(read: impl FnOnce() -> T) -> T {
    let (finished_sender, finished_receiver) = mpsc::channel::<()>();
    thread::spawn(move || {
        if finished_receiver.recv_timeout(WAIT_NOTICE_DELAY) == Err(RecvTimeoutError::Timeout) {
            print_error(
                "waiting for the end of standard input, which is added to the message; use `< /dev/null` to add nothing",
            );
        }
    });
    let result = read();
    drop(finished_sender);
    result
}

/// Reads standard input as the whole text of a message.
///
/// # Errors
/// When it can't be read, is too long or is no text.
pub fn read_whole_text() -> anyhow::Result<String> {
    Ok(read_text(std::io::stdin().lock())?.trim_end().to_owned())
}

fn read_text(input: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    input.take(MAX_PIPED_TEXT_BYTES + 1).read_to_end(&mut bytes).context("failed to read standard input")?;
    if bytes.len() as u64 > MAX_PIPED_TEXT_BYTES {
        let limit = size::format_bytes(MAX_PIPED_TEXT_BYTES);
        let message = format!("standard input is longer than {limit} of text; send it as a file with `--attach -`");
        return Err(UsageError(message).into());
    }
    let not_text = |_| UsageError("standard input is not UTF-8 text; send it as a file with `--attach -`".to_owned());
    Ok(String::from_utf8(bytes).map_err(not_text)?)
}

fn compose(typed: Option<&str>, piped: &str, has_files: bool) -> Result<String, UsageError> {
    let piped = piped.trim_end();
    match typed {
        Some(typed) if piped.is_empty() => Ok(typed.to_owned()),
        Some(typed) => Ok(format!("{typed}\n\n{piped}")),
        None if piped.is_empty() && !has_files => Err(UsageError(
            "there is no message: `--once` without TEXT reads it from standard input, as in \
             `echo hello | satchel chat --once`"
                .to_owned(),
        )),
        None => Ok(piped.to_owned()),
    }
}

/// Standard input as a file in a directory that is removed when this is dropped.
#[derive(Debug)]
pub struct PipedFile {
    directory: PathBuf,
    is_persistent: bool,
}

impl PipedFile {
    /// Writes standard input into the data directory, at most one byte more than `limit`: a file of that size is
    /// refused like any other.
    ///
    /// # Errors
    /// When it can't be read or written.
    pub async fn read(data_dir: &Path, limit: u64) -> anyhow::Result<Self> {
        remove_old_copies(data_dir);
        let directory = data_dir.join(format!("{COPY_PREFIX}{}", Uuid::now_v7()));
        let file = Self { directory, is_persistent: false };
        let path = file.path();
        let error_context = || format!("failed to write standard input to `{}`", path.display());
        tokio::fs::DirBuilder::new().mode(0o700).create(&file.directory).await.with_context(error_context)?;
        let mut options = tokio::fs::OpenOptions::new();
        let mut target =
            options.write(true).create_new(true).mode(0o600).open(&path).await.with_context(error_context)?;
        let mut input = tokio::io::stdin().take(limit.saturating_add(1));
        tokio::io::copy(&mut input, &mut target).await.with_context(error_context)?;
        target.sync_all().await.with_context(error_context)?;
        Ok(file)
    }

    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join("stdin")
    }

    /// Keeps the file for the next chat, which continues an interrupted message: that may be stored and its file not fetched
    /// yet, unless the error says that it isn't.
    pub fn persist_after(mut self, error: &anyhow::Error) {
        let is_unsent = matches!(error.downcast_ref(), Some(ConsoleError::Busy | ConsoleError::NotAccepted(_)));
        self.is_persistent = !is_unsent;
    }
}

/// Removes old copies of interrupted chats.
fn remove_old_copies(data_dir: &Path) {
    let entries = fs::read_dir(data_dir).into_iter().flatten().flatten();
    let copies = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(COPY_PREFIX));
    let is_old = |path: &Path| {
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
        modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > COPY_TTL))
    };
    for path in copies.map(|entry| entry.path()).filter(|path| is_old(path)) {
        if let Err(error) = fs::remove_dir_all(&path) {
            tracing::warn!(path = %path.display(), %error, "failed to remove an old copy of standard input");
        }
    }
}

impl Drop for PipedFile {
    fn drop(&mut self) {
        if self.is_persistent {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            tracing::warn!(path = %self.directory.display(), %error, "failed to remove a copy of standard input");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piped_text_follows_typed_text() {
        let compose = |typed, piped, has_files| compose(typed, piped, has_files).map_err(|error| error.to_string());
        assert_eq!(compose(Some("summarise"), "a\nb\n", false), Ok("summarise\n\na\nb".to_owned()));
        assert_eq!(compose(Some("hello"), " \n", false), Ok("hello".to_owned()));
        assert_eq!(compose(None, "  indented\n", false), Ok("  indented".to_owned()));
        assert_eq!(compose(None, "", true), Ok(String::new()));
        assert!(compose(None, "\n", false).is_err_and(|error| error.contains("satchel chat --once")));
    }

    #[test]
    fn only_old_copies_are_removed() {
        let data_dir = tempfile::tempdir().unwrap();
        let make = |name: &str, age: Duration| {
            let path = data_dir.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::File::open(&path).unwrap().set_modified(std::time::SystemTime::now() - age).unwrap();
        };
        make("stdin-old", 2 * COPY_TTL);
        make("stdin-new", COPY_TTL / 2);
        make("blobs", 2 * COPY_TTL);
        remove_old_copies(data_dir.path());
        let mut names: Vec<_> =
            fs::read_dir(data_dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["blobs", "stdin-new"]);
    }

    #[test]
    fn copy_stays_only_for_a_message_that_may_be_stored() {
        let data_dir = tempfile::tempdir().unwrap();
        let copy = |name: &str| {
            let directory = data_dir.path().join(name);
            fs::create_dir(&directory).unwrap();
            PipedFile { directory, is_persistent: false }
        };
        drop(copy("stdin-dropped"));
        assert!(!data_dir.path().join("stdin-dropped").exists());
        let not_accepted = ConsoleError::NotAccepted(satchel_ports::InboundError("no".into()));
        for (error, stays) in [
            (anyhow::anyhow!("stopped before the reply was complete"), true),
            (ConsoleError::Stopped.into(), true),
            (ConsoleError::Busy.into(), false),
            (not_accepted.into(), false),
        ] {
            copy("stdin-left").persist_after(&error);
            let path = data_dir.path().join("stdin-left");
            assert_eq!(path.exists(), stays, "{error:#}");
            if stays {
                fs::remove_dir(&path).unwrap();
            }
        }
    }

    #[test]
    fn piped_bytes_that_are_no_message_name_attach() {
        let error = |input: &[u8]| read_text(input).map_err(|error| error.to_string()).unwrap_err();
        assert!(error(b"\xff\xfe").contains("`--attach -`"));
        let long = vec![b'a'; usize::try_from(MAX_PIPED_TEXT_BYTES).unwrap() + 1];
        assert!(error(&long).contains("longer than 1 MB"));
        assert_eq!(read_text(&long[1..]).unwrap().len(), long.len() - 1);
    }
}
