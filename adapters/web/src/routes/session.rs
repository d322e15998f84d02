//! The client's session, and logins.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use super::read_json_with_timeout;
use crate::{
    problem::{Problem, ProblemBody},
    state::AppState,
    wire::{Limits, Login, Session},
};

/// The timeout for receiving a login, short because the client isn't authenticated.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the session of the client; needs no login.
#[utoipa::path(
    get,
    path = "/api/session",
    responses(
        (status = 200, body = Session),
        (status = 429, description = "Wrong, and there were too many wrong logins before.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn session(State(state): State<Arc<AppState>>, request: Request) -> Result<Json<Session>, Problem> {
    let authorized = match state.is_authorized(&request) {
        Err(problem) if problem.status() == StatusCode::TOO_MANY_REQUESTS => return Err(problem),
        result => result.unwrap_or(false),
    };
    Ok(Json(Session {
        authorized,
        owner: authorized && state.administration.is_some(),
        token_required: state.authenticator.needs_token(),
        model: authorized.then(|| state.settings.model.clone()),
        model_is_offline: authorized.then_some(state.settings.model_is_offline),
        model_takes_images: authorized.then_some(state.settings.model_takes_images),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        limits: Limits { file_bytes: state.settings.file_bytes, files_per_message: state.settings.files_per_message },
    }))
}

/// Logs in with the token or a login link: the response sets a cookie.
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
pub(crate) async fn login(State(state): State<Arc<AppState>>, request: Request) -> Result<Response, Problem> {
    let client = state.client_network(&request);
    match parse_login(request).await? {
        Login::Token(token) => state.authenticator.verify_token(&token, client)?,
        Login::Link(secret) => redeem_link(&state, secret, client).await?,
    }
    if !state.authenticator.needs_token() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let cookie = state.authenticator.create_cookie(state.clock.now());
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// Redeems a login link.
async fn redeem_link(state: &AppState, secret: String, client: IpAddr) -> Result<(), Problem> {
    let login_links = state.login_links.clone();
    let redeemed = tokio::task::spawn_blocking(move || login_links.redeem(&secret)).await;
    match redeemed.map_err(std::io::Error::other).flatten() {
        Ok(true) => Ok(()),
        Ok(false) => Err(state.authenticator.record_failure(client, Problem::invalid_link())),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "checking a login link failed");
            Err(Problem::unavailable("The link could not be checked. Please get a new one and try again."))
        }
    }
}

async fn parse_login(request: Request) -> Result<Login, Problem> {
    read_json_with_timeout(request, LOGIN_TIMEOUT).await
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
