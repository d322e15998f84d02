//! Processes updates: parses and stores them; only then are they confirmed.

use std::{
    collections::BTreeSet,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
};

use satchel_domain::{Sender, Sha256, UndecodableUpdate};
use satchel_ports::{Inbound, InboundError};
use serde_json::Value;
use teloxide::types::ChatId;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    reader::{InboundEvent, InboundReader, redaction::without_quotations},
    retry::{BACKOFF, wait_for_stop},
};
use crate::{
    address::{ConversationAddress, channel_name},
    cache::ChatCache,
    message_ids::MessageIds,
};

/// How many callback queries may wait for an answer; further ones are dropped, and their buttons spin for a while.
const CALLBACK_QUEUE_CAPACITY: usize = 64;

/// How many updates that could not be stored are tracked.
const MAX_FAILED_KEYS: usize = 1_000;

/// An update and what it means.
#[derive(Debug)]
pub(super) struct ReceivedUpdate {
    /// Identifies it among other updates.
    key: String,
    /// The update as received.
    raw: Value,
    pub(super) event: InboundEvent,
}

impl ReceivedUpdate {
    /// A migration that no update has reported.
    fn migration(from: ChatId, to: ChatId) -> Self {
        let event = InboundEvent::Migrated { from: from.0, to: to.0 };
        Self { key: format!("moved:{from}"), raw: Value::Null, event }
    }
}

pub(super) struct InboundProcessor {
    inbound: Arc<dyn Inbound>,
    reader: Mutex<InboundReader>,
    callback_queries: mpsc::Sender<String>,
    message_ids: Arc<MessageIds>,
    /// Keys of updates that could not be stored so far, so that an outage is logged once and not on each attempt.
    failed_keys: Mutex<BTreeSet<String>>,
}

impl InboundProcessor {
    /// Creates the processor, and the queue of callback queries.
    pub(super) fn new(
        inbound: Arc<dyn Inbound>,
        reader: InboundReader,
        message_ids: Arc<MessageIds>,
    ) -> (Self, mpsc::Receiver<String>) {
        let (callback_queries, receiver) = mpsc::channel(CALLBACK_QUEUE_CAPACITY);
        (
            Self { inbound, reader: Mutex::new(reader), callback_queries, message_ids, failed_keys: Mutex::default() },
            receiver,
        )
    }

    /// Scans updates of one poll response for albums, before the first of them is parsed.
    pub(super) fn scan_albums(&self, updates: &[Value]) {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).scan_albums(updates);
    }

    /// Parses an update. Updates of one chat must be passed in their order.
    pub(super) fn read(&self, raw: Value) -> ReceivedUpdate {
        let key = update_key(&raw);
        if let Some((chat, message)) = message_id(&raw) {
            self.message_ids.observe_message(chat, message);
        }
        let event = self.reader.lock().unwrap_or_else(PoisonError::into_inner).read(&raw);
        ReceivedUpdate { key, raw, event }
    }

    /// Stores an update, with retries until `stop`. Returns whether it is stored. A running store is not interrupted,
    /// since a durable update should be confirmed.
    pub(super) async fn store_with_retry(&self, update: &ReceivedUpdate, stop: &CancellationToken) -> bool {
        let mut failures = 0;
        while !self.try_store(update).await {
            if wait_for_stop(BACKOFF.delay(failures), stop).await {
                return false;
            }
            failures += 1;
        }
        true
    }

    /// Reports migrations of groups to supergroups that were learned from a refused send and not from an update, until
    /// cancelled. Reporting one that an update has reported, too, does no harm.
    pub(super) async fn report_migrations(&self, cache: &ChatCache, cancelled: &CancellationToken) {
        while let Some((from, to)) = cancelled.run_until_cancelled(cache.next_unreported_migration()).await {
            if !self.store_with_retry(&ReceivedUpdate::migration(from, to), cancelled).await {
                return;
            }
            cache.mark_reported(from);
        }
    }

    /// Tries to store an update. Returns whether it is stored: once it is, it may be confirmed to Telegram.
    pub(super) async fn try_store(&self, update: &ReceivedUpdate) -> bool {
        let result = self.store(update).await;
        let mut failing = self.failed_keys.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
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
                if failing.len() < MAX_FAILED_KEYS {
                    failing.insert(update.key.clone());
                }
                false
            }
        }
    }

    async fn store(&self, update: &ReceivedUpdate) -> Result<(), InboundError> {
        match &update.event {
            InboundEvent::Message { message, album_items } => {
                for message in album_items.iter().chain([message.as_ref()]) {
                    self.inbound.accept(message.clone()).await?;
                }
                self.reader.lock().unwrap_or_else(PoisonError::into_inner).release_stored(album_items);
            }
            InboundEvent::ButtonPressed { query, message } => {
                match message {
                    Some(message) => {
                        self.inbound.accept(message.as_ref().clone()).await?;
                    }
                    None => tracing::debug!(update.key, "ignoring a pressed button without one of our commands"),
                }
                let _queued = self.callback_queries.try_send(query.clone());
            }
            InboundEvent::Migrated { from, to } => {
                let conversation_of_chat =
                    |chat: &i64| ConversationAddress { chat: ChatId(*chat), topic: None }.conversation();
                self.inbound.rename_conversation(conversation_of_chat(from), conversation_of_chat(to)).await?;
            }
            InboundEvent::Ignored(reason) => tracing::debug!(update.key, reason, "ignoring an update"),
            InboundEvent::Undecodable(reason) => {
                let undecodable = UndecodableUpdate {
                    channel: channel_name(),
                    key: update.key.clone(),
                    sender: undecodable_sender(&update.raw),
                    raw: without_quotations(&update.raw),
                    reason: (*reason).to_owned(),
                };
                self.inbound.record_undecodable(undecodable).await?;
            }
        }
        Ok(())
    }
}

