//! How far each channel's stream has been taken in, in the words of its adapter.

use satchel_domain::ChannelName;
use serde_json::Value;
use sqlx::types::Json;

use crate::{error::Result, session::Session};

/// Reads a channel's bookmark.
pub(crate) async fn read(session: &mut Session<'_>, channel: &ChannelName) -> Result<Option<Value>> {
    let kept: Option<(Json<Value>,)> = sqlx::query_as("SELECT bookmark FROM bookmarks WHERE channel = $1")
        .bind(channel.as_str())
        .fetch_optional(session.connection().await?)
        .await?;
    Ok(kept.map(|(Json(bookmark),)| bookmark))
}

/// Keeps a channel's bookmark in place of the one before.
pub(crate) async fn keep(session: &mut Session<'_>, channel: &ChannelName, bookmark: &Value) -> Result<()> {
    sqlx::query(
        "INSERT INTO bookmarks (channel, bookmark) VALUES ($1, $2) \
         ON CONFLICT (channel) DO UPDATE SET bookmark = excluded.bookmark",
    )
    .bind(channel.as_str())
    .bind(Json(bookmark))
    .execute(session.connection().await?)
    .await?;
    Ok(())
}
