//! What each answer means: every line of the table of answers, in Telegram's own words.

use rstest::rstest;

use super::*;

fn no(code: u16, description: &str) -> CallError {
    ApiError { code, description: description.to_owned(), migrated_to: None, retry_after: None }.into_call_error()
}

/// The name of what follows, which is what routing branches on.
fn meaning(error: CallError, operation: ApiOperation) -> String {
    match classify_error(error, operation) {
        CallOutcome::NotModified => "already so".to_owned(),
        CallOutcome::Migrated { to } => format!("moved to {to}"),
        CallOutcome::TopicGone(error) => format!("topic gone, {error}"),
        CallOutcome::RichUnknown(error) => format!("rich messages unknown, {error}"),
        CallOutcome::Failed(SendError::NotSent { retry_after_ms: None, .. }) => "not sent".to_owned(),
        CallOutcome::Failed(SendError::NotSent { retry_after_ms: Some(wait), .. }) => format!("not sent for {wait}"),
        CallOutcome::Failed(SendError::Refused { refusal: Refusal::Item { index }, .. }) => format!("item {index}"),
        CallOutcome::Failed(SendError::Refused { refusal, .. }) => format!("{refusal:?}"),
        CallOutcome::Failed(SendError::Forbidden { .. }) => "forbidden".to_owned(),
        CallOutcome::Failed(SendError::AccountRefused { .. }) => "account refused".to_owned(),
        CallOutcome::Failed(SendError::Unreadable { .. }) => "unreadable".to_owned(),
        CallOutcome::Failed(SendError::InDoubt { .. }) => "in doubt".to_owned(),
    }
}

#[rstest]
#[case(404, "Not Found: method not found", "forbidden")]
#[case(400, "Bad Request: TEXTDRAFT_PEER_INVALID", "forbidden")]
#[case(400, "Bad Request: message thread not found", "forbidden")]
#[case(400, "Bad Request: can't parse entities: Unsupported start tag", "BadMarkup")]
#[case(400, "Bad Request: message is too long", "TooLarge { limit: None }")]
#[case(400, "Bad Request: something new", "Other")]
#[case(500, "Internal Server Error", "in doubt")]
fn answers_to_a_draft(#[case] code: u16, #[case] description: &str, #[case] expected: &str) {
    assert_eq!(meaning(no(code, description), ApiOperation::Draft), expected, "{description}");
}

#[rstest]
#[case(500, "Internal Server Error", "in doubt")]
#[case(500, "Internal Server Error: restart", "in doubt")]
#[case(502, "Bad Gateway", "in doubt")]
#[case(401, "Unauthorized", "account refused")]
#[case(401, "Unauthorized: invalid token specified", "account refused")]
#[case(404, "Not Found", "forbidden")]
#[case(404, "Not Found: method not found", "forbidden")]
#[case(403, "Forbidden: bot was blocked by the user", "forbidden")]
#[case(403, "Forbidden: user is deactivated", "forbidden")]
#[case(403, "Forbidden: bot was kicked from the supergroup chat", "forbidden")]
#[case(403, "Forbidden: bot is not a member of the channel chat", "forbidden")]
#[case(403, "Forbidden: the group chat was deleted", "forbidden")]
#[case(403, "Forbidden: bot can't initiate conversation with a user", "forbidden")]
#[case(403, "Forbidden: something new", "forbidden")]
#[case(400, "Bad Request: chat not found", "forbidden")]
#[case(400, "Bad Request: PEER_ID_INVALID", "forbidden")]
#[case(400, "Bad Request: message thread not found", "topic gone, not allowed: the topic no longer exists")]
#[case(400, "Bad Request: topic not found", "topic gone, not allowed: the topic no longer exists")]
#[case(400, "Bad Request: TOPIC_DELETED", "topic gone, not allowed: the topic no longer exists")]
#[case(400, "Bad Request: TOPIC_ID_INVALID", "topic gone, not allowed: the topic no longer exists")]
#[case(400, "Bad Request: chat is not a forum", "topic gone, not allowed: the topic no longer exists")]
#[case(400, "Bad Request: TOPIC_CLOSED", "topic gone, not allowed: the topic is closed")]
#[case(406, "TOPIC_CLOSED", "topic gone, not allowed: the topic is closed")]
#[case(400, "Bad Request: group chat was upgraded to a supergroup chat", "forbidden")]
#[case(400, "Bad Request: not enough rights to send text messages to the chat", "forbidden")]
#[case(400, "Bad Request: can't parse entities: Unsupported start tag \"x\" at byte offset 0", "BadMarkup")]
#[case(400, "Bad Request: message text is empty", "BadMarkup")]
#[case(400, "Bad Request: message is too long", "TooLarge { limit: None }")]
#[case(413, "Request Entity Too Large", "TooLarge { limit: None }")]
#[case(400, "Bad Request: something new", "Other")]
#[case(409, "Conflict: something new", "Other")]
fn answers_to_a_text(#[case] code: u16, #[case] description: &str, #[case] expected: &str) {
    assert_eq!(meaning(no(code, description), ApiOperation::Text), expected, "{description}");
}

