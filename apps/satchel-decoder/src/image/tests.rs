//! What becomes of images, good and hostile.

mod metadata;
#[cfg(feature = "heic")]
mod photos;

use image::{GrayImage, ImageBuffer, Rgba, RgbaImage, load_from_memory};
use satchel_decoders::protocol::EncodedFormat;

use super::*;
use crate::{
    fixtures::Noise,
    image_fixtures::{
        FORMATS, LOCATION, animated_gif, animated_webp, encode, encode_with_exif, noisy_rgb, noisy_rgba, plain_rgb,
        png_that_claims,
    },
};

const ROOMY: ImageBounds = ImageBounds { max_side: 2_000, max_bytes: 10 << 20 };

fn scale(content: &[u8], bounds: ImageBounds) -> Result<EncodedImage, FileDecodeError> {
    scale_image(content.to_vec(), "image/png", bounds, 512 << 20)
}

/// Scales an image, and decodes the result, which must be what it says.
fn scaled(content: &[u8], bounds: ImageBounds) -> (EncodedImage, DynamicImage) {
    let encoded = scale(content, bounds).unwrap();
    let format = match encoded.format {
        EncodedFormat::Png => ImageFormat::Png,
        EncodedFormat::Jpeg => ImageFormat::Jpeg,
    };
    assert_eq!(guess_format(&encoded.content).unwrap(), format);
    let image = load_from_memory(&encoded.content).unwrap();
    assert_eq!((image.width(), image.height()), (encoded.width, encoded.height));
    (encoded, image)
}

fn reason(content: &[u8]) -> String {
    scale(content, ROOMY).unwrap_err().to_string()
}

#[test]
fn each_orientation_is_applied() {
    let stored: DynamicImage = GrayImage::from_raw(3, 2, (0..6).map(|index| index * 40).collect()).unwrap().into();
    for (orientation, expected) in [
        (0, "012/345"),
        (1, "012/345"),
        (2, "210/543"),
        (3, "543/210"),
        (4, "345/012"),
        (5, "03/14/25"),
        (6, "30/41/52"),
        (7, "52/41/30"),
        (8, "25/14/03"),
        (9, "012/345"),
    ] {
        let (_, upright) = scaled(&encode_with_exif(&stored, ImageFormat::Png, orientation), ROOMY);
        let rows = upright.to_luma8();
        let rows: Vec<String> = rows.rows().map(|row| row.map(|pixel| (pixel[0] / 40).to_string()).collect()).collect();
        assert_eq!(rows.join("/"), expected, "{orientation}");
    }
    for format in [ImageFormat::Jpeg, ImageFormat::WebP] {
        let (encoded, _) = scaled(&encode_with_exif(&noisy_rgb(30, 20), format, 6), ROOMY);
        assert_eq!((encoded.width, encoded.height), (20, 30), "{format:?}");
    }
}

#[test]
fn transparency_survives_without_bleeding() {
    let (green, hidden_red) = (Rgba([0, 200, 0, 255]), Rgba([255, 0, 0, 0]));
    let image = RgbaImage::from_fn(4, 2, |x, _| if x % 2 == 0 { green } else { hidden_red });
    let (encoded, small) = scaled(&encode(&image.into(), ImageFormat::Png), ImageBounds { max_side: 2, ..ROOMY });
    assert_eq!(encoded.format, EncodedFormat::Png);
    assert_eq!(small.to_rgba8().into_raw(), [0, 200, 0, 128].repeat(2));
    let noisy = encode(&noisy_rgba(100, 100), ImageFormat::WebP);
    let (encoded, small) = scaled(&noisy, ImageBounds { max_bytes: 5_000, ..ROOMY });
    assert_eq!((encoded.format, small.color().has_alpha()), (EncodedFormat::Png, true));
    let opaque = RgbaImage::from_pixel(3, 3, green);
    let (_, image) = scaled(&encode(&opaque.into(), ImageFormat::Png), ROOMY);
    assert!(!image.color().has_alpha(), "a channel that says nothing is dropped");
}

