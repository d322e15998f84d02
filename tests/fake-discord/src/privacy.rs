//! What an app without the Message Content Intent is told (Gateway, Message Content Intent).
//!
//! It is told "empty values in fields that contain user-inputted content", but for messages that it sends itself,
//! direct messages, and messages in which it is mentioned.

use serde_json::{Value, json};

use crate::{gateway::MESSAGE_CONTENT, platform_state::BOT};

/// An event as a session with these intents is told of it.
pub(crate) fn event(name: &str, data: &Value, intents: u64) -> Value {
    let told = data.clone();
    if matches!(name, "MESSAGE_CREATE" | "MESSAGE_UPDATE") {
        return hide(told, intents & MESSAGE_CONTENT != 0, data.get("guild_id").is_some());
    }
    told
}

/// A message, or a list of them, as the HTTP API tells it.
pub(crate) fn redacted(found: Value, reads_content: bool, of_guild: bool) -> Value {
    match found {
        Value::Array(messages) => messages.into_iter().map(|message| hide(message, reads_content, of_guild)).collect(),
        message => hide(message, reads_content, of_guild),
    }
}

fn hide(mut message: Value, reads_content: bool, of_guild: bool) -> Value {
    if let Some(answered) = message.get_mut("referenced_message").filter(|answered| answered.is_object()) {
        *answered = hide(answered.take(), reads_content, of_guild);
    }
    let bot = json!(BOT.to_string());
    let mentions = message["mentions"].as_array().is_some_and(|people| people.iter().any(|one| one["id"] == bot));
    if reads_content || !of_guild || mentions || message["author"]["id"] == bot {
        return message;
    }
    message["content"] = json!("");
    for field in ["attachments", "embeds", "components"] {
        message[field] = json!([]);
    }
    message.as_object_mut().expect("a message is an object").shift_remove("message_snapshots");
    message
}
