//! Encodes an image so that it takes no more than so many bytes.

use std::io::{self, Write};

use image::{
    DynamicImage, ImageEncoder,
    codecs::{
        jpeg::JpegEncoder,
        png::{CompressionType, FilterType, PngEncoder},
    },
};
use satchel_decoders::protocol::EncodedFormat;

use super::area;
use crate::error::FileDecodeError;

/// The qualities of JPEG that are tried, from 1 to 100. Below the last, a smaller image shows more.
const JPEG_QUALITIES: [u8; 4] = [85, 70, 55, 40];

/// An image that is ready to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EncodedImage {
    pub(crate) format: EncodedFormat,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) content: Vec<u8>,
}

/// Encodes an image in the best quality, and then in the largest size, that fits.
pub(super) fn encode_within(image: DynamicImage, max_bytes: u64) -> Result<EncodedImage, FileDecodeError> {
    let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let mut side = image.width().max(image.height());
    loop {
        let scaled = area::fit(&image, side);
        let encoded = match scaled.color().has_alpha() {
            true => encode_png(&scaled, max_bytes),
            false => encode_opaque(&scaled, max_bytes),
        };
        match encoded {
            Some((format, content)) => {
                return Ok(EncodedImage { format, width: scaled.width(), height: scaled.height(), content });
            }
            None if side > 1 => side = side * 3 / 4,
            None => {
                let message = format!("even one pixel of it takes more than {max_bytes} bytes");
                return Err(FileDecodeError::TooLarge(message));
            }
        }
    }
}

/// PNG if it is no larger than JPEG of the best quality, as with drawings and screenshots, or if that doesn't fit.
fn encode_opaque(image: &DynamicImage, max_bytes: usize) -> Option<(EncodedFormat, Vec<u8>)> {
    let [best_quality, lower_qualities @ ..] = JPEG_QUALITIES;
    let best = encode_jpeg(image, best_quality, max_bytes);
    let max_png_bytes = best.as_ref().map_or(max_bytes, |(_, content)| content.len());
    encode_png(image, max_png_bytes)
        .or(best)
        .or_else(|| lower_qualities.iter().find_map(|quality| encode_jpeg(image, *quality, max_bytes)))
}

fn encode_png(image: &DynamicImage, max_bytes: usize) -> Option<(EncodedFormat, Vec<u8>)> {
    let mut output = CappedOutput::new(max_bytes);
    encode(image, PngEncoder::new_with_quality(&mut output, CompressionType::Default, FilterType::Adaptive))?;
    output.into_content().map(|content| (EncodedFormat::Png, content))
}

fn encode_jpeg(image: &DynamicImage, quality: u8, max_bytes: usize) -> Option<(EncodedFormat, Vec<u8>)> {
    let mut output = CappedOutput::new(max_bytes);
    encode(image, JpegEncoder::new_with_quality(&mut output, quality))?;
    output.into_content().map(|content| (EncodedFormat::Jpeg, content))
}

/// An encoder refuses what has no room, and sides that its format can't express: a smaller image may fit in any case.
fn encode(image: &DynamicImage, encoder: impl ImageEncoder) -> Option<()> {
    encoder.write_image(image.as_bytes(), image.width(), image.height(), image.color().into()).ok()
}

/// Takes bytes up to a limit and fails beyond it, so that no time is spent on what is too large.
struct CappedOutput {
    content: Vec<u8>,
    max_bytes: usize,
    is_exceeded: bool,
}

impl CappedOutput {
    fn new(max_bytes: usize) -> Self {
        Self { content: Vec::new(), max_bytes, is_exceeded: false }
    }

    /// All bytes, if they had room. The encoder's own result doesn't tell: that of PNG drops the error of its last write.
    fn into_content(self) -> Option<Vec<u8>> {
        if self.is_exceeded { None } else { Some(self.content) }
    }
}

impl Write for CappedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_exceeded |= bytes.len() > self.max_bytes - self.content.len();
        if self.is_exceeded {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.content.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
