//! What becomes of sound, good and hostile.

use satchel_decoders::protocol::MAX_CHUNK_BYTES;

use super::*;
use crate::{
    fixtures::Noise,
    sound_fixtures::{SOUNDS, sound, tiny_opus_packets, wav, wav_that_claims},
};

const RATE: u32 = 16_000;
const ROOMY: AudioBounds = AudioBounds { sample_rate: RATE, max_samples: 60 * 60 * 16_000 };

/// Decodes a file to its samples, which come in chunks of the right size.
fn decode(content: &[u8], bounds: AudioBounds) -> Result<Vec<i16>, FileDecodeError> {
    let mut samples = Vec::new();
    let total = decode_sound(content.to_vec(), "audio/test", bounds, |chunk| {
        assert!(!chunk.is_empty() && chunk.len() <= MAX_CHUNK_BYTES && chunk.len().is_multiple_of(2));
        samples.extend(chunk.as_chunks::<2>().0.iter().map(|bytes| i16::from_le_bytes(*bytes)));
    })?;
    assert_eq!(total, samples.len() as u64);
    Ok(samples)
}

fn reason(content: &[u8]) -> String {
    decode(content, ROOMY).unwrap_err().to_string()
}

/// How often a tone goes up through zero in a second, by its middle half.
#[expect(clippy::cast_precision_loss, reason = "a short tone")]
fn hertz(samples: &[i16]) -> f64 {
    let middle = &samples[samples.len() / 4..samples.len() * 3 / 4];
    let rises = middle.windows(2).filter(|pair| pair[0] < 0 && pair[1] >= 0).count();
    rises as f64 * f64::from(RATE) / middle.len() as f64
}

#[test]
fn each_format_becomes_the_same_tone() {
    for fixture in &SOUNDS {
        let samples = decode(fixture.content, ROOMY).unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
        let milliseconds = samples.len() as u64 * 1_000 / u64::from(RATE);
        // What an encoder puts before and behind the sound of an MP3 is heard.
        let (duration, slack) = (fixture.duration_ms, 3 * fixture.packet_ms);
        assert!(milliseconds.abs_diff(duration) <= slack, "{}: {milliseconds} ms", fixture.name);
        assert!((hertz(&samples) - 440.0).abs() < 6.0, "{}: {} Hz", fixture.name, hertz(&samples));
        let loudest = samples.iter().map(|sample| sample.unsigned_abs()).max().unwrap();
        assert!(loudest > 500, "{}: {loudest}", fixture.name);
    }
}

#[test]
fn rates_and_channels_become_one() {
    for (rate, channels) in [(8_000, 1), (16_000, 1), (22_050, 2), (44_100, 2), (48_000, 6), (96_000, 1)] {
        let samples = decode(&wav(rate, channels, rate), ROOMY).unwrap();
        assert_eq!(samples.len(), 16_000, "{rate} Hz, {channels} channels");
        assert!((hertz(&samples) - 440.0).abs() < 3.0, "{rate} Hz: {} Hz", hertz(&samples));
    }
    let same = decode(&wav(16_000, 1, 99), ROOMY).unwrap();
    assert_eq!(same.len(), 99);
    assert!(same.iter().all(|sample| sample.unsigned_abs() <= 16_000));
}

/// The person may speak into one channel only.
#[test]
fn all_channels_are_mixed() {
    for silent in [0, 1] {
        let mut stereo = wav(16_000, 2, 16_000);
        for frame in stereo[44..].as_chunks_mut::<4>().0 {
            frame[2 * silent..2 * silent + 2].fill(0);
        }
        let samples = decode(&stereo, ROOMY).unwrap();
        let loudest = samples.iter().map(|sample| sample.unsigned_abs()).max().unwrap();
        assert!((7_900..8_100).contains(&loudest), "half of 16000: {loudest}");
    }
}

#[test]
fn limit_counts_decoded_samples() {
    let second = AudioBounds { max_samples: 16_000, ..ROOMY };
    assert_eq!(decode(&wav(8_000, 1, 8_000), second).unwrap().len(), 16_000);
    assert_eq!(decode(&wav(8_000, 1, 8_001 + 1_152), second).unwrap_err().to_string(), "it is longer than 0 minutes");
    // Packets that tell everything and nothing of the 120 ms that each of them plays.
    for declared in [5_760, 960, 0] {
        assert!(decode(&tiny_opus_packets(8, 5_760), second).is_ok());
        let result = decode(&tiny_opus_packets(9, declared), second);
        assert_eq!(result.unwrap_err().to_string(), "it is longer than 0 minutes", "{declared}");
    }
}

