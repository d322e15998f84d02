//! A conversation as an archive to download.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use jiff::Timestamp as Moment;
use satchel_domain::Filename;

use super::{
    ApiPath,
    files::{FILE_POLICY, content_disposition},
};
use crate::{
    export::Export,
    problem::{Problem, ProblemBody},
    state::AppState,
};

/// Sends a conversation as a ZIP archive: its words as Markdown, and its files.
#[utoipa::path(
    get,
    path = "/api/conversations/{id}/export",
    params(("id" = String, Path, description = "The part of the conversation id after `web:`.")),
    responses(
        (status = 200, description = "The archive, whose length isn't known before.", content_type = "application/zip"),
        (status = 404, description = "There is no such conversation.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "Too many archives are being downloaded.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn export(
    State(state): State<Arc<AppState>>,
    ApiPath(id): ApiPath<String>,
) -> Result<Response, Problem> {
    let conversation = state.conversation(&id)?;
    let summary = state.conversations.find_conversation(&conversation).await?;
    let summary = summary.ok_or_else(|| Problem::not_found("conversation"))?;
    let Ok(permit) = Arc::clone(&state.exports).try_acquire_owned() else {
        return Err(Problem::unavailable("Other conversations are being exported. Try again when they are done."));
    };
    let title = summary.name.unwrap_or(summary.title);
    let exported_at = Moment::from_millisecond(state.clock.now().0).unwrap_or_default();
    let filename = archive_name(&title);
    let export = Export::read(&*state.archive, &state.urls, conversation, title, exported_at).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/zip".to_owned()),
        (header::CONTENT_DISPOSITION, content_disposition(false, filename.as_str())),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    let archive = export.into_stream(Arc::clone(&state.blobs), permit);
    Ok((headers, [(header::CONTENT_SECURITY_POLICY, FILE_POLICY)], Body::from_stream(archive)).into_response())
}

/// Returns the name of an archive: the beginning of the title.
fn archive_name(title: &str) -> Filename {
    const MAX_CHARS: usize = 60;
    // What stands before a slash would be taken for a directory, and left out.
    let title = title.replace(['/', '\\'], "-");
    let title: String = title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_CHARS).collect();
    let title = if title.trim().is_empty() { "Conversation" } else { title.trim() };
    Filename::from_untrusted(&format!("{title}.zip"))
}
