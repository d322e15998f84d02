//! Sends a part through the REST API: composes the message, uploads its files, and compares the response with it.
//!
//! With `enforce_nonce` the response to a new message may show an older one that an earlier attempt of the same part
//! posted (Create Message), so its content can differ from what was sent now.

use std::{collections::HashSet, sync::Arc, time::Duration};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use reqwest::multipart::{Form, Part};
use satchel_domain::{
    Button, Filename, PartContent, PartId, Sha256,
    delivery::SendError,
    part::{FileItem, Markup, PreparedVoice},
};
use satchel_platform_http::{UploadProgress, open_file_part, show_while, with_content_type};
use satchel_ports::{Blobs, PostRequest};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use serenity::{
    builder::{CreateActionRow, CreateAllowedMentions, CreateButton, CreateMessage, EditMessage},
    model::{
        application::ButtonStyle,
        channel::{MessageFlags, MessageReference, MessageReferenceKind, Nonce},
        id::{ChannelId, MessageId},
    },
};

use crate::{
    filenames::UploadName,
    render,
    rest::{ApiRequest, CallError, RestClient},
    snowflake::message_id,
};

/// How often the typing indicator is shown during an upload; Discord removes it after ten seconds.
const ACTIVITY_INTERVAL: Duration = Duration::from_secs(8);

/// The longest `custom_id` of a button in characters (Button).
const MAX_CUSTOM_ID_CHARS: usize = 100;

/// The longest label of a button in characters (Button).
const MAX_LABEL_CHARS: usize = 80;

/// The maximum number of buttons in a row, and of rows in a message (Action Row).
const MAX_PER_ROW: usize = 5;

/// The longest description of a file in UTF-16 units (Attachment object).
const MAX_DESCRIPTION_UNITS: usize = 1024;

/// The maximum number of points in a waveform (Voice Messages: "a waveform with up to 256 datapoints").
const MAX_WAVEFORM_POINTS: usize = 256;

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

/// A message, ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ComposedMessage {
    /// The message as JSON.
    pub(crate) payload: Map<String, Value>,
    /// The files to upload, in the order of `attachments`.
    pub(crate) uploads: Vec<FileUpload>,
}

/// A file of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileUpload {
    /// The address of its bytes in the file store.
    pub(crate) sha256: Sha256,
    pub(crate) bytes: u64,
    /// The file's name as people see it.
    pub(crate) filename: Filename,
    pub(crate) mime: String,
}

/// Why a part can't become a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComposeError {
    /// The part has nothing to send.
    Empty,
    /// A message can't be edited to show the part.
    NotEditable,
}

/// The content of a message.
struct MessageBody<'part> {
    content: String,
    files: Vec<AttachedFile<'part>>,
    buttons: &'part [Button],
    is_voice: bool,
}

/// A file with its metadata.
struct AttachedFile<'part> {
    upload: FileUpload,
    description: &'part str,
    voice: Option<&'part PreparedVoice>,
}

/// Composes a new message for a part.
pub(crate) fn new_message(
    request: &PostRequest,
    channel_id: u64,
    limit: usize,
) -> Result<ComposedMessage, ComposeError> {
    let body = message_body(&request.content, limit)?;
    // A link in a model's answer needs no preview.
    let flags = if body.is_voice { MessageFlags::IS_VOICE_MESSAGE } else { MessageFlags::SUPPRESS_EMBEDS };
    let mut message = CreateMessage::new()
        .nonce(Nonce::String(nonce(request.part_id)))
        .enforce_nonce(true)
        .allowed_mentions(no_mentions())
        .flags(flags);
    if let Some(replied_to) = request.reply_to.as_ref().and_then(message_id) {
        message = message.reference_message(message_reference(channel_id, replied_to));
    }
    if !body.is_voice && !body.content.is_empty() {
        message = message.content(body.content.clone());
    }
    if !body.buttons.is_empty() {
        message = message.components(button_rows(body.buttons));
    }
    Ok(ComposedMessage::new(&message, body.files))
}

/// Composes an idempotent edit that makes a message show a part. Files of the part replace the message's; without any,
/// the message keeps its files, so that a late edit of a draft removes none. Its buttons are always replaced.
pub(crate) fn edit(content: &PartContent, limit: usize) -> Result<ComposedMessage, ComposeError> {
    let body = message_body(content, limit)?;
    if body.is_voice {
        // No message can be edited into a voice message.
        return Err(ComposeError::NotEditable);
    }
    let message =
        EditMessage::new().content(body.content).allowed_mentions(no_mentions()).components(button_rows(body.buttons));
    let composed = ComposedMessage::new(&message, body.files);
    Ok(if composed.uploads.is_empty() { composed.text_only() } else { composed })
}

