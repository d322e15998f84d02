//! A request as it is read: method, parameters, and uploads that are hashed and counted as they flow.
//!
//! Bot API, Making requests: "URL query string", "application/x-www-form-urlencoded", "application/json (except for
//! uploading files)", "multipart/form-data"; "All methods in the Bot API are case-insensitive."

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

use axum::{
    extract::{FromRequest, Multipart, Request},
    http::header,
};
use reqwest::Url;
use satchel_fake_kit::ReceivedUpload;
use serde_json::{Map, Value};

use crate::refusal::{ApiRefusal, bad};

/// The largest body without files, and the largest field beside files.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct ReceivedCall {
    pub(crate) method: String,
    pub(crate) parameters: Map<String, Value>,
    pub(crate) uploads: HashMap<String, ReceivedUpload>,
    /// Which parameters the method has asked for.
    taken: Mutex<BTreeSet<String>>,
}

/// Why a request could not be read.
pub(crate) enum RequestReadError {
    /// The client went away in the middle of it.
    BrokeOff,
    /// It is complete and makes no sense.
    Refused(ApiRefusal),
}

impl ReceivedCall {
    /// Reads all of a request before anything is answered, refusals too: a client that is still writing would not read.
    pub(crate) async fn read(method: String, request: Request, keep_bytes: bool) -> Result<Self, RequestReadError> {
        let mut parameters = pairs(request.uri().query().unwrap_or_default());
        let mut uploads = HashMap::new();
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        if kind.starts_with("multipart/form-data") {
            let unreadable = |_| RequestReadError::Refused(bad("the multipart body has no boundary"));
            let mut fields = Multipart::from_request(request, &()).await.map_err(unreadable)?;
            while let Some(field) = fields.next_field().await.map_err(|_| RequestReadError::BrokeOff)? {
                let name = field.name().unwrap_or_default().to_owned();
                if field.file_name().is_some() {
                    uploads.insert(
                        name,
                        ReceivedUpload::read(field, keep_bytes).await.map_err(|_| RequestReadError::BrokeOff)?,
                    );
                } else {
                    let words = field.text().await.map_err(|_| RequestReadError::BrokeOff)?;
                    parameters.insert(name, Value::String(words));
                }
            }
        } else {
            let body = axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES).await;
            let body = body.map_err(|_| RequestReadError::BrokeOff)?;
            if kind.starts_with("application/json") {
                let object = serde_json::from_slice(&body);
                // The server's own words for a body that is no JSON object.
                let object = object.map_err(|_| RequestReadError::Refused(bad("can't parse JSON object")))?;
                parameters = object;
            } else {
                parameters.extend(pairs(&String::from_utf8_lossy(&body)));
            }
        }
        Ok(Self { method, parameters, uploads, taken: Mutex::default() })
    }

    /// One item of an album as a request of its own, with the uploads of the whole.
    pub(crate) fn of_item(album: &Self, item: &Value) -> Self {
        let parameters = item.as_object().cloned().unwrap_or_default();
        Self { method: album.method.clone(), parameters, uploads: album.uploads.clone(), taken: Mutex::default() }
    }

    fn take_field(&self, name: &str) -> Option<&Value> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        self.parameters.get(name).filter(|value| !value.is_null())
    }

    /// The parameters that the method has asked for so far.
    pub(crate) fn taken(&self) -> BTreeSet<String> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A parameter as words; numbers and objects are written out.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.take_field(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }

    /// A parameter as a whole number.
    pub(crate) fn integer(&self, name: &str) -> Option<i64> {
        self.text(name)?.trim().parse().ok()
    }

    /// A parameter as yes or no. The server takes these words for yes.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.text(name).is_some_and(|words| matches!(words.to_lowercase().as_str(), "true" | "yes" | "t" | "1"))
    }

    /// A parameter that is "a JSON-serialized" object or list.
    pub(crate) fn json(&self, name: &str) -> Result<Option<Value>, ApiRefusal> {
        match self.take_field(name) {
            Some(Value::String(words)) if words.is_empty() => Ok(None),
            Some(Value::String(words)) => {
                let parsed = serde_json::from_str(words);
                parsed.map(Some).map_err(|_| bad(format!("can't parse {} JSON object", name.replace('_', " "))))
            }
            other => Ok(other.cloned()),
        }
    }

    /// How many bytes of files came with it.
    pub(crate) fn uploaded_bytes(&self) -> u64 {
        self.uploads.values().map(|upload| upload.bytes).sum()
    }
}

/// The pairs of a query string or an urlencoded body.
fn pairs(encoded: &str) -> Map<String, Value> {
    let mut url = Url::parse("http://telegram.invalid/").expect("it is one");
    url.set_query(Some(encoded));
    url.query_pairs().map(|(name, value)| (name.into_owned(), Value::String(value.into_owned()))).collect()
}
