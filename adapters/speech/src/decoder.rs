//! Decodes OGG/Opus to samples: to validate it, and for programs that read only WAV.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Weak,
};

use opus_pure::{MAX_PACKET_SAMPLES, OggOpusReader, Trim};

use crate::recording::OWNER_ONLY_MODE;

/// The sample rate that transcription programs expect.
const TRANSCRIPTION_RATE: i32 = 16_000;

/// The longest recording that is converted to WAV: two hours, 230 MB.
const MAX_WAV_SAMPLES: u64 = 2 * 60 * 60 * 16_000;

/// Whether bytes start like OGG; its codec is checked later.
pub(crate) fn is_ogg(bytes: &[u8]) -> bool {
    bytes.starts_with(b"OggS")
}

/// Why a recording was not decoded to its end.
#[derive(Debug)]
pub(crate) enum DecodeError {
    /// It has more samples than are allowed.
    TooLong,
    /// The caller is gone.
    Cancelled,
    /// It is not complete OGG/Opus, can't be read, or its samples can't be processed.
    Opus(opus_pure::Error),
}

impl From<opus_pure::Error> for DecodeError {
    fn from(error: opus_pure::Error) -> Self {
        Self::Opus(error)
    }
}

impl From<io::Error> for DecodeError {
    fn from(error: io::Error) -> Self {
        Self::Opus(error.into())
    }
}

/// The limits of decoding. A packet of two bytes decodes to 120 ms, so the size of a file is no limit.
pub(crate) struct DecodeBounds<'a> {
    /// The most samples per channel, including those that the file says to skip: they cost as much.
    pub(crate) max_samples: u64,
    /// Dropped when the caller is gone. The thread checks it between packets: dropping the future can't stop it.
    pub(crate) caller: &'a Weak<()>,
}

/// Passes the samples of OGG/Opus to `on_samples`, mixed down to one channel.
pub(crate) fn decode(
    source: impl Read,
    rate: i32,
    bounds: &DecodeBounds<'_>,
    mut on_samples: impl FnMut(&[f32]) -> io::Result<()>,
) -> Result<(), DecodeError> {
    let mut reader = OggOpusReader::new(source)?;
    let head = reader.head().clone();
    let channels = usize::from(head.channel_count);
    let mut decoder = head.decoder(rate)?;
    let mut trim = Trim::new(&head, rate, channels)?;
    let mut block = vec![0.0; MAX_PACKET_SAMPLES * channels];
    let mut mono = Vec::new();
    let mut decoded = 0;
    while let Some(packet) = reader.read_packet()? {
        if bounds.caller.strong_count() == 0 {
            return Err(DecodeError::Cancelled);
        }
        let samples = decoder.decode(&packet.data, MAX_PACKET_SAMPLES, &mut block)?;
        decoded += samples as u64;
        if decoded > bounds.max_samples {
            return Err(DecodeError::TooLong);
        }
        let trimmed = trim.keep(&packet, &block[..samples * channels]);
        mono.clear();
        #[expect(clippy::cast_precision_loss, reason = "there are two channels at most")]
        mono.extend(trimmed.chunks_exact(channels).map(|frame| frame.iter().sum::<f32>() / channels as f32));
        on_samples(&mono)?;
    }
    Ok(())
}

/// Converts an OGG/Opus file to WAV: 16 kHz, 16 bits, one channel.
pub(crate) fn write_wav(from: &Path, to: &Path, still_wanted: &Weak<()>) -> Result<(), DecodeError> {
    let mut wav = BufWriter::new(File::options().write(true).create_new(true).mode(OWNER_ONLY_MODE).open(to)?);
    wav.write_all(&wav_header(0))?;
    let mut samples = 0u64;
    let bounds = DecodeBounds { max_samples: MAX_WAV_SAMPLES, caller: still_wanted };
    decode(io::BufReader::new(File::open(from)?), TRANSCRIPTION_RATE, &bounds, |mono| {
        samples += mono.len() as u64;
        mono.iter().try_for_each(|sample| wav.write_all(&sample_to_i16(*sample).to_le_bytes()))
    })?;
    wav.seek(SeekFrom::Start(0))?;
    wav.write_all(&wav_header(u32::try_from(samples * 2).expect("two hours fit")))?;
    wav.flush()?;
    Ok(())
}

