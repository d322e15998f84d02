//! Composes the Bot API call for a part. Pure.

use satchel_domain::{
    Button, Filename, MessageRef, PartContent, Sha256,
    capabilities::TextLimit,
    part::{FileForm, FileItem, Markup, PreparedVoice},
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use teloxide::{
    payloads::{
        EditMessageMedia, EditMessageText, EditMessageTextSetters, SendAnimation, SendAudio, SendAudioSetters,
        SendDocument, SendDocumentSetters, SendMediaGroup, SendMessage, SendMessageSetters, SendPhoto, SendVideo,
        SendVideoSetters, SendVoice, SendVoiceSetters,
    },
    requests::Payload,
    types::{
        ChatAction, FileId, InlineKeyboardButton, InlineKeyboardMarkup, InputFile, InputMedia, InputMediaAnimation,
        InputMediaAudio, InputMediaDocument, InputMediaPhoto, InputMediaVideo, LinkPreviewOptions, MessageId,
        ParseMode, ReplyParameters,
    },
};

use crate::{
    address::ConversationAddress,
    render::{render, render_rich},
};

/// File name of a voice message that is sent as a file.
pub(crate) const VOICE_NAME: &str = "voice.ogg";

/// The method that sends a rich message (Bot API 10.1).
const SEND_RICH_MESSAGE: &str = "SendRichMessage";

/// Longest command of a button (Bot API, InlineKeyboardButton: "1-64 bytes").
const MAX_CALLBACK_DATA_BYTES: usize = 64;

/// How many characters the labels of one row of buttons may have, to fit on a phone.
const MAX_ROW_CHARS: usize = 24;

/// A composed Bot API call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ComposedMessage {
    pub(crate) method: &'static str,
    /// Its parameters; that of a file is `attach://` and the name of its upload.
    pub(crate) fields: Map<String, Value>,
    pub(crate) uploads: Vec<FileUpload>,
    /// The chat action that is shown during the upload.
    pub(crate) activity: ChatAction,
}

/// A file of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileUpload {
    /// Its name in the request.
    pub(crate) name: String,
    /// The digest of its bytes.
    pub(crate) sha256: Sha256,
    pub(crate) bytes: u64,
    /// The file's name as people see it.
    pub(crate) filename: Filename,
    pub(crate) mime: String,
}

/// Why a part can't be composed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComposeError {
    /// There is nothing to be sent.
    Empty,
    /// A text message can't carry files.
    FilesOnText,
    /// An existing message can't be edited into this content.
    NotEditable,
}

/// Composes the call that sends a part as a new message.
pub(crate) fn compose_message(
    content: &PartContent,
    address: ConversationAddress,
    reply_to: Option<&MessageRef>,
    limit: &TextLimit,
) -> Result<ComposedMessage, ComposeError> {
    let to = SendTarget { address, reply: reply_to.and_then(reply_parameters) };
    match content {
        PartContent::Text { files, .. } if !files.is_empty() => Err(ComposeError::FilesOnText),
        PartContent::Text { text, markup, .. } => Ok(text_message(text, *markup, &[], &to, limit)),
        PartContent::Notice { text } => Ok(text_message(text, Markup::Rich, &[], &to, limit)),
        PartContent::Question { text, markup, buttons } => Ok(text_message(text, *markup, buttons, &to, limit)),
        PartContent::File(item) => Ok(file_message(item, &to)),
        PartContent::Album { items } => match items.as_slice() {
            [only] => Ok(file_message(only, &to)),
            items => Ok(album_message(items, &to)),
        },
        PartContent::Voice { prepared: Some(voice), as_file, caption, .. } => {
            Ok(voice_message(voice, *as_file, caption, &to))
        }
        PartContent::Voice { prepared: None, .. } => Err(ComposeError::Empty),
    }
}

