//! Maps Discord's errors to the outcome of a part: the only module that interprets Discord's error codes.
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
    /// The given number of files, new.
    Files(usize),
    Voice,
    /// An edit of a message, to text or files alone.
    Edit,
    /// An edit of a message to text with new files.
    EditToBundle,
    Delete,
    /// A request without a visible effect.
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

/// Whether Discord refused to let the bot read, or there is nothing to read.
pub(crate) fn is_read_denied(error: &CallError) -> bool {
    matches!(error, CallError::Refused(ApiError { status: 403 | 404, .. }))
}

/// Whether Discord itself has found a file or a request too large: "Request entity too large", "File uploaded exceeds
/// the maximum size". A proxy in front of Discord doesn't know the channel's limit.
pub(crate) fn is_size_limit(error: &CallError) -> bool {
    matches!(error, CallError::Refused(ApiError { code: 40_005 | 50_045, .. }))
}

/// Whether a message was refused because of the message that it replies to: "Cannot reply without permission to read
/// message history", or a form with an invalid reference. Without the reference it may be accepted.
pub(crate) fn is_reply_error(error: &CallError) -> bool {
    match error {
        CallError::Refused(ApiError { code: 160_002, .. }) => true,
        CallError::Refused(ApiError { code: 50_035, errors, .. }) => errors.get("message_reference").is_some(),
        _ => false,
    }
}

fn classify_refusal(error: &ApiError, operation: ApiOperation) -> SendError {
    let reason = user_reason(error);
    let is_voice = operation == ApiOperation::Voice;
    let is_edit = matches!(operation, ApiOperation::Edit | ApiOperation::EditToBundle);
    let is_bundle = matches!(operation, ApiOperation::Bundle | ApiOperation::EditToBundle);
    let refusal = match (error.status, error.code) {
        // The gateway timed out and doesn't know what the server behind it did.
        (504, _) if operation != ApiOperation::Harmless => return SendError::InDoubt { reason },
        // Discord's own decodable failure, and "API resource is currently overloaded".
        (500..=599, _) | (_, 130_000) => return SendError::NotSent { retry_after_ms: None, reason },
        // "Request entity too large", "File uploaded exceeds the maximum size".
        (413, _) | (_, 40_005 | 50_045) => return too_large_error(reason),
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
        // Text may be allowed where files are not.
        (_, 50_013) if is_bundle => Refusal::Other,
        // "Cannot send an empty message": the rendered markup has no visible text.
        (_, 50_006) if is_edit || matches!(operation, ApiOperation::Text | ApiOperation::Bundle) => Refusal::BadMarkup,
        (_, 50_035) => invalid_form_error(&error.errors, operation),
        _ if is_permanent(error) => return SendError::Forbidden { reason },
        _ => Refusal::Other,
    };
    SendError::Refused { refusal, reason }
}

/// Whether no message can be delivered here in any form.
fn is_permanent(error: &ApiError) -> bool {
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
    matches!(error.status, 403 | 404) || CODES.contains(&error.code)
}

/// Classifies "Invalid Form Body" by the first field that its error tree names.
fn invalid_form_error(errors: &Value, operation: ApiOperation) -> Refusal {
    let has_several_files = matches!(operation, ApiOperation::Files(2..) | ApiOperation::Bundle);
    for field in ["attachments", "files"] {
        let items = errors.get(field).and_then(Value::as_object).into_iter().flatten();
        if let Some(index) = items.filter_map(|(key, _)| key.parse().ok()).next()
            && has_several_files
        {
            return Refusal::Item { index };
        }
    }
    if errors.get("content").is_some() { Refusal::BadMarkup } else { Refusal::Other }
}

fn too_large_error(reason: String) -> SendError {
    SendError::Refused { refusal: Refusal::TooLarge { limit: None }, reason }
}

/// Returns the reason for a refusal in words for people who don't know the API.
fn user_reason(error: &ApiError) -> String {
    let reason = match error.code {
        10_003 => "the channel no longer exists",
        10_008 => "the message no longer exists",
        50_001 => "the bot can't see the channel",
        50_007 => "the person doesn't accept direct messages from the bot",
        50_278 => "the bot and the person share no server",
        50_008 | 50_024 => "this kind of channel doesn't accept messages",
        50_013 => "the bot lacks a permission in the channel: Send Messages, Attach Files or another one",
        50_083 | 160_005 => "the thread is closed",
        50_173 => "the channel doesn't accept voice messages",
        _ => "",
    };
    if !reason.is_empty() {
        return reason.to_owned();
    }
    let detail = first_field_error(&error.errors).map(|detail| format!(": {detail}")).unwrap_or_default();
    format!("{}{detail}", error.message)
}

