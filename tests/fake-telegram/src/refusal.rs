//! What the Bot API answers when it refuses, and what a test lets go wrong.

use satchel_fake_kit::ServerFault;
use serde_json::{Value, json};

/// A refusal as the Bot API words it (Bot API, Making requests: `ok`, `error_code`, `description`, `parameters`).
#[derive(Debug, Clone, PartialEq)]
pub struct ApiRefusal {
    /// The `error_code`, which is the HTTP status too.
    pub code: u16,
    /// The `description`.
    pub description: String,
    /// The `parameters`, `retry_after` or `migrate_to_chat_id`.
    pub parameters: Option<Value>,
}

/// What goes wrong with a request. [`satchel_fake_kit::Fault::BadMarkup`] meets requests with a `parse_mode` or a
/// `rich_message` only,
/// [`satchel_fake_kit::Fault::BadItem`] albums only, [`satchel_fake_kit::Fault::VoiceForbidden`] voices only.
pub type TelegramFault = ServerFault<ApiRefusal>;

impl ApiRefusal {
    /// A refusal without parameters.
    pub fn new(code: u16, description: impl Into<String>) -> Self {
        Self { code, description: description.into(), parameters: None }
    }

    /// 429. The Bot API knows whole seconds only.
    #[must_use]
    pub fn too_many_requests(retry_after: u64) -> Self {
        Self {
            parameters: Some(json!({ "retry_after": retry_after })),
            ..Self::new(429, format!("Too Many Requests: retry after {retry_after}"))
        }
    }

    pub(crate) fn body(&self) -> Value {
        let mut body = json!({ "ok": false, "error_code": self.code, "description": self.description });
        if let Some(parameters) = &self.parameters {
            body["parameters"] = parameters.clone();
        }
        body
    }
}

/// 400 with the words that the Bot API puts before all of them.
pub(crate) fn bad(words: impl AsRef<str>) -> ApiRefusal {
    ApiRefusal::new(400, format!("Bad Request: {}", words.as_ref()))
}

/// 403, likewise.
pub(crate) fn forbidden(words: impl AsRef<str>) -> ApiRefusal {
    ApiRefusal::new(403, format!("Forbidden: {}", words.as_ref()))
}

impl From<ApiRefusal> for TelegramFault {
    fn from(refusal: ApiRefusal) -> Self {
        Self::Refuse(refusal)
    }
}
