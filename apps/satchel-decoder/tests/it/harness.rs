//! Gives files to the real worker through the adapter that Satchel uses.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream;
use satchel_decoders::{DecoderSettings, DecoderWorkers};
use satchel_domain::Sha256;
use satchel_ports::{
    DocumentError, DocumentReader, DocumentRequest, DocumentText, ImageError, ImageRequest, ImageScaler, MockBlobs,
    ScaledImage,
};
use tokio_util::sync::CancellationToken;

/// The settings for the program that was built with the tests. Its debug build is slow, and the machine may be busy.
pub(crate) fn settings() -> DecoderSettings {
    DecoderSettings {
        time_limit: Duration::from_secs(60),
        ..DecoderSettings::new(PathBuf::from(env!("CARGO_BIN_EXE_satchel-decoder")))
    }
}

/// Workers for a store in which every file has this content.
fn workers(settings: DecoderSettings, content: Vec<u8>) -> DecoderWorkers {
    let content = Bytes::from(content);
    let mut blobs = MockBlobs::new();
    blobs.expect_open().returning(move |_, _| {
        let chunks: Vec<_> = content.chunks(100_000).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        Ok(Box::pin(stream::iter(chunks)))
    });
    DecoderWorkers::new(settings, Arc::new(blobs))
}

/// Reads a document from its beginning.
pub(crate) async fn read(
    settings: DecoderSettings,
    content: Vec<u8>,
    mime: &str,
) -> Result<DocumentText, DocumentError> {
    let request = DocumentRequest {
        sha256: Sha256([0; 32]),
        bytes: content.len() as u64,
        mime: mime.to_owned(),
        first_page: 1,
        offset: 0,
        max_text_bytes: 64 << 10,
    };
    workers(settings, content).read_text(&request, &CancellationToken::new()).await
}

/// Scales an image to sides of at most 150 pixels.
pub(crate) async fn scale(
    settings: DecoderSettings,
    content: Vec<u8>,
    cancel: &CancellationToken,
) -> Result<ScaledImage, ImageError> {
    let request = ImageRequest {
        sha256: Sha256([0; 32]),
        bytes: content.len() as u64,
        mime: "image/png".to_owned(),
        page: None,
        max_side: 150,
        max_bytes: 1 << 20,
    };
    workers(settings, content).scale(&request, cancel).await
}

/// The text of a document's pages, or why there is none.
pub(crate) async fn text_of(content: Vec<u8>, mime: &str) -> String {
    match read(settings(), content, mime).await {
        Ok(text) => text.pages.iter().map(|page| page.text.as_str()).collect::<Vec<_>>().join("|"),
        Err(error) => error.to_string(),
    }
}
