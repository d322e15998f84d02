//! The messages between Satchel and the decoder worker.
//!
//! A worker sends [`FromWorker::Ready`] and waits. The host sends one [`WorkerRequest`] as a line of JSON, and after it
//! exactly the bytes of the file. The worker answers with one JSON value per line, or [`FromWorker::Failed`] instead of
//! all:
//! - for [`RequestedOutput::Text`] the requested pages in their order, then [`FromWorker::Done`];
//! - for [`RequestedOutput::Image`] and [`RequestedOutput::PageImage`] one [`FromWorker::Image`], then its content in
//!   chunks;
//! - for [`RequestedOutput::Audio`] one [`FromWorker::Audio`], then the samples in chunks as they are decoded, then
//!   [`FromWorker::AudioEnd`]. [`FromWorker::Failed`] may also come between chunks;
//! - for [`RequestedOutput::Media`] one [`FromWorker::Media`].
//!
//! A worker decodes one file and exits. The host doesn't trust the worker: any other message gets it killed.

use serde::{Deserialize, Serialize};

/// The version of the protocol; a worker with another one is not used.
pub const PROTOCOL_VERSION: u32 = 3;

/// The most bytes of text that a worker takes from a document, and that one answer holds.
pub const MAX_TEXT_BYTES: usize = 8 << 20;

/// The longest line of a worker that reads text in bytes, without its end. JSON escapes quotes and line ends as two
/// bytes; other control characters never leave a worker.
pub const MAX_TEXT_LINE_BYTES: usize = 2 * MAX_TEXT_BYTES + (4 << 10);

/// The largest image that a worker makes, in bytes.
pub const MAX_IMAGE_BYTES: u64 = 32 << 20;

/// How many bytes of an image or of sound one [`FromWorker::Content`] holds at most. Only they are held twice by the host.
pub const MAX_CHUNK_BYTES: usize = 48 << 10;

/// The longest line of a worker that sends chunks in bytes, without its end. Base64 writes three bytes as four.
pub const MAX_CHUNK_LINE_BYTES: usize = MAX_CHUNK_BYTES / 3 * 4 + (4 << 10);

/// The bytes of a decoded sample: little-endian, of one channel.
pub const SAMPLE_BYTES: u64 = 2;

/// The longest line of a worker that measures media in bytes, without its end.
pub const MAX_MEDIA_LINE_BYTES: usize = 4 << 10;

/// The largest side of a video in pixels: what its formats can express.
pub const MAX_VIDEO_SIDE: u32 = u16::MAX as u32;

/// The longest duration that is believed, in milliseconds: 100 days.
pub const MAX_DURATION_MS: u64 = 100 * 24 * 60 * 60 * 1_000;

/// The longest [`WorkerRequest`] in bytes, as a line with its end.
pub const MAX_REQUEST_BYTES: usize = 4 << 10;

/// The longest message of a [`Failure`], in characters.
pub const MAX_MESSAGE_CHARS: usize = 200;

/// The option of the worker that sets its memory in bytes.
pub const MEMORY_OPTION: &str = "--memory";

/// A file to be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerRequest {
    /// Its type, as it was detected from its bytes.
    pub mime: String,
    /// How many bytes follow.
    pub bytes: u64,
    /// How many seconds of processor time the worker may use: the last limit, after the host's own clock.
    pub processor_seconds: u64,
    pub output: RequestedOutput,
}

/// What is made of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestedOutput {
    Text(TextRange),
    /// The image that the file is.
    Image(ImageBounds),
    /// A page of a document.
    PageImage(PageBounds),
    Audio(AudioBounds),
    Media,
}

/// Which pages of a document are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextRange {
    /// The first page that is wanted, from 1.
    pub first_page: u32,
    /// The last page that is wanted.
    pub last_page: u32,
    /// Where in the text of the first page to start, in bytes.
    pub offset: usize,
    /// The most bytes of text that are wanted.
    pub max_text_bytes: usize,
    /// How many pages are read at most.
    pub max_pages: u32,
}

/// How large a scaled image may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageBounds {
    /// Its longest side in pixels.
    pub max_side: u32,
    pub max_bytes: u64,
}

/// Which page is drawn, and how large its image may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageBounds {
    /// From 1.
    pub page: u32,
    pub image: ImageBounds,
}

/// How the sound of a file is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AudioBounds {
    /// The samples per second of the result.
    pub sample_rate: u32,
    /// How many samples the result has at most.
    pub max_samples: u64,
}

/// A message of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromWorker {
    /// It waits for a request.
    Ready {
        /// Its [`PROTOCOL_VERSION`].
        version: u32,
    },
    Page(PageText),
    /// All requested pages were sent.
    Done(DocumentSummary),
    /// An image was scaled; its content follows.
    Image(ImageHeader),
    /// The first samples were decoded, and are about to be sent.
    Audio,
    /// All samples were sent.
    AudioEnd {
        /// How many.
        samples: u64,
    },
    /// A file was measured.
    Media(MediaSummary),
    /// The next bytes of the image or the samples, as base64.
    Content(#[serde(with = "base64_text")] Vec<u8>),
    Failed(Failure),
}

/// The text of a page, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageText {
    /// Its number, from 1.
    pub number: u32,
    /// Where the text starts in that of the page, in bytes.
    pub offset: usize,
    /// How many bytes the text of the whole page has.
    pub bytes: usize,
    pub text: String,
}

/// What is known of the whole document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DocumentSummary {
    /// How many pages it has.
    pub total_pages: u32,
    /// How many of them were read.
    pub read_pages: u32,
    /// Those read pages that hold no text.
    pub empty_pages: Vec<u32>,
    /// Whether the text of the read pages ended at [`MAX_TEXT_BYTES`].
    pub is_truncated: bool,
}

/// What is known of a scaled image before its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageHeader {
    pub format: EncodedFormat,
    /// In pixels.
    pub width: u32,
    pub height: u32,
    /// How many bytes its content has.
    pub bytes: u64,
}

/// The format of a scaled image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EncodedFormat {
    Png,
    Jpeg,
}

/// What a container tells of its media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaSummary {
    /// The sides of a video in pixels, either both or none.
    pub width: Option<u32>,
    pub height: Option<u32>,
    pub duration_ms: Option<u64>,
}

/// Why a file could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub kind: FailureKind,
    /// The reason, for the model.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// It is no file that a worker decodes so.
    Unsupported,
    /// It is protected, damaged or too large.
    Unreadable,
}

/// Bytes as text of JSON.
mod base64_text {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(Error::custom)
    }
}
