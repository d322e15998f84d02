//! The decoder of one track: Symphonia's, or for Opus that of opus-pure, which Symphonia lacks.

use symphonia::{
    core::{
        codecs::{
            CodecParameters,
            audio::{AudioDecoder, AudioDecoderOptions, well_known::CODEC_ID_OPUS},
        },
        formats::Track,
        packet::Packet,
    },
    default::get_codecs,
};

use super::opus_track::OpusTrack;
use crate::{
    error::FileDecodeError,
    media::container::{MediaFormat, read_error},
};

/// Samples per second that exist; what claims others is damaged.
const SAMPLE_RATES: std::ops::RangeInclusive<u32> = 1_000..=384_000;

/// The most samples per channel that a packet holds in any format, whatever it says to skip.
const MAX_PACKET_FRAMES: u64 = 1 << 16;

/// The sound of a packet.
pub(super) struct SoundBlock<'a> {
    /// Of one channel, from -1 to 1.
    pub(super) samples: &'a [f32],
    /// In samples per second.
    pub(super) rate: u32,
    /// How many samples per channel were decoded, with those that the file says to skip: they cost as much.
    pub(super) decoded: u64,
}

/// Decodes the packets of a track.
pub(super) struct TrackDecoder {
    codec: Codec,
    /// Whether what a packet says to skip is skipped.
    is_gapless: bool,
    interleaved: Vec<f32>,
    mono: Vec<f32>,
}

enum Codec {
    Opus(Box<OpusTrack>),
    Other(Box<dyn AudioDecoder>),
}

impl TrackDecoder {
    /// Sets up the decoder of a track. Opus is decoded to `opus_rate`, at no cost.
    pub(super) fn new(format: MediaFormat, track: &Track, opus_rate: u32) -> Result<Self, FileDecodeError> {
        let Some(CodecParameters::Audio(parameters)) = &track.codec_params else {
            return Err(FileDecodeError::Unsupported("its sound has an unknown format".to_owned()));
        };
        // How long an MP3 plays is a guess, behind which nothing may be cut.
        let is_gapless = format != MediaFormat::Mpeg;
        let codec = match parameters.codec {
            CODEC_ID_OPUS => Codec::Opus(Box::new(OpusTrack::new(track, parameters, opus_rate)?)),
            _ => {
                let options = AudioDecoderOptions::default().gapless(is_gapless);
                let decoder = get_codecs().make_audio_decoder(parameters, &options);
                Codec::Other(decoder.map_err(|error| read_error(&error))?)
            }
        };
        Ok(Self { codec, is_gapless, interleaved: Vec::new(), mono: Vec::new() })
    }

    /// Decodes the next packet. After an error the next one may be decodable.
    pub(super) fn decode(&mut self, packet: &Packet) -> Result<SoundBlock<'_>, FileDecodeError> {
        self.interleaved.clear();
        let (rate, channels, skipped) = match &mut self.codec {
            Codec::Opus(opus) => opus.decode(packet, &mut self.interleaved)?,
            Codec::Other(decoder) => {
                let decoded = decoder.decode(packet).map_err(|error| read_error(&error))?;
                let (rate, channels) = (decoded.spec().rate(), decoded.spec().channels().count());
                decoded.copy_to_vec_interleaved(&mut self.interleaved);
                let skipped = packet.trim_start.get().saturating_add(packet.trim_end.get()).min(MAX_PACKET_FRAMES);
                (rate, channels, if self.is_gapless { skipped } else { 0 })
            }
        };
        if channels == 0 || !SAMPLE_RATES.contains(&rate) {
            return Err(FileDecodeError::damaged("its sound has an impossible rate or number of channels"));
        }
        mix_down(&self.interleaved, channels, &mut self.mono);
        let decoded = skipped.saturating_add(self.mono.len() as u64);
        Ok(SoundBlock { samples: &self.mono, rate, decoded })
    }
}

/// Mixes channels down to one. Files with samples of 32 bits can hold anything, also what is no number.
fn mix_down(interleaved: &[f32], channels: usize, mono: &mut Vec<f32>) {
    mono.clear();
    #[expect(clippy::cast_precision_loss, reason = "there are some channels")]
    let share = 1.0 / channels as f32;
    mono.extend(interleaved.chunks_exact(channels).map(|frame| {
        let mean = frame.iter().sum::<f32>() * share;
        if mean.is_finite() { mean.clamp(-1.0, 1.0) } else { 0.0 }
    }));
}
