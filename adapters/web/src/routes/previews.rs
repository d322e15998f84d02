//! Serves previews of images: copies that a worker has made small, upright and free of metadata.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use satchel_domain::Filename;

use super::{
    ApiPath,
    files::{FILE_POLICY, content_disposition, find_file},
    range::is_not_modified,
};
use crate::{
    problem::{Problem, ProblemBody},
    state::AppState,
    view,
};

/// A browser asks each time, as for files: the login may have ended, or the file may have been removed.
const PREVIEW_CACHING: HeaderValue = HeaderValue::from_static("private, no-cache");

/// Sends a small copy of an image.
#[utoipa::path(
    get,
    path = "/api/conversations/{id}/files/{attachment}/preview",
    params(
        ("id" = String, Path, description = "The part of the conversation id after `web:`."),
        ("attachment" = String, Path, description = "The file's id."),
    ),
    responses(
        (status = 200, description = "The copy, a PNG or JPEG image.", content_type = "image/jpeg"),
        (status = 304, description = "The client already has it."),
        (status = 404, description = "No such file in this conversation, or it has no preview.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "No worker is free; show the file itself.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn preview(
    State(state): State<Arc<AppState>>,
    ApiPath((id, attachment)): ApiPath<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = find_file(&state, &id, &attachment).await?;
    let previews = state.previews.as_ref().filter(|_| view::has_preview(&found)).ok_or_else(Problem::no_preview)?;
    let tag = format!("\"{}-preview\"", found.sha256);
    let cache_headers = [
        (header::ETAG, HeaderValue::try_from(&tag).expect("hexadecimal digits are plain")),
        (header::CACHE_CONTROL, PREVIEW_CACHING),
        (header::CONTENT_SECURITY_POLICY, FILE_POLICY),
    ];
    if is_not_modified(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, cache_headers).into_response());
    }
    let image = previews.get(&found).await?;
    // The copy has another type than the file, so a browser that saves it needs another extension.
    let extension = if image.mime == "image/png" { "png" } else { "jpg" };
    let filename = Filename::from_untrusted(&format!("{}.{extension}", found.filename));
    let content_headers = [
        (header::CONTENT_TYPE, image.mime),
        (header::CONTENT_DISPOSITION, content_disposition(true, filename.as_str())),
    ];
    Ok((cache_headers, content_headers, image.content).into_response())
}
