//! What a part becomes in the words of the REST API: pure.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use satchel_domain::{
    Button, Filename, PartContent, PartId, Sha256,
    part::{FileItem, Markup, PreparedVoice},
};
use satchel_ports::SendRequest;
use serde::Serialize;
use serde_json::{Map, Value, json};
use serenity::{
    builder::{CreateActionRow, CreateAllowedMentions, CreateButton, CreateMessage, EditMessage},
    model::{
        application::ButtonStyle,
        channel::{MessageFlags, MessageReference, MessageReferenceKind, Nonce},
        id::{ChannelId, MessageId},
    },
};

use super::file_names;
use crate::{address::number, render};

/// The longest `custom_id` of a button in characters (Button).
const MAX_CUSTOM_ID_CHARS: usize = 100;

/// The longest label of a button in characters (Button).
const LONGEST_LABEL: usize = 80;

/// The most buttons of a row, and the most rows of a message (Action Row).
const ROW: usize = 5;

/// The longest description of a file in UTF-16 units (Attachment object).
const LONGEST_DESCRIPTION: usize = 1024;

/// The most points of a waveform (Voice Messages: "a waveform with up to 256 datapoints").
const POINTS: usize = 256;

/// A message, ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ComposedMessage {
    /// The message as JSON.
    pub(crate) payload: Map<String, Value>,
    /// The files that go with it, in the order of its `attachments`.
    pub(crate) uploads: Vec<FileUpload>,
}

/// A file of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileUpload {
    /// The address of its bytes.
    pub(crate) sha256: Sha256,
    pub(crate) bytes: u64,
    /// The file's name as people see it.
    pub(crate) filename: Filename,
    pub(crate) mime: String,
}

/// Why a part can't become a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComposeError {
    /// There is nothing to be sent.
    Empty,
    /// The message can't be made to show it.
    NotEditable,
}

/// What a message shows.
struct MessageBody<'part> {
    content: String,
    files: Vec<AttachedFile<'part>>,
    buttons: &'part [Button],
    is_voice: bool,
}

/// A file with what Discord is told about it.
struct AttachedFile<'part> {
    upload: FileUpload,
    description: &'part str,
    voice: Option<&'part PreparedVoice>,
}

/// The message that a part becomes.
pub(crate) fn new_message(part: &SendRequest, channel: u64, limit: usize) -> Result<ComposedMessage, ComposeError> {
    let shown = message_body(&part.content, limit)?;
    // Links that a model mentions are not meant as pictures of what they lead to.
    let flags = if shown.is_voice { MessageFlags::IS_VOICE_MESSAGE } else { MessageFlags::SUPPRESS_EMBEDS };
    let mut message = CreateMessage::new()
        .nonce(Nonce::String(nonce(part.part)))
        .enforce_nonce(true)
        .allowed_mentions(no_mentions())
        .flags(flags);
    if let Some(answered) = part.reply_to.as_ref().and_then(number) {
        message = message.reference_message(message_reference(channel, answered));
    }
    if !shown.is_voice && !shown.content.is_empty() {
        message = message.content(shown.content.clone());
    }
    if !shown.buttons.is_empty() {
        message = message.components(rows(shown.buttons));
    }
    Ok(ComposedMessage::new(&message, shown.files))
}

/// The change that makes a message show a part, and may be repeated. Where the part has files, those that the message
/// had go; where it has none, they stay: a reply that grows has none yet, and an edit of it that comes late takes none
/// away. Its buttons go either way.
pub(crate) fn edit(content: &PartContent, limit: usize) -> Result<ComposedMessage, ComposeError> {
    let shown = message_body(content, limit)?;
    if shown.is_voice {
        // Nothing can become a voice message.
        return Err(ComposeError::NotEditable);
    }
    let message =
        EditMessage::new().content(shown.content).allowed_mentions(no_mentions()).components(rows(shown.buttons));
    let composed = ComposedMessage::new(&message, shown.files);
    Ok(if composed.uploads.is_empty() { composed.text_only() } else { composed })
}

fn message_body(content: &PartContent, limit: usize) -> Result<MessageBody<'_>, ComposeError> {
    let rich = |text: &str| render::rich(text, limit);
    let of = |content: String, files| MessageBody { content, files, buttons: &[], is_voice: false };
    Ok(match content {
        PartContent::Text { text, markup: Markup::Rich, files } => of(rich(text), attached(files)),
        PartContent::Text { text, markup: Markup::Plain, files } => {
            of(render::to_plain_text(text, limit), attached(files))
        }
        PartContent::Notice { text } => of(rich(text), Vec::new()),
        PartContent::Question { text, buttons } => MessageBody { buttons, ..of(rich(text), Vec::new()) },
        PartContent::File(item) => of(String::new(), attached(std::slice::from_ref(item))),
        PartContent::Album { items } => of(String::new(), attached(items)),
        PartContent::Voice { prepared: Some(voice), as_file, caption, .. } => {
            let filename = Filename::from_untrusted(if *as_file { "voice.ogg" } else { "voice-message.ogg" });
            let upload =
                FileUpload { sha256: voice.sha256, bytes: voice.bytes, filename, mime: "audio/ogg".to_owned() };
            // A voice message has no words; a file of sound has them above itself, where they are seen.
            let (voice, words) = if *as_file { (None, rich(caption)) } else { (Some(voice), String::new()) };
            MessageBody { is_voice: !as_file, ..of(words, vec![AttachedFile { upload, description: "", voice }]) }
        }
        PartContent::Voice { prepared: None, .. } | PartContent::Withdraw => return Err(ComposeError::Empty),
    })
}

