//! Opens the container of sound or of a video by its first bytes.
//!
//! Symphonia could also search for the beginning of a format; but then any bytes hold one somewhere.

use std::io::Cursor;

use symphonia::{
    core::{
        errors::Error,
        formats::{FormatOptions, FormatReader, probe::ProbeableFormat},
        io::MediaSourceStream,
    },
    default::formats::{AdtsReader, FlacReader, IsoMp4Reader, MkvReader, MpaReader, OggReader, WavReader},
};

use crate::error::FileDecodeError;

/// An opened file.
pub(crate) struct Container {
    pub(crate) format: MediaFormat,
    pub(crate) reader: Box<dyn FormatReader>,
}

/// A format whose packets can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaFormat {
    Wav,
    Flac,
    Ogg,
    Mp4,
    Matroska,
    /// MP3.
    Mpeg,
    /// AAC without a container.
    Adts,
}

/// Opens a file. `mime` is only named.
pub(crate) fn open(mut content: Vec<u8>, mime: &str) -> Result<Container, FileDecodeError> {
    let mut tag_bytes = 0;
    // A song may have several.
    while let Some(tag) = id3_bytes(&content[tag_bytes..]) {
        tag_bytes += tag;
    }
    let format = MediaFormat::recognize(&content[tag_bytes..]).ok_or_else(|| {
        let formats = "WAV, FLAC, MP3, AAC, OGG, MP4 or WebM";
        FileDecodeError::Unsupported(format!("by its bytes it is no {formats} (its type was given as {mime})"))
    })?;
    // The tag of a song holds nothing that is needed, and often a large picture.
    content.drain(..tag_bytes);
    let source = MediaSourceStream::new(Box::new(Cursor::new(content)), Default::default());
    let options = FormatOptions::default();
    let reader = match format {
        MediaFormat::Wav => WavReader::try_probe_new(source, options),
        MediaFormat::Flac => FlacReader::try_probe_new(source, options),
        MediaFormat::Ogg => OggReader::try_probe_new(source, options),
        MediaFormat::Mp4 => IsoMp4Reader::try_probe_new(source, options),
        MediaFormat::Matroska => MkvReader::try_probe_new(source, options),
        MediaFormat::Mpeg => MpaReader::try_probe_new(source, options),
        MediaFormat::Adts => AdtsReader::try_probe_new(source, options),
    };
    Ok(Container { format, reader: reader.map_err(|error| read_error(&error))? })
}

/// Explains an error of a container or of a decoder.
pub(crate) fn read_error(error: &Error) -> FileDecodeError {
    match error {
        Error::Unsupported(feature) => FileDecodeError::Unsupported(format!("{feature} can't be decoded")),
        Error::IoError(_) => FileDecodeError::damaged("it ends early"),
        error => FileDecodeError::damaged(error),
    }
}

impl MediaFormat {
    fn recognize(content: &[u8]) -> Option<Self> {
        match content {
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Some(Self::Wav),
            [b'f', b'L', b'a', b'C', ..] => Some(Self::Flac),
            [b'O', b'g', b'g', b'S', ..] => Some(Self::Ogg),
            [_, _, _, _, b'f', b't', b'y', b'p', ..] => Some(Self::Mp4),
            [0x1a, 0x45, 0xdf, 0xa3, ..] => Some(Self::Matroska),
            // Twelve bits for the start of a frame, then the version and the layer: none for AAC, the third for MP3.
            [0xff, second, ..] if second & 0xf6 == 0xf0 => Some(Self::Adts),
            [0xff, second, ..] if second & 0xe6 == 0xe2 => Some(Self::Mpeg),
            _ => None,
        }
    }
}

/// How many bytes an ID3 tag takes, if there is one.
fn id3_bytes(content: &[u8]) -> Option<usize> {
    match content {
        [b'I', b'D', b'3', _, _, flags, a, b, c, d, ..] => {
            let size = [a, b, c, d].into_iter().fold(0, |size, byte| (size << 7) | usize::from(byte & 0x7f));
            let footer = if flags & 0x10 == 0 { 0 } else { 10 };
            Some((10 + size + footer).min(content.len()))
        }
        _ => None,
    }
}
