//! What an answer of the Bot API, or its absence, means for the part: the one place where Telegram's words are read.
//!
//! The words are those of the server's own source (`telegram-bot-api/Client.cpp` and TDLib); Telegram passes its
//! servers' errors on in capitals.

use satchel_domain::delivery::{Refusal, SendError};

use crate::bot::{ApiError, CallError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiOperation {
    Text,
    /// A file, or several.
    Files,
    Voice,
    /// A change of a message.
    Edit,
    /// The end of a message.
    Delete,
    Probe,
}

/// What came of a call that has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    Failed(SendError),
    /// What was asked for is so already.
    NotModified,
    /// The chat is another one now, and this call is to be made there.
    Migrated {
        /// The new chat's number.
        to: i64,
    },
}

/// Returns what came of a call that has no result.
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
    let words = description.to_lowercase();
    let has = |any: &[&str]| any.iter().any(|part| words.contains(part));
    let refused = |refusal| SendError::Refused { refusal, reason: strip_prefix_text(&description) };
    let failed = match code {
        // `restart` and `Request aborted` answer requests that go on by themselves as well as those that don't.
        500..=599 => SendError::InDoubt { reason: strip_prefix_text(&description) },
        413 => too_large(strip_prefix_text(&description)),
        _ if has(&["message is not modified", "message_not_modified"]) => return CallOutcome::NotModified,
        _ if operation == ApiOperation::Delete && has(&["message to delete not found", "message_id_invalid"]) => {
            return CallOutcome::NotModified;
        }
        _ if operation == ApiOperation::Edit && has(TARGET_GONE) => refused(Refusal::TargetGone),
        _ if has(FORBIDDEN) || (operation == ApiOperation::Text && has(&["not enough rights", "have no rights"])) => {
            SendError::Forbidden { reason: for_a_person(&words, &description) }
        }
        _ if operation == ApiOperation::Voice && has(VOICE_FORBIDDEN) => refused(Refusal::VoiceForbidden),
        401 | 403 | 404 => SendError::Forbidden { reason: for_a_person(&words, &description) },
        _ if let Some(index) = item(&words) => refused(Refusal::Item { index }),
        _ if has(BAD_MARKUP) => refused(Refusal::BadMarkup),
        _ if has(&["too big for a photo"]) => refused(Refusal::UnsupportedKind),
        _ if has(TOO_LARGE) => too_large(strip_prefix_text(&description)),
        _ if has(UNSUPPORTED_KIND) => refused(Refusal::UnsupportedKind),
        _ => refused(Refusal::Other),
    };
    CallOutcome::Failed(failed)
}

/// What an id is, as `stopMessageLiveLocation` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdStatus {
    /// A message of the bot.
    OwnMessage,
    /// Somebody else's, or one of the chat itself.
    OtherMessage,
    /// None, a deleted one, one of another chat, or one that is hidden from the bot.
    NoMessage,
    /// Anything else was answered.
    Unclear,
}

/// Judges the answer of `stopMessageLiveLocation` for a message that holds no live location. Success would mean that one
/// of ours did.
pub(crate) fn classify_id(error: Option<CallError>) -> Result<IdStatus, SendError> {
    let Some(error) = error else { return Ok(IdStatus::Unclear) };
    if let CallError::Refused(ApiError { code: 400, description, migrated_to: None, .. }) = &error {
        let words = description.to_lowercase();
        let answers = [
            ("there is no live location in the message to edit", IdStatus::OwnMessage),
            ("message can't be edited", IdStatus::OtherMessage),
            ("message to edit not found", IdStatus::NoMessage),
        ];
        let known = answers.into_iter().find(|(answer, _)| words.contains(answer));
        return Ok(known.map_or(IdStatus::Unclear, |(_, answer)| answer));
    }
    match classify_error(error, ApiOperation::Probe) {
        CallOutcome::Failed(error @ (SendError::NotSent { .. } | SendError::InDoubt { .. })) => Err(error),
        CallOutcome::Failed(_) | CallOutcome::NotModified | CallOutcome::Migrated { .. } => Ok(IdStatus::Unclear),
    }
}

/// The message to edit can't be made to show anything. One of a photo, which has no text to edit, is as good as gone.
const TARGET_GONE: &[&str] = &[
    "message to edit not found",
    "message can't be edited",
    "message media can't be edited",
    "message_id_invalid",
    "there is no text in the message to edit",
    "there is no caption in the message to edit",
];

/// Nothing will arrive in this chat.
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
    "message thread not found",
    "topic_closed",
    "topic_deleted",
];

/// `sendVoice` where a person, or a group, wants none.
const VOICE_FORBIDDEN: &[&str] =
    &["voice_messages_forbidden", "chat_send_voices_forbidden", "receiving of voice messages", "rights to send voice"];

/// The text has to be said in another form. A caption that is too long is one: it goes before its file.
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

/// More than Telegram takes.
const TOO_LARGE: &[&str] = &[
    "file is too big",
    "is too big",
    "request entity too large",
    "message is too long",
    "text is too long",
    "message_too_long",
];

/// A file that isn't what it is sent as.
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

/// The item of an album that is at fault: `failed to send message #2 with the error message "PHOTO_INVALID"`.
fn item(words: &str) -> Option<usize> {
    let (_, behind) = words.split_once("failed to send message #")?;
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<usize>().ok()?.checked_sub(1)
}

/// The description without the words that stand before all of them.
fn strip_prefix_text(description: &str) -> String {
    let words = description.split_once(": ").filter(|(before, _)| {
        ["Bad Request", "Forbidden", "Unauthorized", "Internal Server Error", "Too Many Requests", "Conflict"]
            .contains(before)
    });
    words.map_or(description, |(_, words)| words).to_owned()
}

/// Why a person gets nothing, in words that somebody who never heard of the Bot API understands.
fn for_a_person(words: &str, description: &str) -> String {
    let known = [
        ("blocked", "the person has blocked the bot"),
        ("deactivated", "the account no longer exists"),
        ("kicked", "the bot was removed from the chat"),
        ("not a member", "the bot is not in the chat"),
        ("chat was deleted", "the chat was deleted"),
        ("chat was upgraded", "the chat has moved to a new id"),
        ("chat not found", "Telegram doesn't know the chat, or the person has never written to the bot"),
        ("peer_id_invalid", "Telegram doesn't know the chat, or the person has never written to the bot"),
        ("initiate conversation", "the person has to write to the bot first"),
        ("thread not found", "the topic no longer exists"),
        ("topic_deleted", "the topic no longer exists"),
        ("topic_closed", "the topic is closed"),
        ("unauthorized", "Telegram no longer accepts the bot's token"),
        ("rights", "the bot has no permission to write in the chat"),
        ("chat_write_forbidden", "the bot has no permission to write in the chat"),
        ("chat_restricted", "the bot has no permission to write in the chat"),
    ];
    // A token that Telegram never knew is a path that it doesn't know.
    if words == "not found" {
        return "Telegram doesn't accept the bot's token".to_owned();
    }
    let known = known.into_iter().find(|(part, _)| words.contains(part));
    known.map_or_else(|| strip_prefix_text(description), |(_, meaning)| meaning.to_owned())
}

#[cfg(test)]
mod tests;
