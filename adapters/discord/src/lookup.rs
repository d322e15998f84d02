//! Looks in a channel's history for a part whose send was left in doubt.
//!
//! History shows no nonces, so a message is identified by its author, its text and its files.

use std::time::Duration;

use satchel_domain::{MessageRef, PartId};
use satchel_ports::PostRequest;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::{
    classify::is_read_denied,
    filenames::is_same_name,
    rest::{ApiRequest, CallError, RestClient},
    send::{self, ComposedMessage},
    snowflake::{self, message_id},
};

/// How many messages a page holds (Get Channel Messages: limit, 1–100).
const PAGE_SIZE: usize = 100;

/// How many pages are read. A message followed by more messages than that is not found and sent again with a label.
const MAX_PAGES: usize = 10;

/// How far the search starts before the part's creation time, because clocks differ.
const CLOCK_SKEW_MS: u64 = 60_000;

/// How long one search waits for rate limits in total. Discord allows only a few pages in some seconds, so a search
/// that gave up at the first rate limit would never finish.
const MAX_TOTAL_DELAY: Duration = Duration::from_secs(30);

/// The delay after a rate limit without `Retry-After`, and the shortest delay.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(2);
const MIN_DELAY: Duration = Duration::from_millis(50);

/// A message of the history. Nothing else is read, so that no other field can make a page undecodable.
#[derive(Deserialize)]
struct ChannelMessage {
    id: String,
    #[serde(default)]
    author: Option<MessageAuthor>,
    #[serde(default)]
    content: String,
    #[serde(default)]
    attachments: Vec<ChannelMessageFile>,
}

#[derive(Deserialize)]
struct MessageAuthor {
    id: String,
}

#[derive(Deserialize)]
struct ChannelMessageFile {
    #[serde(default)]
    filename: String,
    #[serde(default)]
    title: Option<String>,
    size: u64,
}

/// Returns the bot's message in a channel that shows the part; `None` if there isn't exactly one, or reading is denied.
pub(crate) async fn find_message(
    client: &RestClient,
    bot_user_id: &str,
    channel_id: u64,
    request: &PostRequest,
    after: Option<MessageRef>,
    composed: &ComposedMessage,
) -> Result<Option<MessageRef>, CallError> {
    // The last message before a part may be days older than the part.
    let mut after = after.as_ref().and_then(message_id).max(earliest_id(request.part_id));
    let mut found = None;
    let deadline = Instant::now() + MAX_TOTAL_DELAY;
    for _ in 0..MAX_PAGES {
        let after_parameter = after.map(|after| format!("&after={after}")).unwrap_or_default();
        let path = format!("/channels/{channel_id}/messages?limit={PAGE_SIZE}{after_parameter}");
        let Some(page) = read_page(client, &path, deadline).await? else { return Ok(None) };
        for message in page.iter().filter(|message| matches_part(message, bot_user_id, composed)) {
            if found.replace(MessageRef(message.id.clone())).is_some() {
                return Ok(None);
            }
        }
        let newest = page.iter().filter_map(|message| message.id.parse::<u64>().ok()).max();
        match (after, newest) {
            (Some(previous), Some(newest)) if page.len() >= PAGE_SIZE && newest > previous => after = Some(newest),
            // Without a start position only the newest messages are searched.
            _ => return Ok(found),
        }
    }
    tracing::debug!(channel.id = channel_id, "too many messages since the one in doubt; look-up gives up");
    Ok(None)
}

/// Reads a page, waiting for rate limits until the deadline; `None` if reading is denied. A rate limit beyond the
/// deadline is an error and not an empty result, which would send a message again that may have arrived.
async fn read_page(
    client: &RestClient,
    path: &str,
    deadline: Instant,
) -> Result<Option<Vec<ChannelMessage>>, CallError> {
    loop {
        let error = match client.request(ApiRequest::get(path)).await {
            Ok(page) => return Ok(Some(page)),
            Err(error) if is_read_denied(&error) => return Ok(None),
            Err(error) => error,
        };
        match &error {
            CallError::RateLimited { retry_after, .. } => {
                let delay = retry_after.unwrap_or(DEFAULT_RETRY_AFTER).max(MIN_DELAY);
                if Instant::now() + delay > deadline {
                    return Err(error);
                }
                sleep(delay).await;
            }
            _ => return Err(error),
        }
    }
}

fn matches_part(message: &ChannelMessage, bot_user_id: &str, composed: &ComposedMessage) -> bool {
    let uploads = &composed.uploads;
    message.author.as_ref().is_some_and(|author| author.id == bot_user_id)
        && send::is_same_text(&message.content, composed.text())
        && message.attachments.len() == uploads.len()
        && message.attachments.iter().zip(uploads).all(|(file, upload)| {
            file.size == upload.bytes && is_same_name(&upload.filename, &file.filename, file.title.as_deref())
        })
}

/// Returns the lowest id that a message of the part can have, from the time in the part's id.
fn earliest_id(part: PartId) -> Option<u64> {
    let (seconds, nanoseconds) = part.0.get_timestamp()?.to_unix();
    let milliseconds = seconds * 1_000 + u64::from(nanoseconds / 1_000_000);
    Some(snowflake::at_unix_ms(milliseconds.saturating_sub(CLOCK_SKEW_MS)))
}
