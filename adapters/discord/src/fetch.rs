//! Fetches files that people sent, through links that Discord signs for a day.
//!
//! An expired link is refreshed by a `GET` of the message that carries the file, the only way that Discord documents.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use satchel_domain::FileReference;
use satchel_ports::{FetchRequest, FetchedFile, Fetcher, FetcherError, FileFetchError, HostPolicy};
use serde_json::Value;

use crate::{
    inbound::wire::{FileLocator, Message},
    rest::{ApiError, ApiRequest, CallError, RestClient},
};

/// The hosts of Discord's files.
pub(crate) const FILE_HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];

/// The size limit for a file whose size is unknown.
const MAX_FILE_BYTES: u64 = 2 << 30;

/// How many bytes beyond the size that Discord stated are read; the file store has its own limits.
const SIZE_TOLERANCE_BYTES: u64 = 1 << 20;

/// The longest `Retry-After` that is waited for here; a fetch is retried a few times only.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Error codes for a message that the bot can't read (Opcodes and Status Codes, JSON).
const UNKNOWN_CHANNEL: u64 = 10_003;
const UNKNOWN_MESSAGE: u64 = 10_008;

/// Opens a file by its reference, from one of `hosts`. An expired link is refreshed once.
///
/// Anyone with the link can fetch the file, so no error or log line contains it.
pub(crate) async fn open_file(
    client: &RestClient,
    fetcher: &dyn Fetcher,
    hosts: &[String],
    reference: &FileReference,
) -> Result<FetchedFile, FileFetchError> {
    let Ok(locator) = serde_json::from_str::<FileLocator>(&reference.locator) else {
        return Err(permanent_error("Discord did not say where the file is"));
    };
    let get = async |url: String| {
        let max_bytes = reference.bytes.map_or(MAX_FILE_BYTES, |bytes| bytes.saturating_add(SIZE_TOLERANCE_BYTES));
        let request = FetchRequest { url, hosts: HostPolicy::Only(hosts.to_vec()), max_bytes };
        fetcher.fetch(&request).await
    };
    let first = if has_expired(&locator.url, SystemTime::now()) {
        Err(FetcherError::NotFound { reason: "its link has expired".to_owned() })
    } else {
        get(locator.url.clone()).await
    };
    let fetched = match first {
        Err(FetcherError::NotFound { .. }) => get(refresh_link(client, &locator).await?).await,
        other => other,
    };
    match fetched {
        Ok(fetched) => Ok(FetchedFile::Bytes { bytes: fetched.bytes.or(reference.bytes), content: fetched.content }),
        Err(FetcherError::Rejected { reason }) => Err(permanent_error(&reason)),
        // The message still carries the file, so Discord's file store is only behind.
        Err(FetcherError::Retryable { reason } | FetcherError::NotFound { reason }) => Err(retryable_error(&reason)),
    }
}

/// Whether a link has expired: `ex` is the time in seconds, in hexadecimal.
fn has_expired(url: &str, now: SystemTime) -> bool {
    let query = url.split('#').next().and_then(|url| url.split_once('?')).map(|(_, query)| query);
    let expires_at = query.into_iter().flat_map(|query| query.split('&')).find_map(|pair| pair.strip_prefix("ex="));
    let expires_at = expires_at.and_then(|seconds| u64::from_str_radix(seconds, 16).ok());
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    expires_at.is_some_and(|expires_at| expires_at <= now)
}

/// Reads the message that carries a file and returns a new link.
async fn refresh_link(client: &RestClient, locator: &FileLocator) -> Result<String, FileFetchError> {
    let FileLocator { channel, message, attachment, .. } = locator;
    let response = client.request::<Value>(ApiRequest::get(format!("/channels/{channel}/messages/{message}"))).await;
    let raw_message = match response {
        Ok(raw_message) => raw_message,
        Err(error) => return Err(fetch_error(error).await),
    };
    let Ok(Message { head, content }) = Message::read(&raw_message) else {
        return Err(retryable_error("Discord sent the file's message in an unknown form"));
    };
    let forwarded = head.message_snapshots.iter().map(|snapshot| &snapshot.message);
    let mut attachments = std::iter::once(&content).chain(forwarded).flat_map(|content| &content.attachments);
    let found = attachments.find(|candidate| candidate.id.0 == *attachment);
    found.map(|found| found.url.clone()).ok_or_else(|| permanent_error("Discord no longer has this file"))
}

/// Maps a failed call to the error of the fetch; waits as long as Discord requests.
async fn fetch_error(error: CallError) -> FileFetchError {
    match error {
        CallError::Refused(ApiError { code: UNKNOWN_MESSAGE | UNKNOWN_CHANNEL, .. }) => {
            permanent_error("Discord no longer has this file: its message was deleted")
        }
        CallError::Refused(ApiError { status: 403, .. }) => permanent_error(
            "its link has expired, and the bot has no permission to read this channel's history for a new one",
        ),
        CallError::Refused(ApiError { status: 500.., .. }) => retryable_error("Discord returned a server error"),
        CallError::Refused(refusal) => permanent_error(&format!("Discord refused the download ({refusal})")),
        CallError::RateLimited { retry_after, .. } => {
            // The caller that retries doesn't know the requested delay.
            tokio::time::sleep(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER)).await;
            retryable_error("Discord has rate-limited the bot")
        }
        other => retryable_error(&other.to_string()),
    }
}

fn permanent_error(reason: &str) -> FileFetchError {
    FileFetchError::Permanent { reason: reason.to_owned() }
}

fn retryable_error(reason: &str) -> FileFetchError {
    FileFetchError::Retryable { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::long_ago("https://cdn.discordapp.com/attachments/1/2/a.pdf?ex=65d903de&is=65c68ede&hm=2481f30dd67f", true)]
    #[case::at_this_second("https://x/a?ex=69800000", true)]
    #[case::in_a_second("https://x/a?ex=69800001", false)]
    #[case::not_the_first("https://x/a?is=1&hm=2&ex=697fffff#ex=ffffffff", true)]
    #[case::of_another_name("https://x/a?hex=1", false)]
    #[case::in_the_path("https://x/ex=1/a", false)]
    #[case::in_the_fragment("https://x/a#?ex=1", false)]
    #[case::no_number("https://x/a?ex=soon", false)]
    #[case::without("https://x/a", false)]
    fn a_link_says_when_it_expires(#[case] url: &str, #[case] expired: bool) {
        let now = UNIX_EPOCH + Duration::from_secs(0x6980_0000);
        assert_eq!(has_expired(url, now), expired, "{url}");
    }
}
