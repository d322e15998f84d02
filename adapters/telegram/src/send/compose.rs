//! What a part becomes in the words of the Bot API: pure.

use satchel_domain::{
    Button, Filename, MessageRef, PartContent, Sha256,
    capabilities::TextLimit,
    part::{FileForm, FileItem, Markup, PreparedVoice},
};
use serde::Serialize;
use serde_json::{Map, Value};
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

use crate::{address::ConversationAddress, render::render};

/// What a voice is called that goes as a file.
pub(crate) const VOICE_NAME: &str = "voice.ogg";

/// The longest command that a button carries (Bot API, InlineKeyboardButton: "1-64 bytes").
const MAX_CALLBACK_DATA_BYTES: usize = 64;

/// How many characters the labels of buttons share on one row of a telephone.
const ROW: usize = 24;

/// A call, ready to be made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ComposedMessage {
    pub(crate) method: &'static str,
    /// Its parameters; a file's is `attach://` and the name of its upload.
    pub(crate) fields: Map<String, Value>,
    /// The files that go with it.
    pub(crate) uploads: Vec<FileUpload>,
    /// What people are shown while they go.
    pub(crate) activity: ChatAction,
}

/// A file of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileUpload {
    /// Its name in the request.
    pub(crate) name: String,
    /// The address of its bytes.
    pub(crate) sha256: Sha256,
    pub(crate) bytes: u64,
    /// The file's name as people see it.
    pub(crate) filename: Filename,
    pub(crate) mime: String,
}

/// Why a part can't become a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComposeError {
    /// There is nothing to be sent.
    Empty,
    /// Files can't ride on a text.
    FilesOnText,
    /// The message can't be made to show it.
    NotEditable,
}

/// The call that sends a part as a new message.
pub(crate) fn new_message(
    content: &PartContent,
    place: ConversationAddress,
    reply_to: Option<&MessageRef>,
    limit: &TextLimit,
) -> Result<ComposedMessage, ComposeError> {
    let to = SendTarget { place, reply: reply_to.and_then(reply) };
    match content {
        PartContent::Text { files, .. } if !files.is_empty() => Err(ComposeError::FilesOnText),
        PartContent::Text { text, markup, .. } => Ok(text_message(text, *markup, &[], &to, limit)),
        PartContent::Notice { text } => Ok(text_message(text, Markup::Rich, &[], &to, limit)),
        PartContent::Question { text, buttons } => Ok(text_message(text, Markup::Rich, buttons, &to, limit)),
        PartContent::File(item) => Ok(file(item, &to)),
        PartContent::Album { items } => match items.as_slice() {
            [only] => Ok(file(only, &to)),
            items => Ok(album(items, &to)),
        },
        PartContent::Voice { prepared: Some(voice), as_file, caption, .. } => {
            Ok(voice_message(voice, *as_file, caption, &to))
        }
        PartContent::Voice { prepared: None, .. } | PartContent::Withdraw => Err(ComposeError::Empty),
    }
}

/// The call that makes a message show a part. Buttons that it had go, unless the part has some.
pub(crate) fn edit(
    content: &PartContent,
    place: ConversationAddress,
    message: MessageId,
    limit: &TextLimit,
) -> Result<ComposedMessage, ComposeError> {
    let (text, markup, buttons): (_, _, &[Button]) = match content {
        PartContent::Text { text, markup, files } if files.is_empty() => (text, *markup, &[]),
        PartContent::Notice { text } => (text, Markup::Rich, &[]),
        PartContent::Question { text, buttons } => (text, Markup::Rich, buttons),
        PartContent::File(item) => {
            let (upload, input) = upload(item, 0);
            let payload = EditMessageMedia::new(place.chat, message, media(item, input));
            return Ok(ComposedMessage::new(&payload, vec![upload], activity(item.form)));
        }
        PartContent::Text { .. } => return Err(ComposeError::FilesOnText),
        PartContent::Withdraw => return Err(ComposeError::Empty),
        // An album is several messages, and a voice can't take the place of anything.
        PartContent::Album { .. } | PartContent::Voice { .. } => return Err(ComposeError::NotEditable),
    };
    let (text, mode) = render_text(text, markup, limit);
    let mut payload = EditMessageText::new(place.chat, message, text).link_preview_options(no_preview());
    payload.parse_mode = mode;
    payload.reply_markup = keyboard(buttons);
    Ok(ComposedMessage::new(&payload, Vec::new(), ChatAction::Typing))
}

/// Where a message goes.
struct SendTarget {
    place: ConversationAddress,
    reply: Option<ReplyParameters>,
}

/// Puts the topic and the message that is answered into any kind of payload; each has setters of its own.
macro_rules! addressed {
    ($payload:expr, $to:expr) => {{
        let mut payload = $payload;
        payload.message_thread_id = $to.place.topic;
        payload.reply_parameters = $to.reply.clone();
        payload
    }};
}

/// Puts a caption into any kind of payload. Descriptions are no Markdown, so nothing is rendered.
macro_rules! captioned {
    ($payload:expr, $caption:expr) => {{
        let mut payload = $payload;
        payload.caption = (!$caption.is_empty()).then(|| $caption.to_owned());
        payload
    }};
}

fn text_message(text: &str, markup: Markup, buttons: &[Button], to: &SendTarget, limit: &TextLimit) -> ComposedMessage {
    let (text, mode) = render_text(text, markup, limit);
    let mut payload = addressed!(SendMessage::new(to.place.chat, text), to).link_preview_options(no_preview());
    payload.parse_mode = mode;
    payload.reply_markup = keyboard(buttons).map(Into::into);
    ComposedMessage::new(&payload, Vec::new(), ChatAction::Typing)
}

