//! The files of a call as the body of its request: streamed from the blob store, never held.

use std::sync::Arc;

use reqwest::{
    Body,
    header::{CONTENT_TYPE, HeaderMap},
    multipart::{Form, Part},
};
use satchel_domain::delivery::SendError;
use satchel_ports::{BlobError, Blobs};
use serde_json::Value;

use super::compose::Composed;
use crate::rest::Progress;

/// Opens the files of a call. Nothing has been sent when one of them can't be read.
pub(super) async fn form(composed: &Composed, blobs: &Arc<dyn Blobs>, progress: &Progress) -> Result<Form, SendError> {
    let payload = Value::Object(composed.payload.clone()).to_string();
    let mut form = Form::new().part("payload_json", typed(Part::text(payload), "application/json"));
    for (index, upload) in composed.uploads.iter().enumerate() {
        let content = blobs.open(&upload.sha256, None).await.map_err(|error| match error {
            BlobError::Missing(_) | BlobError::Damaged(_) => SendError::Unreadable { reason: error.to_string() },
            // The store itself is in trouble, not these bytes: that may pass.
            other => SendError::NotSent { retry_after_ms: None, reason: other.to_string() },
        })?;
        let body = Body::wrap_stream(progress.watch(content, upload.bytes));
        let part = Part::stream_with_length(body, upload.bytes).file_name(upload.filename.as_str().to_owned());
        form = form.part(format!("files[{index}]"), typed(part, &upload.mime));
    }
    Ok(form)
}

/// The part with its type, where that can be written.
fn typed(part: Part, mime: &str) -> Part {
    let mut headers = HeaderMap::new();
    if let Ok(mime) = mime.parse() {
        headers.insert(CONTENT_TYPE, mime);
    }
    part.headers(headers)
}