/// Composes the call that edits a message into a part. Its buttons are removed unless the part has some.
pub(crate) fn compose_edit(
    content: &PartContent,
    address: ConversationAddress,
    message: MessageId,
    limit: &TextLimit,
) -> Result<ComposedMessage, ComposeError> {
    let (text, markup, buttons): (_, _, &[Button]) = match content {
        PartContent::Text { text, markup, files } if files.is_empty() => (text, *markup, &[]),
        PartContent::Notice { text } => (text, Markup::Rich, &[]),
        PartContent::Question { text, markup, buttons } => (text, *markup, buttons),
        PartContent::File(item) => {
            let (upload, input) = file_upload(item, 0);
            let payload = EditMessageMedia::new(address.chat, message, input_media(item, input));
            return Ok(ComposedMessage::new(&payload, vec![upload], upload_action(item.form)));
        }
        PartContent::Text { .. } => return Err(ComposeError::FilesOnText),
        // An album is several messages, and no message can be edited into a voice message.
        PartContent::Album { .. } | PartContent::Voice { .. } => return Err(ComposeError::NotEditable),
    };
    let rich = rich_message(text, markup);
    let (text, mode) = render_text(text, markup, limit);
    let mut payload = EditMessageText::new(address.chat, message, text).link_preview_options(disabled_link_preview());
    payload.parse_mode = mode;
    payload.reply_markup = inline_keyboard(buttons);
    let composed = ComposedMessage::new(&payload, Vec::new(), ChatAction::Typing);
    Ok(match rich {
        Some(rich) => composed.with_rich_message(EditMessageText::NAME, rich),
        None => composed,
    })
}

/// Where a message goes.
struct SendTarget {
    address: ConversationAddress,
    reply: Option<ReplyParameters>,
}

/// Sets the topic and the replied-to message of any kind of payload; each has setters of its own.
macro_rules! addressed {
    ($payload:expr, $to:expr) => {{
        let mut payload = $payload;
        payload.message_thread_id = $to.address.topic;
        payload.reply_parameters = $to.reply.clone();
        payload
    }};
}

/// Sets the caption of any kind of payload. Captions are plain text, so nothing is rendered.
macro_rules! captioned {
    ($payload:expr, $caption:expr) => {{
        let mut payload = $payload;
        payload.caption = (!$caption.is_empty()).then(|| $caption.to_owned());
        payload
    }};
}

fn text_message(text: &str, markup: Markup, buttons: &[Button], to: &SendTarget, limit: &TextLimit) -> ComposedMessage {
    let rich = rich_message(text, markup);
    let (text, mode) = render_text(text, markup, limit);
    let mut payload =
        addressed!(SendMessage::new(to.address.chat, text), to).link_preview_options(disabled_link_preview());
    payload.parse_mode = mode;
    payload.reply_markup = inline_keyboard(buttons).map(Into::into);
    let composed = ComposedMessage::new(&payload, Vec::new(), ChatAction::Typing);
    match rich {
        Some(rich) => composed.with_rich_message(SEND_RICH_MESSAGE, rich),
        None => composed,
    }
}

/// InputRichMessage, for a text that is sent in blocks and of which something is seen.
fn rich_message(text: &str, markup: Markup) -> Option<Value> {
    let html = (markup == Markup::Blocks).then(|| render_rich(text)).filter(|html| !html.is_empty())?;
    // What is meant as a link is one already. What Telegram would find besides may be none, and refused as such.
    Some(json!({ "html": html, "skip_entity_detection": true }))
}

