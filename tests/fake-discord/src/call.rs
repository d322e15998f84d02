//! A request as it is read: route, query, form, and uploads that are hashed and counted as they flow.
//!
//! Reference, Uploading Files: "multipart/form-data" with `payload_json` and `files[n]`; otherwise "application/json".

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    body::Body,
    extract::{FromRequest, Multipart, Request},
    http::header,
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use reqwest::Url;
use satchel_domain::Sha256;
use satchel_fake_kit::ReceivedUpload;
use serde_json::{Map, Value};

use crate::{
    refusal::{ApiRefusal, too_large},
    route::FakeRoute,
};

/// The largest body without files, and the largest `payload_json`.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// A request as a test reads it.
#[derive(Debug, Clone)]
pub struct DiscordCall {
    /// The route, as in `POST /channels/{}/messages`.
    pub route: String,
    /// The path below `/api/v10`.
    pub path: String,
    pub query: Vec<(String, String)>,
    /// The body, or the `payload_json` beside files; null where there is none.
    pub body: Value,
    /// The files, by the `n` of `files[n]`.
    pub files: BTreeMap<usize, SentFile>,
}

/// A file as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentFile {
    /// Its name in the part's header.
    pub filename: String,
    /// Its type in the part's header.
    pub mime: String,
    /// How many bytes came.
    pub bytes: u64,
    pub sha256: Sha256,
}

/// A request as the routes read it.
#[derive(Debug)]
pub(crate) struct ReceivedCall {
    pub(crate) route: FakeRoute,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: Value,
    pub(crate) uploads: BTreeMap<usize, ReceivedUpload>,
    /// How many bytes its body has, the words and all that stands around the files included.
    pub(crate) bytes: u64,
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
    pub(crate) async fn read(
        route: FakeRoute,
        path: &str,
        request: Request,
        keep_bytes: bool,
    ) -> Result<Self, RequestReadError> {
        let query = pairs(request.uri().query().unwrap_or_default());
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        let (body, uploads) = (Value::Null, BTreeMap::new());
        let mut call = Self { route, path: path.to_owned(), query, body, uploads, bytes: 0 };
        let (request, bytes) = with_count(request);
        if kind.starts_with("multipart/form-data") {
            call.read_form(request, keep_bytes).await?;
        } else {
            call.read_body(&kind, request.into_body()).await?;
        }
        call.bytes = bytes.load(Ordering::Relaxed);
        Ok(call)
    }

    async fn read_form(&mut self, request: Request, keep_bytes: bool) -> Result<(), RequestReadError> {
        let boundless =
            |_| RequestReadError::Refused(ApiRefusal::new(400, 50_109, "The request body contains invalid JSON."));
        let mut fields = Multipart::from_request(request, &()).await.map_err(boundless)?;
        let mut complaint = None;
        while let Some(field) = fields.next_field().await.map_err(|_| RequestReadError::BrokeOff)? {
            let name = field.name().unwrap_or_default().to_owned();
            let number = name.strip_prefix("files[").and_then(|rest| rest.strip_suffix(']'));
            let number = number.and_then(|number| number.parse().ok());
            match (name.as_str(), number) {
                ("payload_json", _) => match read_json(&field.bytes().await.map_err(|_| RequestReadError::BrokeOff)?) {
                    Ok(body) => self.body = body,
                    Err(refusal) => complaint = Some(refusal),
                },
                (_, Some(number)) => {
                    let upload =
                        ReceivedUpload::read(field, keep_bytes).await.map_err(|_| RequestReadError::BrokeOff)?;
                    self.uploads.insert(number, upload);
                }
                // Discord passes over parts that it doesn't know; whoever sends one here has mistyped.
                (unknown, None) => {
                    let words = format!("the fake knows no part {unknown:?}, only payload_json and files[n]");
                    complaint = Some(ApiRefusal::invalid_field(&["_misc"], "UNKNOWN_PART", words));
                    ReceivedUpload::read(field, false).await.map_err(|_| RequestReadError::BrokeOff)?;
                }
            }
        }
        complaint.map_or(Ok(()), |refusal| Err(RequestReadError::Refused(refusal)))
    }

    async fn read_body(&mut self, kind: &str, body: Body) -> Result<(), RequestReadError> {
        let body = read_all(body).await?;
        if body.is_empty() {
            return Ok(());
        }
        if !kind.starts_with("application/json") {
            let words = "Expected \"Content-Type\" header to be one of {'application/json'}.";
            return Err(RequestReadError::Refused(ApiRefusal::invalid_field(&[], "CONTENT_TYPE_INVALID", words)));
        }
        self.body = read_json(&body).map_err(RequestReadError::Refused)?;
        Ok(())
    }

    /// The path's id at this place.
    pub(crate) fn id(&self, place: usize) -> &str {
        &self.route.ids[place]
    }

    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// How many bytes of files came with it.
    pub(crate) fn uploaded_bytes(&self) -> u64 {
        self.uploads.values().map(|upload| upload.bytes).sum()
    }

    /// The same for a test to read.
    pub(crate) fn as_record(&self) -> DiscordCall {
        let sent = |upload: &ReceivedUpload| SentFile {
            filename: upload.filename.clone(),
            mime: upload.mime.clone(),
            bytes: upload.bytes,
            sha256: upload.sha256,
        };
        DiscordCall {
            route: self.route.name.clone(),
            path: self.path.clone(),
            query: self.query.clone(),
            body: self.body.clone(),
            files: self.uploads.iter().map(|(number, upload)| (*number, sent(upload))).collect(),
        }
    }
}

/// The request, and how much of its body has been read.
fn with_count(request: Request) -> (Request, Arc<AtomicU64>) {
    let read: Arc<AtomicU64> = Arc::default();
    let counting = Arc::clone(&read);
    let count = move |block: &Bytes| {
        counting.fetch_add(block.len() as u64, Ordering::Relaxed);
    };
    (request.map(|body| Body::from_stream(body.into_data_stream().inspect_ok(count))), read)
}

async fn read_all(body: Body) -> Result<Vec<u8>, RequestReadError> {
    let mut blocks = body.into_data_stream();
    let (mut whole, mut too_long) = (Vec::new(), false);
    while let Some(block) = blocks.next().await {
        let block = block.map_err(|_| RequestReadError::BrokeOff)?;
        too_long = too_long || whole.len() + block.len() > MAX_BODY_BYTES;
        if !too_long {
            whole.extend_from_slice(&block);
        }
    }
    if too_long { Err(RequestReadError::Refused(too_large())) } else { Ok(whole) }
}

/// 50109: "The request body contains invalid JSON."
fn read_json(body: &[u8]) -> Result<Value, ApiRefusal> {
    let value = serde_json::from_slice(body);
    value.map_err(|_| ApiRefusal::new(400, 50_109, "The request body contains invalid JSON."))
}

fn pairs(query: &str) -> Vec<(String, String)> {
    let mut url = Url::parse("http://discord.invalid/").expect("it is one");
    url.set_query(Some(query));
    url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// A form as an object; whatever else it is is an empty one.
pub(crate) fn fields(body: &Value) -> Map<String, Value> {
    body.as_object().cloned().unwrap_or_default()
}
