//! What a channel can do, as plain data: differences between platforms are rows here and nowhere an `if telegram`.
//!
//! Operators can override the limits, because platforms change theirs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::delivery::PreviewRule;

/// The unit in which a channel measures text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextUnit {
    /// UTF-16 code units of the visible text, tags not counted.
    Utf16,
    /// UTF-16 code units of the Markdown itself, markers included: where the platform renders it.
    Utf16Source,
    /// Unicode scalar values of the visible text.
    Chars,
}

/// How long a text may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextLimit {
    /// What is counted.
    pub unit: TextUnit,
    /// How many of them one message holds; `None` for no limit.
    pub max: Option<usize>,
    /// How many formatted spans one message holds; `None` for no limit.
    pub entities: Option<usize>,
}

/// When texts are shown in a channel's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockOffer {
    /// Never.
    Never,
    /// Once a person has said that they can read them.
    Ask,
    /// Unless a person has said that they can't read them.
    Auto,
}

impl BlockOffer {
    /// What it is in a conversation for which a person has chosen, or hasn't.
    #[must_use]
    pub fn chosen(self, choice: Option<bool>) -> Self {
        match (self, choice) {
            (Self::Never, _) | (_, Some(false)) => Self::Never,
            (_, Some(true)) => Self::Auto,
            (offer, None) => offer,
        }
    }
}

/// Texts in blocks of the channel's own: headings, tables, lists, quotations, code and formulas. Not all apps of people show
/// them, and no channel says which do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRule {
    /// When texts are shown so.
    pub offer: BlockOffer,
    /// The most characters of a message, the source of formulas included.
    pub max_chars: usize,
    /// The most blocks of a message: those within others, items of lists and rows of tables included.
    pub max_blocks: usize,
    /// The most columns of a table.
    pub max_columns: usize,
    /// The deepest nesting of blocks and formatting.
    pub max_depth: usize,
}

/// What becomes of a file's description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptionRule {
    /// It stands under the file; one that is longer becomes a text before the file.
    Caption {
        /// The longest caption, in the channel's text unit.
        max: usize,
    },
    /// It is the file's alternative text, cut where it is too long.
    AltText {
        /// The longest alternative text, in the channel's text unit.
        max: usize,
    },
    /// It isn't shown.
    Hidden,
}

/// What may be sent as a photo; everything else that is an image goes as a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhotoRule {
    /// The largest photo in bytes.
    pub max_bytes: u64,
    /// The largest sum of width and height in pixels.
    pub max_side_sum: u32,
    /// The largest ratio of the longer side to the shorter.
    pub max_ratio: u32,
}

/// Which files may share one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupingRule {
    /// Each file is its own message.
    Never,
    /// Two to `max` neighbours of a kind: photos and videos mix, documents and audio keep to themselves, voice and
    /// animations stand alone.
    Albums {
        /// The largest album.
        max: usize,
    },
    /// Up to `max` neighbours of any kind, `request_bytes` obeyed.
    Messages {
        /// The most files on one message.
        max: usize,
        /// Whether the files of a reply ride on its text when that is one chunk and no voice is requested.
        with_text: bool,
    },
}

/// How a voice is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VoiceRule {
    /// A voice message of its own: OGG/Opus with duration and, where the platform takes it, a waveform.
    Message,
    /// An audio file of its own.
    AudioFile,
}

/// What keeps a repeated send from arriving twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Idempotency {
    /// Nothing: what is sent again arrives again.
    None,
    /// The part's id: within the window after the first attempt the same id is the same message.
    Key {
        /// How long the platform remembers the key, in milliseconds; `None` for ever.
        window_ms: Option<u64>,
    },
}

/// How a send that was left in doubt can be looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookupRule {
    /// Not at all.
    None,
    /// In the channel's history: a single match is certain, anything else says nothing.
    History,
    /// By asking for message ids one by one: the absence of a message can be certain, too.
    MessageIds,
}

/// How a growing reply is shown while the model writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamRule {
    /// By editing one message, no more often than this.
    Edits {
        /// The least time between two edits, in milliseconds.
        interval_ms: u64,
    },
    /// By previews, which are no messages and vanish by themselves; by edits of one message where a preview would vanish too
    /// early.
    Previews {
        /// The least time between two previews or edits, in milliseconds.
        interval_ms: u64,
        /// How long a preview is seen, in milliseconds.
        ttl_ms: u64,
    },
    /// By the bus's text deltas, which the channel shows itself.
    Deltas,
    /// Not at all.
    None,
}

