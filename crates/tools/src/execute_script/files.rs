//! Files in a script's hands: made, looked up, read.

use satchel_domain::{Attachment, AttachmentSource, Filename, size::format_bytes};
use satchel_ports::{BlobError, BlobHint, ByteStream, OutcomeReader, script_host::NewScriptFile};
use serde_json::{Value, json};

use super::host_functions::TurnHostFunctions;
use crate::{
    arguments::{checked_description, checked_mime},
    error,
    lookup::{self, AttachmentMetadata},
    paging::{self, PageError},
};

/// The type that a script gives a file whose type it leaves to the bytes.
const UNKNOWN: &str = "application/octet-stream";

/// Stores a script's file. It has no number yet.
pub(super) async fn create(
    world: &TurnHostFunctions<'_>,
    file: NewScriptFile,
    content: ByteStream,
    room: u64,
) -> Result<Attachment, String> {
    let failed = |words: String| format!("attachment_create: {words}");
    if file.filename.trim().is_empty() {
        return Err(failed("`filename` is empty".to_owned()));
    }
    let mime = match file.mime_type.trim() {
        "" | UNKNOWN => None,
        given => Some(checked_mime(given).map_err(|error| failed(error.0))?),
    };
    let filename = Filename::from_untrusted(&file.filename);
    let description = checked_description(&filename, file.description).map_err(|error| failed(error.0))?;
    let hint = BlobHint { filename: Some(filename.clone()), mime: mime.clone(), bytes: None };
    let stored = world.services.blobs.put(content, &hint, room).await.map_err(|error| match error {
        BlobError::TooLarge { .. } => failed(format!(
            "{filename} is larger than the {} ({room} bytes) that this script has left",
            format_bytes(room)
        )),
        error => failed(error::tool_error_with_cause(&format!("{filename} could not be stored"), &error).0),
    })?;
    let made = world.context.new_file(&*world.services.ledger, filename, stored);
    let (source, visibility) = (AttachmentSource::Script, file.visibility);
    Ok(Attachment { source, mime: mime.unwrap_or(made.mime), description, visibility, ..made })
}

/// What is known of a file.
pub(super) async fn metadata(world: &TurnHostFunctions<'_>, id: &str) -> Result<Value, String> {
    let file = find("attachment_get", world, id).await?;
    Ok(json!(AttachmentMetadata::from(file)))
}

pub(super) async fn text(world: &TurnHostFunctions<'_>, id: &str) -> Result<Value, String> {
    let file = find("attachment_read", world, id).await?;
    let failed = |words: String| format!("attachment_read: {words}");
    paging::check_whole(OutcomeReader::Program, file.filename.as_str(), None, file.bytes)
        .map_err(|error| failed(error.0))?;
    let unreadable = format!("the bytes of {} could not be read", file.filename);
    let content = world.services.blobs.open(&file.sha256, None).await;
    let content = content.map_err(|error| failed(error::tool_error_with_cause(&unreadable, &error).0))?;
    match paging::read_page(content, 0, 0, OutcomeReader::MAX_PROGRAM_BYTES).await {
        Ok(page) => Ok(Value::from(page.text)),
        Err(PageError::Binary { .. }) => Err(failed(format!("{} is not text: it is {}", file.filename, file.mime))),
        Err(PageError::Broken(why)) => Err(failed(format!("{unreadable}: {why}"))),
    }
}

async fn find(function: &str, world: &TurnHostFunctions<'_>, id: &str) -> Result<Attachment, String> {
    lookup::find_attachment(world.services, world.context, id).await.map_err(|error| format!("{function}: {error}"))
}
