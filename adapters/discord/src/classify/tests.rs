//! What each answer means: every line of the table of answers, in Discord's own codes.

use rstest::rstest;
use serde_json::json;

use super::*;

fn no(status: u16, code: u64) -> CallError {
    refused(status, code, "something", Value::Null)
}

fn refused(status: u16, code: u64, message: &str, errors: Value) -> CallError {
    CallError::Refused(ApiError { status, code, message: message.to_owned(), errors })
}

/// The name of what follows, which is what routing branches on.
fn meaning(error: CallError, operation: ApiOperation) -> String {
    match classify_error(error, operation) {
        SendError::NotSent { retry_after_ms: None, .. } => "not sent".to_owned(),
        SendError::NotSent { retry_after_ms: Some(wait), .. } => format!("not sent for {wait}"),
        SendError::Refused { refusal: Refusal::Item { index }, .. } => format!("item {index}"),
        SendError::Refused { refusal, .. } => format!("{refusal:?}"),
        SendError::Forbidden { .. } => "forbidden".to_owned(),
        SendError::Unreadable { .. } => "unreadable".to_owned(),
        SendError::InDoubt { .. } => "in doubt".to_owned(),
    }
}

#[rstest]
#[case(500, 0, "not sent")]
#[case(503, 0, "not sent")]
#[case(400, 130_000, "not sent")]
#[case(401, 0, "forbidden")]
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
    for error in [CallError::Lost { reason: reason() }, CallError::InvalidResponse { status: 502, reason: reason() }] {
        assert_eq!(meaning(error.clone(), ApiOperation::Files(1)), "in doubt", "{error:?}");
        assert_eq!(meaning(error.clone(), ApiOperation::Harmless), "not sent", "{error:?}");
    }
    let too_large = CallError::InvalidResponse { status: 413, reason: reason() };
    assert_eq!(meaning(too_large, ApiOperation::Harmless), "TooLarge { limit: None }");
}

#[test]
fn user_reason_is_worded_for_the_person() {
    let words = |error| match classify_error(error, ApiOperation::Text) {
        SendError::Forbidden { reason } | SendError::Refused { reason, .. } => reason,
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
