//! `attachment.add`: makes files of the workspace into attachments of the reply, all of them or none.

mod reservations;

use async_trait::async_trait;
use satchel_domain::{
    Attachment, AttachmentSource, Filename, NewAttachment, OutcomeFile, ToolOutcome, Visibility, WorkspacePath,
    size::format_bytes,
};
use satchel_ports::{
    BlobError, BlobHint, SafetyTier, StoredBlob, Tool, ToolContext, ToolError, ToolSpec, ledger::AttachmentQuery,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::reservations::{Reservation, Reservations};
use crate::{
    ToolServices,
    arguments::{WorkspaceFilePath, check_description, parse_arguments, parse_mime, tool_spec},
    error, lookup,
};

pub(crate) struct AttachmentAdd {
    services: ToolServices,
    reservations: Reservations,
}

impl AttachmentAdd {
    pub(crate) fn new(services: ToolServices) -> Self {
        Self { services, reservations: Reservations::default() }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Arguments {
    /// The files, beneath /shared or /tmp (a.txt is /shared/a.txt), in the order in which the person gets them.
    #[schemars(with = "Option<Vec<String>>")]
    paths: Option<Vec<WorkspaceFilePath>>,
    /// One file; ignored when paths is given.
    #[schemars(with = "Option<String>")]
    path: Option<WorkspaceFilePath>,
    /// Other names for the files, each for the path at the same place; an empty one keeps a file's own name.
    #[schemars(with = "Option<Vec<String>>")]
    filenames: Option<Vec<Option<String>>>,
    /// Another name for the one file; ignored when filenames is given.
    filename: Option<String>,
    /// The files' types, each for the path at the same place; an empty one finds the type from the bytes.
    #[schemars(with = "Option<Vec<String>>")]
    mime_types: Option<Vec<Option<String>>>,
    /// The one file's type; ignored when mimeTypes is given.
    mime_type: Option<String>,
    /// What the files show, each for the path at the same place: their captions.
    #[schemars(with = "Option<Vec<String>>")]
    descriptions: Option<Vec<Option<String>>>,
    /// deliver: the person gets the files with the reply. internal: only you can read them.
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["deliver", "internal"]))]
    visibility: Visibility,
}

/// A request to add one file.
#[derive(Debug, PartialEq, Eq)]
struct AddRequest {
    path: WorkspacePath,
    filename: Filename,
    mime: Option<String>,
    description: String,
}

#[async_trait]
impl Tool for AttachmentAdd {
    fn spec(&self) -> ToolSpec {
        tool_spec::<Arguments>(
            "attachment.add",
            SafetyTier::ReadOnly,
            "Attaches files of the workspace to your reply. They are queued and go out with the reply after this turn; \
             they are not sent yet. All files are attached or, after any error, none. Give paths (or path).",
        )
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let arguments: Arguments = parse_arguments(arguments)?;
        let visibility = arguments.visibility;
        let Self { services, reservations } = self;
        let requests = parse_requests(arguments, services.limits.add_files)?;
        let reservation = reserve_quota(services, reservations, context, &requests).await?;
        let mut attachments = Vec::with_capacity(requests.len());
        for request in requests {
            attachments.push(add_file(services, context, request, visibility).await?);
        }
        // A file may have grown since it was looked at, within its own limit but not within the call's or the turn's.
        let bytes = attachments.iter().map(OutcomeFile::bytes).sum();
        check_call_bytes(bytes, services.limits.add_call_bytes)?;
        reservation
            .commit(&attachments)
            .map_err(|other_bytes| turn_quota_error(bytes, other_bytes, services.limits.add_turn_bytes))?;
        let queued: Vec<lookup::QueuedAttachment> = attachments.iter().map(lookup::QueuedAttachment::from).collect();
        Ok(ToolOutcome { attachments, ..ToolOutcome::from_data(json!({ "ok": true, "attachments": queued })) })
    }
}

/// Joins each path with what was given for it.
fn parse_requests(arguments: Arguments, max_files: usize) -> Result<Vec<AddRequest>, ToolError> {
    let paths = match (arguments.paths, arguments.path) {
        (Some(paths), _) => paths,
        (None, Some(path)) => vec![path],
        (None, None) => return Err(error::tool_error("neither `paths` nor `path` is given: `paths` lists the files")),
    };
    let count = paths.len();
    if count == 0 {
        return Err(error::tool_error("`paths` is empty: it lists the files to attach"));
    }
    if count > max_files {
        return Err(error::tool_error(format!(
            "`paths` has {count} files; at most {max_files} are allowed in one call"
        )));
    }
    let filenames = pair_with_paths("filenames", arguments.filenames, "filename", arguments.filename, count)?;
    let mimes = pair_with_paths("mimeTypes", arguments.mime_types, "mimeType", arguments.mime_type, count)?;
    let descriptions = pair_with_paths("descriptions", arguments.descriptions, "description", None, count)?;
    let mut requests = Vec::with_capacity(count);
    for (((WorkspaceFilePath(path), filename), mime), description) in
        paths.into_iter().zip(filenames).zip(mimes).zip(descriptions)
    {
        let own_name = path.file_name().unwrap_or_default();
        requests.push(AddRequest {
            filename: Filename::from_untrusted(filename.as_deref().unwrap_or(own_name)),
            mime: mime.map(|mime| parse_mime(&mime)).transpose()?,
            description: check_description(format_args!("`{path}`"), description.unwrap_or_default())?,
            path,
        });
    }
    Ok(requests)
}

