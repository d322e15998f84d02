//! The platform's HTTP side: one route an operation, each with its fault performed as scripted.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::{ConnectInfo, DefaultBodyLimit, Multipart, Path, Query, State},
    http::{StatusCode, header},
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use satchel_domain::{MessageRef, part::Markup};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    FakeMode, Fault, Operation,
    platform::{
        Arrival, Shared,
        door::Cut,
        store,
        upload::{self, NoUpload, Upload},
    },
    transcript::MessageKind,
    wire::{Answer, HistoryQuery, MessageAddress, UpdatesQuery, Why, WireError},
};

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/send", post(send))
        .route("/edit", post(edit))
        .route("/delete", post(delete))
        .route("/history", post(history))
        .route("/probe", get(probe))
        .route("/updates", get(updates))
        .route("/files/{file}", get(file))
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}

type Platform = State<Arc<Shared>>;

async fn send(State(shared): Platform, ConnectInfo(cut): ConnectInfo<Cut>, fields: Multipart) -> Response {
    let arrival = shared.arrive(Operation::Send);
    let act = |shared: &Shared, upload| {
        let messages = shared.state().store.send(&shared.rules, upload)?;
        Ok(json!(messages))
    };
    uploading(&shared, &cut, arrival, fields, act).await
}

#[derive(Deserialize)]
struct Target {
    message: MessageRef,
}

async fn edit(
    State(shared): Platform,
    ConnectInfo(cut): ConnectInfo<Cut>,
    Query(target): Query<Target>,
    fields: Multipart,
) -> Response {
    let arrival = shared.arrive(Operation::Edit);
    let act = move |shared: &Shared, upload| {
        let messages = shared.state().store.edit(&shared.rules, &target.message, upload)?;
        Ok(json!(messages))
    };
    uploading(&shared, &cut, arrival, fields, act).await
}

async fn delete(
    State(shared): Platform,
    ConnectInfo(cut): ConnectInfo<Cut>,
    Json(address): Json<MessageAddress>,
) -> Response {
    let arrival = shared.arrive(Operation::Delete);
    let act = move |shared: &Shared| {
        if shared.state().store.delete(&address.conversation, &address.message) {
            return Ok(json!(true));
        }
        // Bot API: "message to delete not found"; Discord: 404 with code 10008.
        Err(WireError::new(404, Why::TargetGone, "message to delete not found"))
    };
    perform(&shared, &cut, arrival, act).await
}

async fn history(
    State(shared): Platform,
    ConnectInfo(cut): ConnectInfo<Cut>,
    Json(query): Json<HistoryQuery>,
) -> Response {
    let arrival = shared.arrive(Operation::History);
    let act = move |shared: &Shared| {
        if shared.rules.mode == FakeMode::TelegramLike {
            // The Bot API has no method that reads a chat's past; unknown methods are 404.
            return Err(WireError::new(404, Why::Other, "Not Found"));
        }
        let past = shared.state().store.history(&query.conversation, query.after.as_ref())?;
        Ok(json!(past))
    };
    perform(&shared, &cut, arrival, act).await
}

async fn probe(State(shared): Platform, ConnectInfo(cut): ConnectInfo<Cut>) -> Response {
    let arrival = shared.arrive(Operation::Probe);
    perform(&shared, &cut, arrival, |_| Ok(json!({"bot": true}))).await
}

