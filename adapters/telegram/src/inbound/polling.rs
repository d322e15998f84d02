//! Long polling: requests updates and advances the offset only past stored ones.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures::{StreamExt, stream};
use satchel_domain::ConversationId;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    processor::{InboundProcessor, ReceivedUpdate},
    reader::{self, InboundEvent, kinds::ALLOWED_UPDATES},
    retry::{RetryAction, get_webhook_info, new_retry_tracker, url_host, wait_before_retry, wait_for_stop},
};
use crate::bot::{ApiError, BotClient, CallError};

/// How long Telegram holds a poll open. Some networks cut longer ones.
const LONG_POLL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the last call may take, which confirms the stored updates before the process ends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Delay after updates that can't be confirmed, since none of them has an `update_id` or could be stored.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// How many updates are requested, which is Telegram's maximum.
const MAX_UPDATES: u8 = 100;

/// How many conversations are stored concurrently.
const MAX_CONCURRENT_CONVERSATIONS: usize = 16;

/// Polls until `stop`.
pub(super) async fn poll(client: &BotClient, processor: &InboundProcessor, stop: &CancellationToken) {
    let mut retries = new_retry_tracker();
    let (mut offset, mut limit) = (0, MAX_UPDATES);
    // A webhook that was set before the first poll is a leftover; a later one belongs to another running process.
    let mut has_polled = false;
    loop {
        let request = client.request_json::<Vec<Value>>(
            "getUpdates",
            get_updates_body(offset, LONG_POLL_TIMEOUT, limit),
            LONG_POLL_TIMEOUT,
        );
        let Some(result) = stop.run_until_cancelled(request).await else { break };
        match result {
            Ok(updates) => {
                retries.reset();
                has_polled = true;
                limit = MAX_UPDATES;
                let is_empty = updates.is_empty();
                let next_offset = store_all(processor, offset, updates, stop).await;
                // Updates without an id can't be confirmed and would be redelivered at once.
                if next_offset == offset && !is_empty && wait_for_stop(STALLED_AFTER, stop).await {
                    break;
                }
                // An empty response means that everything before it is confirmed. Without an offset the next poll gets
                // the next update whatever its id: after a week without updates Telegram picks a random one.
                offset = if is_empty { 0 } else { next_offset };
            }
            Err(error) => {
                let is_webhook_conflict =
                    !has_polled && matches!(error, CallError::Refused(ApiError { code: 409, .. }));
                if is_webhook_conflict && stop.run_until_cancelled(delete_webhook(client)).await == Some(true) {
                    continue;
                }
                // A response that is too long would be redelivered forever; a single update fits and can be confirmed.
                limit = if matches!(error, CallError::InvalidResponse { .. }) { 1 } else { limit };
                if wait_before_retry(&mut retries, client, &error, stop).await == RetryAction::Stop {
                    break;
                }
            }
        }
    }
    if offset > 0 {
        let confirming = client.request_json::<Vec<Value>>(
            "getUpdates",
            get_updates_body(offset, Duration::ZERO, 1),
            Duration::ZERO,
        );
        // If it fails, the last updates are redelivered and deduplicated by their keys.
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, confirming).await;
    }
}

fn get_updates_body(offset: i64, timeout: Duration, limit: u8) -> Vec<u8> {
    let mut body = json!({ "timeout": timeout.as_secs(), "limit": limit, "allowed_updates": ALLOWED_UPDATES });
    if offset > 0 {
        body["offset"] = offset.into();
    }
    body.to_string().into_bytes()
}

/// Deletes a webhook that blocks polling and keeps its pending updates. Returns whether one was deleted.
async fn delete_webhook(client: &BotClient) -> bool {
    let Some(url) = get_webhook_info(client).await.map(|info| info.url).filter(|url| !url.is_empty()) else {
        return false;
    };
    let result = client.request_json::<bool>("deleteWebhook", b"{}".to_vec(), Duration::ZERO).await;
    match &result {
        Ok(_) => tracing::info!(
            "deleted the webhook at {}, because this bot uses long polling; no waiting update is lost",
            url_host(&url)
        ),
        Err(error) => tracing::debug!(error = %error, "deleting the webhook failed"),
    }
    result.is_ok()
}

/// The updates of one conversation, or of none, each with its index in the poll response.
struct ConversationUpdates {
    conversation: Option<ConversationId>,
    updates: Vec<(usize, ReceivedUpdate)>,
}

/// Stores updates and retries failures until `stop`. Returns the offset of the next poll: everything before it is
/// stored.
async fn store_all(processor: &InboundProcessor, offset: i64, updates: Vec<Value>, stop: &CancellationToken) -> i64 {
    let update_ids: Vec<Option<i64>> =
        updates.iter().map(|update| update.get("update_id").and_then(Value::as_i64)).collect();
    processor.scan_albums(&updates);
    let stored = Mutex::new(vec![false; updates.len()]);
    let mut groups: Vec<ConversationUpdates> = Vec::new();
    for (index, raw) in updates.into_iter().enumerate() {
        let update = processor.read(raw);
        if matches!(update.event, InboundEvent::Migrated { .. }) {
            // Messages of the group are stored before the migration, those of the supergroup after it.
            store_concurrently(processor, std::mem::take(&mut groups), &stored, stop).await;
            if stop.is_cancelled() {
                break;
            }
            let migration = ConversationUpdates { conversation: None, updates: vec![(index, update)] };
            store_concurrently(processor, vec![migration], &stored, stop).await;
            if stop.is_cancelled() {
                break;
            }
            continue;
        }
        let conversation = reader::event_conversation(&update.event).cloned();
        match groups.iter_mut().find(|group| group.conversation == conversation) {
            Some(group) => group.updates.push((index, update)),
            None => groups.push(ConversationUpdates { conversation, updates: vec![(index, update)] }),
        }
    }
    store_concurrently(processor, groups, &stored, stop).await;
    let stored = stored.into_inner().unwrap_or_else(PoisonError::into_inner);
    let prefix = update_ids.into_iter().zip(stored).take_while(|(_, stored)| *stored);
    prefix.filter_map(|(update_id, _)| update_id).max().map_or(offset, |last| last.saturating_add(1).max(offset))
}

/// Stores the conversations concurrently, and the updates of each in their order.
async fn store_concurrently(
    processor: &InboundProcessor,
    groups: Vec<ConversationUpdates>,
    stored: &Mutex<Vec<bool>>,
    stop: &CancellationToken,
) {
    let store = |group: ConversationUpdates| async {
        for (index, update) in group.updates {
            if !processor.store_with_retry(&update, stop).await {
                return;
            }
            stored.lock().unwrap_or_else(PoisonError::into_inner)[index] = true;
        }
    };
    stream::iter(groups).for_each_concurrent(MAX_CONCURRENT_CONVERSATIONS, store).await;
}
