//! A ledger as bad as ledgers are: slow, failing now and then, and watching that no bookmark runs ahead of it.

use std::{
    collections::HashSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, InboundMessage, TurnId, UndecodableUpdate};
use satchel_ports::{Inbound, InboundError};
use serde_json::Value;
use tokio::sync::Notify;
use uuid::Uuid;

use super::Said;

/// What is written in a book.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    /// The messages in the order in which they were taken: their conversation and their key.
    pub(crate) accepted: Vec<(String, String)>,
    pub(crate) keys: HashSet<String>,
    /// The keys of what could not be read.
    pub(crate) unreadable: HashSet<String>,
    /// How often a message came that was taken already.
    pub(crate) repeats: u64,
    /// How often something could not be stored.
    pub(crate) failures: u64,
    /// The bookmarks that said more than was stored.
    pub(crate) ahead: Vec<String>,
    bookmark: Option<Value>,
}

impl Report {
    /// The session that the bookmark names.
    pub(crate) fn session(&self) -> Option<String> {
        self.bookmark.as_ref()?["session_id"].as_str().map(str::to_owned)
    }
}

pub(crate) struct Book {
    said: Said,
    tries: AtomicU64,
    changed: Notify,
    report: Mutex<Report>,
}

impl Book {
    pub(crate) fn new(said: Said) -> Self {
        Self { said, tries: AtomicU64::new(0), changed: Notify::new(), report: Mutex::default() }
    }

    pub(crate) fn report(&self) -> Report {
        self.read(Report::clone)
    }

    /// Waits until the book reads as wanted.
    pub(crate) async fn wait_until(&self, what: &str, wanted: impl Fn(&Report) -> bool) {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if self.read(&wanted) {
                    return;
                }
                changed.await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(15), waiting).await.is_ok(), "in vain: {what}");
    }

    fn read<T>(&self, reads: impl FnOnce(&Report) -> T) -> T {
        reads(&self.report.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, writes: impl FnOnce(&mut Report) -> T) -> T {
        let written = writes(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_waiters();
        written
    }

    /// Takes its time, and fails each eleventh time.
    async fn work(&self) -> Result<(), InboundError> {
        let number = self.tries.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(number % 4)).await;
        if number % 11 == 10 {
            self.write(|report| report.failures += 1);
            return Err(InboundError("the disk is full".into()));
        }
        Ok(())
    }
}

#[async_trait]
impl Inbound for Book {
    async fn accept(&self, message: InboundMessage) -> Result<Option<TurnId>, InboundError> {
        let turn = TurnId(Uuid::from_u128(1));
        let repeats = |report: &mut Report| {
            let is_known = report.keys.contains(&message.key);
            report.repeats += u64::from(is_known);
            is_known
        };
        if self.write(repeats) {
            return Ok(Some(turn));
        }
        self.work().await?;
        self.write(|report| {
            report.keys.insert(message.key.clone());
            report.accepted.push((message.conversation.to_string(), message.key.clone()));
        });
        Ok(Some(turn))
    }

    async fn rename_conversation(&self, _from: ConversationId, _to: ConversationId) -> Result<(), InboundError> {
        Err(InboundError("conversations stay where they are on Discord".into()))
    }

    async fn record_undecodable(&self, update: UndecodableUpdate) -> Result<(), InboundError> {
        self.work().await?;
        self.write(|report| report.unreadable.insert(update.key));
        Ok(())
    }

    async fn load_checkpoint(&self, _channel: &ChannelName) -> Result<Option<Value>, InboundError> {
        self.work().await?;
        Ok(self.read(|report| report.bookmark.clone()))
    }

    async fn save_checkpoint(&self, _channel: &ChannelName, bookmark: Value) -> Result<(), InboundError> {
        self.work().await?;
        let seen = bookmark["seen_up_to"].as_str().and_then(|seen| seen.parse::<u64>().ok()).expect("a message's id");
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.write(|report| {
            let is_missing = |message: &u64| *message <= seen && !report.keys.contains(&message.to_string());
            let missing: Vec<u64> = said.iter().map(|(_, message)| *message).filter(is_missing).collect();
            if !missing.is_empty() {
                report.ahead.push(format!("{bookmark} without {missing:?}"));
            }
            report.bookmark = Some(bookmark);
        });
        Ok(())
    }
}
