//! The kinds of declared attachments, and which sources each of them takes.

use std::fmt;

/// What a declared attachment is to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttachmentKind {
    Image,
    Pdf,
    Audio,
    Video,
    /// Any file of the machine; text is given to the model as text.
    File,
    /// An address that is named and never fetched.
    Url,
}

/// A field that says where the bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceField {
    Url,
    Path,
    Urls,
    Paths,
}

impl AttachmentKind {
    pub const ALL: [Self; 6] = [Self::Image, Self::Pdf, Self::Audio, Self::Video, Self::File, Self::Url];

    /// Reads a kind or its alias, in any case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        match text.as_str() {
            "document" => Some(Self::Pdf),
            _ => Self::ALL.into_iter().find(|kind| kind.name() == text),
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Pdf => "pdf",
            Self::Audio => "audio",
            Self::Video => "video",
            Self::File => "file",
            Self::Url => "url",
        }
    }

    /// The sources of which a declaration of this kind has exactly one.
    #[must_use]
    pub fn sources(self) -> &'static [SourceField] {
        match self {
            Self::Image | Self::Pdf | Self::Audio | Self::Video => &SourceField::ALL,
            Self::File => &[SourceField::Path],
            Self::Url => &[SourceField::Url],
        }
    }
}

impl SourceField {
    pub const ALL: [Self; 4] = [Self::Url, Self::Path, Self::Urls, Self::Paths];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::Path => "path",
            Self::Urls => "urls",
            Self::Paths => "paths",
        }
    }
}

impl fmt::Display for AttachmentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_is_pdf_in_any_case() {
        for text in ["document", "Document", "DOCUMENT", "pdf", "PDF", " pdf "] {
            assert_eq!(AttachmentKind::parse(text), Some(AttachmentKind::Pdf), "{text}");
        }
    }

    #[test]
    fn kinds_are_read_by_their_names() {
        for kind in AttachmentKind::ALL {
            assert_eq!(AttachmentKind::parse(kind.name()), Some(kind));
        }
        assert_eq!(AttachmentKind::parse("gif"), None);
        assert_eq!(AttachmentKind::parse(""), None);
    }
}
