//! What a client takes for a token and an address, and what it shows of them.

use std::fmt::Write;

use reqwest::header::HeaderMap;
use satchel_platform_http::ApiResponse;
use serde::de::IgnoredAny;

use super::*;
use crate::classify::{ApiOperation, classify_error};

/// From the bytes of an answer, or from what came in its place, to what the part is told.
#[test]
fn answers_map_to_outcomes() {
    let mut table = String::new();
    for (status, body) in [
        (200, r#"{"ok":true,"result":true}"#),
        (200, r#"{"ok":true}"#),
        (200, r#"{"ok":true,"result":"#),
        (200, r#"{"ok":false}"#),
        (200, "[]"),
        (200, ""),
        (400, r#"{"ok":false,"error_code":400,"description":"Bad Request: 1:TOKEN is no chat"}"#),
        (400, r#"{"ok":false,"description":"Bad Request: can't parse entities"}"#),
        (
            400,
            r#"{"ok":false,"error_code":400,"description":"Bad Request: x","parameters":{"migrate_to_chat_id":-100123}}"#,
        ),
        (401, r#"{"ok":false,"error_code":401,"description":"Unauthorized"}"#),
        (404, "<html>"),
        (413, r#"{"ok":false,"error_code":413,"description":"Request Entity Too Large"}"#),
        (413, "<html>"),
        (
            429,
            r#"{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 7","parameters":{"retry_after":7}}"#,
        ),
        (429, r#"{"ok":false,"error_code":429,"description":"Too Many Requests"}"#),
        (429, "<html>"),
        (500, r#"{"ok":false,"error_code":500,"description":"Internal Server Error: restart"}"#),
        (502, "<html>"),
    ] {
        let response = ApiResponse { status, headers: HeaderMap::new(), body: body.as_bytes().to_vec() };
        let decoded = response::decode::<IgnoredAny>(&response, &"1:TOKEN".into());
        let outcome = decoded.map_err(|error| classify_error(error, ApiOperation::Text));
        writeln!(table, "{status} {body}\n  {outcome:?}").unwrap();
    }
    let reason = || "why".to_owned();
    for error in [
        CallError::NotConnected { reason: reason() },
        CallError::Lost { reason: reason() },
        CallError::Unreadable { reason: reason() },
    ] {
        writeln!(table, "{error:?}\n  {:?}", classify_error(error.clone(), ApiOperation::Text)).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn only_well_formed_token_is_accepted() {
    for (text, is_one) in [
        ("123456789:AbC-dEf_1", true),
        ("123456789", false),
        (":abc", false),
        ("1:", false),
        ("12a:abc", false),
        ("1:a/b", false),
        ("1:a?b", false),
        ("1:a b", false),
        ("1:ü", false),
        ("", false),
    ] {
        assert_eq!(is_token(text), is_one, "{text}");
    }
}
