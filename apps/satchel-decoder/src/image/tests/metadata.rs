//! No metadata of an image, such as the place where it was taken, is in the scaled one.

use super::*;
use crate::image_fixtures::{png_chunk, with_png_chunks};

/// Texts and bytes of the metadata that must be gone.
const MARKERS: [&[u8]; 7] =
    [b"Minox 35", b"2024:05:14", LATITUDE, b"<x:xmpmeta", b"taken at home", b"profile of a lab", b"private note"];

/// 51° 30' 26" as EXIF has it.
pub(super) const LATITUDE: &[u8] = b"\x33\0\0\0\x01\0\0\0\x1e\0\0\0\x01\0\0\0\x1a\0\0\0\x01\0\0\0";

const XMP: &[u8] = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'/>";

/// The description of a camera, and the latitude and the date of a GPS receiver.
fn exif_with_location() -> Vec<u8> {
    let mut exif = b"II*\0\x08\0\0\0\x02\0".to_vec();
    let (model, location) = (8 + 2 + 2 * 12 + 4, 8 + 2 + 2 * 12 + 4 + 10);
    let values = location + 2 + 3 * 12 + 4;
    let entry = |tag: u16, kind: u16, count: u32, value: u32| {
        [&tag.to_le_bytes()[..], &kind.to_le_bytes(), &count.to_le_bytes(), &value.to_le_bytes()].concat()
    };
    exif.extend(entry(0x0110, 2, 9, model));
    exif.extend(entry(0x8825, 4, 1, location));
    exif.extend(b"\0\0\0\0Minox 35\0\0\x03\0");
    exif.extend(entry(1, 2, 2, u32::from(b'N')));
    exif.extend(entry(2, 5, 3, values));
    exif.extend(entry(29, 2, 11, values + 24));
    exif.extend([&[0; 4], LATITUDE, b"2024:05:14\0"].concat());
    exif
}

fn jpeg_segment(marker: u8, content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    [&[0xff, marker][..], &u16::try_from(content.len() + 2).unwrap().to_be_bytes(), &content].concat()
}

fn jpeg_with_metadata(image: &DynamicImage) -> Vec<u8> {
    let jpeg = encode(image, ImageFormat::Jpeg);
    let (start, rest) = jpeg.split_at(2);
    let exif = jpeg_segment(0xe1, &[b"Exif\0\0", &exif_with_location()]);
    let xmp = jpeg_segment(0xe1, &[b"http://ns.adobe.com/xap/1.0/\0", XMP]);
    let profile = jpeg_segment(0xe2, &[b"ICC_PROFILE\0\x01\x01", &[0; 128], b"profile of a lab"]);
    let (comment, maker) = (jpeg_segment(0xfe, &[b"taken at home"]), jpeg_segment(0xed, &[b"private note"]));
    [start, &exif, &xmp, &profile, &comment, &maker, rest].concat()
}

fn png_with_metadata(image: &DynamicImage) -> Vec<u8> {
    let xmp = [&b"XML:com.adobe.xmp\0\0\0\0\0"[..], XMP].concat();
    let chunks = [
        png_chunk(b"eXIf", &exif_with_location()),
        png_chunk(b"tEXt", b"Comment\0taken at home"),
        png_chunk(b"iTXt", b"Note\0\0\0\0\0private note"),
        png_chunk(b"iTXt", &xmp),
        png_chunk(b"prIv", b"profile of a lab"),
    ];
    with_png_chunks(&encode(image, ImageFormat::Png), &chunks)
}

pub(super) fn holds(content: &[u8], text: &[u8]) -> bool {
    content.windows(text.len()).any(|window| window == text)
}

/// The markers of a JPEG's segments up to its pixels.
fn segments_of_jpeg(jpeg: &[u8]) -> Vec<u8> {
    let (mut markers, mut at) = (Vec::new(), 2);
    while markers.last() != Some(&0xda) {
        markers.push(jpeg[at + 1]);
        at += 2 + usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
    }
    markers
}

/// The names of a PNG's chunks.
fn chunks_of_png(png: &[u8]) -> Vec<[u8; 4]> {
    let (mut names, mut at) = (Vec::new(), 8);
    while let Some(head) = png.get(at..at + 8) {
        names.push(head[4..].try_into().unwrap());
        at += 12 + u32::from_be_bytes(head[..4].try_into().unwrap()) as usize;
    }
    names
}

#[test]
fn scaled_image_holds_only_pixels() {
    for (image, expected) in [(noisy_rgb(64, 64), EncodedFormat::Jpeg), (plain_rgb(64, 64, [9; 3]), EncodedFormat::Png)]
    {
        for content in [jpeg_with_metadata(&image), png_with_metadata(&image)] {
            assert!(MARKERS.into_iter().all(|marker| holds(&content, marker)), "the image has what is to be dropped");
            let (encoded, _) = scaled(&content, ROOMY);
            assert_eq!(encoded.format, expected);
            let left: Vec<_> = MARKERS.into_iter().filter(|marker| holds(&encoded.content, marker)).collect();
            assert!(left.is_empty(), "{left:?}");
            match expected {
                // The header of JFIF, tables, the frame's size and the pixels: no other application's, no comment.
                EncodedFormat::Jpeg => {
                    let other = |marker: &u8| !matches!(marker, 0xe0 | 0xdb | 0xc0 | 0xc4 | 0xda);
                    assert!(!segments_of_jpeg(&encoded.content).iter().any(other));
                }
                EncodedFormat::Png => {
                    let other = |name: &[u8; 4]| !matches!(name, b"IHDR" | b"IDAT" | b"IEND");
                    assert!(!chunks_of_png(&encoded.content).iter().any(other));
                }
            }
        }
    }
}
