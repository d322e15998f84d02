//! The routes of the fake model server: check, answer as scripted, and note what becomes of it.

use std::{io, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, DefaultBodyLimit, Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures::{StreamExt, stream};
use satchel_fake_kit::ConnectionCutter;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    ModelFault, ModelReply, ModelWire, ParsedRequest, ProviderErrorCase, ReplyPiece, RequestStatus, Shared,
    StreamWriter, anthropic, error_bodies, gemini, listing, ollama, openai_chat, openai_responses, rules,
};

/// The largest body that any of them takes, with room to tell the client so.
const MAX_BODY_BYTES: usize = 80 << 20;

type SharedServer = Arc<Shared>;

pub(crate) fn router(shared: SharedServer) -> Router {
    let chat = |wire| {
        post(
            move |State(shared): State<SharedServer>,
                  ConnectInfo(cutter): ConnectInfo<ConnectionCutter>,
                  headers: HeaderMap,
                  body: Bytes| async move { ask(&shared, wire, None, &cutter, &headers, &body).await },
        )
    };
    Router::new()
        .route("/v1/chat/completions", chat(ModelWire::OpenAiChat))
        .route("/v1/responses", chat(ModelWire::OpenAiResponses))
        .route("/v1/messages", chat(ModelWire::Anthropic))
        .route("/api/chat", chat(ModelWire::Ollama))
        .route("/v1beta/models/{model}", post(ask_gemini).get(listing::gemini))
        .route("/v1/models", get(listing::openai))
        .route("/v1/models/{model}", get(listing::anthropic))
        .route("/api/tags", get(listing::ollama))
        .route("/api/show", post(listing::ollama_one))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(shared)
}

/// The model and the method stand in the path: `gemini-2.5-flash:streamGenerateContent`.
async fn ask_gemini(
    State(shared): State<SharedServer>,
    Path(model): Path<String>,
    ConnectInfo(cutter): ConnectInfo<ConnectionCutter>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match model.split_once(':') {
        Some((model, "streamGenerateContent")) => {
            ask(&shared, ModelWire::Gemini, Some(model), &cutter, &headers, &body).await
        }
        _ => (StatusCode::NOT_FOUND, "").into_response(),
    }
}

async fn ask(
    shared: &SharedServer,
    wire: ModelWire,
    model: Option<&str>,
    cutter: &ConnectionCutter,
    headers: &HeaderMap,
    body: &Bytes,
) -> Response {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let place = shared.on_request(wire, parsed.clone().unwrap_or_default());
    let guard = StatusGuard { shared: Arc::clone(shared), place };
    if let Some(refusal) = wrong_key(shared, wire, headers) {
        return guard.refuse("key", refusal);
    }
    if body.len() > max_body_bytes(wire) {
        return guard.refuse("size", error_bodies::refusal(wire, ProviderErrorCase::TooLarge, ""));
    }
    let read = parsed.ok_or_else(|| "We could not parse the JSON body of your request.".to_owned());
    let read = read.and_then(|body| self::read(wire, model, &body)).and_then(|read| {
        rules::order(wire, &read.turns)?;
        Ok(read)
    });
    let read = match read {
        Ok(read) => read,
        Err(rule) => return guard.refuse(&rule, error_bodies::refusal(wire, ProviderErrorCase::Invalid, &rule)),
    };
    shared.update_request(place, |request| {
        request.model.clone_from(&read.model);
        request.system.clone_from(&read.system);
        request.turns.clone_from(&read.turns);
        request.tools.clone_from(&read.tools);
        request.thoughts.clone_from(&read.thoughts);
    });
    if !shared.state().models.contains(&read.model) {
        return guard.refuse("model", error_bodies::refusal(wire, ProviderErrorCase::Model, &read.model));
    }
    let words = shared.state().requests[place].last_user_text();
    let reply = shared.next_reply(&words);
    match reply.fault.clone() {
        Some(fault) => fail(wire, &read.model, fault, cutter, guard).await,
        None => answer(writer(wire, &read), reply, guard),
    }
}

