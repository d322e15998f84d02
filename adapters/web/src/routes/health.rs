//! Liveness, readiness and metrics.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use tokio::time::timeout;

use crate::{problem::Problem, state::AppState};

/// The timeout of the ledger's ping.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// `GET /healthz`: the process is alive.
pub(crate) async fn alive() -> &'static str {
    "alive\n"
}

/// `GET /readyz`: messages can be stored, and the process doesn't stop.
pub(crate) async fn ready(State(state): State<Arc<AppState>>) -> Result<&'static str, Problem> {
    if state.draining.is_cancelled() {
        return Err(Problem::stopping());
    }
    match timeout(READY_TIMEOUT, state.archive.ping()).await {
        Ok(Ok(_)) => Ok("ready\n"),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Problem::unavailable("The database does not answer.")),
    }
}

/// `GET /metrics`: the metrics, if enabled. Needs the same authorization as the API.
pub(crate) async fn metrics(State(state): State<Arc<AppState>>) -> Result<Response, Problem> {
    let write = state.settings.metrics.as_ref().ok_or_else(|| Problem::not_found("page"))?;
    let content_type = [(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"))];
    Ok((content_type, write()).into_response())
}
