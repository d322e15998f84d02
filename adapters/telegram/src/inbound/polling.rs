//! Asks for updates, again and again, and moves on only past what has been stored.

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
    retry::{RetryAction, host, new_retry_tracker, stopped_within, wait_before_retry, webhook},
};
use crate::{
    TelegramError,
    bot::{ApiError, BotClient, CallError},
};

/// How long Telegram holds a poll open until something comes. Longer ones are cut by some networks on the way.
const LONG_POLL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the last call may take, which confirms what was taken before the process ends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The wait before updates are asked for again of which none has a number.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// How many updates are asked for, which is the most that Telegram gives at once.
const MAX_UPDATES: u8 = 100;

/// How many conversations store at once.
const AT_ONCE: usize = 16;

/// Polls until `stop`.
pub(super) async fn poll(
    client: &BotClient,
    desk: &InboundProcessor,
    stop: &CancellationToken,
) -> Result<(), TelegramError> {
    let mut retries = new_retry_tracker();
    let (mut offset, mut limit) = (0, MAX_UPDATES);
    // A webhook that was set before us is of the past; one that comes later is somebody's who lives.
    let mut has_polled = false;
    loop {
        let asked = client.request_json::<Vec<Value>>(
            "getUpdates",
            get_updates_body(offset, LONG_POLL_TIMEOUT, limit),
            LONG_POLL_TIMEOUT,
        );
        let Some(answered) = stop.run_until_cancelled(asked).await else { break };
        match answered {
            Ok(updates) => {
                retries.reset();
                has_polled = true;
                limit = MAX_UPDATES;
                let is_empty = updates.is_empty();
                let after = store_all(desk, offset, updates, stop).await;
                // What has no number can't be moved past, and would come again at once.
                if after == offset && !is_empty && stopped_within(STALLED_AFTER, stop).await {
                    break;
                }
                // What came before an empty answer is confirmed. Asking without a number from then on finds what comes
                // next whatever its number is: after a quiet week Telegram counts from somewhere else.
                offset = if is_empty { 0 } else { after };
            }
            Err(error) => {
                let webhook_set = !has_polled && matches!(error, CallError::Refused(ApiError { code: 409, .. }));
                if webhook_set && stop.run_until_cancelled(deleted_webhook(client)).await == Some(true) {
                    continue;
                }
                // An answer that is longer than any that is read would come again, and nothing after it ever; its first
                // update alone can be read, and is moved past.
                limit = if matches!(error, CallError::NotAnAnswer { .. }) { 1 } else { limit };
                if wait_before_retry(&mut retries, client, &error, stop).await? == RetryAction::Stop {
                    break;
                }
            }
        }
    }
    if offset > 0 {
        let told = client.request_json::<Vec<Value>>(
            "getUpdates",
            get_updates_body(offset, Duration::ZERO, 1),
            Duration::ZERO,
        );
        // Without it the last updates come once more and are known by their keys.
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, told).await;
    }
    Ok(())
}

fn get_updates_body(offset: i64, held_open: Duration, limit: u8) -> Vec<u8> {
    let mut body = json!({ "timeout": held_open.as_secs(), "limit": limit, "allowed_updates": ALLOWED_UPDATES });
    if offset > 0 {
        body["offset"] = offset.into();
    }
    body.to_string().into_bytes()
}

/// Deletes a webhook that stands in the way, its waiting updates kept. Tells whether one was set.
async fn deleted_webhook(client: &BotClient) -> bool {
    let Some(url) = webhook(client).await.map(|info| info.url).filter(|url| !url.is_empty()) else { return false };
    let deleted = client.request_json::<bool>("deleteWebhook", b"{}".to_vec(), Duration::ZERO).await;
    match &deleted {
        Ok(_) => tracing::info!(
            "deleted the webhook at {}, because this bot uses long polling; no waiting update is lost",
            host(&url)
        ),
        Err(error) => tracing::debug!(error = %error, "deleting the webhook failed"),
    }
    deleted.is_ok()
}

/// What came for one conversation, or for none, each with its place among all that came.
struct ConversationUpdates {
    conversation: Option<ConversationId>,
    updates: Vec<(usize, ReceivedUpdate)>,
}

/// Stores updates; what fails is tried until `stop`. Returns the number from which the next poll goes on: everything
/// before it is stored.
async fn store_all(desk: &InboundProcessor, offset: i64, updates: Vec<Value>, stop: &CancellationToken) -> i64 {
    let numbers: Vec<Option<i64>> =
        updates.iter().map(|update| update.get("update_id").and_then(Value::as_i64)).collect();
    desk.scan_albums(&updates);
    let stored = Mutex::new(vec![false; updates.len()]);
    let mut lanes: Vec<ConversationUpdates> = Vec::new();
    for (at, raw) in updates.into_iter().enumerate() {
        let update = desk.read(raw);
        if matches!(update.meaning, InboundEvent::Migrated { .. }) {
            // What was said in the group stays before the move, and what is said in the supergroup comes after it.
            store_concurrently(desk, std::mem::take(&mut lanes), &stored, stop).await;
            if stop.is_cancelled() {
                break;
            }
            let alone = ConversationUpdates { conversation: None, updates: vec![(at, update)] };
            store_concurrently(desk, vec![alone], &stored, stop).await;
            if stop.is_cancelled() {
                break;
            }
            continue;
        }
        let conversation = reader::conversation(&update.meaning).cloned();
        match lanes.iter_mut().find(|lane| lane.conversation == conversation) {
            Some(lane) => lane.updates.push((at, update)),
            None => lanes.push(ConversationUpdates { conversation, updates: vec![(at, update)] }),
        }
    }
    store_concurrently(desk, lanes, &stored, stop).await;
    let stored = stored.into_inner().unwrap_or_else(PoisonError::into_inner);
    let prefix = numbers.into_iter().zip(stored).take_while(|(_, stored)| *stored);
    prefix.filter_map(|(number, _)| number).max().map_or(offset, |last| last.saturating_add(1).max(offset))
}

/// Stores each conversation's updates in their order, and the conversations side by side.
async fn store_concurrently(
    desk: &InboundProcessor,
    lanes: Vec<ConversationUpdates>,
    stored: &Mutex<Vec<bool>>,
    stop: &CancellationToken,
) {
    let store = |lane: ConversationUpdates| async {
        for (at, update) in lane.updates {
            if !desk.store_with_retry(&update, stop).await {
                return;
            }
            stored.lock().unwrap_or_else(PoisonError::into_inner)[at] = true;
        }
    };
    stream::iter(lanes).for_each_concurrent(AT_ONCE, store).await;
}
