//! The commands about the room that files take up: `/usage` and `/forget`.

use std::fmt::Write;

use satchel_domain::{OutgoingResponse, WorkspacePath, filename::to_inline_code, size};
use satchel_ports::{
    Blobs, ChangeLog, ChangeOutcome, FileAction, FileChange, Ledger, LedgerError, Storage, Workspace, WorkspaceError,
    ledger::{
        AttachmentOrder, AttachmentQuery, ForgetOutcome, ForgetRequest, PersonKey, Quotas, Usage, UsageQuery,
        UsageScope,
    },
    workspace::RestoredFiles,
};

use super::files::{MAX_NAME_CHARS, describe_file};
use crate::{forget::forget_file, pairing::CommandContext};

/// How many of the largest files are listed.
const MAX_LISTED_LARGEST: u32 = 10;

/// How many restored paths are named.
const MAX_LISTED_PATHS: usize = 20;

/// How many files one command forgets.
const MAX_FORGET_TARGETS: usize = 100;

/// What stands before the path of a workspace's file.
const WORKSPACE_PREFIX: &str = "workspace:";

/// Where files are kept, and how much of them.
#[derive(Clone, Copy)]
pub struct StorageServices<'a> {
    /// Their bytes.
    pub blobs: &'a dyn Blobs,
    /// The conversations' own files.
    pub workspace: &'a dyn Workspace,
    /// How much may be kept.
    pub quotas: Quotas,
}

/// Shows what files take up.
pub(super) async fn show_usage(
    ledger: &Ledger,
    context: &CommandContext<'_>,
    services: &StorageServices<'_>,
) -> Result<OutgoingResponse, LedgerError> {
    let conversation = UsageScope::Conversation(context.conversation.clone());
    let person = UsageScope::Person(PersonKey::new(context.conversation.channel(), context.sender));
    let usages = ledger.storage.usages(&UsageQuery::Scopes(vec![conversation.clone(), person.clone()])).await?;
    let usage_of = |scope: &UsageScope| {
        let empty = || Usage { scope: scope.clone(), files: 0, bytes: 0, workspace_bytes: 0 };
        usages.iter().find(|usage| usage.scope == *scope).cloned().unwrap_or_else(empty)
    };
    let quota_suffix = |quota: u64| match context.is_by_owner() || quota == u64::MAX {
        true => String::new(),
        false => format!(" of {}", size::format_bytes(quota)),
    };
    let Quotas { conversation: conversation_quota, person: person_quota } = services.quotas;
    let mut text = format!("Here: {}{}\n", format_usage(&usage_of(&conversation)), quota_suffix(conversation_quota));
    let _ = writeln!(
        text,
        "You, across all conversations: {}{}",
        format_usage(&usage_of(&person)),
        quota_suffix(person_quota)
    );
    if context.is_by_owner() {
        text.push_str("As an owner you have no quota; only the disk limits you.\n");
    }
    let query = AttachmentQuery {
        conversation: Some(context.conversation.clone()),
        limit: Some(MAX_LISTED_LARGEST),
        order: AttachmentOrder::Largest,
        ..AttachmentQuery::default()
    };
    let largest = ledger.archive.attachments(&query).await?;
    if !largest.is_empty() {
        text.push_str("\nThe largest files here:\n\n");
        largest.iter().for_each(|file| {
            let _ = writeln!(text, "- {}", describe_file(file));
        });
        text.push_str("\n`/forget 17` removes file #17 for good.");
    }
    Ok(OutgoingResponse::from_text(text.trim_end()))
}

