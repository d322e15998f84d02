//! A completion as a stream of chunks, while the model writes.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

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
use tokio_util::sync::CancellationToken;

use super::{
    completion::AcceptedRequest,
    error::OpenAiError,
    reply::{ReplyContext, ReplyText, completion_id},
    streamed_text::StreamedText,
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
    let writer = StreamWriter { turn, context, created, frames, streamed: StreamedText::default() };
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
    streamed: StreamedText,
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
            quiet_polls = match self.write_deltas(&mut events, &state.stopping).await? {
                true => 0,
                false => quiet_polls + 1,
            };
            if quiet_polls >= POLLS_PER_KEEP_ALIVE {
                quiet_polls = 0;
                self.send(Bytes::from_static(KEEP_ALIVE)).await?;
            }
        }
    }

    /// Writes what the model writes, until something has ended or the ledger is to be read. Returns whether there was any
    /// event.
    async fn write_deltas(
        &mut self,
        events: &mut Option<EventStream>,
        stopping: &CancellationToken,
    ) -> Result<bool, ClientGone> {
        let mut poll = pin!(tokio::time::sleep(POLL_INTERVAL));
        let mut had_event = false;
        loop {
            // Only the wait is cut short: a frame that a slow client keeps waiting must not be dropped.
            let event = tokio::select! {
                event = next_event(events) => event,
                () = &mut poll => return Ok(had_event),
                () = stopping.cancelled() => return Ok(had_event),
            };
            if *event.conversation() != self.context.conversation {
                continue;
            }
            had_event = true;
            match event {
                BusEvent::TextDelta { turn, message, text, .. } if turn == self.turn => {
                    let text = self.streamed.push(message, &text);
                    self.send_text(&text).await?;
                }
                BusEvent::TurnCompleted { .. } | BusEvent::DeliveryPart { .. } => return Ok(true),
                _ => {}
            }
        }
    }

    async fn finish(&self, state: &AppState, record: &TurnRecord) -> Result<(), ClientGone> {
        let ReplyText { text, finish_reason } = match self.context.read_reply(state, record) {
            Ok(reply) => reply,
            Err(error) => return self.fail(&error).await,
        };
        self.send_text(&self.streamed.finish(&text)).await?;
        self.send_chunk(json!({}), Some(finish_reason)).await?;
        self.send_data("[DONE]").await
    }

    async fn fail(&self, error: &OpenAiError) -> Result<(), ClientGone> {
        self.send_data(&error.to_json().to_string()).await?;
        self.send_data("[DONE]").await
    }

    async fn send_text(&self, text: &str) -> Result<(), ClientGone> {
        if text.is_empty() {
            return Ok(());
        }
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

/// Waits for the next event; without a stream of them forever.
async fn next_event(events: &mut Option<EventStream>) -> BusEvent {
    if let Some(stream) = events {
        match stream.next().await {
            Some(event) => return event,
            None => *events = None,
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use satchel_domain::ConversationId;
    use uuid::Uuid;

    use super::*;

    /// More text than the queue of frames holds, and a client that reads nothing until the ledger would be read.
    #[tokio::test(start_paused = true)]
    async fn stalled_client_loses_no_text() {
        let conversation: ConversationId = "api:a".parse().unwrap();
        let turn = TurnId(Uuid::from_u128(1));
        let delta = |message: u32| {
            let text = format!("text {message}");
            BusEvent::TextDelta { conversation: conversation.clone(), turn, message, text }
        };
        let deltas: Vec<BusEvent> = (0..3).map(delta).collect();
        let mut events: Option<EventStream> = Some(stream::iter(deltas).boxed());
        let context = ReplyContext { conversation, origin: String::new(), model: "satchel".into() };
        let (frames, mut receiver) = mpsc::channel(1);
        let mut writer = StreamWriter { turn, context, created: 0, frames, streamed: StreamedText::default() };
        let write = async move {
            let stopping = CancellationToken::new();
            while events.is_some() {
                assert!(writer.write_deltas(&mut events, &stopping).await.is_ok());
            }
            writer.streamed.finish("text 0\n\ntext 1\n\ntext 2 and more")
        };
        let read = async move {
            tokio::time::sleep(POLL_INTERVAL * 3).await;
            let mut text = String::new();
            while let Some(frame) = receiver.recv().await {
                let chunk: Value = serde_json::from_slice(frame.strip_prefix(b"data: ").unwrap()).unwrap();
                text.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap());
            }
            text
        };
        let (rest, text) = tokio::join!(write, read);
        assert_eq!(text, "text 0\n\ntext 1\n\ntext 2");
        assert_eq!(rest, " and more", "all of it counts as streamed");
    }
}