fn read(wire: ModelWire, model: Option<&str>, body: &Value) -> Result<ParsedRequest, String> {
    match wire {
        ModelWire::OpenAiChat => openai_chat::read(body),
        ModelWire::OpenAiResponses => openai_responses::read(body),
        ModelWire::Anthropic => anthropic::read(body),
        ModelWire::Gemini => gemini::read(body, model.unwrap_or_default()),
        ModelWire::Ollama => ollama::read(body),
    }
}

fn writer(wire: ModelWire, read: &ParsedRequest) -> Box<dyn StreamWriter> {
    match wire {
        ModelWire::OpenAiChat => Box::new(openai_chat::OpenAiChatWriter::new(read)),
        ModelWire::OpenAiResponses => Box::new(openai_responses::OpenAiResponsesWriter::new(read)),
        ModelWire::Anthropic => Box::new(anthropic::AnthropicWriter::new(read)),
        ModelWire::Gemini => Box::new(gemini::GeminiWriter::new(read)),
        ModelWire::Ollama => Box::new(ollama::OllamaWriter::new(read)),
    }
}

/// How each provider wants the key. The wrong one is repeated in the answer, as OpenAI repeats parts of it.
pub(crate) fn wrong_key(shared: &Shared, wire: ModelWire, headers: &HeaderMap) -> Option<(u16, Value)> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let given = match wire {
        ModelWire::Anthropic => header("x-api-key"),
        ModelWire::Gemini => header("x-goog-api-key"),
        _ => header("authorization").and_then(|value| value.strip_prefix("Bearer ")),
    };
    if shared.state().open_to_all || (wire == ModelWire::Ollama && given.is_none()) {
        return None;
    }
    if wire == ModelWire::Anthropic && header("anthropic-version").is_none() {
        return Some(error_bodies::anthropic(ProviderErrorCase::Invalid, "anthropic-version: header is required"));
    }
    match given {
        Some(key) if key == super::FakeModelServer::KEY => None,
        other => Some(error_bodies::refusal(wire, ProviderErrorCase::Key, other.unwrap_or("none"))),
    }
}

/// OpenAI: <https://platform.openai.com/docs/guides/images-vision>, 50 MB; Anthropic:
/// <https://platform.claude.com/docs/en/api/errors>, 32 MB; Gemini:
/// <https://ai.google.dev/gemini-api/docs/image-understanding>, 20 MB.
fn max_body_bytes(wire: ModelWire) -> usize {
    match wire {
        ModelWire::OpenAiChat | ModelWire::OpenAiResponses => 50 << 20,
        ModelWire::Anthropic => 32 << 20,
        ModelWire::Gemini => 20 << 20,
        ModelWire::Ollama => MAX_BODY_BYTES,
    }
}

/// Notes what becomes of a request; one that nobody noted was abandoned by its client.
struct StatusGuard {
    shared: SharedServer,
    place: usize,
}

impl StatusGuard {
    fn set(&self, status: RequestStatus) {
        self.shared.update_request(self.place, |request| request.status = status);
    }

    fn refuse(self, why: &str, (status, body): (u16, Value)) -> Response {
        self.set(RequestStatus::Refused(why.to_owned()));
        json_response(status, &body)
    }
}

impl Drop for StatusGuard {
    fn drop(&mut self) {
        self.shared.update_request(self.place, |request| {
            if request.status == RequestStatus::Running {
                request.status = RequestStatus::Abandoned;
            }
        });
    }
}

