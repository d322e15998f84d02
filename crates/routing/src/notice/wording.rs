//! One line a reason: what could not be delivered, why, and how to get it.

use satchel_domain::{
    PartContent,
    part::{FailureReason, FileItem},
    size,
};
use satchel_ports::LINK_TTL;

use super::{FailedPart, MakeLink};

/// The longest notice in bytes: it fits into one message everywhere, and what it leaves out is counted.
const LONGEST: usize = 1_500;
/// How many files a line names.
const NAMED: usize = 5;
/// The longest name and the longest reason in characters.
const LONGEST_NAME: usize = 60;
const LONGEST_REASON: usize = 160;

/// Who reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// A person, in Markdown.
    Person,
    /// The model, in plain characters.
    Model,
}

/// The failures as lines, those with one reason on one line. Links stand only where they leave the lines within bounds.
pub(super) fn lines(failures: &[FailedPart<'_>], audience: Audience, links: MakeLink<'_>) -> Vec<String> {
    let mut groups: Vec<(ContentKind, &FailureReason, Vec<&FileItem>)> = Vec::new();
    for failure in failures {
        let files = failure.content.files();
        for (kind, files) in
            kinds(failure.content).into_iter().map(|kind| (kind, if kind == ContentKind::Files { files } else { &[] }))
        {
            match groups.iter_mut().find(|(known, reason, _)| *known == kind && *reason == failure.reason) {
                Some((_, _, known)) => known.extend(files),
                None => groups.push((kind, failure.reason, files.iter().collect())),
            }
        }
    }
    let mut lines: Vec<String> = Vec::new();
    let mut length = 0;
    let mut left_out = None;
    for (index, (kind, reason, files)) in groups.iter().enumerate() {
        let line = failure_line(*kind, reason, files, audience);
        length += line.len();
        if length > LONGEST && index > 0 {
            let files: usize = groups[index..].iter().map(|(_, _, files)| files.len()).sum();
            left_out = Some(match files {
                0 => format!("and {} more", groups.len() - index),
                _ => format!("and {files} more; /files lists them"),
            });
            break;
        }
        lines.push(line);
    }
    // Links have the room that the words leave, so that no name is left out for one.
    let mut room = LONGEST.saturating_sub(lines.iter().map(String::len).sum());
    for (line, (kind, reason, files)) in lines.iter_mut().zip(&groups) {
        if *kind == ContentKind::Files
            && is_channel_limit(reason)
            && let Some(linked) = with_links(reason, files, audience, links, line.len() + room)
        {
            room -= linked.len().saturating_sub(line.len());
            *line = linked;
        }
    }
    lines.extend(left_out);
    lines
}

/// Whether the place takes a file in no form, and another place may.
fn is_channel_limit(reason: &FailureReason) -> bool {
    matches!(reason, FailureReason::TooLarge { .. } | FailureReason::Refused { .. } | FailureReason::Forbidden { .. })
}

/// The line of files with as many links as it has room for; `None` where that is none.
fn with_links(
    reason: &FailureReason,
    files: &[&FileItem],
    audience: Audience,
    links: MakeLink<'_>,
    longest: usize,
) -> Option<String> {
    let what = files_line(reason, files, audience);
    let mut linked: Vec<(u64, String)> = Vec::new();
    let mut fitting = None;
    for file in files.iter().take(NAMED).filter(|file| file.attachment.number > 0) {
        let Some(url) = links(&file.attachment) else { continue };
        linked.push((file.attachment.number, url));
        let named = |number: u64| linked.iter().any(|(known, _)| *known == number);
        let others: Vec<&FileItem> = files.iter().copied().filter(|file| !named(file.attachment.number)).collect();
        let rest = if others.is_empty() { String::new() } else { format!("; the rest is {}", stored_as(&others)) };
        let line = format!("{what}; {}{rest}", stored_as_with_links(&linked));
        if line.len() > longest {
            break;
        }
        fitting = Some(line);
    }
    fitting
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentKind {
    Text,
    Voice,
    Files,
}

fn kinds(content: &PartContent) -> Vec<ContentKind> {
    match content {
        PartContent::Text { files, .. } if files.is_empty() => vec![ContentKind::Text],
        PartContent::Question { .. } => vec![ContentKind::Text],
        PartContent::Text { text, .. } if text.trim().is_empty() => vec![ContentKind::Files],
        PartContent::Text { .. } => vec![ContentKind::Text, ContentKind::Files],
        PartContent::Voice { .. } => vec![ContentKind::Voice],
        PartContent::File(_) | PartContent::Album { .. } => vec![ContentKind::Files],
        PartContent::Notice { .. } | PartContent::Withdraw => Vec::new(),
    }
}

fn failure_line(kind: ContentKind, reason: &FailureReason, files: &[&FileItem], audience: Audience) -> String {
    match (kind, reason) {
        (ContentKind::Files, reason) => format!("{}; {}", files_line(reason, files, audience), stored_as(files)),
        (ContentKind::Text, FailureReason::MayHaveArrived { .. }) => {
            format!("part of the text {}", reason_text(reason, audience))
        }
        (ContentKind::Text, _) => format!("part of the text could not be sent: {}", reason_text(reason, audience)),
        (ContentKind::Voice, FailureReason::SynthesisFailed { .. } | FailureReason::MayHaveArrived { .. }) => {
            format!("the voice message {}", reason_text(reason, audience))
        }
        (ContentKind::Voice, _) => format!("the voice message could not be sent: {}", reason_text(reason, audience)),
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
    let shown = |file: &&FileItem| match with_size {
        true => format!("{} ({})", file_name(file, audience), size::format_bytes(file.attachment.bytes)),
        false => file_name(file, audience),
    };
    let mut named: Vec<String> = files.iter().take(NAMED).map(shown).collect();
    if files.len() > NAMED {
        named.push(format!("{} more", files.len() - NAMED));
    }
    match named.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

fn file_name(file: &FileItem, audience: Audience) -> String {
    sanitize(file.attachment.filename.as_str(), LONGEST_NAME, audience)
}

/// Where the files are kept. A plan may name files that have no number yet.
fn stored_as(files: &[&FileItem]) -> String {
    let numbers: Vec<u64> = files.iter().map(|file| file.attachment.number).collect();
    match numbers.as_slice() {
        [number] if *number > 0 => format!("kept as #{number}: /resend {number}"),
        several if several.len() <= NAMED && several.iter().all(|number| *number > 0) => {
            let list = |before: &str| several.iter().map(|n| format!("{before}{n}")).collect::<Vec<_>>().join(", ");
            format!("kept as {}: {}", list("#"), list("/resend "))
        }
        [_] => "kept; see /files".to_owned(),
        _ => "kept; see /files".to_owned(),
    }
}

/// Where numbered files can be opened, and how to get a new link when these have expired.
fn stored_as_with_links(linked: &[(u64, String)]) -> String {
    let links: Vec<String> = linked.iter().map(|(number, url)| format!("#{number}: <{url}>")).collect();
    let again: Vec<String> = linked.iter().map(|(number, _)| format!("/resend {number}")).collect();
    let new = if linked.len() == 1 { "a new one" } else { "new ones" };
    let days = LINK_TTL.as_secs() / (24 * 60 * 60);
    format!("kept as {} (for {days} days; {new}: {})", links.join(", "), again.join(", "))
}

fn reason_text(reason: &FailureReason, audience: Audience) -> String {
    sanitize(&reason.to_string(), LONGEST_REASON, audience)
}

/// Words of others on one line, cut where they are long; for a person with every mark of Markdown made harmless.
fn sanitize(words: &str, longest: usize, audience: Audience) -> String {
    let one_line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown = String::new();
    for (index, character) in one_line.chars().filter(|c| !c.is_control()).enumerate() {
        if index == longest {
            shown.push('…');
            break;
        }
        if audience == Audience::Person && r"\`*_{}[]<>#~|&".contains(character) {
            shown.push('\\');
        }
        shown.push(character);
    }
    shown
}
