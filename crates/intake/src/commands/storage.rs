//! The commands about the room that files take up: `/usage` and `/forget`.

use std::fmt::Write;

use satchel_domain::{OutgoingResponse, WorkspacePath, filename::to_inline_code, size};
use satchel_ports::{
    Blobs, Ledger, LedgerError, Workspace, WorkspaceError,
    ledger::{
        AttachmentOrder, AttachmentQuery,
        usage::{ForgetFile, Forgotten, PersonKey, Quotas, Usage, UsageQuery, UsageScope},
    },
};

use super::files::{MAX_NAME_CHARS, describe_file};
use crate::{forget::forget_file, pairing::CommandContext};

/// How many of the largest files are listed.
const LARGEST: u32 = 10;

/// How many files one command forgets.
const MOST: usize = 100;

/// What stands before the path of a workspace's file.
const WORKSPACE: &str = "workspace:";

/// Where files are kept, and how much of them.
#[derive(Clone, Copy)]
pub struct Storage<'a> {
    /// Their bytes.
    pub blobs: &'a dyn Blobs,
    /// The conversations' own files.
    pub workspace: &'a dyn Workspace,
    /// How much may be kept.
    pub quotas: Quotas,
}

/// Shows what files take up.
pub(super) async fn usage(
    ledger: &dyn Ledger,
    asked: &CommandContext<'_>,
    storage: &Storage<'_>,
) -> Result<OutgoingResponse, LedgerError> {
    let conversation = UsageScope::Conversation(asked.conversation.clone());
    let person = UsageScope::Person(PersonKey::new(asked.conversation.channel(), asked.sender));
    let usages = ledger.usages(&UsageQuery::Of(vec![conversation.clone(), person.clone()])).await?;
    let of = |scope: &UsageScope| {
        let nothing = || Usage { scope: scope.clone(), files: 0, bytes: 0, workspace_bytes: 0 };
        usages.iter().find(|usage| usage.scope == *scope).cloned().unwrap_or_else(nothing)
    };
    let bound = |quota: u64| match asked.is_by_owner() || quota == u64::MAX {
        true => String::new(),
        false => format!(" of {}", size::format_bytes(quota)),
    };
    let Quotas { conversation: quota_here, person: quota_everywhere } = storage.quotas;
    let mut text = format!("Here: {}{}\n", summary(&of(&conversation)), bound(quota_here));
    let _ = writeln!(text, "You, across all conversations: {}{}", summary(&of(&person)), bound(quota_everywhere));
    if asked.is_by_owner() {
        text.push_str("As an owner you have no quota; only the disk limits you.\n");
    }
    let query = AttachmentQuery {
        conversation: Some(asked.conversation.clone()),
        limit: Some(LARGEST),
        order: AttachmentOrder::Largest,
        ..AttachmentQuery::default()
    };
    let largest = ledger.attachments(&query).await?;
    if !largest.is_empty() {
        text.push_str("\nThe largest files here:\n\n");
        largest.iter().for_each(|file| {
            let _ = writeln!(text, "- {}", describe_file(file));
        });
        text.push_str("\n`/forget 17` removes file #17 for good.");
    }
    Ok(OutgoingResponse::from_text(text.trim_end()))
}

fn summary(usage: &Usage) -> String {
    let files = if usage.files == 1 { "1 file".to_owned() } else { format!("{} files", usage.files) };
    match usage.workspace_bytes {
        0 => format!("{files}, {}", size::format_bytes(usage.bytes)),
        bytes => format!(
            "{files}, {}, and {} in the workspace: {}",
            size::format_bytes(usage.bytes),
            size::format_bytes(bytes),
            size::format_bytes(usage.total_bytes())
        ),
    }
}

/// Removes files for good.
pub(super) async fn forget_files(
    ledger: &dyn Ledger,
    asked: &CommandContext<'_>,
    given: &[String],
    storage: &Storage<'_>,
) -> Result<OutgoingResponse, LedgerError> {
    if given.is_empty() {
        return Ok(OutgoingResponse::from_text(
            "Which file? `/forget 17` removes file #17 for good, `/forget 3-8` removes #3 to #8, and \
             `/forget workspace:/shared/a.txt` removes a file of the workspace. `/usage` shows the largest files.",
        ));
    }
    let targets = match targets(given) {
        Ok(targets) => targets,
        Err(mistake) => return Ok(OutgoingResponse::from_text(mistake)),
    };
    let mut lines = Vec::new();
    for target in targets {
        lines.extend(match target {
            Target::File { number, in_range } => forget_number(ledger, asked, storage, number, in_range).await?,
            Target::Workspace(path) => Some(remove(asked, storage, &path).await),
        });
    }
    if lines.is_empty() {
        lines.push("There is no file with any of these numbers here. `/files` lists them all.".to_owned());
    }
    Ok(OutgoingResponse::from_text(lines.join("\n")))
}

