//! HEIC and other HEIF files, the photos of phones: their primary image, which is coded with HEVC.
//!
//! Nothing else of such a file is decoded: no thumbnail, gain map, depth map or further image.

#[cfg(feature = "heic")]
mod decoder;

#[cfg(not(feature = "heic"))]
use image::{DynamicImage, metadata::Orientation};

#[cfg(feature = "heic")]
pub(super) use self::decoder::decode_heic;
#[cfg(not(feature = "heic"))]
use crate::error::FileDecodeError;

/// The brands of files whose images may be coded with HEVC. Those of sequences may have a still image, too.
const BRANDS: [&[u8]; 11] =
    [b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"mif2", b"msf1"];

/// The brands of AVIF, which has the same container.
const OTHER_BRANDS: [&[u8]; 2] = [b"avif", b"avis"];

/// The most bytes of brands that are looked at.
const MAX_BRAND_BYTES: usize = 256;

pub(super) fn is_heic(content: &[u8]) -> bool {
    let Some((head, rest)) = content.split_first_chunk::<16>() else { return false };
    let box_bytes = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let rest_bytes = box_bytes.saturating_sub(head.len()).min(MAX_BRAND_BYTES).min(rest.len());
    let brands = || rest[..rest_bytes].chunks_exact(4).chain([&head[8..12]]);
    let has_one_of = |wanted: &[&[u8]]| brands().any(|brand| wanted.contains(&brand));
    head[4..8] == *b"ftyp" && has_one_of(&BRANDS) && !has_one_of(&OTHER_BRANDS)
}

/// Says why there is no image.
#[cfg(not(feature = "heic"))]
pub(super) fn decode_heic(_content: Vec<u8>, _: u64) -> Result<(DynamicImage, Orientation), FileDecodeError> {
    Err(FileDecodeError::Unsupported("it is HEIC, which this build of satchel-decoder doesn't read".to_owned()))
}
