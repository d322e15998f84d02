//! What happens in a conversation, as it happens: a stream of events that begins with all there is.

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

use super::extract::ApiPath;
use crate::{
    live::{KEEP_ALIVE, LiveSubscription},
    problem::{Problem, ProblemBody},
    state::AppState,
};

/// How long nothing is sent before a sign of life is.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// Streams what happens in a conversation (`text/event-stream`): first `snapshot`, then `turn`, `live`, `blocks`,
/// `tool` and `gone`. A client that takes nothing is cut off; it comes back and gets a snapshot.
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
    State(site): State<Arc<AppState>>,
    ApiPath(id): ApiPath<String>,
) -> Result<Response, Problem> {
    let conversation = site.conversation(&id)?;
    let frames = stream::unfold(site.hub.subscribe(&conversation), async |mut listening| {
        next(&mut listening).await.map(|frame| (Ok::<_, Infallible>(frame), listening))
    });
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"))];
    // Some proxies gather what they pass on, which would make a stream of it that stutters.
    let through = [("x-accel-buffering", HeaderValue::from_static("no"))];
    Ok((kind, through, Body::from_stream(frames)).into_response())
}

async fn next(listening: &mut LiveSubscription) -> Option<Bytes> {
    let LiveSubscription { frames, cut } = listening;
    tokio::select! {
        biased;
        () = cut.cancelled() => None,
        frame = timeout(SIGN_OF_LIFE, frames.recv()) => match frame {
            Ok(waiting) => waiting.map(|waiting| waiting.frame),
            Err(_) => Some(Bytes::from_static(KEEP_ALIVE)),
        },
    }
}
