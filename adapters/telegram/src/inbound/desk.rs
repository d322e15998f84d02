//! Where updates are handed in: read, stored, and only then said to be taken.

use std::{
    collections::BTreeSet,
    error::Error,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
};

use satchel_domain::UnreadableUpdate;
use satchel_ports::{Inbound, InboundError};
use serde_json::Value;
use teloxide::types::ChatId;
use tokio::sync::mpsc;

use super::reading::{Meaning, Reader};
use crate::place::{Place, channel_name};

/// How many pressed buttons wait at most for their answer; of more than that some go on spinning for a while.
const PRESSES: usize = 64;

/// How many updates that could not be stored are remembered.
const REMEMBERED: usize = 1_000;

/// An update and what it means.
#[derive(Debug)]
pub(super) struct Update {
    /// What tells it from others.
    key: String,
    /// The update as it came.
    raw: Value,
    /// What it means.
    pub(super) meaning: Meaning,
}

/// Takes updates in.
pub(super) struct Desk {
    inbound: Arc<dyn Inbound>,
    reader: Mutex<Reader>,
    presses: mpsc::Sender<String>,
    /// What could not be stored so far, so that it is told once and not with each try.
    failing: Mutex<BTreeSet<String>>,
}

impl Desk {
    /// A desk, and the queries of the buttons that were pressed.
    pub(super) fn new(inbound: Arc<dyn Inbound>, reader: Reader) -> (Self, mpsc::Receiver<String>) {
        let (presses, pressed) = mpsc::channel(PRESSES);
        (Self { inbound, reader: Mutex::new(reader), presses, failing: Mutex::default() }, pressed)
    }

    /// Reads an update. Those of one chat must come in their order.
    pub(super) fn read(&self, raw: Value) -> Update {
        let key = match raw.get("update_id").and_then(Value::as_i64) {
            Some(number) => number.to_string(),
            // Nothing that Telegram sends; the same one is kept once all the same.
            None => {
                let mut hasher = DefaultHasher::new();
                raw.to_string().hash(&mut hasher);
                format!("unnumbered-{:016x}", hasher.finish())
            }
        };
        let meaning = self.reader.lock().unwrap_or_else(PoisonError::into_inner).read(&raw);
        Update { key, raw, meaning }
    }

    /// Stores an update, and tells whether it is stored: once it is, Telegram may forget it.
    pub(super) async fn take(&self, update: &Update) -> bool {
        let stored = self.store(update).await;
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match stored {
            Ok(()) => {
                if failing.remove(&update.key) && failing.is_empty() {
                    tracing::info!("what people write on Telegram is stored again");
                }
                true
            }
            Err(error) => {
                if failing.is_empty() {
                    let error: &(dyn Error + 'static) = &error;
                    tracing::error!(
                        error,
                        "what people write on Telegram can't be stored; Telegram keeps it until it can"
                    );
                }
                if failing.len() < REMEMBERED {
                    failing.insert(update.key.clone());
                }
                false
            }
        }
    }

    async fn store(&self, update: &Update) -> Result<(), InboundError> {
        match &update.meaning {
            Meaning::Message(message) => {
                self.inbound.accept(message.as_ref().clone()).await?;
            }
            Meaning::Pressed { query, message } => {
                if let Some(message) = message {
                    self.inbound.accept(message.as_ref().clone()).await?;
                }
                let _spins_on = self.presses.try_send(query.clone());
            }
            Meaning::Moved { from, to } => {
                let at = |chat: &i64| Place { chat: ChatId(*chat), topic: None }.conversation();
                self.inbound.conversation_moved(at(from), at(to)).await?;
            }
            Meaning::Nothing(reason) => tracing::debug!(update.key, reason, "an update was passed over"),
            Meaning::Unreadable(reason) => {
                let unreadable = UnreadableUpdate {
                    channel: channel_name(),
                    key: update.key.clone(),
                    raw: update.raw.clone(),
                    reason: (*reason).to_owned(),
                };
                self.inbound.keep_unreadable(unreadable).await?;
            }
        }
        Ok(())
    }
}
