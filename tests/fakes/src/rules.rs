//! What the platforms refuse, as numbers and pure checks; each rule names the document that it comes from.
//!
//! "Bot API" is Telegram's Bot API manual, "Discord" is Discord's developer documentation; the numbers are those of
//! the table in the project's delivery specification. Both are stated by their section, since their pages move.

use std::time::Duration;

use pulldown_cmark::{Event, Parser};
use satchel_domain::{
    ChannelCapabilities,
    capabilities::{
        CaptionRule, GroupingRule, Idempotency, LookupRule, PhotoRule, ReplyRule, StreamRule, TextLimit, TextUnit,
        VoiceRule,
    },
    part::{FileForm, Markup},
};

use crate::{
    transcript::MessageKind,
    wire::{Outgoing, Why, WireError},
};

/// Which platform is imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FakeMode {
    /// No idempotency, no history, albums, captions, kinds of media.
    TelegramLike,
    /// Nonces that are remembered for a while, history, bundles of files, alternative texts.
    DiscordLike,
}

/// The numbers that the platform enforces; every one may be changed before it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformRules {
    /// Which platform is imitated.
    pub mode: FakeMode,
    /// The longest text in UTF-16 units.
    pub text_units: usize,
    /// The longest caption or alternative text in UTF-16 units.
    pub caption_units: usize,
    /// The largest photo in bytes; Telegram only.
    pub photo_bytes: u64,
    /// The largest sum of a photo's sides; Telegram only.
    pub photo_side_sum: usize,
    /// The largest ratio of a photo's sides; Telegram only.
    pub photo_ratio: usize,
    /// The largest file in bytes.
    pub file_bytes: u64,
    /// The largest sum of a request's files in bytes; Discord only.
    pub request_bytes: Option<u64>,
    /// The most files in one album or message.
    pub files_together: usize,
    /// The largest file that a bot may download.
    pub download_bytes: Option<u64>,
    /// How long a nonce is remembered; Discord only.
    pub nonce_window: Duration,
}

impl FakeMode {
    /// The platform's own numbers.
    #[must_use]
    pub fn rules(self) -> PlatformRules {
        match self {
            Self::TelegramLike => PlatformRules {
                mode: self,
                text_units: 4096, // Bot API, sendMessage: text, "1-4096 characters after entities parsing"
                caption_units: 1024, // Bot API, sendPhoto: caption, "0-1024 characters after entities parsing"
                photo_bytes: 10 * 1024 * 1024, // Bot API, Sending files: "10 MB max size for photos"
                photo_side_sum: 10_000, // Bot API, sendPhoto: "width and height must not exceed 10000 in total"
                photo_ratio: 20,  // Bot API, sendPhoto: "width and height ratio must be at most 20"
                file_bytes: 50 * 1024 * 1024, // Bot API, Sending files: "50 MB for other files"
                request_bytes: None,
                files_together: 10, // Bot API, sendMediaGroup: media, "must include 2-10 items"
                download_bytes: Some(20 * 1024 * 1024), // Bot API, getFile: "up to 20MB in size"
                nonce_window: Duration::ZERO,
            },
            Self::DiscordLike => PlatformRules {
                mode: self,
                text_units: 2000,    // Discord, Create Message: content, "up to 2000 characters"
                caption_units: 1024, // Discord, Attachment Object: description, "max 1024 characters"
                photo_bytes: u64::MAX,
                photo_side_sum: usize::MAX,
                photo_ratio: usize::MAX,
                file_bytes: 10 * 1024 * 1024, // Discord, Uploading Files: "10 MiB" by default
                request_bytes: Some(25 * 1024 * 1024), // Discord, Create Message: maximum request size 25 MiB
                files_together: 10,           // Discord, Uploading Files: ten files a message
                download_bytes: None,
                nonce_window: Duration::from_secs(3 * 60), // Discord, Create Message: enforce_nonce, "past few minutes"
            },
        }
    }
}

