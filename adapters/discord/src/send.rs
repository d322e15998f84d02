//! Sends a part through the REST API: composes the message and uploads its files.

mod compose;
mod file_names;
mod sent;

use std::{sync::Arc, time::Duration};

use reqwest::multipart::{Form, Part};
use satchel_domain::delivery::SendError;
use satchel_platform_http::{UploadProgress, open_file_part, show_while, with_content_type};
use satchel_ports::Blobs;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use compose::{ComposeError, ComposedMessage, edit, new_message};
pub(crate) use file_names::is_same_name;
pub(crate) use sent::{SentMessage, is_same_text};

use crate::rest::{ApiRequest, CallError, RestClient};

/// How often the typing indicator is shown during an upload; Discord removes it after ten seconds.
const ACTIVITY_INTERVAL: Duration = Duration::from_secs(8);

/// Sends a request. `show_activity` is called every [`ACTIVITY_INTERVAL`] while files are uploaded.
///
/// The outer error means that the request was not started.
pub(crate) async fn send_with_uploads<T: DeserializeOwned>(
    client: &RestClient,
    blobs: &Arc<dyn Blobs>,
    request: ApiRequest,
    composed: &ComposedMessage,
    show_activity: impl Fn(),
) -> Result<Result<T, CallError>, SendError> {
    if composed.uploads.is_empty() {
        return Ok(client.request(request).await);
    }
    let progress = UploadProgress::new(composed.bytes());
    let form = open_form(composed, blobs, &progress).await?;
    Ok(show_while(client.upload(request, form, &progress), ACTIVITY_INTERVAL, show_activity).await)
}

/// Opens the files of a request. If one of them can't be read, nothing has been sent.
async fn open_form(
    composed: &ComposedMessage,
    blobs: &Arc<dyn Blobs>,
    progress: &UploadProgress,
) -> Result<Form, SendError> {
    let payload = Value::Object(composed.payload.clone()).to_string();
    let mut form = Form::new().part("payload_json", with_content_type(Part::text(payload), "application/json"));
    for (index, upload) in composed.uploads.iter().enumerate() {
        let part =
            open_file_part(&**blobs, &upload.sha256, upload.bytes, &upload.filename, &upload.mime, progress).await?;
        form = form.part(format!("files[{index}]"), part);
    }
    Ok(form)
}

#[cfg(test)]
mod tests;
