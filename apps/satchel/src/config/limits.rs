//! What a platform takes and how fast, as an operator may have changed it: `telegram.limits` and `discord.limits`.
//!
//! Platforms change their limits now and then, and a server of one's own has others.

use satchel_domain::{
    ChannelCapabilities,
    capabilities::{CaptionRule, Pace, PhotoRule, Together},
};

use super::reader::Reader;

/// The longest text or caption, and the most messages in a time, that anybody may set.
const MOST: u32 = 1_000_000;

/// The most files of one message.
const MOST_TOGETHER: u32 = 100;

/// The shortest text or caption: less holds neither a label nor a notice.
const SHORTEST: u32 = 100;

/// Reads what differs from a platform's table; a limit that the table doesn't have is no key.
pub(super) fn read(reader: &mut Reader<'_>, platform: &str, table: ChannelCapabilities) -> ChannelCapabilities {
    let key = |name: &str| format!("{platform}.limits.{name}");
    let mut limits = table;
    if let Some(max) = &mut limits.text.max {
        *max = length(reader, &key("text"), *max);
    }
    if let CaptionRule::Caption { max } | CaptionRule::AltText { max } = &mut limits.caption {
        *max = length(reader, &key("caption"), *max);
    }
    limits.file_bytes = reader.size(&key("file_bytes"), limits.file_bytes);
    if let Some(request) = &mut limits.request_bytes {
        *request = reader.size(&key("request_bytes"), *request);
    }
    if let Some(PhotoRule { max_bytes, .. }) = &mut limits.photo {
        *max_bytes = reader.size(&key("photo_bytes"), *max_bytes);
    }
    if let Together::Albums { max } | Together::Messages { max, .. } = &mut limits.together {
        let files = reader.count(&key("files_together"), count(*max), 2..=MOST_TOGETHER);
        *max = usize::try_from(files).unwrap_or(*max);
    }
    if let Some(Pace { per_second, per_conversation_second, per_group_minute, .. }) = &mut limits.pace {
        for (name, limit) in [
            ("per_second", per_second),
            ("per_chat_second", per_conversation_second),
            ("per_group_minute", per_group_minute),
        ] {
            *limit = limit.map(|limit| reader.count(&key(name), limit, 1..=MOST));
        }
    }
    limits
}

fn length(reader: &mut Reader<'_>, key: &str, max: usize) -> usize {
    usize::try_from(reader.count(key, count(max), SHORTEST..=MOST)).unwrap_or(max)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(MOST)
}

#[cfg(test)]
mod tests {
    use satchel_domain::capabilities::TextLimit;
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
            together: Together::Albums { max: 20 },
            pace: usual.pace.map(|pace| Pace {
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
            together: Together::Messages { max: 5, with_text: true },
            pace: usual.pace.map(|pace| Pace { per_second: Some(10), ..pace }),
            ..usual
        };
        assert_eq!(discord, expected);
    }
}
