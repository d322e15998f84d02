//! Links that open one file without logging in, until they expire or are revoked.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use satchel_domain::{AttachmentId, ConversationId};
use satchel_ports::ledger::AttachmentKey;

use super::{
    extract::{ApiPath, ApiQuery},
    files::{DownloadQuery, ServedFile, serve_file},
    read_json,
};
use crate::{
    guard::OwnOrigin,
    links::LinkCheck,
    problem::{Problem, ProblemBody},
    state::AppState,
    wire::{Link, NewLink},
};

/// The longest life of a link.
const LONGEST_LINK: Duration = Duration::from_secs(720 * 60 * 60);

/// Makes a link to a file.
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
    State(site): State<Arc<AppState>>,
    ApiPath((id, attachment)): ApiPath<(String, String)>,
    request: Request,
) -> Result<Json<Link>, Problem> {
    let (conversation, attachment) = resolve_link(&site, &id, &attachment).await?;
    let OwnOrigin(origin) = request.extensions().get().cloned().expect("the guard has found out the origin");
    let NewLink { hours } = read_json(request).await?;
    let life = Duration::from_secs(u64::from(hours) * 60 * 60);
    if life.is_zero() || life > LONGEST_LINK {
        return Err(Problem::invalid("`hours` must be from 1 to 720."));
    }
    let origin = site.hosts.public_origin().unwrap_or(origin);
    let made = site.channel.links().make(&origin, &conversation, attachment, site.ledger.now(), life);
    Ok(Json(Link { url: made.url, expires_at: made.expires_at.0 }))
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
    State(site): State<Arc<AppState>>,
    ApiPath((id, attachment)): ApiPath<(String, String)>,
) -> Result<StatusCode, Problem> {
    let (_, attachment) = resolve_link(&site, &id, &attachment).await?;
    site.channel.links().revoke(attachment, site.ledger.now()).await.map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "failed to revoke the links to a file");
        Problem::unavailable("The links could not be revoked; please try again.")
    })?;
    Ok(StatusCode::NO_CONTENT)
}

/// Opens a link. It needs no login: whoever has it may read this one file.
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
        (status = 410, description = "It has expired or was revoked.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn open_link(
    State(site): State<Arc<AppState>>,
    ApiPath(link): ApiPath<String>,
    ApiQuery(how): ApiQuery<DownloadQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (conversation, attachment) = match site.channel.links().check(&link, site.ledger.now()) {
        LinkCheck::Valid(conversation, attachment) => (conversation, attachment),
        LinkCheck::Revoked => {
            let detail = "This link has expired or was revoked. Ask for a new one.";
            return Err(Problem::new(StatusCode::GONE, "link_expired", detail));
        }
        LinkCheck::Unknown => return Err(Problem::not_found("link")),
    };
    let found = site.ledger.attachment(&conversation, AttachmentKey::Id(attachment)).await?;
    let found = found.filter(|file| !file.is_forgotten()).ok_or_else(|| Problem::not_found("file any more"))?;
    let served = ServedFile { sha256: found.sha256, bytes: found.bytes, mime: &found.mime, filename: &found.filename };
    let mut answer = serve_file(&*site.blobs, &headers, served, how.is_download()).await?;
    // A browser that kept it would open it after its end.
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}

async fn resolve_link(site: &AppState, id: &str, attachment: &str) -> Result<(ConversationId, AttachmentId), Problem> {
    let conversation = site.conversation(id)?;
    let attachment = attachment.parse().map_err(|_| Problem::not_found("file"))?;
    let found = site.ledger.attachment(&conversation, AttachmentKey::Id(attachment)).await?;
    found
        .filter(|file| !file.is_forgotten())
        .map(|_| (conversation, attachment))
        .ok_or_else(|| Problem::not_found("file"))
}
