//! The files of a conversation: a filtered list of them, and forgetting one for good.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use satchel_domain::{Timestamp, Visibility};
use satchel_ports::ledger::{AttachmentKey, AttachmentQuery, FileCategory, FileOrigin, ForgetOutcome, ForgetRequest};
use serde::Deserialize;

use super::{ApiPath, ApiQuery};
use crate::{
    problem::{Problem, ProblemBody},
    state::AppState,
    view,
    wire::{ConversationFiles, FileSender},
};

/// The default number of listed files.
const DEFAULT_FILES: u32 = 60;

/// The maximum number of files in one response.
const MAX_FILES: u32 = 200;

#[derive(Debug, Deserialize)]
pub(crate) struct FileListParameters {
    kind: Option<FileKindParameter>,
    sender: Option<FileSender>,
    since: Option<i64>,
    until: Option<i64>,
    before: Option<u64>,
    limit: Option<u32>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FileKindParameter {
    Image,
    Audio,
    Video,
    Other,
}

/// Lists the files of a conversation that people see, newest first.
#[utoipa::path(
    get,
    path = "/api/conversations/{id}/files",
    params(
        ("id" = String, Path, description = "The part of the conversation id after `web:`."),
        ("kind" = Option<String>, Query, description = "Only `image`, `audio`, `video`, or `other`: everything else."),
        ("sender" = Option<String>, Query, description = "Only those that a `person` sent, or that the `assistant` made."),
        ("since" = Option<i64>, Query, description = "Only those that were stored then or later, in milliseconds since 1970."),
        ("until" = Option<i64>, Query, description = "Only those that were stored before, in milliseconds since 1970."),
        ("before" = Option<u64>, Query, description = "The `number` of the last file that you have: only older ones."),
        ("limit" = Option<u32>, Query, description = "Maximum number of files."),
    ),
    responses(
        (status = 200, body = ConversationFiles),
        (status = 404, description = "The conversation id is invalid.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "A parameter is none of those that are allowed.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn list(
    State(state): State<Arc<AppState>>,
    ApiPath(id): ApiPath<String>,
    ApiQuery(parameters): ApiQuery<FileListParameters>,
) -> Result<Json<ConversationFiles>, Problem> {
    let FileListParameters { kind, sender, since, until, before, limit } = parameters;
    let limit = limit.unwrap_or(DEFAULT_FILES).clamp(1, MAX_FILES);
    let query = AttachmentQuery {
        conversation: Some(state.conversation(&id)?),
        category: kind.map(to_category),
        origin: sender.map(to_origin),
        visibility: Some(Visibility::Deliver),
        since: since.map(Timestamp),
        until: until.map(Timestamp),
        before,
        limit: Some(limit + 1),
        ..AttachmentQuery::default()
    };
    let mut files = state.archive.attachments(&query).await?;
    let more = files.len() > limit as usize;
    files.truncate(limit as usize);
    let files = files.iter().map(|file| view::to_wire_conversation_file(file, &state.urls)).collect();
    Ok(Json(ConversationFiles { files, more }))
}

fn to_category(kind: FileKindParameter) -> FileCategory {
    match kind {
        FileKindParameter::Image => FileCategory::Image,
        FileKindParameter::Audio => FileCategory::Audio,
        FileKindParameter::Video => FileCategory::Video,
        FileKindParameter::Other => FileCategory::Other,
    }
}

fn to_origin(sender: FileSender) -> FileOrigin {
    match sender {
        FileSender::Person => FileOrigin::Person,
        FileSender::Assistant => FileOrigin::Assistant,
    }
}

/// Forgets a file for good, as `/forget` does: its name, its bytes and its preview. Its number stays.
#[utoipa::path(
    delete,
    path = "/api/conversations/{id}/files/{attachment}",
    params(
        ("id" = String, Path, description = "The part of the conversation id after `web:`."),
        ("attachment" = String, Path, description = "The file's id."),
    ),
    responses(
        (status = 204, description = "It is forgotten."),
        (status = 404, description = "No such file in this conversation.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "It is still being sent, or a message that isn't answered needs it.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn forget_file(
    State(state): State<Arc<AppState>>,
    ApiPath((id, attachment)): ApiPath<(String, String)>,
) -> Result<StatusCode, Problem> {
    let conversation = state.conversation(&id)?;
    let attachment = attachment.parse().map_err(|_| Problem::not_found("file"))?;
    let found = state.archive.attachment(&conversation, AttachmentKey::Id(attachment)).await?;
    let found = found.ok_or_else(|| Problem::not_found("file"))?;
    // Nobody else writes in a conversation of the page, so whoever is logged in may forget all of its files.
    let request = ForgetRequest { conversation: conversation.clone(), number: found.number.get(), restricted_to: None };
    let conflict = |detail| Err(Problem::new(StatusCode::CONFLICT, "busy", detail));
    match state.storage.forget_file(&request).await? {
        ForgetOutcome::Forgotten(_) | ForgetOutcome::AlreadyForgotten(_) => {
            if let Some(previews) = &state.previews {
                previews.remove(found.sha256);
            }
            state.hub.resend_snapshot(&conversation);
            Ok(StatusCode::NO_CONTENT)
        }
        ForgetOutcome::Unsettled => conflict("This file is still being sent. Please try again later."),
        ForgetOutcome::InUse => {
            conflict("A message that isn't answered yet needs this file. Please try again after the reply.")
        }
        ForgetOutcome::NotFound | ForgetOutcome::NotPermitted => Err(Problem::not_found("file")),
    }
}
