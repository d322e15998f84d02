//! What becomes of HEIC files: by other writers, turned, large and hostile ones.

use image::metadata::Orientation;

use super::{
    metadata::{LATITUDE, holds},
    *,
};
use crate::image_fixtures::{heic, heic_that_claims};

/// The colours of the picture that most files show, row by row.
const PATCHES: [[u8; 3]; 6] =
    [[200, 30, 30], [30, 160, 40], [40, 60, 190], [0, 0, 0], [128, 128, 128], [255, 255, 255]];

/// The colours in the middle of the picture's patches, and its size.
fn patches(image: &DynamicImage) -> ([[u8; 3]; 6], (u32, u32)) {
    let (pixels, side) = (image.to_rgb8(), image.width() / 3);
    let middle = |index: u32| pixels.get_pixel(index % 3 * side + side / 2, index / 3 * side + side / 2).0;
    ([0, 1, 2, 3, 4, 5].map(middle), (image.width(), image.height()))
}

/// The largest difference between the colours of two pictures.
fn difference(left: [[u8; 3]; 6], right: [[u8; 3]; 6]) -> u8 {
    let pairs = left.into_iter().flatten().zip(right.into_iter().flatten());
    pairs.map(|(left, right)| left.abs_diff(right)).max().unwrap()
}

fn decode(content: &[u8], pixel_bytes: u64) -> Result<(DynamicImage, Orientation), FileDecodeError> {
    heic::decode_heic(content.to_vec(), pixel_bytes)
}

#[test]
fn each_coding_shows_the_same_picture() {
    for name in ["plain", "full-color", "video-range", "deep", "hdr", "tiles"] {
        let (colors, size) = patches(&scaled(&heic(name), ROOMY).1);
        assert!(difference(colors, PATCHES) < 4, "{name}: {colors:?}");
        assert_eq!(size, if name == "tiles" { (150, 100) } else { (96, 64) }, "{name}");
    }
    let (colors, _) = patches(&scaled(&heic("gray"), ROOMY).1);
    let lightness = [81, 107, 69, 0, 128, 255].map(|gray| [gray; 3]);
    assert!(difference(colors, lightness) < 4, "{colors:?}");
}

#[test]
fn gradients_differ_little() {
    let (_, image) = scaled(&heic("gradients"), ROOMY);
    let mut sum = 0;
    for (x, y, pixel) in image.to_rgb8().enumerate_pixels() {
        let expected = [x * 255 / 95, y * 255 / 63, 128 + 64 * ((x / 16 + y / 16) % 2)];
        sum += pixel.0.into_iter().zip(expected).map(|(left, right)| u32::from(left).abs_diff(right)).sum::<u32>();
    }
    let mean = f64::from(sum) / f64::from(96 * 64 * 3);
    assert!(mean < 3.0, "{mean}");
}

#[test]
fn colors_of_phones_become_srgb() {
    let (colors, _) = patches(&scaled(&heic("display-p3"), ROOMY).1);
    let expected = [[218, 0, 6], [0, 163, 0], [34, 61, 198], [0, 0, 0], [128, 128, 128], [255, 255, 255]];
    assert!(difference(colors, expected) < 4, "{colors:?}");
}

#[test]
fn transparent_heic_stays_transparent() {
    let (encoded, image) = scaled(&heic("transparent"), ROOMY);
    assert_eq!(encoded.format, EncodedFormat::Png);
    let image = image.to_rgba8();
    assert_eq!([(16, 16), (48, 16), (16, 48)].map(|(x, y)| image.get_pixel(x, y)[3]), [0, 255, 255]);
    assert!(!scaled(&heic("plain"), ROOMY).1.color().has_alpha());
}

#[test]
fn heic_is_turned_once_and_loses_its_location() {
    for name in ["mirrored", "turned", "turned-mirrored", "tiles-turned"] {
        let content = heic(name);
        let markers = [&b"Minox 35"[..], b"2024:05:14", LATITUDE];
        assert!(markers.into_iter().all(|marker| holds(&content, marker)), "{name}");
        let (encoded, image) = scaled(&content, ROOMY);
        let (colors, (width, height)) = patches(&image);
        assert!(difference(colors, PATCHES) < 4, "{name}: {colors:?}");
        assert!(width * 2 == height * 3, "{name}: {width} × {height}");
        assert!(!markers.into_iter().any(|marker| holds(&encoded.content, marker)), "{name}");
    }
}

