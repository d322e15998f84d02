//! How far each channel's stream has been taken in, in the words of its adapter.

use rusqlite::params;
use satchel_domain::ChannelName;
use serde_json::Value;

use crate::{
    database::{Database, Json, Query},
    error::Result,
};

/// Reads a channel's checkpoint.
pub(crate) fn load(db: &Database, channel: &ChannelName) -> Result<Option<Value>> {
    let stored: Option<(Json<Value>,)> =
        db.find("SELECT bookmark FROM bookmarks WHERE channel = ?1", [channel.as_str()])?;
    Ok(stored.map(|(Json(checkpoint),)| checkpoint))
}

/// Stores a channel's checkpoint in place of the one before.
pub(crate) fn save(db: &Database, channel: &ChannelName, checkpoint: &Value) -> Result<()> {
    db.run(
        "INSERT INTO bookmarks (channel, bookmark) VALUES (?1, ?2) \
         ON CONFLICT (channel) DO UPDATE SET bookmark = excluded.bookmark",
        params![channel.as_str(), Json(checkpoint)],
    )?;
    Ok(())
}
