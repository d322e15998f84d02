//! Whether a message in a group is meant for us. Pure.

use super::ParsedMessage;
use crate::inbound::{
    albums::AlbumTracker,
    text::{BotIdentity, LeadingCommand},
};

/// Whether somebody in a group wrote to us: by our name, with a command, in reply, or where we answer everything.
pub(super) fn is_addressed_to_bot(
    written: &ParsedMessage<'_>,
    us: &BotIdentity,
    answers_in: &[String],
    albums: &AlbumTracker,
) -> bool {
    let head = &written.message.head;
    if answers_in.iter().any(|place| matches_chat(place, written)) {
        return true;
    }
    if written.album.as_ref().is_some_and(|album| albums.contains(album)) {
        return true;
    }
    if head.replied_to().is_some_and(|answered| answered.head.is_by(us)) {
        return true;
    }
    written.said.mentions_us || matches!(written.said.command, Some(LeadingCommand::OwnBot(_)))
}

/// Whether a configured place is the message's: everywhere, a chat or a topic by its number, a chat by its public name.
fn matches_chat(place: &str, written: &ParsedMessage<'_>) -> bool {
    let chat = &written.message.head.chat;
    let place = place.trim();
    let place = place.strip_prefix("telegram:").unwrap_or(place);
    let named = |name: &String| name.eq_ignore_ascii_case(place.trim_start_matches('@'));
    place == "*"
        || place == chat.id.to_string()
        || place == written.place.conversation().key()
        || chat.username.as_ref().is_some_and(named)
}
