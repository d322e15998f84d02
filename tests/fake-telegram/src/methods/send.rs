//! Methods that put something new into a chat.

use serde_json::{Value, json};

use crate::{
    TelegramRules,
    call::ReceivedCall,
    keyboard, media,
    message::{FileKind, FormattedText, TelegramContent, TelegramMessage},
    objects,
    platform_state::{BOT, PlatformState},
    refusal::{ApiRefusal, bad},
    rich, text, topics,
};

/// sendMessage.
pub(crate) fn text(
    platform: &mut PlatformState,
    rules: &TelegramRules,
    call: &ReceivedCall,
) -> Result<Value, ApiRefusal> {
    let begun = begin_with_buttons(platform, rules, call)?;
    let words = text::read_text(call, "text")?;
    if words.text.is_empty() {
        return Err(bad("message text is empty"));
    }
    if words.units() > rules.text_units {
        return Err(bad("message is too long"));
    }
    Ok(put(platform, TelegramMessage { words: words.keep_entities(rules.entities), ..begun }))
}

/// sendRichMessage.
pub(crate) fn rich(
    platform: &mut PlatformState,
    rules: &TelegramRules,
    call: &ReceivedCall,
) -> Result<Value, ApiRefusal> {
    let begun = begin_with_buttons(platform, rules, call)?;
    let Some(content) = rich::read(call)? else { return Err(bad("rich message is empty")) };
    Ok(put(platform, TelegramMessage { words: content.words(), content: TelegramContent::Rich(content), ..begun }))
}

/// sendPhoto and its equals, one file each.
pub(crate) fn file(
    platform: &mut PlatformState,
    rules: &TelegramRules,
    call: &ReceivedCall,
) -> Result<Value, ApiRefusal> {
    let kind = match call.method.as_str() {
        "sendphoto" => FileKind::Photo,
        "sendvoice" => FileKind::Voice,
        "sendaudio" => FileKind::Audio,
        "sendvideo" => FileKind::Video,
        "sendvideonote" => FileKind::VideoNote,
        "sendanimation" => FileKind::Animation,
        _ => FileKind::Document,
    };
    let begun = begin_with_buttons(platform, rules, call)?;
    // sendVideoNote has no caption.
    let words = match kind {
        FileKind::VideoNote => FormattedText::default(),
        _ => caption(rules, text::read_text(call, "caption")?)?,
    };
    if matches!(kind, FileKind::Voice | FileKind::VideoNote) && platform.chat(begun.chat).forbids_voice {
        // A person's privacy settings; the words come from Telegram's own errors.
        return Err(bad("VOICE_MESSAGES_FORBIDDEN"));
    }
    let mut file = media::find(platform, rules, call, kind.field(), kind)?;
    let integer = |field: &str| call.integer(field).and_then(|number| u32::try_from(number).ok());
    if !matches!(kind, FileKind::Photo | FileKind::Document) {
        file.duration = integer("duration").unwrap_or(file.duration);
    }
    if matches!(kind, FileKind::Video | FileKind::Animation) {
        file.sides = integer("width").zip(integer("height")).unwrap_or(file.sides);
    }
    Ok(put(platform, TelegramMessage { words, content: TelegramContent::File(file), ..begun }))
}

/// sendMediaGroup: all of it or nothing.
pub(crate) fn album(
    platform: &mut PlatformState,
    rules: &TelegramRules,
    call: &ReceivedCall,
) -> Result<Value, ApiRefusal> {
    let begun = begin(platform, call).map_err(|refusal| of_item(0, refusal))?;
    let Some(Value::Array(items)) = call.json("media")? else {
        return Err(bad("can't parse media JSON object"));
    };
    if !rules.album.contains(&items.len()) {
        // sendMediaGroup: media, "must include 2-10 items".
        return Err(bad(if items.len() < 2 {
            "media must include 2-10 items"
        } else {
            "too many messages to send as an album"
        }));
    }
    let kinds = items.iter().map(kind_of_item).collect::<Result<Vec<_>, _>>()?;
    let visual = |kind: &FileKind| matches!(kind, FileKind::Photo | FileKind::Video);
    let alike = kinds.iter().all(|kind| *kind == kinds[0]);
    if !kinds.iter().all(visual) && !alike {
        // sendMediaGroup: "Documents and audio files can be only grouped in an album with messages of the same type."
        let mixed = if kinds.contains(&FileKind::Audio) { "audio" } else { "document" };
        return Err(bad(format!("{mixed} can't be mixed with other media types")));
    }
    let mut messages = Vec::new();
    for (index, (item, kind)) in items.iter().zip(&kinds).enumerate() {
        let mode = item["parse_mode"].as_str();
        let read = text::parse(item["caption"].as_str().unwrap_or_default(), mode, item.get("caption_entities"))?;
        let words = caption(rules, read)?;
        let named = ReceivedCall::of_item(call, item);
        let mut file =
            media::find(platform, rules, &named, "media", *kind).map_err(|refusal| of_item(index, refusal))?;
        file.duration = item["duration"].as_u64().and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(0);
        messages.push(TelegramMessage { words, content: TelegramContent::File(file), ..begun.clone() });
    }
    let album = platform.new_album();
    let put = |message| put(platform, TelegramMessage { album: Some(album.clone()), ..message });
    Ok(messages.into_iter().map(put).collect())
}

