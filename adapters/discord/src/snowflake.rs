//! Ids: Discord's own, the conversations that they address, and keys for input that has none.
//!
//! Discord's ids are numbers that hold the time at which they were made, and so grow, written as text (Reference,
//! Snowflakes).

use satchel_domain::{ChannelName, ConversationId, MessageRef};
use serde_json::Value;
use serenity::model::Timestamp;
use sha2::{Digest, Sha256};

/// The first millisecond of 2015, from which they count.
const EPOCH_MS: u64 = 1_420_070_400_000;

/// Where an id keeps its time.
const TIME: u32 = 22;

/// The least id of what is made at a time, in milliseconds since 1970.
pub(crate) fn at_unix_ms(unix_ms: u64) -> u64 {
    span(unix_ms.saturating_sub(EPOCH_MS))
}

/// The least id of what is made in the second of a time, as Discord writes times.
pub(crate) fn from_second(time: &str) -> Option<u64> {
    let seconds = u64::try_from(Timestamp::parse(time).ok()?.unix_timestamp()).ok()?;
    Some(at_unix_ms(seconds * 1_000))
}

/// When an id was made, in milliseconds since 1970.
pub(crate) fn unix_ms(id: u64) -> u64 {
    EPOCH_MS + (id >> TIME)
}

/// By how much ids grow in so many milliseconds.
pub(crate) fn span(milliseconds: u64) -> u64 {
    milliseconds << TIME
}

/// The id in a field.
pub(crate) fn read(data: &Value, field: &str) -> Option<u64> {
    data.get(field)?.as_str()?.parse().ok()
}

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

/// Returns the first half of the SHA-256 of some bytes, in hexadecimal digits.
pub(crate) fn stable_key(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_tell_the_time() {
        // The example of Discord's own reference: 175928847299117063 was made on 2016-04-30 11:18:25.796 UTC.
        assert_eq!(at_unix_ms(1_462_015_105_796), 175_928_847_299_117_063 >> TIME << TIME);
        assert_eq!(unix_ms(175_928_847_299_117_063), 1_462_015_105_796);
        assert_eq!((at_unix_ms(0), at_unix_ms(EPOCH_MS), at_unix_ms(EPOCH_MS + 1)), (0, 0, span(1)));
        assert_eq!(from_second("2016-04-30T11:18:25.796000+00:00"), Some(at_unix_ms(1_462_015_105_000)));
        assert_eq!((from_second("yesterday"), from_second("1969-12-31T23:59:59+00:00")), (None, None));
    }

    #[test]
    fn only_text_is_an_id() {
        let data = json!({ "id": "7", "number": 7, "word": "seven", "none": null });
        let read = |field| read(&data, field);
        assert_eq!(
            [read("id"), read("number"), read("word"), read("none"), read("gone")],
            [Some(7), None, None, None, None]
        );
    }

    #[test]
    fn conversation_ids_round_trip() {
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

    /// Keys are stored in the database, so they must not change.
    #[test]
    fn a_key_stays_as_it_is() {
        assert_eq!(stable_key(b""), "e3b0c44298fc1c149afbf4c8996fb924");
        assert_eq!(stable_key(b"abc"), "ba7816bf8f01cfea414140de5dae2223");
    }
}