#[expect(clippy::cast_possible_truncation, reason = "a sample is from -1 to 1")]
fn sample_to_i16(sample: f32) -> i16 {
    (sample.clamp(-1.0, 1.0) * 32_767.0).round() as i16
}

fn wav_header(data_bytes: u32) -> Vec<u8> {
    let rate = TRANSCRIPTION_RATE.unsigned_abs();
    let mut header = Vec::with_capacity(44);
    header.extend_from_slice(b"RIFF");
    header.extend_from_slice(&(36 + data_bytes).to_le_bytes());
    header.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    header.extend_from_slice(&rate.to_le_bytes());
    header.extend_from_slice(&(rate * 2).to_le_bytes());
    header.extend_from_slice(b"\x02\0\x10\0data");
    header.extend_from_slice(&data_bytes.to_le_bytes());
    header
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        io::Cursor,
        sync::{Arc, Mutex},
    };

    use opus_pure::{OggOpusWriter, OpusHead};

    use super::*;

    /// A recording of packets that have two bytes and decode to 120 ms each. Its pages tell that it lasts
    /// `told` samples a packet.
    pub(crate) fn recording(packets: usize, declared_samples: u32) -> Vec<u8> {
        // Six frames of 20 ms, all of them without a byte.
        let packet = [0xfb, 6];
        let mut writer = OggOpusWriter::new(Vec::new(), OpusHead::new(1, 48_000).unwrap()).unwrap();
        for _ in 0..packets {
            writer.write_packet_with_duration(&packet, declared_samples).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn limit_counts_decoded_samples_whatever_the_file_tells() {
        let wanted = Arc::new(());
        // A second of it, and files that tell everything and nothing of that; 1920 samples are a packet.
        for (packets, declared, expected) in [(8, 5_760, true), (8, 0, true), (9, 5_760, false), (9, 0, false)] {
            let bounds = DecodeBounds { max_samples: 8 * 1_920, caller: &Arc::downgrade(&wanted) };
            let decoded = decode(Cursor::new(recording(packets, declared)), TRANSCRIPTION_RATE, &bounds, |_| Ok(()));
            assert_eq!(decoded.is_ok(), expected, "{packets} packets that tell {declared}: {decoded:?}");
            assert!(expected || matches!(decoded, Err(DecodeError::TooLong)), "{decoded:?}");
        }
    }

    /// Whoever waits gives up while the file is read.
    struct GivenUp {
        content: Cursor<Vec<u8>>,
        waiting: Mutex<Option<Arc<()>>>,
    }

    impl Read for GivenUp {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.content.position() > 1_000 {
                self.waiting.lock().unwrap().take();
            }
            let little = buffer.len().min(100);
            self.content.read(&mut buffer[..little])
        }
    }

    #[test]
    fn abandoned_decoding_stops_at_next_packet() {
        let waiting = Arc::new(());
        let still_wanted = Arc::downgrade(&waiting);
        let content = Cursor::new(recording(100_000, 5_760));
        let length = content.get_ref().len() as u64;
        let mut source = GivenUp { content, waiting: Mutex::new(Some(waiting)) };
        let bounds = DecodeBounds { max_samples: u64::MAX, caller: &still_wanted };
        let decoded = decode(&mut source, TRANSCRIPTION_RATE, &bounds, |_| Ok(()));
        assert!(matches!(decoded, Err(DecodeError::Cancelled)), "{decoded:?}");
        assert!(source.content.position() < length / 2, "{} of {length} were read", source.content.position());
    }
}
