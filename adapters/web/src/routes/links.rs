//! Links that open one file without logging in, until they expire or are revoked.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use satchel_domain::Attachment;
use satchel_ports::ledger::{AttachmentKey, AttachmentQuery};

use super::{
    ApiPath, ApiQuery,
    files::{DownloadQuery, ServedFile, serve_file},
    read_json,
};
use crate::{
    guard::own_origin,
    links::LinkCheck,
    problem::{Problem, ProblemBody},
    state::AppState,
    wire::{Link, NewLink},
};

/// The maximum lifetime of a link.
const MAX_LINK_TTL: Duration = Duration::from_secs(720 * 60 * 60);

/// Creates a link to a file.
#[utoipa::path(
    post,
    path = "/api/conversations/{id}/files/{attachment}/link",
    params(
        ("id" = String, Path, description = "The part of the conversation id after `web:`."),
        ("attachment" = String, Path, description = "The file's id."),
    ),
    request_body = NewLink,
    responses(
        (status = 200, body = Link),
        (status = 404, description = "No such file in this conversation.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn make(
    State(state): State<Arc<AppState>>,
    ApiPath((id, attachment)): ApiPath<(String, String)>,
    request: Request,
) -> Result<Json<Link>, Problem> {
    let file = find_file(&state, &id, &attachment).await?;
    let origin = own_origin(&request).origin.clone();
    let NewLink { hours } = read_json(request).await?;
    let ttl = Duration::from_secs(u64::from(hours) * 60 * 60);
    if ttl.is_zero() || ttl > MAX_LINK_TTL {
        return Err(Problem::invalid("`hours` must be from 1 to 720."));
    }
    let origin = state.hosts.public_origin().unwrap_or(origin);
    let link = state.channel.links().create(&origin, &file, state.clock.now(), ttl);
    Ok(Json(Link { url: link.url, expires_at: link.expires_at.0 }))
}

/// Revokes all links of a file.
#[utoipa::path(
    delete,
    path = "/api/conversations/{id}/files/{attachment}/link",
    params(
        ("id" = String, Path, description = "The part of the conversation id after `web:`."),
        ("attachment" = String, Path, description = "The file's id."),
    ),
    responses(
        (status = 204, description = "All links to the file are revoked."),
        (status = 404, description = "No such file in this conversation.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn revoke(
    State(state): State<Arc<AppState>>,
    ApiPath((id, attachment)): ApiPath<(String, String)>,
) -> Result<StatusCode, Problem> {
    let file = find_file(&state, &id, &attachment).await?;
    state.storage.revoke_links(file.id).await.map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "failed to revoke the links to a file");
        Problem::unavailable("The links could not be revoked; please try again.")
    })?;
    Ok(StatusCode::NO_CONTENT)
}

/// Opens a link. It needs no login: anyone with the link may read this one file.
#[utoipa::path(
    get,
    path = "/links/{link}",
    params(
        ("link" = String, Path, description = "The signed token."),
        ("download" = Option<String>, Query, description = "`1`: download instead of showing inline."),
    ),
    responses(
        (status = 200, description = "The bytes.", content_type = "application/octet-stream"),
        (status = 404, description = "The link is invalid.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 410, description = "It has expired or was revoked, or its file is gone.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn open_link(
    State(state): State<Arc<AppState>>,
    ApiPath(link): ApiPath<String>,
    ApiQuery(download): ApiQuery<DownloadQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let link = match state.channel.links().check(&link, state.clock.now()) {
        LinkCheck::Valid(link) => link,
        LinkCheck::Expired => return Err(link_expired()),
        LinkCheck::Unknown => return Err(Problem::not_found("link")),
    };
    // By its id alone, because its conversation may have another name by now.
    let query = AttachmentQuery { file: Some(link.attachment), ..AttachmentQuery::default() };
    let found = state.archive.attachments(&query).await?.pop();
    // A stranger doesn't learn why.
    let found = found.filter(|file| !link.is_revoked(file)).ok_or_else(link_expired)?;
    let served = ServedFile { sha256: found.sha256, bytes: found.bytes, mime: &found.mime, filename: &found.filename };
    let mut response = serve_file(&*state.blobs, &headers, served, download.is_download()).await?;
    // A cached response would outlive the link.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn link_expired() -> Problem {
    Problem::new(StatusCode::GONE, "link_expired", "This link has expired or was revoked. Ask for a new one.")
}

async fn find_file(state: &AppState, id: &str, attachment: &str) -> Result<Attachment, Problem> {
    let conversation = state.conversation(id)?;
    let attachment = attachment.parse().map_err(|_| Problem::not_found("file"))?;
    let found = state.archive.attachment(&conversation, AttachmentKey::Id(attachment)).await?;
    found.filter(|file| !file.is_forgotten()).ok_or_else(|| Problem::not_found("file"))
}
