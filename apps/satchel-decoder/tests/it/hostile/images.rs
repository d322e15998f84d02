//! Makes images that end, stall or fill a decoder.

use image::ImageFormat;

use super::documents::compress;
use crate::{
    fixtures::Noise,
    image_fixtures::{
        encode, heic, heic_that_claims, noisy_rgb, plain_rgb, png_chunk, png_that_claims, with_png_chunks,
    },
};

pub(super) fn trillion_pixels() -> Vec<u8> {
    png_that_claims(1_000_000, 1_000_000)
}

/// A GIF of one pixel whose screen and frame claim the largest size.
pub(super) fn claimed_gif() -> Vec<u8> {
    let mut bytes = encode(&plain_rgb(1, 1, [0; 3]), ImageFormat::Gif);
    bytes[6..10].fill(0xff);
    // The frame's descriptor: a comma, its place and its size.
    let frame = bytes.windows(9).position(|window| window == b",\0\0\0\0\x01\0\x01\0").unwrap();
    bytes[frame + 5..frame + 9].fill(0xff);
    bytes
}

/// A TIFF of tiles, with the planes of its three colours apart.
pub(super) fn tiled_planar_tiff() -> Vec<u8> {
    const ENTRIES: u16 = 11;
    let tiles = 8 + 2 + u32::from(ENTRIES) * 12 + 4;
    let (offsets, lengths, depths) = (tiles + 3 * 256, tiles + 3 * 256 + 12, tiles + 3 * 256 + 24);
    let (short, long) = (3_u16, 4_u16);
    let mut bytes = [&b"II*\0"[..], &8_u32.to_le_bytes(), &ENTRIES.to_le_bytes()].concat();
    for (tag, kind, count, value) in [
        (256_u16, short, 1_u32, 16_u32),
        (257, short, 1, 16),
        (258, short, 3, depths),
        (259, short, 1, 1),
        (262, short, 1, 2),
        (277, short, 1, 3),
        (284, short, 1, 2),
        (322, short, 1, 16),
        (323, short, 1, 16),
        (324, long, 3, offsets),
        (325, long, 3, lengths),
    ] {
        bytes.extend([&tag.to_le_bytes()[..], &kind.to_le_bytes()].concat());
        bytes.extend([count.to_le_bytes(), value.to_le_bytes()].concat());
    }
    bytes.extend([0; 4]);
    bytes.extend([90; 3 * 256]);
    bytes.extend((0..3).flat_map(|tile| (tiles + tile * 256).to_le_bytes()));
    bytes.extend([256_u32.to_le_bytes(); 3].concat());
    bytes.extend([8, 0].repeat(3));
    bytes
}

/// A PNG with a text that decompresses to 500 MiB.
pub(super) fn compressed_text_bomb() -> Vec<u8> {
    let bomb = [&b"Comment\0\0"[..], &compress(&vec![b'a'; 500 << 20])].concat();
    with_png_chunks(&encode(&plain_rgb(9, 9, [1; 3]), ImageFormat::Png), &[png_chunk(b"zTXt", &bomb)])
}

/// A PNG with a colour profile that decompresses to 500 MiB.
pub(super) fn color_profile_bomb() -> Vec<u8> {
    let bomb = [&b"profile\0\0"[..], &compress(&vec![0; 500 << 20])].concat();
    with_png_chunks(&encode(&plain_rgb(9, 9, [1; 3]), ImageFormat::Png), &[png_chunk(b"iCCP", &bomb)])
}

pub(super) fn noise_behind_jpeg_magic() -> Vec<u8> {
    b"\xff\xd8\xff\xe0".iter().copied().chain(Noise::new(5).take(50_000)).collect()
}

pub(super) fn cut_png() -> Vec<u8> {
    let whole = encode(&noisy_rgb(64, 64), ImageFormat::Png);
    whole[..whole.len() / 2].to_vec()
}

pub(super) fn cut_heic() -> Vec<u8> {
    let whole = heic("tiles");
    whole[..whole.len() / 2].to_vec()
}

/// A HEIC whose container claims a trillion pixels.
pub(super) fn claimed_heic() -> Vec<u8> {
    heic_that_claims("plain", (96, 64), (1_000_000, 1_000_000))
}

/// A HEIC whose container claims a small image, and whose picture has 36 megapixels.
pub(super) fn hidden_size_heic() -> Vec<u8> {
    heic_that_claims("wide", (6_000, 6_000), (64, 64))
}

/// A HEIC whose picture turns into noise.
pub(super) fn noise_in_heic() -> Vec<u8> {
    let mut bytes = heic("gradients");
    let picture = bytes.len() - 600;
    bytes[picture..].iter_mut().zip(Noise::new(9)).for_each(|(byte, noise)| *byte = noise);
    bytes
}

/// A HEIC with a tile that claims to be made of the image of which it is a part.
pub(super) fn images_within_themselves() -> Vec<u8> {
    let mut bytes = heic("tiles-turned");
    // The reference from EXIF data to the image gives way to one from the tile.
    let place = bytes.windows(10).position(|window| window == b"cdsc\0\x08\0\x01\0\x01").unwrap();
    bytes[place..place + 10].copy_from_slice(b"dimg\0\x02\0\x01\0\x01");
    bytes
}
