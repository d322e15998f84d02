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

/// The largest file that Telegram's own server hands to bots, in its words 20 MB
/// (<https://core.telegram.org/bots/api#getfile>; its source says `20 << 20`).
const MAX_FILE_BYTES: u64 = 20 << 20;

/// How much longer a server of one's own may take to answer: with `--local` it fetches the whole file first.
const LOCAL_SERVER_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// The longest wait that Telegram asks for and that is waited here; a fetch is tried a few times only.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Opens a file by its reference; with a Bot API server of one's own, from the directory where that keeps its files.
///
/// The address of a file holds the token, and so may a path on the server's disk: neither is told to anybody.
pub(crate) async fn open_file(
    client: &BotClient,
    local_files: Option<&Path>,
    reference: &FileReference,
) -> Result<FetchedFile, FileFetchError> {
    let Ok(FileLocator { file_id }) = serde_json::from_str(&reference.locator) else {
        return Err(permanent_error("Telegram did not say where the file is"));
    };
    // A server of one's own knows its limit itself.
    if !client.has_own_server() && reference.bytes.is_some_and(|bytes| bytes > MAX_FILE_BYTES) {
        return Err(too_large(client, reference.bytes));
    }
    let wait = if client.has_own_server() { LOCAL_SERVER_TIMEOUT } else { Duration::ZERO };
    let body = json!({ "file_id": file_id }).to_string().into_bytes();
    let info: FileInfo = match client.request_json("getFile", body, wait).await {
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

/// What a failed call means for the file.
async fn fetch_error(client: &BotClient, reference: &FileReference, error: CallError) -> FileFetchError {
    let (code, description) = match error {
        CallError::Refused(ApiError { code, description, .. }) => (code, description),
        CallError::RateLimited { retry_after, .. } => {
            // The number is a floor, and whoever tries again doesn't know it.
            let wait = retry_after.unwrap_or(Duration::from_secs(1)).min(MAX_RETRY_AFTER);
            tokio::time::sleep(wait).await;
            return retryable_error("Telegram asked us to wait");
        }
        error => return retryable_error(&error.to_string()),
    };
    let words = description.to_lowercase();
    if words.contains("file is too big") {
        return too_large(client, reference.bytes);
    }
    match code {
        500.. => retryable_error("Telegram returned a server error"),
        // A link ends after an hour and `getFile` makes a new one.
        404 => retryable_error("Telegram could not find the file"),
        _ if words.contains("temporarily") => retryable_error("the file is temporarily unavailable on Telegram"),
        _ => permanent_error(&format!("Telegram refused the download ({description})")),
    }
}

fn too_large(client: &BotClient, bytes: Option<u64>) -> FileFetchError {
    let size = bytes.map_or_else(|| "it is larger".to_owned(), |bytes| format!("it is {}", size::format_bytes(bytes)));
    let remedy = if client.has_own_server() {
        "run the Bot API server at `telegram.api_url` with `--local` to remove this limit"
    } else {
        "your own Bot API server (`telegram.api_url`) has no such limit"
    };
    not_set_up(&format!("{size}; bots can download at most 20 MB from Telegram"), remedy)
}

fn not_set_up(reason: &str, remedy: &str) -> FileFetchError {
    FileFetchError::NotSetUp { reason: reason.to_owned(), remedy: remedy.to_owned() }
}

fn permanent_error(reason: &str) -> FileFetchError {
    FileFetchError::Permanent { reason: reason.to_owned() }
}

fn retryable_error(reason: &str) -> FileFetchError {
    FileFetchError::Retryable { reason: reason.to_owned() }
}