/// Bot API, getUpdates: a long poll. Discord's gateway acknowledges nothing; the fake gives both modes this one way in.
async fn updates(
    State(shared): Platform,
    ConnectInfo(cut): ConnectInfo<Cut>,
    Query(query): Query<UpdatesQuery>,
) -> Response {
    let arrival = shared.arrive(Operation::Updates);
    if arrival.fault.is_some() {
        return perform(&shared, &cut, arrival, |_| Ok(json!([]))).await;
    }
    let poll = {
        let mut state = shared.state();
        state.inbox.polls += 1;
        state.inbox.polls
    };
    shared.arrived.notify_waiters();
    let timeout = tokio::time::sleep(Duration::from_millis(query.timeout_ms));
    tokio::pin!(timeout);
    let found = loop {
        let arrived = shared.arrived.notified();
        tokio::pin!(arrived);
        arrived.as_mut().enable();
        {
            let mut state = shared.state();
            if state.inbox.polls != poll {
                // Bot API: 409 "terminated by other getUpdates request".
                break Err(WireError::new(409, Why::Other, "Conflict: terminated by other getUpdates request"));
            }
            let updates = state.inbox.confirm(query.offset);
            if !updates.is_empty() {
                break Ok(json!(updates));
            }
        }
        tokio::select! {
            () = arrived => {}
            () = &mut timeout => break Ok(json!([])),
            () = shared.stopped.cancelled() => break Ok(json!([])),
        }
    };
    perform(&shared, &cut, arrival, |_| found).await
}

async fn file(State(shared): Platform, ConnectInfo(cut): ConnectInfo<Cut>, Path(file): Path<String>) -> Response {
    let arrival = shared.arrive(Operation::Fetch);
    let found = {
        let state = shared.state();
        state.inbox.files.get(&file).cloned()
    };
    let checked = found.ok_or_else(|| WireError::new(404, Why::Expired, "the file is gone")).and_then(|file| {
        match shared.rules.download_bytes {
            // Bot API, getFile: "bots can download files of up to 20MB in size".
            Some(limit) if file.bytes() > limit => {
                let why = Why::TooLarge { limit: Some(limit) };
                Err(WireError::new(400, why, "Bad Request: file is too big"))
            }
            _ => Ok(file),
        }
    });
    let halfway = arrival.fault == Some(Fault::ResetMidTransfer);
    match checked {
        Ok(file) if halfway => {
            let half = usize::try_from(file.bytes() / 2).unwrap_or(usize::MAX);
            let mut left = half;
            let bytes = file.stream().map_ok(move |mut block: Bytes| {
                let piece = block.split_to(block.len().min(left));
                left -= piece.len();
                piece
            });
            let bytes = bytes.try_take_while(|piece| futures::future::ok(!piece.is_empty()));
            let reset = stream::once(async { Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)) });
            after(&shared, arrival);
            stream_of(file.bytes(), Body::from_stream(bytes.chain(reset)))
        }
        Ok(file) if arrival.fault.is_none() => {
            shared.performed(arrival);
            after(&shared, arrival);
            stream_of(file.bytes(), Body::from_stream(file.stream()))
        }
        other => perform(&shared, &cut, arrival, |_| other.map(|_| json!(true))).await,
    }
}

fn stream_of(bytes: u64, body: Body) -> Response {
    ([(header::CONTENT_LENGTH, bytes)], body).into_response()
}

/// Reads an upload and performs it, unless the script says otherwise.
async fn uploading(
    shared: &Arc<Shared>,
    cut: &Cut,
    mut arrival: Arrival,
    fields: Multipart,
    act: impl FnOnce(&Shared, Upload) -> Result<Value, WireError> + Send + 'static,
) -> Response {
    if arrival.fault.is_some_and(|fault| !fault.is_read()) {
        return perform(shared, cut, arrival, |_| Ok(Value::Null)).await;
    }
    let keep_bytes = shared.state().store.keep_bytes;
    let upload = match upload::read(fields, &shared.rules, keep_bytes).await {
        Ok(upload) => Ok(upload),
        Err(NoUpload::Refused(refused)) => Err(refused),
        Err(NoUpload::BrokeOff) => {
            cut.cut();
            after(shared, arrival);
            return StatusCode::BAD_REQUEST.into_response();
        }
    };
    if let Ok(upload) = &upload {
        arrival.fault = arrival.fault.filter(|fault| fits(fault, upload));
    }
    perform(shared, cut, arrival, |shared| upload.and_then(|upload| act(shared, upload))).await
}

/// Whether a fault can meet this message at all.
fn fits(fault: &Fault, upload: &Upload) -> bool {
    match fault {
        Fault::BadMarkup => upload.message.markup == Markup::Rich && upload.message.kind == MessageKind::Text,
        Fault::BadItem { index } => upload.contents.files.len() > 1 && *index < upload.contents.files.len(),
        Fault::VoiceForbidden => upload.message.kind == MessageKind::Voice,
        _ => true,
    }
}

