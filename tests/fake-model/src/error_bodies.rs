//! How each provider says no, in its own words; the texts are those that people report in public issue trackers.

use serde_json::{Value, json};

use crate::{ModelWire, ProviderErrorCase, file_content::FileFault};

/// marketing-factory/ai-filemetadata issue 18.
const UNSUPPORTED_IMAGE: &str = "You uploaded an unsupported image. Please make sure your image has of one the following \
                                 formats: ['png', 'jpeg', 'gif', 'webp'].";

/// openai/codex issue 4946.
const NO_VALID_IMAGE: &str = "The image data you provided does not represent a valid image. Please check your input and \
                              try again with one of the supported image formats: ['image/jpeg', 'image/png', \
                              'image/gif', 'image/webp'].";

/// anthropics/claude-code issue 15941.
const UNPROCESSED_IMAGE: &str = "Could not process image";

/// google-gemini/gemini-cli issue 5064.
const UNPROCESSED_INPUT_IMAGE: &str = "Unable to process input image. Please retry or report in \
                                       https://developers.generativeai.google/guide/troubleshooting";

/// ollama/ollama issue 11320.
const UNKNOWN_FORMAT: &str = "Failed to create new sequence: failed to process inputs: image: unknown format";

/// How a provider refuses a file at a place of the request for its bytes. Anthropic: anthropics/claude-code issues 13131 and
/// 5174; Gemini: google-gemini/gemini-cli issues 27244 and 13808; llama.cpp in Ollama: odysseus-dev/odysseus issue 5499;
/// sound: TutoriaLLM/TutoriaLLM issue 370.
pub(crate) fn invalid_file(wire: ModelWire, place: &str, mime: &str, fault: FileFault) -> String {
    let kind = mime.split('/').next().unwrap_or_default();
    match (wire, kind, fault) {
        (ModelWire::OpenAiChat, "image", _) => UNSUPPORTED_IMAGE.to_owned(),
        (ModelWire::OpenAiResponses, "image", _) => NO_VALID_IMAGE.to_owned(),
        (ModelWire::Anthropic, "image", FileFault::OtherType) => {
            format!("{place}.content.0.image.source.base64.data: Image does not match the provided media type {mime}")
        }
        (ModelWire::Anthropic, "image", FileFault::CutOff) => UNPROCESSED_IMAGE.to_owned(),
        (ModelWire::Anthropic, ..) => {
            format!("{place}.content.0.pdf.source.base64.data: The PDF specified was not valid.")
        }
        (ModelWire::Gemini, "image", FileFault::OtherType) => "Provided image is not valid.".to_owned(),
        (ModelWire::Gemini, "image", FileFault::CutOff) => UNPROCESSED_INPUT_IMAGE.to_owned(),
        (ModelWire::Gemini, "application", _) => "The document has no pages.".to_owned(),
        (ModelWire::Ollama, _, FileFault::OtherType) => UNKNOWN_FORMAT.to_owned(),
        (ModelWire::Ollama, _, FileFault::CutOff) => "Failed to load image or audio file".to_owned(),
        (_, "audio", _) => "The audio file could not be decoded or its format is not supported.".to_owned(),
        _ => format!("Invalid file data: these bytes are no {mime}"),
    }
}

/// Status and body of a refusal. `about` is what it speaks of: the key, the model, the broken rule.
pub(crate) fn refusal(wire: ModelWire, case: ProviderErrorCase, about: &str) -> (u16, Value) {
    match wire {
        ModelWire::OpenAiChat | ModelWire::OpenAiResponses => openai(case, about),
        ModelWire::Anthropic => anthropic(case, about),
        ModelWire::Gemini => gemini(case, about),
        ModelWire::Ollama => ollama(case, about),
    }
}

