//! Who asks, and the way in with a token.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use super::read_json_within;
use crate::{
    problem::{Problem, ProblemBody},
    state::AppState,
    wire::{Limits, Login, Session},
};

/// How long a token may take to come: whoever sends one is not known yet.
const LOGIN_TIME: Duration = Duration::from_secs(10);

/// Tells what a page must know first; needs no login.
#[utoipa::path(
    get,
    path = "/api/session",
    responses(
        (status = 200, body = Session),
        (status = 429, description = "Wrong, and there were too many wrong logins before.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn session(State(site): State<Arc<AppState>>, request: Request) -> Result<Json<Session>, Problem> {
    let authorized = match site.admits(&request) {
        Err(problem) if problem.status() == StatusCode::TOO_MANY_REQUESTS => return Err(problem),
        admits => admits.unwrap_or(false),
    };
    Ok(Json(Session {
        authorized,
        token_required: site.access.needs_token(),
        model: authorized.then(|| site.settings.model.clone()),
        model_is_offline: authorized.then_some(site.settings.model_is_offline),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        limits: Limits { file_bytes: site.settings.file_bytes, files_per_message: site.settings.files_per_message },
    }))
}

/// Logs in with the token or a login link: the answer sets a cookie.
#[utoipa::path(
    post,
    path = "/api/login",
    request_body = Login,
    responses(
        (status = 204, description = "Logged in."),
        (status = 401, description = "Wrong token, or a link that was already used or has expired.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "Wrong, and there were too many wrong logins before.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn login(State(site): State<Arc<AppState>>, request: Request) -> Result<Response, Problem> {
    let sender = site.sender(&request);
    match parse_login(request).await? {
        Login::Token(token) => site.access.verify_token(&token, sender)?,
        Login::Link(secret) => redeem(&site, secret, sender).await?,
    }
    if !site.access.needs_token() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let cookie = site.access.cookie(site.ledger.now());
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// Uses a login link up.
async fn redeem(site: &AppState, secret: String, sender: IpAddr) -> Result<(), Problem> {
    let login_links = site.login_links.clone();
    let redeemed = tokio::task::spawn_blocking(move || login_links.redeem(&secret)).await;
    match redeemed.map_err(std::io::Error::other).flatten() {
        Ok(true) => Ok(()),
        Ok(false) => Err(site.access.refuse(sender, Problem::invalid_link())),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "checking a login link failed");
            Err(Problem::unavailable("The link could not be checked. Please get a new one and try again."))
        }
    }
}

async fn parse_login(request: Request) -> Result<Login, Problem> {
    read_json_within(request, LOGIN_TIME).await
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use bytes::Bytes;
    use futures::stream;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stalled_login_body_times_out() {
        let body = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let request = Request::post("/api/login").header(header::CONTENT_TYPE, "application/json").body(body).unwrap();
        let began = Instant::now();
        assert_eq!(parse_login(request).await.unwrap_err().code(), "stalled");
        assert!(began.elapsed() <= Duration::from_secs(11), "{:?}", began.elapsed());
    }
}
