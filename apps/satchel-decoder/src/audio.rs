//! Sound: demuxed, decoded, mixed down to one channel and resampled, and sent while it is being decoded.

mod opus_track;
mod sample_output;
mod track_decoder;

use satchel_decoders::protocol::AudioBounds;
use symphonia::core::{codecs::CodecParameters, errors::Error, formats::FormatReader};

use self::{sample_output::SampleOutput, track_decoder::TrackDecoder};
use crate::{
    error::FileDecodeError,
    media::container::{self, Container, MediaFormat},
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
    let Container { format, mut reader } = container::open(content, mime)?;
    let mut output = SampleOutput::new(bounds, on_chunk);
    while let RecordingEnd::NextFollows = decode_recording(format, reader.as_mut(), bounds.sample_rate, &mut output)? {}
    output.finish()
}

/// How a recording within a file ended.
enum RecordingEnd {
    /// With the file.
    File,
    /// Another recording follows, with tracks of its own: OGG can be joined so.
    NextFollows,
}

fn decode_recording<F: FnMut(&[u8])>(
    format: MediaFormat,
    reader: &mut dyn FormatReader,
    sample_rate: u32,
    output: &mut SampleOutput<F>,
) -> Result<RecordingEnd, FileDecodeError> {
    let (id, mut decoder) = open_track(format, reader, sample_rate)?;
    let mut damaged = 0;
    loop {
        let packet = match reader.next_packet() {
            Ok(Some(packet)) => packet,
            Ok(None) => return Ok(RecordingEnd::File),
            // A recording that was cut off is heard as far as it goes.
            Err(Error::IoError(_)) => return Ok(RecordingEnd::File),
            Err(Error::ResetRequired) => return Ok(RecordingEnd::NextFollows),
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
            Err(_) if damaged < MAX_DAMAGED_PACKETS => {
                damaged += 1;
                // Another rate or number of channels is an error to the decoder of MP3, and none to a new one.
                if format == MediaFormat::Mpeg {
                    (_, decoder) = open_track(format, reader, sample_rate)?;
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Opens the first track that can be decoded: videos often have their sound in several formats.
fn open_track(
    format: MediaFormat,
    reader: &dyn FormatReader,
    sample_rate: u32,
) -> Result<(u32, TrackDecoder), FileDecodeError> {
    let mut first_error = None;
    for track in reader.tracks().iter().filter(|track| matches!(track.codec_params, Some(CodecParameters::Audio(_)))) {
        match TrackDecoder::new(format, track, sample_rate) {
            Ok(decoder) => return Ok((track.id, decoder)),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| FileDecodeError::Unsupported("it has no sound".to_owned())))
}

#[cfg(test)]
mod tests;
