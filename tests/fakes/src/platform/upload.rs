//! Reading an upload: hashed and counted as it flows, checked against the rules, kept only if asked.

use axum::extract::{Multipart, multipart::Field};
use bytes::{Bytes, BytesMut};
use satchel_domain::Sha256;
use sha2::Digest;

use crate::{
    PlatformRules, TranscriptFile,
    transcript::Contents,
    wire::{Outgoing, Why, WireError},
};

/// How much of a file is looked at for its kind and size.
const HEAD: usize = 128 * 1024;

/// A message with its files, read whole.
pub(crate) struct Upload {
    pub(crate) message: Outgoing,
    pub(crate) contents: Contents,
}

struct ReadFile {
    bytes: u64,
    sha256: Sha256,
    head: Bytes,
    content: Option<Bytes>,
}

/// Why there is no upload.
pub(crate) enum NoUpload {
    /// The client went away in the middle of it.
    BrokeOff,
    /// It is complete and refused.
    Refused(WireError),
}

/// Reads all of a request before anything is answered, refusals too: a client that is still writing would not read.
pub(crate) async fn read(mut fields: Multipart, rules: &PlatformRules, keep_bytes: bool) -> Result<Upload, NoUpload> {
    let malformed = |words: &str| NoUpload::Refused(WireError::new(400, Why::Other, format!("Bad Request: {words}")));
    let payload = fields.next_field().await.map_err(|_| NoUpload::BrokeOff)?;
    let payload = payload.ok_or_else(|| malformed("empty request"))?.bytes().await.map_err(|_| NoUpload::BrokeOff)?;
    let mut files = Vec::new();
    while let Some(field) = fields.next_field().await.map_err(|_| NoUpload::BrokeOff)? {
        files.push(read_file(field, keep_bytes).await?);
    }
    let message: Outgoing = serde_json::from_slice(&payload).map_err(|error| malformed(&error.to_string()))?;
    if files.len() != message.files.len() {
        return Err(malformed("the files are not those that the payload names"));
    }
    rules.check_message(&message).map_err(NoUpload::Refused)?;
    for (index, file) in files.iter().enumerate() {
        rules.check_file(&message, index, file.bytes, &file.head).map_err(NoUpload::Refused)?;
    }
    rules.check_request(files.iter().map(|file| file.bytes).sum()).map_err(NoUpload::Refused)?;
    let named = message.files.iter().zip(files).map(|(named, file)| TranscriptFile {
        filename: named.filename.clone(),
        mime: named.mime.clone(),
        bytes: file.bytes,
        sha256: file.sha256,
        form: Some(named.form),
        caption: named.caption.clone(),
        content: file.content,
    });
    let contents = Contents { text: message.text.clone(), files: named.collect() };
    Ok(Upload { message, contents })
}

async fn read_file(mut field: Field<'_>, keep_bytes: bool) -> Result<ReadFile, NoUpload> {
    let mut hasher = sha2::Sha256::new();
    let mut bytes = 0;
    let mut head = BytesMut::new();
    let mut content = BytesMut::new();
    while let Some(chunk) = field.chunk().await.map_err(|_| NoUpload::BrokeOff)? {
        hasher.update(&chunk);
        bytes += chunk.len() as u64;
        let room = HEAD - head.len();
        head.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if keep_bytes {
            content.extend_from_slice(&chunk);
        }
    }
    let content = keep_bytes.then(|| content.freeze());
    Ok(ReadFile { bytes, sha256: Sha256(hasher.finalize().into()), head: head.freeze(), content })
}
