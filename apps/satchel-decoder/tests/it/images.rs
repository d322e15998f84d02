//! An image of each format passes through the worker, and a hostile one costs no more than that.

use std::time::{Duration, Instant};

use image::{GrayImage, ImageBuffer, ImageFormat, Luma, load_from_memory};
use satchel_decoders::{DecoderSettings, protocol::MAX_CHUNK_BYTES};
use satchel_ports::{ImageError, ScaledImage};
use tokio_util::sync::CancellationToken;

use crate::{
    harness::{scale, settings},
    image_fixtures::{
        FORMATS, LOCATION, animated_gif, animated_webp, encode, encode_with_exif, heic, noisy_rgb, noisy_rgba,
        plain_rgb, png_that_claims,
    },
};

async fn scaled(content: Vec<u8>) -> Result<ScaledImage, ImageError> {
    scale(settings(), content, &CancellationToken::new()).await
}

/// An image that takes much longer to decode than to send.
fn slow_png() -> Vec<u8> {
    encode(&GrayImage::new(9_900, 9_900).into(), ImageFormat::Png)
}

#[tokio::test]
async fn each_image_format_is_scaled() {
    for format in FORMATS {
        let result = scaled(encode(&noisy_rgb(200, 150), format)).await.unwrap();
        assert_eq!((result.width, result.height), (150, 113), "{format:?}");
        let image = load_from_memory(&result.content).unwrap();
        assert_eq!((image.width(), image.height()), (150, 113), "{format:?}");
    }
    let result = scaled(encode_with_exif(&noisy_rgb(200, 150), ImageFormat::Jpeg, 6)).await.unwrap();
    assert_eq!((result.mime.as_str(), result.width, result.height), ("image/jpeg", 113, 150));
    assert!(!result.content.windows(LOCATION.len()).any(|window| window == LOCATION));
    for (name, size) in [("plain", (96, 64)), ("turned", (96, 64)), ("tiles-turned", (150, 100))] {
        let result = scaled(heic(name)).await.unwrap();
        assert_eq!((result.width, result.height), size, "{name}");
    }
    let frames = [noisy_rgba(20, 20).to_rgba8(), noisy_rgba(20, 20).to_rgba8()];
    for animation in [animated_gif(&frames), animated_webp(&frames)] {
        let result = scaled(animation).await.unwrap();
        assert_eq!((result.mime.as_str(), result.width, result.height), ("image/png", 20, 20));
    }
}

#[tokio::test]
async fn result_of_many_chunks_is_whole() {
    let image = noisy_rgba(150, 150);
    let result = scaled(encode(&image, ImageFormat::Png)).await.unwrap();
    assert!(result.content.len() > MAX_CHUNK_BYTES, "{}", result.content.len());
    assert_eq!(load_from_memory(&result.content).unwrap(), image);
}

#[tokio::test]
async fn hostile_image_costs_one_worker() {
    let error = scaled(png_that_claims(100_000, 100_000)).await.unwrap_err().to_string();
    assert_eq!(error, "it has 100000 × 100000 pixels; at most 100 megapixels are decoded");
    // Its pixels may take half of the memory, but then there is too little for another copy.
    let small = DecoderSettings { memory_bytes: 128 << 20, ..settings() };
    let deep = ImageBuffer::<Luma<u16>, _>::new(5_700, 5_700);
    let result = scale(small, encode(&deep.into(), ImageFormat::Png), &CancellationToken::new()).await;
    assert_eq!(result.unwrap_err().to_string(), "scaling it takes more memory than 134 MB");
    let quick = DecoderSettings { time_limit: Duration::from_millis(100), ..settings() };
    let result = scale(quick, slow_png(), &CancellationToken::new()).await;
    assert_eq!(result.unwrap_err().to_string(), "scaling it took longer than 0.1 s");
    let next = scaled(encode(&plain_rgb(9, 9, [1; 3]), ImageFormat::Png)).await.unwrap();
    assert_eq!((next.width, next.height), (9, 9), "the next image is scaled");
}

#[tokio::test]
async fn large_image_needs_no_second_copy() {
    let content = encode(&plain_rgb(5_700, 5_700, [7; 3]), ImageFormat::Png);
    // The pixels take 93 MiB, and the stacks and heaps that a worker reserves about 145 MiB.
    let settings = DecoderSettings { memory_bytes: 290 << 20, ..settings() };
    let result = scale(settings, content, &CancellationToken::new()).await.unwrap();
    assert_eq!((result.width, result.height), (150, 150));
}

#[tokio::test]
async fn cancelled_image_returns_at_once() {
    let (content, cancel) = (slow_png(), CancellationToken::new());
    let start = Instant::now();
    let cancelling = async {
        // In the midst of the work, which says nothing before its end.
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancel.cancel();
        Instant::now()
    };
    let (result, cancelled) = tokio::join!(scale(settings(), content, &cancel), cancelling);
    assert_eq!(result, Err(ImageError::Cancelled));
    assert!(cancelled.elapsed() < Duration::from_secs(1), "{:?} after {:?}", cancelled.elapsed(), start.elapsed());
}

#[tokio::test]
async fn no_image_is_named_with_its_type() {
    let expected = "by its bytes it is no PNG, JPEG, WebP, GIF, BMP, TIFF or HEIC (its type was given as image/png)";
    let error = scaled(b"%PDF-1.7 and so on".to_vec()).await.unwrap_err();
    assert_eq!(error, ImageError::Unsupported { reason: expected.to_owned() });
}
