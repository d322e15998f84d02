//! Files in a script's hands: made, looked up, read.

use satchel_domain::{Attachment, AttachmentSource, Filename, NewAttachment, size::format_bytes};
use satchel_ports::{BlobError, BlobHint, ByteStream, OutcomeReader, script_host::NewScriptFile};
use serde_json::{Value, json};

use super::host_functions::TurnHostFunctions;
use crate::{
    arguments::{check_description, parse_mime},
    error,
    lookup::{self, AttachmentMetadata},
    paging::{self, PageError},
};

/// The type that a script gives a file whose type it leaves to the bytes.
const UNKNOWN_MIME: &str = "application/octet-stream";

/// Stores a script's file. It has no number yet.
pub(super) async fn create_file(
    functions: &TurnHostFunctions<'_>,
    file: NewScriptFile,
    content: ByteStream,
    remaining_bytes: u64,
) -> Result<NewAttachment, String> {
    let to_error = |reason: String| format!("attachment_create: {reason}");
    if file.filename.trim().is_empty() {
        return Err(to_error("`filename` is empty".to_owned()));
    }
    let mime = match file.mime_type.trim() {
        "" | UNKNOWN_MIME => None,
        given => Some(parse_mime(given).map_err(|error| to_error(error.0))?),
    };
    let filename = Filename::from_untrusted(&file.filename);
    let description = check_description(&filename, file.description).map_err(|error| to_error(error.0))?;
    let hint = BlobHint { filename: Some(filename.clone()), mime: mime.clone(), bytes: None };
    let stored = functions.services.blobs.put(content, &hint, remaining_bytes).await.map_err(|error| match error {
        BlobError::TooLarge { .. } => to_error(format!(
            "{filename} is larger than the {} ({remaining_bytes} bytes) that this script has left",
            format_bytes(remaining_bytes)
        )),
        error => to_error(error::tool_error_with_cause(&format!("{filename} could not be stored"), &error).0),
    })?;
    let new_file = functions.context.new_file(filename, stored);
    let (source, visibility) = (AttachmentSource::Script, file.visibility);
    Ok(NewAttachment { source, mime: mime.unwrap_or(new_file.mime), description, visibility, ..new_file })
}

/// What is known of a file.
pub(super) async fn read_metadata(functions: &TurnHostFunctions<'_>, id: &str) -> Result<Value, String> {
    let file = find_file("attachment_get", functions, id).await?;
    Ok(json!(AttachmentMetadata::from(file)))
}

pub(super) async fn read_text(functions: &TurnHostFunctions<'_>, id: &str) -> Result<Value, String> {
    let file = find_file("attachment_read", functions, id).await?;
    let to_error = |reason: String| format!("attachment_read: {reason}");
    paging::check_program_limit(OutcomeReader::Program, file.filename.as_str(), None, file.bytes)
        .map_err(|error| to_error(error.0))?;
    let unreadable = format!("the bytes of {} could not be read", file.filename);
    let content = functions.services.blobs.open(&file.sha256, None).await;
    let content = content.map_err(|error| to_error(error::tool_error_with_cause(&unreadable, &error).0))?;
    match paging::read_page(content, 0, 0, OutcomeReader::MAX_PROGRAM_BYTES).await {
        Ok(page) => Ok(Value::from(page.text)),
        Err(PageError::Binary { .. }) => Err(to_error(format!("{} is not text: it is {}", file.filename, file.mime))),
        Err(PageError::Interrupted(reason)) => Err(to_error(format!("{unreadable}: {reason}"))),
    }
}

async fn find_file(function: &str, functions: &TurnHostFunctions<'_>, id: &str) -> Result<Attachment, String> {
    lookup::find_attachment(functions.services, functions.context, id)
        .await
        .map_err(|error| format!("{function}: {error}"))
}
