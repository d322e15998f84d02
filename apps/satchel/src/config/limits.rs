//! The operator's changes to a platform's limits: `telegram.limits` and `discord.limits`.
//!
//! Platforms change their limits now and then, and a server of one's own has others. The defaults are those of the
//! platform's capability table, in the schema and in `config show`, too.

use satchel_domain::{
    ChannelCapabilities,
    capabilities::{CaptionRule, GroupingRule},
};
use satchel_routing::tables;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::leaf::amount::{Count, Size};

/// The length of a text or caption: less than 100 has no space for a label or a notice.
type TextLength = Count<100, 1_000_000>;

/// Messages per unit of time.
type Rate = Count<1, 1_000_000>;

/// The number of files in one message.
type GroupSize = Count<2, 100>;

/// What Telegram takes and how fast, should it have changed that.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(transform = telegram_defaults)]
pub(super) struct TelegramLimits {
    /// The longest message, in UTF-16 code units.
    text: Option<TextLength>,
    /// The longest caption, in UTF-16 code units.
    caption: Option<TextLength>,
    /// The largest file; 2000MB with `telegram.local_files`.
    file_bytes: Option<Size>,
    /// The largest photo; a larger one is sent as a document.
    photo_bytes: Option<Size>,
    /// The most files of one album.
    files_together: Option<GroupSize>,
    /// Messages a second, in all chats together.
    per_second: Option<Rate>,
    /// Messages a second in one chat.
    per_chat_second: Option<Rate>,
    /// Messages a minute in one group.
    per_group_minute: Option<Rate>,
}

/// What Discord takes and how fast, should it have changed that.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(transform = discord_defaults)]
pub(super) struct DiscordLimits {
    /// The longest message, in UTF-16 code units.
    text: Option<TextLength>,
    /// The longest alternative text of a file, in UTF-16 code units.
    caption: Option<TextLength>,
    /// The largest file where nobody has boosted the server.
    file_bytes: Option<Size>,
    /// The most bytes of files in one message.
    request_bytes: Option<Size>,
    /// The most files of one message.
    files_together: Option<GroupSize>,
    /// Requests a second.
    per_second: Option<Rate>,
}

impl TelegramLimits {
    /// The limits of a table.
    pub(super) fn from_capabilities(table: &ChannelCapabilities) -> Self {
        let rates = table.rate_limits.as_ref();
        Self {
            text: table.text.max.map(Count::from_len),
            caption: caption_limit(table).map(Count::from_len),
            file_bytes: Some(Size(table.file_bytes)),
            photo_bytes: table.photo.as_ref().map(|photo| Size(photo.max_bytes)),
            files_together: group_limit(table).map(Count::from_len),
            per_second: rates.and_then(|rates| rates.per_second).map(Count),
            per_chat_second: rates.and_then(|rates| rates.per_conversation_second).map(Count),
            per_group_minute: rates.and_then(|rates| rates.per_group_minute).map(Count),
        }
    }

    /// Returns the table with what is set in its place.
    pub(super) fn apply(&self, table: ChannelCapabilities) -> ChannelCapabilities {
        let mut limits = table;
        set_lengths(&mut limits, self.text, self.caption, self.files_together);
        limits.file_bytes = self.file_bytes.map_or(limits.file_bytes, |size| size.0);
        if let (Some(photo), Some(size)) = (&mut limits.photo, self.photo_bytes) {
            photo.max_bytes = size.0;
        }
        if let Some(rates) = &mut limits.rate_limits {
            let limit_or_default = |set: Option<Rate>, default: Option<u32>| set.map(|rate| rate.0).or(default);
            rates.per_second = limit_or_default(self.per_second, rates.per_second);
            rates.per_conversation_second = limit_or_default(self.per_chat_second, rates.per_conversation_second);
            rates.per_group_minute = limit_or_default(self.per_group_minute, rates.per_group_minute);
        }
        limits
    }
}

impl DiscordLimits {
    /// The limits of a table.
    fn from_capabilities(table: &ChannelCapabilities) -> Self {
        Self {
            text: table.text.max.map(Count::from_len),
            caption: caption_limit(table).map(Count::from_len),
            file_bytes: Some(Size(table.file_bytes)),
            request_bytes: table.request_bytes.map(Size),
            files_together: group_limit(table).map(Count::from_len),
            per_second: table.rate_limits.as_ref().and_then(|rates| rates.per_second).map(Count),
        }
    }

