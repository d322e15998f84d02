//! Edits that come between reading their original and recording that it was read.

use satchel_domain::InboxId;
use serde_json::{Value, json};

use crate::{
    lanes::LaneId,
    parameters::Json,
    params,
    session::{Session, VerbResult},
};

/// Makes the edit that has taken a message's place, since that was read, a correction of what the model has read.
pub(crate) async fn mark_correction<S: Session>(db: &S, lane: LaneId, read: InboxId, text: &str) -> VerbResult<(), S> {
    let waiting: Vec<(i64, Json<Value>)> = db
        .all(
            "SELECT sequence, message FROM inbox \
             WHERE lane = $1 AND consumed_by IS NULL AND steered_into IS NULL ORDER BY sequence",
            params![lane],
        )
        .await?;
    let read = json!(read);
    let has_replaced =
        |message: &Value| message["replaced_ids"].as_array().is_some_and(|replaced| replaced.contains(&read));
    let replacement = waiting.into_iter().find(|(_, Json(message))| has_replaced(message));
    let Some((sequence, Json(mut message))) = replacement else { return Ok(()) };
    correct(&mut message, text);
    db.run("UPDATE inbox SET message = $2 WHERE sequence = $1", params![sequence, Json(message)]).await?;
    Ok(())
}

/// Makes a stored message a correction of a text. What it corrected until then is remembered if it was run.
fn correct(message: &mut Value, text: &str) {
    let earlier = std::mem::replace(&mut message["earlier_text"], Value::from(text));
    // A model message may have recorded the same text before the turn's end does.
    if earlier.as_str().filter(|earlier| *earlier != text).is_some_and(looks_like_command) {
        match message["earlier_commands"].as_array_mut() {
            Some(commands) => commands.push(earlier),
            None => message["earlier_commands"] = json!([earlier]),
        }
    }
}

/// Whether a text may have been run. What it really was is decided where it is read.
pub(crate) fn looks_like_command(text: &str) -> bool {
    text.trim_start().starts_with('/')
}