#[test]
fn metadata_is_dropped() {
    for (image, expected) in [(noisy_rgb(64, 64), EncodedFormat::Jpeg), (plain_rgb(64, 64, [9; 3]), EncodedFormat::Png)]
    {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP] {
            let (encoded, _) = scaled(&encode_with_exif(&image, format, 1), ROOMY);
            assert_eq!(encoded.format, expected);
            let holds = |text: &[u8]| encoded.content.windows(text.len()).any(|window| window == text);
            assert!(![LOCATION, b"Exif", b"eXIf", b"tEXt", b"iCCP"].into_iter().any(holds), "{format:?}");
        }
    }
}

#[test]
fn animation_gives_its_first_frame() {
    let frames = [[200, 0, 0, 255], [0, 200, 0, 255]].map(|color| RgbaImage::from_pixel(8, 6, Rgba(color)));
    for animation in [animated_gif(&frames), animated_webp(&frames)] {
        let (_, still) = scaled(&animation, ROOMY);
        assert_eq!((still.width(), still.height()), (8, 6));
        let still = still.to_rgb8();
        // The colours of a GIF are approximate.
        let is_red = |[red, green, blue]: [u8; 3]| red >= 199 && green == 0 && blue == 0;
        assert!(still.pixels().all(|pixel| is_red(pixel.0)), "{:?}", still.get_pixel(0, 0));
    }
}

#[test]
fn result_keeps_within_both_bounds() {
    for image in [noisy_rgb(300, 200), noisy_rgba(200, 300)] {
        let content = encode(&image, ImageFormat::Png);
        for max_side in [299, 100, 7, 1, 0] {
            for max_bytes in [1_000_000, 20_000, 2_000, 700, 100] {
                let (encoded, _) = scaled(&content, ImageBounds { max_side, max_bytes });
                assert!(encoded.content.len() as u64 <= max_bytes);
                assert!(encoded.width.max(encoded.height) <= max_side.max(1));
            }
        }
        let error = scale(&content, ImageBounds { max_bytes: 30, ..ROOMY }).unwrap_err().to_string();
        assert_eq!(error, "even one pixel of it takes more than 30 bytes");
    }
}

#[test]
fn quality_is_lowered_before_size() {
    let content = encode(&noisy_rgb(300, 200), ImageFormat::Png);
    let (best, _) = scaled(&content, ROOMY);
    let max_bytes = best.content.len() as u64 - 1;
    let (lower, _) = scaled(&content, ImageBounds { max_bytes, ..ROOMY });
    assert_eq!((best.format, lower.format), (EncodedFormat::Jpeg, EncodedFormat::Jpeg));
    assert_eq!((lower.width, lower.height), (300, 200));
    let (smaller, _) = scaled(&content, ImageBounds { max_bytes: 10_000, ..ROOMY });
    assert!(smaller.width < 300 && smaller.width > 30, "{}", smaller.width);
}

#[test]
fn small_image_keeps_its_size() {
    for format in FORMATS {
        for (width, height) in [(1, 1), (1, 9), (5, 3)] {
            let (encoded, image) = scaled(&encode(&plain_rgb(width, height, [10, 200, 30]), format), ROOMY);
            assert_eq!((encoded.width, encoded.height), (width, height), "{format:?}");
            let [red, green, blue] = image.to_rgb8().get_pixel(0, 0).0;
            assert!(red.abs_diff(10) < 6 && green.abs_diff(200) < 6 && blue.abs_diff(30) < 6, "{format:?}");
        }
    }
}

#[test]
fn areas_are_averaged_in_proportion() {
    let shades: DynamicImage = GrayImage::from_raw(3, 1, vec![0, 90, 180]).unwrap().into();
    let (_, halves) = scaled(&encode(&shades, ImageFormat::Png), ImageBounds { max_side: 2, ..ROOMY });
    assert_eq!(halves.to_luma8().into_raw(), [30, 150]);
    let strip = plain_rgb(10_000, 3, [1, 2, 3]);
    let (encoded, _) = scaled(&encode(&strip, ImageFormat::Png), ImageBounds { max_side: 100, ..ROOMY });
    assert_eq!((encoded.width, encoded.height), (100, 1), "no side vanishes");
    let deep = ImageBuffer::<image::Luma<u16>, _>::from_pixel(300, 300, image::Luma([0x8000]));
    let (_, one) = scaled(&encode(&deep.into(), ImageFormat::Png), ImageBounds { max_side: 1, ..ROOMY });
    assert_eq!(one.to_luma8().into_raw(), [0x80]);
}

