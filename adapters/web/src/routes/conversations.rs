//! The list of conversations, how each is listed, and its turns.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    http::StatusCode,
};
use satchel_domain::TurnId;
use satchel_ports::ledger::{ConversationQuery, ForgetConversationOutcome, ListingChange, TurnQuery};
use serde::Deserialize;

use super::{ApiPath, ApiQuery, read_json};
use crate::{
    problem::{Problem, ProblemBody},
    state::AppState,
    view,
    wire::{Conversation, ConversationChange, Conversations, Turns},
};

/// The default number of listed conversations.
const DEFAULT_CONVERSATIONS: u32 = 100;

/// The maximum number of items in one response.
const MAX_LISTED: u32 = 200;

/// The default number of listed turns.
const DEFAULT_TURNS: u32 = 30;

/// The maximum length of a name in characters.
const MAX_NAME_CHARS: usize = 100;

#[derive(Debug, Deserialize)]
pub(crate) struct ConversationListQuery {
    /// The archived ones instead of the others.
    #[serde(default)]
    archived: bool,
    /// Only those whose last turn is older than this one.
    before: Option<String>,
    /// At most this many besides the pinned ones.
    limit: Option<u32>,
}

/// Lists the conversations of the web: the pinned ones, then the others, each most recently used first.
#[utoipa::path(
    get,
    path = "/api/conversations",
    params(
        ("archived" = Option<bool>, Query, description = "Whether to list the archived conversations instead of the others."),
        ("before" = Option<String>, Query, description = "The `last_turn` of the last conversation that you have: only older ones, and none that is pinned."),
        ("limit" = Option<u32>, Query, description = "Maximum number of conversations, besides the pinned ones."),
    ),
    responses((status = 200, body = Conversations)),
)]
pub(crate) async fn list(
    State(state): State<Arc<AppState>>,
    ApiQuery(query): ApiQuery<ConversationListQuery>,
) -> Result<Json<Conversations>, Problem> {
    let ConversationListQuery { archived, before, limit } = query;
    let before = read_turn_id(before)?;
    let limit = limit.unwrap_or(DEFAULT_CONVERSATIONS).clamp(1, MAX_LISTED);
    let query = ConversationQuery { channel: state.channel_name(), archived, before, limit: limit + 1 };
    let mut summaries = state.conversations.list_conversations(&query).await?;
    let unpinned = summaries.iter().filter(|summary| !summary.pinned).count();
    let more = unpinned > limit as usize;
    if more {
        summaries.pop();
    }
    let conversations = summaries.into_iter().map(|summary| view::to_wire_conversation(summary, &state.urls)).collect();
    Ok(Json(Conversations { conversations, more }))
}

