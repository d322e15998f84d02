//! The way in: polls for updates and moves on only past what has been taken.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::join_all;
use satchel_domain::{ConversationId, FileReference, Filename, InboundMessage};
use satchel_ports::Inbound;
use tokio_util::sync::CancellationToken;

use crate::{FakeChannel, channel::classify::decode, wire::Update};

impl FakeChannel {
    /// Hands what people write to `inbound` until `shutdown`. The platform hears that an update was taken, by the
    /// next poll's offset, only after `accept` has returned `Ok`.
    pub async fn listen(&self, inbound: Arc<dyn Inbound>, shutdown: CancellationToken) {
        let mut offset = 0;
        let mut failures = 0u32;
        while !shutdown.is_cancelled() {
            let polled = tokio::select! {
                polled = self.poll(offset) => polled,
                () = shutdown.cancelled() => return,
            };
            let all_taken = match polled {
                Ok(updates) => {
                    let after = updates.last().map_or(offset, |last| last.update + 1);
                    // An accept that has begun is let finish: what is durable should be confirmed.
                    offset = self.accept(inbound.as_ref(), updates).await.unwrap_or(after);
                    offset == after
                }
                Err(reason) => {
                    tracing::debug!(channel = %self.name, %reason, "the poll failed");
                    false
                }
            };
            if all_taken {
                failures = 0;
                continue;
            }
            let wait = self.timeouts.backoff.saturating_mul(1 << failures.min(5));
            failures = failures.saturating_add(1);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    async fn poll(&self, offset: u64) -> Result<Vec<Update>, String> {
        let timeout_ms = self.timeouts.poll.as_millis();
        let url = self.url(&format!("updates?offset={offset}&timeout_ms={timeout_ms}"));
        let longest_wait: Duration = self.timeouts.poll + self.timeouts.answer;
        let response = self.client.get(url).timeout(longest_wait).send().await.map_err(|error| error.to_string())?;
        let body = response.bytes().await.map_err(|error| error.to_string())?;
        let result = decode(&body).map_err(|error| error.to_string())?.map_err(|refused| refused.description)?;
        serde_json::from_value(result).map_err(|error| error.to_string())
    }

    /// Hands updates over, each conversation's in order and the conversations side by side; a batch is bounded by the
    /// platform. Returns the first update that was not taken, from which the next poll begins again: those behind it
    /// that were taken already are known by their keys.
    async fn accept(&self, inbound: &dyn Inbound, updates: Vec<Update>) -> Option<u64> {
        let mut lanes: BTreeMap<ConversationId, Vec<Update>> = BTreeMap::new();
        for update in updates {
            lanes.entry(update.conversation.clone()).or_default().push(update);
        }
        let lanes = lanes.into_values().map(|lane| async move {
            for update in lane {
                let number = update.update;
                if let Err(error) = inbound.accept(inbound_message(update)).await {
                    tracing::warn!(channel = %self.name, update = number, %error, "an update was not taken");
                    return Some(number);
                }
            }
            None
        });
        join_all(lanes).await.into_iter().flatten().min()
    }
}

fn inbound_message(update: Update) -> InboundMessage {
    let raw = serde_json::to_value(&update).unwrap_or_default();
    let first = format!("{}/{}", update.conversation.key(), update.message);
    let (key, edit_of) = match update.edit {
        Some(edit) => (format!("{first}/{edit}"), Some(first)),
        None => (first, None),
    };
    let files = update.files.into_iter().map(|file| FileReference {
        mime: Some(file.mime),
        bytes: Some(file.bytes),
        ..FileReference::new(file.file, Filename::from_untrusted(&file.filename))
    });
    InboundMessage {
        edit_of,
        text: update.text,
        files: files.collect(),
        album: update.media_group,
        message: Some(update.message),
        raw,
        ..InboundMessage::new(update.conversation, key, update.from)
    }
}