/// The form: <https://platform.openai.com/docs/guides/error-codes>.
pub(crate) fn openai(case: ProviderErrorCase, about: &str) -> (u16, Value) {
    let (status, kind, code, message) = match case {
        ProviderErrorCase::Invalid => {
            let code = match about {
                UNSUPPORTED_IMAGE => json!("invalid_image_format"),
                NO_VALID_IMAGE => json!("invalid_value"),
                _ => Value::Null,
            };
            (400, "invalid_request_error", code, about.to_owned())
        }
        ProviderErrorCase::Image => {
            (400, "invalid_request_error", json!("invalid_image_format"), UNSUPPORTED_IMAGE.to_owned())
        }
        ProviderErrorCase::Key => (
            401,
            "invalid_request_error",
            json!("invalid_api_key"),
            format!(
                "Incorrect API key provided: {about}. You can find your API key at \
                 https://platform.openai.com/account/api-keys."
            ),
        ),
        ProviderErrorCase::NotAllowed => (
            403,
            "invalid_request_error",
            Value::Null,
            format!("Project `proj_x` does not have access to model `{about}`"),
        ),
        ProviderErrorCase::Model => (
            404,
            "invalid_request_error",
            json!("model_not_found"),
            format!("The model `{about}` does not exist or you do not have access to it."),
        ),
        ProviderErrorCase::Rate => (
            429,
            "requests",
            json!("rate_limit_exceeded"),
            "Rate limit reached for requests per min (RPM): Limit 3, Used 3, Requested 1.".to_owned(),
        ),
        ProviderErrorCase::Quota => (
            429,
            "insufficient_quota",
            json!("insufficient_quota"),
            "You exceeded your current quota, please check your plan and billing details.".to_owned(),
        ),
        ProviderErrorCase::ContextTooLong => (
            400,
            "invalid_request_error",
            json!("context_length_exceeded"),
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 200000 tokens."
                .to_owned(),
        ),
        ProviderErrorCase::TooLarge => {
            (413, "invalid_request_error", Value::Null, "Request body is too large.".to_owned())
        }
        ProviderErrorCase::Filtered => (
            400,
            "invalid_request_error",
            json!("content_policy_violation"),
            "Your request was rejected as a result of our safety system.".to_owned(),
        ),
        ProviderErrorCase::NoTools => {
            (400, "invalid_request_error", Value::Null, format!("{about} does not support function calling"))
        }
        ProviderErrorCase::Server => {
            (500, "server_error", Value::Null, "The server had an error while processing your request.".to_owned())
        }
        ProviderErrorCase::Overloaded => {
            (503, "service_unavailable", Value::Null, "The engine is currently overloaded.".to_owned())
        }
    };
    (status, json!({ "error": { "message": message, "type": kind, "param": null, "code": code } }))
}

