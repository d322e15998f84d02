//! The event stream of a conversation, which starts with a snapshot.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::stream;
use tokio::time::timeout;

use super::ApiPath;
use crate::{
    live::{KEEP_ALIVE, LiveSubscription},
    problem::{Problem, ProblemBody},
    state::AppState,
};

/// The interval of keep-alive comments on an idle stream.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Streams the events of a conversation (`text/event-stream`): first `snapshot`, then `turn`, `live`, `blocks`, `tool`
/// and `gone`. A client that doesn't read is disconnected; when it reconnects, it gets a snapshot.
#[utoipa::path(
    get,
    path = "/api/conversations/{id}/events",
    params(("id" = String, Path, description = "The part of the conversation id after `web:`.")),
    responses(
        (status = 200, description = "The events, without end.", content_type = "text/event-stream"),
        (status = 404, description = "The conversation id is invalid.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn events(
    State(state): State<Arc<AppState>>,
    ApiPath(id): ApiPath<String>,
) -> Result<Response, Problem> {
    let conversation = state.conversation(&id)?;
    let frames = stream::unfold(state.hub.subscribe(&conversation), async |mut subscription| {
        next_frame(&mut subscription).await.map(|frame| (Ok::<_, Infallible>(frame), subscription))
    });
    let content_type = [(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"))];
    // Some proxies buffer responses, which would delay the events.
    let no_proxy_buffering = [("x-accel-buffering", HeaderValue::from_static("no"))];
    Ok((content_type, no_proxy_buffering, Body::from_stream(frames)).into_response())
}

async fn next_frame(subscription: &mut LiveSubscription) -> Option<Bytes> {
    let LiveSubscription { frames, closed } = subscription;
    tokio::select! {
        biased;
        () = closed.cancelled() => None,
        frame = timeout(KEEP_ALIVE_INTERVAL, frames.recv()) => match frame {
            Ok(queued) => queued.map(|queued| queued.frame),
            Err(_) => Some(Bytes::from_static(KEEP_ALIVE)),
        },
    }
}
