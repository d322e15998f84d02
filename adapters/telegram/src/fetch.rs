//! Opens files that people sent.

mod local;

use std::{path::Path, time::Duration};

use satchel_domain::{FileReference, size};
use satchel_ports::{FetchedFile, FileFetchError};
use serde_json::json;

use crate::{
    bot::{ApiError, BotClient, CallError},
    inbound::wire::{FileInfo, FileLocator},
};

/// Largest file that bots can download from Telegram's server, documented as 20 MB
/// (<https://core.telegram.org/bots/api#getfile>; its source says `20 << 20`).
const MAX_FILE_BYTES: u64 = 20 << 20;

/// Extra response timeout for a self-hosted server: with `--local` it downloads the whole file first.
const LOCAL_SERVER_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// Longest `retry_after` that is waited for here; a fetch is attempted only a few times.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Opens a file by its reference; with a self-hosted Bot API server, from the directory where it stores files.
///
/// The URL of a file holds the token, and a path on the server's disk may: neither is shown in errors or logs.
pub(crate) async fn open_file(
    client: &BotClient,
    local_files: Option<&Path>,
    reference: &FileReference,
) -> Result<FetchedFile, FileFetchError> {
    let Ok(FileLocator { file_id }) = serde_json::from_str(&reference.locator) else {
        return Err(permanent_error("Telegram did not say where the file is"));
    };
    // A self-hosted server enforces its own limit.
    if !client.has_custom_server() && reference.bytes.is_some_and(|bytes| bytes > MAX_FILE_BYTES) {
        return Err(too_large(client, reference.bytes));
    }
    let extra_timeout = if client.has_custom_server() { LOCAL_SERVER_TIMEOUT } else { Duration::ZERO };
    let body = json!({ "file_id": file_id }).to_string().into_bytes();
    let info: FileInfo = match client.request_json("getFile", body, extra_timeout).await {
        Ok(info) => info,
        Err(error) => return Err(fetch_error(client, reference, error).await),
    };
    let Some(path) = info.file_path else { return Err(retryable_error("Telegram did not say where the file is")) };
    if Path::new(&path).is_absolute() {
        return local::open_local(local_files, Path::new(&path)).await;
    }
    match client.download(&path).await {
        Ok(download) => Ok(FetchedFile::Bytes { bytes: download.bytes.or(info.file_size), content: download.content }),
        Err(error) => Err(fetch_error(client, reference, error).await),
    }
}

/// Maps a failed call to the error of the fetch.
async fn fetch_error(client: &BotClient, reference: &FileReference, error: CallError) -> FileFetchError {
    let (code, description) = match error {
        CallError::Refused(ApiError { code, description, .. }) => (code, description),
        CallError::RateLimited { retry_after, .. } => {
            // The caller's retries don't know this delay, so it is waited out here.
            let delay = retry_after.unwrap_or(Duration::from_secs(1)).min(MAX_RETRY_AFTER);
            tokio::time::sleep(delay).await;
            return retryable_error("Telegram asked us to wait");
        }
        error => return retryable_error(&error.to_string()),
    };
    let lowercase = description.to_lowercase();
    if lowercase.contains("file is too big") {
        return too_large(client, reference.bytes);
    }
    match code {
        500.. => retryable_error("Telegram returned a server error"),
        // A link expires after an hour, and `getFile` creates a new one.
        404 => retryable_error("Telegram could not find the file"),
        _ if lowercase.contains("temporarily") => retryable_error("the file is temporarily unavailable on Telegram"),
        _ => permanent_error(&format!("Telegram refused the download ({description})")),
    }
}

fn too_large(client: &BotClient, bytes: Option<u64>) -> FileFetchError {
    let size = bytes.map_or_else(|| "it is larger".to_owned(), |bytes| format!("it is {}", size::format_bytes(bytes)));
    let remedy = if client.has_custom_server() {
        "run the Bot API server at `telegram.api_url` with `--local` to remove this limit"
    } else {
        "your own Bot API server (`telegram.api_url`) has no such limit"
    };
    not_configured_error(&format!("{size}; bots can download at most 20 MB from Telegram"), remedy)
}

fn not_configured_error(reason: &str, remedy: &str) -> FileFetchError {
    FileFetchError::NotConfigured { reason: reason.to_owned(), remedy: remedy.to_owned() }
}

fn permanent_error(reason: &str) -> FileFetchError {
    FileFetchError::Permanent { reason: reason.to_owned() }
}

fn retryable_error(reason: &str) -> FileFetchError {
    FileFetchError::Retryable { reason: reason.to_owned() }
}
