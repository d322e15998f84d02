//! For whom work is done by workers that many share.

use crate::{ConversationId, Sender};

/// For whom work is done: those who share workers are served fairly, each person however many conversations they have, and
/// each conversation however many people it has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkShare {
    /// The conversation.
    pub conversation: ConversationId,
    /// The channel's own id of the person. `None` for work that nobody requested; then the conversation alone counts.
    pub person: Option<String>,
}

impl WorkShare {
    /// Returns the share of a person in a conversation.
    #[must_use]
    pub fn from_sender(conversation: ConversationId, sender: &Sender) -> Self {
        Self { conversation, person: (!sender.id.is_empty()).then(|| sender.id.clone()) }
    }

    /// Returns the share of a conversation, for work that no single person requested.
    #[must_use]
    pub fn from_conversation(conversation: ConversationId) -> Self {
        Self { conversation, person: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sender_without_id_is_no_person() {
        let conversation: ConversationId = "web:a".parse().unwrap();
        for (id, person) in [("7", Some("7")), ("", None), ("satchel", Some("satchel"))] {
            let share = WorkShare::from_sender(conversation.clone(), &Sender::new(id, "Ann"));
            assert_eq!(share.person.as_deref(), person);
        }
    }
}