fn file(item: &FileItem, to: &SendTarget) -> ComposedMessage {
    let (upload, input) = upload(item, 0);
    let (chat, caption, media, activity) = (to.place.chat, &item.caption, item.attachment.media, activity(item.form));
    let seconds = media.duration_ms.map(seconds);
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
            // What was meant as a file stays one.
            let payload = payload.disable_content_type_detection(true);
            ComposedMessage::new(&payload, vec![upload], activity)
        }
    }
}

fn album(items: &[FileItem], to: &SendTarget) -> ComposedMessage {
    let (mut uploads, mut group) = (Vec::new(), Vec::new());
    for (index, item) in items.iter().enumerate() {
        let (upload, input) = upload(item, index);
        uploads.push(upload);
        group.push(media(item, input));
    }
    let payload = addressed!(SendMediaGroup::new(to.place.chat, group), to);
    ComposedMessage::new(
        &payload,
        uploads,
        items.first().map_or(ChatAction::UploadDocument, |item| activity(item.form)),
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
    let duration = seconds(voice.duration_ms);
    if as_file {
        let payload = captioned!(addressed!(SendAudio::new(to.place.chat, input), to), caption).duration(duration);
        ComposedMessage::new(&payload, vec![upload], ChatAction::UploadVoice)
    } else {
        let payload = captioned!(addressed!(SendVoice::new(to.place.chat, input), to), caption).duration(duration);
        ComposedMessage::new(&payload, vec![upload], ChatAction::UploadVoice)
    }
}

/// A file as an item of an album, or in the place of what a message shows.
fn media(item: &FileItem, input: InputFile) -> InputMedia {
    let media = item.attachment.media;
    let short = |number: Option<u32>| number.and_then(|number| u16::try_from(number).ok());
    let seconds = short(media.duration_ms.map(seconds));
    match item.form {
        FileForm::Photo => InputMedia::Photo(captioned!(InputMediaPhoto::new(input), item.caption)),
        FileForm::Video => {
            let mut video = captioned!(InputMediaVideo::new(input), item.caption).supports_streaming(true);
            (video.width, video.height, video.duration) = (short(media.width), short(media.height), seconds);
            InputMedia::Video(video)
        }
        FileForm::Animation => {
            let mut animation = captioned!(InputMediaAnimation::new(input), item.caption);
            (animation.width, animation.height) = (short(media.width), short(media.height));
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

/// A file, and what stands for it among the parameters.
fn upload(item: &FileItem, index: usize) -> (FileUpload, InputFile) {
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

/// A text in the form in which it is sent. Where nothing of it would be seen, its marks are what it says.
fn render_text(text: &str, markup: Markup, limit: &TextLimit) -> (String, Option<ParseMode>) {
    match markup {
        Markup::Plain => (text.to_owned(), None),
        Markup::Rich => {
            let html = render(text, limit);
            if html.trim().is_empty() { (text.to_owned(), None) } else { (html, Some(ParseMode::Html)) }
        }
    }
}

/// Buttons in rows. One whose command is too long is left out: the words of the question name it.
fn keyboard(buttons: &[Button]) -> Option<InlineKeyboardMarkup> {
    let fits = |button: &&Button| !button.command.is_empty() && button.command.len() <= MAX_CALLBACK_DATA_BYTES;
    let mut rows: Vec<(usize, Vec<InlineKeyboardButton>)> = Vec::new();
    for Button { label, command } in buttons.iter().filter(fits) {
        let width = label.chars().count() + 2;
        let button = InlineKeyboardButton::callback(label.clone(), command.clone());
        match rows.last_mut() {
            Some((used, row)) if *used + width <= ROW => {
                *used += width;
                row.push(button);
            }
            _ => rows.push((width, vec![button])),
        }
    }
    (!rows.is_empty()).then(|| InlineKeyboardMarkup::new(rows.into_iter().map(|(_, row)| row)))
}

/// The message that is answered. It may be gone.
fn reply(message: &MessageRef) -> Option<ReplyParameters> {
    let message = message.0.parse().ok()?;
    Some(ReplyParameters::new(MessageId(message)).allow_sending_without_reply())
}

/// Links that a model mentions are not meant as pictures of what they lead to.
fn no_preview() -> LinkPreviewOptions {
    LinkPreviewOptions {
        is_disabled: true,
        url: None,
        prefer_small_media: false,
        prefer_large_media: false,
        show_above_text: false,
    }
}

fn activity(form: FileForm) -> ChatAction {
    match form {
        FileForm::Photo => ChatAction::UploadPhoto,
        FileForm::Video | FileForm::Animation => ChatAction::UploadVideo,
        FileForm::Audio => ChatAction::UploadVoice,
        FileForm::Document => ChatAction::UploadDocument,
    }
}

/// Whole seconds, never less than the playing time.
fn seconds(milliseconds: u64) -> u32 {
    u32::try_from(milliseconds.div_ceil(1_000)).unwrap_or(u32::MAX)
}

impl ComposedMessage {
    fn new<P: Payload + Serialize>(payload: &P, uploads: Vec<FileUpload>, activity: ChatAction) -> Self {
        let Ok(Value::Object(fields)) = serde_json::to_value(payload) else {
            unreachable!("a payload is a struct of texts and numbers");
        };
        Self { method: P::NAME, fields, uploads, activity }
    }

    /// How many bytes its files have.
    pub(crate) fn bytes(&self) -> u64 {
        self.uploads.iter().map(|upload| upload.bytes).sum()
    }
}
