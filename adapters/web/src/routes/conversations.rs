//! The list of conversations, and the turns of each.

use std::sync::Arc;

use axum::{Json, extract::State};
use satchel_ports::ledger::TurnQuery;
use serde::Deserialize;

use super::{ApiPath, ApiQuery};
use crate::{
    problem::{Problem, ProblemBody},
    state::AppState,
    view,
    wire::{Conversation, Conversations, Turns},
};

/// The default number of listed conversations.
const DEFAULT_CONVERSATIONS: u32 = 100;

/// The maximum number of items in one response.
const MAX_LISTED: u32 = 200;

/// The default number of listed turns.
const DEFAULT_TURNS: u32 = 30;

#[derive(Debug, Deserialize)]
pub(crate) struct ConversationListQuery {
    /// At most this many.
    limit: Option<u32>,
}

/// Lists the conversations of the web, most recently used first.
#[utoipa::path(
    get,
    path = "/api/conversations",
    params(("limit" = Option<u32>, Query, description = "Maximum number of conversations.")),
    responses((status = 200, body = Conversations)),
)]
pub(crate) async fn list(
    State(state): State<Arc<AppState>>,
    ApiQuery(query): ApiQuery<ConversationListQuery>,
) -> Result<Json<Conversations>, Problem> {
    let limit = query.limit.unwrap_or(DEFAULT_CONVERSATIONS).clamp(1, MAX_LISTED);
    let summaries = state.archive.conversations(&state.channel_name(), limit).await?;
    let conversations = summaries.into_iter().map(|summary| Conversation {
        id: summary.conversation.to_string(),
        title: summary.title,
        last_at: summary.last_at.0,
    });
    Ok(Json(Conversations { conversations: conversations.collect() }))
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
    let before = query.before.map(|before| before.parse()).transpose();
    let before = before.map_err(|_| Problem::invalid("`before` must be the id of a turn."))?;
    let limit = query.limit.unwrap_or(DEFAULT_TURNS).clamp(1, MAX_LISTED);
    let conversation = state.conversation(&id)?;
    let mut records = state.archive.turns(&TurnQuery { conversation, before, limit: limit + 1 }).await?;
    let more = records.len() > limit as usize;
    if more {
        records.remove(0);
    }
    Ok(Json(Turns { turns: view::to_wire_turns(&records), more }))
}