fn file_message(item: &FileItem, to: &SendTarget) -> ComposedMessage {
    let (upload, input) = file_upload(item, 0);
    let (chat, caption, media, activity) =
        (to.address.chat, &item.caption, item.attachment.media, upload_action(item.form));
    let seconds = media.duration_ms.map(whole_seconds);
    match item.form {
        FileForm::Photo => {
            let payload = captioned!(addressed!(SendPhoto::new(chat, input), to), caption);
            ComposedMessage::new(&payload, vec![upload], activity)
        }
        FileForm::Video => {
            let payload = captioned!(addressed!(SendVideo::new(chat, input), to), caption);
            let mut payload = payload.supports_streaming(true);
            (payload.width, payload.height, payload.duration) = (media.width, media.height, seconds);
            ComposedMessage::new(&payload, vec![upload], activity)
        }
        FileForm::Animation => {
            let mut payload = captioned!(addressed!(SendAnimation::new(chat, input), to), caption);
            (payload.width, payload.height, payload.duration) = (media.width, media.height, seconds);
            ComposedMessage::new(&payload, vec![upload], activity)
        }
        FileForm::Audio => {
            let mut payload = captioned!(addressed!(SendAudio::new(chat, input), to), caption);
            payload.duration = seconds;
            ComposedMessage::new(&payload, vec![upload], activity)
        }
        FileForm::Document => {
            let payload = captioned!(addressed!(SendDocument::new(chat, input), to), caption);
            // Otherwise Telegram may turn the document into a photo or video.
            let payload = payload.disable_content_type_detection(true);
            ComposedMessage::new(&payload, vec![upload], activity)
        }
    }
}

fn album_message(items: &[FileItem], to: &SendTarget) -> ComposedMessage {
    let (mut uploads, mut group) = (Vec::new(), Vec::new());
    for (index, item) in items.iter().enumerate() {
        let (upload, input) = file_upload(item, index);
        uploads.push(upload);
        group.push(input_media(item, input));
    }
    let payload = addressed!(SendMediaGroup::new(to.address.chat, group), to);
    ComposedMessage::new(
        &payload,
        uploads,
        items.first().map_or(ChatAction::UploadDocument, |item| upload_action(item.form)),
    )
}

fn voice_message(voice: &PreparedVoice, as_file: bool, caption: &str, to: &SendTarget) -> ComposedMessage {
    let name = "file0".to_owned();
    let input = InputFile::file_id(FileId(format!("attach://{name}")));
    let upload = FileUpload {
        name,
        sha256: voice.sha256,
        bytes: voice.bytes,
        filename: Filename::from_untrusted(VOICE_NAME),
        mime: "audio/ogg".to_owned(),
    };
    let duration = whole_seconds(voice.duration_ms);
    if as_file {
        let payload = captioned!(addressed!(SendAudio::new(to.address.chat, input), to), caption).duration(duration);
        ComposedMessage::new(&payload, vec![upload], ChatAction::UploadVoice)
    } else {
        let payload = captioned!(addressed!(SendVoice::new(to.address.chat, input), to), caption).duration(duration);
        ComposedMessage::new(&payload, vec![upload], ChatAction::UploadVoice)
    }
}

/// Composes a file as an item of an album or as the new media of a message.
fn input_media(item: &FileItem, input: InputFile) -> InputMedia {
    let media = item.attachment.media;
    let to_u16 = |number: Option<u32>| number.and_then(|number| u16::try_from(number).ok());
    let seconds = to_u16(media.duration_ms.map(whole_seconds));
    match item.form {
        FileForm::Photo => InputMedia::Photo(captioned!(InputMediaPhoto::new(input), item.caption)),
        FileForm::Video => {
            let mut video = captioned!(InputMediaVideo::new(input), item.caption).supports_streaming(true);
            (video.width, video.height, video.duration) = (to_u16(media.width), to_u16(media.height), seconds);
            InputMedia::Video(video)
        }
        FileForm::Animation => {
            let mut animation = captioned!(InputMediaAnimation::new(input), item.caption);
            (animation.width, animation.height) = (to_u16(media.width), to_u16(media.height));
            animation.duration = seconds;
            InputMedia::Animation(animation)
        }
        FileForm::Audio => {
            let mut audio = captioned!(InputMediaAudio::new(input), item.caption);
            audio.duration = seconds;
            InputMedia::Audio(audio)
        }
        FileForm::Document => {
            let mut document = captioned!(InputMediaDocument::new(input), item.caption);
            document.disable_content_type_detection = Some(true);
            InputMedia::Document(document)
        }
    }
}