/// Returns one conversation as the list has it.
#[utoipa::path(
    get,
    path = "/api/conversations/{id}",
    params(("id" = String, Path, description = "The part of the conversation id after `web:`.")),
    responses(
        (status = 200, body = Conversation),
        (status = 404, description = "There is no such conversation.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn show(
    State(state): State<Arc<AppState>>,
    ApiPath(id): ApiPath<String>,
) -> Result<Json<Conversation>, Problem> {
    let summary = state.conversations.find_conversation(&state.conversation(&id)?).await?;
    let summary = summary.ok_or_else(|| Problem::not_found("conversation"))?;
    Ok(Json(view::to_wire_conversation(summary, &state.urls)))
}

/// Reads the id of a turn that a page ends with.
pub(crate) fn read_turn_id(before: Option<String>) -> Result<Option<TurnId>, Problem> {
    let before = before.map(|before| before.parse()).transpose();
    before.map_err(|_| Problem::invalid("`before` must be the id of a turn."))
}

/// Changes how a conversation is listed.
#[utoipa::path(
    patch,
    path = "/api/conversations/{id}",
    params(("id" = String, Path, description = "The part of the conversation id after `web:`.")),
    request_body = ConversationChange,
    responses(
        (status = 204, description = "The list shows it."),
        (status = 404, description = "There is no such conversation.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "The name is too long, or it would be both pinned and archived.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn change(
    State(state): State<Arc<AppState>>,
    ApiPath(id): ApiPath<String>,
    request: Request,
) -> Result<StatusCode, Problem> {
    let conversation = state.conversation(&id)?;
    let changes = to_listing_changes(read_json(request).await?)?;
    match state.conversations.change_listing(&conversation, &changes).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::not_found("conversation")),
    }
}

fn to_listing_changes(change: ConversationChange) -> Result<Vec<ListingChange>, Problem> {
    let ConversationChange { name, pinned, archived } = change;
    if pinned == Some(true) && archived == Some(true) {
        return Err(Problem::invalid("A conversation can't be both pinned and archived."));
    }
    let mut changes = Vec::new();
    if let Some(name) = name {
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        if name.chars().count() > MAX_NAME_CHARS {
            return Err(Problem::invalid(format!("A name has at most {MAX_NAME_CHARS} characters.")));
        }
        if name.contains(char::is_control) {
            return Err(Problem::invalid("A name can't have control characters."));
        }
        changes.push(ListingChange::Name(Some(name).filter(|name| !name.is_empty())));
    }
    changes.extend(archived.map(|archived| if archived { ListingChange::Archive } else { ListingChange::Unarchive }));
    changes.extend(pinned.map(|pinned| if pinned { ListingChange::Pin } else { ListingChange::Unpin }));
    Ok(changes)
}

/// Forgets a conversation with its messages and files, for good.
#[utoipa::path(
    delete,
    path = "/api/conversations/{id}",
    params(("id" = String, Path, description = "The part of the conversation id after `web:`.")),
    responses(
        (status = 204, description = "It is forgotten."),
        (status = 404, description = "There is no such conversation.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "Something is under way in it.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn delete(
    State(state): State<Arc<AppState>>,
    ApiPath(id): ApiPath<String>,
) -> Result<StatusCode, Problem> {
    let conversation = state.conversation(&id)?;
    match state.conversations.forget_conversation(&conversation).await? {
        ForgetConversationOutcome::Forgotten(_) => {
            state.hub.resend_snapshot(&conversation);
            Ok(StatusCode::NO_CONTENT)
        }
        ForgetConversationOutcome::NotFound => Err(Problem::not_found("conversation")),
        ForgetConversationOutcome::Busy => {
            let detail = "An answer is under way in this conversation. Stop it or wait for it, then delete it again.";
            Err(Problem::new(StatusCode::CONFLICT, "busy", detail))
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct TurnListQuery {
    /// Only those before this one.
    before: Option<String>,
    /// At most this many, the newest.
    limit: Option<u32>,
}

/// Lists turns of a conversation, oldest first. An unknown conversation is empty: its first message creates it.
#[utoipa::path(
    get,
    path = "/api/conversations/{id}/turns",
    params(
        ("id" = String, Path, description = "The part of the conversation id after `web:`: 1 to 64 letters, digits, `-`, `_`."),
        ("before" = Option<String>, Query, description = "Only turns before this one."),
        ("limit" = Option<u32>, Query, description = "Maximum number of turns, newest first."),
    ),
    responses(
        (status = 200, body = Turns),
        (status = 404, description = "The conversation id is invalid.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn turns(
    State(state): State<Arc<AppState>>,
    ApiPath(id): ApiPath<String>,
    ApiQuery(query): ApiQuery<TurnListQuery>,
) -> Result<Json<Turns>, Problem> {
    let before = read_turn_id(query.before)?;
    let limit = query.limit.unwrap_or(DEFAULT_TURNS).clamp(1, MAX_LISTED);
    let conversation = state.conversation(&id)?;
    let mut records = state.archive.turns(&TurnQuery { conversation, before, limit: limit + 1 }).await?;
    let more = records.len() > limit as usize;
    if more {
        records.remove(0);
    }
    Ok(Json(Turns { turns: view::to_wire_turns(&records, &state.urls), more }))
}
