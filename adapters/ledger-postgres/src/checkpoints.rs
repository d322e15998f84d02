//! How far each channel's stream has been taken in, in the words of its adapter.

use satchel_domain::ChannelName;
use serde_json::Value;

use crate::{
    database::{Database, Json, params},
    error::Result,
};

/// Reads a channel's checkpoint.
pub(crate) async fn load(db: &Database, channel: &ChannelName) -> Result<Option<Value>> {
    let stored: Option<(Json<Value>,)> =
        db.find("SELECT bookmark FROM bookmarks WHERE channel = $1", params![channel.as_str()]).await?;
    Ok(stored.map(|(Json(checkpoint),)| checkpoint))
}

/// Stores a channel's checkpoint in place of the one before.
pub(crate) async fn save(db: &Database, channel: &ChannelName, checkpoint: &Value) -> Result<()> {
    db.run(
        "INSERT INTO bookmarks (channel, bookmark) VALUES ($1, $2) \
         ON CONFLICT (channel) DO UPDATE SET bookmark = excluded.bookmark",
        params![channel.as_str(), Json(checkpoint)],
    )
    .await?;
    Ok(())
}
