//! The routes of the HTTP API, and the extractors that their handlers share; the OpenAPI document is generated from the
//! handlers.

mod commands;
mod conversation_files;
mod conversations;
mod events;
mod exports;
mod files;
mod health;
mod links;
mod logins;
mod messages;
mod notifications;
mod previews;
pub(crate) mod range;
mod search;
mod session;
mod system;
mod uploads;

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{FromRequestParts, Path, Query, Request},
    http::{StatusCode, header, request::Parts},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use satchel_http_server::{BodyError, read_body};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    guard, openai, page,
    problem::{Problem, ProblemBody},
    state::AppState,
    wire,
};

/// The maximum size of a JSON body.
const MAX_JSON_BYTES: usize = 1 << 20;

/// The timeout for receiving a JSON body.
const JSON_TIMEOUT: Duration = Duration::from_secs(30);

/// The timeout of a response that isn't a stream, without its request body.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The variable segments of a path.
#[derive(Debug)]
pub(crate) struct ApiPath<T>(pub(crate) T);

/// The query parameters.
#[derive(Debug)]
pub(crate) struct ApiQuery<T>(pub(crate) T);

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Satchel",
        description = "Talk to the assistant and exchange files with it. With a token set, every call but `session` \
                       and `login` needs `Authorization: Bearer …`, or the cookie and the proof of a login."
    ),
    components(schemas(
        ProblemBody,
        wire::Snapshot,
        wire::Blocks<'_>,
        wire::ToolChange<'_>,
        wire::Gone<'_>,
    ))
)]
struct Api;

/// Builds the router of all paths.
pub(crate) fn router(state: Arc<AppState>) -> Router {
    let (public_routes, mut document) = OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(session::session))
        .routes(routes!(session::login))
        .routes(routes!(links::open_link))
        .split_for_parts();
    let (bounded_routes, described) = OpenApiRouter::new()
        .routes(routes!(commands::list))
        .routes(routes!(conversations::list))
        .routes(routes!(conversations::show, conversations::change, conversations::delete))
        .routes(routes!(conversations::turns))
        .routes(routes!(conversation_files::list))
        .routes(routes!(conversation_files::forget_file))
        .routes(routes!(search::search))
        .routes(routes!(messages::retry))
        .routes(routes!(links::make, links::revoke))
        .routes(routes!(logins::list))
        .routes(routes!(logins::end_login))
        .routes(routes!(system::overview))
        .routes(routes!(system::check))
        .routes(routes!(system::settings))
        .routes(routes!(system::people))
        .routes(routes!(system::decide_pairing))
        .routes(routes!(system::revoke))
        .routes(routes!(system::outbox))
        .routes(routes!(system::discard))
        .routes(routes!(system::resend))
        .routes(routes!(notifications::accept))
        .split_for_parts();
    document.merge(described);
    let (streaming_routes, described) = OpenApiRouter::new()
        .routes(routes!(messages::accept))
        .routes(routes!(messages::turn))
        .routes(routes!(uploads::upload))
        .routes(routes!(notifications::upload))
        .routes(routes!(uploads::preview))
        .routes(routes!(files::file))
        .routes(routes!(previews::preview))
        .routes(routes!(files::voice))
        .routes(routes!(events::events))
        .routes(routes!(exports::export))
        .split_for_parts();
    document.merge(described);
    let document = Arc::new(document);
    let protected_routes = bounded_routes
        .layer(middleware::from_fn(with_response_timeout))
        .merge(streaming_routes)
        .route("/metrics", get(health::metrics))
        .route("/api/openapi.json", get(move || std::future::ready(Json(Arc::clone(&document)))))
        .route("/api/{*rest}", axum::routing::any(async || Problem::not_found("call")))
        .layer(middleware::from_fn_with_state(Arc::clone(&state), guard::require_login));
    Router::new()
        .route("/", get(page::index))
        .route("/settings", get(page::settings))
        .route("/page/{*name}", get(page::file))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .merge(public_routes)
        .merge(protected_routes)
        .merge(openai::router(&state))
        .fallback(async || Problem::not_found("page"))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", "This server can't do that.")
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&state), guard::check_origin))
        .with_state(state)
}

/// Responds with an error if the handler takes too long.
async fn with_response_timeout(request: Request, next: Next) -> Response {
    match timeout(RESPONSE_TIMEOUT + JSON_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::timed_out().into_response(),
    }
}

/// Reads a JSON body of bounded size, with a timeout.
async fn read_json<T: DeserializeOwned>(request: Request) -> Result<T, Problem> {
    read_json_with_timeout(request, JSON_TIMEOUT).await
}

async fn read_json_with_timeout<T: DeserializeOwned>(request: Request, timeout: Duration) -> Result<T, Problem> {
    let content_type =
        request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        let detail = "The body must be application/json.";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "wrong_body_type", detail));
    }
    let body = read_body(request.into_body(), MAX_JSON_BYTES, timeout).await.map_err(|error| match error {
        BodyError::TooLarge => {
            let detail = "The message is too long; send it as a file.";
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
        }
        BodyError::TimedOut => Problem::stalled(),
        BodyError::Broken => {
            Problem::new(StatusCode::BAD_REQUEST, "broken_off", "The request was interrupted. Please send it again.")
        }
    })?;
    serde_json::from_slice(&body).map_err(|error| Problem::invalid(format!("The body can't be read: {error}.")))
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for ApiPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(segments)| Self(segments)).map_err(|_| Problem::not_found("page"))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for ApiQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::from_request_parts(parts, state).await;
        query.map(|Query(parameters)| Self(parameters)).map_err(|error| {
            Problem::invalid(format!("The parameters can't be read: {}.", error.body_text().trim_end_matches('.')))
        })
    }
}
