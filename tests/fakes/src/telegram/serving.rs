//! The HTTP side: paths, tokens, answers, and the faults of the script.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::{ConnectInfo, DefaultBodyLimit, Request, State as Extracted},
    http::{HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use crate::{
    Fault,
    door::Cut,
    script::Arrival,
    telegram::{
        FakeTelegram, Shared, State,
        call::{Call, Unread},
        files, methods,
        refusal::{Refusal, TelegramFault, bad, forbidden},
    },
};

/// The name under which downloads are scripted and counted.
pub const DOWNLOAD: &str = "download";

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new().fallback(serve).layer(DefaultBodyLimit::disable()).with_state(shared)
}

async fn serve(
    Extracted(shared): Extracted<Arc<Shared>>,
    ConnectInfo(cut): ConnectInfo<Cut>,
    request: Request,
) -> Response {
    let path = request.uri().path().to_owned();
    let file = path.strip_prefix("/file/bot").and_then(|rest| rest.split_once('/'));
    let method = path.strip_prefix("/bot").and_then(|rest| rest.split_once('/'));
    let mut response = match (file, method) {
        (Some((token, file)), _) => download(&shared, &cut, token, file).await,
        (None, Some((token, method))) => called(&shared, &cut, token, method.to_lowercase(), request).await,
        (None, None) => refused(&Refusal::new(404, "Not Found")),
    };
    if !shared.rules.keeps_connections {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn called(shared: &Arc<Shared>, cut: &Cut, token: &str, method: String, request: Request) -> Response {
    let mut arrival = shared.arrive(&method);
    if arrival.common_fault().is_some_and(|fault| !fault.is_read()) {
        return answer(shared, cut, arrival, || Ok(Value::Null)).await;
    }
    let keep_bytes = shared.state().world.keep_bytes;
    let call = match Call::read(method, request, keep_bytes).await {
        Ok(call) => call,
        Err(Unread::BrokeOff) => {
            cut.cut();
            after(shared, &arrival);
            return StatusCode::BAD_REQUEST.into_response();
        }
        Err(Unread::Refused(refusal)) => return answer(shared, cut, arrival, || Err(refusal)).await,
    };
    if token != FakeTelegram::TOKEN {
        // Bot API, Authorizing your bot; the words are the server's.
        return answer(shared, cut, arrival, || Err(Refusal::new(401, "Unauthorized"))).await;
    }
    arrival.fault = arrival.fault.filter(|fault| fits(fault, &call));
    if let Some(fault) = arrival.common_fault().filter(|fault| fault.is_late()) {
        shared.note(&call);
        return postpone(shared, cut, arrival, call, fault).await;
    }
    let done = if call.method == "getupdates" && arrival.fault.is_none() {
        let found = poll(shared, &call).await;
        answer(shared, cut, arrival, || found).await
    } else {
        answer(shared, cut, arrival, || shared.allow(&call).and_then(|()| shared.perform(&call))).await
    };
    shared.note(&call);
    done
}

/// Whether a fault can meet this request at all.
fn fits(fault: &TelegramFault, call: &Call) -> bool {
    let TelegramFault::Common(fault) = fault else { return true };
    match fault {
        Fault::BadMarkup => {
            let has_mode = |value: &Value| value.to_string().contains("parse_mode");
            call.parameters.contains_key("parse_mode") || call.parameters.get("media").is_some_and(has_mode)
        }
        Fault::BadItem { index } => {
            let items = call.json("media").ok().flatten();
            items.as_ref().and_then(Value::as_array).is_some_and(|items| *index < items.len())
        }
        Fault::VoiceForbidden => matches!(call.method.as_str(), "sendvoice" | "sendvideonote"),
        _ => true,
    }
}

/// getUpdates: a long poll of `timeout` seconds.
async fn poll(shared: &Shared, call: &Call) -> Result<Value, Refusal> {
    let offset = call.integer("offset").unwrap_or(0);
    let limit = call.integer("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(100).clamp(1, 100);
    let timeout = call.integer("timeout").and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0).min(50);
    let number = {
        let mut state = shared.state();
        if state.inbox.webhook.is_some() {
            // getUpdates: "This method will not work if an outgoing webhook is set up."
            let words = "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook \
                         first";
            return Err(Refusal::new(409, format!("Conflict: {words}")));
        }
        state.inbox.allow(call)?;
        state.inbox.polls += 1;
        state.inbox.polls
    };
    shared.arrived.notify_waiters();
    let patience = tokio::time::sleep(Duration::from_secs(timeout));
    tokio::pin!(patience);
    loop {
        let arrived = shared.arrived.notified();
        tokio::pin!(arrived);
        arrived.as_mut().enable();
        {
            let mut state = shared.state();
            if state.inbox.polls != number || state.inbox.webhook.is_some() {
                let words = "terminated by other getUpdates request; make sure that only one bot instance is running";
                return Err(Refusal::new(409, format!("Conflict: {words}")));
            }
            let updates = state.inbox.poll(offset, limit);
            if !updates.is_empty() {
                return Ok(json!(updates));
            }
        }
        tokio::select! {
            () = arrived => {}
            () = &mut patience => return Ok(json!([])),
            () = shared.stopped.cancelled() => return Ok(json!([])),
        }
    }
}

async fn download(shared: &Shared, cut: &Cut, token: &str, path: &str) -> Response {
    let arrival = shared.arrive(DOWNLOAD);
    let content = {
        let state = shared.state();
        let found = files::at(&state.world, path).and_then(|file| file.content.clone());
        // Using a Local Bot API Server: files of a server with --local are read from its disk.
        found.filter(|_| token == FakeTelegram::TOKEN && shared.rules.local_files.is_none())
    };
    let Some(content) = content else {
        return answer(shared, cut, arrival, || Err(Refusal::new(404, "Not Found"))).await;
    };
    let bytes = content.bytes();
    match &arrival.fault {
        None => {
            shared.state().script.performed(&arrival);
            after(shared, &arrival);
            sized(bytes, Body::from_stream(content.stream()))
        }
        Some(TelegramFault::Common(Fault::ResetMidTransfer)) => {
            let mut left = usize::try_from(bytes / 2).unwrap_or(usize::MAX);
            let half = content.stream().map_ok(move |mut block: Bytes| {
                let piece = block.split_to(block.len().min(left));
                left -= piece.len();
                piece
            });
            let half = half.try_take_while(|piece| futures::future::ok(!piece.is_empty()));
            let reset = stream::once(async {
                // What flows before a pause has left when the connection breaks.
                tokio::task::yield_now().await;
                Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset))
            });
            after(shared, &arrival);
            sized(bytes, Body::from_stream(half.chain(reset)))
        }
        Some(_) => answer(shared, cut, arrival, || Ok(Value::Null)).await,
    }
}

