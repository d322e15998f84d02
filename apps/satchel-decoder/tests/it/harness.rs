//! Gives documents to the real worker through the adapter that Satchel uses.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream;
use satchel_decoders::{DecoderSettings, DecoderWorkers};
use satchel_domain::Sha256;
use satchel_ports::{DocumentError, DocumentReader, DocumentRequest, DocumentText, MockBlobs};
use tokio_util::sync::CancellationToken;

/// The settings for the program that was built with the tests. Its debug build is slow, and the machine may be busy.
pub(crate) fn settings() -> DecoderSettings {
    DecoderSettings {
        time_limit: Duration::from_secs(60),
        ..DecoderSettings::new(PathBuf::from(env!("CARGO_BIN_EXE_satchel-decoder")))
    }
}

/// Reads a document from its beginning.
pub(crate) async fn read(
    settings: DecoderSettings,
    content: Vec<u8>,
    mime: &str,
) -> Result<DocumentText, DocumentError> {
    let bytes = content.len() as u64;
    let content = Bytes::from(content);
    let mut blobs = MockBlobs::new();
    blobs.expect_open().returning(move |_, _| {
        let chunks: Vec<_> = content.chunks(100_000).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        Ok(Box::pin(stream::iter(chunks)))
    });
    let request = DocumentRequest {
        sha256: Sha256([0; 32]),
        bytes,
        mime: mime.to_owned(),
        first_page: 1,
        offset: 0,
        max_text_bytes: 64 << 10,
    };
    DecoderWorkers::new(settings, Arc::new(blobs)).read_text(&request, &CancellationToken::new()).await
}

/// The text of a document's pages, or why there is none.
pub(crate) async fn text_of(content: Vec<u8>, mime: &str) -> String {
    match read(settings(), content, mime).await {
        Ok(text) => text.pages.iter().map(|page| page.text.as_str()).collect::<Vec<_>>().join("|"),
        Err(error) => error.to_string(),
    }
}
