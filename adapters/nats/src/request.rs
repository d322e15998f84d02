//! A request of another program, as it is written on the bus, and what its sender gets to read about it.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use satchel_domain::{ConversationId, Filename, Sender, TurnId, size::format_bytes};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    CHANNEL,
    membership::{Membership, NatsGroups, is_sender_id},
    request_listener::RequestLimits,
    subject::is_token,
};

/// The version of requests and receipts.
const REQUEST_VERSION: u64 = 1;

/// The type of a request.
const REQUEST_TYPE: &str = "cmd.turn.request";

/// A name that people read is at most this long.
const MAX_NAME_CHARS: usize = 64;

/// A request whose form is right.
#[derive(Debug, PartialEq)]
pub(crate) struct TurnRequest {
    /// What makes it unique among those of its sender in its conversation.
    pub(crate) id: String,
    pub(crate) conversation: ConversationId,
    pub(crate) membership: Membership,
    pub(crate) sender: Sender,
    pub(crate) text: String,
    pub(crate) files: Vec<RequestAttachment>,
}

/// A file that came with a request.
#[derive(Debug, PartialEq)]
pub(crate) struct RequestAttachment {
    pub(crate) filename: Filename,
    pub(crate) mime: Option<String>,
    pub(crate) content: Bytes,
}

/// The longest reason that a sender and the log get.
const MAX_REASON_CHARS: usize = 300;

/// Why a request is not taken.
#[derive(Debug, PartialEq)]
pub(crate) struct Rejection {
    /// The request's id, as far as it has one.
    pub(crate) id: Option<String>,
    /// What is wrong, and what is allowed.
    pub(crate) reason: String,
}

/// What became of a request. Its sender finds it under the request's id.
#[derive(Debug, Serialize)]
#[serde(tag = "type")]
pub(crate) enum RequestReceipt<'a> {
    #[serde(rename = "evt.turn.request.accepted")]
    Accepted { v: u64, id: &'a str, conversation: &'a ConversationId, turn: TurnId },
    #[serde(rename = "evt.turn.request.rejected")]
    Rejected {
        v: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        reason: &'a str,
    },
}