/// One override a file; a list that is too short leaves the last files theirs.
fn pair_with_paths(
    list_name: &str,
    list: Option<Vec<Option<String>>>,
    one_name: &str,
    one: Option<String>,
    count: usize,
) -> Result<Vec<Option<String>>, ToolError> {
    let mut list = match (list, one) {
        (Some(list), _) => list,
        (None, Some(_)) if count > 1 => {
            return Err(error::tool_error(format!(
                "`{one_name}` is for one file, but {count} are given: use `{list_name}`"
            )));
        }
        (None, Some(one)) => vec![Some(one)],
        (None, None) => vec![],
    };
    if list.len() > count {
        return Err(error::tool_error(format!("`{list_name}` has {} entries for {count} files", list.len())));
    }
    list.resize(count, None);
    Ok(list.into_iter().map(|entry| entry.filter(|entry| !entry.trim().is_empty())).collect())
}

/// Checks every file before the first is added, and reserves their bytes in the turn's quota.
async fn reserve_quota<'c>(
    services: &ToolServices,
    reservations: &'c Reservations,
    context: &ToolContext,
    requests: &[AddRequest],
) -> Result<Reservation<'c>, ToolError> {
    let limits = &services.limits;
    let mut call_bytes: u64 = 0;
    for AddRequest { path, .. } in requests {
        let file = services.workspace.read(&context.conversation, path).await;
        let bytes = file.map_err(|error| error::tool_error_with_cause("nothing was attached", &error))?.bytes;
        if bytes > limits.add_file_bytes {
            return Err(file_too_large_error(path, bytes, limits.add_file_bytes));
        }
        call_bytes = call_bytes.saturating_add(bytes);
    }
    check_call_bytes(call_bytes, limits.add_call_bytes)?;

    let query = AttachmentQuery {
        conversation: Some(context.conversation.clone()),
        turn: Some(context.call.turn),
        ..AttachmentQuery::default()
    };
    let turn_files = services.archive.attachments(&query).await;
    let mut turn_files = turn_files
        .map_err(|error| error::tool_error_with_cause("nothing was attached: the turn's files are unknown", &error))?;
    turn_files.retain(|file| file.source != AttachmentSource::User);
    let reservation = reservations.reserve(context.call, call_bytes, &turn_files, limits.add_turn_bytes);
    reservation.map_err(|other_bytes| turn_quota_error(call_bytes, other_bytes, limits.add_turn_bytes))
}

fn turn_quota_error(bytes: u64, other_bytes: u64, limit: u64) -> ToolError {
    error::tool_error(format!(
        "nothing was attached: the files have {bytes} bytes ({}) and this turn's others {other_bytes} bytes; at most {limit} \
         bytes ({}) are allowed in one turn",
        format_bytes(bytes),
        format_bytes(limit)
    ))
}

fn check_call_bytes(bytes: u64, limit: u64) -> Result<(), ToolError> {
    if bytes <= limit {
        return Ok(());
    }
    Err(error::tool_error(format!(
        "nothing was attached: the files have {bytes} bytes ({}) together, at most {limit} bytes ({}) are allowed in one \
         call",
        format_bytes(bytes),
        format_bytes(limit)
    )))
}

fn file_too_large_error(path: &WorkspacePath, bytes: u64, limit: u64) -> ToolError {
    error::tool_error(format!(
        "nothing was attached: `{path}` has {bytes} bytes ({}), at most {limit} bytes ({}) are allowed",
        format_bytes(bytes),
        format_bytes(limit)
    ))
}

async fn add_file(
    services: &ToolServices,
    context: &ToolContext,
    request: AddRequest,
    visibility: Visibility,
) -> Result<OutcomeFile, ToolError> {
    let AddRequest { path, filename, mime, description } = request;
    let file = services.workspace.read(&context.conversation, &path).await;
    let file = file.map_err(|error| error::tool_error_with_cause("nothing was attached", &error))?;
    let hint = BlobHint { filename: Some(filename.clone()), mime: mime.clone(), bytes: Some(file.bytes) };
    let limit = services.limits.add_file_bytes;
    let stored = services.blobs.put(file.content, &hint, limit).await.map_err(|error| match error {
        BlobError::TooLarge { .. } => file_too_large_error(&path, file.bytes.max(limit.saturating_add(1)), limit),
        error => error::tool_error_with_cause(&format!("nothing was attached: `{path}` could not be stored"), &error),
    })?;
    if let Some(original) = find_original(services, context, &filename, &stored).await? {
        let mime = mime.unwrap_or(original.mime);
        return Ok(Attachment { mime, description, visibility, ..original }.into());
    }
    let file = context.new_file(filename, stored);
    Ok(NewAttachment { mime: mime.unwrap_or(file.mime), description, visibility, ..file }.into())
}

/// Finds the conversation's file of which this one is a copy: a file that was saved and comes back keeps its number.
/// The name counts, too: under another one it is another file to the person. Of several copies the first is the
/// original.
async fn find_original(
    services: &ToolServices,
    context: &ToolContext,
    filename: &Filename,
    stored: &StoredBlob,
) -> Result<Option<Attachment>, ToolError> {
    let query = AttachmentQuery {
        conversation: Some(context.conversation.clone()),
        sha256: Some(stored.sha256),
        ..AttachmentQuery::default()
    };
    let copies = services.archive.attachments(&query).await;
    let copies = copies.map_err(|error| {
        error::tool_error_with_cause("nothing was attached: the conversation's files are unknown", &error)
    })?;
    Ok(copies.into_iter().rev().find(|copy| copy.filename == *filename))
}

#[cfg(test)]
mod tests;
