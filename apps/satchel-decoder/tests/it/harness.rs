//! Gives files to the real worker through the adapter that Satchel uses.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{TryStreamExt, stream};
use satchel_decoders::{DecoderSettings, DecoderWorkers};
use satchel_domain::{MediaInfo, Sha256};
use satchel_ports::{
    AudioDecoder, AudioError, ByteStream, DocumentError, DocumentReader, DocumentRequest, DocumentText, ImageError,
    ImageRequest, ImageScaler, MediaError, MediaMeter, MediaRequest, MockBlobs, Recording, ScaledImage,
};
use tokio_util::sync::CancellationToken;

/// The settings for the program that was built with the tests. Its debug build is slow, and the machine may be busy.
pub(crate) fn settings() -> DecoderSettings {
    DecoderSettings {
        time_limit: Duration::from_secs(60),
        ..DecoderSettings::new(PathBuf::from(env!("CARGO_BIN_EXE_satchel-decoder")))
    }
}

/// Workers for a store of these files. Each hash is the number of a file, repeated.
pub(crate) fn workers(settings: DecoderSettings, files: Vec<Vec<u8>>) -> DecoderWorkers {
    let files: Vec<Bytes> = files.into_iter().map(Bytes::from).collect();
    let mut blobs = MockBlobs::new();
    blobs.expect_open().returning(move |sha256, _| {
        let content = files[usize::from(sha256.0[0])].clone();
        let chunks: Vec<_> = content.chunks(100_000).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        Ok(Box::pin(stream::iter(chunks)))
    });
    DecoderWorkers::new(settings, Arc::new(blobs))
}

/// Asks for the text of the file of this number from its beginning.
pub(crate) fn document_request(number: u8, bytes: usize, mime: &str) -> DocumentRequest {
    DocumentRequest {
        sha256: Sha256([number; 32]),
        bytes: bytes as u64,
        mime: mime.to_owned(),
        first_page: 1,
        last_page: None,
        offset: 0,
        max_text_bytes: 64 << 10,
        work_share: None,
    }
}

/// Asks for the image of this number with sides of at most 150 pixels.
pub(crate) fn image_request(number: u8, bytes: usize) -> ImageRequest {
    ImageRequest {
        sha256: Sha256([number; 32]),
        bytes: bytes as u64,
        mime: "image/png".to_owned(),
        page: None,
        max_side: 150,
        max_bytes: 1 << 20,
        work_share: None,
    }
}

/// Reads a document from its beginning.
pub(crate) async fn read(
    settings: DecoderSettings,
    content: Vec<u8>,
    mime: &str,
) -> Result<DocumentText, DocumentError> {
    let request = document_request(0, content.len(), mime);
    workers(settings, vec![content]).read_text(&request, &CancellationToken::new()).await
}

/// Scales an image to sides of at most 150 pixels.
pub(crate) async fn scale(
    settings: DecoderSettings,
    content: Vec<u8>,
    cancel: &CancellationToken,
) -> Result<ScaledImage, ImageError> {
    let request = image_request(0, content.len());
    workers(settings, vec![content]).scale(&request, cancel).await
}

/// Decodes a recording to its end, and counts its samples.
pub(crate) async fn count_samples(settings: DecoderSettings, content: Vec<u8>) -> Result<usize, AudioError> {
    let bytes = content.len() as u64;
    let content: ByteStream = Box::pin(stream::iter([Ok(Bytes::from(content))]));
    let recording = Recording { content, bytes, mime: "audio/test".to_owned(), work_share: None };
    let samples = workers(settings, Vec::new()).decode(recording).await?;
    let bytes = samples.try_fold(0, async |bytes, chunk| Ok(bytes + chunk.len())).await;
    bytes.map(|bytes| bytes / 2).map_err(|error| *error.into_inner().unwrap().downcast::<AudioError>().unwrap())
}

pub(crate) async fn measure(content: Vec<u8>) -> Result<MediaInfo, MediaError> {
    let (sha256, bytes) = (Sha256([0; 32]), content.len() as u64);
    let request = MediaRequest { sha256, bytes, mime: "video/mp4".to_owned() };
    workers(settings(), vec![content]).measure(&request).await
}

/// The text of a document's pages, or why there is none.
pub(crate) async fn text_of(content: Vec<u8>, mime: &str) -> String {
    text_or_error(read(settings(), content, mime).await)
}

/// The text of the pages, or why there is none.
pub(crate) fn text_or_error(result: Result<DocumentText, DocumentError>) -> String {
    match result {
        Ok(text) => text.pages.iter().map(|page| page.text.as_str()).collect::<Vec<_>>().join("|"),
        Err(error) => error.to_string(),
    }
}
