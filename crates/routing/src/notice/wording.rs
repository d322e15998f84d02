//! One line a reason: what could not be delivered, why, and how to get it.

use std::num::NonZeroU64;

use satchel_domain::{
    PartContent,
    part::{FailureReason, FileItem},
    size,
};
use satchel_ports::LINK_TTL;

use super::{FailedPart, MakeLink, TextLoss};

/// The longest notice in bytes: it fits into one message everywhere, and what it leaves out is counted.
const MAX_NOTICE_BYTES: usize = 1_500;
/// How many files a line names.
const MAX_NAMED_FILES: usize = 5;
/// The longest name and the longest reason in characters.
const MAX_NAME_CHARS: usize = 60;
const MAX_REASON_CHARS: usize = 160;

/// Who reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// A person, in Markdown.
    Person,
    /// The model, in plain characters.
    Model,
}

/// The failures as lines, those with one reason on one line. Links stand only where they leave the lines within bounds.
pub(super) fn format_failures(failures: &[FailedPart<'_>], audience: Audience, links: MakeLink<'_>) -> Vec<String> {
    let mut groups: Vec<(ContentKind, &FailureReason, Vec<&FileItem>)> = Vec::new();
    for failure in failures {
        let files = failure.content.files();
        for (kind, files) in content_kinds(failure.content, failure.text_loss)
            .into_iter()
            .map(|kind| (kind, if kind == ContentKind::Files { files } else { &[] }))
        {
            match groups.iter_mut().find(|(group_kind, reason, _)| *group_kind == kind && *reason == failure.reason) {
                Some((_, _, group_files)) => group_files.extend(files),
                None => groups.push((kind, failure.reason, files.iter().collect())),
            }
        }
    }
    let mut lines: Vec<String> = Vec::new();
    let mut length = 0;
    let mut omitted = None;
    for (index, (kind, reason, files)) in groups.iter().enumerate() {
        let line = failure_line(*kind, reason, files, audience);
        length += line.len();
        if length > MAX_NOTICE_BYTES && index > 0 {
            let files: usize = groups[index..].iter().map(|(_, _, files)| files.len()).sum();
            omitted = Some(match files {
                0 => format!("and {} more", groups.len() - index),
                _ => format!("and {files} more; /files lists them"),
            });
            break;
        }
        lines.push(line);
    }
    // Links get the bytes that the text leaves, so that no name is omitted for one.
    let mut remaining_bytes = MAX_NOTICE_BYTES.saturating_sub(lines.iter().map(String::len).sum());
    for (line, (kind, reason, files)) in lines.iter_mut().zip(&groups) {
        if *kind == ContentKind::Files
            && is_channel_limit(reason)
            && let Some(linked_line) =
                files_line_with_links(reason, files, audience, links, line.len() + remaining_bytes)
        {
            remaining_bytes -= linked_line.len().saturating_sub(line.len());
            *line = linked_line;
        }
    }
    lines.extend(omitted);
    lines
}

/// Returns whether the channel accepts the file in no form, although another channel may.
fn is_channel_limit(reason: &FailureReason) -> bool {
    matches!(reason, FailureReason::TooLarge { .. } | FailureReason::Refused { .. } | FailureReason::Forbidden { .. })
}

/// The line of files with as many links as it has room for; `None` where that is none.
fn files_line_with_links(
    reason: &FailureReason,
    files: &[&FileItem],
    audience: Audience,
    links: MakeLink<'_>,
    max_bytes: usize,
) -> Option<String> {
    let files_text = files_line(reason, files, audience);
    let mut linked_files: Vec<(NonZeroU64, String)> = Vec::new();
    let mut fitting = None;
    for file in files.iter().take(MAX_NAMED_FILES) {
        let Some(url) = links(&file.attachment) else { continue };
        linked_files.push((file.attachment.number, url));
        let is_linked = |number| linked_files.iter().any(|(linked_number, _)| *linked_number == number);
        let others: Vec<&FileItem> = files.iter().copied().filter(|file| !is_linked(file.attachment.number)).collect();
        let rest = if others.is_empty() { String::new() } else { format!("; the rest is {}", stored_as(&others)) };
        let line = format!("{files_text}; {}{rest}", stored_as_with_links(&linked_files));
        if line.len() > max_bytes {
            break;
        }
        fitting = Some(line);
    }
    fitting
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentKind {
    Text(TextLoss),
    Voice,
    Files,
}

fn content_kinds(content: &PartContent, text_loss: TextLoss) -> Vec<ContentKind> {
    let text = ContentKind::Text(text_loss);
    match content {
        PartContent::Text { files, .. } if files.is_empty() => vec![text],
        PartContent::Question { .. } => vec![text],
        PartContent::Text { text, .. } if text.trim().is_empty() => vec![ContentKind::Files],
        PartContent::Text { .. } => vec![text, ContentKind::Files],
        PartContent::Voice { .. } => vec![ContentKind::Voice],
        PartContent::File(_) | PartContent::Album { .. } => vec![ContentKind::Files],
        PartContent::Notice { .. } => Vec::new(),
    }
}

fn failure_line(kind: ContentKind, reason: &FailureReason, files: &[&FileItem], audience: Audience) -> String {
    let subject = match kind {
        ContentKind::Files => return format!("{}; {}", files_line(reason, files, audience), stored_as(files)),
        ContentKind::Text(TextLoss::Part) => "part of the text",
        ContentKind::Text(TextLoss::Unclear) => "some of the text",
        ContentKind::Text(TextLoss::Whole) => "the text",
        ContentKind::Voice => "the voice message",
    };
    let reason_text = reason_text(reason, audience);
    match (kind, reason) {
        (_, FailureReason::MayHaveArrived { .. }) | (ContentKind::Voice, FailureReason::SynthesisFailed { .. }) => {
            format!("{subject} {reason_text}")
        }
        _ => format!("{subject} could not be sent: {reason_text}"),
    }
}

fn files_line(reason: &FailureReason, files: &[&FileItem], audience: Audience) -> String {
    let limit = match reason {
        FailureReason::TooLarge { limit } => size::format_bytes(*limit),
        FailureReason::MayHaveArrived { .. } => {
            return format!("{} {}", file_names(files, audience, false), reason_text(reason, audience));
        }
        _ => return format!("{}: {}", file_names(files, audience, false), reason_text(reason, audience)),
    };
    match files {
        [only] => {
            let bytes = size::format_bytes(only.attachment.bytes);
            format!("{} is {bytes}, the limit here is {limit}", file_name(only, audience))
        }
        several => format!("{} are over the limit of {limit} here", file_names(several, audience, true)),
    }
}

fn file_names(files: &[&FileItem], audience: Audience, with_size: bool) -> String {
    let describe = |file: &&FileItem| match with_size {
        true => format!("{} ({})", file_name(file, audience), size::format_bytes(file.attachment.bytes)),
        false => file_name(file, audience),
    };
    let mut names: Vec<String> = files.iter().take(MAX_NAMED_FILES).map(describe).collect();
    if files.len() > MAX_NAMED_FILES {
        names.push(format!("{} more", files.len() - MAX_NAMED_FILES));
    }
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

fn file_name(file: &FileItem, audience: Audience) -> String {
    sanitize(file.attachment.filename.as_str(), MAX_NAME_CHARS, audience)
}

/// Where the files are kept.
fn stored_as(files: &[&FileItem]) -> String {
    let numbers: Vec<NonZeroU64> = files.iter().map(|file| file.attachment.number).collect();
    match numbers.as_slice() {
        [number] => format!("kept as #{number}: /resend {number}"),
        several if several.len() <= MAX_NAMED_FILES => {
            let join_numbers =
                |before: &str| several.iter().map(|n| format!("{before}{n}")).collect::<Vec<_>>().join(", ");
            format!("kept as {}: {}", join_numbers("#"), join_numbers("/resend "))
        }
        _ => "kept; see /files".to_owned(),
    }
}

/// Where numbered files can be opened, and how to get a new link when these have expired.
fn stored_as_with_links(linked_files: &[(NonZeroU64, String)]) -> String {
    let links: Vec<String> = linked_files.iter().map(|(number, url)| format!("#{number}: <{url}>")).collect();
    let resend_commands: Vec<String> = linked_files.iter().map(|(number, _)| format!("/resend {number}")).collect();
    let new_links = if linked_files.len() == 1 { "a new one" } else { "new ones" };
    let days = LINK_TTL.as_secs() / (24 * 60 * 60);
    format!("kept as {} (for {days} days; {new_links}: {})", links.join(", "), resend_commands.join(", "))
}

fn reason_text(reason: &FailureReason, audience: Audience) -> String {
    sanitize(&reason.to_string(), MAX_REASON_CHARS, audience)
}

/// Puts an untrusted text on one line, truncated; for a person with all Markdown escaped.
fn sanitize(text: &str, max_chars: usize, audience: Audience) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut sanitized = String::new();
    for (index, character) in one_line.chars().filter(|c| !c.is_control()).enumerate() {
        if index == max_chars {
            sanitized.push('…');
            break;
        }
        if audience == Audience::Person && r"\`*_{}[]<>#~|&".contains(character) {
            sanitized.push('\\');
        }
        sanitized.push(character);
    }
    sanitized
}
