//! Which conversations are of one chat, as bounds for an index of their names.

use satchel_domain::ConversationId;

/// The bounds between which the names of a chat's conversations lie.
#[derive(Debug)]
pub struct ChatBounds {
    pub name: String,
    pub topics: (String, String),
    pub channel: (String, String),
}

impl ChatBounds {
    #[must_use]
    pub fn new(conversation: &ConversationId) -> Self {
        let (name, channel) = (conversation.chat().to_string(), conversation.channel());
        // The character behind the one that ends the prefix.
        Self {
            topics: (format!("{name}/"), format!("{name}0")),
            channel: (format!("{channel}:"), format!("{channel};")),
            name,
        }
    }
}
