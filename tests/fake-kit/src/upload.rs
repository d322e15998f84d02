//! A file that came with a multipart request to a fake server: hashed and counted as it flows, kept only if asked.

use axum::extract::multipart::{Field, MultipartError};
use bytes::{Bytes, BytesMut};
use satchel_domain::Sha256;
use sha2::Digest;

/// How much of a file is looked at for its kind and size.
const MAX_HEAD_BYTES: usize = 128 * 1024;

/// A file that came with a request.
#[derive(Debug, Clone)]
pub struct ReceivedUpload {
    pub filename: String,
    pub mime: String,
    pub bytes: u64,
    pub sha256: Sha256,
    pub head: Bytes,
    /// All of it, where it was asked to be kept.
    pub content: Option<Bytes>,
}

impl ReceivedUpload {
    /// Reads a field to its end.
    pub async fn read(mut field: Field<'_>, keep_bytes: bool) -> Result<Self, MultipartError> {
        let filename = field.file_name().unwrap_or_default().to_owned();
        let mime = field.content_type().unwrap_or("application/octet-stream").to_owned();
        let mut hasher = sha2::Sha256::new();
        let mut bytes = 0;
        let mut head = BytesMut::new();
        let mut content = BytesMut::new();
        while let Some(chunk) = field.chunk().await? {
            hasher.update(&chunk);
            bytes += chunk.len() as u64;
            let room = MAX_HEAD_BYTES - head.len();
            head.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if keep_bytes {
                content.extend_from_slice(&chunk);
            }
        }
        let content = keep_bytes.then(|| content.freeze());
        Ok(Self { filename, mime, bytes, sha256: Sha256(hasher.finalize().into()), head: head.freeze(), content })
    }
}
