//! What comes on standard input beside `chat --once`: more of the message, or a file.

use std::{
    fs,
    io::{IsTerminal, Read},
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::Context;
use satchel_domain::size;
use tokio::io::AsyncReadExt;
use uuid::Uuid;

use super::{UsageError, print_error};
use crate::cli::ChatOptions;

/// The longest text that is taken from standard input; more of it is a file.
const MAX_PIPED_TEXT_BYTES: u64 = 1_000_000;

/// How long standard input may stay open before the person reads what is waited for.
const WAIT_NOTICE_DELAY: Duration = Duration::from_secs(2);

/// After how long a copy of standard input is needed by nobody: what can't be fetched for a day is refused.
const COPY_TTL: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// What the name of a copy's directory begins with.
const COPY_PREFIX: &str = "stdin-";

/// Returns the message of `--once`, what is piped in behind it; `None` without `--once`.
///
/// # Errors
/// When standard input can't be read, is no text, or there is no message at all.
pub fn message(options: &ChatOptions) -> anyhow::Result<Option<String>> {
    let Some(typed) = &options.once else { return Ok(None) };
    let stdin = std::io::stdin();
    let piped = match stdin.is_terminal() || is_attached(&options.attach) {
        true => String::new(),
        false => noticing_wait(|| read_text(stdin.lock()))?,
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

/// Reads, and says what is waited for when that takes long: whoever inherits an open pipe never sees its end.
fn noticing_wait<T>(read: impl FnOnce() -> T) -> T {
    let (over, is_over) = mpsc::channel::<()>();
    thread::spawn(move || {
        if is_over.recv_timeout(WAIT_NOTICE_DELAY) == Err(RecvTimeoutError::Timeout) {
            print_error(
                "waiting for the end of standard input, which is added to the message; use `< /dev/null` to add nothing",
            );
        }
    });
    let read = read();
    drop(over);
    read
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

fn compose(typed: Option<&str>, piped: &str, with_files: bool) -> Result<String, UsageError> {
    let piped = piped.trim_end();
    match typed {
        Some(typed) if piped.is_empty() => Ok(typed.to_owned()),
        Some(typed) => Ok(format!("{typed}\n\n{piped}")),
        None if piped.is_empty() && !with_files => Err(UsageError(
            "there is no message: `--once` without TEXT reads it from standard input, as in \
             `echo hello | satchel chat --once`"
                .to_owned(),
        )),
        None => Ok(piped.to_owned()),
    }
}

/// Standard input as a file in a directory of its own, which goes when this is dropped.
#[derive(Debug)]
pub struct PipedFile {
    directory: PathBuf,
    is_left: bool,
}

impl PipedFile {
    /// Writes standard input into the data directory, at most a byte more than `limit`: a file of that size is refused
    /// where all files are.
    ///
    /// # Errors
    /// When it can't be read or written.
    pub async fn read(data_dir: &Path, limit: u64) -> anyhow::Result<Self> {
        remove_old_copies(data_dir);
        let directory = data_dir.join(format!("{COPY_PREFIX}{}", Uuid::now_v7()));
        let file = Self { directory, is_left: false };
        let path = file.path();
        let failed = || format!("failed to write standard input to `{}`", path.display());
        tokio::fs::DirBuilder::new().mode(0o700).create(&file.directory).await.with_context(failed)?;
        let mut options = tokio::fs::OpenOptions::new();
        let mut target = options.write(true).create_new(true).mode(0o600).open(&path).await.with_context(failed)?;
        let mut input = tokio::io::stdin().take(limit.saturating_add(1));
        tokio::io::copy(&mut input, &mut target).await.with_context(failed)?;
        target.sync_all().await.with_context(failed)?;
        Ok(file)
    }

    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join("stdin")
    }

    /// Leaves the file for the next chat, which goes on with a message that this one was stopped over.
    pub fn leave(mut self) {
        self.is_left = true;
    }
}

/// Removes what chats left that were stopped or killed, and nobody has taken up.
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
        if self.is_left {
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
        let compose = |typed, piped, with_files| compose(typed, piped, with_files).map_err(|error| error.to_string());
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
    fn left_copy_stays_and_dropped_one_goes() {
        let data_dir = tempfile::tempdir().unwrap();
        let copy = |name: &str| {
            let directory = data_dir.path().join(name);
            fs::create_dir(&directory).unwrap();
            PipedFile { directory, is_left: false }
        };
        copy("stdin-left").leave();
        drop(copy("stdin-dropped"));
        assert!(data_dir.path().join("stdin-left").exists() && !data_dir.path().join("stdin-dropped").exists());
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
