//! Conversation ids as Discord addresses: a channel, or the direct channel with a person.

use satchel_domain::{ChannelName, ConversationId, MessageRef};

/// The prefix of all conversation ids on Discord.
pub(crate) fn channel_name() -> ChannelName {
    ChannelName::new("discord").expect("the name is lower-case letters")
}

/// The Discord address of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ConversationAddress {
    /// A guild's channel, a thread or an open direct channel.
    Channel(u64),
    /// The direct channel with a person, which may not be open yet.
    Person(u64),
}

impl ConversationAddress {
    /// Parses `discord:<channel>` and `discord:@<user>`; returns `None` for anything else.
    pub(crate) fn parse(conversation: &ConversationId) -> Option<Self> {
        if *conversation.channel() != channel_name() {
            return None;
        }
        match conversation.key().strip_prefix('@') {
            Some(person) => parse_snowflake(person).map(Self::Person),
            None => parse_snowflake(conversation.key()).map(Self::Channel),
        }
    }
}

/// Returns the conversation id of a channel.
pub(crate) fn conversation_id(channel_id: u64) -> ConversationId {
    ConversationId::new(channel_name(), channel_id.to_string()).expect("a key of digits")
}

pub(crate) fn message_id(message: &MessageRef) -> Option<u64> {
    parse_snowflake(&message.0)
}

/// Parses an id in canonical form, digits without leading zeros, so that one channel is one conversation.
fn parse_snowflake(text: &str) -> Option<u64> {
    let is_canonical = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_and_places_are_the_same() {
        let of = |text: &str| ConversationAddress::parse(&text.parse().unwrap());
        assert_eq!(of("discord:81384788765712384"), Some(ConversationAddress::Channel(81_384_788_765_712_384)));
        assert_eq!(of("discord:@4711"), Some(ConversationAddress::Person(4_711)));
        assert_eq!(ConversationAddress::parse(&conversation_id(4_711)), Some(ConversationAddress::Channel(4_711)));
        for invalid in ["console:1", "discord:main", "discord:@", "discord:0", "discord:1/2", "discord:1-2"] {
            assert_eq!(of(invalid), None, "{invalid}");
        }
        for not_canonical in ["discord:007", "discord:@007"] {
            assert_eq!(of(not_canonical), None, "{not_canonical} would be a second conversation in one channel");
        }
        assert_eq!(of("discord:99999999999999999999"), None, "it is larger than an id");
    }
}
