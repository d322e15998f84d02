//! Files as base64 for the wire: streamed from the blob store and encoded chunk by chunk, never in memory twice.

use base64::{Engine, engine::general_purpose::STANDARD};
use futures::StreamExt;
use satchel_ports::{Blobs, ModelFile};

use crate::file_signature::{HEAD_BYTES, fits_type};

/// Why a file isn't sent, as text for the model.
const UNREADABLE_REASON: &str = "it could not be read";
const OTHER_TYPE_REASON: &str = "its first bytes are not what its type says";

/// Reads a file as base64. It reads no more than the file's recorded size.
///
/// # Errors
/// When it can't be read, its size differs from the recorded one, or its first bytes are not those of its type. The reason
/// is logged here.
pub(crate) async fn encode_base64(blobs: &dyn Blobs, file: &ModelFile) -> Result<String, String> {
    let log_unreadable = |error: &dyn std::error::Error| {
        tracing::warn!(attachment.id = %file.id, error = %error, "reading a file for the model failed; the model is told");
        UNREADABLE_REASON.to_owned()
    };
    let length = usize::try_from(file.bytes).map_err(|error| log_unreadable(&error))?;
    let mut content = blobs.open(&file.sha256, None).await.map_err(|error| log_unreadable(&error))?;
    let mut text = String::with_capacity(length.div_ceil(3) * 4);
    let mut rest: Vec<u8> = Vec::with_capacity(3);
    let mut head: Vec<u8> = Vec::with_capacity(length.min(HEAD_BYTES));
    let mut read = 0;
    while let Some(chunk) = content.next().await {
        let chunk = chunk.map_err(|error| log_unreadable(&error))?;
        read += chunk.len();
        if read > length {
            break;
        }
        head.extend_from_slice(&chunk[..chunk.len().min(HEAD_BYTES - head.len())]);
        let mut bytes = &chunk[..];
        // Three bytes make four letters: the remainder waits for the next chunk.
        if !rest.is_empty() {
            let (head, tail) = bytes.split_at(bytes.len().min(3 - rest.len()));
            rest.extend_from_slice(head);
            bytes = tail;
            if rest.len() < 3 {
                continue;
            }
            STANDARD.encode_string(&rest, &mut text);
            rest.clear();
        }
        let complete = bytes.len() / 3 * 3;
        STANDARD.encode_string(&bytes[..complete], &mut text);
        rest.extend_from_slice(&bytes[complete..]);
    }
    if read != length {
        tracing::warn!(attachment.id = %file.id, attachment.bytes = file.bytes, "a file's size differs from the recorded size");
        return Err(UNREADABLE_REASON.to_owned());
    }
    if !fits_type(&file.mime, &head) {
        tracing::debug!(attachment.id = %file.id, mime = file.mime, "a file's first bytes are not what its type says; the model is told");
        return Err(OTHER_TYPE_REASON.to_owned());
    }
    STANDARD.encode_string(&rest, &mut text);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::stream;
    use satchel_domain::{AttachmentId, AttachmentSource, Filename, MediaInfo, Sha256, Visibility};
    use satchel_fake_kit::FaultyBlobs;
    use satchel_ports::{BlobError, BlobHint, ByteStream, StoredBlob};
    use uuid::Uuid;

    use super::*;

    /// A store that serves what it holds in pieces of a given length.
    struct Pieces(Vec<u8>, usize);

    #[async_trait::async_trait]
    impl Blobs for Pieces {
        async fn put(&self, _: ByteStream, _: &BlobHint, _: u64) -> Result<StoredBlob, BlobError> {
            panic!("nothing is put")
        }
        async fn open(&self, _: &Sha256, _: Option<std::ops::Range<u64>>) -> Result<ByteStream, BlobError> {
            let pieces: Vec<_> = self.0.chunks(self.1).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
            Ok(stream::iter(pieces).boxed())
        }
        async fn list_stale(&self, _: std::time::Duration) -> Result<Vec<Sha256>, BlobError> {
            panic!("nothing is collected")
        }
        async fn mark(&self, _: &[Sha256], _: std::time::Duration) -> Result<(), BlobError> {
            panic!("nothing is collected")
        }
        async fn sweep(&self) -> Result<u64, BlobError> {
            panic!("nothing is collected")
        }
    }

    /// A file of a type that is known by no bytes.
    fn file(bytes: u64) -> ModelFile {
        ModelFile {
            id: AttachmentId(Uuid::from_u128(5)),
            number: None,
            source: AttachmentSource::User,
            filename: Filename::from_untrusted("x.bin"),
            mime: "application/octet-stream".into(),
            bytes,
            sha256: Sha256([7; 32]),
            media: MediaInfo::default(),
            visibility: Visibility::Deliver,
        }
    }

    #[tokio::test]
    async fn pieces_of_any_length_make_the_same_text() {
        let whole: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for length in [1, 2, 3, 4, 5, 7, 64, 999, 1000] {
            for total in [1, 2, 3, 4, 998, 999, 1000] {
                let blobs = Pieces(whole[..total].to_vec(), length);
                let text = encode_base64(&blobs, &file(total as u64)).await.unwrap();
                assert_eq!(text, STANDARD.encode(&whole[..total]), "{total} bytes in pieces of {length}");
                assert_eq!(text.capacity(), text.len(), "the text is as large as it needs to be");
            }
        }
    }

    #[tokio::test]
    async fn file_differing_from_its_record_is_unreadable() {
        for recorded in [9, 11] {
            assert_eq!(encode_base64(&Pieces(vec![1; 10], 4), &file(recorded)).await.unwrap_err(), UNREADABLE_REASON);
        }
        assert_eq!(encode_base64(&FaultyBlobs::default(), &file(1)).await.unwrap_err(), UNREADABLE_REASON);
    }

    #[tokio::test]
    async fn first_bytes_are_compared_with_the_type_whatever_the_pieces() {
        let png = [b"\x89PNG\r\n\x1a\n".as_slice(), &[7; 2000]].concat();
        let page = b"<!DOCTYPE html>".repeat(200);
        for length in [1, 3, 1000, 1024, 4000] {
            let image = |bytes: &[u8]| ModelFile { mime: "image/png".into(), ..file(bytes.len() as u64) };
            let encoded = encode_base64(&Pieces(png.clone(), length), &image(&png)).await;
            assert_eq!(encoded, Ok(STANDARD.encode(&png)), "pieces of {length}");
            let refused = encode_base64(&Pieces(page.clone(), length), &image(&page)).await;
            assert_eq!(refused, Err(OTHER_TYPE_REASON.to_owned()), "pieces of {length}");
        }
    }
}