/// Returns the upload of a file and the parameter that refers to it.
fn file_upload(item: &FileItem, index: usize) -> (FileUpload, InputFile) {
    let name = format!("file{index}");
    let input = InputFile::file_id(FileId(format!("attach://{name}")));
    let attachment = &item.attachment;
    let upload = FileUpload {
        name,
        sha256: attachment.sha256,
        bytes: attachment.bytes,
        filename: attachment.filename.clone(),
        mime: attachment.mime.clone(),
    };
    (upload, input)
}

/// Renders a text for sending. If nothing of it would be visible, it is sent unrendered.
pub(super) fn render_text(text: &str, markup: Markup, limit: &TextLimit) -> (String, Option<ParseMode>) {
    match markup {
        Markup::Plain => (text.to_owned(), None),
        Markup::Rich | Markup::Blocks => {
            let html = render(text, limit);
            if html.trim().is_empty() { (text.to_owned(), None) } else { (html, Some(ParseMode::Html)) }
        }
    }
}

/// Arranges buttons in rows. A button whose command is too long is dropped: the text of the question names the command.
fn inline_keyboard(buttons: &[Button]) -> Option<InlineKeyboardMarkup> {
    let is_sendable = |button: &&Button| !button.command.is_empty() && button.command.len() <= MAX_CALLBACK_DATA_BYTES;
    let mut rows: Vec<(usize, Vec<InlineKeyboardButton>)> = Vec::new();
    for Button { label, command } in buttons.iter().filter(is_sendable) {
        let width = label.chars().count() + 2;
        let button = InlineKeyboardButton::callback(label.clone(), command.clone());
        match rows.last_mut() {
            Some((row_chars, row)) if *row_chars + width <= MAX_ROW_CHARS => {
                *row_chars += width;
                row.push(button);
            }
            _ => rows.push((width, vec![button])),
        }
    }
    (!rows.is_empty()).then(|| InlineKeyboardMarkup::new(rows.into_iter().map(|(_, row)| row)))
}

/// Parameters of a reply. The replied-to message may have been deleted.
fn reply_parameters(message: &MessageRef) -> Option<ReplyParameters> {
    let message = message.0.parse().ok()?;
    Some(ReplyParameters::new(MessageId(message)).allow_sending_without_reply())
}

/// Disables link previews: links that a model mentions are not meant as content.
fn disabled_link_preview() -> LinkPreviewOptions {
    LinkPreviewOptions {
        is_disabled: true,
        url: None,
        prefer_small_media: false,
        prefer_large_media: false,
        show_above_text: false,
    }
}

fn upload_action(form: FileForm) -> ChatAction {
    match form {
        FileForm::Photo => ChatAction::UploadPhoto,
        FileForm::Video | FileForm::Animation => ChatAction::UploadVideo,
        FileForm::Audio => ChatAction::UploadVoice,
        FileForm::Document => ChatAction::UploadDocument,
    }
}

/// Converts to whole seconds, rounded up.
fn whole_seconds(milliseconds: u64) -> u32 {
    u32::try_from(milliseconds.div_ceil(1_000)).unwrap_or(u32::MAX)
}

impl ComposedMessage {
    fn new<P: Payload + Serialize>(payload: &P, uploads: Vec<FileUpload>, activity: ChatAction) -> Self {
        let Ok(Value::Object(fields)) = serde_json::to_value(payload) else {
            unreachable!("a payload is a struct of texts and numbers");
        };
        Self { method: P::NAME, fields, uploads, activity }
    }

    /// Makes a call with a text one with a rich message in its place. The library has no payload for them yet.
    fn with_rich_message(mut self, method: &'static str, rich: Value) -> Self {
        for text_field in ["text", "parse_mode", "link_preview_options"] {
            self.fields.remove(text_field);
        }
        self.fields.insert("rich_message".to_owned(), rich);
        Self { method, ..self }
    }

    /// Whether it sends or edits a rich message.
    pub(crate) fn is_rich(&self) -> bool {
        self.fields.contains_key("rich_message")
    }

    /// Total size of its uploads.
    pub(crate) fn bytes(&self) -> u64 {
        self.uploads.iter().map(|upload| upload.bytes).sum()
    }
}
