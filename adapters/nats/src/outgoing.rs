//! What leaves the process: an event as JSON, with the bytes of small files, and never larger than the server takes.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use futures::TryStreamExt;
use satchel_domain::Sha256;
use satchel_ports::{
    BlobError, Blobs, BusEvent,
    event_bus::{EventBytes, MAX_INLINE_BYTES, encode_event},
};

/// What the headers of a message take of the server's limit, at most.
const MAX_HEADER_BYTES: usize = 1024;

/// A JSON string is at most this many times as long as its text.
const MAX_ESCAPE_FACTOR: usize = 6;

/// What stands at the end of a text that was cut off.
const ELLIPSIS: &str = "…";

/// Writes an event for readers outside. Returns `None` if it is too large in every form.
pub(crate) async fn write_event(event: BusEvent, blobs: &Arc<dyn Blobs>, max_payload: usize) -> Option<Vec<u8>> {
    let max_bytes = max_payload.saturating_sub(MAX_HEADER_BYTES);
    let event = match attach_bytes(&event, blobs, max_bytes).await {
        Ok(Some(attached)) => attached,
        Ok(None) => event,
        Err(error) => {
            tracing::debug!(error = &error as &dyn std::error::Error, "an event names a file that can't be read");
            event
        }
    };
    let json = encode_event(&event);
    if json.len() <= max_bytes {
        return Some(json);
    }
    let json = encode_event(&shorten(event, max_bytes / (2 * MAX_ESCAPE_FACTOR)));
    (json.len() <= max_bytes).then_some(json)
}

/// Returns the event with the bytes of its file, if that is small enough.
///
/// # Errors
/// When the file can't be read.
pub(crate) async fn attach_bytes(
    event: &BusEvent,
    blobs: &Arc<dyn Blobs>,
    max_payload: usize,
) -> Result<Option<BusEvent>, BlobError> {
    let BusEvent::ResponseBinary { bytes, sha256, .. } = event else { return Ok(None) };
    // Base64 makes four characters of three bytes.
    let fits = bytes.saturating_mul(4) / 3 + 4096 <= max_payload as u64;
    if *bytes > MAX_INLINE_BYTES || !fits {
        return Ok(None);
    }
    let data = STANDARD.encode(read_blob(sha256, blobs).await?);
    let mut attached = event.clone();
    if let BusEvent::ResponseBinary { content, .. } = &mut attached {
        *content = EventBytes::Inline(data);
    }
    Ok(Some(attached))
}

async fn read_blob(sha256: &Sha256, blobs: &Arc<dyn Blobs>) -> Result<Vec<u8>, BlobError> {
    let stream = blobs.open(sha256, None).await?;
    let read = stream.try_fold(Vec::new(), async |mut all, bytes| {
        all.extend_from_slice(&bytes);
        Ok(all)
    });
    read.await.map_err(BlobError::Source)
}

/// Cuts the text of an event off.
fn shorten(mut event: BusEvent, max_bytes: usize) -> BusEvent {
    let text = match &mut event {
        BusEvent::ResponseText { text, .. }
        | BusEvent::TextDelta { text, .. }
        | BusEvent::ToolQuestion { text, .. }
        | BusEvent::ToolDecided { text, .. } => Some(text),
        BusEvent::TurnCompleted { response, .. } => response.text.as_mut(),
        _ => None,
    };
    if let Some(text) = text
        && text.len() > max_bytes
    {
        text.truncate(text.floor_char_boundary(max_bytes));
        text.push_str(ELLIPSIS);
    }
    event
}
