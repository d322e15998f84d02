//! Removes the oldest files of conversations that keep more than the configuration allows: once a day, and the
//! conversation is told.

use std::{sync::Arc, time::Duration};

use satchel_domain::{Attachment, ChannelName, ConversationId, InboundMessage, Sender, SystemTask, Timestamp};
use satchel_intake::{InternalInbound, commands::describe_file};
use satchel_ports::{
    Ledger, LedgerError,
    ledger::{
        AttachmentOrder, AttachmentQuery,
        usage::{ForgetFile, Forgotten, Usage, UsageQuery, UsageScope},
    },
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{config::attachments::RetentionConfig, maintenance::log_report};

/// How often it is looked whether a new day has begun.
const INTERVAL: Duration = Duration::from_secs(60 * 60);

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// How many files of a conversation go in one day at most.
const MOST: u32 = 500;

/// How many of them are named.
const NAMED: usize = 20;

/// What removes old files.
pub struct RetentionTask {
    pub retention: RetentionConfig,
    pub ledger: Arc<dyn Ledger>,
    /// Where the conversations are told.
    pub door: InternalInbound,
}

impl RetentionTask {
    /// Removes what is beyond the limits once a day, at the start too, until `stop` is cancelled.
    pub async fn run_daily(self, stop: CancellationToken) {
        loop {
            log_report("files beyond the retention", self.run().await);
            if stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_none() {
                return;
            }
        }
    }

    /// Removes what is beyond the limits, unless that was done today already; returns how many files went.
    ///
    /// A conversation is told before its files go: a process that dies in between tells the same once more, which counts
    /// as the same message, and removes them then.
    ///
    /// # Errors
    /// When the ledger fails.
    pub async fn run(&self) -> anyhow::Result<u64> {
        let ledger = &self.ledger;
        if self.retention.is_off() {
            return Ok(0);
        }
        let progress = ChannelName::new("retention").expect("the name is lower-case letters");
        let now = ledger.now();
        let day = json!({ "day": now.0.div_euclid(DAY_MS) });
        if ledger.load_checkpoint(&progress).await?.as_ref() == Some(&day) {
            return Ok(0);
        }
        let mut removed = 0;
        for usage in ledger.usages(&UsageQuery::All).await? {
            let UsageScope::Conversation(conversation) = &usage.scope else { continue };
            match self.apply_to(conversation, &usage, now).await {
                Ok(files) => removed += files,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(chat.id = %conversation, error, "removing a conversation's old files failed; retrying tomorrow");
                }
            }
        }
        ledger.save_checkpoint(&progress, &day).await?;
        Ok(removed)
    }

    async fn apply_to(&self, conversation: &ConversationId, usage: &Usage, now: Timestamp) -> Result<u64, LedgerError> {
        let query = AttachmentQuery {
            conversation: Some(conversation.clone()),
            limit: Some(MOST),
            order: AttachmentOrder::Oldest,
            ..AttachmentQuery::default()
        };
        let mut oldest = self.ledger.attachments(&query).await?;
        oldest.truncate(count_expired(&oldest, usage, &self.retention, now));
        if oldest.is_empty() {
            return Ok(0);
        }
        self.announce(conversation, &oldest, now).await;
        self.remove(conversation, &oldest).await
    }

    /// Tells a conversation. One whose channel isn't hosted any more has nobody to tell.
    async fn announce(&self, conversation: &ConversationId, expired: &[Attachment], now: Timestamp) {
        let key = format!("retention:{conversation}:{}", now.0.div_euclid(DAY_MS));
        let message = InboundMessage::new(conversation.clone(), key, Sender::new("satchel", "Satchel"));
        let files = expired.iter().take(NAMED).map(describe_file).collect();
        let more = u32::try_from(expired.len().saturating_sub(NAMED)).unwrap_or(u32::MAX);
        if let Err(error) = self.door.accept(SystemTask::FilesExpired { files, more }, message).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(chat.id = %conversation, error, "announcing the removal of old files failed; they stay");
        }
    }

    /// Forgets the files; their bytes go with the hourly collection.
    async fn remove(&self, conversation: &ConversationId, expired: &[Attachment]) -> Result<u64, LedgerError> {
        let mut removed = 0;
        for Attachment { number, .. } in expired {
            let forget = ForgetFile { conversation: conversation.clone(), number: *number, only_of: None };
            // What is still needed goes another day.
            if let Forgotten::Done(_) = self.ledger.forget_file(&forget).await? {
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// Counts the oldest files that are beyond a limit.
fn count_expired(oldest: &[Attachment], usage: &Usage, retention: &RetentionConfig, now: Timestamp) -> usize {
    let (mut files, mut bytes) = (usage.files, usage.bytes);
    let is_expired = |file: &&Attachment| {
        let too_old = |days: u32| now.0 - file.created_at.0 > i64::from(days) * DAY_MS;
        let expired = retention.items.is_some_and(|items| files > u64::from(items.0))
            || retention.bytes.is_some_and(|limit| bytes > limit.0)
            || retention.days.is_some_and(|days| too_old(days.0));
        files = files.saturating_sub(1);
        bytes = bytes.saturating_sub(file.bytes);
        expired
    };
    oldest.iter().take_while(is_expired).count()
}

#[cfg(test)]
mod tests;
