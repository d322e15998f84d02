//! What a platform takes and how fast, as an operator may have changed it: `telegram.limits` and `discord.limits`.
//!
//! Platforms change their limits now and then, and a server of one's own has others.

use satchel_domain::{
    ChannelCapabilities,
    capabilities::{CaptionRule, GroupingRule},
};

use super::reader::Reader;

/// The longest text or caption, and the most messages in a time, that anybody may set.
const MOST: u32 = 1_000_000;

/// The most files of one message.
const MOST_TOGETHER: u32 = 100;

/// The shortest text or caption: less holds neither a label nor a notice.
const SHORTEST: u32 = 100;

/// The limits that the configuration sets in the place of a table's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LimitOverrides {
    text: Option<usize>,
    caption: Option<usize>,
    file_bytes: Option<u64>,
    request_bytes: Option<u64>,
    photo_bytes: Option<u64>,
    files_together: Option<usize>,
    per_second: Option<u32>,
    per_chat_second: Option<u32>,
    per_group_minute: Option<u32>,
}

impl LimitOverrides {
    /// Reads what is given instead of a platform's table; a limit that the table doesn't have is no key.
    pub(super) fn read(reader: &mut Reader<'_>, platform: &str, table: &ChannelCapabilities) -> Self {
        let key = |name: &str| format!("{platform}.limits.{name}");
        let mut overrides = Self::default();
        if let Some(max) = table.text.max {
            overrides.text = read_if_given(reader, &key("text"), |reader, key| length(reader, key, max));
        }
        if let CaptionRule::Caption { max } | CaptionRule::AltText { max } = table.caption {
            overrides.caption = read_if_given(reader, &key("caption"), |reader, key| length(reader, key, max));
        }
        let size = |bytes: u64| move |reader: &mut Reader<'_>, key: &str| reader.size(key, bytes);
        overrides.file_bytes = read_if_given(reader, &key("file_bytes"), size(table.file_bytes));
        if let Some(bytes) = table.request_bytes {
            overrides.request_bytes = read_if_given(reader, &key("request_bytes"), size(bytes));
        }
        if let Some(photo) = &table.photo {
            overrides.photo_bytes = read_if_given(reader, &key("photo_bytes"), size(photo.max_bytes));
        }
        if let GroupingRule::Albums { max } | GroupingRule::Messages { max, .. } = table.grouping {
            overrides.files_together = read_if_given(reader, &key("files_together"), |reader, key| {
                usize::try_from(reader.count(key, count(max), 2..=MOST_TOGETHER)).unwrap_or(max)
            });
        }
        let pace = table.rate_limits.as_ref();
        for (name, limit, set) in [
            ("per_second", pace.and_then(|pace| pace.per_second), &mut overrides.per_second),
            ("per_chat_second", pace.and_then(|pace| pace.per_conversation_second), &mut overrides.per_chat_second),
            ("per_group_minute", pace.and_then(|pace| pace.per_group_minute), &mut overrides.per_group_minute),
        ] {
            if let Some(limit) = limit {
                *set = read_if_given(reader, &key(name), |reader, key| reader.count(key, limit, 1..=MOST));
            }
        }
        overrides
    }

    /// Returns the table with what is given in its place.
    pub(super) fn apply(&self, table: ChannelCapabilities) -> ChannelCapabilities {
        let mut limits = table;
        limits.text.max = limits.text.max.map(|max| self.text.unwrap_or(max));
        if let CaptionRule::Caption { max } | CaptionRule::AltText { max } = &mut limits.caption {
            *max = self.caption.unwrap_or(*max);
        }
        limits.file_bytes = self.file_bytes.unwrap_or(limits.file_bytes);
        limits.request_bytes = limits.request_bytes.map(|bytes| self.request_bytes.unwrap_or(bytes));
        if let Some(photo) = &mut limits.photo {
            photo.max_bytes = self.photo_bytes.unwrap_or(photo.max_bytes);
        }
        if let GroupingRule::Albums { max } | GroupingRule::Messages { max, .. } = &mut limits.grouping {
            *max = self.files_together.unwrap_or(*max);
        }
        if let Some(pace) = &mut limits.rate_limits {
            pace.per_second = pace.per_second.map(|limit| self.per_second.unwrap_or(limit));
            pace.per_conversation_second =
                pace.per_conversation_second.map(|limit| self.per_chat_second.unwrap_or(limit));
            pace.per_group_minute = pace.per_group_minute.map(|limit| self.per_group_minute.unwrap_or(limit));
        }
        limits
    }
}