pub(super) fn format_usage(usage: &Usage) -> String {
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
    storage: &dyn Storage,
    context: &CommandContext<'_>,
    arguments: &[String],
    services: &StorageServices<'_>,
    changes: &ChangeLog,
) -> Result<OutgoingResponse, LedgerError> {
    if arguments.is_empty() {
        return Ok(OutgoingResponse::from_text(
            "Which file? `/forget 17` removes file #17 for good, `/forget 3-8` removes #3 to #8, and \
             `/forget workspace:/shared/a.txt` removes a file of the workspace. `/forget all` removes everything of this \
             conversation. `/usage` shows the largest files.",
        ));
    }
    let targets = match parse_targets(arguments) {
        Ok(targets) => targets,
        Err(error_text) => return Ok(OutgoingResponse::from_text(error_text)),
    };
    let (mut lines, mut paths) = (Vec::new(), Vec::new());
    for target in targets {
        match target {
            ForgetTarget::File { number, in_range } => {
                lines.extend(forget_number(storage, context, services, number, in_range).await?);
            }
            ForgetTarget::Workspace(path) => paths.push(path),
        }
    }
    // Last, since the ledger may fail above: the command is then repeated, and its changes are not recorded.
    for path in paths {
        lines.push(remove_workspace_file(context, services, &path, changes).await);
    }
    if lines.is_empty() {
        lines.push("There is no file with any of these numbers here. `/files` lists them all.".to_owned());
    }
    Ok(OutgoingResponse::from_text(lines.join("\n")))
}

/// One thing to forget.
enum ForgetTarget {
    File {
        number: u64,
        /// Whether it is one of a range, of which some may be gone already.
        in_range: bool,
    },
    Workspace(WorkspacePath),
}

/// Reads what stands behind `/forget`. If a part of it is wrong, the rest may be, too: nothing is forgotten.
fn parse_targets(arguments: &[String]) -> Result<Vec<ForgetTarget>, String> {
    let mut targets = Vec::new();
    for argument in arguments {
        let text = argument.trim_matches(',');
        let number = |text: &str| text.trim_matches('#').parse::<u64>().ok();
        if let Some(path) = text.strip_prefix(WORKSPACE_PREFIX) {
            let path = path.parse().map_err(|error| {
                format!("I can't read {}: {error}. Nothing was removed.", to_inline_code(text, MAX_NAME_CHARS))
            })?;
            targets.push(ForgetTarget::Workspace(path));
        } else if let Some(number) = number(text) {
            targets.push(ForgetTarget::File { number, in_range: false });
        } else if let Some((first, last)) = text.split_once('-').and_then(|(a, b)| Some((number(a)?, number(b)?))) {
            if first > last {
                return Err(format!(
                    "{} is no range: its first number is larger than its last. Nothing was removed.",
                    to_inline_code(text, MAX_NAME_CHARS)
                ));
            }
            let numbers = (first..=last).take(MAX_FORGET_TARGETS + 1);
            targets.extend(numbers.map(|number| ForgetTarget::File { number, in_range: true }));
        } else {
            return Err(format!(
                "{} is not a file number. Use a number (`/forget 17`), a range (`/forget 3-8`), or \
                 `workspace:` and a path. Nothing was removed.",
                to_inline_code(text, MAX_NAME_CHARS)
            ));
        }
        if targets.len() > MAX_FORGET_TARGETS {
            return Err(format!("`/forget` removes at most {MAX_FORGET_TARGETS} files at once. Nothing was removed."));
        }
    }
    Ok(targets)
}

async fn forget_number(
    storage: &dyn Storage,
    context: &CommandContext<'_>,
    services: &StorageServices<'_>,
    number: u64,
    in_range: bool,
) -> Result<Option<String>, LedgerError> {
    let restricted_to = (context.group && !context.is_by_owner())
        .then(|| PersonKey::new(context.conversation.channel(), context.sender));
    let request = ForgetRequest { conversation: context.conversation.clone(), number, restricted_to };
    let line = match forget_file(storage, services.blobs, &request).await? {
        // Without its name: this answer is kept.
        ForgetOutcome::Forgotten(file) => {
            format!("Removed #{number} ({}, {}).", file.mime, size::format_bytes(file.bytes))
        }
        ForgetOutcome::AlreadyForgotten(_) | ForgetOutcome::NotFound if in_range => return Ok(None),
        ForgetOutcome::AlreadyForgotten(_) => format!("#{number} is already removed."),
        ForgetOutcome::NotFound => format!("There is no file #{number} here. `/files` lists them all."),
        ForgetOutcome::NotPermitted => {
            format!("I kept #{number}: only an owner, or the person who sent or requested it, can remove it.")
        }
        ForgetOutcome::Unsettled => {
            format!(
                "I kept #{number} for now: it is still being sent. Please try again later; `/outbox` shows its progress."
            )
        }
        ForgetOutcome::InUse => format!(
            "I kept #{number} for now: a message I haven't answered yet needs it. Please try again after my reply."
        ),
    };
    Ok(Some(line))
}

