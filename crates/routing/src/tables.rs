//! The capabilities of each channel: the platforms' rules as rows of numbers.

use satchel_domain::capabilities::{
    BlockOffer, BlockRule, CaptionRule, ChannelCapabilities, GroupingRule, Idempotency, LookupRule, PhotoRule,
    RateLimits, ReplyRule, StreamRule, TextLimit, TextUnit, VoiceRule,
};

/// One megabyte as Telegram counts it.
const MB: u64 = 1_000_000;
/// One mebibyte as Discord counts it.
const MIB: u64 = 1 << 20;
/// The bytes reserved in a Discord request besides its files: text, names and form. All of it
/// counts against the request's limit; the fullest message has less than this.
const DISCORD_FORM_BYTES: u64 = 128 << 10;

/// Telegram through the public Bot API.
#[must_use]
pub fn telegram() -> ChannelCapabilities {
    ChannelCapabilities {
        // sendMessage: 1–4096 characters after entities parsing; at most 100 entities are kept.
        text: TextLimit { unit: TextUnit::Utf16, max: Some(4096), entities: Some(100) },
        // Rich messages: 32768 characters, 500 blocks, 20 columns, 16 levels. Some apps show nothing of them.
        blocks: Some(BlockRule {
            offer: BlockOffer::Ask,
            max_chars: 32_768,
            max_blocks: 500,
            max_columns: 20,
            max_depth: 16,
        }),
        // sendPhoto and its like: a caption of 0–1024 characters after entities parsing.
        caption: CaptionRule::Caption { max: 1024 },
        // sendPhoto: at most 10 MB, width and height together at most 10000, ratio at most 20.
        photo: Some(PhotoRule { max_bytes: 10 * MB, max_side_sum: 10_000, max_ratio: 20 }),
        native_media: true,
        // Bots can send files of up to 50 MB.
        file_bytes: 50 * MB,
        request_bytes: None,
        // sendMediaGroup: 2–10 items; documents and audio only with their own kind.
        grouping: GroupingRule::Albums { max: 10 },
        // sendVoice: an OGG file encoded with Opus.
        voice: VoiceRule::Message,
        idempotency: Idempotency::None,
        // stopMessageLiveLocation tells ids of ours, of others and of nobody apart (tdlib/telegram-bot-api, Client.cpp).
        look_up: LookupRule::MessageIds,
        can_edit: true,
        replies: ReplyRule::PersonMessage,
        // A comment and the message forwarded with it are two, and so are the halves of a text that is too long for one.
        joins_messages: true,
        // Our own interval for a growing message, kind to the one message a second of a chat.
        stream: StreamRule::Edits { interval_ms: 1_100 },
        // Bots FAQ: about 30 messages a second, one a second in a chat, 20 a minute in a group.
        rate_limits: Some(RateLimits {
            per_second: Some(30),
            per_conversation_second: Some(1),
            burst: 3,
            per_group_minute: Some(20),
        }),
    }
}

/// How Telegram shows a growing reply by drafts, at our interval for edits. sendMessageDraft: "a temporary 30-second preview".
pub const TELEGRAM_DRAFTS: StreamRule = StreamRule::Previews { interval_ms: 1_100, ttl_ms: 30_000 };

/// Telegram through a Bot API server of one's own, which takes files of up to 2000 MB.
#[must_use]
pub fn telegram_local_server() -> ChannelCapabilities {
    ChannelCapabilities { file_bytes: 2_000 * MB, ..telegram() }
}

/// Discord where the guild's own limits aren't known.
#[must_use]
pub fn discord() -> ChannelCapabilities {
    ChannelCapabilities {
        // Create Message: content of up to 2000 characters, its Markdown included; UTF-16 is the stricter reading.
        text: TextLimit { unit: TextUnit::Utf16Source, max: Some(2000), entities: None },
        blocks: None,
        // An attachment's description: up to 1024 characters.
        caption: CaptionRule::AltText { max: 1024 },
        photo: None,
        native_media: false,
        // Uploading Files: 10 MiB by default; a boosted guild's limit is put in by the adapter.
        file_bytes: 10 * MIB,
        // Create Message: 25 MiB for a request, of which its files are a part.
        request_bytes: Some(25 * MIB - DISCORD_FORM_BYTES),
        // Create Message: up to 10 attachments.
        grouping: GroupingRule::Messages { max: 10, with_text: true },
        // Voice Messages: flag 8192, one OGG/Opus file alone.
        voice: VoiceRule::Message,
        // Create Message, enforce_nonce: unique "in the past few minutes"; three are on the safe side.
        idempotency: Idempotency::Key { window_ms: Some(3 * 60 * 1_000) },
        look_up: LookupRule::History,
        can_edit: true,
        replies: ReplyRule::Chain,
        // As on Telegram: a forward has no room for words of one's own, and a long text is sent in parts.
        joins_messages: true,
        stream: StreamRule::Edits { interval_ms: 1_100 },
        // Global Rate Limit: 50 requests a second; the buckets of each route come from the headers.
        rate_limits: Some(RateLimits {
            per_second: Some(50),
            per_conversation_second: None,
            burst: 1,
            per_group_minute: None,
        }),
    }
}