impl PlatformRules {
    /// The same limits as data for a planner. There is no pace, and edits may come fast, so that tests don't wait.
    #[must_use]
    pub fn capabilities(&self) -> ChannelCapabilities {
        let telegram = self.mode == FakeMode::TelegramLike;
        let window_ms = u64::try_from(self.nonce_window.as_millis()).ok();
        let photo = PhotoRule {
            max_bytes: self.photo_bytes,
            max_side_sum: u32::try_from(self.photo_side_sum).unwrap_or(u32::MAX),
            max_ratio: u32::try_from(self.photo_ratio).unwrap_or(u32::MAX),
        };
        ChannelCapabilities {
            text: TextLimit {
                // Discord counts the Markdown as it is sent, Telegram what is seen of it.
                unit: if telegram { TextUnit::Utf16 } else { TextUnit::Utf16Source },
                max: Some(self.text_units),
                entities: if telegram { Some(100) } else { None },
            },
            caption: match self.mode {
                FakeMode::TelegramLike => CaptionRule::Caption { max: self.caption_units },
                FakeMode::DiscordLike => CaptionRule::AltText { max: self.caption_units },
            },
            photo: telegram.then_some(photo),
            native_media: telegram,
            file_bytes: self.file_bytes,
            request_bytes: self.request_bytes,
            grouping: match self.mode {
                FakeMode::TelegramLike => GroupingRule::Albums { max: self.files_together },
                FakeMode::DiscordLike => GroupingRule::Messages { max: self.files_together, with_text: true },
            },
            voice: VoiceRule::Message,
            idempotency: match self.mode {
                FakeMode::TelegramLike => Idempotency::None,
                FakeMode::DiscordLike => Idempotency::Key { window_ms },
            },
            look_up: if telegram { LookupRule::None } else { LookupRule::History },
            can_edit: true,
            replies: ReplyRule::Question,
            stream: StreamRule::Edits { interval_ms: 20 },
            rate_limits: None,
        }
    }

    /// What is wrong with a message before its files are read.
    pub(crate) fn check_message(&self, message: &Outgoing) -> Result<(), WireError> {
        match self.mode {
            FakeMode::TelegramLike => self.check_telegram(message),
            FakeMode::DiscordLike => self.check_discord(message),
        }
    }

    fn check_telegram(&self, message: &Outgoing) -> Result<(), WireError> {
        let forms: Vec<FileForm> = message.files.iter().map(|file| file.form).collect();
        match message.kind {
            // Bot API, sendMessage: an empty text is refused with these words.
            MessageKind::Text if message.text.trim().is_empty() => return Err(bad("message text is empty")),
            MessageKind::Text if !forms.is_empty() => return Err(wrong_kind("a text message carries no files")),
            MessageKind::Text if visible_units(message) > self.text_units => {
                let limit = u64::try_from(self.text_units).ok();
                return Err(WireError::new(400, Why::TooLarge { limit }, "Bad Request: message is too long"));
            }
            MessageKind::Text => {}
            // Bot API: a file's own words are its caption; there is no text beside it.
            _ if !message.text.is_empty() => return Err(bad("a message with files has captions, no text")),
            MessageKind::File | MessageKind::Voice if forms.len() != 1 => return Err(wrong_kind("one file expected")),
            MessageKind::File => {}
            MessageKind::Voice if message.voice.is_none() => return Err(wrong_kind("the duration is missing")),
            MessageKind::Voice => {}
            // Bot API, sendMediaGroup: "must include 2-10 items".
            MessageKind::Album if forms.len() < 2 || forms.len() > self.files_together => {
                return Err(wrong_kind("an album has 2-10 items"));
            }
            MessageKind::Album => check_album(&forms)?,
        }
        if let Some(index) = message.files.iter().position(|file| units(&file.caption) > self.caption_units) {
            let why = if message.kind == MessageKind::Album { Why::Item { index } } else { Why::Other };
            return Err(WireError::new(400, why, "Bad Request: message caption is too long"));
        }
        Ok(())
    }

    fn check_discord(&self, message: &Outgoing) -> Result<(), WireError> {
        // Discord, JSON error codes: 50035 is "Invalid Form Body", 50006 "Cannot send an empty message".
        if units(&message.text) > self.text_units {
            let limit = u64::try_from(self.text_units).ok();
            return Err(WireError::new(
                400,
                Why::TooLarge { limit },
                "50035: content: must be 2000 or fewer in length",
            ));
        }
        if message.text.trim().is_empty() && message.files.is_empty() {
            return Err(bad("50006: cannot send an empty message"));
        }
        if message.files.len() > self.files_together {
            return Err(wrong_kind("50035: attachments: must be 10 or fewer"));
        }
        if message.files.iter().any(|file| units(&file.caption) > self.caption_units) {
            return Err(bad("50035: attachments: description: must be 1024 or fewer in length"));
        }
        // Discord, Create Message: nonce, "up to 25 characters".
        if message.nonce.as_ref().is_some_and(|nonce| nonce.chars().count() > 25) {
            return Err(bad("50035: nonce: must be 25 or fewer in length"));
        }
        if message.kind == MessageKind::Voice {
            // Discord, Voice Messages: one audio file with duration and waveform, and no other content.
            let times = message.voice.as_ref().ok_or_else(|| wrong_kind("50161: voice messages need metadata"))?;
            if message.files.len() != 1 || !message.text.is_empty() {
                return Err(wrong_kind("50160: voice messages have one file and nothing else"));
            }
            if times.waveform.is_empty() || times.waveform.len() > 256 {
                return Err(wrong_kind("50161: the waveform has 1 to 256 points"));
            }
        }
        Ok(())
    }

