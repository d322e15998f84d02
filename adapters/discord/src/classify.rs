//! What an answer of Discord, or its absence, means for the part: the one place where Discord's codes are read.
//!
//! The codes are those of Discord's table (Opcodes and Status Codes, JSON Error Codes).

use satchel_domain::delivery::{Refusal, SendError};
use serde_json::Value;

use crate::rest::{ApiError, CallError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiOperation {
    Text,
    /// A text with files, new.
    Bundle,
    /// So many files, new.
    Files(usize),
    Voice,
    /// A change of a message, which brings no files or nothing but files.
    Edit,
    /// A change of a message to a text with new files.
    EditToBundle,
    /// The end of a message.
    Delete,
    /// A harmless call, which changes nothing that anybody can see.
    Harmless,
}

/// Returns what a failed call means for the part.
pub(crate) fn classify_error(error: CallError, operation: ApiOperation) -> SendError {
    match error.into_send_error() {
        Err(refusal) => classify_refusal(&refusal, operation),
        // Whether it was performed makes no difference.
        Ok(SendError::InDoubt { reason }) if operation == ApiOperation::Harmless => {
            SendError::NotSent { retry_after_ms: None, reason }
        }
        Ok(error) => error,
    }
}

/// Whether a readable no says that reading is not allowed, or that there is nothing to read.
pub(crate) fn is_read_denied(error: &CallError) -> bool {
    matches!(error, CallError::Refused(ApiError { status: 403 | 404, .. }))
}

/// Whether Discord itself has found a file or a request too large: "Request entity too large", "File uploaded exceeds the
/// maximum size". Whoever stands before it knows nothing of the place.
pub(crate) fn is_size_limit(error: &CallError) -> bool {
    matches!(error, CallError::Refused(ApiError { code: 40_005 | 50_045, .. }))
}

/// Whether a message was refused for the one that it answers: "Cannot reply without permission to read message
/// history", or a form whose reference is wrong. Without it the message may go.
pub(crate) fn is_about_the_reply(error: &CallError) -> bool {
    match error {
        CallError::Refused(ApiError { code: 160_002, .. }) => true,
        CallError::Refused(ApiError { code: 50_035, errors, .. }) => errors.get("message_reference").is_some(),
        _ => false,
    }
}

fn classify_refusal(refused: &ApiError, operation: ApiOperation) -> SendError {
    let reason = user_reason(refused);
    let is_voice = operation == ApiOperation::Voice;
    let is_edit = matches!(operation, ApiOperation::Edit | ApiOperation::EditToBundle);
    let is_bundle = matches!(operation, ApiOperation::Bundle | ApiOperation::EditToBundle);
    let refusal = match (refused.status, refused.code) {
        // Whoever waited in vain for another one doesn't know what that one does.
        (504, _) if operation != ApiOperation::Harmless => return SendError::InDoubt { reason },
        // A decoded failure of Discord's own, and "API resource is currently overloaded".
        (500..=599, _) | (_, 130_000) => return SendError::NotSent { retry_after_ms: None, reason },
        // "Request entity too large", "File uploaded exceeds the maximum size".
        (413, _) | (_, 40_005 | 50_045) => return too_large(reason),
        // "You cannot send voice messages in this channel"; the permission for it is one of its own.
        (_, 50_173 | 50_013) if is_voice => Refusal::VoiceForbidden,
        // Voice messages "do not support additional content", "must have a single audio attachment", "must have
        // supporting metadata": as a file the same bytes need none of it.
        (_, 50_159..=50_161) if is_voice => Refusal::UnsupportedKind,
        // "Unknown Message", "Cannot edit a message authored by another user", "Cannot execute action on a system
        // message", "Voice messages cannot be edited".
        (_, 10_008 | 50_005 | 50_021 | 50_162) if is_edit || operation == ApiOperation::Delete => Refusal::TargetGone,
        // "Thread is archived": nothing in it can be changed, but a new message opens it again.
        (_, 50_083) if is_edit => Refusal::TargetGone,
        // The words may go where files may not.
        (_, 50_013) if is_bundle => Refusal::Other,
        // "Cannot send an empty message": nothing of the markup would be seen.
        (_, 50_006) if is_edit || matches!(operation, ApiOperation::Text | ApiOperation::Bundle) => Refusal::BadMarkup,
        (_, 50_035) => invalid_form_error(&refused.errors, operation),
        _ if is_permanent(refused) => return SendError::Forbidden { reason },
        _ => Refusal::Other,
    };
    SendError::Refused { refusal, reason }
}

/// Nothing will arrive here, however it is sent.
fn is_permanent(refused: &ApiError) -> bool {
    const CODES: [u64; 8] = [
        40_001,  // Unauthorized
        40_002,  // You need to verify your account
        50_007,  // Cannot send messages to this user
        50_008,  // Cannot send messages in a non-text channel
        50_024,  // Cannot execute action on this channel type
        50_083,  // Thread is archived
        160_005, // Thread is locked
        50_278,  // Cannot send messages to this user due to having no mutual guilds
    ];
    matches!(refused.status, 401 | 403 | 404) || CODES.contains(&refused.code)
}

/// What "Invalid Form Body" is about: the first field that its tree names.
fn invalid_form_error(errors: &Value, operation: ApiOperation) -> Refusal {
    let several = matches!(operation, ApiOperation::Files(2..) | ApiOperation::Bundle);
    for field in ["attachments", "files"] {
        let places = errors.get(field).and_then(Value::as_object).into_iter().flatten();
        if let Some(index) = places.filter_map(|(place, _)| place.parse().ok()).next()
            && several
        {
            return Refusal::Item { index };
        }
    }
    if errors.get("content").is_some() { Refusal::BadMarkup } else { Refusal::Other }
}

fn too_large(reason: String) -> SendError {
    SendError::Refused { refusal: Refusal::TooLarge { limit: None }, reason }
}

/// Why a person gets nothing, in words that somebody who never heard of the API understands.
fn user_reason(refused: &ApiError) -> String {
    let known = match refused.code {
        10_003 => "the channel no longer exists",
        10_008 => "the message no longer exists",
        50_001 => "the bot can't see the channel",
        50_007 => "the person doesn't accept direct messages from the bot",
        50_278 => "the bot and the person share no server",
        50_008 | 50_024 => "this kind of channel doesn't accept messages",
        50_013 => "the bot lacks a permission in the channel: Send Messages, Attach Files or another one",
        50_083 | 160_005 => "the thread is closed",
        50_173 => "the channel doesn't accept voice messages",
        _ if refused.status == 401 => "Discord no longer accepts the bot's token",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    let detail = first_field_error(&refused.errors).map(|words| format!(": {words}")).unwrap_or_default();
    format!("{}{detail}", refused.message)
}

/// The first words in a tree of complaints about fields. Those with quotation marks repeat what was sent, which is
/// nobody's business but the person's.
fn first_field_error(errors: &Value) -> Option<&str> {
    let fields = errors.as_object()?;
    let complaint = fields.get("_errors").and_then(|complaints| complaints.get(0)?.get("message")?.as_str());
    complaint.filter(|words| !words.contains('"')).or_else(|| fields.values().find_map(first_field_error))
}

#[cfg(test)]
mod tests;
