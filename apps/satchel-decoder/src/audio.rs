//! Sound: demuxed, decoded, mixed down to one channel and resampled, and sent while it is being decoded.

mod opus_track;
mod sample_output;
mod track_decoder;

use satchel_decoders::protocol::AudioBounds;
use symphonia::core::{
    codecs::{CodecParameters, audio::CODEC_ID_NULL_AUDIO},
    errors::Error,
    formats::{Track, TrackType},
};

use self::{sample_output::SampleOutput, track_decoder::TrackDecoder};
use crate::{
    error::FileDecodeError,
    media::container::{self, Container},
};

/// How many packets in a row may be undecodable. Others are skipped, as when they are played.
const MAX_DAMAGED_PACKETS: u32 = 50;

/// Decodes the sound of a file and passes it on in chunks; returns how many samples there were. The format is recognised
/// by its bytes; `mime` is only named.
pub(crate) fn decode_sound(
    content: Vec<u8>,
    mime: &str,
    bounds: AudioBounds,
    on_chunk: impl FnMut(&[u8]),
) -> Result<u64, FileDecodeError> {
    let Container { mut reader, .. } = container::open(content, mime)?;
    let track = reader.tracks().iter().find(|track| has_decoder(track)).or(reader.first_track(TrackType::Audio));
    let track = track.ok_or_else(|| FileDecodeError::Unsupported("it has no sound".to_owned()))?;
    let (id, mut decoder) = (track.id, TrackDecoder::new(track, bounds.sample_rate)?);
    let mut output = SampleOutput::new(bounds, on_chunk);
    let mut damaged = 0;
    loop {
        let packet = match reader.next_packet() {
            Ok(Some(packet)) => packet,
            Ok(None) => break,
            // A recording that was cut off is heard as far as it goes.
            Err(Error::IoError(_)) => break,
            // The next of several recordings in one file, or another track that starts.
            Err(Error::ResetRequired) => break,
            Err(error) => return Err(container::read_error(&error)),
        };
        if packet.track_id != id {
            continue;
        }
        match decoder.decode(&packet) {
            Ok(block) => {
                damaged = 0;
                output.push(&block)?;
            }
            Err(_) if damaged < MAX_DAMAGED_PACKETS => damaged += 1,
            Err(error) => return Err(error),
        }
    }
    output.finish()
}

fn has_decoder(track: &Track) -> bool {
    matches!(&track.codec_params, Some(CodecParameters::Audio(sound)) if sound.codec != CODEC_ID_NULL_AUDIO)
}

#[cfg(test)]
mod tests;
