//! The files of a call as the body of its request: streamed from the blob store, never held.

use std::sync::Arc;

use reqwest::{
    Body,
    multipart::{Form, Part},
};
use satchel_domain::delivery::SendError;
use satchel_ports::{BlobError, Blobs};
use serde_json::Value;

use super::compose::Composed;
use crate::bot::Progress;

/// Opens the files of a call. Nothing has been sent when one of them can't be read.
pub(super) async fn form(composed: &Composed, blobs: &Arc<dyn Blobs>, progress: &Progress) -> Result<Form, SendError> {
    let mut form = Form::new();
    for (name, value) in &composed.fields {
        // Texts stand for themselves; everything else is JSON (Bot API, Making requests).
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        form = form.text(name.clone(), value);
    }
    for upload in &composed.uploads {
        let content = blobs.open(&upload.sha256, None).await.map_err(|error| match error {
            BlobError::Missing(_) | BlobError::Damaged(_) => SendError::Unreadable { reason: error.to_string() },
            // The store itself is in trouble, not these bytes: that may pass.
            other => SendError::NotSent { retry_after_ms: None, reason: other.to_string() },
        })?;
        let body = Body::wrap_stream(progress.watch(content, upload.bytes));
        let part = Part::stream_with_length(body, upload.bytes).file_name(upload.filename.as_str().to_owned());
        form = form.part(upload.name.clone(), typed(part, &upload.mime));
    }
    Ok(form)
}

/// The part with its type, where that can be written.
fn typed(part: Part, mime: &str) -> Part {
    let mut headers = reqwest::header::HeaderMap::new();
    if let Ok(mime) = mime.parse() {
        headers.insert(reqwest::header::CONTENT_TYPE, mime);
    }
    part.headers(headers)
}
