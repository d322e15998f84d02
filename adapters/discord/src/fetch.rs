//! Opens files that people sent, by links that Discord has signed for a day.
//!
//! A link that has run out is had anew from the message that carries the file: `GET` of it is the one way that Discord
//! documents.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use satchel_domain::FileReference;
use satchel_ports::{FetchRequest, FetchedFile, Fetcher, FetcherError, FileFetchError, HostPolicy};
use serde_json::Value;

use crate::{
    inbound::wire::{FileLocator, Message},
    rest::{ApiError, ApiRequest, CallError, RestClient},
};

/// The hosts where Discord keeps files.
pub(crate) const HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];

/// The most bytes that are taken of a file whose size is not told.
const MAX_FILE_BYTES: u64 = 2 << 30;

/// How many bytes more than Discord has told are taken; whoever stores them has limits of its own.
const SLACK: u64 = 1 << 20;

/// The longest wait that Discord asks for and that is waited here; a fetch is tried a few times only.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Why a message is not shown to us (Opcodes and Status Codes, JSON).
const UNKNOWN_CHANNEL: u64 = 10_003;
const UNKNOWN_MESSAGE: u64 = 10_008;

/// Opens a file by its reference, from one of `hosts`. A link that has expired is replaced once.
///
/// A link lets anybody fetch the file, so it is told to nobody.
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
        let max_bytes = reference.bytes.map_or(MAX_FILE_BYTES, |bytes| bytes.saturating_add(SLACK));
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
        // The message still carries it, so that the store is behind and not the file gone.
        Err(FetcherError::Retryable { reason } | FetcherError::NotFound { reason }) => Err(retryable_error(&reason)),
    }
}

/// Whether a link tells that its time is over: `ex` is when, in seconds, in hexadecimal.
fn has_expired(url: &str, now: SystemTime) -> bool {
    let query = url.split('#').next().and_then(|url| url.split_once('?')).map(|(_, query)| query);
    let until = query.into_iter().flat_map(|query| query.split('&')).find_map(|pair| pair.strip_prefix("ex="));
    let until = until.and_then(|seconds| u64::from_str_radix(seconds, 16).ok());
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    until.is_some_and(|until| until <= now)
}

/// Asks the message that carries a file for a link that is good for another day.
async fn refresh_link(client: &RestClient, locator: &FileLocator) -> Result<String, FileFetchError> {
    let FileLocator { channel, message, attachment, .. } = locator;
    let asked = client.request::<Value>(ApiRequest::get(format!("/channels/{channel}/messages/{message}"))).await;
    let told = match asked {
        Ok(told) => told,
        Err(error) => return Err(fetch_error(error).await),
    };
    let Ok(Message { head, content }) = Message::read(&told) else {
        return Err(retryable_error("Discord sent the file's message in an unknown form"));
    };
    let passed_on = head.message_snapshots.iter().map(|snapshot| &snapshot.message);
    let mut carried = std::iter::once(&content).chain(passed_on).flat_map(|content| &content.attachments);
    let found = carried.find(|carried| carried.id.0 == *attachment);
    found.map(|found| found.url.clone()).ok_or_else(|| permanent_error("Discord no longer has this file"))
}

/// What a failed call means for the file.
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
            // The number is a floor, and whoever tries again doesn't know it.
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
