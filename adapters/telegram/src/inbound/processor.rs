//! Where updates are handed in: read, stored, and only then said to be taken.

use std::{
    collections::BTreeSet,
    error::Error,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
};

use satchel_domain::{Sender, UndecodableUpdate};
use satchel_ports::{Inbound, InboundError};
use serde_json::Value;
use teloxide::types::ChatId;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    reader::{InboundEvent, InboundReader},
    retry::{BACKOFF, stopped_within},
};
use crate::{
    address::{ConversationAddress, channel_name},
    message_ids::MessageIds,
};

/// How many pressed buttons wait at most for their answer; of more than that some go on spinning for a while.
const CALLBACK_QUEUE_CAPACITY: usize = 64;

/// How many updates that could not be stored are remembered.
const REMEMBERED: usize = 1_000;

/// An update and what it means.
#[derive(Debug)]
pub(super) struct ReceivedUpdate {
    /// What tells it from others.
    key: String,
    /// The update as it came.
    raw: Value,
    pub(super) meaning: InboundEvent,
}

impl ReceivedUpdate {
    /// A move that no update has told of.
    pub(super) fn migration(from: ChatId, to: ChatId) -> Self {
        let meaning = InboundEvent::Migrated { from: from.0, to: to.0 };
        Self { key: format!("moved:{from}"), raw: Value::Null, meaning }
    }
}

pub(super) struct InboundProcessor {
    inbound: Arc<dyn Inbound>,
    reader: Mutex<InboundReader>,
    presses: mpsc::Sender<String>,
    message_ids: Arc<MessageIds>,
    /// What could not be stored so far, so that it is told once and not with each try.
    failing: Mutex<BTreeSet<String>>,
}

impl InboundProcessor {
    /// Creates the processor, and the queue of callback queries.
    pub(super) fn new(
        inbound: Arc<dyn Inbound>,
        reader: InboundReader,
        message_ids: Arc<MessageIds>,
    ) -> (Self, mpsc::Receiver<String>) {
        let (presses, pressed) = mpsc::channel(CALLBACK_QUEUE_CAPACITY);
        (Self { inbound, reader: Mutex::new(reader), presses, message_ids, failing: Mutex::default() }, pressed)
    }

    /// Looks through updates that came together, before the first of them is read.
    pub(super) fn scan_albums(&self, updates: &[Value]) {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).scan_albums(updates);
    }

    /// Reads an update. Those of one chat must come in their order.
    pub(super) fn read(&self, raw: Value) -> ReceivedUpdate {
        let key = match raw.get("update_id").and_then(Value::as_i64) {
            Some(number) => number.to_string(),
            // Nothing that Telegram sends; the same one is kept once all the same.
            None => {
                let mut hasher = DefaultHasher::new();
                raw.to_string().hash(&mut hasher);
                format!("unnumbered-{:016x}", hasher.finish())
            }
        };
        if let Some((chat, message)) = message_id(&raw) {
            self.message_ids.observe_message(chat, message);
        }
        let meaning = self.reader.lock().unwrap_or_else(PoisonError::into_inner).read(&raw);
        ReceivedUpdate { key, raw, meaning }
    }

    /// Stores an update, however often it must be tried, and tells whether it is stored. A store that has begun is let
    /// finish, for what is durable should be confirmed.
    pub(super) async fn store_with_retry(&self, update: &ReceivedUpdate, stop: &CancellationToken) -> bool {
        let mut failures = 0;
        while !self.try_store(update).await {
            if stopped_within(BACKOFF.delay(failures), stop).await {
                return false;
            }
            failures += 1;
        }
        true
    }

    /// Stores an update, and tells whether it is stored: once it is, Telegram may forget it.
    pub(super) async fn try_store(&self, update: &ReceivedUpdate) -> bool {
        let stored = self.store(update).await;
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match stored {
            Ok(()) => {
                if failing.remove(&update.key) && failing.is_empty() {
                    tracing::info!("storing updates works again");
                }
                true
            }
            Err(error) => {
                if failing.is_empty() {
                    let error: &(dyn Error + 'static) = &error;
                    tracing::error!(error, "storing updates failed; Telegram will redeliver them");
                }
                if failing.len() < REMEMBERED {
                    failing.insert(update.key.clone());
                }
                false
            }
        }
    }

    async fn store(&self, update: &ReceivedUpdate) -> Result<(), InboundError> {
        match &update.meaning {
            InboundEvent::Message { message, kept } => {
                for message in kept.iter().chain([message.as_ref()]) {
                    self.inbound.accept(message.clone()).await?;
                }
                self.reader.lock().unwrap_or_else(PoisonError::into_inner).release_stored(kept);
            }
            InboundEvent::ButtonPressed { query, message } => {
                match message {
                    Some(message) => {
                        self.inbound.accept(message.as_ref().clone()).await?;
                    }
                    None => tracing::debug!(update.key, "ignoring a pressed button without one of our commands"),
                }
                let _spins_on = self.presses.try_send(query.clone());
            }
            InboundEvent::Migrated { from, to } => {
                let at = |chat: &i64| ConversationAddress { chat: ChatId(*chat), topic: None }.conversation();
                self.inbound.rename_conversation(at(from), at(to)).await?;
            }
            InboundEvent::Ignored(reason) => tracing::debug!(update.key, reason, "ignoring an update"),
            InboundEvent::Undecodable(reason) => {
                let unreadable = UndecodableUpdate {
                    channel: channel_name(),
                    key: update.key.clone(),
                    sender: sender(&update.raw),
                    raw: update.raw.clone(),
                    reason: (*reason).to_owned(),
                };
                self.inbound.record_undecodable(unreadable).await?;
            }
        }
        Ok(())
    }
}