    /// What is wrong with a file of a message, now that its bytes are here.
    pub(crate) fn check_file(
        &self,
        message: &Outgoing,
        index: usize,
        bytes: u64,
        head: &[u8],
    ) -> Result<(), WireError> {
        if bytes > self.file_bytes {
            // Bot API answers 413; Discord 413 with code 40005, "Request entity too large".
            let why = Why::TooLarge { limit: Some(self.file_bytes) };
            return Err(WireError::new(413, why, "Request Entity Too Large"));
        }
        if message.kind == MessageKind::Voice && !head.starts_with(b"OggS") {
            // Bot API, sendVoice: "must be in an .OGG file encoded with OPUS"; Discord, Voice Messages, the same.
            return Err(wrong_kind("a voice is OGG/Opus"));
        }
        if self.mode == FakeMode::DiscordLike {
            return Ok(());
        }
        let at_fault = |description: &str| {
            let why = if message.kind == MessageKind::Album { Why::Item { index } } else { Why::WrongKind };
            WireError::new(400, why, format!("Bad Request: {description}"))
        };
        if bytes == 0 {
            // The Bot API server refuses empty uploads with these words.
            return Err(at_fault("file must be non-empty"));
        }
        if message.files[index].form != FileForm::Photo {
            return Ok(());
        }
        if bytes > self.photo_bytes {
            return Err(at_fault("file is too big for a photo"));
        }
        // Bot API, sendPhoto: the sides' sum and ratio; what is no image can't be processed.
        let size = imagesize::blob_size(head).map_err(|_| at_fault("IMAGE_PROCESS_FAILED"))?;
        let (long, short) = (size.width.max(size.height), size.width.min(size.height));
        if short == 0 || size.width + size.height > self.photo_side_sum || long > short * self.photo_ratio {
            return Err(at_fault("PHOTO_INVALID_DIMENSIONS"));
        }
        Ok(())
    }

    /// What is wrong with all files of a message together.
    pub(crate) fn check_request(&self, bytes: u64) -> Result<(), WireError> {
        match self.request_bytes {
            // Discord: 413, code 40005.
            Some(limit) if bytes > limit => {
                Err(WireError::new(413, Why::TooLarge { limit: Some(limit) }, "40005: request entity too large"))
            }
            _ => Ok(()),
        }
    }
}

/// Bot API, sendMediaGroup: "Documents and audio files can be only grouped in an album with messages of the same
/// type"; InputMedia has no voice, and animations don't mix.
fn check_album(forms: &[FileForm]) -> Result<(), WireError> {
    let visual = |form: &FileForm| matches!(form, FileForm::Photo | FileForm::Video);
    let all = |wanted: FileForm| forms.iter().all(|form| *form == wanted);
    if forms.iter().all(visual) || all(FileForm::Document) || all(FileForm::Audio) {
        return Ok(());
    }
    Err(wrong_kind("these kinds can't share an album"))
}

fn bad(description: &str) -> WireError {
    WireError::new(400, Why::Other, format!("Bad Request: {description}"))
}

fn wrong_kind(description: &str) -> WireError {
    WireError::new(400, Why::WrongKind, format!("Bad Request: {description}"))
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// What Telegram counts: the text without its markup. The fake is sent Markdown where the real adapter sends HTML.
fn visible_units(message: &Outgoing) -> usize {
    if message.markup == Markup::Plain {
        return units(&message.text);
    }
    Parser::new(&message.text)
        .map(|event| match event {
            Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => units(&text),
            Event::SoftBreak | Event::HardBreak => 1,
            _ => 0,
        })
        .sum()
}
