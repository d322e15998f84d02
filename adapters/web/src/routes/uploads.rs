//! Uploads: streamed into the file store, never completely in memory, and discarded when interrupted.

use std::{io, sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use futures::{StreamExt, stream};
use satchel_domain::{ConversationId, Filename};
use satchel_ports::{BlobHint, ByteStream};
use serde::Deserialize;
use tokio::time::timeout;

use super::{
    ApiPath, ApiQuery,
    files::{ServedFile, serve_file},
};
use crate::{
    channel::{UPLOAD_TTL, UploadHandle},
    problem::{Problem, ProblemBody},
    signing::Purpose,
    state::AppState,
    view,
    wire::{Inline, Uploaded},
};

/// How long an upload may stall.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Deserialize)]
pub(crate) struct UploadQuery {
    /// The file's name.
    pub(super) filename: String,
}

/// Stores a file and returns the handle by which a message names it. The body is the file.
#[utoipa::path(
    post,
    path = "/api/conversations/{id}/uploads",
    params(
        ("id" = String, Path, description = "The part of the conversation id after `web:`."),
        ("filename" = String, Query, description = "The file's name."),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, body = Uploaded),
        (status = 408, description = "The upload stalled.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "The file is too large.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 507, description = "The disk is full.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn upload(
    State(state): State<Arc<AppState>>,
    ApiPath(id): ApiPath<String>,
    ApiQuery(query): ApiQuery<UploadQuery>,
    request: Request,
) -> Result<(StatusCode, Json<Uploaded>), Problem> {
    let uploaded = store_upload(&state, state.conversation(&id)?, query, request).await?;
    Ok((StatusCode::CREATED, Json(uploaded)))
}

/// Stores the body for a message in a conversation.
pub(super) async fn store_upload(
    state: &AppState,
    conversation: ConversationId,
    query: UploadQuery,
    request: Request,
) -> Result<Uploaded, Problem> {
    let filename = Filename::from_untrusted(&query.filename);
    let limit = state.settings.file_bytes;
    let content_length =
        request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if content_length.is_some_and(|bytes: u64| bytes > limit) {
        return Err(Problem::file_too_large(limit));
    }
    let hint = BlobHint { filename: Some(filename.clone()), mime: None, bytes: content_length };
    let blob = state.blobs.put(body_stream(request.into_body()), &hint, limit).await?;
    let (bytes, mime) = (blob.bytes, blob.mime.clone());
    let upload = UploadHandle { blob, conversation: conversation.clone(), filename, at: state.clock.now() };
    let handle = state.channel.key().sign(Purpose::Upload, &upload);
    let inline = view::inline_kind(&mime);
    let preview =
        (inline != Inline::None).then(|| format!("{}/uploads/{handle}", view::conversation_path(&conversation)));
    let filename = upload.filename.to_string();
    Ok(Uploaded { upload: handle, filename, bytes, mime, inline, preview })
}

/// Returns what was uploaded for a message in a conversation, unless it is too old.
pub(super) fn verify_upload(
    state: &AppState,
    conversation: &ConversationId,
    handle: &str,
) -> Result<UploadHandle, Problem> {
    let upload: Option<UploadHandle> = state.channel.key().verify(Purpose::Upload, handle);
    let Some(upload) = upload.filter(|upload| upload.conversation == *conversation) else {
        let detail = "The message names an upload that doesn't belong to this conversation.";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown_upload", detail));
    };
    if state.clock.now().saturating_duration_since(upload.at) > UPLOAD_TTL {
        let detail = format!("{} was uploaded too long ago; please upload it again.", upload.filename);
        return Err(Problem::new(StatusCode::GONE, "upload_expired", detail));
    }
    Ok(upload)
}

/// Shows an upload before it is sent.
#[utoipa::path(
    get,
    path = "/api/conversations/{id}/uploads/{upload}",
    params(
        ("id" = String, Path, description = "The part of the conversation id after `web:`."),
        ("upload" = String, Path, description = "The upload's id, as returned by the upload."),
    ),
    responses(
        (status = 200, description = "The bytes.", content_type = "application/octet-stream"),
        (status = 404, description = "This conversation has no such upload.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn preview(
    State(state): State<Arc<AppState>>,
    ApiPath((id, handle)): ApiPath<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let conversation = state.conversation(&id)?;
    let upload: Option<UploadHandle> = state.channel.key().verify(Purpose::Upload, &handle);
    let upload = upload.filter(|upload| upload.conversation == conversation);
    let UploadHandle { blob, filename, .. } = upload.ok_or_else(|| Problem::not_found("upload"))?;
    let served = ServedFile { sha256: blob.sha256, bytes: blob.bytes, mime: &blob.mime, filename: &filename };
    serve_file(&*state.blobs, &headers, served, false).await
}

/// Returns the chunks of a body; a stalled one ends with an error.
fn body_stream(body: Body) -> ByteStream {
    let chunks = stream::unfold(Some(body.into_data_stream()), async |body| {
        let mut body = body?;
        match timeout(STALL_TIMEOUT, body.next()).await {
            Ok(Some(Ok(chunk))) => Some((Ok(chunk), Some(body))),
            Ok(Some(Err(error))) => Some((Err(io::Error::other(error)), None)),
            Ok(None) => None,
            Err(_) => Some((Err(io::ErrorKind::TimedOut.into()), None)),
        }
    });
    chunks.boxed()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stalled_upload_times_out_and_slow_one_continues() {
        let pieces = stream::iter(0..3).then(async |number: u8| {
            tokio::time::sleep(STALL_TIMEOUT - Duration::from_secs(1)).await;
            Ok::<_, io::Error>(Bytes::from(vec![number]))
        });
        let slow: Vec<_> = body_stream(Body::from_stream(pieces)).map(Result::unwrap).collect().await;
        assert_eq!(slow.concat(), [0, 1, 2]);
        let still = stream::iter([Ok::<_, io::Error>(Bytes::from_static(b"x"))]).chain(stream::pending());
        let still: Vec<_> = body_stream(Body::from_stream(still)).collect().await;
        assert_eq!(still.last().unwrap().as_ref().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(still.len(), 2);
    }
}
