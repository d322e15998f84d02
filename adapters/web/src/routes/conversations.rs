//! What has been said: the list of conversations, and the turns of each.

use std::sync::Arc;

use axum::{Json, extract::State};
use satchel_ports::ledger::TurnQuery;
use serde::Deserialize;

use super::extract::{ApiPath, ApiQuery};
use crate::{
    problem::{Problem, ProblemBody},
    state::AppState,
    view,
    wire::{Conversation, Conversations, Turns},
};

/// How many conversations are listed unless more are asked for.
const LISTED: u32 = 100;

/// The most of anything that one answer lists.
const MOST: u32 = 200;

/// How many turns are shown unless more are asked for.
const DEFAULT_TURNS: u32 = 30;

#[derive(Debug, Deserialize)]
pub(crate) struct ConversationListQuery {
    /// At most this many.
    limit: Option<u32>,
}

/// Lists the conversations of the web, the one last used first.
#[utoipa::path(
    get,
    path = "/api/conversations",
    params(("limit" = Option<u32>, Query, description = "Maximum number of conversations.")),
    responses((status = 200, body = Conversations)),
)]
pub(crate) async fn list(
    State(site): State<Arc<AppState>>,
    ApiQuery(query): ApiQuery<ConversationListQuery>,
) -> Result<Json<Conversations>, Problem> {
    let limit = query.limit.unwrap_or(LISTED).clamp(1, MOST);
    let known = site.ledger.conversations(&site.channel_name(), limit).await?;
    let conversations = known.into_iter().map(|known| Conversation {
        id: known.conversation.to_string(),
        title: known.title,
        last_at: known.last_at.0,
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

/// Reads turns of a conversation, oldest first. One of which nothing is known is empty: whoever writes into it makes it.
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
    State(site): State<Arc<AppState>>,
    ApiPath(id): ApiPath<String>,
    ApiQuery(query): ApiQuery<TurnListQuery>,
) -> Result<Json<Turns>, Problem> {
    let before = query.before.map(|before| before.parse()).transpose();
    let before = before.map_err(|_| Problem::invalid("`before` must be the id of a turn."))?;
    let limit = query.limit.unwrap_or(DEFAULT_TURNS).clamp(1, MOST);
    let conversation = site.conversation(&id)?;
    let mut records = site.ledger.turns(&TurnQuery { conversation, before, limit: limit + 1 }).await?;
    let more = records.len() > limit as usize;
    if more {
        records.remove(0);
    }
    Ok(Json(Turns { turns: view::turns(&records), more }))
}