/// Reads a key, which makes it known, and returns its value where it was given.
fn read_if_given<T>(reader: &mut Reader<'_>, key: &str, read: impl FnOnce(&mut Reader<'_>, &str) -> T) -> Option<T> {
    let value = read(reader, key);
    reader.is_given(key).then_some(value)
}

fn length(reader: &mut Reader<'_>, key: &str, max: usize) -> usize {
    usize::try_from(reader.count(key, count(max), SHORTEST..=MOST)).unwrap_or(max)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(MOST)
}

#[cfg(test)]
mod tests {
    use satchel_domain::capabilities::{PhotoRule, RateLimits, TextLimit};
    use satchel_routing::tables;

    use std::path::Path;

    use super::*;
    use crate::config::{Config, Sources, load_text};

    fn load(yaml: &str) -> Config {
        let sources = Sources { file: None, set: &[], environment: &[], cwd: Path::new("") };
        load_text(Path::new("satchel.yaml"), yaml, &sources).unwrap().ready().unwrap()
    }

    #[test]
    fn what_is_not_given_is_as_the_table_says() {
        let config = load("");
        assert_eq!(config.telegram.limits, tables::telegram());
        assert_eq!(config.discord.limits, tables::discord());
        let own_server = "telegram: { api_url: 'http://localhost:8081', local_files: files }\n";
        assert_eq!(load(own_server).telegram.limits, tables::telegram_local_server());
        assert_eq!(config.telegram.own_server_limits, tables::telegram_local_server());
    }

    #[test]
    fn each_limit_can_be_given() {
        let yaml = "telegram:\n  limits: { text: 8192, caption: 2048, file_bytes: 4GB, photo_bytes: 20MB, \
                    files_together: 20, per_second: 60, per_chat_second: 2, per_group_minute: 40 }\n\
                    discord:\n  limits: { text: 4000, caption: 512, file_bytes: 25MiB, request_bytes: 50MiB, \
                    files_together: 5, per_second: 10 }\n";
        let config = load(yaml);
        let (telegram, usual) = (config.telegram.limits.clone(), tables::telegram());
        let expected = ChannelCapabilities {
            text: TextLimit { max: Some(8_192), ..usual.text },
            caption: CaptionRule::Caption { max: 2_048 },
            file_bytes: 4_000_000_000,
            photo: usual.photo.map(|photo| PhotoRule { max_bytes: 20_000_000, ..photo }),
            grouping: GroupingRule::Albums { max: 20 },
            rate_limits: usual.rate_limits.map(|pace| RateLimits {
                per_second: Some(60),
                per_conversation_second: Some(2),
                per_group_minute: Some(40),
                ..pace
            }),
            ..usual
        };
        assert_eq!(telegram, expected);
        let (discord, usual) = (config.discord.limits.clone(), tables::discord());
        let expected = ChannelCapabilities {
            text: TextLimit { max: Some(4_000), ..usual.text },
            caption: CaptionRule::AltText { max: 512 },
            file_bytes: 25 << 20,
            request_bytes: Some(50 << 20),
            grouping: GroupingRule::Messages { max: 5, with_text: true },
            rate_limits: usual.rate_limits.map(|pace| RateLimits { per_second: Some(10), ..pace }),
            ..usual
        };
        assert_eq!(discord, expected);
    }
}
