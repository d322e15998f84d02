//! Who said what a search has found. Pure.

use satchel_domain::SystemTask;
use satchel_ports::ledger::{ExcerptPiece, QueuedMessage, Transcription, TurnRecord};

use crate::{pairing::CommandContext, system_tasks::inline_name};

/// What stands at the ends of an excerpt that was cut.
const ELLIPSIS: &str = "…";

/// Returns who said what was found first in a turn, for the person who searches; `None` where nobody did, but the name of a
/// file has it.
pub(super) fn find_speaker(
    excerpt: &[ExcerptPiece],
    record: &TurnRecord,
    context: &CommandContext<'_>,
) -> Option<String> {
    let line = first_matched_line(excerpt)?;
    // In the order of the index, whose first match the excerpt shows.
    let said = record.messages.iter().find(|queued| message_texts(queued).any(|text| text.contains(&line)));
    if let Some(queued) = said {
        return Some(author(queued, context));
    }
    let reply = record.response.as_ref().and_then(|response| response.text.as_deref())?;
    reply.contains(&line).then(|| "I".to_owned())
}

/// What a message says, typed and spoken.
fn message_texts(queued: &QueuedMessage) -> impl Iterator<Item = &str> {
    let spoken = queued.transcriptions.values().filter_map(|transcription| match transcription {
        Transcription::Text(text) => Some(text.as_str()),
        Transcription::Failed(_) => None,
    });
    std::iter::once(queued.message.text.as_str()).chain(spoken)
}

/// The author of a message, in the words of a reply to the person who searches.
fn author(queued: &QueuedMessage, context: &CommandContext<'_>) -> String {
    match &queued.message.system_task {
        Some(SystemTask::RunSchedule { .. }) => "a schedule".to_owned(),
        Some(SystemTask::RunReminder { .. } | SystemTask::DeliverReminder { .. }) => "a reminder".to_owned(),
        Some(_) => "I".to_owned(),
        None if queued.message.sender.is_same_person(context.sender) => "you".to_owned(),
        None => inline_name(&queued.message.sender),
    }
}

/// The line that has the first match, as far as the excerpt shows it.
fn first_matched_line(excerpt: &[ExcerptPiece]) -> Option<String> {
    let first = excerpt.iter().position(|piece| piece.matched)?;
    let is_text = |piece: &&ExcerptPiece| piece.matched || piece.text != ELLIPSIS;
    let before: String = excerpt[..first].iter().filter(is_text).map(|piece| piece.text.as_str()).collect();
    let from_match: String = excerpt[first..].iter().filter(is_text).map(|piece| piece.text.as_str()).collect();
    let start = before.rsplit('\n').next().unwrap_or_default();
    let end = from_match.split('\n').next().unwrap_or_default();
    Some(format!("{start}{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_first_match_is_cut_at_its_ends() {
        let piece = |text: &str, matched| ExcerptPiece { text: text.into(), matched };
        let pieces = [piece("…", false), piece("and so\nthe ", false), piece("rent", true), piece(" of ", false)];
        let rest = [piece("May", true), piece(" is due\nSigned, ", false), piece("May", true), piece("…", false)];
        let excerpt: Vec<ExcerptPiece> = pieces.into_iter().chain(rest).collect();
        assert_eq!(first_matched_line(&excerpt).as_deref(), Some("the rent of May is due"));
        assert_eq!(first_matched_line(&[piece("rent", true), piece("…", false)]).as_deref(), Some("rent"));
        assert_eq!(first_matched_line(&[piece("nothing", false)]), None);
    }
}
