//! Liveness, readiness and metrics.

use std::{iter, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use satchel_domain::ChannelClosure;
use tokio::time::timeout;

use crate::{problem::Problem, state::AppState};

/// The timeout of the ledger's ping.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// `GET /healthz`: the process is alive.
pub(crate) async fn alive() -> &'static str {
    "alive\n"
}

/// `GET /readyz`: messages can be stored, and the process doesn't stop. Names the channels that are closed, which nothing but
/// their account opens: the process is as ready as another one would be.
pub(crate) async fn ready(State(state): State<Arc<AppState>>) -> Result<String, Problem> {
    if state.draining.is_cancelled() {
        return Err(Problem::stopping());
    }
    match timeout(READY_TIMEOUT, state.archive.ping()).await {
        Ok(Ok(_)) => Ok(iter::once("ready\n".to_owned()).chain(closed_channels(&state)).collect()),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Problem::unavailable("The database does not answer.")),
    }
}

/// A line for each closed channel, which says why.
fn closed_channels(state: &AppState) -> impl Iterator<Item = String> {
    state.channels.iter().filter_map(move |channel| {
        let channel_state = channel.state();
        let ChannelClosure { platform, reason, since, .. } = channel_state.closure()?;
        let seconds = state.clock.now().saturating_duration_since(*since).as_secs();
        Some(format!("{} is closed for {seconds} s: {platform} {reason}\n", channel.name()))
    })
}

/// `GET /metrics`: the metrics, if enabled. Needs the same authorization as the API.
pub(crate) async fn metrics(State(state): State<Arc<AppState>>) -> Result<Response, Problem> {
    let write = state.settings.metrics.as_ref().ok_or_else(|| Problem::not_found("page"))?;
    let content_type = [(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"))];
    Ok((content_type, write()).into_response())
}