/// A request as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRequest {
    #[serde(rename = "v")]
    _version: u64,
    #[serde(rename = "type")]
    type_name: String,
    id: String,
    conversation: String,
    #[serde(default)]
    sender: Option<WrittenSender>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    files: Vec<WrittenFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSender {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFile {
    filename: String,
    #[serde(rename = "mimeType", default)]
    mime: Option<String>,
    #[serde(rename = "dataBase64")]
    data: String,
}

impl<'a> RequestReceipt<'a> {
    pub(crate) fn accepted(id: &'a str, conversation: &'a ConversationId, turn: TurnId) -> Self {
        Self::Accepted { v: REQUEST_VERSION, id, conversation, turn }
    }

    pub(crate) fn rejected(id: Option<&'a str>, reason: &'a str) -> Self {
        Self::Rejected { v: REQUEST_VERSION, id, reason }
    }
}

/// Cuts a reason, which may repeat what a request holds, to what fits a receipt and a line of the log.
fn shorten(reason: String) -> String {
    match reason.char_indices().nth(MAX_REASON_CHARS) {
        None => reason,
        Some((end, _)) => format!("{}…", &reason[..end]),
    }
}

impl TurnRequest {
    /// Reads a request of the sender that its subject names, for one of the sender's conversations.
    pub(crate) fn parse(
        json: &[u8],
        sender_id: &str,
        limits: &RequestLimits,
        groups: &NatsGroups,
    ) -> Result<Self, Rejection> {
        let value: Value = serde_json::from_slice(json)
            .map_err(|error| Rejection { id: None, reason: shorten(format!("it is no JSON: {error}")) })?;
        let id = value["id"].as_str().filter(|id| is_token(id)).map(str::to_owned);
        let reject = |reason: String| Rejection { id: id.clone(), reason: shorten(reason) };
        // Before everything else: a later version may change all the rest.
        match value["v"].as_u64() {
            Some(REQUEST_VERSION) => {}
            Some(version) => {
                return Err(reject(format!("version {version} is unknown: write `\"v\": {REQUEST_VERSION}`")));
            }
            None => return Err(reject(format!("`v` is missing: write `\"v\": {REQUEST_VERSION}`"))),
        }
        let written: WrittenRequest = serde_json::from_value(value).map_err(|error| reject(error.to_string()))?;
        Self::check(written, sender_id, limits, groups).map_err(reject)
    }

    fn check(
        written: WrittenRequest,
        sender_id: &str,
        limits: &RequestLimits,
        groups: &NatsGroups,
    ) -> Result<Self, String> {
        let WrittenRequest { type_name, id, conversation, sender, text, files, .. } = written;
        if type_name != REQUEST_TYPE {
            return Err(format!("`type` is not `{REQUEST_TYPE}`"));
        }
        if !is_token(&id) {
            return Err("`id` is not 1 to 64 letters, digits, `-` and `_`".to_owned());
        }
        let conversation = conversation.parse::<ConversationId>().ok();
        let Some(conversation) = conversation.filter(|conversation| conversation.channel().as_str() == CHANNEL) else {
            return Err(format!("`conversation` is not `{CHANNEL}:NAME`, with letters, digits and `-_./@`"));
        };
        if !is_sender_id(sender_id) {
            return Err(
                "the last token of the subject, the sender's id, is not 1 to 64 letters, digits, `-` and `_`".into()
            );
        }
        let Some(membership) = groups.find_membership(&conversation, sender_id) else {
            return Err(format!(
                "`conversation` is not `{CHANNEL}:{sender_id}`, nor below it (`{CHANNEL}:{sender_id}/NAME`), nor one \
                 whose members the operator lists in `nats.groups`, with `{sender_id}` among them"
            ));
        };
        let (claimed_id, name) = sender.map_or((None, None), |sender| (sender.id, sender.name));
        if claimed_id.is_some_and(|claimed| claimed != sender_id) {
            return Err(format!("`sender.id` is not `{sender_id}`, the last token of the subject"));
        }
        let name = name.map_or_else(|| sender_id.to_owned(), |name| name.chars().take(MAX_NAME_CHARS).collect());
        if text.trim().is_empty() && files.is_empty() {
            return Err("it has neither `text` nor `files`".to_owned());
        }
        if files.len() > limits.files {
            return Err(format!("it has {} files, the limit is {}", files.len(), limits.files));
        }
        let files =
            files.into_iter().map(|file| RequestAttachment::decode(file, limits)).collect::<Result<_, String>>()?;
        Ok(Self { id, conversation, membership, sender: Sender::new(sender_id, name), text, files })
    }
}

impl RequestAttachment {
    fn decode(written: WrittenFile, limits: &RequestLimits) -> Result<Self, String> {
        let filename = Filename::from_untrusted(&written.filename);
        let decoded = STANDARD.decode(written.data);
        let content = decoded.map_err(|error| format!("`dataBase64` of {filename} is no Base64: {error}"))?;
        if content.len() as u64 > limits.file_bytes {
            let (size, limit) = (format_bytes(content.len() as u64), format_bytes(limits.file_bytes));
            return Err(format!("{filename} is {size}, the limit is {limit}"));
        }
        Ok(Self { filename, mime: written.mime, content: content.into() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIMITS: RequestLimits = RequestLimits { files: 2, file_bytes: 5 };

    fn request() -> Value {
        json!({
            "v": 1, "type": "cmd.turn.request", "id": "order-7", "conversation": "nats:orders",
            "sender": { "name": "Orders" }, "text": "Check it.",
            "files": [{ "filename": "../a.txt", "mimeType": "text/plain", "dataBase64": "aGVsbG8=" }],
        })
    }

    fn parse(value: &Value) -> Result<TurnRequest, Rejection> {
        TurnRequest::parse(&serde_json::to_vec(value).unwrap(), "orders", &LIMITS, &NatsGroups::default())
    }

    #[test]
    fn request_has_the_sender_of_its_subject() {
        let parsed = parse(&request()).unwrap();
        let file = RequestAttachment {
            filename: Filename::from_untrusted("a.txt"),
            mime: Some("text/plain".into()),
            content: Bytes::from_static(b"hello"),
        };
        assert_eq!(
            parsed,
            TurnRequest {
                id: "order-7".into(),
                conversation: "nats:orders".parse().unwrap(),
                membership: Membership::Own,
                sender: Sender::new("orders", "Orders"),
                text: "Check it.".into(),
                files: vec![file],
            }
        );
    }

    #[test]
    fn every_mistake_names_what_is_allowed() {
        let file = json!({ "filename": "a", "dataBase64": "aGVsbG8=" });
        for (field, value, expected) in [
            ("v", json!(2), "version 2 is unknown: write `\"v\": 1`"),
            ("v", json!(null), "`v` is missing: write `\"v\": 1`"),
            ("type", json!("cmd.other"), "`type` is not `cmd.turn.request`"),
            ("id", json!("a.b"), "`id` is not 1 to 64 letters"),
            ("conversation", json!("telegram:1"), "`conversation` is not `nats:NAME`"),
            ("conversation", json!("nats:hr/payroll"), "`conversation` is not `nats:orders`, nor below it"),
            ("sender", json!({ "id": "ada" }), "`sender.id` is not `orders`"),
            ("text", json!(7), "invalid type: integer `7`, expected a string"),
            ("owner", json!(true), "unknown field `owner`"),
            ("files", json!([file, file, file]), "it has 3 files, the limit is 2"),
            ("files", json!([{ "filename": "a", "dataBase64": "!" }]), "`dataBase64` of a is no Base64"),
            ("files", json!([{ "filename": "a", "dataBase64": "aGVsbG8h" }]), "a is 6 B, the limit is 5 B"),
        ] {
            let mut changed = request();
            changed[field] = value;
            let rejection = parse(&changed).unwrap_err();
            assert!(rejection.reason.starts_with(expected), "{field}: {}", rejection.reason);
            assert_eq!(rejection.id.as_deref(), (field != "id").then_some("order-7"), "{field}");
        }
        let nothing = parse(&json!({ "v": 1, "type": "cmd.turn.request", "id": "x", "conversation": "nats:orders" }));
        assert_eq!(nothing.unwrap_err().reason, "it has neither `text` nor `files`");
        let no_json = TurnRequest::parse(b"{", "orders", &LIMITS, &NatsGroups::default()).unwrap_err();
        assert!(no_json.reason.starts_with("it is no JSON"), "{no_json:?}");
    }
}
