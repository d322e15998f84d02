//! A recording in a temporary file while a program transcribes it.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use futures::StreamExt;
use satchel_domain::WorkShare;
use satchel_ports::{AudioDecoder, AudioError, ByteStream, Recording, SpeechError};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tokio_util::io::ReaderStream;
use uuid::Uuid;

use crate::{CHUNK_BYTES, wav_file};

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

/// Converts the recording to WAV as programs expect it; `None` if it is so already, or is another WAV that nothing here
/// can convert.
pub(crate) async fn convert_to_wav(
    directory: &Path,
    recording: &RecordingFile,
    mime: &str,
    work_share: Option<WorkShare>,
    decoder: Option<&dyn AudioDecoder>,
) -> Result<Option<RecordingFile>, SpeechError> {
    let (content, bytes, head) = reopen(recording).await.map_err(|error| conversion_error(&error, true))?;
    if wav_file::is_transcription_wav(&head) {
        return Ok(None);
    }
    let no_decoder = || AudioError::Unavailable { reason: "the decoder program is missing".to_owned() };
    let decoded = match decoder {
        Some(decoder) => decoder.decode(Recording { content, bytes, mime: mime.to_owned(), work_share }).await,
        None => Err(no_decoder()),
    };
    let samples = match decoded {
        Ok(samples) => samples,
        // The program may know a WAV that nothing here decodes.
        Err(AudioError::Unavailable { .. } | AudioError::Unsupported { .. }) if wav_file::is_wav(&head) => {
            return Ok(None);
        }
        Err(error) => return Err(decoding_error(&error)),
    };
    let wav = RecordingFile(directory.join(format!("{}.wav", Uuid::now_v7())));
    wav_file::write_wav(wav.path(), samples).await.map_err(|error| {
        match error.get_ref().and_then(|error| error.downcast_ref::<AudioError>()) {
            Some(error) => decoding_error(error),
            None => conversion_error(&error, true),
        }
    })?;
    Ok(Some(wav))
}

/// The recording as a stream, its size, and its first bytes.
async fn reopen(recording: &RecordingFile) -> io::Result<(ByteStream, u64, Vec<u8>)> {
    let mut file = tokio::fs::File::open(recording.path()).await?;
    let mut head = Vec::new();
    (&mut file).take(wav_file::HEADER_BYTES as u64).read_to_end(&mut head).await?;
    file.rewind().await?;
    let bytes = file.metadata().await?.len();
    Ok((Box::pin(ReaderStream::with_capacity(file, CHUNK_BYTES)), bytes, head))
}

fn decoding_error(error: &AudioError) -> SpeechError {
    match error {
        AudioError::Unavailable { reason } => SpeechError {
            remedy: Some(
                "install the program satchel-decoder next to satchel, or use {file} in place of {wav}".to_owned(),
            ),
            ..conversion_error(reason, true)
        },
        AudioError::Interrupted { reason } => conversion_error(reason, true),
        AudioError::Unsupported { reason } | AudioError::Unreadable { reason } => {
            conversion_error(&format!("{reason}; a command with {{file}} gets any recording as it came"), false)
        }
    }
}