/// Performs a request that has been read, or what the script says instead.
async fn perform(
    shared: &Arc<Shared>,
    cut: &Cut,
    arrival: Arrival,
    act: impl FnOnce(&Shared) -> Result<Value, WireError> + Send + 'static,
) -> Response {
    // A connection that was made before the door was shut ends as one that came too late.
    if shared.door.is_shut() && arrival.operation != Operation::Updates {
        cut.cut();
        shared.ended(arrival);
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if let Some(fault) = arrival.fault.filter(|fault| fault.is_late()) {
        cut.cut();
        after(shared, arrival);
        let server = Arc::downgrade(shared);
        shared.late.postpone(fault, &shared.stopped, move || {
            let Some(shared) = server.upgrade() else { return };
            // Whoever asked is told of no refusal either.
            let _unheard = act(&shared);
            shared.performed(arrival);
        });
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let mut acted = None;
    if arrival.fault.is_none_or(Fault::is_performed) {
        acted = Some(act(shared));
        shared.performed(arrival);
    }
    let response = match (arrival.fault, acted) {
        // What the platform refuses it refuses readably, whatever was to go wrong with its answer.
        (_, Some(Err(refused))) => refusal(refused),
        (None, Some(Ok(result))) => Json(Answer { ok: true, result, error: None }).into_response(),
        (Some(Fault::BadGateway { .. }), _) => {
            let page = Html("<html><head><title>502 Bad Gateway</title></head><body><h1>502</h1></body></html>");
            (StatusCode::BAD_GATEWAY, page).into_response()
        }
        (Some(Fault::Hang { .. }), _) => {
            shared.stopped.cancelled().await;
            cut.cut();
            StatusCode::GATEWAY_TIMEOUT.into_response()
        }
        (Some(Fault::Outage { for_ms }), _) => {
            shared.door.shut(Duration::from_millis(for_ms));
            cut.cut();
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
        (Some(Fault::ResetMidTransfer | Fault::ResetAfterRead | Fault::AcceptAndDrop), _) | (None, None) => {
            cut.cut();
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
        (Some(fault), _) => refusal(scripted_refusal(shared, fault)),
    };
    after(shared, arrival);
    response
}

/// What follows a request: the door may be scripted to be shut before the next one.
fn after(shared: &Shared, arrival: Arrival) {
    shared.ended(arrival);
    tracing::trace!(operation = ?arrival.operation, number = arrival.number, fault = ?arrival.fault, "answered");
    shared.shut_if_scripted();
}

fn scripted_refusal(shared: &Shared, fault: Fault) -> WireError {
    match fault {
        // Bot API, ResponseParameters: retry_after; Discord, Rate Limits: retry_after.
        Fault::RateLimit { retry_after_ms } => {
            WireError::new(429, Why::RateLimited { retry_after_ms }, "Too Many Requests")
        }
        // Bot API: the words for broken entities.
        Fault::BadMarkup => WireError::new(400, Why::BadMarkup, "Bad Request: can't parse entities"),
        Fault::BadItem { index } => {
            let words = format!("Bad Request: failed to send message #{} of the album", index + 1);
            WireError::new(400, Why::Item { index }, words)
        }
        Fault::TooLarge => WireError::new(413, Why::TooLarge { limit: None }, "Request Entity Too Large"),
        Fault::Forbidden => WireError::new(403, Why::Forbidden, "Forbidden: bot was blocked by the user"),
        Fault::ChatGone => store::chat_gone(shared.rules.mode),
        Fault::VoiceForbidden => WireError::new(400, Why::VoiceForbidden, "Bad Request: VOICE_MESSAGES_FORBIDDEN"),
        _ => WireError::new(500, Why::Server, "Internal Server Error"),
    }
}

fn refusal(error: WireError) -> Response {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Json(Answer { ok: false, result: Value::Null, error: Some(error) })).into_response()
}