#[test]
fn large_tiled_heic_is_turned_after_scaling() {
    // Of 15,000 pixels.
    for (name, orientation, size) in
        [("tiles", Orientation::NoTransforms, (150, 100)), ("tiles-turned", Orientation::Rotate90, (100, 150))]
    {
        let content = heic(name);
        let (image, in_memory) = decode(&content, 15_000 * 8).unwrap();
        assert_eq!(((image.width(), image.height()), in_memory), ((150, 100), Orientation::NoTransforms), "{name}");
        for pixel_bytes in [15_000 * 8 - 1, 15_000 * 4] {
            let (mut image, later) = decode(&content, pixel_bytes).unwrap();
            assert_eq!(((image.width(), image.height()), later), (size, orientation), "{name}");
            image.apply_orientation(later);
            let (colors, _) = patches(&image);
            assert!(difference(colors, PATCHES) < 4, "{name}: {colors:?}");
        }
        assert_eq!(decode(&content, 15_000 * 4 - 1), Err(out_of_memory()), "{name}");
    }
    // The pixels of these are no tiles.
    for name in ["plain", "turned"] {
        assert_eq!(decode(&heic(name), 96 * 64 * 8 - 1), Err(out_of_memory()), "{name}");
        assert!(decode(&heic(name), 96 * 64 * 8).is_ok(), "{name}");
    }
    let patched = |old: &[u8], new: &[u8]| {
        let mut content = heic("tiles-turned");
        let place = content.windows(old.len()).position(|window| window == old).unwrap();
        content[place..place + old.len()].copy_from_slice(new);
        content
    };
    // One is mirrored, and in the other a tile has the same rotation as the whole.
    for content in [patched(b"irot", b"imir"), patched(&[0, 2, 4, 0x82, 3, 4, 5], &[0, 2, 4, 0x82, 3, 4, 6])] {
        assert!(decode(&content, 15_000 * 8).is_ok());
        assert_eq!(decode(&content, 15_000 * 8 - 1), Err(out_of_memory()));
    }
}

#[test]
fn claims_of_heic_are_refused() {
    for (width, height) in [(100_000, 100_000), (10_001, 10_000)] {
        let expected = format!("it has {width} × {height} pixels; at most 100 megapixels are decoded");
        assert_eq!(reason(&heic_that_claims("plain", (96, 64), (width, height))), expected);
    }
    assert_eq!(reason(&heic_that_claims("plain", (96, 64), (0, 64))), "it is damaged: it has no pixels");
    let mut tiles = heic("tiles");
    let grid = tiles.windows(8).position(|window| window == [0, 0, 1, 2, 0, 150, 0, 100]).unwrap();
    for (byte, expected) in [
        (0xff, "it has 65535 × 65535 pixels; at most 100 megapixels are decoded"),
        (0, "it is damaged: it has no pixels"),
    ] {
        tiles[grid + 4..grid + 8].fill(byte);
        assert_eq!(reason(&tiles), expected);
    }
    // Below that limit, but not below that of the memory, which the pictures themselves don't evade.
    let wide = heic("wide");
    assert_eq!(reason(&wide), "decoding it takes more memory than allowed");
    assert_eq!(
        reason(&heic_that_claims("wide", (6_000, 6_000), (64, 64))),
        "decoding it takes more memory than allowed"
    );
    let large_tile = heic_that_claims("tiles", (64, 64), (60_000, 60_000));
    assert_eq!(reason(&large_tile), "decoding it takes more memory than allowed");
}

#[test]
fn truncated_and_random_heic_ends_cleanly() {
    for name in ["plain", "turned", "tiles", "transparent"] {
        let whole = heic(name);
        for length in 16..whole.len() {
            let error = scale(&whole[..length], ROOMY).unwrap_err();
            assert!(matches!(error, FileDecodeError::Damaged(_)), "{name} of {length} bytes: {error}");
        }
        for seed in 1..40 {
            let noise: Vec<u8> = Noise::new(seed).take(3_000).collect();
            for kept_bytes in [30, 60, whole.len() / 2] {
                // What matters is that each call returns.
                let _outcome = scale(&[&whole[..kept_bytes], &noise].concat(), ROOMY);
            }
        }
    }
}

#[test]
fn other_codec_in_the_container_is_unsupported() {
    let mut content = heic("plain");
    let codec = content.windows(4).position(|window| window == b"hvc1").unwrap();
    content[codec..codec + 4].copy_from_slice(b"jpeg");
    let expected = "it can't be decoded: unsupported: image item type `jpeg`";
    assert_eq!(scale(&content, ROOMY), Err(FileDecodeError::Unsupported(expected.to_owned())));
}
