//! What the sender of a message wrote and attached, as a digest: Discord reports updates in which nothing of it changed. Pure.

use satchel_domain::Sha256;
use serde_json::json;

use super::text::describe_content;
use crate::inbound::wire::MessageContent;

/// Returns the digest of a message's text with its mentions as ids, of its attachments by their ids, and of its stickers and poll.
pub(super) fn digest_content(content: &MessageContent) -> Sha256 {
    let attachments: Vec<u64> = content.attachments.iter().map(|attachment| attachment.id.0).collect();
    Sha256::digest(json!([content.text, attachments, describe_content(content)]).to_string())
}
