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
    text_loss: TextLoss,
}

/// How much of a response's text is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextLoss {
    /// Some of it has arrived, or is still to be sent.
    Part,
    /// Nothing of it is known to have arrived, and some of it may have.
    Unclear,
    /// All of it has the same fate.
    Whole,
}

impl TextLoss {
    /// Determines it from the reasons of the chunks that failed.
    fn new<'a>(text_arrived: bool, reasons: impl Iterator<Item = &'a FailureReason>) -> Self {
        let (doubtful, lost): (Vec<_>, Vec<_>) =
            reasons.partition(|reason| matches!(reason, FailureReason::MayHaveArrived { .. }));
        match text_arrived {
            true => Self::Part,
            false if doubtful.is_empty() || lost.is_empty() => Self::Whole,
            false => Self::Unclear,
        }
    }
}

/// How many files a response had and what of it was not delivered.
#[derive(Debug, Default)]
struct DeliverySummary<'part> {
    files: usize,
    /// Whether anything of it has arrived, or is still to be sent.
    has_arrived: bool,
    text_arrived: bool,
    failures: Vec<(&'part PartContent, &'part FailureReason)>,
}

impl<'part> DeliverySummary<'part> {
    fn add_part(&mut self, content: &'part PartContent, reason: Option<&'part FailureReason>) {
        // A notice about a notice would never end.
        if matches!(content, PartContent::Notice { .. }) {
            return;
        }
        self.files += content.files().len();
        self.has_arrived |= reason.is_none();
        self.text_arrived |= content.is_text() && reason.is_none();
        self.failures.extend(reason.map(|reason| (content, reason)));
    }

    /// Whether nothing of it can have arrived.
    fn is_lost(&self) -> bool {
        let mut reasons = self.failures.iter().map(|(_, reason)| reason);
        !self.has_arrived
            && !self.text_arrived
            && reasons.all(|reason| !matches!(reason, FailureReason::MayHaveArrived { .. }))
    }

    fn failed_parts(&self) -> Vec<FailedPart<'part>> {
        let text_reasons = self.failures.iter().filter(|(content, _)| content.is_text()).map(|(_, reason)| *reason);
        let text_loss = TextLoss::new(self.text_arrived, text_reasons);
        self.failures.iter().map(|&(content, reason)| FailedPart { content, reason, text_loss }).collect()
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
        summary.text_arrived |= part.has_brought_text();
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

/// The same facts as the model is told them at the start of its next turn, those of which the person doesn't know first;
/// `None` when there are none. Links are for people alone, as whatever a model reads it may pass on; where a person quotes
/// one to it, intake hides it.
#[must_use]
pub fn receipt(errors: &[UndeliveredPart]) -> Option<String> {
    let lost = errors.iter().filter(|error| !matches!(error.content, PartContent::Notice { .. }));
    // A part that an operator discarded is not reported to the person.
    let (announced, unannounced): (Vec<_>, Vec<_>) =
        lost.partition(|error| error.notice_arrived && error.reason != FailureReason::Discarded);
    let sections = [("the person has NOT been told", unannounced), ("the person was told", announced)];
    let sections = sections.into_iter().filter(|(_, lost)| !lost.is_empty()).map(|(knowledge, lost)| {
        let failures: Vec<_> = lost.into_iter().map(|error| failed_part(error, errors)).collect();
        let lines = format_failures(&failures, Audience::Model, NO_LINKS);
        format!("Not delivered from your earlier replies; {knowledge}:\n- {}", lines.join("\n- "))
    });
    Some(sections.collect::<Vec<_>>().join("\n\n")).filter(|receipt| !receipt.is_empty())
}

/// One of these errors, with what the others say about the text of its response.
fn failed_part<'a>(error: &'a UndeliveredPart, errors: &'a [UndeliveredPart]) -> FailedPart<'a> {
    let of_text = errors.iter().filter(|other| other.turn == error.turn && other.content.is_text());
    let text_loss = TextLoss::new(error.text_arrived, of_text.map(|other| &other.reason));
    FailedPart { content: &error.content, reason: &error.reason, text_loss }
}

fn notice_for_person(summary: &DeliverySummary<'_>, links: MakeLink<'_>) -> Option<String> {
    let failure_lines = format_failures(&summary.failed_parts(), Audience::Person, links);
    let count = sent_count(summary);
    match (count, failure_lines.as_slice()) {
        (_, []) => None,
        (None, [only]) => Some(format!("{}.", capitalize(only))),
        (Some(count), [only]) => Some(format!("{count}; {only}")),
        (count, _) => {
            let subject = if summary.is_lost() { "My reply" } else { "Some of my reply" };
            let heading = count.unwrap_or_else(|| format!("{subject} could not be sent"));
            Some(format!("{heading}:\n- {}", failure_lines.join("\n- ")))
        }
    }
}

/// `3 of 4 files sent`; `None` when no file is concerned.
fn sent_count(summary: &DeliverySummary<'_>) -> Option<String> {
    let affected: Vec<(&[FileItem], bool)> = summary
        .failures
        .iter()
        .map(|(content, reason)| (content.files(), matches!(reason, FailureReason::MayHaveArrived { .. })))
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
