//! What a Bot API response, or its absence, means for the part: the only place where Telegram's error texts are
//! matched.
//!
//! The texts are those of the server's source (`telegram-bot-api/Client.cpp` and TDLib); errors in capitals are
//! forwarded from Telegram's own servers.

use satchel_domain::delivery::{Refusal, SendError};

use crate::bot::{ApiError, CallError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiOperation {
    Text,
    /// A rich message.
    RichText,
    /// A file, or several.
    Files,
    Voice,
    /// A draft, which is no message.
    Draft,
    Edit,
    /// An edit that makes a message a rich one.
    RichEdit,
    Delete,
    Probe,
}

impl ApiOperation {
    /// Whether it sends a new message.
    fn is_send(self) -> bool {
        matches!(self, Self::Text | Self::RichText | Self::Files | Self::Voice)
    }

    /// Whether it changes a message.
    pub(crate) fn is_edit(self) -> bool {
        matches!(self, Self::Edit | Self::RichEdit)
    }

    /// Whether it is about a rich message.
    fn is_rich(self) -> bool {
        matches!(self, Self::RichText | Self::RichEdit)
    }
}

/// Outcome of a failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    Failed(SendError),
    /// The message already is as requested.
    NotModified,
    /// The chat has a new id, and the call has to be repeated there.
    Migrated {
        /// The new chat's id.
        to: i64,
    },
    /// Nothing can be sent to the topic, and the message has to be sent to the chat without it; fails with this where it
    /// was.
    TopicGone(SendError),
    /// The server knows no rich messages; fails with this where it needs one.
    RichUnknown(SendError),
}

/// Classifies a failed call.
pub(crate) fn classify_error(error: CallError, operation: ApiOperation) -> CallOutcome {
    match error.into_send_error() {
        Err(refusal) => classify_refusal(refusal, operation),
        Ok(SendError::NotSent { retry_after_ms, reason }) => {
            CallOutcome::Failed(SendError::NotSent { retry_after_ms, reason: strip_prefix_text(&reason) })
        }
        Ok(error) => CallOutcome::Failed(error),
    }
}

fn classify_refusal(refusal: ApiError, operation: ApiOperation) -> CallOutcome {
    let ApiError { code, description, migrated_to, .. } = refusal;
    if let Some(to) = migrated_to {
        return CallOutcome::Migrated { to };
    }
    let text = description.to_lowercase();
    let contains_any = |any: &[&str]| any.iter().any(|part| text.contains(part));
    let refused = |refusal| SendError::Refused { refusal, reason: strip_prefix_text(&description) };
    let send_error = match code {
        // `restart` and `Request aborted` are returned for requests that still run as well as for those that don't.
        500..=599 => SendError::InDoubt { reason: strip_prefix_text(&description) },
        413 => too_large(strip_prefix_text(&description)),
        _ if contains_any(&["message is not modified", "message_not_modified"]) => return CallOutcome::NotModified,
        _ if operation == ApiOperation::Delete
            && contains_any(&["message to delete not found", "message_id_invalid"]) =>
        {
            return CallOutcome::NotModified;
        }
        _ if operation.is_edit() && (contains_any(TARGET_GONE) || contains_any(TOPIC_GONE)) => {
            refused(Refusal::TargetGone)
        }
        _ if operation.is_send() && contains_any(TOPIC_GONE) => {
            return CallOutcome::TopicGone(SendError::Forbidden { reason: user_reason(&text, &description) });
        }
        _ if contains_any(FORBIDDEN)
            || contains_any(TOPIC_GONE)
            || (matches!(operation, ApiOperation::Text | ApiOperation::RichText)
                && contains_any(&["not enough rights", "have no rights"])) =>
        {
            SendError::Forbidden { reason: user_reason(&text, &description) }
        }
        // A server older than Bot API 10.1 has no `sendRichMessage`, and may say that in no more words than those for any
        // unknown path.
        404 if operation == ApiOperation::RichText => return CallOutcome::RichUnknown(refused(Refusal::BadMarkup)),
        // It finds no text in an `editMessageText` whose `rich_message` it passes over.
        _ if operation == ApiOperation::RichEdit && contains_any(&["message text is empty"]) => {
            return CallOutcome::RichUnknown(refused(Refusal::BadMarkup));
        }
        // Whatever is wrong with it (RICH_MESSAGE_…), the same text in another form may do.
        400 if operation.is_rich() => refused(Refusal::BadMarkup),
        _ if operation == ApiOperation::Voice && contains_any(VOICE_FORBIDDEN) => refused(Refusal::VoiceForbidden),
        403 | 404 => SendError::Forbidden { reason: user_reason(&text, &description) },
        _ if let Some(index) = failed_item_index(&text) => refused(Refusal::Item { index }),
        _ if contains_any(BAD_MARKUP) => refused(Refusal::BadMarkup),
        _ if contains_any(&["too big for a photo"]) => refused(Refusal::UnsupportedKind),
        _ if contains_any(TOO_LARGE) => too_large(strip_prefix_text(&description)),
        _ if contains_any(UNSUPPORTED_KIND) => refused(Refusal::UnsupportedKind),
        _ => refused(Refusal::Other),
    };
    CallOutcome::Failed(send_error)
}