/// Which message each message of a reply refers to, as the platform shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyRule {
    /// All of them the person's. Stored as `question`.
    #[serde(rename = "question")]
    PersonMessage,
    /// The first one the person's; files and voices after it the reply's last message before them; texts none.
    Chain,
}

/// How fast a channel may be sent to; edits count as sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimits {
    /// Sends a second, all conversations together.
    pub per_second: Option<u32>,
    /// Sends a second in one conversation.
    pub per_conversation_second: Option<u32>,
    /// How many of these may come at once.
    pub burst: u32,
    /// Sends a minute in one group.
    pub per_group_minute: Option<u32>,
}

/// What a channel can do in one conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChannelCapabilities {
    /// How long a text may be.
    pub text: TextLimit,
    /// Texts in blocks; `None` where the channel has none.
    #[serde(default)]
    pub blocks: Option<BlockRule>,
    /// What becomes of descriptions.
    pub caption: CaptionRule,
    /// What goes as a photo; `None` where images are files like any other.
    pub photo: Option<PhotoRule>,
    /// Whether video, audio and animations have messages of their own kind.
    pub native_media: bool,
    /// The largest file in bytes.
    pub file_bytes: u64,
    /// The largest request in bytes, all its files together; `None` where only files are limited.
    pub request_bytes: Option<u64>,
    /// Which files share a message.
    #[serde(rename = "together")]
    pub grouping: GroupingRule,
    /// How a voice is sent.
    pub voice: VoiceRule,
    /// What keeps a repeat from arriving twice.
    pub idempotency: Idempotency,
    /// How a doubtful send can be looked for.
    pub look_up: LookupRule,
    /// Whether a message that was sent can be changed.
    pub can_edit: bool,
    /// Which message each message of a reply answers.
    pub replies: ReplyRule,
    /// Whether what people mean as one message comes as several, such as a comment and what is forwarded with it: then what a
    /// person sends in quick succession is one message.
    pub joins_messages: bool,
    /// How a growing reply is shown.
    pub stream: StreamRule,
    /// The platform's rate limits; `None` for none.
    #[serde(rename = "pace")]
    pub rate_limits: Option<RateLimits>,
}

impl ChannelCapabilities {
    /// The same for a conversation for which a person has chosen whether texts are shown in blocks, or hasn't.
    #[must_use]
    pub fn with_block_choice(mut self, choice: Option<bool>) -> Self {
        if let Some(rule) = &mut self.blocks {
            rule.offer = rule.offer.chosen(choice);
        }
        self
    }
}

impl StreamRule {
    /// Returns the least time between two edits of a growing message; `None` where none grows.
    #[must_use]
    pub fn edit_interval(self) -> Option<Duration> {
        match self {
            Self::Edits { interval_ms } | Self::Previews { interval_ms, .. } => {
                Some(Duration::from_millis(interval_ms))
            }
            Self::Deltas | Self::None => None,
        }
    }

    /// Returns how previews are shown; `None` where there are none.
    #[must_use]
    pub fn preview_rule(self) -> Option<PreviewRule> {
        match self {
            Self::Previews { interval_ms, ttl_ms } => {
                Some(PreviewRule { interval: Duration::from_millis(interval_ms), ttl: Duration::from_millis(ttl_ms) })
            }
            Self::Edits { .. } | Self::Deltas | Self::None => None,
        }
    }
}

impl Idempotency {
    /// Whether a repeat `elapsed` after the first attempt is still recognised as the same send.
    #[must_use]
    pub fn covers(self, elapsed: Duration) -> bool {
        match self {
            Self::None => false,
            Self::Key { window_ms: None } => true,
            Self::Key { window_ms: Some(window) } => elapsed < Duration::from_millis(window),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_persons_choice_counts_unless_blocks_are_off() {
        for (offer, choice, expected) in [
            (BlockOffer::Ask, None, BlockOffer::Ask),
            (BlockOffer::Ask, Some(true), BlockOffer::Auto),
            (BlockOffer::Ask, Some(false), BlockOffer::Never),
            (BlockOffer::Auto, None, BlockOffer::Auto),
            (BlockOffer::Auto, Some(false), BlockOffer::Never),
            (BlockOffer::Never, Some(true), BlockOffer::Never),
        ] {
            assert_eq!(offer.chosen(choice), expected, "{offer:?} {choice:?}");
        }
    }
}