#[test]
fn claims_of_header_are_refused() {
    let expected = "it has 100000 × 100000 pixels; at most 100 megapixels are decoded";
    assert_eq!(reason(&png_that_claims(100_000, 100_000)), expected);
    let expected = "it has 10001 × 10000 pixels; at most 100 megapixels are decoded";
    assert_eq!(reason(&png_that_claims(10_001, 10_000)), expected);
    // Below that limit, but not below that of the memory.
    assert_eq!(reason(&png_that_claims(10_000, 9_999)), "decoding it takes more memory than allowed");
    for format in FORMATS {
        let content = encode(&noisy_rgb(200, 200), format);
        let error = scale_image(content, "image/png", ROOMY, 200_000).unwrap_err().to_string();
        assert_eq!(error, "decoding it takes more memory than allowed", "{format:?}");
    }
}

#[test]
fn truncated_and_random_bytes_end_cleanly() {
    for format in FORMATS {
        let whole = encode(&noisy_rgb(24, 17), format);
        let is_scaled = |content: &[u8]| scale(content, ROOMY).is_ok();
        assert!(is_scaled(&whole), "{format:?}");
        let cuts = (0..whole.len()).step_by(1 + whole.len() / 200);
        // Decoders may show what has arrived, as browsers do.
        let shown = cuts.clone().filter(|length| is_scaled(&whole[..*length])).count();
        assert!(shown < cuts.count(), "{format:?}");
        for seed in 1..40 {
            let noise: Vec<u8> = Noise::new(seed).take(3_000).collect();
            for kept_bytes in [12, 30, 60] {
                let head = &whole[..kept_bytes];
                // What matters is that each call returns.
                let _outcome = scale(&[head, &noise].concat(), ROOMY);
            }
        }
    }
}

#[test]
fn bytes_decide_not_the_type() {
    let png = encode(&plain_rgb(2, 2, [1; 3]), ImageFormat::Png);
    for mime in ["image/jpeg", "image/heic", "text/plain"] {
        assert!(scale_image(png.clone(), mime, ROOMY, 512 << 20).is_ok());
    }
    let avif = b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf";
    for bytes in [&b"%PDF-1.7"[..], b"\0\0\0\x18ftypisom\0\0\x02\0isommp41", avif, b"\0\0\x01\0\x01\0", b"<svg/>", b""]
    {
        let error = scale(bytes, ROOMY).unwrap_err();
        let expected =
            "by its bytes it is no PNG, JPEG, WebP, GIF, BMP, TIFF or HEIC (its type was given as image/png)";
        assert_eq!(error, FileDecodeError::Unsupported(expected.to_owned()));
    }
}

#[test]
fn heic_is_recognised_by_any_brand() {
    for (head, expected) in [
        (&b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"[..], true),
        (b"\0\0\0\x10ftypheix\0\0\0\0", true),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1miaf", true),
        (b"\0\0\0\x18ftyp1pic\0\0\0\0miafheim", true),
        (b"\0\0\0\x14ftypmsf1\0\0\0\0heis", true),
        // Behind the brands is something else.
        (b"\0\0\0\x14ftypisom\0\0\0\0mp41heic", false),
        (b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf", false),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif", false),
        (b"\0\0\0\x18moovheic\0\0\0\0mif1heic", false),
        (b"\0\0\0\x18ftypheic", false),
    ] {
        assert_eq!(heic::is_heic(head), expected, "{}", head.escape_ascii());
    }
}

#[cfg(not(feature = "heic"))]
#[test]
fn build_without_heic_is_explained() {
    let expected = "it is HEIC, which this build of satchel-decoder doesn't read";
    let error = scale(&crate::image_fixtures::heic("plain"), ROOMY).unwrap_err();
    assert_eq!(error, FileDecodeError::Unsupported(expected.to_owned()));
}
