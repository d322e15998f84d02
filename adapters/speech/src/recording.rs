//! A recording in a temporary file while a program transcribes it.

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
    decoder::{self, DecodeError},
    wav::WavReader,
};

/// After this time a file is taken to be left behind by a killed process: no transcription takes as long.
const STALE_AFTER: Duration = Duration::from_secs(60 * 60);

/// The mode of a file that only its owner can read.
pub(crate) const OWNER_ONLY_MODE: u32 = 0o600;

/// A file that is removed on drop.
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

/// Writes a recording to a file, with an extension by which programs detect its format.
pub(crate) async fn write_recording(
    directory: &Path,
    mut content: ByteStream,
    extension: &str,
    max_bytes: u64,
) -> Result<RecordingFile, SpeechError> {
    let write_error = |error: io::Error| SpeechError {
        reason: format!("failed to write the recording to a file: {error}"),
        remedy: None,
        retryable: true,
    };
    let path = directory.join(format!("{}.{extension}", Uuid::now_v7()));
    let directory_path = directory.to_owned();
    tokio::task::spawn_blocking(move || create_directory(&directory_path))
        .await
        .map_err(io::Error::other)
        .and_then(|created| created)
        .map_err(write_error)?;
    let mut options = tokio::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(OWNER_ONLY_MODE).open(&path).await.map_err(write_error)?;
    let recording = RecordingFile(path);
    let mut bytes = 0;
    while let Some(chunk) = content.next().await {
        let chunk = chunk.map_err(|error| SpeechError {
            reason: format!("failed to read the recording: {error}"),
            remedy: None,
            retryable: true,
        })?;
        bytes += chunk.len() as u64;
        if bytes > max_bytes {
            return Err(SpeechError {
                reason: "the recording is longer than its stated size".to_owned(),
                remedy: None,
                retryable: false,
            });
        }
        file.write_all(&chunk).await.map_err(write_error)?;
    }
    file.flush().await.map_err(write_error)?;
    Ok(recording)
}

/// Converts the recording to WAV; `None` if it is WAV already.
pub(crate) async fn convert_to_wav(
    directory: &Path,
    recording: &RecordingFile,
) -> Result<Option<RecordingFile>, SpeechError> {
    let (from, to) = (recording.path().to_owned(), directory.join(format!("{}.wav", Uuid::now_v7())));
    // Lives as long as this future.
    let caller_token = Arc::new(());
    let caller = Arc::downgrade(&caller_token);
    let converted = tokio::task::spawn_blocking(move || {
        let mut head = [0; 4];
        io::Read::read_exact(&mut std::fs::File::open(&from)?, &mut head)?;
        if WavReader::is_wav(&head) {
            return Ok(None);
        }
        // Created first, so that the file is removed whatever happens.
        let wav = RecordingFile(to);
        decoder::write_wav(&from, wav.path(), &caller)?;
        Ok::<_, DecodeError>(Some(wav))
    });
    let converted = converted.await.map_err(io::Error::other).map_err(DecodeError::from).flatten();
    converted.map_err(|error| {
        let (reason, retryable) = match error {
            DecodeError::TooLong => ("it is longer than two hours".to_owned(), false),
            DecodeError::Cancelled => ("it is no longer needed".to_owned(), true),
            DecodeError::Opus(opus_pure::Error::Io(error)) if error.kind() != io::ErrorKind::UnexpectedEof => {
                let is_permanent = error.kind() == io::ErrorKind::InvalidData;
                (error.to_string(), !is_permanent)
            }
            DecodeError::Opus(_) => {
                ("it isn't whole OGG/Opus; a command with {file} gets any recording as it came".to_owned(), false)
            }
        };
        SpeechError { reason: format!("failed to convert the recording to WAV: {reason}"), remedy: None, retryable }
    })
}

/// Creates the directory, which no other user can read.
fn create_directory(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(builder.recursive(true), 0o700).create(directory)?;
    remove_stale(directory);
    Ok(())
}

/// Removes the files of killed processes from the directory, if it exists; other processes may be using it.
pub(crate) fn remove_stale(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let age =
            entry.metadata().and_then(|metadata| metadata.modified()).map(|at| SystemTime::now().duration_since(at));
        if matches!(age, Ok(Ok(age)) if age > STALE_AFTER) {
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
        let long_ago = SystemTime::now() - STALE_AFTER - Duration::from_secs(1);
        std::fs::File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
        remove_stale(directory.path());
        assert!(!old.exists() && new.exists());
        remove_stale(&directory.path().join("not made yet"));
    }

    /// The WAV is linked, to see how far it came: it is removed with the call.
    #[tokio::test]
    async fn dropped_call_ends_the_decoding() {
        let directory = tempfile::tempdir().unwrap();
        let ogg = RecordingFile(directory.path().join("two hours.ogg"));
        std::fs::write(ogg.path(), decoder::tests::recording(59_000, 5_760)).unwrap();
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
            _ = convert_to_wav(&wavs, &ogg) => panic!("it was faster than a look at the directory"),
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