#[rstest]
#[case(413, "Request Entity Too Large", "TooLarge { limit: None }")]
#[case(400, "Bad Request: file is too big", "TooLarge { limit: None }")]
#[case(
    400,
    "Bad Request: file of size 60000000 bytes is too big; the maximum size is 52428800 bytes",
    "TooLarge { limit: None }"
)]
#[case(
    400,
    "Bad Request: file of size 12000000 bytes is too big for a photo; the maximum size is 10485760 bytes",
    "UnsupportedKind"
)]
#[case(400, "Bad Request: PHOTO_INVALID_DIMENSIONS", "UnsupportedKind")]
#[case(400, "Bad Request: PHOTO_EXT_INVALID", "UnsupportedKind")]
#[case(400, "Bad Request: PHOTO_SAVE_FILE_INVALID", "UnsupportedKind")]
#[case(400, "Bad Request: IMAGE_PROCESS_FAILED", "UnsupportedKind")]
#[case(400, "Bad Request: can't use file of type Document as Photo", "UnsupportedKind")]
#[case(400, "Bad Request: not enough rights to send photos to the chat", "UnsupportedKind")]
#[case(400, "Bad Request: message caption is too long", "BadMarkup")]
#[case(400, "Bad Request: failed to send message #2 with the error message \"PHOTO_INVALID_DIMENSIONS\"", "item 1")]
#[case(400, "Bad Request: Failed to send message #10 with the error message \"WEBPAGE_MEDIA_EMPTY\"", "item 9")]
#[case(400, "Bad Request: failed to send message #0 with the error message \"MEDIA_EMPTY\"", "UnsupportedKind")]
#[case(400, "Bad Request: document can't be mixed with other media types", "UnsupportedKind")]
#[case(400, "Bad Request: file must be non-empty", "Other")]
#[case(400, "Bad Request: not enough rights to send documents to the chat", "Other")]
#[case(400, "Bad Request: CHAT_WRITE_FORBIDDEN", "forbidden")]
#[case(
    400,
    "Bad Request: failed to send message #1 with the error message \"TOPIC_CLOSED\"",
    "topic gone, not allowed: the topic is closed"
)]
fn answers_to_files(#[case] code: u16, #[case] description: &str, #[case] expected: &str) {
    assert_eq!(meaning(no(code, description), ApiOperation::Files), expected, "{description}");
}

#[rstest]
#[case(400, "Bad Request: VOICE_MESSAGES_FORBIDDEN", "VoiceForbidden")]
#[case(403, "Forbidden: VOICE_MESSAGES_FORBIDDEN", "VoiceForbidden")]
#[case(400, "Bad Request: user restricted receiving of voice messages", "VoiceForbidden")]
#[case(400, "Bad Request: not enough rights to send voice notes to the chat", "VoiceForbidden")]
#[case(400, "Bad Request: CHAT_SEND_VOICES_FORBIDDEN", "VoiceForbidden")]
#[case(403, "Forbidden: bot was blocked by the user", "forbidden")]
fn answers_to_a_voice(#[case] code: u16, #[case] description: &str, #[case] expected: &str) {
    assert_eq!(meaning(no(code, description), ApiOperation::Voice), expected, "{description}");
}

