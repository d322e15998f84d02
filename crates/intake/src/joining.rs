//! Which messages queued behind a turn belong to it: what a person sends in quick succession is one message. Pure.
//!
//! A client sends a comment and what is forwarded with it as two messages, a question and its file, too, and cuts a text that is
//! too long for one. Nobody knows that something follows before it has come, so a turn starts at once, and starts again with
//! what belongs to it.

use std::time::Duration;

use satchel_domain::{InboundMessage, Timestamp, TurnId, script::parse_script_message};
use satchel_ports::ledger::{QueuedMessage, QueuedTurn};

use crate::commands::ChatCommand;

/// How soon a message must arrive behind another one to belong to it. What a client sends together arrives within a few
/// tenths of a second.
const FOLLOW_UP_TIME: Duration = Duration::from_millis(500);

/// The same behind a text that may be cut, whose rest is awaited for as long: it is large, and sent when its beginning has
/// arrived.
const REST_TIME: Duration = Duration::from_millis(1_500);

/// The most files of an album. Some of them may still be on their way when the first one is looked at.
const MAX_ALBUM_FILES: usize = 10;

/// By how much the platform's dates of two messages may differ besides: Telegram's are whole seconds.
const DATE_PRECISION: Duration = Duration::from_secs(1);

/// Returns the turns queued behind a turn whose messages belong to it: the next ones of the same person, as long as each has
/// arrived shortly behind the one before. Commands, scripts and corrections belong to nothing, and nothing that the same
/// person has sent behind them does. Nor does a file that would be refused, since the turn would have more than `max_files`. A
/// turn that has recorded or shown something is as it is.
///
/// What others write in between is passed over. It keeps its own turn behind this one.
#[must_use]
pub fn find_joining_turns(turn: &QueuedTurn, queued: &[QueuedMessage], max_files: usize) -> Vec<TurnId> {
    let mut joining: Vec<TurnId> = Vec::new();
    let Some(mut last) = open_end(turn) else { return joining };
    let sender = &last.message.sender;
    let mut quiet = quiet_time(&turn.messages);
    let mut files = count_files(&turn.messages);
    for message in queued.iter().filter(|queued| queued.message.sender.is_same_person(sender)) {
        // The items of an album come together, or not at all.
        if joining.last() != Some(&message.turn) {
            let items = || queued.iter().filter(|item| item.turn == message.turn);
            let added = count_files(items());
            let is_too_much = files > 0 && added > 0 && files + added > max_files;
            if is_too_much || !items().all(|item| can_join(&item.message)) || !is_close(last, message, quiet) {
                break;
            }
            files += added;
            joining.push(message.turn);
        }
        quiet = quiet.max(quiet_time([message]));
        last = message;
    }
    joining
}

/// Returns until when a turn waits for the rest of a text that may be cut; `None` for one that starts at once.
#[must_use]
pub fn rest_awaited_until(turn: &QueuedTurn) -> Option<Timestamp> {
    // By the ledger's clock, in which it is ready with its last message: that of the process which received it may differ.
    (may_continue(&turn.messages) && open_end(turn).is_some()).then(|| turn.ready_at.saturating_add(REST_TIME))
}

/// The last message of a turn that others can join.
fn open_end(turn: &QueuedTurn) -> Option<&QueuedMessage> {
    let is_open = turn.journal.is_empty() && turn.draft.is_none();
    let can_be_joined = is_open && turn.messages.iter().all(|queued| can_join(&queued.message));
    turn.messages.last().filter(|_| can_be_joined)
}

/// Whether a message is one that a person has written to the model, and can be a part of a larger one.
fn can_join(message: &InboundMessage) -> bool {
    let is_persons = message.system_task.is_none() && message.context.is_none() && !message.pressed;
    let is_correction = message.earlier_text.is_some() || message.edits_forgotten;
    // The id of an anonymous sender may be another person's.
    is_persons
        && !is_correction
        && !message.anonymous
        && ChatCommand::parse(&message.text).is_none()
        && parse_script_message(&message.text).is_none()
}

/// How many files these messages of one turn have, or may have once their album is complete.
fn count_files<'a>(messages: impl IntoIterator<Item = &'a QueuedMessage>) -> usize {
    let mut is_album = false;
    let count_of = |queued: &QueuedMessage| {
        is_album |= queued.message.album.is_some();
        queued.files.len()
    };
    let files: usize = messages.into_iter().map(count_of).sum();
    if is_album { files.max(MAX_ALBUM_FILES) } else { files }
}

fn may_continue<'a>(messages: impl IntoIterator<Item = &'a QueuedMessage>) -> bool {
    messages.into_iter().any(|queued| queued.message.may_continue)
}

/// How soon the next message must arrive to belong to these.
fn quiet_time<'a>(messages: impl IntoIterator<Item = &'a QueuedMessage>) -> Duration {
    if may_continue(messages) { REST_TIME } else { FOLLOW_UP_TIME }
}

/// Whether a message has arrived within this time behind another one, and was sent so: what a platform delivers together after
/// an outage may have been sent hours apart.
fn is_close(earlier: &QueuedMessage, later: &QueuedMessage, quiet: Duration) -> bool {
    let sent = earlier.message.sent_at.zip(later.message.sent_at);
    is_within(earlier.received_at, later.received_at, quiet)
        && sent.is_none_or(|(earlier, later)| is_within(earlier, later, quiet + DATE_PRECISION))
}

/// Whether two moments lie no further apart than this, whichever is the earlier: the clocks of two processes may differ.
fn is_within(one: Timestamp, other: Timestamp, time: Duration) -> bool {
    one.saturating_duration_since(other).max(other.saturating_duration_since(one)) <= time
}

#[cfg(test)]
mod tests;