/// The form: <https://platform.claude.com/docs/en/api/errors>.
pub(crate) fn anthropic(case: ProviderErrorCase, about: &str) -> (u16, Value) {
    let (status, kind, message) = match case {
        ProviderErrorCase::Invalid => (400, "invalid_request_error", about.to_owned()),
        ProviderErrorCase::Image => (400, "invalid_request_error", UNPROCESSED_IMAGE.to_owned()),
        ProviderErrorCase::Key => (401, "authentication_error", format!("invalid x-api-key: {about}")),
        ProviderErrorCase::NotAllowed => {
            (403, "permission_error", "Your API key does not have permission to use this resource".to_owned())
        }
        ProviderErrorCase::Model => (404, "not_found_error", format!("model: {about}")),
        ProviderErrorCase::Rate => {
            (429, "rate_limit_error", "This request would exceed your organization's rate limit.".to_owned())
        }
        ProviderErrorCase::Quota => (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.".to_owned(),
        ),
        ProviderErrorCase::ContextTooLong => {
            (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum".to_owned())
        }
        ProviderErrorCase::TooLarge => (413, "request_too_large", "Request exceeds the maximum size".to_owned()),
        ProviderErrorCase::Filtered => {
            (400, "invalid_request_error", "Output blocked by content filtering policy".to_owned())
        }
        ProviderErrorCase::NoTools => (400, "invalid_request_error", format!("{about} does not support tools")),
        ProviderErrorCase::Server => (500, "api_error", "Internal server error".to_owned()),
        ProviderErrorCase::Overloaded => (529, "overloaded_error", "Overloaded".to_owned()),
    };
    (status, json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_fake" }))
}

/// The form: <https://ai.google.dev/gemini-api/docs/troubleshooting>.
pub(crate) fn gemini(case: ProviderErrorCase, about: &str) -> (u16, Value) {
    let (status, kind, message, details) = match case {
        ProviderErrorCase::Invalid => (400, "INVALID_ARGUMENT", about.to_owned(), json!([])),
        ProviderErrorCase::Image => (400, "INVALID_ARGUMENT", UNPROCESSED_INPUT_IMAGE.to_owned(), json!([])),
        ProviderErrorCase::Key => (
            400,
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.".to_owned(),
            json!([{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID",
                "domain": "googleapis.com", "metadata": { "service": "generativelanguage.googleapis.com",
                "consumer": about } }]),
        ),
        ProviderErrorCase::NotAllowed => {
            (403, "PERMISSION_DENIED", "The caller does not have permission".to_owned(), json!([]))
        }
        ProviderErrorCase::Model => (
            404,
            "NOT_FOUND",
            format!("models/{about} is not found for API version v1beta, or is not supported for generateContent."),
            json!([]),
        ),
        ProviderErrorCase::Rate => (
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details.".to_owned(),
            json!([
                { "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                  "violations": [{ "quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier" }] },
                { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s" },
            ]),
        ),
        ProviderErrorCase::Quota => (
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details.".to_owned(),
            json!([
                { "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                  "violations": [{ "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier" }] },
                { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s" },
            ]),
        ),
        ProviderErrorCase::ContextTooLong => (
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).".to_owned(),
            json!([]),
        ),
        ProviderErrorCase::TooLarge => {
            (400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes.".to_owned(), json!([]))
        }
        ProviderErrorCase::Filtered => {
            (400, "INVALID_ARGUMENT", "blockReason: PROHIBITED_CONTENT".to_owned(), json!([]))
        }
        ProviderErrorCase::NoTools => {
            (400, "INVALID_ARGUMENT", format!("models/{about} does not support function calling"), json!([]))
        }
        ProviderErrorCase::Server => (500, "INTERNAL", "An internal error has occurred.".to_owned(), json!([])),
        ProviderErrorCase::Overloaded => {
            (503, "UNAVAILABLE", "The model is overloaded. Please try again later.".to_owned(), json!([]))
        }
    };
    (status, json!({ "error": { "code": status, "message": message, "status": kind, "details": details } }))
}

/// The form: <https://github.com/ollama/ollama/blob/main/docs/api.md>; the words are those of its `server/routes.go`.
pub(crate) fn ollama(case: ProviderErrorCase, about: &str) -> (u16, Value) {
    let (status, message) = match case {
        ProviderErrorCase::Invalid => (400, about.to_owned()),
        ProviderErrorCase::Image => (500, UNKNOWN_FORMAT.to_owned()),
        ProviderErrorCase::Key => (401, format!("unauthorized: {about}")),
        ProviderErrorCase::NotAllowed => (403, "forbidden".to_owned()),
        ProviderErrorCase::Model => (404, format!("model '{about}' not found")),
        ProviderErrorCase::Rate => (429, "too many requests".to_owned()),
        ProviderErrorCase::Quota => (402, "payment required".to_owned()),
        ProviderErrorCase::ContextTooLong => (400, "the input length exceeds the context length".to_owned()),
        ProviderErrorCase::TooLarge => (413, "http: request body too large".to_owned()),
        ProviderErrorCase::Filtered => (400, "content_filter".to_owned()),
        ProviderErrorCase::NoTools => {
            (400, format!("registry.ollama.ai/library/{about}:latest does not support tools"))
        }
        ProviderErrorCase::Server => (500, "llama runner process has terminated: signal: killed".to_owned()),
        ProviderErrorCase::Overloaded => {
            (503, "server busy, please try again.  maximum pending requests exceeded".to_owned())
        }
    };
    (status, json!({ "error": message }))
}
