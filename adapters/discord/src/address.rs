//! A conversation in Discord's terms: a channel, or what is said between a person and the bot.

use satchel_domain::{ChannelName, ConversationId, MessageRef};

/// The channel's name: all conversations on it begin with it.
pub(crate) fn channel_name() -> ChannelName {
    ChannelName::new("discord").expect("the name is lower-case letters")
}

/// Where something is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ConversationAddress {
    /// A guild's channel, a thread or an open direct channel.
    Channel(u64),
    /// The direct channel with a person, which may not be open yet.
    Person(u64),
}

impl ConversationAddress {
    /// Reads `discord:<channel>` and `discord:@<user>`; anything else is no place.
    pub(crate) fn parse(conversation: &ConversationId) -> Option<Self> {
        if *conversation.channel() != channel_name() {
            return None;
        }
        match conversation.key().strip_prefix('@') {
            Some(person) => snowflake(person).map(Self::Person),
            None => snowflake(conversation.key()).map(Self::Channel),
        }
    }
}

/// The conversation that is held in a channel.
pub(crate) fn conversation(channel: u64) -> ConversationId {
    ConversationId::new(channel_name(), channel.to_string()).expect("a key of digits")
}

pub(crate) fn number(message: &MessageRef) -> Option<u64> {
    snowflake(&message.0)
}

/// An id as Discord writes it, digits alone and none of them without need: there is no other way to write the same
/// one, so that one place is one conversation.
fn snowflake(text: &str) -> Option<u64> {
    let is_written_so = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_written_so)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_and_places_are_the_same() {
        let of = |text: &str| ConversationAddress::parse(&text.parse().unwrap());
        assert_eq!(of("discord:81384788765712384"), Some(ConversationAddress::Channel(81_384_788_765_712_384)));
        assert_eq!(of("discord:@4711"), Some(ConversationAddress::Person(4_711)));
        assert_eq!(ConversationAddress::parse(&conversation(4_711)), Some(ConversationAddress::Channel(4_711)));
        for no_place in ["console:1", "discord:main", "discord:@", "discord:0", "discord:1/2", "discord:1-2"] {
            assert_eq!(of(no_place), None, "{no_place}");
        }
        for written_otherwise in ["discord:007", "discord:@007"] {
            assert_eq!(of(written_otherwise), None, "{written_otherwise} would be another conversation in one place");
        }
        assert_eq!(of("discord:99999999999999999999"), None, "it is larger than an id");
    }
}
