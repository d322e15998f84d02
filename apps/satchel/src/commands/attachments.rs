//! `satchel attachments …`: the stored files.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context;
use futures::StreamExt;
use satchel_domain::{Attachment, ConversationId, size};
use satchel_intake::forget::forget_file;
use satchel_ports::{
    Archive, Blobs, Ledger, Storage,
    ledger::{AttachmentKey, AttachmentQuery, ForgetOutcome, ForgetRequest, Usage, UsageQuery, UsageScope},
};
use satchel_runtime::maintenance::{self, GcReport};
use tokio::io::AsyncWriteExt;

use super::{UsageError, format_timestamp, one_line, write_json, write_table};
use crate::cli::{AttachmentSelector, FileSelectorArg};

/// Lists files, the newest first.
///
/// # Errors
/// When the ledger fails or the output can't be written.
pub async fn list(
    archive: &dyn Archive,
    conversation: Option<ConversationId>,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let files = archive.attachments(&AttachmentQuery { conversation, ..AttachmentQuery::default() }).await?;
    if json {
        return Ok(write_json(out, &files)?);
    }
    if files.is_empty() {
        writeln!(out, "no files")?;
        return Ok(());
    }
    let row = |file: &Attachment| {
        vec![
            format!("#{}", file.number),
            one_line(file.filename.as_str(), 60),
            file.mime.clone(),
            size::format_bytes(file.bytes),
            file.conversation.to_string(),
            format_timestamp(file.created_at),
            file.id.to_string(),
        ]
    };
    write_table(out, &files.iter().map(row).collect::<Vec<_>>())?;
    Ok(())
}

/// Shows all details of one file.
///
/// # Errors
/// When there is no such file, its number is ambiguous, the ledger fails, or the output can't be written.
pub async fn show(
    archive: &dyn Archive,
    selector: &AttachmentSelector,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let file = find_attachment(archive, selector).await?;
    if json {
        return Ok(write_json(out, &file)?);
    }
    let mut rows = vec![
        ("id", file.id.to_string()),
        ("number", format!("#{}", file.number)),
        ("conversation", file.conversation.to_string()),
        ("name", one_line(file.filename.as_str(), 255)),
        ("type", file.mime.clone()),
        ("size", format!("{} ({} bytes)", size::format_bytes(file.bytes), file.bytes)),
        ("sha256", file.sha256.to_string()),
        ("source", serde_name(&file.source)),
        ("visibility", serde_name(&file.visibility)),
        ("stored", format_timestamp(file.created_at)),
    ];
    if let (Some(width), Some(height)) = (file.media.width, file.media.height) {
        rows.push(("pixels", format!("{width} x {height}")));
    }
    if let Some(duration) = file.media.duration_ms {
        rows.push(("duration", format!("{}.{:03} s", duration / 1000, duration % 1000)));
    }
    if !file.description.is_empty() {
        rows.push(("description", one_line(&file.description, 500)));
    }
    let rows: Vec<_> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    write_table(out, &rows)?;
    Ok(())
}

/// Copies a file out of Satchel. Nothing is overwritten, and a failed copy leaves nothing behind.
///
/// # Errors
/// When there is no such file, the target exists, or the bytes can't be read or written.
pub async fn export(
    archive: &dyn Archive,
    blobs: &dyn Blobs,
    selector: &AttachmentSelector,
    to: &Path,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let file = find_attachment(archive, selector).await?;
    anyhow::ensure!(!file.is_forgotten(), "#{} was removed for good", file.number);
    let target = match tokio::fs::metadata(to).await {
        Ok(found) if found.is_dir() => to.join(file.filename.as_str()),
        _ => to.to_owned(),
    };
    let guard = PartialFileGuard(Some(target.clone()));
    let created = tokio::fs::OpenOptions::new().write(true).create_new(true).open(&target).await;
    let mut output = match created {
        Ok(created) => created,
        Err(error) => {
            guard.persist();
            if error.kind() == std::io::ErrorKind::AlreadyExists {
                anyhow::bail!("`{}` already exists and is not overwritten; choose another path", target.display());
            }
            return Err(error).with_context(|| format!("failed to create `{}`", target.display()));
        }
    };
    let mut content = blobs.open(&file.sha256, None).await?;
    while let Some(chunk) = content.next().await {
        let chunk = chunk.with_context(|| format!("failed to read #{} {}", file.number, file.filename))?;
        output.write_all(&chunk).await.with_context(|| format!("failed to write `{}`", target.display()))?;
    }
    output.sync_all().await.with_context(|| format!("failed to write `{}`", target.display()))?;
    guard.persist();
    writeln!(out, "{} ({})", target.display(), size::format_bytes(file.bytes))?;
    Ok(())
}

