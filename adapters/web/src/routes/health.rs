//! Whether the server is alive and can work, and its figures.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use tokio::time::timeout;

use crate::{problem::Problem, state::AppState};

/// How long the ledger may take to show that it answers.
const READY_TIME: Duration = Duration::from_secs(2);

/// `GET /healthz`: somebody is there.
pub(crate) async fn alive() -> &'static str {
    "alive\n"
}

/// `GET /readyz`: messages can be taken in.
pub(crate) async fn ready(State(site): State<Arc<AppState>>) -> Result<&'static str, Problem> {
    match timeout(READY_TIME, site.ledger.ping()).await {
        Ok(Ok(_)) => Ok("ready\n"),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Problem::unavailable("The database does not answer.")),
    }
}

/// `GET /metrics`: figures, where there are any. Who may read them is decided as for the API.
pub(crate) async fn metrics(State(site): State<Arc<AppState>>) -> Result<Response, Problem> {
    let write = site.settings.metrics.as_ref().ok_or_else(|| Problem::not_found("page"))?;
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"))];
    Ok((kind, write()).into_response())
}
