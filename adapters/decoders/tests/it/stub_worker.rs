//! A worker that is a shell script, and a store with one file.

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::{TryStreamExt, stream};
use satchel_decoders::{DecoderSettings, DecoderWorkers};
use satchel_domain::{MediaInfo, Sha256};
use satchel_ports::{
    AudioDecoder, AudioError, DocumentError, DocumentReader, DocumentRequest, DocumentText, ImageError, ImageRequest,
    ImageScaler, MediaError, MediaMeter, MediaRequest, MockBlobs, Recording, ScaledImage,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// What every script starts with. `request` reads the line of the request, and `document` the ten bytes behind it.
/// `image` takes a format, two sides and a number of bytes; `content` takes base64; `audio_end` a number of samples, and
/// `media` two sides and a duration.
const PRELUDE: &str = r#"#!/bin/sh
ulimit -t 60
PATH=/usr/local/bin:/usr/bin:/bin
HERE=${0%/*}
echo "$@" > "$HERE/arguments"
echo $$ >> "$HERE/numbers"
ready() { printf '%s\n' '{"ready":{"version":3}}'; }
request() { IFS= read -r request || exit 0; printf '%s' "$request" > "$HERE/request"; }
document() { head -c 10 > "$HERE/document"; }
page() { printf '{"page":{"number":%s,"offset":0,"bytes":%s,"text":"%s"}}\n' "$1" "${#2}" "$2"; }
done_with() { printf '{"done":{"total_pages":%s,"read_pages":%s,"empty_pages":[%s],"is_truncated":false}}\n' "$1" "$2" "$3"; }
image() { printf '{"image":{"format":"%s","width":%s,"height":%s,"bytes":%s}}\n' "$1" "$2" "$3" "$4"; }
content() { printf '{"content":"%s"}\n' "$1"; }
audio() { printf '%s\n' '"audio"'; }
audio_end() { printf '{"audio_end":{"samples":%s}}\n' "$1"; }
media() { printf '{"media":{"width":%s,"height":%s,"duration_ms":%s}}\n' "$1" "$2" "$3"; }
"#;

/// The document of every test.
pub(crate) const DOCUMENT: &[u8] = b"nine bytes";

pub(crate) struct StubWorker {
    directory: TempDir,
}

impl StubWorker {
    pub(crate) fn new(body: &str) -> Self {
        let stub = Self { directory: tempfile::tempdir().unwrap() };
        // Another process writes it: a file that is open for writing, also in a child of another test, can't be run.
        let mut writing = Command::new("sh")
            .args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"])
            .arg(stub.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        writing.stdin.take().unwrap().write_all(format!("{PRELUDE}{body}\n").as_bytes()).unwrap();
        assert!(writing.wait().unwrap().success());
        stub
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("worker")
    }

    pub(crate) fn settings(&self) -> DecoderSettings {
        DecoderSettings { time_limit: Duration::from_secs(20), max_concurrent: 2, ..DecoderSettings::new(self.path()) }
    }

    /// What the script wrote into a file beside it.
    pub(crate) fn noted(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    /// Whether every process that was started from it is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.noted("numbers").lines().all(|number| !std::fs::exists(format!("/proc/{number}")).unwrap())
    }

    pub(crate) async fn read(&self) -> Result<DocumentText, DocumentError> {
        read_with(&workers(self.settings()), &request(), &CancellationToken::new()).await
    }

    /// Decodes the recording to its end.
    pub(crate) async fn decode(&self) -> Result<Vec<u8>, AudioError> {
        decode_with(&workers(self.settings()), recording()).await
    }

    pub(crate) async fn measure(&self) -> Result<MediaInfo, MediaError> {
        workers(self.settings()).measure(&media_request()).await
    }

    pub(crate) async fn scale(&self) -> Result<ScaledImage, ImageError> {
        workers(self.settings()).scale(&image_request(), &CancellationToken::new()).await
    }
}

pub(crate) fn workers(settings: DecoderSettings) -> DecoderWorkers {
    workers_for(settings, DOCUMENT)
}

/// Workers for a store of this file.
pub(crate) fn workers_for(settings: DecoderSettings, content: &'static [u8]) -> DecoderWorkers {
    let mut blobs = MockBlobs::new();
    blobs.expect_open().returning(move |_, _| {
        let chunks = content.chunks(4).map(|chunk| Ok(Bytes::from_static(chunk)));
        Ok(Box::pin(stream::iter(chunks)))
    });
    DecoderWorkers::new(settings, Arc::new(blobs))
}

pub(crate) fn request() -> DocumentRequest {
    DocumentRequest {
        sha256: Sha256([7; 32]),
        bytes: DOCUMENT.len() as u64,
        mime: "application/pdf".to_owned(),
        first_page: 1,
        last_page: None,
        offset: 0,
        max_text_bytes: 100,
        work_share: None,
    }
}

pub(crate) fn image_request() -> ImageRequest {
    ImageRequest {
        sha256: Sha256([7; 32]),
        bytes: DOCUMENT.len() as u64,
        mime: "image/webp".to_owned(),
        page: None,
        max_side: 40,
        max_bytes: 20,
        work_share: None,
    }
}

pub(crate) async fn read_with(
    workers: &DecoderWorkers,
    request: &DocumentRequest,
    cancel: &CancellationToken,
) -> Result<DocumentText, DocumentError> {
    workers.read_text(request, cancel).await
}

/// The document of every test as a recording.
pub(crate) fn recording() -> Recording {
    let chunks = DOCUMENT.chunks(4).map(|chunk| Ok(Bytes::from_static(chunk)));
    let (content, mime) = (Box::pin(stream::iter(chunks)), "audio/ogg".to_owned());
    Recording { content, bytes: DOCUMENT.len() as u64, mime, work_share: None }
}

pub(crate) fn media_request() -> MediaRequest {
    MediaRequest { sha256: Sha256([7; 32]), bytes: DOCUMENT.len() as u64, mime: "video/mp4".to_owned() }
}

/// Decodes a recording to its end. An error within the stream is the same as one before it.
pub(crate) async fn decode_with(workers: &DecoderWorkers, recording: Recording) -> Result<Vec<u8>, AudioError> {
    let samples = workers.decode(recording).await?;
    let whole = samples.map_ok(|chunk| chunk.to_vec()).try_concat().await;
    whole.map_err(|error| *error.into_inner().unwrap().downcast::<AudioError>().unwrap())
}