fn message_body(content: &PartContent, limit: usize) -> Result<MessageBody<'_>, ComposeError> {
    let rich = |text: &str| render::render_markdown(text, limit);
    let to_body = |content: String, files| MessageBody { content, files, buttons: &[], is_voice: false };
    Ok(match content {
        PartContent::Text { text, markup: Markup::Rich | Markup::Blocks, files } => {
            to_body(rich(text), attached_files(files))
        }
        PartContent::Text { text, markup: Markup::Plain, files } => {
            to_body(render::to_plain_text(text, limit), attached_files(files))
        }
        PartContent::Notice { text } => to_body(rich(text), Vec::new()),
        PartContent::Question { text, buttons, .. } => MessageBody { buttons, ..to_body(rich(text), Vec::new()) },
        PartContent::File(item) => to_body(String::new(), attached_files(std::slice::from_ref(item))),
        PartContent::Album { items } => to_body(String::new(), attached_files(items)),
        PartContent::Voice { prepared: Some(voice), as_file, caption, .. } => {
            let filename = Filename::from_untrusted(if *as_file { "voice.ogg" } else { "voice-message.ogg" });
            let upload =
                FileUpload { sha256: voice.sha256, bytes: voice.bytes, filename, mime: "audio/ogg".to_owned() };
            // A voice message has no text; an audio file shows its caption above.
            let (voice, text) = if *as_file { (None, rich(caption)) } else { (Some(voice), String::new()) };
            MessageBody { is_voice: !as_file, ..to_body(text, vec![AttachedFile { upload, description: "", voice }]) }
        }
        PartContent::Voice { prepared: None, .. } => return Err(ComposeError::Empty),
    })
}

fn attached_files(items: &[FileItem]) -> Vec<AttachedFile<'_>> {
    let names = number_duplicates(items.iter().map(|item| &item.attachment.filename));
    let file = |(item, filename): (_, Filename)| {
        let FileItem { attachment, caption, .. }: &FileItem = item;
        let upload =
            FileUpload { sha256: attachment.sha256, bytes: attachment.bytes, filename, mime: attachment.mime.clone() };
        AttachedFile { upload, description: caption, voice: None }
    };
    items.iter().zip(names).map(file).collect()
}

impl ComposedMessage {
    fn new(message: &impl Serialize, files: Vec<AttachedFile<'_>>) -> Self {
        let Ok(Value::Object(mut payload)) = serde_json::to_value(message) else {
            unreachable!("a message is a struct of texts and numbers");
        };
        // serenity's attachments hold their bytes and have no voice metadata, so ours are added here.
        let attachments = files.iter().enumerate().map(|(index, file)| file.to_json(index));
        payload.insert("attachments".to_owned(), attachments.collect());
        Self { payload, uploads: files.into_iter().map(|file| file.upload).collect() }
    }

    /// Returns the message without its files; as an edit it leaves the message's files in place.
    pub(crate) fn text_only(mut self) -> Self {
        self.payload.shift_remove("attachments");
        Self { uploads: Vec::new(), ..self }
    }

    /// Removes the reference to the message that it replies to. Returns whether there was one.
    pub(crate) fn remove_reply(&mut self) -> bool {
        self.payload.shift_remove("message_reference").is_some()
    }

    /// Returns the text as it is sent.
    pub(crate) fn text(&self) -> &str {
        self.payload.get("content").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the total size of its files in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.uploads.iter().map(|upload| upload.bytes).sum()
    }
}

impl AttachedFile<'_> {
    /// Returns the attachment object; its id is the index of the file's field in the form.
    fn to_json(&self, index: usize) -> Value {
        let UploadName { filename, title } = UploadName::new(&self.upload.filename);
        let mut attachment = json!({ "id": index.to_string(), "filename": filename });
        if let Some(title) = title {
            attachment["title"] = title.into();
        }
        if !self.description.is_empty() {
            attachment["description"] = truncate_units(self.description, MAX_DESCRIPTION_UNITS).into();
        }
        if let Some(voice) = self.voice {
            attachment["duration_secs"] = json!(Duration::from_millis(voice.duration_ms).as_secs_f64());
            attachment["waveform"] = encode_waveform(&voice.waveform).into();
        }
        attachment
    }
}

/// Returns the part's id as a nonce, which has at most 25 characters.
fn nonce(part: PartId) -> String {
    URL_SAFE_NO_PAD.encode(part.0.as_bytes())
}

fn no_mentions() -> CreateAllowedMentions {
    CreateAllowedMentions::new().replied_user(false)
}

/// Refers to the message that is replied to, which may be deleted.
fn message_reference(channel_id: u64, message_id: u64) -> MessageReference {
    MessageReference::new(MessageReferenceKind::Default, ChannelId::new(channel_id))
        .message_id(MessageId::new(message_id))
        .fail_if_not_exists(false)
}