/// What kind of message an id belongs to, according to `stopMessageLiveLocation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdStatus {
    /// A message of the bot.
    OwnMessage,
    /// A message of someone else, or a service message.
    OtherMessage,
    /// No message, a deleted one, one of another chat, or one that is hidden from the bot.
    NoMessage,
    /// The response says something else.
    Unclear,
}

/// Classifies the response of `stopMessageLiveLocation` for a message without a live location. Success would mean that
/// one of the bot's messages had one.
pub(crate) fn classify_id(error: Option<CallError>) -> Result<IdStatus, SendError> {
    let Some(error) = error else { return Ok(IdStatus::Unclear) };
    if let CallError::Refused(ApiError { code: 400, description, migrated_to: None, .. }) = &error {
        let text = description.to_lowercase();
        let statuses = [
            ("there is no live location in the message to edit", IdStatus::OwnMessage),
            ("message can't be edited", IdStatus::OtherMessage),
            ("message to edit not found", IdStatus::NoMessage),
        ];
        let status = statuses.into_iter().find(|(pattern, _)| text.contains(pattern));
        return Ok(status.map_or(IdStatus::Unclear, |(_, status)| status));
    }
    match classify_error(error, ApiOperation::Probe) {
        CallOutcome::Failed(
            error @ (SendError::NotSent { .. } | SendError::InDoubt { .. } | SendError::AccountRefused { .. }),
        ) => Err(error),
        CallOutcome::Failed(_)
        | CallOutcome::NotModified
        | CallOutcome::Migrated { .. }
        | CallOutcome::TopicGone(_)
        | CallOutcome::RichUnknown(_) => Ok(IdStatus::Unclear),
    }
}

/// The message can't be edited. A photo, which has no text to edit, counts as gone.
const TARGET_GONE: &[&str] = &[
    "message to edit not found",
    "message can't be edited",
    "message media can't be edited",
    "message_id_invalid",
    "there is no text in the message to edit",
    "there is no caption in the message to edit",
];

/// Nothing can be sent to this chat.
const FORBIDDEN: &[&str] = &[
    "chat not found",
    "chat_write_forbidden",
    "chat_restricted",
    "peer_id_invalid",
    "user is deactivated",
    "input_user_deactivated",
    "bot was blocked",
    "user_is_blocked",
    "bot was kicked",
    "bot is not a member",
    "group chat was deleted",
    "group chat was deactivated",
    "chat was upgraded",
    "can't initiate conversation",
    "textdraft_peer_invalid",
];

/// Nothing can be sent to this topic of the chat: it was deleted or closed, the chat has no topics any more, or the
/// server doesn't find the message that opened it (`Client.cpp`: `check_message_topic`; TDLib, `MessageTopic.cpp`:
/// `get_message_topic`; messages.sendMessage of Telegram's API, its errors).
const TOPIC_GONE: &[&str] = &[
    "message thread not found",
    "topic not found",
    "topic_closed",
    "topic_deleted",
    "topic_id_invalid",
    "invalid topic identifier",
    "invalid message thread identifier",
    "chat doesn't have threads",
    "chat is not a forum",
    "channel_forum_missing",
];