#[rstest]
#[case(
    ApiOperation::Edit,
    "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message",
    "already so"
)]
#[case(ApiOperation::Edit, "Bad Request: message to edit not found", "TargetGone")]
#[case(ApiOperation::Edit, "Bad Request: MESSAGE_ID_INVALID", "TargetGone")]
#[case(ApiOperation::Edit, "Bad Request: message can't be edited", "TargetGone")]
#[case(ApiOperation::Edit, "Bad Request: there is no text in the message to edit", "TargetGone")]
#[case(ApiOperation::Edit, "Bad Request: can't parse entities: x", "BadMarkup")]
#[case(ApiOperation::Edit, "Bad Request: chat not found", "forbidden")]
#[case(ApiOperation::Edit, "Bad Request: TOPIC_CLOSED", "TargetGone")]
#[case(ApiOperation::Delete, "Bad Request: TOPIC_CLOSED", "forbidden")]
#[case(ApiOperation::Delete, "Bad Request: message to delete not found", "already so")]
#[case(ApiOperation::Delete, "Bad Request: MESSAGE_ID_INVALID", "already so")]
#[case(ApiOperation::Delete, "Bad Request: message can't be deleted", "Other")]
fn answers_to_edits_and_deletions(#[case] operation: ApiOperation, #[case] description: &str, #[case] expected: &str) {
    assert_eq!(meaning(no(400, description), operation), expected, "{description}");
}

#[test]
fn a_chat_that_moved_says_where() {
    let moved = ApiError {
        code: 400,
        description: "Bad Request: group chat was upgraded to a supergroup chat".to_owned(),
        migrated_to: Some(-100_123),
        retry_after: None,
    };
    assert_eq!(meaning(CallError::Refused(moved), ApiOperation::Files), "moved to -100123");
}

#[test]
fn user_reason_is_worded_for_the_person() {
    let words = |code, description| match classify_error(no(code, description), ApiOperation::Text) {
        CallOutcome::Failed(
            SendError::Forbidden { reason } | SendError::Refused { reason, .. } | SendError::AccountRefused { reason },
        ) => reason,
        other => format!("{other:?}"),
    };
    for (code, description, expected) in [
        (403, "Forbidden: bot was blocked by the user", "the person has blocked the bot"),
        (403, "Forbidden: bot was kicked from the group chat", "the bot was removed from the chat"),
        (401, "Unauthorized", "Telegram no longer accepts the bot's token"),
        (404, "Not Found", "the Bot API's server doesn't know the request; it may be too old"),
        (
            400,
            "Bad Request: chat not found",
            "Telegram doesn't know the chat, or the person has never written to the bot",
        ),
        (403, "Forbidden: something new", "something new"),
        (400, "Bad Request: something: new", "something: new"),
        (400, "something: new", "something: new"),
    ] {
        assert_eq!(words(code, description), expected, "{description}");
    }
}

#[rstest]
#[case(404, "Not Found: method not found", "rich messages unknown, refused: Not Found: method not found")]
#[case(404, "Not Found", "rich messages unknown, refused: Not Found")]
#[case(400, "Bad Request: message text is empty", "BadMarkup")]
#[case(400, "Bad Request: RICH_MESSAGE_DEPTH_INVALID", "BadMarkup")]
#[case(400, "Bad Request: RICH_MESSAGE_URL_INVALID", "BadMarkup")]
#[case(400, "Bad Request: can't parse entities: Unsupported start tag \"x\" at byte offset 0", "BadMarkup")]
#[case(400, "Bad Request: something new", "BadMarkup")]
#[case(400, "Bad Request: chat not found", "forbidden")]
#[case(400, "Bad Request: not enough rights to send text messages to the chat", "forbidden")]
#[case(400, "Bad Request: TOPIC_CLOSED", "topic gone, not allowed: the topic is closed")]
#[case(500, "Internal Server Error: restart", "in doubt")]
fn answers_to_a_rich_message(#[case] code: u16, #[case] description: &str, #[case] expected: &str) {
    assert_eq!(meaning(no(code, description), ApiOperation::RichText), expected);
}

#[rstest]
#[case("Bad Request: message text is empty", "rich messages unknown, refused: message text is empty")]
#[case("Bad Request: RICH_MESSAGE_CONTENT_REQUIRED", "BadMarkup")]
#[case("Bad Request: message to edit not found", "TargetGone")]
#[case("Bad Request: message is not modified", "already so")]
fn answers_to_an_edit_into_a_rich_message(#[case] description: &str, #[case] expected: &str) {
    assert_eq!(meaning(no(400, description), ApiOperation::RichEdit), expected);
}
