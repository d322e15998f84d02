//! Images: decoded within limits, turned upright, scaled down, and encoded again, which drops all metadata.

mod area;
mod encoder;
mod heic;

use std::io::Cursor;

use image::{
    DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits, RgbImage, guess_format,
    metadata::Orientation,
};
use satchel_decoders::protocol::ImageBounds;

pub(crate) use self::encoder::EncodedImage;
use crate::error::FileDecodeError;

/// The most pixels of an image, in millions.
const MAX_MEGAPIXELS: u64 = 100;

/// The part of the memory that the decoded pixels may take, and a decoder besides them. The limit of the process is the
/// one that holds: some decoders take more than they were allowed.
const PIXEL_MEMORY_DIVISOR: u64 = 2;

/// Why an image without pixels is refused.
const NO_PIXELS: &str = "it has no pixels";

/// Scales an image down, never up. Its format is recognised by its bytes; `mime` is only named.
pub(crate) fn scale_image(
    content: Vec<u8>,
    mime: &str,
    bounds: ImageBounds,
    memory_bytes: u64,
) -> Result<EncodedImage, FileDecodeError> {
    let pixel_bytes = memory_bytes / PIXEL_MEMORY_DIVISOR;
    let (image, orientation) = if heic::is_heic(&content) {
        heic::decode_heic(content, pixel_bytes)?
    } else {
        let format = recognize_format(&content).ok_or_else(|| {
            let formats = "PNG, JPEG, WebP, GIF, BMP, TIFF or HEIC";
            FileDecodeError::Unsupported(format!("by its bytes it is no {formats} (its type was given as {mime})"))
        })?;
        decode_image(content, format, pixel_bytes)?
    };
    let mut image = area::fit_owned(to_eight_bits(image), bounds.max_side);
    // Behind the scaling, where it costs little.
    image.apply_orientation(orientation);
    encoder::encode_within(drop_opaque_alpha(image), bounds.max_bytes)
}

/// Encodes a page that was drawn.
pub(crate) fn encode_page(page: RgbImage, max_bytes: u64) -> Result<EncodedImage, FileDecodeError> {
    encoder::encode_within(page.into(), max_bytes)
}

fn recognize_format(content: &[u8]) -> Option<ImageFormat> {
    use ImageFormat::{Bmp, Gif, Jpeg, Png, Tiff, WebP};
    guess_format(content).ok().filter(|format| matches!(format, Png | Jpeg | WebP | Gif | Bmp | Tiff))
}

/// Decodes the first frame, if its header claims no more than the limits.
fn decode_image(
    content: Vec<u8>,
    format: ImageFormat,
    pixel_bytes: u64,
) -> Result<(DynamicImage, Orientation), FileDecodeError> {
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(pixel_bytes);
    let mut reader = ImageReader::with_format(Cursor::new(content), format);
    reader.limits(limits.clone());
    let mut decoder = reader.into_decoder().map_err(decode_error)?;
    let (width, height) = decoder.dimensions();
    check_size(width, height)?;
    limits.reserve(decoder.total_bytes()).map_err(decode_error)?;
    // Damaged metadata is no reason to refuse the pixels.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let image = DynamicImage::from_decoder(decoder).map_err(decode_error)?;
    // Some formats allow that, but nothing could be encoded.
    if image.width() == 0 || image.height() == 0 {
        return Err(FileDecodeError::damaged(NO_PIXELS));
    }
    Ok((image, orientation))
}

/// Refuses what a header claims, before anything is taken for it.
fn check_size(width: u32, height: u32) -> Result<(), FileDecodeError> {
    if u64::from(width) * u64::from(height) > MAX_MEGAPIXELS * 1_000_000 {
        let message = format!("it has {width} × {height} pixels; at most {MAX_MEGAPIXELS} megapixels are decoded");
        return Err(FileDecodeError::TooLarge(message));
    }
    Ok(())
}

fn out_of_memory() -> FileDecodeError {
    FileDecodeError::TooLarge("decoding it takes more memory than allowed".to_owned())
}

fn decode_error(error: ImageError) -> FileDecodeError {
    match error {
        ImageError::Limits(_) => out_of_memory(),
        ImageError::Unsupported(error) => FileDecodeError::Unsupported(format!("it can't be decoded: {error}")),
        error => FileDecodeError::damaged(error),
    }
}

/// The same image with one byte for each channel.
fn to_eight_bits(image: DynamicImage) -> DynamicImage {
    let color = image.color();
    match (color.has_color(), color.has_alpha()) {
        (false, false) => image.into_luma8().into(),
        (false, true) => image.into_luma_alpha8().into(),
        (true, false) => image.into_rgb8().into(),
        (true, true) => image.into_rgba8().into(),
    }
}

/// The same image without its alpha channel if no pixel is transparent.
fn drop_opaque_alpha(image: DynamicImage) -> DynamicImage {
    let channels = usize::from(image.color().channel_count());
    let is_opaque = || image.as_bytes().iter().skip(channels - 1).step_by(channels).all(|alpha| *alpha == u8::MAX);
    match image {
        DynamicImage::ImageLumaA8(_) if is_opaque() => image.into_luma8().into(),
        DynamicImage::ImageRgba8(_) if is_opaque() => image.into_rgb8().into(),
        image => image,
    }
}

#[cfg(test)]
mod tests;
