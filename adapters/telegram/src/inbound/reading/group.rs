//! Whether a message in a group is meant for us. Pure.

use super::Written;
use crate::inbound::{
    albums::Albums,
    words::{Command, Us},
};

/// Whether somebody in a group wrote to us: by our name, with a command, in reply, or where we answer everything.
pub(super) fn is_for_us(written: &Written<'_>, us: &Us, answers_in: &[String], albums: &Albums) -> bool {
    let head = &written.message.head;
    if answers_in.iter().any(|place| is_place(place, written)) {
        return true;
    }
    if written.album.as_ref().is_some_and(|album| albums.is_known(album)) {
        return true;
    }
    if head.answered().is_some_and(|answered| answered.head.is_by(us)) {
        return true;
    }
    written.said.mentions_us || matches!(written.said.command, Some(Command::Ours(_)))
}

/// Whether a configured place is the message's: everywhere, a chat or a topic by its number, a chat by its public name.
fn is_place(place: &str, written: &Written<'_>) -> bool {
    let chat = &written.message.head.chat;
    let place = place.trim();
    let place = place.strip_prefix("telegram:").unwrap_or(place);
    let named = |name: &String| name.eq_ignore_ascii_case(place.trim_start_matches('@'));
    place == "*"
        || place == chat.id.to_string()
        || place == written.place.conversation().key()
        || chat.username.as_ref().is_some_and(named)
}
