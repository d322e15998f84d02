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
    client_name::client_name,
    guard::own_origin,
    problem::{Problem, ProblemBody},
    state::AppState,
    wire::{Limits, Login, LoginProof, Session},
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
        (status = 503, description = "The database failed, so it isn't known.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn session(State(state): State<Arc<AppState>>, request: Request) -> Result<Json<Session>, Problem> {
    let credentials = state.read_credentials(&request);
    let authorized = match state.authorize(credentials).await {
        Ok(access) => access.is_some(),
        Err(problem) if problem.status() == StatusCode::UNAUTHORIZED => false,
        // A client that has to wait, or can't be looked up, may be logged in.
        Err(problem) => return Err(problem),
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

/// Logs in with the token or a login link: the response sets a cookie, and has the proof that goes along with it.
#[utoipa::path(
    post,
    path = "/api/login",
    request_body = Login,
    responses(
        (status = 200, description = "Logged in, for 30 days at most.", body = LoginProof),
        (status = 204, description = "No login is needed."),
        (status = 401, description = "Wrong token, or a link that was already used or has expired.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "Wrong, and there were too many wrong logins before.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn login(State(state): State<Arc<AppState>>, request: Request) -> Result<Response, Problem> {
    let (client, browser) = (state.client_network(&request), client_name(request.headers()));
    let port = own_origin(&request).port;
    match parse_login(request).await? {
        Login::Token(token) => state.authenticator.verify_token(&token, client)?,
        Login::Link(secret) => redeem_link(&state, secret, client).await?,
    }
    if !state.authenticator.needs_token() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let login = state.logins.create_login(browser).await?;
    let (cookie, proof) = (state.authenticator.create_cookie(login, port), state.authenticator.create_proof(login));
    Ok(([(header::SET_COOKIE, cookie)], Json(LoginProof { proof })).into_response())
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
