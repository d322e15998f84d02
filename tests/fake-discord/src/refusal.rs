//! What Discord answers when it refuses, and what a test lets go wrong.

use satchel_fake_kit::ServerFault;
use serde_json::{Map, Value, json};

/// A refusal as Discord words it (Opcodes and Status Codes, JSON: `code`, `message`; Reference, Error Messages:
/// `errors`).
#[derive(Debug, Clone, PartialEq)]
pub struct ApiRefusal {
    pub status: u16,
    /// The `code`; 0 where the status says it all.
    pub code: u64,
    /// The `message`.
    pub message: String,
    /// The `errors` of a form that is wrong, by the path of each field.
    pub errors: Option<Box<Value>>,
    /// A 429's own numbers.
    pub wait: Option<RetryAfter>,
}

/// How long a client is to wait (Rate Limits, Exceeding A Rate Limit).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryAfter {
    /// The `retry_after`, in seconds.
    pub seconds: f64,
    /// Whether all routes are meant.
    pub global: bool,
}

/// What goes wrong with a request. [`satchel_fake_kit::Fault::BadItem`] meets messages with so many files only,
/// [`satchel_fake_kit::Fault::VoiceForbidden`] voice messages only, and [`satchel_fake_kit::Fault::BadMarkup`] none:
/// Discord takes all Markdown.
pub type DiscordFault = ServerFault<ApiRefusal>;

impl ApiRefusal {
    /// A refusal without details.
    pub fn new(status: u16, code: u64, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), errors: None, wait: None }
    }

    /// What stands for a status alone, such as `404: Not Found`.
    #[must_use]
    pub fn from_status(status: u16) -> Self {
        let name = match status {
            401 => "Unauthorized",
            404 => "Not Found",
            405 => "Method Not Allowed",
            500 => "Internal Server Error",
            _ => "Error",
        };
        Self::new(status, 0, format!("{status}: {name}"))
    }

    /// 429 for one route, or for all of them.
    #[must_use]
    pub fn too_many_requests(seconds: f64, global: bool) -> Self {
        let wait = Some(RetryAfter { seconds, global });
        Self { wait, ..Self::new(429, 0, "You are being rate limited.") }
    }

    /// 50035 for one field, by its path such as `["attachments", "0", "description"]`.
    pub fn invalid_field(path: &[&str], code: &str, message: impl Into<String>) -> Self {
        let mut form = FormErrors::default();
        form.add_error(path, code, message);
        form.refusal()
    }

    pub(crate) fn body(&self) -> Value {
        let mut body = json!({ "message": self.message, "code": self.code });
        if let Some(errors) = &self.errors {
            body["errors"] = errors.as_ref().clone();
        }
        if let Some(wait) = self.wait {
            body["retry_after"] = json!(wait.seconds);
            body["global"] = json!(wait.global);
        }
        body
    }
}

/// The complaints about a form, gathered so that all of them are told at once.
#[derive(Debug, Default)]
pub(crate) struct FormErrors {
    errors: Map<String, Value>,
}

impl FormErrors {
    /// Notes what is wrong with the field at a path.
    pub(crate) fn add_error(&mut self, path: &[&str], code: &str, message: impl Into<String>) {
        let mut place = &mut self.errors;
        for step in path {
            let inner = place.entry(*step).or_insert_with(|| json!({}));
            place = inner.as_object_mut().expect("errors are objects all the way down");
        }
        let complaints = place.entry("_errors").or_insert_with(|| json!([]));
        complaints.as_array_mut().expect("complaints are a list").push(json!({
            "code": code, "message": message.into(),
        }));
    }

    /// Whether nothing is wrong.
    pub(crate) fn check(self) -> Result<(), ApiRefusal> {
        if self.errors.is_empty() { Ok(()) } else { Err(self.refusal()) }
    }

    fn refusal(self) -> ApiRefusal {
        ApiRefusal { errors: Some(Box::new(self.errors.into())), ..ApiRefusal::new(400, 50_035, "Invalid Form Body") }
    }
}

/// 10003.
pub(crate) fn unknown_channel() -> ApiRefusal {
    ApiRefusal::new(404, 10_003, "Unknown Channel")
}

/// 10008.
pub(crate) fn unknown_message() -> ApiRefusal {
    ApiRefusal::new(404, 10_008, "Unknown Message")
}

/// 50001.
pub(crate) fn missing_access() -> ApiRefusal {
    ApiRefusal::new(403, 50_001, "Missing Access")
}

/// 50013.
pub(crate) fn missing_permissions() -> ApiRefusal {
    ApiRefusal::new(403, 50_013, "Missing Permissions")
}

/// 40005.
pub(crate) fn too_large() -> ApiRefusal {
    ApiRefusal::new(413, 40_005, "Request entity too large")
}

/// 50006.
pub(crate) fn empty_message() -> ApiRefusal {
    ApiRefusal::new(400, 50_006, "Cannot send an empty message")
}

/// 10062.
pub(crate) fn unknown_interaction() -> ApiRefusal {
    ApiRefusal::new(404, 10_062, "Unknown interaction")
}

impl From<ApiRefusal> for DiscordFault {
    fn from(refusal: ApiRefusal) -> Self {
        Self::Refuse(refusal)
    }
}
