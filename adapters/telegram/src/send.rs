//! Sends parts: composes Bot API calls and makes them.

mod compose;
mod draft;

use std::{sync::Arc, time::Duration};

use reqwest::multipart::Form;
use satchel_domain::delivery::SendError;
use satchel_platform_http::{UploadProgress, open_file_part, show_while};
use satchel_ports::Blobs;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use compose::{ComposeError, ComposedMessage, VOICE_NAME, compose_edit, compose_message};
pub(crate) use draft::compose_draft;

use crate::bot::{BotClient, CallError};

/// How often a chat action is repeated during an upload: Telegram hides it after five seconds.
const ACTIVITY_INTERVAL: Duration = Duration::from_millis(4_500);

/// Makes a call. `show` is called periodically during an upload.
///
/// The outer error means that the call could not be started.
pub(crate) async fn send_with_uploads<T: DeserializeOwned>(
    client: &BotClient,
    blobs: &Arc<dyn Blobs>,
    composed: &ComposedMessage,
    show: impl Fn(),
) -> Result<Result<T, CallError>, SendError> {
    if composed.uploads.is_empty() {
        let body = serde_json::to_vec(&composed.fields).expect("texts and numbers are JSON");
        return Ok(client.request_json(composed.method, body, Duration::ZERO).await);
    }
    let progress = UploadProgress::new(composed.bytes());
    let form = open_form(composed, blobs, &progress).await?;
    Ok(show_while(client.upload(composed.method, form, &progress), ACTIVITY_INTERVAL, show).await)
}

/// Opens the files of a call. If one of them can't be opened, nothing has been sent.
async fn open_form(
    composed: &ComposedMessage,
    blobs: &Arc<dyn Blobs>,
    progress: &UploadProgress,
) -> Result<Form, SendError> {
    let mut form = Form::new();
    for (name, value) in &composed.fields {
        // Strings are sent as they are; everything else is JSON (Bot API, Making requests).
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        form = form.text(name.clone(), value);
    }
    for upload in &composed.uploads {
        let part =
            open_file_part(&**blobs, &upload.sha256, upload.bytes, &upload.filename, &upload.mime, progress).await?;
        form = form.part(upload.name.clone(), part);
    }
    Ok(form)
}

#[cfg(test)]
mod tests;