fn conversion_error(reason: &impl ToString, retryable: bool) -> SpeechError {
    let reason = format!("failed to convert the recording to WAV: {}", reason.to_string());
    SpeechError { reason, remedy: None, retryable }
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
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use bytes::Bytes;
    use futures::stream;
    use satchel_ports::MockAudioDecoder;
    use satchel_wait::wait_until;

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

    fn recording_file(directory: &Path, content: &[u8]) -> RecordingFile {
        let file = RecordingFile(directory.join("recording.ogg"));
        std::fs::write(file.path(), content).unwrap();
        file
    }

    /// Sends samples until it is dropped.
    fn endless_sound(is_dropped: &Arc<AtomicBool>) -> ByteStream {
        struct NoteDrop(Arc<AtomicBool>);
        impl Drop for NoteDrop {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let note = NoteDrop(Arc::clone(is_dropped));
        Box::pin(stream::repeat_with(move || {
            let _kept = &note;
            Ok(Bytes::from_static(&[0; 64]))
        }))
    }

    #[tokio::test]
    async fn dropped_call_ends_the_decoding() {
        let directory = tempfile::tempdir().unwrap();
        let ogg = recording_file(directory.path(), b"OggS and so on");
        let wavs = directory.path().join("wavs");
        std::fs::create_dir(&wavs).unwrap();
        let first = || std::fs::read_dir(&wavs).unwrap().next();
        let is_dropped = Arc::new(AtomicBool::new(false));
        let mut decoder = MockAudioDecoder::new();
        let noted = Arc::clone(&is_dropped);
        decoder.expect_decode().returning(move |_| Ok(endless_sound(&noted)));
        let begun = wait_until("there is a file", || first().is_some());
        tokio::select! {
            _ = convert_to_wav(&wavs, &ogg, "audio/ogg", None, Some(&decoder)) => panic!("the sound has no end"),
            () = begun => {}
        }
        assert!(is_dropped.load(Ordering::SeqCst), "nobody decodes any more");
        assert!(first().is_none(), "nothing is left");
    }

    #[tokio::test]
    async fn failure_within_the_sound_leaves_no_wav() {
        let directory = tempfile::tempdir().unwrap();
        let ogg = recording_file(directory.path(), b"OggS and so on");
        let mut decoder = MockAudioDecoder::new();
        decoder.expect_decode().returning(|_| {
            let error = AudioError::Unreadable { reason: "it is longer than 120 minutes".to_owned() };
            let chunks = [Ok(Bytes::from_static(&[0; 64])), Err(io::Error::other(error))];
            Ok(Box::pin(stream::iter(chunks)))
        });
        let converted = convert_to_wav(directory.path(), &ogg, "audio/ogg", None, Some(&decoder)).await;
        let error = converted.err().unwrap();
        assert!(error.reason.contains("it is longer than 120 minutes") && !error.retryable, "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "only the recording is left");
    }

    #[tokio::test]
    async fn wav_as_programs_expect_it_is_not_decoded() {
        let directory = tempfile::tempdir().unwrap();
        let mut content = wav_file::header(4);
        content.extend([1, 2, 3, 4]);
        let wav = recording_file(directory.path(), &content);
        let decoder = MockAudioDecoder::new();
        let converted = convert_to_wav(directory.path(), &wav, "audio/wav", None, Some(&decoder)).await;
        assert!(matches!(converted, Ok(None)), "as it came");
    }

    /// AVI has the same container.
    #[tokio::test]
    async fn no_other_format_is_passed_on_as_wav() {
        let directory = tempfile::tempdir().unwrap();
        let mut decoder = MockAudioDecoder::new();
        decoder
            .expect_decode()
            .returning(|_| Err(AudioError::Unsupported { reason: "it is something else".to_owned() }));
        let avi = recording_file(directory.path(), b"RIFF\x24\0\0\0AVI LIST and so on");
        let error = convert_to_wav(directory.path(), &avi, "video/avi", None, Some(&decoder)).await.err().unwrap();
        assert!(error.reason.contains("it is something else") && !error.retryable, "{error}");
        let wav = recording_file(directory.path(), b"RIFF\x24\0\0\0WAVEfmt and so on");
        let converted = convert_to_wav(directory.path(), &wav, "audio/wav", None, Some(&decoder)).await;
        assert!(matches!(converted, Ok(None)), "the program may know it");
    }

    /// A program that gets a WAV of another rate would only hear nonsense.
    #[tokio::test]
    async fn busy_decoder_is_worth_a_retry() {
        let directory = tempfile::tempdir().unwrap();
        let wav = recording_file(directory.path(), b"RIFF\x24\0\0\0WAVEfmt and so on");
        let mut decoder = MockAudioDecoder::new();
        let busy = || AudioError::Interrupted { reason: "too many files are being decoded".to_owned() };
        decoder.expect_decode().returning(move |_| Err(busy()));
        let converted = convert_to_wav(directory.path(), &wav, "audio/wav", None, Some(&decoder)).await;
        let error = converted.err().unwrap();
        assert!(error.reason.ends_with("too many files are being decoded") && error.retryable, "{error}");
        assert_eq!(error.remedy, None);
    }

    #[tokio::test]
    async fn missing_decoder_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let ogg = recording_file(directory.path(), b"OggS and so on");
        let converted = convert_to_wav(directory.path(), &ogg, "audio/ogg", None, None).await;
        let message = converted.err().unwrap().owner_message();
        assert!(message.contains("the decoder program is missing") && message.contains("satchel-decoder"), "{message}");
    }
}
