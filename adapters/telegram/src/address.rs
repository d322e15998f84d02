//! The Telegram address of a conversation: a chat, or one topic of a forum or of a private chat.

use satchel_domain::{ChannelName, ConversationId};
use teloxide::types::{ChatId, MessageId, ThreadId};

/// The channel's name, the prefix of its conversation ids.
pub(crate) fn channel_name() -> ChannelName {
    ChannelName::new("telegram").expect("the name is lower-case letters")
}

/// A chat, or one topic of a forum or of a private chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ConversationAddress {
    pub(crate) chat: ChatId,
    /// The topic, where the chat has topics and this isn't its general one.
    pub(crate) topic: Option<ThreadId>,
}

impl ConversationAddress {
    /// Parses `telegram:<chat>` and `telegram:<chat>/<topic>`; `None` for anything else.
    pub(crate) fn parse(conversation: &ConversationId) -> Option<Self> {
        if *conversation.channel() != channel_name() {
            return None;
        }
        let (chat, topic) = match conversation.key().split_once('/') {
            Some((chat, topic)) => (chat, Some(ThreadId(MessageId(topic.parse().ok()?)))),
            None => (conversation.key(), None),
        };
        Some(Self { chat: ChatId(chat.parse().ok()?), topic })
    }

    /// The conversation at this address.
    pub(crate) fn conversation(self) -> ConversationId {
        let key = match self.topic {
            Some(topic) => format!("{}/{topic}", self.chat),
            None => self.chat.to_string(),
        };
        ConversationId::new(channel_name(), key).expect("a key of digits, dashes and a slash")
    }

    /// Whether several people can read messages. Ids of people are positive, those of groups and channels negative.
    pub(crate) fn is_group(self) -> bool {
        self.chat.0 < 0
    }
}

/// Where a new message goes, and whether it may answer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SendDestination {
    pub(crate) address: ConversationAddress,
    /// Whether it replies to the person's message.
    pub(crate) is_reply: bool,
}

impl SendDestination {
    /// Returns where the message goes instead after its topic has refused it: to the chat itself as the same reply, and
    /// if it is refused there too, as no reply, because a reply goes to the topic of the message that it answers
    /// (tdlib/telegram-bot-api, `Client.cpp`, `is_reply_in_same_topic`).
    pub(crate) fn outside_topic(self) -> Option<Self> {
        let Self { address, is_reply } = self;
        match (address.topic, is_reply) {
            (Some(_), _) => Some(Self { address: ConversationAddress { topic: None, ..address }, is_reply }),
            (None, true) => Some(Self { address, is_reply: false }),
            (None, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversation_id_round_trips_through_address() {
        for (key, group) in [("4711", false), ("4711/42", false), ("-100123", true), ("-100123/42", true)] {
            let conversation: ConversationId = format!("telegram:{key}").parse().unwrap();
            let address = ConversationAddress::parse(&conversation).unwrap();
            assert_eq!(address.conversation(), conversation);
            assert_eq!(address.is_group(), group);
        }
        for invalid in ["console:1", "telegram:main", "telegram:1/x", "telegram:1/2/3", "telegram:99999999999999999999"]
        {
            assert_eq!(ConversationAddress::parse(&invalid.parse().unwrap()), None, "{invalid}");
        }
    }
}