/// `sendVoice` to a person or group that does not accept voice messages.
const VOICE_FORBIDDEN: &[&str] =
    &["voice_messages_forbidden", "chat_send_voices_forbidden", "receiving of voice messages", "rights to send voice"];

/// The text needs another form. A caption that is too long is one: it is then sent before its file.
const BAD_MARKUP: &[&str] = &[
    "can't parse entities",
    "can't parse message text",
    "can't parse caption",
    "unsupported parse_mode",
    "entity_bounds_invalid",
    "message text is empty",
    "text must be non-empty",
    "caption is too long",
    "media_caption_too_long",
];

/// The content exceeds Telegram's limits.
const TOO_LARGE: &[&str] = &[
    "file is too big",
    "is too big",
    "request entity too large",
    "message is too long",
    "text is too long",
    "message_too_long",
];

/// The file does not have the format of the kind it is sent as.
const UNSUPPORTED_KIND: &[&str] = &[
    "photo_invalid",
    "photo_ext_invalid",
    "photo_save_file_invalid",
    "photo_content_type_invalid",
    "image_process_failed",
    "video_content_type_invalid",
    "video_file_invalid",
    "audio_content_url_empty",
    "media_invalid",
    "media_empty",
    "media_grouped_invalid",
    "can't use file of type",
    "wrong file type",
    "can't be mixed with other media types",
    "rights to send photos",
    "rights to send videos",
    "rights to send music",
    "rights to send animations",
];

fn too_large(reason: String) -> SendError {
    SendError::Refused { refusal: Refusal::TooLarge { limit: None }, reason }
}

/// The index of the album item that was refused: `failed to send message #2 with the error message "PHOTO_INVALID"`.
fn failed_item_index(text: &str) -> Option<usize> {
    let (_, rest) = text.split_once("failed to send message #")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<usize>().ok()?.checked_sub(1)
}

/// Returns the description without its generic prefix.
fn strip_prefix_text(description: &str) -> String {
    let stripped = description.split_once(": ").filter(|(before, _)| {
        ["Bad Request", "Forbidden", "Internal Server Error", "Too Many Requests", "Conflict"].contains(before)
    });
    stripped.map_or(description, |(_, rest)| rest).to_owned()
}

/// Explains a refusal to people who don't know the Bot API.
fn user_reason(text: &str, description: &str) -> String {
    let reasons = [
        ("blocked", "the person has blocked the bot"),
        ("deactivated", "the account no longer exists"),
        ("kicked", "the bot was removed from the chat"),
        ("not a member", "the bot is not in the chat"),
        ("chat was deleted", "the chat was deleted"),
        ("chat was upgraded", "the chat has moved to a new id"),
        ("chat not found", "Telegram doesn't know the chat, or the person has never written to the bot"),
        ("peer_id_invalid", "Telegram doesn't know the chat, or the person has never written to the bot"),
        ("initiate conversation", "the person has to write to the bot first"),
        ("topic_closed", "the topic is closed"),
        ("rights", "the bot has no permission to write in the chat"),
        ("chat_write_forbidden", "the bot has no permission to write in the chat"),
        ("chat_restricted", "the bot has no permission to write in the chat"),
        ("textdraft_peer_invalid", "the chat takes no drafts"),
    ];
    // Tokens have been ruled out.
    if text == "not found" {
        return "the Bot API's server doesn't know the request; it may be too old".to_owned();
    }
    let reason = reasons.into_iter().find(|(part, _)| text.contains(part)).map(|(_, reason)| reason);
    let is_topic_gone = TOPIC_GONE.iter().any(|part| text.contains(part));
    let reason = reason.or_else(|| is_topic_gone.then_some("the topic no longer exists"));
    reason.map_or_else(|| strip_prefix_text(description), str::to_owned)
}

#[cfg(test)]
mod tests;