/// sendChatAction.
pub(crate) fn action(platform: &mut PlatformState, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    const ACTIONS: [&str; 11] = [
        "typing",
        "upload_photo",
        "record_video",
        "upload_video",
        "record_voice",
        "upload_voice",
        "upload_document",
        "choose_sticker",
        "find_location",
        "record_video_note",
        "upload_video_note",
    ];
    let chat = platform.chat_of(call)?;
    topics::named_topic(platform, call, chat)?;
    let action = call.text("action").unwrap_or_default();
    if !ACTIONS.contains(&action.as_str()) {
        return Err(bad("wrong parameter action in request"));
    }
    platform.chat_mut(chat).actions.push(action);
    Ok(json!(true))
}

/// What all but albums have: an album has no buttons.
fn begin_with_buttons(
    platform: &PlatformState,
    rules: &TelegramRules,
    call: &ReceivedCall,
) -> Result<TelegramMessage, ApiRefusal> {
    let begun = begin(platform, call)?;
    Ok(TelegramMessage { buttons: keyboard::read(rules, call)?, ..begun })
}

/// What all of them have: chat, topic, the message that is answered.
fn begin(platform: &PlatformState, call: &ReceivedCall) -> Result<TelegramMessage, ApiRefusal> {
    let chat = platform.chat_of(call)?;
    let named = topics::named_topic(platform, call, chat)?;
    let mut reply_to = None;
    if let Some(reply) = call.json("reply_parameters")? {
        let answered = reply["message_id"].as_i64().ok_or_else(|| bad("can't parse reply parameters"))?;
        if platform.message(chat, answered).is_some() {
            reply_to = Some(answered);
        } else if reply["allow_sending_without_reply"].as_bool() != Some(true) {
            // ReplyParameters: allow_sending_without_reply.
            return Err(bad("message to be replied not found"));
        }
    }
    let thread = topics::open_topic(platform, chat, named, reply_to)?;
    Ok(TelegramMessage { chat, thread, from: BOT, reply_to, ..TelegramMessage::default() })
}

fn put(platform: &mut PlatformState, message: TelegramMessage) -> Value {
    let chat = message.chat;
    let id = platform.add(message);
    objects::message(platform, &platform.messages[&(chat, id)])
}

pub(crate) fn caption(rules: &TelegramRules, words: FormattedText) -> Result<FormattedText, ApiRefusal> {
    if words.units() > rules.caption_units {
        return Err(bad("message caption is too long"));
    }
    Ok(words.keep_entities(rules.entities))
}

/// InputMedia: its `type`. An album takes no animations (sendMediaGroup: media, the types that it lists).
fn kind_of_item(item: &Value) -> Result<FileKind, ApiRefusal> {
    match item["type"].as_str() {
        Some("photo") => Ok(FileKind::Photo),
        Some("video") => Ok(FileKind::Video),
        Some("document") => Ok(FileKind::Document),
        Some("audio") => Ok(FileKind::Audio),
        Some("animation") => Err(bad("animation can't be sent as part of an album")),
        _ => Err(bad("can't parse InputMedia: type must be one of photo, video, document, audio")),
    }
}

/// What Telegram finds wrong with one file of an album names the item, counted from 1. What the Bot API server finds
/// by itself, before it sends anything on, doesn't.
fn of_item(index: usize, refusal: ApiRefusal) -> ApiRefusal {
    match refusal.description.strip_prefix("Bad Request: ") {
        Some(words) if words.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') => {
            bad(format!("failed to send message #{} with the error message \"{words}\"", index + 1))
        }
        _ => refusal,
    }
}
