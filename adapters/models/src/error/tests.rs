//! Tests of what failures are told as.

use secrecy::SecretString;
use serde_json::json;

use super::*;
use crate::settings::{ModelProvider, ModelSettings};

const KEY: &str = "sk-canary-4711-0815";

fn teller() -> ErrorMapper {
    let settings = ModelSettings {
        name: "main".into(),
        provider: ModelProvider::OpenAi,
        base_url: None,
        api_key: Some(SecretString::from(KEY)),
        model: Some("gpt-x".into()),
        accepts: None,
    };
    ErrorMapper::new(&ModelTarget::new(settings).unwrap())
}

/// The kind of an error for a request that holds files of these kinds.
fn kind_for(files: &[MediaKind], code: u16, body: &Value) -> ProviderErrorKind {
    let mapper = teller().for_files(files.iter().copied());
    mapper.map_status(StatusCode::from_u16(code).unwrap(), &body.to_string(), &HeaderMap::new()).kind
}

/// The error for a request that holds files of all kinds.
fn status(status: u16, body: &Value, headers: &[(&'static str, &str)]) -> ProviderError {
    let headers = headers.iter().map(|(name, value)| {
        (reqwest::header::HeaderName::from_static(name), reqwest::header::HeaderValue::from_str(value).unwrap())
    });
    let mapper = teller().for_files(MediaKind::ALL);
    mapper.map_status(StatusCode::from_u16(status).unwrap(), &body.to_string(), &headers.collect())
}

#[test]
fn a_providers_own_words_are_shown_without_secrets() {
    for (message, wanted) in [
        ("temperature must be below 2.", "temperature must be below 2"),
        ("Incorrect key sk-ca****0815 given", "Incorrect key … given"),
        (&format!("Bearer {KEY}, see https://x.example/?k={KEY}"), "Bearer …, see …"),
        ("a\u{202E}b\u{7}", "ab"),
        (&"word ".repeat(100), "word word word"),
    ] {
        let reason = status(400, &json!({"error": {"message": message}}), &[]).error.reason;
        let told = reason.strip_prefix("OpenAI refused the request (400): ").expect(&reason);
        assert!(told.starts_with(wanted) && told.chars().count() <= MAX_REASON_CHARS, "{told}");
    }
    assert_eq!(status(418, &json!({}), &[]).error.reason, "OpenAI refused the request (418)");
    assert_eq!(status(400, &json!("garbage"), &[]).error.reason, "OpenAI refused the request (400)");
}

#[test]
fn waits_are_read_from_headers_and_body() {
    let limited = json!({"error": {"code": "rate_limit_exceeded"}});
    let delayed = json!({"error": {"details": [{"@type": "…RetryInfo", "retryDelay": "34.5s"}]}});
    for (body, headers, wanted) in [
        (&limited, vec![], None),
        (&limited, vec![("retry-after", "7")], Some(7000)),
        (&limited, vec![("retry-after", "0.25")], Some(250)),
        (&limited, vec![("retry-after-ms", "1500"), ("retry-after", "2")], Some(1500)),
        (&limited, vec![("retry-after", "-3")], None),
        (&limited, vec![("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], None),
        (&limited, vec![("retry-after", "1e300")], None),
        (&delayed, vec![], Some(34_500)),
        (&delayed, vec![("retry-after", "1")], Some(1000)),
    ] {
        let failure = status(429, body, &headers);
        assert_eq!(failure.retry_after, wanted.map(Duration::from_millis), "{headers:?}");
        assert!(failure.can_retry);
    }
    assert!(!status(503, &json!({}), &[("x-should-retry", "false")]).can_retry, "the server knows better");
}

#[test]
fn minute_quota_is_retryable_and_daily_is_not() {
    let said = |quota: &str| {
        json!({"error": {"status": "RESOURCE_EXHAUSTED", "details": [
            {"violations": [{"quotaId": quota}]}, {"@type": "type.googleapis.com/google.rpc.RetryInfo"}]}})
    };
    assert!(status(429, &said("RequestsPerMinute"), &[]).error.retryable);
    assert!(!status(429, &said("RequestsPerDay"), &[]).error.retryable);
}

/// The bodies as people report them.
#[test]
fn refusals_for_files_are_told_from_others() {
    let said = |message: &str| json!({"error": {"message": message, "type": "invalid_request_error"}});
    for (kind, message) in [
        (MediaKind::Image, "Could not process image"),
        (
            MediaKind::Image,
            "messages.1.content.0.tool_result.content.1.image.source.base64: The image was specified using the image/png media type, but the image appears to be a image/jpeg image",
        ),
        (MediaKind::Image, "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum: 7 bytes > 5 bytes"),
        (MediaKind::Image, "The image data you provided does not represent a valid image."),
        (MediaKind::Image, "Invalid image."),
        (MediaKind::Image, "Provided image is not valid."),
        (MediaKind::Image, "Failed to load image or audio file"),
        (MediaKind::Image, "Invalid content type. image_url is only supported by certain models."),
        (
            MediaKind::Image,
            "Failed to deserialize the JSON body into the target type: messages[1]: unknown variant `image_url`, expected `text` at line 1 column 679289",
        ),
        (MediaKind::Image, "This model does not support image_url content."),
        (MediaKind::Image, "Invalid 'messages[1].content[0].image_url'."),
        (MediaKind::Audio, "Content of type 'input_audio' is unsupported."),
        (MediaKind::Pdf, "messages.2.content.0.pdf.source.base64.data: The PDF specified was not valid."),
        (MediaKind::Pdf, "The document has no pages."),
        (MediaKind::Audio, "The audio file could not be decoded or its format is not supported."),
    ] {
        let failure = status(400, &said(message), &[]);
        assert_eq!((failure.kind, failure.can_retry), (ProviderErrorKind::InvalidFile(kind), false), "{message}");
        let begin = format!("OpenAI could not process the {} in this request (400): ", kind.plural_name());
        assert!(failure.error.reason.starts_with(&begin), "{}", failure.error.reason);
    }
    let in_runner = json!({"error": "failed to process inputs: image: unknown format"});
    assert_eq!(status(500, &in_runner, &[]).kind, ProviderErrorKind::InvalidFile(MediaKind::Image));
    for (code, message, kind) in [
        (400, "temperature must be below 2", ProviderErrorKind::Refused),
        (400, "Your input image may contain content_policy violations", ProviderErrorKind::ContentFiltered),
        (503, "invalid image", ProviderErrorKind::Overloaded),
        (429, "rate_limit reached for image input tokens", ProviderErrorKind::RateLimited),
        (413, "request_too_large", ProviderErrorKind::TooLarge),
    ] {
        assert_eq!(status(code, &said(message), &[]).kind, kind, "{message}");
    }
}

/// A server lists all fields that it knows when it refuses another one, and repeats the request.
#[test]
fn field_of_files_is_to_blame_only_where_it_is_refused() {
    let said = |message: &str| json!({"error": {"message": message}});
    for message in [
        "Invalid value: 'tool_use'. Supported values are: 'text', 'image_url', 'input_audio' and 'file'.",
        "Invalid 'content': 'content' objects must have a 'type' field that is either 'text' or 'image_url'.",
        "messages[2]: unknown variant `tool_use`, expected one of `text`, `image_url`, `input_audio`",
        "Invalid schema for function 'draw': In context=('properties', 'image_url'), 'type' is required.",
    ] {
        assert_eq!(status(400, &said(message), &[]).kind, ProviderErrorKind::Refused, "{message}");
    }
    let invalid_tool = json!({"detail": [{
        "type": "union_tag_invalid",
        "loc": ["body", "messages", 1, "image_url", "input_audio"],
        "msg": "Input tag 'tool_use' does not match any of the expected tags: 'text', 'image_url', 'input_audio'",
        "input": {"type": "text", "text": "Why is it an invalid image?"},
        "image_url": null,
    }]});
    assert_eq!(status(422, &invalid_tool, &[]).kind, ProviderErrorKind::Refused);
    for (message, kind) in [
        ("The maximum context length is 100 tokens, and an unsupported image_url has 765.", ProviderErrorKind::TooLong),
        ("llama does not support tools together with image input.", ProviderErrorKind::NoTools),
    ] {
        assert_eq!(status(400, &said(message), &[]).kind, kind, "{message}");
    }
}

#[test]
fn files_that_a_request_does_not_hold_are_not_to_blame() {
    let said = |message: &str| json!({"error": {"message": message}});
    for message in ["Could not process image", "image_url is not supported", "Invalid PDF"] {
        assert_eq!(kind_for(&[], 400, &said(message)), ProviderErrorKind::Refused, "{message}");
    }
    assert_eq!(kind_for(&[MediaKind::Pdf], 400, &said("Could not process image")), ProviderErrorKind::Refused);
    assert_eq!(kind_for(&[], 500, &said("image: unknown format")), ProviderErrorKind::Server);
    let unnamed = said("Failed to load image or audio file");
    for kind in [MediaKind::Image, MediaKind::Audio] {
        assert_eq!(kind_for(&[kind], 400, &unnamed), ProviderErrorKind::InvalidFile(kind));
    }
}

#[test]
fn permanent_refusal_is_not_mistaken_for_transient() {
    let said = |message: &str| json!({"error": {"message": message}});
    let refused = status(403, &said("The model is unavailable in your region"), &[]);
    assert_eq!(refused.error.reason, "this key has no access to the model gpt-x at OpenAI");
    let refused = status(400, &said("an internal tool was named"), &[]);
    assert!(!refused.can_retry && refused.error.reason.ends_with("an internal tool was named"));
    assert!(status(500, &said("internal"), &[]).can_retry);
}

/// The client only ever connects to this machine: no provider can be blamed for that, and none is to be checked.
#[test]
fn lost_loopback_connection_is_not_the_providers_failure() {
    let model_iden = genai::ModelIden::new(genai::adapter::AdapterKind::OpenAI, "gpt-x");
    let lost = |error: genai::BoxError| {
        let error = genai::Error::WebStream { model_iden: model_iden.clone(), cause: "lost".into(), error };
        teller().map_client_error(&error, "").error
    };
    let connection_error = crate::relay::relay_client().unwrap().post("no address").build().unwrap_err();
    let error = lost(Box::new(connection_error));
    let expected = "this machine's loopback connection for OpenAI failed; it may have no free port or file handle";
    assert_eq!((error.reason.as_str(), error.retryable), (expected, true));
    let garbage = String::from_utf8(vec![0xff]).unwrap_err();
    assert_eq!(lost(Box::new(garbage)).reason, "OpenAI sent an answer that could not be understood");
}

#[test]
fn deep_or_long_error_body_is_scanned_partially() {
    let deep = (0..100).fold(json!("insufficient_quota"), |inner, _| json!([inner]));
    assert!(status(400, &deep, &[]).error.reason.contains("refused"));
    let long = json!({"a": "x".repeat(1 << 20), "b": "é".repeat(1 << 20)});
    assert!(status(500, &long, &[]).error.retryable);
}

#[test]
fn waits_are_said_as_people_say_them() {
    for (seconds, wanted) in
        [(0.2, "a second"), (34.0, "34 seconds"), (119.5, "2 minutes"), (300.0, "5 minutes"), (9000.0, "3 hours")]
    {
        assert_eq!(format_wait(Duration::from_secs_f64(seconds)), wanted);
    }
}