/// Returns the first message in a tree of field errors. Messages with quotation marks are skipped: they repeat what was
/// sent, which is private.
fn first_field_error(errors: &Value) -> Option<&str> {
    let fields = errors.as_object()?;
    let message = fields.get("_errors").and_then(|errors| errors.get(0)?.get("message")?.as_str());
    message.filter(|message| !message.contains('"')).or_else(|| fields.values().find_map(first_field_error))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::rest::refuse_account;

    fn no(status: u16, code: u64) -> CallError {
        refused(status, code, "something", Value::Null)
    }

    fn refused(status: u16, code: u64, message: &str, errors: Value) -> CallError {
        refuse_account(CallError::Refused(ApiError { status, code, message: message.to_owned(), errors }))
    }

    /// The name of what follows, which is what routing branches on.
    fn meaning(error: CallError, operation: ApiOperation) -> String {
        match classify_error(error, operation) {
            SendError::NotSent { retry_after_ms: None, .. } => "not sent".to_owned(),
            SendError::NotSent { retry_after_ms: Some(wait), .. } => format!("not sent for {wait}"),
            SendError::Refused { refusal: Refusal::Item { index }, .. } => format!("item {index}"),
            SendError::Refused { refusal, .. } => format!("{refusal:?}"),
            SendError::Forbidden { .. } => "forbidden".to_owned(),
            SendError::AccountRefused { .. } => "account refused".to_owned(),
            SendError::Unreadable { .. } => "unreadable".to_owned(),
            SendError::InDoubt { .. } => "in doubt".to_owned(),
        }
    }

    #[rstest]
    #[case(500, 0, "not sent")]
    #[case(503, 0, "not sent")]
    #[case(400, 130_000, "not sent")]
    #[case(401, 0, "account refused")]
    #[case(401, 40_001, "account refused")]
    #[case(403, 50_001, "forbidden")]
    #[case(403, 50_013, "forbidden")]
    #[case(403, 50_007, "forbidden")]
    #[case(403, 0, "forbidden")]
    #[case(404, 10_003, "forbidden")]
    #[case(404, 0, "forbidden")]
    #[case(400, 50_083, "forbidden")]
    #[case(400, 160_005, "forbidden")]
    #[case(400, 50_008, "forbidden")]
    #[case(400, 50_006, "BadMarkup")]
    #[case(413, 40_005, "TooLarge { limit: None }")]
    #[case(413, 0, "TooLarge { limit: None }")]
    #[case(400, 50_045, "TooLarge { limit: None }")]
    #[case(400, 200_000, "Other")]
    #[case(400, 0, "Other")]
    #[case(405, 0, "Other")]
    fn answers_to_a_text(#[case] status: u16, #[case] code: u64, #[case] expected: &str) {
        assert_eq!(meaning(no(status, code), ApiOperation::Text), expected, "{status} {code}");
    }

    #[rstest]
    #[case(403, 50_013, ApiOperation::Bundle, "Other")]
    #[case(403, 50_013, ApiOperation::Files(1), "forbidden")]
    #[case(403, 50_001, ApiOperation::Bundle, "forbidden")]
    #[case(403, 50_013, ApiOperation::EditToBundle, "Other")]
    #[case(403, 50_001, ApiOperation::EditToBundle, "forbidden")]
    #[case(403, 50_013, ApiOperation::Edit, "forbidden")]
    #[case(404, 10_008, ApiOperation::EditToBundle, "TargetGone")]
    #[case(400, 50_006, ApiOperation::EditToBundle, "BadMarkup")]
    #[case(400, 50_083, ApiOperation::Edit, "TargetGone")]
    #[case(400, 50_083, ApiOperation::EditToBundle, "TargetGone")]
    #[case(400, 50_083, ApiOperation::Delete, "forbidden")]
    #[case(504, 0, ApiOperation::Text, "in doubt")]
    #[case(504, 0, ApiOperation::Files(2), "in doubt")]
    #[case(504, 0, ApiOperation::Edit, "in doubt")]
    #[case(504, 0, ApiOperation::Harmless, "not sent")]
    #[case(400, 50_006, ApiOperation::Files(1), "Other")]
    #[case(400, 50_046, ApiOperation::Files(3), "Other")]
    #[case(413, 40_005, ApiOperation::Bundle, "TooLarge { limit: None }")]
    #[case(400, 50_173, ApiOperation::Voice, "VoiceForbidden")]
    #[case(403, 50_173, ApiOperation::Voice, "VoiceForbidden")]
    #[case(403, 50_013, ApiOperation::Voice, "VoiceForbidden")]
    #[case(403, 50_001, ApiOperation::Voice, "forbidden")]
    #[case(400, 50_159, ApiOperation::Voice, "UnsupportedKind")]
    #[case(400, 50_160, ApiOperation::Voice, "UnsupportedKind")]
    #[case(400, 50_161, ApiOperation::Voice, "UnsupportedKind")]
    #[case(404, 10_008, ApiOperation::Edit, "TargetGone")]
    #[case(403, 50_005, ApiOperation::Edit, "TargetGone")]
    #[case(400, 50_162, ApiOperation::Edit, "TargetGone")]
    #[case(404, 10_003, ApiOperation::Edit, "forbidden")]
    #[case(404, 10_008, ApiOperation::Delete, "TargetGone")]
    #[case(403, 50_013, ApiOperation::Delete, "forbidden")]
    #[case(404, 10_008, ApiOperation::Text, "forbidden")]
    fn answers_to_everything_else(
        #[case] status: u16,
        #[case] code: u64,
        #[case] operation: ApiOperation,
        #[case] expected: &str,
    ) {
        assert_eq!(meaning(no(status, code), operation), expected, "{status} {code} {operation:?}");
    }

    #[rstest]
    #[case(json!({"content": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "x"}]}}), ApiOperation::Text, "BadMarkup")]
    #[case(json!({"content": {"_errors": []}}), ApiOperation::Edit, "BadMarkup")]
    #[case(json!({"attachments": {"2": {"filename": {"_errors": []}}}}), ApiOperation::Files(3), "item 2")]
    #[case(json!({"files": {"1": {"_errors": []}}}), ApiOperation::Bundle, "item 1")]
    #[case(json!({"attachments": {"0": {"description": {"_errors": []}}}}), ApiOperation::Files(1), "Other")]
    #[case(json!({"attachments": {"_errors": [{"message": "x"}]}}), ApiOperation::Files(3), "Other")]
    #[case(json!({"components": {"0": {"_errors": []}}}), ApiOperation::Text, "Other")]
    #[case(json!({"nonce": 7}), ApiOperation::Text, "Other")]
    #[case(json!("odd"), ApiOperation::Text, "Other")]
    fn invalid_form_is_classified_by_named_field(
        #[case] errors: Value,
        #[case] operation: ApiOperation,
        #[case] expected: &str,
    ) {
        assert_eq!(meaning(refused(400, 50_035, "Invalid Form Body", errors), operation), expected);
    }

    #[test]
    fn doubt_over_harmless_calls_is_none() {
        let reason = || "words".to_owned();
        for error in
            [CallError::Lost { reason: reason() }, CallError::InvalidResponse { status: 502, reason: reason() }]
        {
            assert_eq!(meaning(error.clone(), ApiOperation::Files(1)), "in doubt", "{error:?}");
            assert_eq!(meaning(error.clone(), ApiOperation::Harmless), "not sent", "{error:?}");
        }
        let too_large = CallError::InvalidResponse { status: 413, reason: reason() };
        assert_eq!(meaning(too_large, ApiOperation::Harmless), "TooLarge { limit: None }");
    }

    #[test]
    fn user_reason_is_worded_for_the_person() {
        let words = |error| match classify_error(error, ApiOperation::Text) {
            SendError::Forbidden { reason }
            | SendError::Refused { reason, .. }
            | SendError::AccountRefused { reason } => reason,
            other => format!("{other:?}"),
        };
        let errors = json!({"content": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be shorter."}]}});
        let quoting = json!({"nonce": {"_errors": [{"message": "Could not interpret \"my words\" as string."}]}});
        for (error, expected) in [
            (refused(400, 50_035, "Invalid Form Body", quoting), "Invalid Form Body"),
            (refused(401, 0, "401: Unauthorized", Value::Null), "Discord no longer accepts the bot's token"),
            (refused(403, 50_001, "Missing Access", Value::Null), "the bot can't see the channel"),
            (refused(404, 10_003, "Unknown Channel", Value::Null), "the channel no longer exists"),
            (refused(400, 50_007, "x", Value::Null), "the person doesn't accept direct messages from the bot"),
            (refused(400, 200_000, "Blocked by AutoMod", Value::Null), "Blocked by AutoMod"),
            (refused(400, 50_035, "Invalid Form Body", errors), "Invalid Form Body: Must be shorter."),
        ] {
            assert_eq!(words(error), expected);
        }
    }

    #[test]
    fn only_decoded_refusal_counts_as_read_denied() {
        assert!(is_read_denied(&no(403, 50_001)) && is_read_denied(&no(404, 10_003)));
        assert!(!is_read_denied(&no(500, 0)) && !is_read_denied(&CallError::Lost { reason: String::new() }));
    }
}