/// Restores what was deleted last in the workspace.
pub(super) async fn restore_files(
    context: &CommandContext<'_>,
    services: &StorageServices<'_>,
    changes: &ChangeLog,
) -> OutgoingResponse {
    let start = |path| changes.start(FileChange::started(context.sender.clone(), "/undo", FileAction::Restore, path));
    let files = services.workspace.restore(context.conversation, context.turn.0).await;
    let RestoredFiles { restored, blocked, failure } =
        files.unwrap_or_else(|error| RestoredFiles { failure: Some(error.to_string()), ..RestoredFiles::default() });
    for path in &restored {
        start(Some(path.clone())).finish(None, ChangeOutcome::Done);
    }
    let mut lines = Vec::new();
    if !restored.is_empty() {
        lines.push(format!("Brought back {}.", list_paths(&restored)));
    }
    if let Some(reason) = failure {
        lines.push(format!("I couldn't bring everything back: {reason}. `/undo` tries the rest again."));
        start(None).finish(None, ChangeOutcome::Failed { reason });
    }
    if context.repeated {
        // The process that died may have restored more.
        let _unknown = start(None);
    }
    if !blocked.is_empty() {
        let (verb, pronoun) = if blocked.len() == 1 { ("has", "it") } else { ("have", "them") };
        lines.push(format!(
            "I kept {} in the trash: something else {verb} the name now. Rename or delete that, then send `/undo` again \
             to bring {pronoun} back.",
            list_paths(&blocked)
        ));
    }
    if lines.is_empty() {
        lines.push(match context.repeated {
            true => {
                "I was interrupted while I answered this, and may have brought files back before. There is nothing \
                     left to bring back."
                    .to_owned()
            }
            false => "There is nothing to bring back. Deleted files are kept for a day.".to_owned(),
        });
    }
    OutgoingResponse::from_text(lines.join("\n"))
}

/// Names the first paths, and how many more there are.
fn list_paths(paths: &[WorkspacePath]) -> String {
    let name = |path: &WorkspacePath| to_inline_code(&path.to_string(), MAX_NAME_CHARS);
    let mut names: Vec<String> = paths.iter().take(MAX_LISTED_PATHS).map(name).collect();
    names.extend((paths.len() > MAX_LISTED_PATHS).then(|| format!("{} more", paths.len() - MAX_LISTED_PATHS)));
    names.join(", ")
}

/// Removes a file of the workspace. In a group its author is unknown, so only an owner may.
async fn remove_workspace_file(
    context: &CommandContext<'_>,
    services: &StorageServices<'_>,
    path: &WorkspacePath,
    changes: &ChangeLog,
) -> String {
    let quoted_path = to_inline_code(&path.to_string(), MAX_NAME_CHARS);
    if context.group && !context.is_by_owner() {
        return format!("I kept {quoted_path}: in a group only an owner can remove workspace files.");
    }
    let change = FileChange::started(context.sender.clone(), "/forget", FileAction::Delete, Some(path.clone()));
    let change = changes.start(change);
    let result = services.workspace.remove(context.conversation, path).await;
    match &result {
        Ok(bytes) => change.finish(Some(*bytes), ChangeOutcome::Done),
        // The process that died may have removed it.
        Err(WorkspaceError::NotFound(_)) if context.repeated => change.finish(None, ChangeOutcome::Unknown),
        Err(error) => change.finish(None, ChangeOutcome::from_error(error)),
    }
    match result {
        Ok(_) => format!("Removed {quoted_path} from the workspace."),
        Err(WorkspaceError::NotFound(_)) if context.repeated => {
            format!(
                "I was interrupted while I answered this, and may have removed {quoted_path} before. It isn't in the \
                 workspace."
            )
        }
        Err(WorkspaceError::NotFound(_)) => format!("There is no file {quoted_path} in the workspace."),
        Err(WorkspaceError::RemovalUnconfirmed { reason, .. }) => format!(
            "Removed {quoted_path} from the workspace, but the disk didn't confirm it: {reason}. After a power cut the \
             file may be back."
        ),
        Err(error) => format!("I couldn't remove {quoted_path}: {error}."),
    }
}

#[cfg(test)]
mod tests;
