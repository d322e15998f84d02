//! Notices for people and receipts for the model about what was not delivered.

mod wording;

use satchel_domain::{
    Attachment, Part, PartContent, PartState,
    part::{FailureReason, FileItem, PlannedPart, UndeliveredPart},
};

use self::wording::{Audience, format_failures};

/// Makes a link to a kept file; `None` where there is none to be had. Every call makes a new one.
pub type MakeLink<'a> = &'a dyn Fn(&Attachment) -> Option<String>;

/// There are no links.
pub const NO_LINKS: MakeLink<'static> = &|_| None;

/// Something that was not delivered.
#[derive(Debug, Clone, Copy)]
struct FailedPart<'part> {
    content: &'part PartContent,
    reason: &'part FailureReason,
}

/// How many files a response had and what of it was not delivered.
#[derive(Debug, Default)]
struct DeliverySummary<'part> {
    files: usize,
    failures: Vec<FailedPart<'part>>,
}

impl<'part> DeliverySummary<'part> {
    fn add_part(&mut self, content: &'part PartContent, reason: Option<&'part FailureReason>) {
        // A notice about a notice would never end.
        if matches!(content, PartContent::Notice { .. }) {
            return;
        }
        self.files += content.files().len();
        self.failures.extend(reason.map(|reason| FailedPart { content, reason }));
    }
}

/// The closing notice of a response, as its parts stand; `None` when nothing failed.
///
/// A part that was replaced counts through those that took its place. What is still to be sent counts as sent: the
/// notice goes out after it, and a later failure writes the notice anew. What is too large for the channel, refused by
/// it or forbidden there is named with a link where there is one.
#[must_use]
pub fn closing_notice(parts: &[Part], links: MakeLink<'_>) -> Option<String> {
    let mut summary = DeliverySummary::default();
    // A question is no part of the response.
    for part in parts.iter().filter(|part| part.question.is_none()) {
        match (&part.state, part.content()) {
            (PartState::Replaced { .. }, _) | (_, None) => {}
            (PartState::Failed { reason }, Some(content)) => summary.add_part(content, Some(reason)),
            (_, Some(content)) => summary.add_part(content, None),
        }
    }
    notice_for_person(&summary, links)
}

/// The closing notice of a plan, in the words of [`closing_notice`]; `None` when every part can be sent.
#[must_use]
pub fn notice_for_plan(parts: &[PlannedPart], links: MakeLink<'_>) -> Option<String> {
    let mut summary = DeliverySummary::default();
    parts.iter().for_each(|part| summary.add_part(&part.content, part.failure.as_ref()));
    notice_for_person(&summary, links)
}

/// The same facts as the model is told them at the start of its next turn; `None` when there are none. Links are for
/// people alone, as whatever a model reads it may pass on; where a person quotes one to it, intake hides it.
#[must_use]
pub fn receipt(errors: &[UndeliveredPart]) -> Option<String> {
    let lost: Vec<_> = errors.iter().filter(|error| !matches!(error.content, PartContent::Notice { .. })).collect();
    if lost.is_empty() {
        return None;
    }
    // A part that an operator discarded is not reported to the person.
    let is_discarded = lost.iter().any(|error| error.reason == FailureReason::Discarded);
    let announced = lost.iter().filter(|error| error.notice_arrived).count();
    let suffix = match announced {
        _ if is_discarded => "",
        0 => "; the person has not been told so far",
        _ if announced == lost.len() => "; the person was told",
        _ => "; the person has not been told of all of it so far",
    };
    let failures: Vec<_> =
        lost.iter().map(|error| FailedPart { content: &error.content, reason: &error.reason }).collect();
    let lines = format_failures(&failures, Audience::Model, NO_LINKS);
    Some(format!("Not delivered from your earlier replies{suffix}:\n- {}", lines.join("\n- ")))
}

fn notice_for_person(summary: &DeliverySummary<'_>, links: MakeLink<'_>) -> Option<String> {
    let failure_lines = format_failures(&summary.failures, Audience::Person, links);
    let count = sent_count(summary);
    match (count, failure_lines.as_slice()) {
        (_, []) => None,
        (None, [only]) => Some(format!("{}.", capitalize(only))),
        (Some(count), [only]) => Some(format!("{count}; {only}")),
        (count, _) => {
            let heading = count.unwrap_or_else(|| "Some of my reply could not be sent".to_owned());
            Some(format!("{heading}:\n- {}", failure_lines.join("\n- ")))
        }
    }
}

/// `3 of 4 files sent`; `None` when no file is concerned.
fn sent_count(summary: &DeliverySummary<'_>) -> Option<String> {
    let affected: Vec<(&[FileItem], bool)> = summary
        .failures
        .iter()
        .map(|failure| (failure.content.files(), matches!(failure.reason, FailureReason::MayHaveArrived { .. })))
        .collect();
    let lost: usize = affected.iter().filter(|(_, doubtful)| !doubtful).map(|(files, _)| files.len()).sum();
    let doubtful: usize = affected.iter().filter(|(_, doubtful)| *doubtful).map(|(files, _)| files.len()).sum();
    if lost + doubtful == 0 {
        return None;
    }
    let sent = summary.files.saturating_sub(lost + doubtful);
    let noun = if summary.files == 1 { "file" } else { "files" };
    let count = format!("{sent} of {} {noun} sent", summary.files);
    Some(if doubtful == 0 { count } else { format!("{count}, {doubtful} in doubt") })
}

fn capitalize(line: &str) -> String {
    let mut characters = line.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests;
