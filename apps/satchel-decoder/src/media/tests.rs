//! What containers tell, good and hostile.

use super::*;
use crate::{
    fixtures::Noise,
    sound_fixtures::{SOUNDS, sound, tiny_opus_packets, wav, wav_that_claims},
};

fn measured(content: &[u8]) -> MediaSummary {
    measure(content.to_vec(), "audio/test").unwrap()
}

fn duration(content: &[u8]) -> Option<u64> {
    measured(content).duration_ms
}

#[test]
fn duration_is_right_within_a_packet() {
    for fixture in &SOUNDS {
        let duration_ms = duration(fixture.content).unwrap_or_else(|| panic!("{} has none", fixture.name));
        let (expected, slack) = (fixture.duration_ms, fixture.packet_ms);
        assert!(duration_ms.abs_diff(expected) <= slack, "{}: {duration_ms} ms", fixture.name);
    }
    assert_eq!(duration(&wav(22_050, 2, 44_100)), Some(2_000));
    assert_eq!(duration(&tiny_opus_packets(100, 5_760)), Some(11_993), "without the 312 samples before the sound");
}

#[test]
fn joined_recordings_are_measured_together() {
    for name in ["opus.ogg", "vorbis.ogg", "tone.mp3"] {
        let duration_ms = duration(&sound(name).repeat(3)).unwrap();
        assert!(duration_ms.abs_diff(3_000) <= 180, "{name}: {duration_ms} ms");
    }
}

/// A part of a stream that has been running for hours.
#[test]
fn duration_counts_from_the_first_packet() {
    let mut stream = sound("opus.ogg");
    let hours = 3 * 60 * 60 * 48_000_u64;
    for page in ogg_pages(&stream) {
        let granule = u64::from_le_bytes(stream[page.start + 6..page.start + 14].try_into().unwrap());
        if granule > 0 {
            stream[page.start + 6..page.start + 14].copy_from_slice(&(granule + hours).to_le_bytes());
            set_checksum(&mut stream[page]);
        }
    }
    let duration_ms = duration(&stream).unwrap();
    assert!(duration_ms.abs_diff(1_000) <= 30, "{duration_ms} ms");
}

/// Where the pages of an OGG file are.
fn ogg_pages(content: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut pages = Vec::new();
    let mut start = 0;
    while start < content.len() {
        let segments = usize::from(content[start + 26]);
        let body: usize = content[start + 27..start + 27 + segments].iter().map(|bytes| usize::from(*bytes)).sum();
        pages.push(start..start + 27 + segments + body);
        start += 27 + segments + body;
    }
    pages
}

/// Sets the checksum of a page, which covers the page with a checksum of zero (RFC 3533).
fn set_checksum(page: &mut [u8]) {
    page[22..26].fill(0);
    let checksum = page.iter().fold(0_u32, |checksum, byte| {
        (0..8).fold(checksum ^ (u32::from(*byte) << 24), |sum, _| match sum & 0x8000_0000 {
            0 => sum << 1,
            _ => (sum << 1) ^ 0x04c1_1db7,
        })
    });
    page[22..26].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn video_has_sides_and_sound_has_none() {
    for name in ["video.mp4", "video.webm"] {
        let MediaSummary { width, height, .. } = measured(&sound(name));
        assert_eq!((width, height), (Some(64), Some(48)), "{name}");
    }
    for name in ["tone.m4a", "opus.webm", "tone.mp3"] {
        assert_eq!(measured(&sound(name)).width, None, "{name}");
    }
}

#[test]
fn rotated_video_reports_displayed_sides() {
    let mut video = sound("video.mp4");
    let header = video.windows(4).position(|window| window == b"tkhd").unwrap();
    // Behind the name: version, times, ids and what is reserved.
    let matrix = header + 4 + 40;
    let one = 0x1_0000_i32.to_be_bytes();
    assert_eq!(video[matrix..matrix + 4], one);
    let set = |video: &mut Vec<u8>, index: usize, value: i32| {
        video[matrix + 4 * index..matrix + 4 * index + 4].copy_from_slice(&value.to_be_bytes());
    };
    for (index, value) in [(0, 0), (1, 0x1_0000), (3, -0x1_0000), (4, 0)] {
        set(&mut video, index, value);
    }
    let MediaSummary { width, height, .. } = measured(&video);
    assert_eq!((width, height), (Some(48), Some(64)));
    set(&mut video, 0, 77);
    assert_eq!(measured(&video).width, None, "askew");
}

#[test]
fn impossible_claims_are_absent() {
    let mut video = sound("video.mp4");
    let header = video.windows(4).position(|window| window == b"mvhd").unwrap();
    // Behind the version and the times: ticks per second, and the duration in ticks.
    video[header + 16..header + 20].copy_from_slice(&1_u32.to_be_bytes());
    video[header + 20..header + 24].copy_from_slice(&(u32::MAX - 1).to_be_bytes());
    let duration_ms = duration(&video);
    assert!(duration_ms.is_none_or(|duration_ms| duration_ms < 2_000), "a century is counted again: {duration_ms:?}");
    for claimed in [u32::MAX, 0x7fff_0000] {
        // Counted by packets of 1152 samples, of which the last one is not full.
        let duration_ms = duration(&wav_that_claims(claimed, 16_000, 1, 16_000)).unwrap();
        assert!((1_000..1_072).contains(&duration_ms), "{claimed}: {duration_ms}");
    }
    assert_eq!(duration(&wav(16_000, 1, 0)), None);
}

#[test]
fn hostile_containers_end_cleanly() {
    for fixture in &SOUNDS {
        let whole = fixture.content;
        for length in (0..whole.len()).step_by(1 + whole.len() / 60) {
            let _outcome = measure(whole[..length].to_vec(), "audio/test");
        }
        for seed in 1..20 {
            let noise: Vec<u8> = Noise::new(seed).take(3_000).collect();
            for kept_bytes in [8, 40, 200, 600] {
                let _outcome = measure([&whole[..kept_bytes], &noise].concat(), "audio/test");
            }
        }
    }
}