fn attached(items: &[FileItem]) -> Vec<AttachedFile<'_>> {
    let names = file_names::numbered(items.iter().map(|item| &item.attachment.filename));
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
        // serenity's attachments hold their bytes and know nothing of voices, so ours are written beside it.
        let described = files.iter().enumerate().map(|(index, file)| file.to_json(index));
        payload.insert("attachments".to_owned(), described.collect());
        Self { payload, uploads: files.into_iter().map(|file| file.upload).collect() }
    }

    /// Without its files: an edit to it leaves those that a message has.
    pub(crate) fn text_only(mut self) -> Self {
        self.payload.shift_remove("attachments");
        Self { uploads: Vec::new(), ..self }
    }

    /// Lets it answer nothing; `false` where it answered nothing before.
    pub(crate) fn remove_reply(&mut self) -> bool {
        self.payload.shift_remove("message_reference").is_some()
    }

    /// Its words as they are sent.
    pub(crate) fn text(&self) -> &str {
        self.payload.get("content").and_then(Value::as_str).unwrap_or_default()
    }

    /// How many bytes its files have.
    pub(crate) fn bytes(&self) -> u64 {
        self.uploads.iter().map(|upload| upload.bytes).sum()
    }
}

impl AttachedFile<'_> {
    /// What stands for it in the message: its number is that of its field in the form.
    fn to_json(&self, index: usize) -> Value {
        let mut described = json!({ "id": index.to_string(), "filename": self.upload.filename.as_str() });
        if let Some(title) = file_names::title(&self.upload.filename) {
            described["title"] = title.into();
        }
        if !self.description.is_empty() {
            described["description"] = cut(self.description, LONGEST_DESCRIPTION).into();
        }
        if let Some(voice) = self.voice {
            described["duration_secs"] = json!(std::time::Duration::from_millis(voice.duration_ms).as_secs_f64());
            described["waveform"] = waveform(&voice.waveform).into();
        }
        described
    }
}

/// The part's id as Discord takes it for a nonce: at most 25 characters.
fn nonce(part: PartId) -> String {
    URL_SAFE_NO_PAD.encode(part.0.as_bytes())
}

/// Nobody is pinged, whatever a text says.
fn no_mentions() -> CreateAllowedMentions {
    CreateAllowedMentions::new().replied_user(false)
}

/// The message that is answered. It may be gone.
fn message_reference(channel: u64, message: u64) -> MessageReference {
    MessageReference::new(MessageReferenceKind::Default, ChannelId::new(channel))
        .message_id(MessageId::new(message))
        .fail_if_not_exists(false)
}

/// Buttons in rows. One whose command is too long, or stands on another one, is left out: the words of the question
/// name it.
fn rows(buttons: &[Button]) -> Vec<CreateActionRow> {
    let mut fitting: Vec<&Button> = Vec::new();
    for button in buttons {
        let length = button.command.chars().count();
        let is_new = fitting.iter().all(|other| other.command != button.command);
        if (1..=MAX_CUSTOM_ID_CHARS).contains(&length) && is_new && fitting.len() < ROW * ROW {
            fitting.push(button);
        }
    }
    let made = |(index, button): (usize, &&Button)| {
        let style = if index == 0 { ButtonStyle::Primary } else { ButtonStyle::Secondary };
        CreateButton::new(&button.command).label(cut(&button.label, LONGEST_LABEL)).style(style)
    };
    let made: Vec<CreateButton> = fitting.iter().enumerate().map(made).collect();
    made.chunks(ROW).map(|row| CreateActionRow::Buttons(row.to_vec())).collect()
}

/// A waveform with no more points than Discord draws, and at least one, without which it is none.
fn waveform(points: &[u8]) -> String {
    let drawn = points.len().clamp(1, POINTS);
    let point = |index: usize| points.get(index * points.len() / drawn).copied().unwrap_or(0);
    STANDARD.encode((0..drawn).map(point).collect::<Vec<u8>>())
}

/// The text, cut where it is longer than so many UTF-16 units.
fn cut(text: &str, most: usize) -> String {
    if text.encode_utf16().count() <= most {
        return text.to_owned();
    }
    let mut left = most.saturating_sub(1);
    let fits = |c: &char| {
        let fits = c.len_utf16() <= left;
        left = left.saturating_sub(c.len_utf16());
        fits
    };
    let mut cut: String = text.chars().take_while(fits).collect();
    cut.push('…');
    cut
}
