//! The message from which a thread was started, as it is quoted before the thread's first message. Pure.

use satchel_domain::{
    ConversationOpening, InboundMessage,
    quoting::{self, QuoteAuthor},
    script::parse_script_message,
};
use serde_json::Value;

use super::{InboundReader, LeadingCommand, sender, text};
use crate::inbound::wire::Message;

/// The first message of a thread that was started from a message (Message Types, `THREAD_STARTER_MESSAGE`). It refers to that,
/// and has nothing else.
const THREAD_STARTER_MESSAGE: u64 = 21;

impl InboundReader {
    /// Whether a message shows the model from what its thread was started: a command of Satchel's own and a script don't.
    pub(crate) fn takes_opening(&self, message: &InboundMessage) -> bool {
        self.leading_command(&message.text) != Some(LeadingCommand::Own)
            && parse_script_message(&message.text).is_none()
    }

    /// Whether a message that brings its thread's starter certainly passes it on. Behind a slash may be a command that its person
    /// has mistyped, and an edit has what the version before it had, which may be nothing.
    pub(crate) fn passes_opening(&self, message: &InboundMessage) -> bool {
        message.opening.is_some() && message.edit_of.is_none() && self.leading_command(&message.text).is_none()
    }

    /// Quotes the message from which a thread was started; one that can't be read is only mentioned.
    pub(crate) fn quote_starter(&self, starter: Option<&Value>) -> ConversationOpening {
        let unreadable = ConversationOpening { text: quoting::unreadable_opening(), ..ConversationOpening::default() };
        let Some(message) = starter.and_then(|starter| Message::read(starter).ok()) else { return unreadable };
        let quoted = text::quote_message(&message, self);
        // Without the Message Content Intent, nothing of it is shown.
        if quoted.text.is_empty() && quoted.files.is_empty() {
            return unreadable;
        }
        let names: Vec<String> = quoted.files.iter().map(|file| file.filename.to_string()).collect();
        let head = &message.head;
        ConversationOpening {
            author: (!head.is_by_program()).then(|| sender(&head.author, None)),
            text: quoting::quote_opening(&quoted.author, &names, &quoted.text),
            redacted_text: quoting::quote_opening(&QuoteAuthor::Stranger, &[], ""),
            files: quoted.files,
            key: Some(head.id.0.to_string()),
            ..ConversationOpening::default()
        }
    }
}

/// Returns the message that the first one of a thread refers to: `None` if the thread wasn't started from a message, and
/// `Some(None)` if that isn't shown.
pub(crate) fn referenced_starter(first: &Value) -> Option<Option<&Value>> {
    let is_starter = first.get("type").and_then(Value::as_u64) == Some(THREAD_STARTER_MESSAGE);
    is_starter.then(|| first.get("referenced_message").filter(|starter| starter.is_object()))
}
