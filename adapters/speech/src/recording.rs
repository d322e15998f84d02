//! A recording in a file of its own while a program listens to it, and no longer.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::StreamExt;
use satchel_ports::{ByteStream, SpeechError};
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

use crate::{
    decode::{self, DecodeError},
    wav::WavReader,
};

/// After this time a file is one that a killed process has left behind: no program listens for as long.
const LEFT_BEHIND: Duration = Duration::from_secs(60 * 60);

/// The mode of a file that nobody but its owner can read.
pub(crate) const OWNER_ONLY: u32 = 0o600;

/// A file that is gone when this is.
pub(crate) struct RecordingFile(PathBuf);

impl RecordingFile {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RecordingFile {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// Writes a recording into a file of its own, with an extension by which programs tell what it is.
pub(crate) async fn write(
    directory: &Path,
    mut content: ByteStream,
    extension: &str,
    largest: u64,
) -> Result<RecordingFile, SpeechError> {
    let failed = |error: io::Error| SpeechError {
        reason: format!("failed to write the recording to a file: {error}"),
        remedy: None,
        retryable: true,
    };
    let path = directory.join(format!("{}.{extension}", Uuid::now_v7()));
    let made = directory.to_owned();
    tokio::task::spawn_blocking(move || make(&made))
        .await
        .map_err(io::Error::other)
        .and_then(|made| made)
        .map_err(failed)?;
    let mut options = tokio::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(OWNER_ONLY).open(&path).await.map_err(failed)?;
    let recording = RecordingFile(path);
    let mut bytes = 0;
    while let Some(piece) = content.next().await {
        let piece = piece.map_err(|error| SpeechError {
            reason: format!("failed to read the recording: {error}"),
            remedy: None,
            retryable: true,
        })?;
        bytes += piece.len() as u64;
        if bytes > largest {
            return Err(SpeechError {
                reason: "the recording is longer than its stated size".to_owned(),
                remedy: None,
                retryable: false,
            });
        }
        file.write_all(&piece).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)?;
    Ok(recording)
}

/// The recording as WAV: itself, if it is WAV.
pub(crate) async fn as_wav(directory: &Path, recording: &RecordingFile) -> Result<Option<RecordingFile>, SpeechError> {
    let (from, to) = (recording.path().to_owned(), directory.join(format!("{}.wav", Uuid::now_v7())));
    // Lives as long as this future.
    let wanted = Arc::new(());
    let still_wanted = Arc::downgrade(&wanted);
    let converted = tokio::task::spawn_blocking(move || {
        let mut head = [0; 4];
        io::Read::read_exact(&mut std::fs::File::open(&from)?, &mut head)?;
        if WavReader::is_wav(&head) {
            return Ok(None);
        }
        // Made first, so that it goes whatever happens.
        let wav = RecordingFile(to);
        decode::to_wav(&from, wav.path(), &still_wanted)?;
        Ok::<_, DecodeError>(Some(wav))
    });
    let converted = converted.await.map_err(io::Error::other).map_err(DecodeError::from).flatten();
    converted.map_err(|error| {
        let (why, retryable) = match error {
            DecodeError::TooLong => ("it is longer than two hours".to_owned(), false),
            DecodeError::Unwanted => ("it is no longer needed".to_owned(), true),
            DecodeError::Opus(opus_pure::Error::Io(error)) if error.kind() != io::ErrorKind::UnexpectedEof => {
                let for_good = error.kind() == io::ErrorKind::InvalidData;
                (error.to_string(), !for_good)
            }
            DecodeError::Opus(_) => {
                ("it isn't whole OGG/Opus; a command with {file} gets any recording as it came".to_owned(), false)
            }
        };
        SpeechError { reason: format!("failed to convert the recording to WAV: {why}"), remedy: None, retryable }
    })
}

/// Makes the directory, for nobody else to look into.
fn make(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(builder.recursive(true), 0o700).create(directory)?;
    sweep(directory);
    Ok(())
}

/// Clears the directory, if there is one, of what killed processes have left behind; other processes may be at work in it.
pub(crate) fn sweep(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let age =
            entry.metadata().and_then(|metadata| metadata.modified()).map(|at| SystemTime::now().duration_since(at));
        if matches!(age, Ok(Ok(age)) if age > LEFT_BEHIND) {
            let _gone = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_removes_stale_recordings_and_keeps_fresh_ones() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("old.ogg"), directory.path().join("new.ogg"));
        for path in [&old, &new] {
            std::fs::write(path, "a secret").unwrap();
        }
        let long_ago = SystemTime::now() - LEFT_BEHIND - Duration::from_secs(1);
        std::fs::File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
        sweep(directory.path());
        assert!(!old.exists() && new.exists());
        sweep(&directory.path().join("not made yet"));
    }

    /// The WAV is linked, to see how far it came: it is removed with the call.
    #[tokio::test]
    async fn dropped_call_ends_the_decoding() {
        let directory = tempfile::tempdir().unwrap();
        let ogg = RecordingFile(directory.path().join("two hours.ogg"));
        std::fs::write(ogg.path(), decode::tests::recording(59_000, 5_760)).unwrap();
        let wavs = directory.path().join("wavs");
        std::fs::create_dir(&wavs).unwrap();
        let first = || std::fs::read_dir(&wavs).unwrap().next().map(|entry| entry.unwrap().path());
        let kept = directory.path().join("kept");
        let begun = async {
            loop {
                if let Some(wav) = first() {
                    return std::fs::hard_link(wav, &kept).unwrap();
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = as_wav(&wavs, &ogg) => panic!("it was faster than a look at the directory"),
            () = begun => {}
        }
        while first().is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Two hours at 16 kHz and 16 bits.
        let (bytes, whole) = (std::fs::metadata(&kept).unwrap().len(), 59_000 * 1_920 * 2);
        assert!(bytes < whole / 2, "{bytes} of {whole} were decoded");
    }
}
