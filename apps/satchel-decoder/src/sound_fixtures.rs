//! Sound for tests: a tone of 440 Hz in each format, made by ffmpeg, and files that lie about themselves.

use opus_pure::{OggOpusWriter, OpusHead};

/// A file in which the tone sounds for a second.
pub(crate) struct SoundFixture {
    pub(crate) name: &'static str,
    pub(crate) content: &'static [u8],
    /// How long it plays, in milliseconds.
    pub(crate) duration_ms: u64,
    /// How long one of its packets plays, rounded up: what a container may leave open.
    pub(crate) packet_ms: u64,
}

macro_rules! fixture {
    ($name:literal, $duration_ms:literal, $packet_ms:literal) => {
        SoundFixture {
            name: $name,
            content: include_bytes!(concat!("sound_fixtures/", $name)),
            duration_ms: $duration_ms,
            packet_ms: $packet_ms,
        }
    };
}

/// Each container with each codec that is decoded.
pub(crate) const SOUNDS: [SoundFixture; 13] = [
    fixture!("tone.flac", 1_000, 1),
    fixture!("tone.mp3", 1_000, 27),
    fixture!("tone.m4a", 1_000, 24),
    fixture!("frag.m4a", 1_000, 47),
    fixture!("tone.aac", 1_000, 48),
    fixture!("opus.ogg", 1_000, 20),
    fixture!("opus.webm", 1_000, 20),
    fixture!("live.webm", 1_000, 20),
    fixture!("opus.mp4", 1_000, 20),
    fixture!("vorbis.ogg", 1_000, 24),
    fixture!("vorbis.mka", 1_000, 24),
    fixture!("video.mp4", 1_000, 47),
    fixture!("video.webm", 1_000, 20),
];

/// One of them, by its name.
pub(crate) fn sound(name: &str) -> Vec<u8> {
    SOUNDS.iter().find(|sound| sound.name == name).expect("there is such a fixture").content.to_vec()
}

/// A WAV of 16 bits whose header claims a number of bytes: the tone, the same in each channel.
#[expect(clippy::cast_possible_truncation, reason = "16 bits of a short tone")]
pub(crate) fn wav_that_claims(claimed: u32, rate: u32, channels: u16, frames: u32) -> Vec<u8> {
    let frame_bytes = channels * 2;
    let mut wav = b"RIFF".to_vec();
    wav.extend(claimed.saturating_add(36).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0");
    wav.extend(channels.to_le_bytes());
    wav.extend(rate.to_le_bytes());
    wav.extend((rate * u32::from(frame_bytes)).to_le_bytes());
    wav.extend(frame_bytes.to_le_bytes());
    wav.extend(b"\x10\0data");
    wav.extend(claimed.to_le_bytes());
    for frame in 0..frames {
        let phase = f64::from(frame) * 440.0 / f64::from(rate) * std::f64::consts::TAU;
        let sample = ((phase.sin() * 16_000.0) as i16).to_le_bytes();
        wav.extend(sample.repeat(usize::from(channels)));
    }
    wav
}

/// An honest WAV.
pub(crate) fn wav(rate: u32, channels: u16, frames: u32) -> Vec<u8> {
    wav_that_claims(frames * u32::from(channels) * 2, rate, channels, frames)
}

/// OGG/Opus whose packets have two bytes and play 120 ms each. Its pages tell that they play `declared` samples each.
pub(crate) fn tiny_opus_packets(packets: usize, declared: u32) -> Vec<u8> {
    // Six frames of 20 ms, all of them without a byte.
    let packet = [0xfb, 6];
    let head = OpusHead::new(1, 48_000).expect("one channel is legal");
    let mut writer = OggOpusWriter::new(Vec::new(), head).expect("memory takes all");
    for _ in 0..packets {
        writer.write_packet_with_duration(&packet, declared).expect("memory takes all");
    }
    writer.finish().expect("memory takes all")
}
