//! Opus, whatever container it came in: OGG, WebM or MP4.

use opus_pure::{MAX_PACKET_SAMPLES, OpusDecoder, OpusHead};
use symphonia::core::{codecs::audio::AudioCodecParameters, formats::Track, packet::Packet, units::TimeBase};

use crate::error::FileDecodeError;

/// The rate in which headers and pages of Opus count.
const GRANULE_RATE: u64 = 48_000;

/// Decodes the packets of a track.
pub(super) struct OpusTrack {
    decoder: OpusDecoder,
    channels: usize,
    rate: u32,
    time_base: Option<TimeBase>,
    /// How many samples per channel are still to be skipped, which the encoder put before the sound.
    to_skip: usize,
    block: Vec<f32>,
}

impl OpusTrack {
    pub(super) fn new(track: &Track, parameters: &AudioCodecParameters, rate: u32) -> Result<Self, FileDecodeError> {
        let head = parse_head(parameters.extra_data.as_deref().unwrap_or_default())
            .ok_or_else(|| FileDecodeError::damaged("the header of its Opus sound is damaged"))?;
        let rate_or_none = i32::try_from(rate).map_err(FileDecodeError::damaged)?;
        let decoder = head.decoder(rate_or_none).map_err(|error| FileDecodeError::Unsupported(error.to_string()))?;
        let channels = usize::from(head.channel_count);
        let to_skip = usize::from(head.pre_skip) * rate as usize / GRANULE_RATE as usize;
        let block = vec![0.0; MAX_PACKET_SAMPLES * channels];
        Ok(Self { decoder, channels, rate, time_base: track.time_base, to_skip, block })
    }

    /// Appends the sound of a packet, and returns the rate, the number of channels, and how many samples were skipped.
    pub(super) fn decode(
        &mut self,
        packet: &Packet,
        interleaved: &mut Vec<f32>,
    ) -> Result<(u32, usize, u64), FileDecodeError> {
        let decoded = self.decoder.decode(&packet.data, MAX_PACKET_SAMPLES, &mut self.block);
        let decoded = decoded.map_err(FileDecodeError::damaged)?;
        let start = self.to_skip.min(decoded);
        self.to_skip -= start;
        let end = decoded.saturating_sub(self.trimmed_samples(packet)).max(start);
        interleaved.extend_from_slice(&self.block[start * self.channels..end * self.channels]);
        Ok((self.rate, self.channels, (decoded - (end - start)) as u64))
    }

    /// How many samples at the end of a packet are padding.
    fn trimmed_samples(&self, packet: &Packet) -> usize {
        let seconds = self.time_base.and_then(|time_base| time_base.calc_duration(packet.trim_end));
        let samples = seconds.map_or(0, |time| time.as_nanos() * i128::from(self.rate) / 1_000_000_000);
        usize::try_from(samples).unwrap_or(usize::MAX)
    }
}

/// Parses the header, which OGG and WebM hold as it is. In MP4 its numbers are the other way round (version 0).
fn parse_head(header: &[u8]) -> Option<OpusHead> {
    let (b"OpusHead", &[version, channels, a, b, _, _, _, _, c, d, family, ..]) = header.split_first_chunk::<8>()?
    else {
        return None;
    };
    let (pre_skip, gain) = match version {
        0 => (u16::from_be_bytes([a, b]), i16::from_be_bytes([c, d])),
        _ => (u16::from_le_bytes([a, b]), i16::from_le_bytes([c, d])),
    };
    if !(1..=2).contains(&channels) && family == 0 {
        return None;
    }
    Some(OpusHead {
        channel_count: channels,
        pre_skip,
        input_sample_rate: 0,
        output_gain_q8: gain,
        // With another one than 0, making the decoder fails: surround sound is no voice.
        mapping_family: family,
        stream_count: 1,
        coupled_count: channels.saturating_sub(1),
        channel_mapping: Vec::new(),
    })
}
