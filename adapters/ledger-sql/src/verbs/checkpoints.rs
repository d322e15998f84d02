//! How far each channel's stream has been taken in, in the words of its adapter.

use satchel_domain::ChannelName;
use serde_json::Value;

use crate::{
    parameters::Json,
    params,
    session::{Session, VerbResult},
};

/// Reads a channel's checkpoint.
pub async fn load_checkpoint<S: Session>(db: &S, channel: &ChannelName) -> VerbResult<Option<Value>, S> {
    let stored: Option<(Json<Value>,)> =
        db.find("SELECT bookmark FROM bookmarks WHERE channel = $1", params![channel.as_str()]).await?;
    Ok(stored.map(|(Json(checkpoint),)| checkpoint))
}

/// Stores a channel's checkpoint in place of the one before.
pub async fn save_checkpoint<S: Session>(db: &S, channel: &ChannelName, checkpoint: &Value) -> VerbResult<(), S> {
    db.run(
        "INSERT INTO bookmarks (channel, bookmark) VALUES ($1, $2) \
         ON CONFLICT (channel) DO UPDATE SET bookmark = excluded.bookmark",
        params![channel.as_str(), Json(checkpoint)],
    )
    .await?;
    Ok(())
}
