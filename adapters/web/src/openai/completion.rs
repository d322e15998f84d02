//! `POST /v1/chat/completions`: stores the message of a request, waits for its turn, and responds with the reply.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::{
    ChannelName, ConversationId, FileReference, InboundMessage, MessageRef, Sender, TurnId, inbound::ClientContext,
};
use satchel_http_server::{BodyError, read_body};
use satchel_ports::{BlobHint, event_bus::EventStream};

use super::{
    DEFAULT_MODEL,
    error::OpenAiError,
    model_names,
    reply::ReplyContext,
    request::{ClientMessages, CompletionRequest, RequestFile},
    retries::{RequestIdentity, RequestTurn},
    stream::stream_reply,
};
use crate::{
    channel::API_CHANNEL,
    guard::own_origin,
    links::redact_links,
    problem::Problem,
    state::AppState,
    turn_wait::{MAX_TURN_WAIT, TurnWait, wait_for_turn},
    view,
};

/// The largest body, which has its files as text.
const MAX_BODY_BYTES: usize = 48 << 20;

/// The timeout for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(120);

/// The header that names a conversation of the page.
const CONVERSATION_HEADER: &str = "x-satchel-conversation";

/// A request whose turn is known.
pub(super) struct AcceptedRequest {
    pub(super) turn: TurnId,
    pub(super) context: ReplyContext,
    /// What happens from before the turn on; `None` where an earlier attempt has made it.
    pub(super) events: Option<EventStream>,
}

pub(super) async fn complete(State(state): State<Arc<AppState>>, request: Request) -> Result<Response, OpenAiError> {
    let headers = request.headers().clone();
    let origin = own_origin(&request).origin.clone();
    // Few requests are in memory at a time, each until its files are in the blob store.
    let permit = state.completion_bodies.acquire().await.map_err(|_| OpenAiError::from(Problem::timed_out()))?;
    let body = read_request_body(request).await?;
    let identity = RequestIdentity::new(&headers, &body);
    let request: CompletionRequest = serde_json::from_slice(&body)
        .map_err(|error| OpenAiError::invalid("body", format!("The body can't be read: {error}.")))?;
    drop(body);
    let is_streamed = request.stream;
    let accepted = accept(&state, &headers, identity, request, origin).await?;
    drop(permit);
    match is_streamed {
        true => Ok(stream_reply(state, accepted)),
        false => respond(&state, accepted).await,
    }
}

async fn read_request_body(request: Request) -> Result<Bytes, OpenAiError> {
    let body = read_body(request.into_body(), MAX_BODY_BYTES, BODY_TIMEOUT).await;
    body.map_err(|error| match error {
        BodyError::TooLarge => Problem::file_too_large(MAX_BODY_BYTES as u64).into(),
        BodyError::TimedOut => Problem::stalled().into(),
        BodyError::Broken => OpenAiError::invalid("body", "The request was interrupted. Please send it again."),
    })
}

/// Stores the message of a request, unless an earlier attempt has.
async fn accept(
    state: &AppState,
    headers: &HeaderMap,
    identity: RequestIdentity,
    request: CompletionRequest,
    origin: String,
) -> Result<AcceptedRequest, OpenAiError> {
    let model = request.model.clone().unwrap_or_else(|| DEFAULT_MODEL.to_owned());
    if !model_names(state).any(|name| name == model) {
        return Err(OpenAiError::unknown_model(&model));
    }
    let named = headers.get(CONVERSATION_HEADER).map(|name| name.to_str().unwrap_or_default());
    let conversation = match named {
        Some(name) => named_conversation(state, name)?,
        None => unlisted_conversation(&identity.conversation_key()),
    };
    let mut messages = request.into_messages()?;
    if named.is_some() {
        check_page_request(state, &model, &messages)?;
    }
    let origin = state.hosts.public_origin().unwrap_or(origin);
    // Clients send back our replies. Without a public address their links have the origin of the request, which only we know.
    for text in messages.texts_mut() {
        *text = redact_links(text, &origin);
    }
    let context = ReplyContext { conversation: conversation.clone(), origin, model: model.clone() };
    let key = match identity.find_turn(state, &conversation).await? {
        RequestTurn::Joined(turn) => return Ok(AcceptedRequest { turn, context, events: None }),
        RequestTurn::New(key) => key,
    };
    let message = inbound_message(state, conversation, key, messages, &model, named.is_some()).await?;
    // Before the message is stored, so that no event is missed.
    let events = state.bus.subscribe().await.ok();
    match state.inbound.accept(message).await? {
        Some(turn) => Ok(AcceptedRequest { turn, context, events }),
        None => {
            let detail = "You are not allowed to send messages here.";
            Err(Problem::new(StatusCode::FORBIDDEN, "not_allowed", detail).into())
        }
    }
}

