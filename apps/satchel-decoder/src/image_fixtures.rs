//! Images for the tests: made by code, and HEIC files that `image_fixtures/generate.py` makes with libheif and x265.

use std::io::Cursor;

use image::{
    DynamicImage, Frame, ImageEncoder, ImageFormat, RgbImage, RgbaImage,
    codecs::{gif::GifEncoder, jpeg::JpegEncoder, png::PngEncoder, webp::WebPEncoder},
};

use crate::fixtures::Noise;

/// A text in the metadata of [`encode_with_exif`].
pub(crate) const LOCATION: &[u8] = b"51.5074N 0.1278W";

/// Every format that is decoded.
pub(crate) const FORMATS: [ImageFormat; 6] =
    [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP, ImageFormat::Gif, ImageFormat::Bmp, ImageFormat::Tiff];

macro_rules! heic_files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("image_fixtures/", $name, ".heic")))),*]
    };
}

/// The HEIC files by their names. Most show six patches of colour; those that are turned have EXIF data with a location.
const HEIC_FILES: [(&str, &[u8]); 15] = heic_files![
    "plain",
    "full-color",
    "video-range",
    "display-p3",
    "gray",
    "deep",
    "hdr",
    "gradients",
    "mirrored",
    "turned",
    "turned-mirrored",
    "tiles",
    "tiles-turned",
    "transparent",
    // One picture of 36 megapixels.
    "wide",
];

/// One of them.
pub(crate) fn heic(name: &str) -> Vec<u8> {
    HEIC_FILES.iter().find(|(of, _)| *of == name).expect("there is such a fixture").1.to_vec()
}

/// One of them that claims another size for the images of this size.
#[cfg(feature = "heic")]
pub(crate) fn heic_that_claims(name: &str, size: (u32, u32), claimed: (u32, u32)) -> Vec<u8> {
    let property =
        |(width, height): (u32, u32)| [&b"ispe\0\0\0\0"[..], &width.to_be_bytes(), &height.to_be_bytes()].concat();
    let mut bytes = heic(name);
    let place = bytes.windows(16).position(|window| window == property(size)).expect("it has an image of this size");
    bytes[place..place + 16].copy_from_slice(&property(claimed));
    bytes
}

/// An image that no format can compress well.
pub(crate) fn noisy_rgb(width: u32, height: u32) -> DynamicImage {
    let bytes = Noise::new(width).take((width * height * 3) as usize).collect();
    RgbImage::from_raw(width, height, bytes).unwrap().into()
}

/// The same with a noisy alpha channel.
pub(crate) fn noisy_rgba(width: u32, height: u32) -> DynamicImage {
    let bytes = Noise::new(width).take((width * height * 4) as usize).collect();
    RgbaImage::from_raw(width, height, bytes).unwrap().into()
}

/// An image of one colour.
pub(crate) fn plain_rgb(width: u32, height: u32, color: [u8; 3]) -> DynamicImage {
    RgbImage::from_pixel(width, height, color.into()).into()
}

pub(crate) fn encode(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// The image as PNG, JPEG or WebP with an orientation and a text in its EXIF data.
pub(crate) fn encode_with_exif(image: &DynamicImage, format: ImageFormat, orientation: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (width, height, color) = (image.width(), image.height(), image.color().into());
    match format {
        ImageFormat::Png => {
            let mut encoder = PngEncoder::new(&mut bytes);
            encoder.set_exif_metadata(exif(orientation)).unwrap();
            encoder.write_image(image.as_bytes(), width, height, color).unwrap();
        }
        ImageFormat::Jpeg => {
            let mut encoder = JpegEncoder::new_with_quality(&mut bytes, 100);
            encoder.set_exif_metadata(exif(orientation)).unwrap();
            encoder.write_image(image.as_bytes(), width, height, color).unwrap();
        }
        _ => {
            let mut encoder = WebPEncoder::new_lossless(&mut bytes);
            encoder.set_exif_metadata(exif(orientation)).unwrap();
            encoder.write_image(image.as_bytes(), width, height, color).unwrap();
        }
    }
    assert!(bytes.windows(LOCATION.len()).any(|window| window == LOCATION));
    bytes
}

/// EXIF data of two entries: a description and the orientation.
fn exif(orientation: u8) -> Vec<u8> {
    let (length, offset) = (LOCATION.len() as u8, 8 + 2 + 2 * 12 + 4);
    let mut exif = b"II*\0\x08\0\0\0\x02\0".to_vec();
    exif.extend([0x0e, 0x01, 2, 0, length, 0, 0, 0, offset, 0, 0, 0]);
    exif.extend([0x12, 0x01, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0]);
    exif.extend([0; 4]);
    exif.extend(LOCATION);
    exif
}

pub(crate) fn animated_gif(frames: &[RgbaImage]) -> Vec<u8> {
    let mut bytes = Vec::new();
    GifEncoder::new(&mut bytes).encode_frames(frames.iter().cloned().map(Frame::new)).unwrap();
    bytes
}

/// An animated WebP of frames of the same size, which the `image` crate can't write.
pub(crate) fn animated_webp(frames: &[RgbaImage]) -> Vec<u8> {
    let size = |side: u32| (side - 1).to_le_bytes()[..3].to_vec();
    let (width, height) = (size(frames[0].width()), size(frames[0].height()));
    let (has_animation_and_alpha, no_bytes) = (0x12_u8, [0_u8; 3]);
    let mut body = b"WEBP".to_vec();
    body.extend(riff_chunk(b"VP8X", &[&[has_animation_and_alpha], &no_bytes[..], &width, &height].concat()));
    body.extend(riff_chunk(b"ANIM", &[0; 6]));
    for frame in frames {
        // A still one is a header of twelve bytes and the chunk that is wanted.
        let still = encode(&frame.clone().into(), ImageFormat::WebP);
        let (position, duration_and_flags) = ([0; 6], [100, 0, 0, 0]);
        let content = [&position[..], &width, &height, &duration_and_flags, &still[12..]].concat();
        body.extend(riff_chunk(b"ANMF", &content));
    }
    riff_chunk(b"RIFF", &body)
}

fn riff_chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let padding = vec![0; content.len() % 2];
    [&name[..], &u32::try_from(content.len()).unwrap().to_le_bytes(), content, &padding].concat()
}

/// A PNG that claims to have this size, and holds one pixel.
pub(crate) fn png_that_claims(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = encode(&plain_rgb(1, 1, [0; 3]), ImageFormat::Png);
    bytes[16..20].copy_from_slice(&width.to_be_bytes());
    bytes[20..24].copy_from_slice(&height.to_be_bytes());
    let checksum = crc(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// A chunk of a PNG.
pub(crate) fn png_chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let named = [&name[..], content].concat();
    [&u32::try_from(content.len()).unwrap().to_be_bytes()[..], &named, &crc(&named).to_be_bytes()].concat()
}

/// The PNG with these chunks behind its header.
pub(crate) fn with_png_chunks(png: &[u8], chunks: &[Vec<u8>]) -> Vec<u8> {
    let (header, rest) = png.split_at(33);
    [header, &chunks.concat(), rest].concat()
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}