/// Arranges buttons in rows. A button is left out if its command is too long or a duplicate: the question's text
/// contains the command.
fn button_rows(buttons: &[Button]) -> Vec<CreateActionRow> {
    let mut sendable: Vec<&Button> = Vec::new();
    for button in buttons {
        let length = button.command.chars().count();
        let is_new = sendable.iter().all(|other| other.command != button.command);
        if (1..=MAX_CUSTOM_ID_CHARS).contains(&length) && is_new && sendable.len() < MAX_PER_ROW * MAX_PER_ROW {
            sendable.push(button);
        }
    }
    let to_button = |(index, button): (usize, &&Button)| {
        let style = if index == 0 { ButtonStyle::Primary } else { ButtonStyle::Secondary };
        CreateButton::new(&button.command).label(truncate_units(&button.label, MAX_LABEL_CHARS)).style(style)
    };
    let created: Vec<CreateButton> = sendable.iter().enumerate().map(to_button).collect();
    created.chunks(MAX_PER_ROW).map(|row| CreateActionRow::Buttons(row.to_vec())).collect()
}

/// Encodes a waveform with at least one point and at most as many as Discord draws.
fn encode_waveform(points: &[u8]) -> String {
    let point_count = points.len().clamp(1, MAX_WAVEFORM_POINTS);
    let point = |index: usize| points.get(index * points.len() / point_count).copied().unwrap_or(0);
    STANDARD.encode((0..point_count).map(point).collect::<Vec<u8>>())
}

/// Truncates a text to a maximum number of UTF-16 units.
fn truncate_units(text: &str, max_units: usize) -> String {
    if text.encode_utf16().count() <= max_units {
        return text.to_owned();
    }
    let mut remaining = max_units.saturating_sub(1);
    let fits = |c: &char| {
        let fits = c.len_utf16() <= remaining;
        remaining = remaining.saturating_sub(c.len_utf16());
        fits
    };
    let mut truncated: String = text.chars().take_while(fits).collect();
    truncated.push('…');
    truncated
}

/// Adds a number to the second and later files of one name.
fn number_duplicates<'name>(names: impl IntoIterator<Item = &'name Filename>) -> Vec<Filename> {
    let mut taken = HashSet::new();
    let mut unique = Vec::new();
    for name in names {
        let mut candidate = name.clone();
        // A message has at most ten files, so the search is short.
        for number in 2.. {
            if taken.insert(candidate.as_str().to_lowercase()) {
                break;
            }
            candidate = name.with_number(number);
        }
        unique.push(candidate);
    }
    unique
}

/// A message in a response. Fields of an unknown form don't make the response undecodable.
#[derive(Debug, Deserialize)]
pub(crate) struct SentMessage {
    /// Its id, as text.
    pub(crate) id: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    attachments: Value,
}

impl SentMessage {
    /// Whether its text or files differ from what was composed. What the response doesn't show counts as equal, and so
    /// do the files of a message composed without any: an edit of the text leaves them in place.
    pub(crate) fn is_different_from(&self, composed: &ComposedMessage) -> bool {
        let has_other_text = self.content.as_str().is_some_and(|content| !is_same_text(content, composed.text()));
        // Discord rewrites names; the number and sizes of the files are sufficient.
        let has_other_files = self.attachments.as_array().is_some_and(|files| {
            let has_other_size = |(file, sent): (&Value, u64)| file_size(file).is_some_and(|size| size != sent);
            let sent = composed.uploads.iter().map(|upload| upload.bytes);
            files.len() != sent.len() || files.iter().zip(sent).any(has_other_size)
        });
        has_other_text || !composed.uploads.is_empty() && has_other_files
    }

    /// Whether the response shows the same number of files with the same sizes.
    pub(crate) fn has_files_of(&self, composed: &ComposedMessage) -> bool {
        let sent = composed.uploads.iter().map(|upload| Some(upload.bytes));
        self.attachments.as_array().is_some_and(|files| files.iter().map(file_size).eq(sent))
    }
}

fn file_size(file: &Value) -> Option<u64> {
    file.get("size").and_then(Value::as_u64)
}

/// Whether Discord shows `sent` as `shown`. It "may strip certain characters" (Create Message): whitespace at the ends
/// and invisible characters.
pub(crate) fn is_same_text(shown: &str, sent: &str) -> bool {
    let visible = |text: &str| text.chars().filter(|c| !is_invisible(*c)).collect::<String>();
    shown.trim() == sent.trim() || visible(shown).trim() == visible(sent).trim()
}

/// Whether a character is a control character other than a line feed or tab, or a direction or zero-width mark.
fn is_invisible(c: char) -> bool {
    let is_control = c.is_control() && !matches!(c, '\n' | '\t');
    is_control || matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests;