/// A conversation of the page; `web:NAME` and `NAME` are the same.
fn named_conversation(state: &AppState, name: &str) -> Result<ConversationId, OpenAiError> {
    let own = format!("{}:", state.channel_name());
    state.conversation(name.strip_prefix(&own).unwrap_or(name)).map_err(|_| {
        let reason =
            "`X-Satchel-Conversation` must name a conversation of the page: 1 to 64 letters, digits, `-` and `_`.";
        OpenAiError::invalid(CONVERSATION_HEADER, reason)
    })
}

/// Checks that a request into a conversation of the page asks for nothing that such a conversation decides itself.
fn check_page_request(state: &AppState, model: &str, messages: &ClientMessages) -> Result<(), OpenAiError> {
    if model != DEFAULT_MODEL && model != state.settings.model {
        let reason = format!(
            "With `X-Satchel-Conversation`, the model must be `{DEFAULT_MODEL}`: a conversation of the page has a model of its \
             own, which `/model` changes there."
        );
        return Err(OpenAiError::unsupported("model", reason));
    }
    if messages.instructions.is_some() {
        let reason = "With `X-Satchel-Conversation`, system messages are not supported: a conversation of the page has the \
                      configured instructions.";
        return Err(OpenAiError::unsupported("messages", reason));
    }
    Ok(())
}

/// A conversation that the page doesn't list.
fn unlisted_conversation(key: &str) -> ConversationId {
    let channel = ChannelName::new(API_CHANNEL).expect("the name is lower-case letters");
    ConversationId::new(channel, key).expect("a digest has digits and letters")
}

/// Makes the message of a request, with its files in the blob store. One into a conversation of the page has the last
/// message alone, because that conversation has its own history.
async fn inbound_message(
    state: &AppState,
    conversation: ConversationId,
    key: String,
    messages: ClientMessages,
    model: &str,
    is_listed: bool,
) -> Result<InboundMessage, OpenAiError> {
    let ClientMessages { instructions, history, text, files, earlier_files } = messages;
    let earlier_files = if is_listed { Vec::new() } else { earlier_files };
    let max_files = state.settings.files_per_message;
    let count = files.len() + earlier_files.len();
    if count > max_files {
        let reason = format!("The request has {count} files; at most {max_files} are accepted.");
        return Err(OpenAiError::invalid("messages", reason));
    }
    let mut references = Vec::new();
    for file in earlier_files.into_iter().chain(files) {
        references.push(store_file(state, file).await?);
    }
    let context = (!is_listed).then(|| {
        let model = Some(model.to_owned()).filter(|model| model != DEFAULT_MODEL);
        Box::new(ClientContext { instructions, model, history })
    });
    Ok(InboundMessage {
        message: Some(MessageRef(key.clone())),
        text,
        files: references,
        context,
        ..InboundMessage::new(conversation, key, Sender::new("owner", "Owner"))
    })
}

async fn store_file(state: &AppState, file: RequestFile) -> Result<FileReference, OpenAiError> {
    let RequestFile { filename, bytes } = file;
    let hint = BlobHint { filename: Some(filename.clone()), mime: None, bytes: Some(bytes.len() as u64) };
    let content = stream::once(async move { Ok(Bytes::from(bytes)) }).boxed();
    let blob = state.blobs.put(content, &hint, state.settings.file_bytes).await?;
    Ok(FileReference::stored(&blob, filename))
}

async fn respond(state: &AppState, accepted: AcceptedRequest) -> Result<Response, OpenAiError> {
    let AcceptedRequest { turn, context, .. } = accepted;
    let record = wait_for_turn(state, &context.conversation, turn, TurnWait(MAX_TURN_WAIT)).await?;
    let record = record.filter(view::is_final).ok_or_else(OpenAiError::still_running)?;
    let reply = context.read_reply(state, &record)?;
    Ok(Json(context.completion(&record, state.clock.now().0 / 1_000, &reply)).into_response())
}
