//! Who asks, and the way in with a token.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use super::read_json;
use crate::{
    guard::Peer,
    problem::{Problem, ProblemBody},
    site::Site,
    wire::{Limits, Login, Session},
};

/// Tells what a page must know first; needs no login.
#[utoipa::path(get, path = "/api/session", responses((status = 200, body = Session)))]
pub(crate) async fn session(State(site): State<Arc<Site>>, request: Request) -> Json<Session> {
    Json(Session {
        authorized: site.admits(&request).unwrap_or(false),
        token_required: site.access.needs_token(),
        model: site.settings.model.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        limits: Limits { file_bytes: site.settings.file_bytes, files_per_message: site.settings.files_per_message },
    })
}

/// Logs in: the answer sets a cookie.
#[utoipa::path(
    post,
    path = "/api/login",
    request_body = Login,
    responses(
        (status = 204, description = "Logged in."),
        (status = 401, description = "Wrong token.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "Too many wrong tokens.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn login(State(site): State<Arc<Site>>, request: Request) -> Result<Response, Problem> {
    let Peer(peer) = *request.extensions().get().expect("every connection puts its peer into its requests");
    let login: Login = read_json(request).await?;
    site.access.check(&login.token, peer.ip())?;
    if !site.access.needs_token() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let cookie = site.access.cookie(site.ledger.now());
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}