/// The web page: files of 2 GiB, any number of them in the message of their text, voice messages and edits. A part that
/// is sent again makes no second message.
#[must_use]
pub fn web() -> ChannelCapabilities {
    ChannelCapabilities {
        text: TextLimit { unit: TextUnit::Chars, max: None, entities: None },
        // The page shows Markdown with tables as it is.
        blocks: None,
        caption: CaptionRule::Hidden,
        photo: None,
        native_media: false,
        // Our own limit: what a browser downloads without trouble.
        file_bytes: 2_048 * MIB,
        request_bytes: None,
        // Any number of files stand under one text.
        grouping: GroupingRule::Messages { max: usize::MAX, with_text: true },
        voice: VoiceRule::Message,
        // The page knows a part by its id for ever.
        idempotency: Idempotency::Key { window_ms: None },
        look_up: LookupRule::None,
        can_edit: true,
        replies: ReplyRule::PersonMessage,
        // The page holds text and files of any length in one message, which a person sends when it is complete.
        joins_messages: false,
        stream: StreamRule::Deltas,
        rate_limits: None,
    }
}

/// The terminal.
#[must_use]
pub fn console() -> ChannelCapabilities {
    ChannelCapabilities {
        grouping: GroupingRule::Never,
        voice: VoiceRule::AudioFile,
        // What is printed can't be taken back, so a repeat is seen twice.
        idempotency: Idempotency::None,
        can_edit: false,
        ..web()
    }
}

/// Programs on NATS: each text and each file is an event of its own. JetStream stores a part that is sent again once.
#[must_use]
pub fn nats() -> ChannelCapabilities {
    ChannelCapabilities {
        // A message of 1 MiB, the server's default, holds so many characters however they are escaped.
        text: TextLimit { unit: TextUnit::Chars, max: Some(100_000), entities: None },
        grouping: GroupingRule::Never,
        voice: VoiceRule::AudioFile,
        // The stream's window for duplicates, less the time of a slow request.
        idempotency: Idempotency::Key { window_ms: Some(55 * 60 * 1_000) },
        can_edit: false,
        ..web()
    }
}

/// The table of the channel of this name; `telegram-local` is Telegram with a server of one's own.
#[must_use]
pub fn by_name(name: &str) -> Option<ChannelCapabilities> {
    match name {
        "telegram" => Some(telegram()),
        "telegram-local" => Some(telegram_local_server()),
        "discord" => Some(discord()),
        "web" => Some(web()),
        "console" => Some(console()),
        "nats" => Some(nats()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_hold_the_documented_numbers() {
        for (name, text, file_bytes, request_bytes, interval) in [
            ("telegram", Some(4096), 50_000_000, None, StreamRule::Edits { interval_ms: 1_100 }),
            ("telegram-local", Some(4096), 2_000_000_000, None, StreamRule::Edits { interval_ms: 1_100 }),
            ("discord", Some(2000), 10_485_760, Some(26_083_328), StreamRule::Edits { interval_ms: 1_100 }),
            ("web", None, 2_147_483_648, None, StreamRule::Deltas),
            ("console", None, 2_147_483_648, None, StreamRule::Deltas),
        ] {
            let table = by_name(name).expect("a table of this name");
            assert_eq!(table.text.max, text, "{name}");
            assert_eq!(table.file_bytes, file_bytes, "{name}");
            assert_eq!(table.request_bytes, request_bytes, "{name}");
            assert_eq!(table.stream, interval, "{name}");
        }
        assert_eq!(by_name("fax"), None);
        let photo = PhotoRule { max_bytes: 10_000_000, max_side_sum: 10_000, max_ratio: 20 };
        assert_eq!(telegram().photo, Some(photo));
        assert_eq!(telegram().caption, CaptionRule::Caption { max: 1024 });
        assert_eq!(telegram().grouping, GroupingRule::Albums { max: 10 });
        assert_eq!(discord().grouping, GroupingRule::Messages { max: 10, with_text: true });
        assert_eq!(telegram().text.entities, Some(100));
        assert_eq!(TELEGRAM_DRAFTS, StreamRule::Previews { interval_ms: 1_100, ttl_ms: 30_000 });
    }

    #[test]
    fn only_channels_that_know_a_repeat_say_so() {
        use std::time::Duration;
        let minute = Duration::from_secs(60);
        for (name, soon, next_day) in
            [("telegram", false, false), ("discord", true, false), ("web", true, true), ("console", false, false)]
        {
            let idempotency = by_name(name).expect("a table of this name").idempotency;
            assert_eq!(idempotency.covers(minute), soon, "{name}");
            assert_eq!(idempotency.covers(minute * 60 * 24), next_day, "{name}");
        }
    }
}
