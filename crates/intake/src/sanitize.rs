//! What is taken out of people's texts before they are stored: our links, and markers that only a front end may set.

use satchel_domain::{
    ConversationOpening, HistoryMessage, InboundMessage, inbound::ClientContext, reference_block,
    script::parse_script_message,
};
use satchel_ports::FileLinks;

use crate::commands::ChatCommand;

/// Redacts our links and escapes our markers in a text that takes the place of a message's.
pub(crate) fn sanitize_text(text: &str, links: Option<&dyn FileLinks>) -> String {
    let text = links.map_or_else(|| text.to_owned(), |links| links.redact_links(text));
    // As in `escape_markers`.
    let is_harmless = parse_script_message(&text).is_some() || !reference_block::has_marker(&text);
    if is_harmless { text } else { reference_block::escape(&text) }
}

/// Redacts our links: people quote them when they reply to a notice, clients send back the replies that have them, and the
/// model must not read them.
pub(crate) fn redact_links(mut message: InboundMessage, links: Option<&dyn FileLinks>) -> InboundMessage {
    let Some(links) = links else { return message };
    let captions = message.files.iter_mut().map(|file| &mut file.caption);
    let context = message.context.iter_mut().flat_map(|context| {
        let ClientContext { instructions, history, model: _ } = &mut **context;
        instructions.iter_mut().chain(history.iter_mut().map(HistoryMessage::text_mut))
    });
    let opening = message.opening.iter_mut().flat_map(|opening| opening_texts(opening));
    for text in std::iter::once(&mut message.text).chain(captions).chain(context).chain(opening) {
        *text = links.redact_links(text);
    }
    message
}

/// Takes from a command the message from which its conversation was started. The model never sees a command; the next message
/// brings it that.
pub(crate) fn without_unread_opening(mut message: InboundMessage) -> InboundMessage {
    message.opening = message.opening.filter(|_| ChatCommand::parse(&message.text).is_none());
    message
}

/// The texts of a message from which a conversation was started.
fn opening_texts(opening: &mut ConversationOpening) -> impl Iterator<Item = &mut String> {
    std::iter::once(&mut opening.text).chain(opening.files.iter_mut().map(|file| &mut file.caption))
}

/// Escapes our own markers in people's text, so that a typed reference makes no tool fetch a file. A script stays as it
/// was written: it ends with its fence, so nothing in it is ever taken for a block, unless references come behind it.
pub(crate) fn escape_markers(mut message: InboundMessage) -> InboundMessage {
    let is_script = message.references.is_empty() && parse_script_message(&message.text).is_some();
    let text = (!is_script).then_some(&mut message.text);
    let opening = message.opening.iter_mut().flat_map(|opening| opening_texts(opening));
    let texts = text.into_iter().chain(message.files.iter_mut().map(|file| &mut file.caption)).chain(opening);
    let mut was_escaped = false;
    for text in texts.filter(|text| reference_block::has_marker(text)) {
        *text = reference_block::escape(text);
        was_escaped = true;
    }
    if was_escaped {
        tracing::debug!(chat.id = %message.conversation, "escaped a reference block marker in a message's text");
    }
    message
}

/// Appends a front end's references to the text, as the one block that tools and models read.
/// Comes after [`escape_markers`], so that the block is theirs alone.
pub(crate) fn append_references(mut message: InboundMessage) -> InboundMessage {
    if message.references.is_empty() {
        return message;
    }
    let references = std::mem::take(&mut message.references);
    message.text = reference_block::append(&message.text, &references);
    message
}

#[cfg(test)]
mod tests {
    use satchel_domain::Sender;

    use super::*;

    /// Catches: a mistyped command that uses up the message from which its thread was started, so that the model never reads it.
    #[test]
    fn command_takes_no_opening() {
        for (text, is_taken) in [("/files", false), ("/flies", false), ("/tmp is full, why?", true), ("why?", true)] {
            let opening = ConversationOpening { text: "the plan".into(), ..ConversationOpening::default() };
            let message = InboundMessage {
                text: text.into(),
                opening: Some(Box::new(opening)),
                ..InboundMessage::new("discord:1".parse().unwrap(), "1".into(), Sender::new("7", "Ann"))
            };
            assert_eq!(without_unread_opening(message).opening.is_some(), is_taken, "{text}");
        }
    }
}
