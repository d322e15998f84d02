//! In which conversations a program may write: its own, and those that list it as a member.

use std::collections::HashMap;

use satchel_domain::ConversationId;

use crate::subject::is_token;

/// The conversations that several programs share, with the ids of their members. The list of a conversation decides
/// alone who may write there, also below the name of a program.
#[derive(Debug, Clone, Default)]
pub struct NatsGroups(HashMap<ConversationId, Vec<String>>);

/// How a program takes part in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Membership {
    /// The conversation is the program's alone.
    Own,
    /// It is one of several members, who read along.
    Group,
}

impl NatsGroups {
    #[must_use]
    pub fn new(members: HashMap<ConversationId, Vec<String>>) -> Self {
        Self(members)
    }

    /// Returns how a sender takes part in a conversation; `None` if it may not write there. Its own conversations are
    /// `nats:<sender>` and all below.
    pub(crate) fn find_membership(&self, conversation: &ConversationId, sender_id: &str) -> Option<Membership> {
        let (is_member, membership) = match self.0.get(conversation) {
            Some(members) => (members.iter().any(|member| member == sender_id), Membership::Group),
            None => (conversation.chat().key() == sender_id, Membership::Own),
        };
        is_member.then_some(membership)
    }
}

/// Returns whether text can be the id of a sender: one token of a subject that matches nothing but itself.
#[must_use]
pub fn is_sender_id(text: &str) -> bool {
    is_token(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_takes_part_in_its_own_and_listed_conversations() {
        let members = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        let conversation = |text: &str| text.parse::<ConversationId>().unwrap();
        let groups = NatsGroups::new(HashMap::from([
            (conversation("nats:desk"), members(&["orders", "hr"])),
            (conversation("nats:hr/shared"), members(&["orders"])),
            (conversation("nats:orders/x"), members(&["hr"])),
        ]));
        for (written, expected) in [
            ("nats:orders", Some(Membership::Own)),
            ("nats:orders/june/1.2", Some(Membership::Own)),
            ("nats:desk", Some(Membership::Group)),
            ("nats:hr/shared", Some(Membership::Group)),
            // Below a name that is the program's own, and listed for others.
            ("nats:orders/x", None),
            ("nats:hr", None),
            ("nats:hr/payroll", None),
            ("nats:orders2", None),
            ("nats:orders.june", None),
            ("nats:Orders", None),
            ("nats:/orders", None),
            ("nats:desk/june", None),
        ] {
            assert_eq!(groups.find_membership(&conversation(written), "orders"), expected, "{written}");
        }
    }
}
