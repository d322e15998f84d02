//! What each answer means: every line of the table of answers, in Discord's own codes.

use std::time::Duration;

use rstest::rstest;
use serde_json::json;

use super::*;

fn no(status: u16, code: u64) -> CallError {
    refused(status, code, "something", Value::Null)
}

fn refused(status: u16, code: u64, message: &str, errors: Value) -> CallError {
    CallError::Refused(Refused { status, code, message: message.to_owned(), errors })
}

/// The name of what follows, which is what routing branches on.
fn meaning(error: CallError, tried: Tried) -> String {
    match judge(error, tried) {
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
    assert_eq!(meaning(no(status, code), Tried::Text), expected, "{status} {code}");
}

#[rstest]
#[case(403, 50_013, Tried::Bundle, "Other")]
#[case(403, 50_013, Tried::Files(1), "forbidden")]
#[case(403, 50_001, Tried::Bundle, "forbidden")]
#[case(403, 50_013, Tried::EditToBundle, "Other")]
#[case(403, 50_001, Tried::EditToBundle, "forbidden")]
#[case(403, 50_013, Tried::Edit, "forbidden")]
#[case(404, 10_008, Tried::EditToBundle, "TargetGone")]
#[case(400, 50_006, Tried::EditToBundle, "BadMarkup")]
#[case(400, 50_083, Tried::Edit, "TargetGone")]
#[case(400, 50_083, Tried::EditToBundle, "TargetGone")]
#[case(400, 50_083, Tried::Delete, "forbidden")]
#[case(504, 0, Tried::Text, "in doubt")]
#[case(504, 0, Tried::Files(2), "in doubt")]
#[case(504, 0, Tried::Edit, "in doubt")]
#[case(504, 0, Tried::Harmless, "not sent")]
#[case(400, 50_006, Tried::Files(1), "Other")]
#[case(400, 50_046, Tried::Files(3), "Other")]
#[case(413, 40_005, Tried::Bundle, "TooLarge { limit: None }")]
#[case(400, 50_173, Tried::Voice, "VoiceForbidden")]
#[case(403, 50_173, Tried::Voice, "VoiceForbidden")]
#[case(403, 50_013, Tried::Voice, "VoiceForbidden")]
#[case(403, 50_001, Tried::Voice, "forbidden")]
#[case(400, 50_159, Tried::Voice, "UnsupportedKind")]
#[case(400, 50_160, Tried::Voice, "UnsupportedKind")]
#[case(400, 50_161, Tried::Voice, "UnsupportedKind")]
#[case(404, 10_008, Tried::Edit, "TargetGone")]
#[case(403, 50_005, Tried::Edit, "TargetGone")]
#[case(400, 50_162, Tried::Edit, "TargetGone")]
#[case(404, 10_003, Tried::Edit, "forbidden")]
#[case(404, 10_008, Tried::Delete, "TargetGone")]
#[case(403, 50_013, Tried::Delete, "forbidden")]
#[case(404, 10_008, Tried::Text, "forbidden")]
fn answers_to_everything_else(#[case] status: u16, #[case] code: u64, #[case] tried: Tried, #[case] expected: &str) {
    assert_eq!(meaning(no(status, code), tried), expected, "{status} {code} {tried:?}");
}

#[rstest]
#[case(json!({"content": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "x"}]}}), Tried::Text, "BadMarkup")]
#[case(json!({"content": {"_errors": []}}), Tried::Edit, "BadMarkup")]
#[case(json!({"attachments": {"2": {"filename": {"_errors": []}}}}), Tried::Files(3), "item 2")]
#[case(json!({"files": {"1": {"_errors": []}}}), Tried::Bundle, "item 1")]
#[case(json!({"attachments": {"0": {"description": {"_errors": []}}}}), Tried::Files(1), "Other")]
#[case(json!({"attachments": {"_errors": [{"message": "x"}]}}), Tried::Files(3), "Other")]
#[case(json!({"components": {"0": {"_errors": []}}}), Tried::Text, "Other")]
#[case(json!({"nonce": 7}), Tried::Text, "Other")]
#[case(json!("odd"), Tried::Text, "Other")]
fn a_form_is_refused_for_the_field_that_is_named(#[case] errors: Value, #[case] tried: Tried, #[case] expected: &str) {
    assert_eq!(meaning(refused(400, 50_035, "Invalid Form Body", errors), tried), expected);
}

#[test]
fn discords_own_wait_is_told_in_milliseconds() {
    let limited = |retry_after| CallError::RateLimited { retry_after, global: false, reason: "wait".to_owned() };
    assert_eq!(meaning(limited(Some(Duration::from_millis(7_250))), Tried::Text), "not sent for 7250");
    assert_eq!(meaning(limited(None), Tried::Edit), "not sent");
}

#[test]
fn what_is_no_answer_leaves_doubt_unless_nothing_was_written() {
    let reason = || "words".to_owned();
    for (error, expected, harmless) in [
        (CallError::NotSent { reason: reason() }, "not sent", "not sent"),
        (CallError::Lost { reason: reason() }, "in doubt", "not sent"),
        (CallError::NotAnAnswer { status: 200, reason: reason() }, "in doubt", "not sent"),
        (CallError::NotAnAnswer { status: 502, reason: reason() }, "in doubt", "not sent"),
        (
            CallError::NotAnAnswer { status: 413, reason: reason() },
            "TooLarge { limit: None }",
            "TooLarge { limit: None }",
        ),
        (CallError::Unreadable { reason: reason() }, "unreadable", "unreadable"),
    ] {
        assert_eq!(meaning(error.clone(), Tried::Files(1)), expected, "{error:?}");
        assert_eq!(meaning(error.clone(), Tried::Harmless), harmless, "{error:?}");
    }
}

#[test]
fn a_person_is_told_in_words_of_their_own() {
    let words = |error| match judge(error, Tried::Text) {
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
fn only_a_readable_no_says_that_reading_is_not_allowed() {
    assert!(may_not_read(&no(403, 50_001)) && may_not_read(&no(404, 10_003)));
    assert!(!may_not_read(&no(500, 0)) && !may_not_read(&CallError::Lost { reason: String::new() }));
}