/// One thing to forget.
enum Target {
    File {
        number: u64,
        /// Whether it is one of a range, of which some may be gone already.
        in_range: bool,
    },
    Workspace(WorkspacePath),
}

/// Reads what stands behind `/forget`.
fn targets(given: &[String]) -> Result<Vec<Target>, String> {
    let mut targets = Vec::new();
    for text in given {
        let text = text.trim_matches(',');
        let number = |text: &str| text.trim_matches('#').parse::<u64>().ok();
        if let Some(path) = text.strip_prefix(WORKSPACE) {
            let path = path
                .parse()
                .map_err(|error| format!("I can't read {}: {error}", to_inline_code(text, MAX_NAME_CHARS)))?;
            targets.push(Target::Workspace(path));
        } else if let Some(number) = number(text) {
            targets.push(Target::File { number, in_range: false });
        } else if let Some((first, last)) = text.split_once('-').and_then(|(a, b)| Some((number(a)?, number(b)?))) {
            let numbers = (first..=last).take(MOST + 1);
            targets.extend(numbers.map(|number| Target::File { number, in_range: true }));
        } else {
            return Err(format!(
                "{} is not a file number. Use a number (`/forget 17`), a range (`/forget 3-8`), or \
                 `workspace:` and a path.",
                to_inline_code(text, MAX_NAME_CHARS)
            ));
        }
        if targets.len() > MOST {
            return Err(format!("`/forget` removes at most {MOST} files at once. Nothing was removed."));
        }
    }
    Ok(targets)
}

async fn forget_number(
    ledger: &dyn Ledger,
    asked: &CommandContext<'_>,
    storage: &Storage<'_>,
    number: u64,
    in_range: bool,
) -> Result<Option<String>, LedgerError> {
    let only_of =
        (asked.group && !asked.is_by_owner()).then(|| PersonKey::new(asked.conversation.channel(), asked.sender));
    let forget = ForgetFile { conversation: asked.conversation.clone(), number, only_of };
    let line = match forget_file(ledger, storage.blobs, &forget).await? {
        // Without its name: this answer is kept.
        Forgotten::Done(file) => format!("Removed #{number} ({}, {}).", file.mime, size::format_bytes(file.bytes)),
        Forgotten::Before(_) | Forgotten::Unknown if in_range => return Ok(None),
        Forgotten::Before(_) => format!("#{number} is already removed."),
        Forgotten::Unknown => format!("There is no file #{number} here. `/files` lists them all."),
        Forgotten::NotTheirs => {
            format!("I kept #{number}: only an owner, or the person who sent or requested it, can remove it.")
        }
        Forgotten::Unsettled => {
            format!(
                "I kept #{number} for now: it is still being sent. Please try again later; `/outbox` shows its progress."
            )
        }
        Forgotten::InUse => format!(
            "I kept #{number} for now: a message I haven't answered yet needs it. Please try again after my reply."
        ),
    };
    Ok(Some(line))
}

/// Removes a file of the workspace. Nobody knows who of a group made it, so there only an owner may.
async fn remove(asked: &CommandContext<'_>, storage: &Storage<'_>, path: &WorkspacePath) -> String {
    let shown = to_inline_code(&path.to_string(), MAX_NAME_CHARS);
    if asked.group && !asked.is_by_owner() {
        return format!("I kept {shown}: in a group only an owner can remove workspace files.");
    }
    match storage.workspace.remove(asked.conversation, path).await {
        Ok(()) => format!("Removed {shown} from the workspace."),
        Err(WorkspaceError::NotFound(_)) => format!("There is no file {shown} in the workspace."),
        Err(error) => format!("I couldn't remove {shown}: {error}."),
    }
}

#[cfg(test)]
mod tests;
