//! Accepts messages and the files that were uploaded for them, and tries turns again.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use satchel_domain::{ConversationId, FileReference, InboundMessage, MessageRef, Sender};
use satchel_ports::ledger::{RetryOutcome, TurnQuery, TurnRecord, TurnRetry};
use serde::Deserialize;
use tokio::time::timeout;

use super::{ApiPath, ApiQuery, RESPONSE_TIMEOUT, read_json, uploads::verify_upload};
use crate::{
    problem::{Problem, ProblemBody},
    state::AppState,
    turn_wait::{TurnWait, wait_for_turn},
    view,
    wire::{Accepted, NewAttempt, NewMessage, Turn},
};

#[derive(Debug, Deserialize)]
pub(crate) struct WaitQuery {
    /// How long to wait for the finished turn; not at all by default.
    #[serde(default)]
    wait: TurnWait,
}

/// Accepts a message. When this responds, the message is durable and will be answered. With `wait`, it responds with the
/// finished turn, or after that time as without.
#[utoipa::path(
    post,
    path = "/api/conversations/{id}/messages",
    params(
        ("id" = String, Path, description = "The part of the conversation id after `web:`; a new one creates a conversation."),
        ("wait" = Option<String>, Query, description = "How long to wait for the reply, such as `60s`; at most `10m`."),
    ),
    request_body = NewMessage,
    responses(
        (status = 200, description = "The turn, which is finished.", body = Turn),
        (status = 202, description = "It is stored. `Location` is where the turn can be read.", body = Accepted),
        (status = 403, description = "You are not allowed to send messages here.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 410, description = "An upload has expired.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "Something in the message is not allowed.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 507, description = "The disk is full.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn accept(
    State(state): State<Arc<AppState>>,
    ApiPath(id): ApiPath<String>,
    ApiQuery(WaitQuery { wait }): ApiQuery<WaitQuery>,
    request: Request,
) -> Result<Response, Problem> {
    let conversation = state.conversation(&id)?;
    let NewMessage { key, text, uploads, edit_of } = read_json(request).await?;
    let key = scoped_key(&conversation, &key)?;
    let edit_of = edit_of.map(|original| scoped_key(&conversation, &original)).transpose()?;
    let max_files = state.settings.files_per_message;
    if uploads.len() > max_files {
        let detail = format!("You attached {} files; a message can have at most {max_files}.", uploads.len());
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_many_files", detail));
    }
    if text.trim().is_empty() && uploads.is_empty() {
        return Err(Problem::invalid("Write something or attach a file."));
    }
    let files =
        uploads.into_iter().map(|handle| file_reference(&state, &conversation, handle)).collect::<Result<_, _>>()?;
    let message = InboundMessage {
        message: Some(MessageRef(key.clone())),
        edit_of,
        text,
        files,
        ..InboundMessage::new(conversation.clone(), key, Sender::new("owner", "Owner"))
    };
    let accepted = timeout(RESPONSE_TIMEOUT, state.inbound.accept(message)).await;
    let Some(turn) = accepted.map_err(|_| Problem::timed_out())?? else {
        return Err(Problem::new(StatusCode::FORBIDDEN, "not_allowed", "You are not allowed to send messages here."));
    };
    if !wait.0.is_zero() {
        let record = wait_for_turn(&state, &conversation, turn, wait).await?;
        if let Some(record) = record.filter(view::is_final) {
            return Ok(Json(view::to_wire_turn(&record, None, &state.urls)).into_response());
        }
    }
    let location = format!("{}/turns/{turn}", view::conversation_path(&conversation));
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(Accepted { turn: turn.to_string() }))
        .into_response())
}