/// Shows the used storage, the largest first.
///
/// # Errors
/// When the ledger fails or the output can't be written.
pub async fn show_usage(storage: &dyn Storage, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let usages = storage.usages(&UsageQuery::All).await?;
    if json {
        return Ok(write_json(out, &usages)?);
    }
    if usages.is_empty() {
        writeln!(out, "no files")?;
        return Ok(());
    }
    let heading = ["", "", "FILES", "SIZE", "WORKSPACE"].map(str::to_owned).to_vec();
    let row = |usage: &Usage| {
        let (kind, name) = match &usage.scope {
            UsageScope::Conversation(conversation) => ("conversation", conversation.to_string()),
            UsageScope::Person(person) => ("person", one_line(&person.to_string(), 100)),
        };
        let sizes = [usage.bytes, usage.workspace_bytes].map(size::format_bytes);
        [kind.to_owned(), name, usage.files.to_string()].into_iter().chain(sizes).collect()
    };
    write_table(out, &[heading].into_iter().chain(usages.iter().map(row)).collect::<Vec<_>>())?;
    Ok(())
}

/// Removes files for good, one after the other. Where one of them can't be found, none is removed.
///
/// # Errors
/// When there is no such file, a number is ambiguous, something still needs a file, the stores fail, or the output
/// can't be written. Files that were named before one that is still needed are removed.
pub async fn remove(
    ledger: &Ledger,
    blobs: &dyn Blobs,
    files: &[FileSelectorArg],
    conversation: Option<&ConversationId>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut found = Vec::new();
    for file in files {
        let selector = AttachmentSelector { file: *file, conversation: conversation.cloned() };
        found.push(find_attachment(&*ledger.archive, &selector).await?);
    }
    for Attachment { conversation, number, .. } in found {
        let request = ForgetRequest { conversation: conversation.clone(), number: number.get(), restricted_to: None };
        match forget_file(&*ledger.storage, blobs, &request).await? {
            ForgetOutcome::Forgotten(attachment) => {
                let name = one_line(attachment.filename.as_str(), 60);
                writeln!(out, "removed #{number} {name} of {conversation} ({})", size::format_bytes(attachment.bytes))?;
            }
            ForgetOutcome::AlreadyForgotten(removed_at) => {
                writeln!(out, "#{number} of {conversation} was removed on {}", format_timestamp(removed_at))?;
            }
            ForgetOutcome::Unsettled => anyhow::bail!(
                "#{number} of {conversation} is still being sent; `satchel outbox list` shows its progress"
            ),
            ForgetOutcome::InUse => anyhow::bail!(
                "#{number} of {conversation} is needed by a message that isn't answered yet; try again afterwards"
            ),
            ForgetOutcome::NotFound | ForgetOutcome::NotPermitted => {
                anyhow::bail!("{conversation} no longer has file #{number}")
            }
        }
    }
    Ok(())
}

/// Removes the bytes that were unreferenced for an hour.
///
/// # Errors
/// When the stores fail or the output can't be written.
pub async fn gc(storage: &dyn Storage, blobs: &dyn Blobs, out: &mut dyn Write) -> anyhow::Result<()> {
    let GcReport { checked, unreferenced, freed_bytes } = maintenance::collect_garbage(storage, blobs).await?;
    writeln!(
        out,
        "checked {checked} old files, deleted {unreferenced} unused, freed {}",
        size::format_bytes(freed_bytes)
    )?;
    Ok(())
}

/// Removes the new file when it is dropped before it is complete, cancellation included.
struct PartialFileGuard(Option<PathBuf>);

impl PartialFileGuard {
    fn persist(mut self) {
        self.0 = None;
    }
}

impl Drop for PartialFileGuard {
    fn drop(&mut self) {
        if let Some(path) = &self.0
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::warn!(path = %path.display(), %error, "failed to remove an unfinished copy");
        }
    }
}

/// Finds a file. A number needs its conversation, unless it is unique.
async fn find_attachment(archive: &dyn Archive, selector: &AttachmentSelector) -> anyhow::Result<Attachment> {
    let key = match selector.file {
        FileSelectorArg::Id(id) => AttachmentKey::Id(id),
        FileSelectorArg::Number(number) => AttachmentKey::Number(number),
    };
    if let Some(conversation) = &selector.conversation {
        let found = archive.attachment(conversation, key).await?;
        return found.with_context(|| format!("{conversation} has no file {}", format_key(selector.file)));
    }
    let mut files = archive.attachments(&AttachmentQuery::default()).await?;
    files.retain(|file| match selector.file {
        FileSelectorArg::Id(id) => file.id == id,
        FileSelectorArg::Number(number) => file.number.get() == number,
    });
    if files.len() > 1 {
        let conversations: Vec<String> = files.iter().map(|file| file.conversation.to_string()).collect();
        let label = format_key(selector.file);
        let message = format!(
            "several conversations have a file {label}: add --conversation with one of {}",
            conversations.join(", ")
        );
        return Err(UsageError(message).into());
    }
    files.pop().with_context(|| format!("there is no file {}", format_key(selector.file)))
}

fn format_key(file: FileSelectorArg) -> String {
    match file {
        FileSelectorArg::Id(id) => id.to_string(),
        FileSelectorArg::Number(number) => format!("#{number}"),
    }
}

fn serde_name(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
