//! The kinds of files that a model may take, and which of them requests to a provider can hold.

use crate::settings::ModelProvider;

/// A kind of file that a model may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MediaKind {
    Image,
    Pdf,
    Audio,
    Video,
}

impl MediaKind {
    /// All kinds, in the order in which they are listed.
    pub const ALL: [Self; 4] = [Self::Image, Self::Pdf, Self::Audio, Self::Video];

    /// Its name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Pdf => "pdf",
            Self::Audio => "audio",
            Self::Video => "video",
        }
    }

    /// Files of this kind, as text.
    pub(crate) fn plural_name(self) -> &'static str {
        match self {
            Self::Image => "images",
            Self::Pdf => "PDF documents",
            Self::Audio => "audio",
            Self::Video => "video",
        }
    }

    /// The kind of files of this MIME type; `None` where no model accepts such files directly.
    pub(crate) fn from_mime(mime: &str) -> Option<Self> {
        match mime.split_once('/')?.0 {
            // An SVG is text; no model takes it as an image.
            "image" => (mime != "image/svg+xml").then_some(Self::Image),
            "audio" => Some(Self::Audio),
            "video" => Some(Self::Video),
            _ => (mime == "application/pdf").then_some(Self::Pdf),
        }
    }
}

impl ModelProvider {
    /// The kinds of files that requests of the provider's API can contain.
    #[must_use]
    pub fn file_kinds(self) -> &'static [MediaKind] {
        match self {
            Self::OpenAi | Self::Gemini => &MediaKind::ALL,
            Self::OpenAiResponses | Self::Anthropic => &[MediaKind::Image, MediaKind::Pdf],
            Self::Ollama => &[MediaKind::Image],
        }
    }
}

/// Explains that requests to a provider can't contain such files, and which they can.
#[must_use]
pub fn unsupported_kind_reason(provider: ModelProvider, kind: MediaKind) -> String {
    let kinds: Vec<&str> = provider.file_kinds().iter().map(|kind| kind.as_str()).collect();
    format!(
        "holds {}, which requests to {} can't contain; allowed are {}",
        kind.as_str(),
        provider.title(),
        kinds.join(", ")
    )
}
