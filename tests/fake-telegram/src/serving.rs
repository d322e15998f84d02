//! The HTTP side: paths, tokens, answers, and the faults of the script.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::{ConnectInfo, DefaultBodyLimit, Request, State as Extracted},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use satchel_fake_kit::{ConnectionCutter, Fault, ScriptedRequest, connection_fault, half_of};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    Shared, State,
    call::{ReceivedCall, RequestReadError},
    files, methods,
    refusal::{ApiRefusal, TelegramFault, bad, forbidden},
};

/// The name under which downloads are scripted and counted.
pub const DOWNLOAD: &str = "download";

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new().fallback(handle_request).layer(DefaultBodyLimit::disable()).with_state(shared)
}

async fn handle_request(
    Extracted(shared): Extracted<Arc<Shared>>,
    ConnectInfo(cutter): ConnectInfo<ConnectionCutter>,
    request: Request,
) -> Response {
    let path = request.uri().path().to_owned();
    let file = path.strip_prefix("/file/bot").and_then(|rest| rest.split_once('/'));
    let method = path.strip_prefix("/bot").and_then(|rest| rest.split_once('/'));
    let mut response = match (file, method) {
        (Some((token, file)), _) => download(&shared, &cutter, token, file).await,
        (None, Some((token, method))) => handle_call(&shared, &cutter, token, method.to_lowercase(), request).await,
        (None, None) => refusal_response(&ApiRefusal::new(404, "Not Found")),
    };
    if !shared.rules.keeps_connections {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn handle_call(
    shared: &Arc<Shared>,
    cutter: &ConnectionCutter,
    token: &str,
    method: String,
    request: Request,
) -> Response {
    let mut arrival = shared.on_request(&method);
    if arrival.common_fault().is_some_and(|fault| !fault.is_read()) {
        return answer(shared, cutter, arrival, || Ok(Value::Null)).await;
    }
    let keep_bytes = shared.state().platform.keep_bytes;
    let call = match ReceivedCall::read(method, request, keep_bytes).await {
        Ok(call) => call,
        Err(RequestReadError::BrokeOff) => {
            cutter.cut();
            end_request(shared, &arrival);
            return StatusCode::BAD_REQUEST.into_response();
        }
        Err(RequestReadError::Refused(refusal)) => return answer(shared, cutter, arrival, || Err(refusal)).await,
    };
    if !shared.state().tokens.contains(token) {
        // Bot API, Authorizing your bot; the words are the server's.
        return answer(shared, cutter, arrival, || Err(ApiRefusal::new(401, "Unauthorized"))).await;
    }
    arrival.fault = arrival.fault.filter(|fault| can_meet(fault, &call));
    if let Some(fault) = arrival.common_fault().filter(|fault| fault.is_late()) {
        shared.record_call(&call);
        return postpone(shared, cutter, arrival, call, fault).await;
    }
    let done = if call.method == "getupdates" && arrival.fault.is_none() {
        let found = poll(shared, &call, token, arrival.at).await;
        answer(shared, cutter, arrival, || found).await
    } else {
        answer(shared, cutter, arrival, || shared.allow(&call).and_then(|()| shared.perform(&call))).await
    };
    shared.record_call(&call);
    done
}

/// Whether a fault can meet this request at all.
fn can_meet(fault: &TelegramFault, call: &ReceivedCall) -> bool {
    let TelegramFault::Common(fault) = fault else { return true };
    match fault {
        Fault::BadMarkup => {
            let has_mode = |value: &Value| value.to_string().contains("parse_mode");
            let is_rich = call.parameters.contains_key("rich_message");
            is_rich || call.parameters.contains_key("parse_mode") || call.parameters.get("media").is_some_and(has_mode)
        }
        Fault::BadItem { index } => {
            let items = call.json("media").ok().flatten();
            items.as_ref().and_then(Value::as_array).is_some_and(|items| *index < items.len())
        }
        Fault::VoiceForbidden => matches!(call.method.as_str(), "sendvoice" | "sendvideonote"),
        _ => true,
    }
}

/// getUpdates: a long poll of `timeout` seconds from its arrival.
async fn poll(shared: &Shared, call: &ReceivedCall, token: &str, arrived_at: Instant) -> Result<Value, ApiRefusal> {
    let offset = call.integer("offset").unwrap_or(0);
    let limit = call.integer("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(100).clamp(1, 100);
    let timeout = call.integer("timeout").and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0).min(50);
    let number = {
        let mut state = shared.state();
        if state.inbox.webhook.is_some() {
            // getUpdates: "This method will not work if an outgoing webhook is set up."
            let words = "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook \
                         first";
            return Err(ApiRefusal::new(409, format!("Conflict: {words}")));
        }
        state.inbox.allow(call)?;
        state.inbox.polls += 1;
        state.inbox.polls
    };
    shared.arrived.notify_waiters();
    let timer = shared.clock.sleep_until(arrived_at + Duration::from_secs(timeout));
    tokio::pin!(timer);
    loop {
        let arrived = shared.arrived.notified();
        tokio::pin!(arrived);
        arrived.as_mut().enable();
        {
            let mut state = shared.state();
            if !state.tokens.contains(token) {
                return Err(ApiRefusal::new(401, "Unauthorized"));
            }
            if state.inbox.polls != number || state.inbox.webhook.is_some() {
                let words = "terminated by other getUpdates request; make sure that only one bot instance is running";
                return Err(ApiRefusal::new(409, format!("Conflict: {words}")));
            }
            let updates = state.inbox.poll(offset, limit);
            if !updates.is_empty() {
                return Ok(json!(updates));
            }
        }
        tokio::select! {
            () = arrived => {}
            () = &mut timer => return Ok(json!([])),
            () = shared.stopped.cancelled() => return Ok(json!([])),
        }
    }
}

async fn download(shared: &Shared, cutter: &ConnectionCutter, token: &str, path: &str) -> Response {
    let mut downloads_held = shared.downloads_held.subscribe();
    tokio::select! {
        _ = downloads_held.wait_for(|is_held| !is_held) => {}
        () = shared.stopped.cancelled() => {}
    }
    let arrival = shared.on_request(DOWNLOAD);
    let content = {
        let state = shared.state();
        let found = files::at(&state.platform, path).and_then(|file| file.content.clone());
        // Using a Local Bot API Server: files of a server with --local are read from its disk.
        found.filter(|_| state.tokens.contains(token) && shared.rules.local_files.is_none())
    };
    let Some(content) = content else {
        return answer(shared, cutter, arrival, || Err(ApiRefusal::new(404, "Not Found"))).await;
    };
    let bytes = content.bytes();
    match &arrival.fault {
        None => {
            shared.state().script.on_performed(&arrival);
            end_request(shared, &arrival);
            sized(bytes, Body::from_stream(content.stream()))
        }
        Some(TelegramFault::Common(Fault::ResetMidTransfer)) => {
            end_request(shared, &arrival);
            sized(bytes, half_of(&content))
        }
        Some(_) => answer(shared, cutter, arrival, || Ok(Value::Null)).await,
    }
}

fn sized(bytes: u64, body: Body) -> Response {
    ([(header::CONTENT_LENGTH, bytes)], body).into_response()
}

/// Performs a request that has been read, or what the script says instead.
async fn answer(
    shared: &Shared,
    cutter: &ConnectionCutter,
    arrival: ScriptedRequest<ApiRefusal>,
    act: impl FnOnce() -> Result<Value, ApiRefusal>,
) -> Response {
    // A connection that was made before the gate was closed ends as one that came too late.
    if shared.gate.is_closed() && arrival.method != "getupdates" {
        cutter.cut();
        shared.state().script.on_end(&arrival);
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let performs = arrival.fault.is_none() || arrival.common_fault().is_some_and(Fault::is_performed);
    let acted = performs.then(act);
    if performs {
        shared.state().script.on_performed(&arrival);
    }
    let response = match (&arrival.fault, acted) {
        // What Telegram refuses it refuses readably, whatever was to go wrong with its answer.
        (_, Some(Err(refusal))) => refusal_response(&refusal),
        (None, Some(Ok(result))) => Json(json!({ "ok": true, "result": result })).into_response(),
        (Some(TelegramFault::Refuse(refusal)), _) => refusal_response(refusal),
        (Some(TelegramFault::Answer { status, body }), _) => {
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (status, body.clone()).into_response()
        }
        (Some(TelegramFault::Common(fault)), _) => {
            let cut = connection_fault(*fault, &shared.gate, cutter, &shared.stopped).await;
            cut.unwrap_or_else(|| refusal_response(&refusal_for(*fault)))
        }
        (None, None) => unreachable!("what meets no fault is performed"),
    };
    end_request(shared, &arrival);
    response
}

/// Cuts a request off that has been read, and performs it later, when nobody hears of it.
async fn postpone(
    shared: &Arc<Shared>,
    cutter: &ConnectionCutter,
    arrival: ScriptedRequest<ApiRefusal>,
    call: ReceivedCall,
    fault: Fault,
) -> Response {
    // The pace is one of requests, whenever they are performed.
    if let Err(refusal) = shared.allow(&call) {
        end_request(shared, &arrival);
        return refusal_response(&refusal);
    }
    if shared.gate.is_closed() {
        return answer(shared, cutter, arrival, || Ok(Value::Null)).await;
    }
    cutter.cut();
    end_request(shared, &arrival);
    let server = Arc::downgrade(shared);
    shared.late.postpone(fault, &shared.stopped, move || {
        let Some(shared) = server.upgrade() else { return };
        // Whoever asked is told of no refusal either.
        let _unheard = shared.perform(&call);
        shared.state().script.on_performed(&arrival);
    });
    StatusCode::SERVICE_UNAVAILABLE.into_response()
}

/// What follows a request: the gate may be scripted to be closed before the next one.
fn end_request(shared: &Shared, arrival: &ScriptedRequest<ApiRefusal>) {
    shared.state().script.on_end(arrival);
    shared.close_if_scripted();
}

/// A fault in Telegram's own words.
fn refusal_for(fault: Fault) -> ApiRefusal {
    match fault {
        Fault::RateLimit { retry_after_ms } => ApiRefusal::too_many_requests(retry_after_ms.div_ceil(1000)),
        Fault::BadMarkup => bad("can't parse entities: Unsupported start tag \"x\" at byte offset 0"),
        Fault::BadItem { index } => {
            let words = "with the error message \"PHOTO_INVALID_DIMENSIONS\"";
            bad(format!("failed to send message #{} {words}", index + 1))
        }
        Fault::TooLarge => ApiRefusal::new(413, "Request Entity Too Large"),
        Fault::Forbidden => forbidden("bot was blocked by the user"),
        Fault::ChatGone => bad("chat not found"),
        Fault::VoiceForbidden => bad("VOICE_MESSAGES_FORBIDDEN"),
        // tdlib/telegram-bot-api, `Client.cpp`: what is left of a client's requests when it closes.
        Fault::Restart { .. } => ApiRefusal::new(500, "Internal Server Error: restart"),
        _ => ApiRefusal::new(500, "Internal Server Error"),
    }
}

fn refusal_response(refusal: &ApiRefusal) -> Response {
    let status = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Json(refusal.body())).into_response()
}

impl Shared {
    /// Lets a request through, unless the bot has been too fast.
    fn allow(&self, call: &ReceivedCall) -> Result<(), ApiRefusal> {
        let mut state = self.state();
        let State { pace, platform, .. } = &mut *state;
        pace.allow(platform, call)
    }

    fn perform(&self, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
        let performed = methods::perform(&mut self.state(), &self.rules, call);
        self.changed.notify_waiters();
        performed
    }
}