/// Returns a turn. With `wait`, once it is finished, or after that time as it is then.
#[utoipa::path(
    get,
    path = "/api/conversations/{id}/turns/{turn}",
    params(
        ("id" = String, Path, description = "The part of the conversation id after `web:`."),
        ("turn" = String, Path, description = "The turn; one whose messages were given to a running turn is answered with that."),
        ("wait" = Option<String>, Query, description = "How long to wait for the reply, such as `60s`; at most `10m`."),
    ),
    responses(
        (status = 200, body = Turn),
        (status = 404, description = "This conversation has no such turn.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn turn(
    State(state): State<Arc<AppState>>,
    ApiPath((id, turn)): ApiPath<(String, String)>,
    ApiQuery(WaitQuery { wait }): ApiQuery<WaitQuery>,
) -> Result<Json<Turn>, Problem> {
    let conversation = state.conversation(&id)?;
    let turn = turn.parse().map_err(|_| Problem::not_found("turn"))?;
    let is_here = |record: &TurnRecord| record.conversation == conversation;
    if !state.archive.turn(turn).await?.as_ref().is_some_and(is_here) {
        return Err(Problem::not_found("turn"));
    }
    let record = wait_for_turn(&state, &conversation, turn, wait).await?;
    // Only the oldest unfinished turn of a conversation runs.
    let record = record.ok_or_else(|| Problem::not_found("turn"))?;
    let query = TurnQuery { conversation, before: Some(record.id), limit: 1 };
    let has_earlier = state.archive.turns(&query).await?.iter().any(|earlier| earlier.ending.is_none());
    let next = (!has_earlier).then_some(record.id);
    Ok(Json(view::to_wire_turn(&record, next, &state.urls)))
}

/// Answers the messages of the last turn once more, and sets aside what it said.
#[utoipa::path(
    post,
    path = "/api/conversations/{id}/turns/{turn}/retry",
    params(
        ("id" = String, Path, description = "The part of the conversation id after `web:`."),
        ("turn" = String, Path, description = "The last turn of the conversation."),
    ),
    request_body = NewAttempt,
    responses(
        (status = 202, description = "Its messages are queued as this turn.", body = Accepted),
        (status = 404, description = "There is no such turn.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "An answer is under way, or other turns have followed it.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The text is empty, or nobody has asked for this turn.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn retry(
    State(state): State<Arc<AppState>>,
    ApiPath((id, turn)): ApiPath<(String, String)>,
    request: Request,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let conversation = state.conversation(&id)?;
    let turn = turn.parse().map_err(|_| Problem::not_found("turn"))?;
    let NewAttempt { text } = read_json(request).await?;
    if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
        return Err(Problem::invalid("Write something."));
    }
    let retry = TurnRetry { conversation, turn, excluded: Vec::new(), text };
    let conflict = |code, detail| Err(Problem::new(StatusCode::CONFLICT, code, detail));
    match state.conversations.retry_turn(&retry).await? {
        RetryOutcome::Queued(turn) => {
            // Of the turn before, nothing else tells that it is replaced.
            state.hub.resend_snapshot(&retry.conversation);
            Ok((StatusCode::ACCEPTED, Json(Accepted { turn: turn.to_string() })))
        }
        RetryOutcome::NotFound => Err(Problem::not_found("turn")),
        RetryOutcome::Busy => {
            conflict("busy", "An answer is under way in this conversation. Stop it or wait for it, then try again.")
        }
        RetryOutcome::NotLast => conflict("not_last", "Only the last answer of a conversation can be tried again."),
        RetryOutcome::SystemTask => Err(Problem::invalid("A schedule started this turn; it can't be tried again.")),
    }
}

/// Returns a dedup key that is unique within the channel from a client's key, which is unique within a conversation.
fn scoped_key(conversation: &ConversationId, key: &str) -> Result<String, Problem> {
    let is_key_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !(1..=64).contains(&key.len()) || !key.bytes().all(is_key_byte) {
        return Err(Problem::invalid("A key consists of 1 to 64 letters, digits, `-` and `_`."));
    }
    Ok(format!("{}/{key}", conversation.key()))
}

fn file_reference(state: &AppState, conversation: &ConversationId, handle: String) -> Result<FileReference, Problem> {
    let upload = verify_upload(state, conversation, &handle)?;
    Ok(FileReference {
        mime: Some(upload.blob.mime),
        bytes: Some(upload.blob.bytes),
        stored: Some(upload.blob.sha256),
        ..FileReference::new(handle, upload.filename)
    })
}
