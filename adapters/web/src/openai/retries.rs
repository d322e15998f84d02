//! Which turn a request belongs to: a retry of a client makes no second one (ADR 0031).

use std::time::Duration;

use axum::http::HeaderMap;
use satchel_domain::{ConversationId, Sha256, Timestamp, TurnId};
use satchel_ports::ledger::{TurnQuery, TurnRecord};

use super::error::OpenAiError;
use crate::{state::AppState, view};

/// How long after its end a turn answers the same request of a client that doesn't count its retries.
const REPEAT_WINDOW: Duration = Duration::from_secs(60);

/// How many turns of a conversation are searched for an earlier attempt.
const SEARCHED_TURNS: u32 = 20;

/// The header by which clients name a request, whatever its content.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The header by which OpenAI's own clients count the retries of a request.
const RETRY_COUNT: &str = "x-stainless-retry-count";

/// How a request can be recognised.
#[derive(Debug, Clone)]
pub(super) struct RequestIdentity {
    /// The digest of the key that the client gave, or of the body.
    digest: Sha256,
    /// The digest of the body, where the client gave a key.
    keyed_body: Option<Sha256>,
    /// The number of the retry, if the client counts them.
    retry: Option<u32>,
}

/// The turn of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestTurn {
    /// An earlier attempt has made it.
    Joined(TurnId),
    /// It is made by the message with this key.
    New(String),
}

impl RequestIdentity {
    pub(super) fn new(headers: &HeaderMap, body: &[u8]) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let body = Sha256::digest(body);
        let key = text(IDEMPOTENCY_KEY).filter(|key| !key.is_empty());
        Self {
            digest: key.map_or(body, |key| Sha256::digest(format!("key\0{key}"))),
            keyed_body: key.map(|_| body),
            retry: text(RETRY_COUNT).and_then(|count| count.parse().ok()),
        }
    }

    /// A name for the conversation of a request that names none.
    pub(super) fn conversation_key(&self) -> String {
        self.digest.to_string()
    }

    /// Finds the turn of an earlier attempt, or the key by which the message makes a new one.
    pub(super) async fn find_turn(
        &self,
        state: &AppState,
        conversation: &ConversationId,
    ) -> Result<RequestTurn, OpenAiError> {
        let query = TurnQuery { conversation: conversation.clone(), before: None, limit: SEARCHED_TURNS };
        let turns = state.archive.turns(&query).await?;
        self.choose(&turns, conversation, state.clock.now())
    }

    fn choose(
        &self,
        turns: &[TurnRecord],
        conversation: &ConversationId,
        now: Timestamp,
    ) -> Result<RequestTurn, OpenAiError> {
        let prefix = format!("{}/v1-{}", conversation.key(), self.digest);
        let attempt = |record: &TurnRecord| {
            let keys = record.messages.iter().map(|queued| queued.message.key.as_str());
            keys.rev().find(|key| key.starts_with(&prefix)).map(str::to_owned)
        };
        let latest = turns.iter().rev().find_map(|record| Some((record, attempt(record)?)));
        if let Some(body) = self.keyed_body {
            // The inbox drops a repeat of this key, however long ago the first attempt was.
            let key = format!("{prefix}-{body}");
            return match latest {
                Some((_, other)) if other != key => Err(OpenAiError::key_reused()),
                _ => Ok(RequestTurn::New(key)),
            };
        }
        match latest {
            Some((record, _)) if self.is_repeat_of(record, now) => Ok(RequestTurn::Joined(record.id)),
            // Requests that arrive at once have the same key, and so the same turn.
            Some((record, _)) => Ok(RequestTurn::New(format!("{prefix}-{}", record.id))),
            None => Ok(RequestTurn::New(prefix)),
        }
    }

    /// Whether the same request is another attempt, and not the same question once more.
    fn is_repeat_of(&self, record: &TurnRecord, now: Timestamp) -> bool {
        match self.retry {
            Some(count) => count > 0,
            None if !view::is_final(record) => true,
            None => {
                let ended_at = record.parts.iter().map(|part| part.created_at).max();
                ended_at.is_some_and(|ended_at| now.saturating_duration_since(ended_at) < REPEAT_WINDOW)
            }
        }
    }
}
