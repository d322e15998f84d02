//! A completion as a stream of chunks, while the model writes.
//!
//! What was streamed can't be taken back. Where the finished reply doesn't go on from it, as after a crash or with another
//! model, the whole reply follows.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::TurnId;
use satchel_ports::{BusEvent, event_bus::EventStream, ledger::TurnRecord};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};

use super::{
    completion::AcceptedRequest,
    error::OpenAiError,
    reply::{ReplyContext, ReplyText, completion_id},
};
use crate::{live::KEEP_ALIVE, state::AppState, turn_wait::MAX_TURN_WAIT, view};

/// How many frames wait for a slow client; the turn never waits for it.
const FRAME_CAPACITY: usize = 64;

/// How often the ledger is read while no event arrives.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// After how many polls without a frame a comment keeps the connection alive.
const POLLS_PER_KEEP_ALIVE: u32 = 15;

/// Starts to stream the reply of a turn.
pub(super) fn stream_reply(state: Arc<AppState>, accepted: AcceptedRequest) -> Response {
    let (frames, receiver) = mpsc::channel(FRAME_CAPACITY);
    let AcceptedRequest { turn, context, events } = accepted;
    let created = state.clock.now().0 / 1_000;
    let writer = StreamWriter { turn, context, created, frames, written: String::new(), message: None };
    tokio::spawn(async move { writer.run(&state, events).await });
    let body = stream::unfold(receiver, async |mut receiver| {
        let frame: Bytes = receiver.recv().await?;
        Some((Ok::<_, Infallible>(frame), receiver))
    });
    let content_type = [(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"))];
    // Some proxies buffer responses, which would delay the chunks.
    let no_proxy_buffering = [("x-accel-buffering", HeaderValue::from_static("no"))];
    (content_type, no_proxy_buffering, Body::from_stream(body)).into_response()
}

/// The client has gone; nobody reads the rest.
struct ClientGone;

struct StreamWriter {
    turn: TurnId,
    context: ReplyContext,
    created: i64,
    frames: mpsc::Sender<Bytes>,
    /// What was streamed of the current message.
    written: String,
    /// The model's message that is streamed.
    message: Option<u32>,
}

impl StreamWriter {
    /// Streams until the turn has ended. Nothing depends on its outcome.
    async fn run(mut self, state: &AppState, events: Option<EventStream>) {
        let frames = self.frames.clone();
        tokio::select! {
            _ended = self.write(state, events) => {}
            () = frames.closed() => {}
        }
    }

    async fn write(&mut self, state: &AppState, mut events: Option<EventStream>) -> Result<(), ClientGone> {
        self.send_chunk(json!({ "role": "assistant", "content": "" }), None).await?;
        let deadline = Instant::now() + MAX_TURN_WAIT;
        let mut quiet_polls = 0;
        loop {
            match state.archive.turn(self.turn).await {
                Ok(Some(record)) if view::is_final(&record) => return self.finish(state, &record).await,
                Ok(Some(_)) if Instant::now() < deadline && !state.stopping.is_cancelled() => {}
                Ok(_) => return self.fail(&OpenAiError::still_running()).await,
                Err(error) => return self.fail(&error.into()).await,
            }
            tokio::select! {
                is_written = self.write_deltas(&mut events) => {
                    is_written?;
                    quiet_polls = 0;
                }
                () = tokio::time::sleep(POLL_INTERVAL) => quiet_polls += 1,
                () = state.stopping.cancelled() => {}
            }
            if quiet_polls >= POLLS_PER_KEEP_ALIVE {
                quiet_polls = 0;
                self.send(Bytes::from_static(KEEP_ALIVE)).await?;
            }
        }
    }

    /// Writes what the model writes, until something has ended. Without events it waits forever.
    async fn write_deltas(&mut self, events: &mut Option<EventStream>) -> Result<(), ClientGone> {
        while let Some(stream) = events {
            let Some(event) = stream.next().await else {
                *events = None;
                break;
            };
            if *event.conversation() != self.context.conversation {
                continue;
            }
            match event {
                BusEvent::TextDelta { turn, message, text, .. } if turn == self.turn => {
                    self.write_delta(message, &text).await?;
                }
                BusEvent::TurnCompleted { .. } | BusEvent::DeliveryPart { .. } => return Ok(()),
                _ => {}
            }
        }
        std::future::pending().await
    }

    async fn write_delta(&mut self, message: u32, text: &str) -> Result<(), ClientGone> {
        if self.message != Some(message) {
            self.start_paragraph().await?;
            self.message = Some(message);
        }
        self.written.push_str(text);
        self.send_text(text).await
    }

    /// Sets what follows apart from what was streamed before.
    async fn start_paragraph(&mut self) -> Result<(), ClientGone> {
        match std::mem::take(&mut self.written).is_empty() {
            true => Ok(()),
            false => self.send_text("\n\n").await,
        }
    }

    async fn finish(&mut self, state: &AppState, record: &TurnRecord) -> Result<(), ClientGone> {
        let ReplyText { text, finish_reason } = match self.context.read_reply(state, record) {
            Ok(reply) => reply,
            Err(error) => return self.fail(&error).await,
        };
        let rest = match text.strip_prefix(self.written.trim()) {
            Some(rest) => rest,
            None => {
                self.start_paragraph().await?;
                text.as_str()
            }
        };
        if !rest.is_empty() {
            self.send_text(rest).await?;
        }
        self.send_chunk(json!({}), Some(finish_reason)).await?;
        self.send_data("[DONE]").await
    }

    async fn fail(&self, error: &OpenAiError) -> Result<(), ClientGone> {
        self.send_data(&error.to_json().to_string()).await?;
        self.send_data("[DONE]").await
    }

    async fn send_text(&self, text: &str) -> Result<(), ClientGone> {
        self.send_chunk(json!({ "content": text }), None).await
    }

    async fn send_chunk(&self, delta: Value, finish_reason: Option<&str>) -> Result<(), ClientGone> {
        let chunk = json!({
            "id": completion_id(&self.turn),
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.context.model,
            "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason }],
        });
        self.send_data(&chunk.to_string()).await
    }

    async fn send_data(&self, data: &str) -> Result<(), ClientGone> {
        // JSON has no line breaks but escaped ones.
        self.send(format!("data: {data}\n\n").into()).await
    }

    async fn send(&self, frame: Bytes) -> Result<(), ClientGone> {
        self.frames.send(frame).await.map_err(|_| ClientGone)
    }
}