fn sized(bytes: u64, body: Body) -> Response {
    ([(header::CONTENT_LENGTH, bytes)], body).into_response()
}

/// Performs a request that has been read, or what the script says instead.
async fn answer(
    shared: &Shared,
    cut: &Cut,
    arrival: Arrival<Refusal>,
    act: impl FnOnce() -> Result<Value, Refusal>,
) -> Response {
    // A connection that was made before the door was shut ends as one that came too late.
    if shared.door.is_shut() && arrival.method != "getupdates" {
        cut.cut();
        shared.state().script.ended(&arrival);
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let performs = arrival.fault.is_none() || arrival.common_fault().is_some_and(Fault::is_performed);
    let acted = performs.then(act);
    if performs {
        shared.state().script.performed(&arrival);
    }
    let response = match (&arrival.fault, acted) {
        // What Telegram refuses it refuses readably, whatever was to go wrong with its answer.
        (_, Some(Err(refusal))) => refused(&refusal),
        (None, Some(Ok(result))) => Json(json!({ "ok": true, "result": result })).into_response(),
        (Some(TelegramFault::Refuse(refusal)), _) => refused(refusal),
        (Some(TelegramFault::Answer { status, body }), _) => {
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (status, body.clone()).into_response()
        }
        (Some(TelegramFault::Common(fault)), _) => common(shared, cut, *fault).await,
        (None, None) => unreachable!("what meets no fault is performed"),
    };
    after(shared, &arrival);
    response
}

/// Cuts a request off that has been read, and performs it later, when nobody hears of it.
async fn postpone(shared: &Arc<Shared>, cut: &Cut, arrival: Arrival<Refusal>, call: Call, fault: Fault) -> Response {
    // The pace is one of requests, whenever they are performed.
    if let Err(refusal) = shared.allow(&call) {
        after(shared, &arrival);
        return refused(&refusal);
    }
    if shared.door.is_shut() {
        return answer(shared, cut, arrival, || Ok(Value::Null)).await;
    }
    cut.cut();
    after(shared, &arrival);
    let server = Arc::downgrade(shared);
    shared.late.postpone(fault, &shared.stopped, move || {
        let Some(shared) = server.upgrade() else { return };
        // Whoever asked is told of no refusal either.
        let _unheard = shared.perform(&call);
        shared.state().script.performed(&arrival);
    });
    StatusCode::SERVICE_UNAVAILABLE.into_response()
}

/// What follows a request: the door may be scripted to be shut before the next one.
fn after(shared: &Shared, arrival: &Arrival<Refusal>) {
    shared.state().script.ended(arrival);
    shared.shut_if_scripted();
}

async fn common(shared: &Shared, cut: &Cut, fault: Fault) -> Response {
    let refusal = match fault {
        Fault::RateLimit { retry_after_ms } => Refusal::too_many_requests(retry_after_ms.div_ceil(1000)),
        Fault::BadMarkup => bad("can't parse entities: Unsupported start tag \"x\" at byte offset 0"),
        Fault::BadItem { index } => {
            let words = "with the error message \"PHOTO_INVALID_DIMENSIONS\"";
            bad(format!("failed to send message #{} {words}", index + 1))
        }
        Fault::TooLarge => Refusal::new(413, "Request Entity Too Large"),
        Fault::Forbidden => forbidden("bot was blocked by the user"),
        Fault::ChatGone => bad("chat not found"),
        Fault::VoiceForbidden => bad("VOICE_MESSAGES_FORBIDDEN"),
        Fault::ServerError => Refusal::new(500, "Internal Server Error"),
        // tdlib/telegram-bot-api, `Client.cpp`: what is left of a client's requests when it closes.
        Fault::Restart { .. } => Refusal::new(500, "Internal Server Error: restart"),
        Fault::BadGateway { .. } => {
            let page = Html("<html><head><title>502 Bad Gateway</title></head><body><h1>502</h1></body></html>");
            return (StatusCode::BAD_GATEWAY, page).into_response();
        }
        Fault::Hang { .. } => {
            shared.stopped.cancelled().await;
            cut.cut();
            return StatusCode::GATEWAY_TIMEOUT.into_response();
        }
        Fault::Outage { for_ms } => {
            shared.door.shut(Duration::from_millis(for_ms));
            cut.cut();
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        Fault::ResetMidTransfer
        | Fault::ResetAfterRead
        | Fault::AcceptAndDrop
        | Fault::AcceptLate { .. }
        | Fault::AcceptOnRelease
        | Fault::RefuseConnection { .. } => {
            cut.cut();
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
    };
    refused(&refusal)
}

fn refused(refusal: &Refusal) -> Response {
    let status = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Json(refusal.body())).into_response()
}

impl Shared {
    /// Lets a request through, unless the bot has been too fast.
    fn allow(&self, call: &Call) -> Result<(), Refusal> {
        let mut state = self.state();
        let State { pace, world, .. } = &mut *state;
        pace.allow(world, call)
    }

    fn perform(&self, call: &Call) -> Result<Value, Refusal> {
        let performed = methods::perform(&mut self.state(), &self.rules, call);
        self.changed.notify_waiters();
        performed
    }
}
