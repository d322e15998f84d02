//! The requests that wait in JetStream: under which subjects, the first of each, and its removal.
//!
//! No consumer is used, because it hands requests out in the order of the stream: one that can't be stored yet would hold
//! up those of all other programs. And what is read as JSON can't end the connection, as a malformed header does in a
//! message that is delivered. See ADR 0042.

use async_nats::{
    Client, Request,
    jetstream::{ErrorCode, response::Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{connection::RESPONSE_TIMEOUT, streams::REQUEST_STREAM, subject::REQUESTS};

/// Something that failed, for the log.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The requests that wait.
#[derive(Clone)]
pub(crate) struct RequestQueue {
    client: Client,
}

/// A request as it was published.
#[derive(Debug)]
pub(crate) struct WaitingRequest {
    pub(crate) subject: String,
    /// The stream's number of it.
    pub(crate) sequence: u64,
    pub(crate) payload: Vec<u8>,
}

/// The subjects under which requests wait.
#[derive(Debug, Default)]
pub(crate) struct WaitingSubjects {
    /// When the stream was created. One that is made again uses the same numbers for other requests.
    pub(crate) created: Option<String>,
    /// One for each sender.
    pub(crate) subjects: Vec<String>,
}

impl RequestQueue {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Lists the subjects under which requests wait.
    ///
    /// # Errors
    /// When JetStream can't be reached, or the stream is missing.
    pub(crate) async fn list_subjects(&self) -> Result<WaitingSubjects, BoxError> {
        let info = self.call("STREAM.INFO", &json!({ "subjects_filter": REQUESTS })).await?.unwrap_or_default();
        let subjects = info["state"]["subjects"].as_object();
        let subjects = subjects.into_iter().flat_map(|subjects| subjects.keys().cloned()).collect();
        Ok(WaitingSubjects { created: read_created(&info), subjects })
    }

    /// Reads the first request under a subject; `None` if none waits.
    ///
    /// # Errors
    /// When JetStream can't be reached, or its response can't be read.
    pub(crate) async fn read_first(&self, subject: &str) -> Result<Option<WaitingRequest>, BoxError> {
        let answer = self.call("STREAM.MSG.GET", &json!({ "next_by_subj": subject })).await?;
        let Some(message) = answer.as_ref().map(|answer| &answer["message"]) else { return Ok(None) };
        let (Some(subject), Some(sequence)) = (message["subject"].as_str(), message["seq"].as_u64()) else {
            return Err("JetStream returned a request without its subject or its number".into());
        };
        let payload = STANDARD.decode(message["data"].as_str().unwrap_or_default())?;
        Ok(Some(WaitingRequest { subject: subject.to_owned(), sequence, payload }))
    }

    /// Removes a request from the stream that was created then; `false` if that stream is gone, and the request with it. In
    /// the stream that was made instead, the number may be that of another program's request. Nothing happens if the
    /// request is removed already.
    ///
    /// # Errors
    /// When JetStream can't be reached, or refuses.
    pub(crate) async fn remove(&self, request: &WaitingRequest, created: Option<&str>) -> Result<bool, BoxError> {
        let info = self.call("STREAM.INFO", &json!({})).await?.unwrap_or_default();
        if read_created(&info).as_deref() != created {
            return Ok(false);
        }
        let removal = json!({ "seq": request.sequence, "no_erase": true });
        self.call("STREAM.MSG.DELETE", &removal).await?;
        Ok(true)
    }

    /// Calls JetStream; `None` if there is no such message.
    async fn call(&self, method: &str, body: &Value) -> Result<Option<Value>, BoxError> {
        // Not as the library calls JetStream, which writes each response into the log if that is verbose.
        let request = Request::new().payload(body.to_string().into()).timeout(Some(RESPONSE_TIMEOUT));
        let message = self.client.send_request(format!("$JS.API.{method}.{REQUEST_STREAM}"), request).await?;
        let response: Response<Value> = serde_json::from_slice(&message.payload)?;
        match response {
            Response::Ok(answer) => Ok(Some(answer)),
            Response::Err { error } => match error.error_code() {
                ErrorCode::NO_MESSAGE_FOUND | ErrorCode::SEQUENCE_NOT_FOUND => Ok(None),
                _ => Err(error.into()),
            },
        }
    }
}

fn read_created(info: &Value) -> Option<String> {
    info["created"].as_str().map(str::to_owned)
}
