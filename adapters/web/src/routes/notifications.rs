//! Accepts messages of other programs for the people of a conversation, on whatever channel.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    http::StatusCode,
};
use satchel_domain::ConversationId;
use satchel_ports::{Notification, NotificationError, NotificationFile};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    ApiQuery, read_json,
    uploads::{UploadQuery, store_upload, verify_upload},
};
use crate::{
    channel::UploadHandle,
    problem::{Problem, ProblemBody},
    state::AppState,
    wire::{Accepted, Uploaded},
};

/// A message of another program.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewNotification {
    /// A conversation of any channel, such as `telegram:-100123`, in which somebody has written.
    #[schema(value_type = String)]
    conversation: ConversationId,
    /// Unique for each message of the conversation: 1 to 128 ASCII letters, digits and signs. The same message sent again with
    /// the same key is delivered once; without a key each request is a message.
    #[serde(default)]
    key: Option<String>,
    /// The text, as Markdown, at most 100 KB.
    #[serde(default)]
    text: String,
    /// The upload handles of its files, in order.
    #[serde(default)]
    uploads: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NotificationUploadQuery {
    /// The conversation for which the file is uploaded.
    conversation: ConversationId,
    /// The file's name.
    filename: String,
}

/// Accepts a message of another program. When this responds, it is durable and will be delivered, behind what is under way.
#[utoipa::path(
    post,
    path = "/api/notifications",
    request_body = NewNotification,
    responses(
        (status = 202, body = Accepted),
        (status = 404, description = "There is no such conversation.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "The key belongs to another message, or to this one, which could not be delivered.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 410, description = "An upload has expired.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "Something in the message is not allowed.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 507, description = "The disk is full.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn accept(
    State(state): State<Arc<AppState>>,
    request: Request,
) -> Result<(StatusCode, Json<Accepted>), Problem> {
    let NewNotification { conversation, key, text, uploads } = read_json(request).await?;
    let file = |handle: String| {
        let UploadHandle { blob, filename, .. } = verify_upload(&state, &conversation, &handle)?;
        Ok(NotificationFile { blob, filename })
    };
    let files = uploads.into_iter().map(file).collect::<Result<_, Problem>>()?;
    let turn = state.notifications.send(Notification { conversation, key, text, files }).await?;
    Ok((StatusCode::ACCEPTED, Json(Accepted { turn: turn.to_string() })))
}

/// Stores a file for a message of another program and returns the handle by which the message names it. The body is the file.
#[utoipa::path(
    post,
    path = "/api/notifications/uploads",
    params(
        ("conversation" = String, Query, description = "The conversation of the message, such as `telegram:-100123`."),
        ("filename" = String, Query, description = "The file's name."),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, body = Uploaded),
        (status = 408, description = "The upload stalled.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "The file is too large.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 507, description = "The disk is full.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn upload(
    State(state): State<Arc<AppState>>,
    ApiQuery(NotificationUploadQuery { conversation, filename }): ApiQuery<NotificationUploadQuery>,
    request: Request,
) -> Result<(StatusCode, Json<Uploaded>), Problem> {
    let uploaded = store_upload(&state, conversation, UploadQuery { filename }, request).await?;
    // The page shows previews of its own conversations alone.
    Ok((StatusCode::CREATED, Json(Uploaded { preview: None, ..uploaded })))
}

impl From<NotificationError> for Problem {
    fn from(error: NotificationError) -> Self {
        match error {
            NotificationError::UnknownConversation(_) | NotificationError::NotHosted(_) => {
                Self::new(StatusCode::NOT_FOUND, "unknown_conversation", sentence(&error))
            }
            NotificationError::KeyReused(_) => Self::new(StatusCode::CONFLICT, "key_reused", sentence(&error)),
            NotificationError::NotDelivered { .. } => {
                Self::new(StatusCode::CONFLICT, "not_delivered", sentence(&error))
            }
            NotificationError::Invalid(_) => Self::invalid(sentence(&error)),
            NotificationError::Inbound(error) => error.into(),
            NotificationError::Ledger(error) => error.into(),
        }
    }
}

/// An error as a sentence for people.
fn sentence(error: &NotificationError) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    letters.next().map(|first| format!("{}{}.", first.to_uppercase(), letters.as_str())).unwrap_or_default()
}