    /// Returns the table with what is set in its place.
    pub(super) fn apply(&self, table: ChannelCapabilities) -> ChannelCapabilities {
        let mut limits = table;
        set_lengths(&mut limits, self.text, self.caption, self.files_together);
        limits.file_bytes = self.file_bytes.map_or(limits.file_bytes, |size| size.0);
        limits.request_bytes = self.request_bytes.map(|size| size.0).or(limits.request_bytes);
        if let (Some(rates), Some(rate)) = (&mut limits.rate_limits, self.per_second) {
            rates.per_second = Some(rate.0);
        }
        limits
    }
}

fn telegram_defaults(schema: &mut Schema) {
    set_defaults(schema, serde_json::to_value(TelegramLimits::from_capabilities(&tables::telegram())));
}

fn discord_defaults(schema: &mut Schema) {
    set_defaults(schema, serde_json::to_value(DiscordLimits::from_capabilities(&tables::discord())));
}

fn set_defaults(schema: &mut Schema, defaults: serde_json::Result<Json>) {
    for (name, default) in defaults.expect("limits are numbers and texts").as_object().into_iter().flatten() {
        if let Some(property) = schema.pointer_mut(&format!("/properties/{name}")) {
            property["default"] = default.clone();
        }
    }
}

fn caption_limit(table: &ChannelCapabilities) -> Option<usize> {
    match table.caption {
        CaptionRule::Caption { max } | CaptionRule::AltText { max } => Some(max),
        _ => None,
    }
}

fn group_limit(table: &ChannelCapabilities) -> Option<usize> {
    match table.grouping {
        GroupingRule::Albums { max } | GroupingRule::Messages { max, .. } => Some(max),
        _ => None,
    }
}

fn set_lengths(
    limits: &mut ChannelCapabilities,
    text: Option<TextLength>,
    caption: Option<TextLength>,
    files: Option<GroupSize>,
) {
    if let Some(length) = text {
        limits.text.max = Some(length.as_usize());
    }
    if let (CaptionRule::Caption { max } | CaptionRule::AltText { max }, Some(length)) = (&mut limits.caption, caption)
    {
        *max = length.as_usize();
    }
    if let (GroupingRule::Albums { max } | GroupingRule::Messages { max, .. }, Some(files)) =
        (&mut limits.grouping, files)
    {
        *max = files.as_usize();
    }
}

#[cfg(test)]
mod tests {
    use satchel_domain::capabilities::{PhotoRule, RateLimits, TextLimit};
    use satchel_routing::tables;

    use std::path::Path;

    use super::*;
    use crate::config::{Config, ConfigSources, load_text};

    fn load(yaml: &str) -> Config {
        let sources = ConfigSources { file: None, set: &[], environment: &[], cwd: Path::new("") };
        load_text(Path::new("satchel.yaml"), yaml, &sources).unwrap().into_config().unwrap()
    }

    #[test]
    fn missing_limits_default_to_capability_tables() {
        let config = load("");
        assert_eq!(config.telegram.limits(), tables::telegram());
        assert_eq!(config.discord.limits(), tables::discord());
        let own_server = "telegram: { api_url: 'http://localhost:8081', local_files: files }\n";
        assert_eq!(load(own_server).telegram.limits(), tables::telegram_local_server());
        assert_eq!(config.telegram.own_server_limits(), tables::telegram_local_server());
    }

    #[test]
    fn each_limit_can_be_given() {
        let yaml = "telegram:\n  limits: { text: 8192, caption: 2048, file_bytes: 4GB, photo_bytes: 20MB, \
                    files_together: 20, per_second: 60, per_chat_second: 2, per_group_minute: 40 }\n\
                    discord:\n  limits: { text: 4000, caption: 512, file_bytes: 25MiB, request_bytes: 50MiB, \
                    files_together: 5, per_second: 10 }\n";
        let config = load(yaml);
        let (telegram, usual) = (config.telegram.limits(), tables::telegram());
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
        let (discord, usual) = (config.discord.limits(), tables::discord());
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
