//! A finished turn as a completion.

use satchel_domain::{Attachment, ConversationId, Ending};
use satchel_ports::{LINK_TTL, ledger::TurnRecord};
use serde_json::{Value, json};

use super::error::OpenAiError;
use crate::state::AppState;

/// What the reply of a turn needs besides the turn.
#[derive(Debug, Clone)]
pub(super) struct ReplyContext {
    pub(super) conversation: ConversationId,
    /// The origin of the links to files.
    pub(super) origin: String,
    /// The model's name, as the client gave it.
    pub(super) model: String,
}

/// The text of a reply, and why it ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReplyText {
    pub(super) text: String,
    pub(super) finish_reason: &'static str,
}

impl ReplyContext {
    /// Returns the reply of a finished turn, with links to its files.
    ///
    /// # Errors
    /// When the model did not answer; the message is what people read.
    pub(super) fn read_reply(&self, state: &AppState, record: &TurnRecord) -> Result<ReplyText, OpenAiError> {
        let response = record.response.as_ref();
        let text = response.and_then(|response| response.text.clone()).unwrap_or_default();
        let finish_reason = match &record.ending {
            Some(ending) if has_failed(record) => return Err(OpenAiError::failed_turn(ending.as_str(), text)),
            Some(Ending::Budget { .. }) => "length",
            _ => "stop",
        };
        let files = response.iter().flat_map(|response| &response.attachments);
        let links: Vec<String> = files.map(|file| self.link(state, file)).collect();
        let blocks = [text, links.join("\n")];
        let text = blocks.iter().filter(|block| !block.is_empty()).cloned().collect::<Vec<_>>().join("\n\n");
        Ok(ReplyText { text, finish_reason })
    }

    /// A link to a file, in Markdown.
    fn link(&self, state: &AppState, file: &Attachment) -> String {
        let links = state.channel.links();
        let link = links.create(&self.origin, file, state.clock.now(), LINK_TTL);
        let name: String =
            file.filename.as_str().chars().map(|c| if matches!(c, '[' | ']' | '\\') { '_' } else { c }).collect();
        format!("[{name}]({})", link.url)
    }

    /// The body of a completion.
    pub(super) fn completion(&self, record: &TurnRecord, created: i64, reply: &ReplyText) -> Value {
        json!({
            "id": completion_id(&record.id),
            "object": "chat.completion",
            "created": created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": { "role": "assistant", "content": reply.text, "refusal": null },
                "logprobs": null,
                "finish_reason": reply.finish_reason,
            }],
        })
    }
}

/// Whether a turn has ended without an answer.
pub(super) fn has_failed(record: &TurnRecord) -> bool {
    matches!(record.ending, Some(Ending::ModelFailed { .. } | Ending::Failed { .. } | Ending::Crashed { .. }))
}

/// The id of a turn's completion.
pub(super) fn completion_id(turn: &satchel_domain::TurnId) -> String {
    format!("chatcmpl-{turn}")
}
