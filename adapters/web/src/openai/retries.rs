//! Which turn a request belongs to: a retry of a client makes no second one (ADR 0031).

use std::time::Duration;

use axum::http::HeaderMap;
use satchel_domain::{ConversationId, Sha256, Timestamp, TurnId};
use satchel_ports::ledger::{TurnQuery, TurnRecord};

use super::{error::OpenAiError, reply::has_failed};
use crate::{channel::API_CHANNEL, state::AppState, view};

/// How long after its end a turn answers the same request of a client that doesn't count its retries.
const REPEAT_WINDOW: Duration = Duration::from_secs(60);

/// How long after its end a turn answers a counted retry. OpenAI's own clients notice a lost connection after ten minutes at
/// the latest.
const RETRY_WINDOW: Duration = Duration::from_secs(15 * 60);

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
            // The same words may be further back in a conversation of the page, whose key the inbox still knows.
            None => Ok(RequestTurn::New(turns.last().map_or(prefix.clone(), |last| format!("{prefix}-{}", last.id)))),
        }
    }

    /// Whether the same request is another attempt, and not the same question once more.
    fn is_repeat_of(&self, record: &TurnRecord, now: Timestamp) -> bool {
        let window = match self.retry {
            Some(0) => return false,
            Some(_) => RETRY_WINDOW,
            None if record.conversation.channel().as_str() == API_CHANNEL => REPEAT_WINDOW,
            // In a conversation of the page the body lacks what was said before, so the same words may be an answer to another
            // reply.
            None => Duration::ZERO,
        };
        if has_failed(record) {
            return false;
        }
        let is_recent = |ended_at| now.saturating_duration_since(ended_at) < window;
        !view::is_final(record) || ended_at(record).is_some_and(is_recent)
    }
}

/// When the reply of a finished turn was planned; without one, when its last message arrived.
fn ended_at(record: &TurnRecord) -> Option<Timestamp> {
    let planned = record.parts.iter().map(|part| part.created_at);
    let received = record.messages.iter().map(|queued| queued.received_at);
    planned.max().or(received.max())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use axum::http::HeaderValue;
    use satchel_domain::{Ending, InboundMessage, InboxId, Part, PartContent, PartId, PartState, Sender};
    use satchel_ports::ledger::QueuedMessage;
    use uuid::Uuid;

    use super::*;

    const ENDED_AT: Timestamp = Timestamp(1_000_000_000);
    const TURN: TurnId = TurnId(Uuid::from_u128(1));

    fn identity(retry: Option<&'static str>) -> RequestIdentity {
        let headers = retry.map(|count| (RETRY_COUNT.parse().unwrap(), HeaderValue::from_static(count)));
        RequestIdentity::new(&headers.into_iter().collect(), b"{}")
    }

    /// The turn of an earlier attempt.
    fn record(conversation: &ConversationId, ending: Option<Ending>) -> TurnRecord {
        let key = match identity(None).choose(&[], conversation, ENDED_AT).unwrap() {
            RequestTurn::New(key) => key,
            RequestTurn::Joined(_) => panic!("there is nothing to join"),
        };
        let message = QueuedMessage {
            id: InboxId(Uuid::from_u128(3)),
            turn: TURN,
            message: InboundMessage::new(conversation.clone(), key, Sender::new("owner", "Owner")),
            files: Vec::new(),
            transcriptions: BTreeMap::new(),
            received_at: Timestamp(0),
        };
        let content = PartContent::from_text("Hi.");
        let part = Part::new(PartId(Uuid::from_u128(2)), conversation.clone(), TURN, 0, content, ENDED_AT);
        let part = Part { state: PartState::Sent { messages: Vec::new() }, ..part };
        TurnRecord {
            id: TURN,
            conversation: conversation.clone(),
            parts: ending.iter().map(|_| part.clone()).collect(),
            ending,
            response: None,
            messages: vec![message],
            calls: Vec::new(),
            replaced_by: None,
        }
    }

    fn is_joined(retry: Option<&'static str>, record: TurnRecord, since_end: Duration) -> bool {
        let conversation = record.conversation.clone();
        let turn = identity(retry).choose(&[record], &conversation, ENDED_AT.saturating_add(since_end)).unwrap();
        turn == RequestTurn::Joined(TURN)
    }

    #[test]
    fn retry_joins_what_runs_or_ended_not_long_ago() {
        let client_conversation: ConversationId = "api:a".parse().unwrap();
        let page_conversation: ConversationId = "web:a".parse().unwrap();
        let moment = Duration::from_millis(1);
        for (conversation, retry, window) in [
            (&client_conversation, None, REPEAT_WINDOW),
            (&client_conversation, Some("1"), RETRY_WINDOW),
            (&page_conversation, None, Duration::ZERO),
            (&page_conversation, Some("1"), RETRY_WINDOW),
        ] {
            let finished = || record(conversation, Some(Ending::Done));
            assert_eq!(is_joined(retry, finished(), window.saturating_sub(moment)), !window.is_zero(), "{retry:?}");
            assert!(!is_joined(retry, finished(), window), "{conversation} {retry:?}");
            assert!(
                is_joined(retry, record(conversation, None), RETRY_WINDOW * 100),
                "it runs: {conversation} {retry:?}"
            );
        }
        assert!(!is_joined(Some("0"), record(&client_conversation, None), Duration::ZERO), "a new call");
    }

    #[test]
    fn retry_of_failed_turn_is_a_new_one() {
        let reason = String::from("The model is overloaded.");
        for ending in
            [Ending::ModelFailed { reason: reason.clone() }, Ending::Failed { reason }, Ending::Crashed { times: 3 }]
        {
            let conversation: ConversationId = "api:a".parse().unwrap();
            for retry in [None, Some("1")] {
                assert!(!is_joined(retry, record(&conversation, Some(ending.clone())), Duration::ZERO), "{ending:?}");
            }
        }
    }

    /// The inbox would take a message with the key of one from long ago for the same message.
    #[test]
    fn key_differs_from_that_of_the_same_text_long_ago() {
        let conversation: ConversationId = "web:a".parse().unwrap();
        let new_key = |turns: &[TurnRecord]| identity(None).choose(turns, &conversation, ENDED_AT).unwrap();
        let other = TurnRecord { messages: Vec::new(), ..record(&conversation, Some(Ending::Done)) };
        assert_ne!(new_key(&[]), new_key(&[other]));
    }
}
