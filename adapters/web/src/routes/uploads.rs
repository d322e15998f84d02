//! Files on their way in: streamed into the file store, never whole in memory, and gone when they break off.

use std::{io, sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use futures::{StreamExt, stream};
use satchel_domain::Filename;
use satchel_ports::{BlobHint, ByteStream};
use serde::Deserialize;
use tokio::time::timeout;

use super::{
    files::{Served, serve},
    parameters::{InPath, InQuery},
};
use crate::{
    problem::{Problem, ProblemBody},
    signing::Purpose,
    site::Site,
    upload::Upload,
    view,
    wire::{Inline, Uploaded},
};

/// How long an upload may stand still.
const STANDSTILL: Duration = Duration::from_secs(60);

#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    /// What the file is called.
    filename: String,
}

/// Stores a file and answers with what a message names it by. The body is the file.
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
    State(site): State<Arc<Site>>,
    InPath(id): InPath<String>,
    InQuery(named): InQuery<Named>,
    request: Request,
) -> Result<(StatusCode, Json<Uploaded>), Problem> {
    let conversation = site.conversation(&id)?;
    let filename = Filename::from_untrusted(&named.filename);
    let limit = site.settings.file_bytes;
    let told = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if told.is_some_and(|bytes: u64| bytes > limit) {
        return Err(Problem::file_too_large(limit));
    }
    let hint = BlobHint { filename: Some(filename.clone()), mime: None, bytes: told };
    let blob = site.blobs.put(arriving(request.into_body()), &hint, limit).await?;
    let (bytes, mime) = (blob.bytes, blob.mime.clone());
    let upload = Upload { blob, conversation: conversation.clone(), filename, at: site.ledger.now() };
    let handle = site.channel.key().sign(Purpose::Upload, &upload);
    let inline = view::inline(&mime);
    let preview = (inline != Inline::None).then(|| format!("{}/uploads/{handle}", view::path(&conversation)));
    let filename = upload.filename.to_string();
    Ok((StatusCode::CREATED, Json(Uploaded { upload: handle, filename, bytes, mime, inline, preview })))
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
    State(site): State<Arc<Site>>,
    InPath((id, handle)): InPath<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let conversation = site.conversation(&id)?;
    let upload: Option<Upload> = site.channel.key().read(Purpose::Upload, &handle);
    let upload = upload.filter(|upload| upload.conversation == conversation);
    let Upload { blob, filename, .. } = upload.ok_or_else(|| Problem::not_found("upload"))?;
    let served = Served { sha256: blob.sha256, bytes: blob.bytes, mime: &blob.mime, filename: &filename };
    serve(&*site.blobs, &headers, served, false).await
}

/// The bytes of a body as they come; one that stands still ends in an error.
fn arriving(body: Body) -> ByteStream {
    let pieces = stream::unfold(Some(body.into_data_stream()), async |pieces| {
        let mut pieces = pieces?;
        match timeout(STANDSTILL, pieces.next()).await {
            Ok(Some(Ok(piece))) => Some((Ok(piece), Some(pieces))),
            Ok(Some(Err(error))) => Some((Err(io::Error::other(error)), None)),
            Ok(None) => None,
            Err(_) => Some((Err(io::ErrorKind::TimedOut.into()), None)),
        }
    });
    pieces.boxed()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_upload_that_stands_still_ends_and_a_slow_one_goes_on() {
        let pieces = stream::iter(0..3).then(async |number: u8| {
            tokio::time::sleep(STANDSTILL - Duration::from_secs(1)).await;
            Ok::<_, io::Error>(Bytes::from(vec![number]))
        });
        let slow: Vec<_> = arriving(Body::from_stream(pieces)).map(Result::unwrap).collect().await;
        assert_eq!(slow.concat(), [0, 1, 2]);
        let still = stream::iter([Ok::<_, io::Error>(Bytes::from_static(b"x"))]).chain(stream::pending());
        let still: Vec<_> = arriving(Body::from_stream(still)).collect().await;
        assert_eq!(still.last().unwrap().as_ref().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(still.len(), 2);
    }
}
