//! Looks in a channel's history for a part whose send was left in doubt.
//!
//! History shows no nonces, so a message is known by its author, its words and its files.

use std::time::Duration;

use satchel_domain::{MessageRef, PartId};
use satchel_ports::SendRequest;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::{
    address::number,
    classify::is_read_denied,
    rest::{ApiRequest, CallError, RestClient},
    send::{self, ComposedMessage},
    snowflake,
};

/// How many messages a page holds (Get Channel Messages: limit, 1–100).
const PAGE: usize = 100;

/// How many pages are read. What so much was said after is not found, and sent again with a label.
const MAX_PAGES: usize = 10;

/// How much earlier than a part was made it is looked for: clocks differ.
const CLOCK_SKEW_MS: u64 = 60_000;

/// How long is waited in all for pages that may not be asked for yet. Pages come at Discord's pace, a few in some
/// seconds, so that a walk which broke off at the first wait would never end.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// How long is waited where nobody says how long, or not worth naming.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(2);
const SHORTEST: Duration = Duration::from_millis(50);

/// A message as history shows it. Nothing else is read, so that nothing else can make a page unreadable.
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

/// The one message of `us` in `channel` that shows the part; `None` where it isn't one, or reading isn't allowed.
pub(crate) async fn find(
    client: &RestClient,
    us: &str,
    channel: u64,
    part: &SendRequest,
    after: Option<MessageRef>,
    composed: &ComposedMessage,
) -> Result<Option<MessageRef>, CallError> {
    // The last message before a part may be days older than the part.
    let mut after = after.as_ref().and_then(number).max(earliest_id(part.part));
    let mut found = None;
    let give_up = Instant::now() + MAX_RETRY_AFTER;
    for _ in 0..MAX_PAGES {
        let since = after.map(|after| format!("&after={after}")).unwrap_or_default();
        let path = format!("/channels/{channel}/messages?limit={PAGE}{since}");
        let Some(page) = read(client, &path, give_up).await? else { return Ok(None) };
        for seen in page.iter().filter(|seen| matches_part(seen, us, composed)) {
            if found.replace(MessageRef(seen.id.clone())).is_some() {
                return Ok(None);
            }
        }
        let newest = page.iter().filter_map(|seen| seen.id.parse::<u64>().ok()).max();
        match (after, newest) {
            (Some(before), Some(newest)) if page.len() >= PAGE && newest > before => after = Some(newest),
            // Without a place to begin at, the newest messages are all that is looked at.
            _ => return Ok(found),
        }
    }
    tracing::debug!(channel.id = channel, "too many messages since the one in doubt; look-up gives up");
    Ok(None)
}

/// Reads a page as soon as it may be asked for; `None` where reading isn't allowed. What may not be asked for soon is
/// asked for in another walk: to find nothing would be to send again what may stand there.
async fn read(client: &RestClient, path: &str, give_up: Instant) -> Result<Option<Vec<ChannelMessage>>, CallError> {
    loop {
        let error = match client.request(ApiRequest::get(path)).await {
            Ok(page) => return Ok(Some(page)),
            Err(error) if is_read_denied(&error) => return Ok(None),
            Err(error) => error,
        };
        match &error {
            CallError::RateLimited { retry_after, .. } => {
                let wait = retry_after.unwrap_or(DEFAULT_RETRY_AFTER).max(SHORTEST);
                if Instant::now() + wait > give_up {
                    return Err(error);
                }
                sleep(wait).await;
            }
            _ => return Err(error),
        }
    }
}

fn matches_part(seen: &ChannelMessage, us: &str, composed: &ComposedMessage) -> bool {
    let sent = &composed.uploads;
    seen.author.as_ref().is_some_and(|author| author.id == us)
        && send::is_same_text(&seen.content, composed.text())
        && seen.attachments.len() == sent.len()
        && seen.attachments.iter().zip(sent).all(|(seen, sent)| {
            seen.size == sent.bytes && send::is_same_name(&sent.filename, &seen.filename, seen.title.as_deref())
        })
}

/// An id before which a part can't have been sent, as far as its own id tells when it was made.
fn earliest_id(part: PartId) -> Option<u64> {
    let (seconds, nanoseconds) = part.0.get_timestamp()?.to_unix();
    let milliseconds = seconds * 1_000 + u64::from(nanoseconds / 1_000_000);
    Some(snowflake::at_unix_ms(milliseconds.saturating_sub(CLOCK_SKEW_MS)))
}