/// The id of the message that an update tells of, whatever else it holds and whoever wrote it.
fn message_id(update: &Value) -> Option<(ChatId, i64)> {
    let id = |sent: &Value| Some((ChatId(sent.get("chat")?.get("id")?.as_i64()?), sent.get("message_id")?.as_i64()?));
    update.as_object()?.values().find_map(id)
}

/// Who sent what can't be read, as far as it tells: whoever shows, as with what can be read. In groups too, although
/// whether it was said to us can't be told: an update that is new to us would otherwise be lost there for good.
fn sender(update: &Value) -> Option<Sender> {
    let shows = |sent: &Value| ["sender_chat", "from", "user"].into_iter().find_map(|field| sent.get(field)).cloned();
    let shown = update.as_object()?.values().find_map(shows)?;
    if shown.get("is_bot").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    let handle = shown.get("username").and_then(Value::as_str).map(str::to_owned);
    Some(Sender { handle, ..Sender::new(shown.get("id")?.as_i64()?.to_string(), "") })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::a_message(json!({ "update_id": 1, "message": { "from": { "id": 7, "username": "ada" }, "chat": { "id": 7 }, "text": 5 } }), Some(("7", Some("ada"))))]
    #[case::a_button(json!({ "callback_query": { "from": { "id": 7 }, "message": { "chat": { "id": 7 } } } }), Some(("7", None)))]
    #[case::in_a_group(json!({ "message": { "from": { "id": 7, "username": "ada" }, "chat": { "id": -7 } } }), Some(("7", Some("ada"))))]
    #[case::a_button_in_a_group(json!({ "callback_query": { "from": { "id": 7 }, "message": { "from": { "id": 8 }, "chat": { "id": -7 } } } }), Some(("7", None)))]
    #[case::of_an_unknown_kind(json!({ "update_id": 1, "hologram": { "from": { "id": 7 } } }), Some(("7", None)))]
    #[case::of_an_unknown_kind_too(json!({ "hologram": { "user": { "id": 7 }, "chat": { "id": -7 } } }), Some(("7", None)))]
    #[case::in_the_name_of_a_chat(json!({ "message": { "from": { "id": 1_087_968_824, "is_bot": true }, "sender_chat": { "id": -9, "username": "news" }, "chat": { "id": -7 } } }), Some(("-9", Some("news"))))]
    #[case::for_a_channel(json!({ "channel_post": { "sender_chat": { "id": -7 }, "chat": { "id": -7 } } }), Some(("-7", None)))]
    // The attack: a person is named beside the one who shows, or deeper in.
    #[case::in_the_name_of_no_chat(json!({ "message": { "from": { "id": 7 }, "sender_chat": { "id": "-9" } } }), None)]
    #[case::of_another(json!({ "message": { "from": { "id": "8" }, "reply_to_message": { "from": { "id": 7 } } } }), None)]
    #[case::by_another_bot(json!({ "message": { "from": { "id": 7, "is_bot": true }, "chat": { "id": -7 } } }), None)]
    #[case::a_number_that_is_none(json!({ "message": { "from": { "id": "7" }, "chat": { "id": 7 } } }), None)]
    #[case::of_nobody(json!({ "message": { "chat": { "id": 7 } } }), None)]
    #[case::nothing(json!([]), None)]
    fn the_sender_of_what_cannot_be_read_is_whoever_shows(
        #[case] update: Value,
        #[case] shows: Option<(&str, Option<&str>)>,
    ) {
        let sender = sender(&update);
        let shown = sender.as_ref().map(|sender| (sender.id.as_str(), sender.handle.as_deref()));
        assert_eq!(shown, shows);
    }
}