fn json_response(status: u16, body: &Value) -> Response {
    let status = StatusCode::from_u16(status).expect("a status of ours is one");
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Something goes wrong before the answer.
async fn fail(
    wire: ModelWire,
    model: &str,
    fault: ModelFault,
    cutter: &ConnectionCutter,
    guard: StatusGuard,
) -> Response {
    let page = "<html><body>nginx</body></html>";
    let response = match fault {
        ModelFault::Says(ProviderErrorCase::Filtered) if wire == ModelWire::Gemini => {
            let mut frames =
                gemini::GeminiWriter::new(&ParsedRequest { model: model.to_owned(), ..ParsedRequest::default() });
            let frame = frames.write_error(ProviderErrorCase::Filtered);
            ([(header::CONTENT_TYPE, frames.content_type())], frame).into_response()
        }
        ModelFault::Says(case) => {
            let about = if case == ProviderErrorCase::Key { super::FakeModelServer::KEY } else { model };
            let (status, body) = error_bodies::refusal(wire, case, about);
            json_response(status, &body)
        }
        ModelFault::RateLimit { retry_after } => {
            let (status, body) = match wire {
                // Without the wait in the body, so that only the header counts.
                ModelWire::Gemini => (429, serde_json::json!({ "error": { "code": 429, "status": "X" } })),
                wire => error_bodies::refusal(wire, ProviderErrorCase::Rate, model),
            };
            let mut response = json_response(status, &body);
            let wait = retry_after.parse().expect("a header of ours is one");
            response.headers_mut().insert(header::RETRY_AFTER, wait);
            response
        }
        ModelFault::BadGateway => (StatusCode::BAD_GATEWAY, page).into_response(),
        ModelFault::Moved => {
            (StatusCode::FOUND, [(header::LOCATION, "http://127.0.0.1:9/elsewhere")], "").into_response()
        }
        ModelFault::Page => ([(header::CONTENT_TYPE, "text/html")], page).into_response(),
        ModelFault::Hang => {
            guard.shared.stopped.cancelled().await;
            "".into_response()
        }
        ModelFault::Cut => {
            cutter.cut();
            "".into_response()
        }
    };
    guard.set(RequestStatus::Answered);
    response
}

/// Streams an answer as it is scripted.
fn answer(mut writer: Box<dyn StreamWriter>, reply: ModelReply, guard: StatusGuard) -> Response {
    let content_type = writer.content_type();
    let open = writer.open();
    let ModelReply { pieces, finish, usage, .. } = reply;
    let steps = pieces.into_iter().map(Some).chain([None]);
    // What it waits counts from the request's arrival: a test that has seen the request may advance the clock at once.
    let arrival = Instant::from_std(guard.shared.state().requests[guard.place].at);
    let state = (steps, writer, guard, Some(open), arrival, false);
    let frames = stream::unfold(state, move |(mut steps, mut writer, guard, open, mut due, over)| async move {
        if over {
            return None;
        }
        if let Some(open) = open.filter(|open| !open.is_empty()) {
            return Some((Ok(Bytes::from(open)), (steps, writer, guard, None, due, false)));
        }
        let step = steps.next()?;
        let mut over = false;
        let frame = match step {
            Some(ReplyPiece::Text(text)) => Ok(writer.text(&text)),
            Some(ReplyPiece::Call(call)) => Ok(writer.call(&call)),
            Some(ReplyPiece::Ping) => Ok(writer.ping()),
            Some(ReplyPiece::Wait(duration)) => {
                due += duration;
                guard.shared.clock.sleep_until(due).await;
                Ok(String::new())
            }
            Some(ReplyPiece::Hang) => {
                guard.shared.stopped.cancelled().await;
                Err(io::Error::from(io::ErrorKind::ConnectionReset))
            }
            Some(ReplyPiece::Cut) => {
                // What was written before must have left, or the client would see a connection without an answer.
                tokio::time::sleep(Duration::from_millis(20)).await;
                Err(io::Error::from(io::ErrorKind::ConnectionReset))
            }
            Some(ReplyPiece::StopShort) => {
                over = true;
                Ok(String::new())
            }
            Some(ReplyPiece::Garbage) => {
                let garbage = if content_type.contains("ndjson") { "{\"half\": \n" } else { "data: {\"half\": \n\n" };
                Ok(garbage.to_owned())
            }
            Some(ReplyPiece::Trouble(case)) => {
                over = true;
                Ok(writer.write_error(case))
            }
            None => {
                over = true;
                Ok(writer.end(finish, usage))
            }
        };
        over |= frame.is_err();
        if over {
            guard.set(RequestStatus::Answered);
        }
        Some((frame.map(Bytes::from), (steps, writer, guard, None, due, over)))
    });
    let frames = frames.filter(|frame| {
        let empty = frame.as_ref().is_ok_and(Bytes::is_empty);
        async move { !empty }
    });
    ([(header::CONTENT_TYPE, content_type)], Body::from_stream(frames)).into_response()
}
