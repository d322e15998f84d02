//! The conversation that a message comes from and its reply goes to.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Sha256;

/// The longest file name that is written out; a longer one becomes a digest.
const MAX_FILE_NAME_BYTES: usize = 200;

/// The name of a channel: `telegram`, `discord`, `web`, `console`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChannelName(String);

impl ChannelName {
    /// Takes a name of lower-case letters, digits and dashes.
    ///
    /// # Errors
    /// When the name is empty or holds anything else.
    pub fn new(name: impl Into<String>) -> Result<Self, ParseConversationIdError> {
        let name = name.into();
        let is_allowed_byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || !name.bytes().all(is_allowed_byte) {
            return Err(ParseConversationIdError(name));
        }
        Ok(Self(name))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One chat, channel, thread or forum topic on one channel, written `channel:key`:
/// `telegram:-100123/42`, `discord:998877`, `web:<id>`, `console:main`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversationId {
    channel: ChannelName,
    key: String,
}

impl ConversationId {
    /// Names the conversation that `channel` knows as `key`.
    ///
    /// # Errors
    /// When the key is empty, longer than 200 bytes, or holds anything but ASCII letters, digits and `-_./@`.
    pub fn new(channel: ChannelName, key: impl Into<String>) -> Result<Self, ParseConversationIdError> {
        let key = key.into();
        let is_allowed_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./@".contains(&byte);
        if key.is_empty() || key.len() > 200 || !key.bytes().all(is_allowed_byte) {
            return Err(ParseConversationIdError(format!("{channel}:{key}")));
        }
        Ok(Self { channel, key })
    }

    /// The channel on which the conversation takes place.
    #[must_use]
    pub fn channel(&self) -> &ChannelName {
        &self.channel
    }

    /// The chat that a topic belongs to (`telegram:-100123` of `telegram:-100123/42`); itself where it is no topic.
    #[must_use]
    pub fn chat(&self) -> Self {
        let key = self.key.split_once('/').map_or(self.key.as_str(), |(chat, _)| chat);
        Self { channel: self.channel.clone(), key: key.to_owned() }
    }

    /// The conversation's own name on its channel. It may hold slashes and dots: [`to_file_name`](Self::to_file_name)
    /// is safe as a path.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns a name for a file or a directory of the conversation: one part of a path that leads nowhere else, and
    /// another one for each conversation, also where a disk doesn't tell upper from lower case.
    ///
    /// `telegram:-100123/42` becomes `telegram=-100123+42`.
    #[must_use]
    pub fn to_file_name(&self) -> String {
        let mut name = format!("{}=", self.channel);
        for c in self.key.chars() {
            match c {
                '/' => name.push('+'),
                c if c.is_ascii_uppercase() => name.extend(['^', c.to_ascii_lowercase()]),
                c => name.push(c),
            }
        }
        // Some systems drop a dot at the end of a name.
        if name.ends_with('.') {
            name.push('=');
        }
        match name.len() > MAX_FILE_NAME_BYTES {
            true => format!("={}", Sha256::digest(self.to_string())),
            false => name,
        }
    }
}

/// The text names no conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a conversation id: write `channel:key`, such as `console:main`")]
pub struct ParseConversationIdError(pub String);

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.channel, self.key)
    }
}

impl FromStr for ConversationId {
    type Err = ParseConversationIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (channel, key) = text.split_once(':').ok_or_else(|| ParseConversationIdError(text.to_owned()))?;
        Self::new(ChannelName::new(channel)?, key)
    }
}

impl Serialize for ConversationId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ConversationId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn conversations_are_written_as_channel_and_key() {
        for text in ["telegram:-100123/42", "discord:998877", "console:main"] {
            assert_eq!(text.parse::<ConversationId>().map(|id| id.to_string()), Ok(text.to_owned()));
        }
        let chat = |text: &str| text.parse::<ConversationId>().unwrap().chat().to_string();
        assert_eq!((chat("telegram:-100123/42"), chat("discord:7")), ("telegram:-100123".into(), "discord:7".into()));
        for text in ["", "main", ":main", "console:", "Console:main", "console:a b", "console:a\nb", "console:ü"] {
            assert!(text.parse::<ConversationId>().is_err(), "{text}");
        }
    }

    fn conversation(text: &str) -> ConversationId {
        text.parse().unwrap()
    }

    #[test]
    fn directories_are_named_so_that_people_find_them() {
        for (id, name) in [
            ("telegram:-100123/42", "telegram=-100123+42"),
            ("console:main", "console=main"),
            ("web:aB", "web=a^b"),
            ("web:..", "web=..="),
        ] {
            assert_eq!(conversation(id).to_file_name(), name);
        }
        assert_eq!(conversation(&format!("web:{}", "A".repeat(200))).to_file_name().len(), 65);
    }

    proptest! {
        #[test]
        fn different_conversations_have_different_directories(
            a in "(web|x):[aAbB./@_-]{1,6}", b in "(web|x):[aAbB./@_-]{1,6}",
        ) {
            let (a, b) = (conversation(&a), conversation(&b));
            let (name, other) = (a.to_file_name(), b.to_file_name());
            prop_assert_eq!(a == b, name.eq_ignore_ascii_case(&other));
            prop_assert!(!name.contains(['/', '\\', ':']) && name != "." && name != "..");
        }
    }
}
