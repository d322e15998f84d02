//! Once a day, removes the oldest files of conversations that exceed the retention limits, and notifies them.

use std::{sync::Arc, time::Duration};

use satchel_domain::{Attachment, ChannelName, ConversationId, InboundMessage, Sender, SystemTask, Timestamp};
use satchel_intake::{ChannelNotHostedError, InternalInbound, commands::describe_file};
use satchel_ports::{
    Archive, Clock, InboundError, Inbox, LedgerError, Storage,
    ledger::{AttachmentOrder, AttachmentQuery, ForgetOutcome, ForgetRequest, Usage, UsageQuery, UsageScope},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::maintenance::log_report;

/// How often it checks whether a new day has started.
const INTERVAL: Duration = Duration::from_secs(60 * 60);

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// How many files of a conversation are removed in one day at most.
const MAX_FILES_PER_RUN: u32 = 500;

/// How many of them the message names.
const MAX_NAMED_FILES: usize = 20;

/// How much a conversation keeps, whichever limit is reached first; `None` sets no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetentionLimits {
    pub items: Option<u32>,
    pub bytes: Option<u64>,
    /// The age at which a file is removed.
    pub days: Option<u32>,
}

impl RetentionLimits {
    /// Whether everything is kept.
    fn is_off(&self) -> bool {
        *self == Self::default()
    }
}

/// The daily removal of old files.
pub struct RetentionTask {
    pub limits: RetentionLimits,
    pub inbox: Arc<dyn Inbox>,
    pub archive: Arc<dyn Archive>,
    pub storage: Arc<dyn Storage>,
    pub clock: Arc<dyn Clock>,
    /// Accepts the messages that announce the removal.
    pub inbound: InternalInbound,
}

impl RetentionTask {
    /// Enforces the limits at the start and then once a day, until `stop` is cancelled.
    pub async fn run_daily(self, stop: CancellationToken) {
        loop {
            log_report("files beyond the retention", self.run().await);
            if stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_none() {
                return;
            }
        }
    }

    /// Enforces the limits unless that was done today already; returns how many files were removed.
    ///
    /// A conversation is notified before its files are removed. After a crash in between, the repeated notification has
    /// the same key, so it is dropped, and the files are removed.
    ///
    /// # Errors
    /// When the ledger fails.
    pub async fn run(&self) -> Result<u64, LedgerError> {
        if self.limits.is_off() {
            return Ok(0);
        }
        let checkpoint_name = ChannelName::new("retention").expect("the name is lower-case letters");
        let now = self.clock.now();
        let today = json!({ "day": now.0.div_euclid(DAY_MS) });
        if self.inbox.load_checkpoint(&checkpoint_name).await?.as_ref() == Some(&today) {
            return Ok(0);
        }
        let mut removed = 0;
        for usage in self.storage.usages(&UsageQuery::All).await? {
            let UsageScope::Conversation(conversation) = &usage.scope else { continue };
            match self.enforce_limits(conversation, &usage, now).await {
                Ok(files) => removed += files,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(chat.id = %conversation, error, "removing a conversation's old files failed; retrying tomorrow");
                }
            }
        }
        self.inbox.save_checkpoint(&checkpoint_name, &today).await?;
        Ok(removed)
    }

    async fn enforce_limits(
        &self,
        conversation: &ConversationId,
        usage: &Usage,
        now: Timestamp,
    ) -> Result<u64, LedgerError> {
        let query = AttachmentQuery {
            conversation: Some(conversation.clone()),
            limit: Some(MAX_FILES_PER_RUN),
            order: AttachmentOrder::Oldest,
            ..AttachmentQuery::default()
        };
        let mut oldest = self.archive.attachments(&query).await?;
        oldest.truncate(count_expired(&oldest, usage, self.limits, now));
        if oldest.is_empty() {
            return Ok(0);
        }
        if !self.announce(conversation, &oldest, now).await {
            return Ok(0);
        }
        self.remove(conversation, &oldest).await
    }

    /// Notifies a conversation. Returns whether its files may go: after the notice, or if its channel is no longer
    /// hosted and nobody would read one.
    async fn announce(&self, conversation: &ConversationId, expired: &[Attachment], now: Timestamp) -> bool {
        let key = format!("retention:{conversation}:{}", now.0.div_euclid(DAY_MS));
        let message = InboundMessage::new(conversation.clone(), key, Sender::satchel());
        let files = expired.iter().take(MAX_NAMED_FILES).map(describe_file).collect();
        let more = u32::try_from(expired.len().saturating_sub(MAX_NAMED_FILES)).unwrap_or(u32::MAX);
        match self.inbound.accept(SystemTask::FilesExpired { files, more }, message).await {
            Ok(_) => true,
            Err(InboundError(error)) if error.is::<ChannelNotHostedError>() => true,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(chat.id = %conversation, error, "announcing the removal of old files failed; they stay");
                false
            }
        }
    }

    /// Forgets the files; the hourly garbage collection removes their bytes.
    async fn remove(&self, conversation: &ConversationId, expired: &[Attachment]) -> Result<u64, LedgerError> {
        let mut removed = 0;
        for Attachment { number, .. } in expired {
            let request =
                ForgetRequest { conversation: conversation.clone(), number: number.get(), restricted_to: None };
            // A file in use is removed on a later day.
            if let ForgetOutcome::Forgotten(_) = self.storage.forget_file(&request).await? {
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// Counts the oldest files that are beyond a limit.
fn count_expired(oldest: &[Attachment], usage: &Usage, limits: RetentionLimits, now: Timestamp) -> usize {
    let (mut files, mut bytes) = (usage.files, usage.bytes);
    let is_expired = |file: &&Attachment| {
        let is_too_old = |days: u32| now.0 - file.created_at.0 > i64::from(days) * DAY_MS;
        let expired = limits.items.is_some_and(|items| files > u64::from(items))
            || limits.bytes.is_some_and(|limit| bytes > limit)
            || limits.days.is_some_and(is_too_old);
        files = files.saturating_sub(1);
        bytes = bytes.saturating_sub(file.bytes);
        expired
    };
    oldest.iter().take_while(is_expired).count()
}

#[cfg(test)]
mod tests;
