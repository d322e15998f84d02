//! The files to download, and the source of each.

use satchel_domain::{
    Attachment, FileReference, Filename, Sha256, reference_block, reference_block::AttachmentReference,
    size::format_bytes,
};
use satchel_ports::{
    ToolContext, ToolError,
    ledger::{InboundFileState, QueuedMessage, TurnQuery, TurnRecord},
};

use crate::{ToolServices, error, lookup};

/// How many turns are read at once, and how often, when those before had no files.
const TURNS_PER_QUERY: u32 = 50;
const MAX_QUERIES: u32 = 10;

/// The URL scheme of our own files: their platform URL would reveal the bot's token.
const ATTACHMENT_SCHEME: &str = "satchel:attachment/";

/// A file that is to be downloaded.
pub(crate) struct DownloadItem {
    pub(crate) filename: Filename,
    /// Where it came from, as it may be told.
    pub(crate) source_url: String,
    pub(crate) source: ByteSource,
}

/// Bytes in the file store, and what is known of them.
pub(crate) struct StoredBytes {
    pub(crate) sha256: Sha256,
    pub(crate) bytes: u64,
    pub(crate) mime: String,
    /// What the platform or the server called their type, where one did.
    pub(crate) served_as: Option<String>,
}

impl From<Attachment> for StoredBytes {
    fn from(attachment: Attachment) -> Self {
        let Attachment { sha256, bytes, mime, .. } = attachment;
        Self { sha256, bytes, mime, served_as: None }
    }
}

/// Where its bytes are.
pub(crate) enum ByteSource {
    /// In the file store.
    Stored(StoredBytes),
    /// At this address, which may be signed.
    Url(String),
    Unavailable(String),
}

/// The files of the latest message that came with any: of this turn, else of an earlier one. The messages of one turn,
/// such as an album, are one message.
pub(crate) async fn latest_files(
    services: &ToolServices,
    context: &ToolContext,
) -> Result<Vec<DownloadItem>, ToolError> {
    let read_error = |error| error::tool_error_with_cause("the conversation could not be read", &error);
    let current = services.archive.turn(context.call.turn).await.map_err(read_error)?;
    let items = match current {
        Some(turn) => items_of_turn(services, context, turn).await?,
        None => Vec::new(),
    };
    if !items.is_empty() {
        return Ok(items);
    }
    let mut before = context.call.turn;
    for _ in 0..MAX_QUERIES {
        let query =
            TurnQuery { conversation: context.conversation.clone(), before: Some(before), limit: TURNS_PER_QUERY };
        let turns = services.archive.turns(&query).await.map_err(read_error)?;
        let Some(oldest) = turns.first() else { break };
        before = oldest.id;
        for turn in turns.into_iter().rev() {
            let items = items_of_turn(services, context, turn).await?;
            if !items.is_empty() {
                return Ok(items);
            }
        }
    }
    Err(error::tool_error("no message of this conversation came with attachments, as far as it is remembered"))
}

async fn items_of_turn(
    services: &ToolServices,
    context: &ToolContext,
    turn: TurnRecord,
) -> Result<Vec<DownloadItem>, ToolError> {
    let mut items = Vec::new();
    let mut numbers = 1..;
    for QueuedMessage { message, files, .. } in turn.messages {
        let max_bytes = services.limits.inbound_file_bytes;
        items.extend(message.files.iter().zip(files).map(|(reference, file)| item_of_file(reference, file, max_bytes)));
        let (_, references) = reference_block::split(&message.text);
        if references.is_none() && reference_block::has_marker(&message.text) {
            tracing::warn!(chat.id = %context.conversation, turn.id = %turn.id, "a malformed reference block is plain text");
        }
        for (reference, number) in references.into_iter().flatten().zip(&mut numbers) {
            items.push(item_of_reference(services, context, reference, number).await?);
        }
    }
    Ok(items)
}

/// A file that came with a message, unless it was refused and is larger than any that is taken.
fn item_of_file(reference: &FileReference, file: InboundFileState, max_bytes: u64) -> DownloadItem {
    let (source_url, source) = match (file, &reference.source_url) {
        (InboundFileState::Stored(attachment), source_url) => {
            let source_url = match source_url {
                Some(url) => redact_query(url),
                None => format!("{ATTACHMENT_SCHEME}{}", attachment.id),
            };
            let stored = StoredBytes { served_as: reference.mime.clone(), ..attachment.into() };
            (source_url, ByteSource::Stored(stored))
        }
        (InboundFileState::Refused(refused), Some(url)) if reference.bytes.is_some_and(|bytes| bytes > max_bytes) => {
            let limit = format_bytes(max_bytes);
            let reason = format!("it was not taken when it came ({}); {limit} is the limit here, too", refused.reason);
            (redact_query(url), ByteSource::Unavailable(reason))
        }
        (_, Some(url)) => (redact_query(url), ByteSource::Url(url.clone())),
        (InboundFileState::Refused(refused), None) => {
            let reason = format!("it was not taken when it came ({})", refused.reason);
            (String::new(), ByteSource::Unavailable(reason))
        }
        (InboundFileState::Waiting(_), None) => {
            (String::new(), ByteSource::Unavailable("it has not come yet".to_owned()))
        }
    };
    DownloadItem { filename: reference.filename.clone(), source_url, source }
}

/// A file that a message's text refers to, as this one of its turn.
async fn item_of_reference(
    services: &ToolServices,
    context: &ToolContext,
    reference: AttachmentReference,
    number: usize,
) -> Result<DownloadItem, ToolError> {
    let attachment_id = match (reference.id, reference.url.strip_prefix(ATTACHMENT_SCHEME)) {
        (Some(id), _) => Some(id.to_string()),
        (None, Some(id)) => Some(id.to_owned()),
        (None, None) => None,
    };
    let (source, own_name) = match attachment_id {
        Some(id) => match lookup::find_attachment(services, context, &id).await {
            Ok(attachment) => (ByteSource::Stored(attachment.clone().into()), Some(attachment.filename)),
            Err(error) => (ByteSource::Unavailable(error.0), None),
        },
        None => (ByteSource::Url(reference.url.clone()), None),
    };
    let filename = reference.filename.clone().or(own_name).unwrap_or_else(|| reference.display_name(number));
    Ok(DownloadItem { filename, source_url: redact_query(&reference.url), source })
}

/// An address without what signs it.
fn redact_query(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().to_owned()
}
