//! The numbers that the Bot API enforces, each with the section of its manual that states it.

use std::{ops::RangeInclusive, path::PathBuf};

/// What is allowed; every number may be changed before the fake is started.
#[derive(Debug, Clone, PartialEq)]
pub struct TelegramRules {
    /// The longest text in UTF-16 units, after entities parsing.
    pub text_units: usize,
    /// The longest caption in UTF-16 units, after entities parsing.
    pub caption_units: usize,
    /// How many entities a message keeps; the rest is dropped without a word.
    pub entities: usize,
    /// The largest photo in bytes.
    pub photo_bytes: u64,
    /// The largest sum of a photo's sides.
    pub photo_side_sum: u64,
    /// The largest ratio of a photo's sides.
    pub photo_ratio: u64,
    /// The largest request with files.
    pub upload_bytes: u64,
    /// The largest file that `getFile` gives.
    pub download_bytes: Option<u64>,
    /// How many items an album has.
    pub album: RangeInclusive<usize>,
    /// How many bytes a button's `callback_data` has.
    pub callback_data_bytes: RangeInclusive<usize>,
    /// Whether the server knows rich messages, as all do since Bot API 10.1. An older one has no `sendRichMessage`, and
    /// passes over `rich_message` in `editMessageText`.
    pub knows_rich_messages: bool,
    /// How fast a bot may send; `None` is as fast as it can.
    pub pace: Option<TelegramRates>,
    /// A Bot API server of one's own, started with `--local`: where it keeps its files.
    pub local_files: Option<PathBuf>,
    /// Whether the server has `sendMessageDraft`; one of an older Bot API doesn't.
    pub has_drafts: bool,
    /// Whether a connection carries one request after the other, as Telegram's do. Faults that close the gate want one
    /// request a connection, so that they meet the next request and no other.
    pub keeps_connections: bool,
}

/// How fast a bot may send and edit (Bots FAQ, "My bot is hitting limits, how do I avoid this?").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TelegramRates {
    /// Messages a second in all chats together.
    pub per_second: u32,
    /// How many messages of one chat may come at once; then one a second is allowed.
    pub chat_burst: u32,
    /// Messages in any minute of one group.
    pub per_group_minute: u32,
}

impl Default for TelegramRules {
    /// The limits of Telegram's own server, and no pace.
    fn default() -> Self {
        Self {
            text_units: 4096,                       // sendMessage: text, "1-4096 characters after entities parsing"
            caption_units: 1024,                    // sendPhoto: caption, "0-1024 characters after entities parsing"
            entities: 100,                          // Telegram Limits: "formatting entities … 100 per message"
            photo_bytes: 10 * 1024 * 1024,          // Sending files: "10 MB max size for photos"
            photo_side_sum: 10_000,                 // sendPhoto: "width and height must not exceed 10000 in total"
            photo_ratio: 20,                        // sendPhoto: "width and height ratio must be at most 20"
            upload_bytes: 50 * 1024 * 1024,         // Sending files: "50 MB for other files"
            download_bytes: Some(20 * 1024 * 1024), // getFile: "files of up to 20MB in size"
            album: 2..=10,                          // sendMediaGroup: media, "must include 2-10 items"
            callback_data_bytes: 1..=64,            // InlineKeyboardButton: callback_data, "1-64 bytes"
            knows_rich_messages: true,
            pace: None,
            local_files: None,
            has_drafts: true,
            keeps_connections: false,
        }
    }
}

impl Default for TelegramRates {
    /// Bots FAQ: "about 30 messages per second", "no more than one message per second" in one chat with "short
    /// bursts", "20 messages per minute to the same group".
    fn default() -> Self {
        Self { per_second: 30, chat_burst: 3, per_group_minute: 20 }
    }
}

impl TelegramRules {
    /// The same with Telegram's pace.
    #[must_use]
    pub fn paced(self) -> Self {
        Self { pace: Some(TelegramRates::default()), ..self }
    }

    /// The same on a server of an older Bot API (Bot API Changelog: 9.3 of December 31, 2025 added `sendMessageDraft`).
    #[must_use]
    pub fn without_drafts(self) -> Self {
        Self { has_drafts: false, ..self }
    }

    /// A Bot API server of one's own with `--local`, which keeps its files in this directory (Bot API, Using a Local
    /// Bot API Server: "download files without a size limit", "upload files up to 2000 MB", "receive the absolute
    /// local path as a value of the file_path field").
    #[must_use]
    pub fn local(files: PathBuf) -> Self {
        Self { upload_bytes: 2000 * 1024 * 1024, download_bytes: None, local_files: Some(files), ..Self::default() }
    }
}
