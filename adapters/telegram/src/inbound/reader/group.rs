//! Whether a message in a group is addressed to the bot. Pure.

use super::ParsedMessage;
use crate::inbound::{
    albums::AlbumTracker,
    text::{BotIdentity, LeadingCommand},
};

/// Whether a message in a group is addressed to the bot: by a mention, a command, a reply, or because it answers
/// everything there.
pub(super) fn is_addressed_to_bot(
    parsed: &ParsedMessage<'_>,
    bot: &BotIdentity,
    answers_in: &[String],
    albums: &AlbumTracker,
) -> bool {
    let head = &parsed.message.head;
    if answers_in.iter().any(|entry| matches_chat(entry, parsed)) {
        return true;
    }
    if parsed.album.as_ref().is_some_and(|album| albums.contains(album)) {
        return true;
    }
    if head.replied_to().is_some_and(|replied| replied.head.is_from(bot)) {
        return true;
    }
    parsed.text.mentions_bot || matches!(parsed.text.command, Some(LeadingCommand::OwnBot(_)))
}

/// Whether a configured entry matches the message: `*`, a chat or topic by its id, a chat by its public name.
fn matches_chat(entry: &str, parsed: &ParsedMessage<'_>) -> bool {
    let chat = &parsed.message.head.chat;
    let entry = entry.trim();
    let entry = entry.strip_prefix("telegram:").unwrap_or(entry);
    let is_username = |name: &String| name.eq_ignore_ascii_case(entry.trim_start_matches('@'));
    entry == "*"
        || entry == chat.id.to_string()
        || entry == parsed.address.conversation().key()
        || chat.username.as_ref().is_some_and(is_username)
}