/// What identifies an update among others, in every version: the ledger stores it.
fn update_key(update: &Value) -> String {
    match update.get("update_id").and_then(Value::as_i64) {
        Some(update_id) => update_id.to_string(),
        // Telegram doesn't send such updates; equal ones are still stored only once.
        None => format!("unnumbered-{}", &Sha256::digest(update.to_string()).to_string()[..16]),
    }
}

/// The chat and id of the message in an update of any kind.
fn message_id(update: &Value) -> Option<(ChatId, i64)> {
    let id = |message: &Value| {
        Some((ChatId(message.get("chat")?.get("id")?.as_i64()?), message.get("message_id")?.as_i64()?))
    };
    update.as_object()?.values().find_map(id)
}

/// The visible sender of an undecodable update, by the same rules as for decodable ones. Groups are included, although
/// it is unknown whether the bot was addressed: an update of a new kind would otherwise be lost.
fn undecodable_sender(update: &Value) -> Option<Sender> {
    let find_user =
        |content: &Value| ["sender_chat", "from", "user"].into_iter().find_map(|field| content.get(field)).cloned();
    let user = update.as_object()?.values().find_map(find_user)?;
    if user.get("is_bot").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    let handle = user.get("username").and_then(Value::as_str).map(str::to_owned);
    Some(Sender { handle, ..Sender::new(user.get("id")?.as_i64()?.to_string(), "") })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// Catches: an update that another version stores again, since its key depends on the compiler.
    #[test]
    fn update_without_a_number_has_the_same_key_in_every_version() {
        assert_eq!(update_key(&json!({ "update_id": 7, "hologram": {} })), "7");
        assert_eq!(update_key(&json!(["no", "update"])), "unnumbered-cf3f5b1f4e39d055");
        assert_eq!(update_key(&json!({ "hologram": { "of": "Zoë" } })), "unnumbered-7f22e969da170058");
    }

    #[rstest]
    #[case::a_message(json!({ "update_id": 1, "message": { "from": { "id": 7, "username": "ada" }, "chat": { "id": 7 }, "text": 5 } }), Some(("7", Some("ada"))))]
    #[case::a_button(json!({ "callback_query": { "from": { "id": 7 }, "message": { "chat": { "id": 7 } } } }), Some(("7", None)))]
    #[case::in_a_group(json!({ "message": { "from": { "id": 7, "username": "ada" }, "chat": { "id": -7 } } }), Some(("7", Some("ada"))))]
    #[case::a_button_in_a_group(json!({ "callback_query": { "from": { "id": 7 }, "message": { "from": { "id": 8 }, "chat": { "id": -7 } } } }), Some(("7", None)))]
    #[case::of_an_unknown_kind(json!({ "update_id": 1, "hologram": { "from": { "id": 7 } } }), Some(("7", None)))]
    #[case::of_an_unknown_kind_too(json!({ "hologram": { "user": { "id": 7 }, "chat": { "id": -7 } } }), Some(("7", None)))]
    #[case::in_the_name_of_a_chat(json!({ "message": { "from": { "id": 1_087_968_824, "is_bot": true }, "sender_chat": { "id": -9, "username": "news" }, "chat": { "id": -7 } } }), Some(("-9", Some("news"))))]
    #[case::for_a_channel(json!({ "channel_post": { "sender_chat": { "id": -7 }, "chat": { "id": -7 } } }), Some(("-7", None)))]
    // The attack: a person is named beside the visible sender, or nested deeper.
    #[case::in_the_name_of_no_chat(json!({ "message": { "from": { "id": 7 }, "sender_chat": { "id": "-9" } } }), None)]
    #[case::of_another(json!({ "message": { "from": { "id": "8" }, "reply_to_message": { "from": { "id": 7 } } } }), None)]
    #[case::by_another_bot(json!({ "message": { "from": { "id": 7, "is_bot": true }, "chat": { "id": -7 } } }), None)]
    #[case::a_number_that_is_none(json!({ "message": { "from": { "id": "7" }, "chat": { "id": 7 } } }), None)]
    #[case::of_nobody(json!({ "message": { "chat": { "id": 7 } } }), None)]
    #[case::nothing(json!([]), None)]
    fn undecodable_update_keeps_visible_sender(#[case] update: Value, #[case] shows: Option<(&str, Option<&str>)>) {
        let sender = undecodable_sender(&update);
        let shown = sender.as_ref().map(|sender| (sender.id.as_str(), sender.handle.as_deref()));
        assert_eq!(shown, shows);
    }
}
