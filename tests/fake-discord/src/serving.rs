//! The HTTP side: paths, tokens, answers, and the faults of the script.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{ConnectInfo, DefaultBodyLimit, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use satchel_fake_kit::{ConnectionCutter, Fault, ScriptedRequest, ServerFault, connection_fault};

use crate::{
    Shared,
    call::{ReceivedCall, RequestReadError},
    cdn,
    message::VOICE_MESSAGE,
    methods::{self, RouteReply},
    rate,
    refusal::{ApiRefusal, missing_permissions, too_large, unknown_channel},
    route::{self, FakeRoute, RouteError},
};

/// What a route has come to: the headers that tell of its limits, and its answer.
type RouteOutcome = (HeaderMap, Result<RouteReply, ApiRefusal>);

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let gateway = shared.hub.router();
    Router::new().fallback(handle_request).layer(DefaultBodyLimit::disable()).with_state(shared).merge(gateway)
}

async fn handle_request(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(cutter): ConnectInfo<ConnectionCutter>,
    request: Request,
) -> Response {
    let path = request.uri().path().to_owned();
    let mut response = match path.strip_prefix("/api/v10") {
        Some(path) => match route::find(request.method().as_str(), path) {
            Ok(route) => handle_call(&shared, &cutter, route, path, request).await,
            Err(RouteError::NotFound) => refusal_response(&ApiRefusal::from_status(404)),
            Err(RouteError::WrongMethod) => refusal_response(&ApiRefusal::from_status(405)),
        },
        // API Versioning: other versions are other APIs.
        None if path.starts_with("/api/") => {
            refusal_response(&ApiRefusal::new(400, 50_041, "Invalid API version provided."))
        }
        None => cdn::download(&shared, &cutter, request.uri()).await,
    };
    if !shared.rules.keeps_connections {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn handle_call(
    shared: &Arc<Shared>,
    cutter: &ConnectionCutter,
    route: FakeRoute,
    path: &str,
    request: Request,
) -> Response {
    let mut arrival = shared.on_request(&route.name);
    if arrival.common_fault().is_some_and(|fault| !fault.is_read()) {
        return answer(shared, cutter, arrival, || (HeaderMap::new(), Ok(RouteReply::NoContent))).await;
    }
    let refusal = check_client(&route, request.headers(), &shared.state().tokens);
    let keep_bytes = shared.state().platform.keep_bytes;
    let call = match ReceivedCall::read(route, path, request, keep_bytes).await {
        Ok(call) => call,
        Err(RequestReadError::BrokeOff) => {
            cutter.cut();
            end_request(shared, &arrival);
            return StatusCode::BAD_REQUEST.into_response();
        }
        Err(RequestReadError::Refused(refusal)) => {
            return answer(shared, cutter, arrival, || (HeaderMap::new(), Err(refusal))).await;
        }
    };
    if let Some(refusal) = refusal {
        return answer(shared, cutter, arrival, || (HeaderMap::new(), Err(refusal))).await;
    }
    arrival.fault = arrival.fault.filter(|fault| can_meet(fault, &call));
    shared.record_call(&call);
    if let Some(fault) = arrival.common_fault().filter(|fault| fault.is_late()) {
        return postpone(shared, cutter, arrival, call, fault).await;
    }
    answer(shared, cutter, arrival, || {
        let (headers, allowed) = shared.allow(&call);
        (headers, allowed.and_then(|()| shared.perform(&call)))
    })
    .await
}

/// Why a request isn't even looked at.
fn check_client(route: &FakeRoute, headers: &HeaderMap, tokens: &BTreeSet<String>) -> Option<ApiRefusal> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
    // Receiving and Responding: the token of an interaction is enough to answer it, and discord.py answers with neither
    // the bot's token nor a name.
    if route.name.contains("/interactions/") {
        return None;
    }
    // Reference, User Agent: "DiscordBot ($url, $versionNumber)". Opcodes and Status Codes, 40333: "Cloudflare is
    // blocking your request. This can often be resolved by setting a proper User Agent".
    if !text(header::USER_AGENT).starts_with("DiscordBot (") {
        return Some(ApiRefusal::new(403, 40_333, "internal network error"));
    }
    // Reference, Authentication: "Authorization: TOKEN_TYPE TOKEN", `Bot` for bots.
    let known = text(header::AUTHORIZATION).strip_prefix("Bot ").is_some_and(|token| tokens.contains(token));
    (!known).then(|| ApiRefusal::from_status(401))
}

/// Whether a fault can meet this request at all.
fn can_meet(fault: &ServerFault<ApiRefusal>, call: &ReceivedCall) -> bool {
    let ServerFault::Common(fault) = fault else { return true };
    match fault {
        // Discord takes all Markdown.
        Fault::BadMarkup => false,
        Fault::BadItem { index } => *index < call.uploads.len(),
        Fault::VoiceForbidden => call.body["flags"].as_u64().is_some_and(|flags| flags & VOICE_MESSAGE != 0),
        _ => true,
    }
}

/// Performs a request that has been read, or what the script says instead.
pub(crate) async fn answer(
    shared: &Shared,
    cutter: &ConnectionCutter,
    arrival: ScriptedRequest<ApiRefusal>,
    act: impl FnOnce() -> RouteOutcome,
) -> Response {
    // A connection that was made before the gate was closed ends as one that came too late.
    if shared.gate.is_closed() {
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
        // What Discord refuses it refuses readably, whatever was to go wrong with its answer.
        (_, Some((headers, Err(refusal)))) => (headers, refusal_response(&refusal)).into_response(),
        (None, Some((headers, Ok(RouteReply::Json(body))))) => (headers, Json(body)).into_response(),
        (None, Some((headers, Ok(RouteReply::NoContent)))) => (StatusCode::NO_CONTENT, headers).into_response(),
        (Some(ServerFault::Refuse(refusal)), _) => refusal_response(refusal),
        (Some(ServerFault::Answer { status, body }), _) => {
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (status, body.clone()).into_response()
        }
        (Some(ServerFault::Common(fault)), _) => {
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
    if let (headers, Err(refusal)) = shared.allow(&call) {
        end_request(shared, &arrival);
        return (headers, refusal_response(&refusal)).into_response();
    }
    if shared.gate.is_closed() {
        return answer(shared, cutter, arrival, || (HeaderMap::new(), Ok(RouteReply::NoContent))).await;
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
pub(crate) fn end_request(shared: &Shared, arrival: &ScriptedRequest<ApiRefusal>) {
    shared.state().script.on_end(arrival);
    shared.close_if_scripted();
}

/// A fault in Discord's own words.
fn refusal_for(fault: Fault) -> ApiRefusal {
    match fault {
        Fault::RateLimit { retry_after_ms } => {
            ApiRefusal::too_many_requests(Duration::from_millis(retry_after_ms).as_secs_f64(), false)
        }
        Fault::BadItem { index } => {
            let path = ["attachments", &index.to_string()];
            ApiRefusal::invalid_field(&path, "ATTACHMENT_INVALID", "This file can't be taken.")
        }
        Fault::TooLarge => too_large(),
        Fault::Forbidden => missing_permissions(),
        Fault::ChatGone => unknown_channel(),
        Fault::VoiceForbidden => ApiRefusal::new(403, 50_173, "You cannot send voice messages in this channel."),
        _ => ApiRefusal::from_status(500),
    }
}

fn refusal_response(refusal: &ApiRefusal) -> Response {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, rate::limited(refusal), Json(refusal.body())).into_response()
}

impl Shared {
    /// Lets a request through, unless the bot has been too fast.
    fn allow(&self, call: &ReceivedCall) -> (HeaderMap, Result<(), ApiRefusal>) {
        self.state().pace.allow(&call.route)
    }

    /// Performs a request and lets the gateway tell of it.
    fn perform(&self, call: &ReceivedCall) -> Result<RouteReply, ApiRefusal> {
        let done = {
            let mut state = self.state();
            let done = methods::dispatch_route(&mut state.platform, &self.rules, &self.hub, call);
            self.notify(&mut state);
            done
        };
        self.changed.notify_waiters();
        done
    }
}
