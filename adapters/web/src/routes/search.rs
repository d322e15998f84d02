//! The search over all conversations.

use std::sync::Arc;

use axum::{Json, extract::State};
use satchel_ports::ledger::{ConversationSearch, SearchTerms};
use serde::Deserialize;

use super::{ApiQuery, conversations::read_turn_id};
use crate::{
    problem::{Problem, ProblemBody},
    state::AppState,
    view,
    wire::SearchResults,
};

/// The default number of hits.
const DEFAULT_HITS: u32 = 30;

/// The maximum number of hits in one response.
const MAX_HITS: u32 = 100;

#[derive(Debug, Deserialize)]
pub(crate) struct SearchParameters {
    /// The words.
    q: String,
    /// Only turns before this one.
    before: Option<String>,
    /// At most this many.
    limit: Option<u32>,
}

/// Finds what was said and which files came or were made in the conversations of the web, newest first.
#[utoipa::path(
    get,
    path = "/api/search",
    params(
        ("q" = String, Query, description = "The words, all of which must be there. The first two letters of a word are enough; upper case and accents make no difference; there are no operators."),
        ("before" = Option<String>, Query, description = "The `turn` of the last hit that you have: only older ones."),
        ("limit" = Option<u32>, Query, description = "Maximum number of hits."),
    ),
    responses(
        (status = 200, body = SearchResults),
        (status = 422, description = "There is nothing to search for.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn search(
    State(state): State<Arc<AppState>>,
    ApiQuery(query): ApiQuery<SearchParameters>,
) -> Result<Json<SearchResults>, Problem> {
    let before = read_turn_id(query.before)?;
    let terms = SearchTerms::parse(&query.q).map_err(|error| {
        let words = error.to_string();
        let (first, rest) = words.split_at(1);
        Problem::invalid(format!("{}{rest}.", first.to_uppercase()))
    })?;
    let limit = query.limit.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS);
    let search =
        ConversationSearch { channel: state.channel_name(), conversation: None, terms, before, limit: limit + 1 };
    let mut results = state.conversations.search_conversations(&search).await?;
    let turns = results.hits.iter().filter(|hit| hit.turn.is_some()).count();
    let more = turns > limit as usize;
    if more {
        results.hits.pop();
    }
    Ok(Json(view::to_wire_results(results, more)))
}