#[test]
fn claims_of_header_take_no_room() {
    // The header claims 4 GB, of which a tenth of a second came.
    for claimed in [u32::MAX, u32::MAX - 36, 0x7fff_0000] {
        assert_eq!(decode(&wav_that_claims(claimed, 16_000, 1, 1_600), ROOMY).unwrap().len(), 1_600, "{claimed}");
    }
    assert_eq!(reason(&wav(16_000, 1, 0)), "it is damaged: it holds no sound");
    assert!(decode(&wav_that_claims(100, 0, 1, 50), ROOMY).is_err(), "no rate");
    assert!(decode(&wav_that_claims(100, 16_000, 0, 50), ROOMY).is_err(), "no channels");
}

#[test]
fn cut_recording_is_decoded_as_far_as_it_goes() {
    let packets = tiny_opus_packets(2_000, 5_760);
    let (whole, cut) = (2_000 * 1_920, decode(&packets[..packets.len() * 3 / 4], ROOMY).unwrap().len());
    assert!((whole / 2..whole * 4 / 5).contains(&cut), "{cut} of {whole}");
    for name in ["tone.mp3", "live.webm", "tone.aac"] {
        let whole = sound(name);
        let samples = decode(&whole[..whole.len() * 3 / 4], ROOMY).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!((8_000..16_000).contains(&samples.len()), "{name}: {}", samples.len());
    }
}

/// OGG can be joined so, and MP3 is where somebody does it all the same.
#[test]
fn joined_recordings_decode_completely() {
    let bounds = AudioBounds { max_samples: 4 * 16_000, ..ROOMY };
    for (name, slack) in [("opus.ogg", 640), ("vorbis.ogg", 1_000), ("tone.mp3", 1_800)] {
        let joined = decode(&sound(name).repeat(3), bounds).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(joined.len().abs_diff(48_000) <= 3 * slack, "{name}: {}", joined.len());
    }
}

#[test]
fn joined_recordings_may_differ() {
    let joined = [sound("opus.ogg"), sound("vorbis.ogg"), sound("opus.ogg")].concat();
    assert!(decode(&joined, ROOMY).unwrap().len().abs_diff(48_000) <= 3_000);
    // The second one has another rate.
    let slow = include_bytes!("../sound_fixtures/slow.mp3");
    let joined = [&sound("tone.mp3")[..], slow, &sound("tone.mp3")].concat();
    let samples = decode(&joined, ROOMY).unwrap().len();
    assert!(samples.abs_diff(48_000) <= 6_000, "{samples}");
}

/// Videos often have their sound twice, first in a format that few devices play.
#[test]
fn first_decodable_track_is_used() {
    let samples = decode(include_bytes!("../sound_fixtures/two-tracks.mka"), ROOMY).unwrap();
    assert!((15_000..=17_600).contains(&samples.len()), "{}", samples.len());
}

/// The count of frames in the first frame of an MP3 is a claim.
#[test]
fn mp3_decodes_despite_wrong_frame_count() {
    let whole = decode(&sound("tone.mp3"), ROOMY).unwrap().len();
    let honest = sound("tone.mp3");
    let tag = honest.windows(4).position(|window| window == b"Xing" || window == b"Info").unwrap();
    for count in [0_u32, 1, u32::MAX] {
        let mut lying = honest.clone();
        lying[tag + 8..tag + 12].copy_from_slice(&count.to_be_bytes());
        assert_eq!(decode(&lying, AudioBounds { max_samples: 18_000, ..ROOMY }).unwrap().len(), whole, "{count}");
    }
}

#[test]
fn truncated_and_random_bytes_end_cleanly() {
    for fixture in &SOUNDS {
        let whole = fixture.content;
        for length in (0..whole.len()).step_by(1 + whole.len() / 40) {
            // What matters is that each call returns.
            let _outcome = decode(&whole[..length], ROOMY);
        }
        for seed in 1..12 {
            let noise: Vec<u8> = Noise::new(seed).take(3_000).collect();
            for kept_bytes in [8, 40, 200, 600] {
                let _outcome = decode(&[&whole[..kept_bytes], &noise].concat(), ROOMY);
            }
        }
    }
}

#[test]
fn bytes_decide_what_is_sound() {
    let expected = "by its bytes it is no WAV, FLAC, MP3, AAC, OGG, MP4 or WebM (its type was given as audio/test)";
    for content in [&b"%PDF-1.7"[..], b"", b"RIFF\0\0\0\0WEBP", b"\xff\xd8\xff\xe0", b"\xff\xfea\0", b"hello"] {
        assert_eq!(decode(content, ROOMY).unwrap_err(), FileDecodeError::Unsupported(expected.to_owned()));
    }
    let tag = [&b"ID3\x04\0\0\0\0\x02\0"[..], &[0; 256], &sound("tone.mp3")].concat();
    assert_eq!(decode(&tag, ROOMY).unwrap(), decode(&sound("tone.mp3"), ROOMY).unwrap());
}
