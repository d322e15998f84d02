//! What a client takes for a token and an address, what it shows of them, and how answers are read.

use std::fmt::Write;

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use satchel_platform_http::ApiResponse;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::*;
use crate::classify::{ApiOperation, classify_error};

/// From the bytes of an answer, or from what came in its place, to what the part is told.
#[test]
fn answers_map_to_outcomes() {
    let mut table = String::new();
    for (status, body) in [
        (200, r#"{"id":"7"}"#),
        (200, r#"{"typing":true}"#),
        (200, ""),
        (204, ""),
        (200, r#"{"id":"#),
        (200, "<html>"),
        (302, ""),
        (400, r#"{"message":"token is wrong","code":0}"#),
        (400, r#"{"message":"Invalid Form Body","code":50035,"errors":{"content":{}}}"#),
        (400, "{}"),
        (401, r#"{"message":"401: Unauthorized","code":0}"#),
        (403, r#"{"message":"Missing Access","code":50001}"#),
        (404, "<html>"),
        (413, r#"{"message":"Request entity too large","code":40005}"#),
        (413, "<html>"),
        (429, r#"{"message":"The token is limited","retry_after":1.2345,"global":true}"#),
        (429, r#"{"message":"You are being rate limited.","retry_after":2,"global":false}"#),
        (429, "<html>"),
        (500, r#"{"message":"500: Internal Server Error","code":0}"#),
        (502, "<html>"),
        (504, r#"{"message":"504: Gateway Timeout","code":0}"#),
    ] {
        let decoded = read::<IgnoredAny>(status, None, body);
        let outcome = decoded.map_err(|error| classify_error(error, ApiOperation::Text));
        writeln!(table, "{status} {body}\n  {outcome:?}").unwrap();
    }
    let reason = || "why".to_owned();
    for error in [
        CallError::NotConnected { reason: reason() },
        CallError::Lost { reason: reason() },
        CallError::Unreadable { reason: reason() },
    ] {
        let told =
            [ApiOperation::Text, ApiOperation::Harmless].map(|operation| classify_error(error.clone(), operation));
        writeln!(table, "{error:?}\n  {told:?}").unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn only_well_formed_token_is_accepted() {
    for (text, is_one) in
        [("MTA.abc-d_E", true), ("x", true), ("", false), ("a b", false), ("a\r\nX: y", false), ("ü", false)]
    {
        assert_eq!(is_token(text), is_one, "{text}");
    }
}

#[test]
fn only_an_address_of_a_server_is_one() {
    let made = |url: &str| RestClient::new(&"token".into(), Some(&url.into()), HttpTimeouts::default(), None);
    for (url, works) in [
        ("https://discord.example", true),
        ("http://127.0.0.1:8080/", true),
        ("http://name:word@host", false),
        ("http://name@host", false),
        ("http://:word@host", false),
        ("ftp://host", false),
    ] {
        assert_eq!(made(url).is_ok(), works, "{url}");
    }
    let client = made("http://host:8080/").unwrap();
    let url = client.api.url(API_PATH);
    assert_eq!((client.custom_server_host(), url.as_str()), (Some("host"), "http://host:8080/api/v10"));
    let of_discord = RestClient::new(&" Bot abc.d ".into(), None, HttpTimeouts::default(), None).unwrap();
    assert_eq!((of_discord.custom_server_host(), of_discord.token().expose_secret()), (None, "abc.d"));
}

fn read<T: DeserializeOwned>(status: u16, retry_after: Option<&'static str>, body: &str) -> Result<T, CallError> {
    let mut headers = HeaderMap::new();
    if let Some(seconds) = retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from_static(seconds));
    }
    response::decode(&ApiResponse { status, headers, body: body.as_bytes().to_vec() }, &"token".into())
}

#[test]
fn empty_response_suffices_where_no_body_is_needed() {
    assert_eq!(read::<()>(204, None, ""), Ok(()));
    assert!(matches!(read::<Vec<Value>>(204, None, ""), Err(CallError::InvalidResponse { status: 204, .. })));
}

#[test]
fn retry_after_is_read_from_header_or_body() {
    let wait = |header, body: &str| match read::<()>(429, header, body) {
        Err(CallError::RateLimited { retry_after, global, .. }) => (retry_after.map(|wait| wait.as_millis()), global),
        other => panic!("{other:?}"),
    };
    for (header, body, expected) in [
        (None, r#"{"message":"x","retry_after":1.2345,"global":true}"#, (Some(1_235), true)),
        (Some("9"), r#"{"message":"x","retry_after":2,"global":false}"#, (Some(2_000), false)),
        (Some("9"), "<html>", (Some(9_000), true)),
        (Some("soon"), "<html>", (None, true)),
        (Some("9"), r#"{"message":"x","global":false}"#, (Some(9_000), true)),
        (None, r#"{"retry_after":-1}"#, (None, true)),
        (Some("9"), r#"{"retry_after":-1}"#, (Some(9_000), true)),
        (None, r#"{"retry_after":1e300}"#, (Some(2_592_000_000), false)),
    ] {
        assert_eq!(wait(header, body), expected, "{header:?} {body}");
    }
}

#[test]
fn api_error_keeps_code_and_hides_token() {
    let refused = read::<()>(400, None, r#"{"message":"token is wrong","code":50035,"errors":{"content":{}}}"#);
    let expected = ApiError {
        status: 400,
        code: 50_035,
        message: "<token> is wrong".to_owned(),
        errors: serde_json::json!({ "content": {} }),
    };
    assert_eq!(refused, Err(CallError::Refused(expected)));
    assert!(matches!(read::<()>(400, None, "{}"), Err(CallError::InvalidResponse { status: 400, .. })));
    assert!(matches!(read::<()>(502, None, "<html>"), Err(CallError::InvalidResponse { status: 502, .. })));
}

#[test]
fn an_answer_tells_its_time() {
    for (date, told) in [
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777_000)),
        ("Sun, 22 Nov 2026 00:00:00 GMT", Some(1_795_305_600_000)),
        ("Sunday, 06-Nov-94 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 CET", None),
        ("Sun, 06 Foo 1994 08:49:37 GMT", None),
        ("Sun, 66 Nov 1994 08:49:37 GMT", None),
        ("Mon, 01 Jan 1900 00:00:00 GMT", None),
        ("now", None),
    ] {
        let headers = HeaderMap::from_iter([(DATE, HeaderValue::from_static(date))]);
        assert_eq!(response::parse_date(&headers), told, "{date}");
    }
    assert_eq!(response::parse_date(&HeaderMap::new()), None);
}
