//! OGG/Opus as samples: to see that it is what it should be, and for programs that read only WAV.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Weak,
};

use opus_pure::{MAX_PACKET_SAMPLES, OggOpusReader, Trim};

use crate::recording::OWNER_ONLY;

/// The rate that programs which listen want.
const LISTENING_RATE: i32 = 16_000;

/// The longest recording that is unpacked: two hours, 230 MB.
const LONGEST: u64 = 2 * 60 * 60 * 16_000;

/// Whether bytes begin like OGG; what is in it shows later.
pub(crate) fn is_ogg(bytes: &[u8]) -> bool {
    bytes.starts_with(b"OggS")
}

/// Why a recording was not decoded to its end.
#[derive(Debug)]
pub(crate) enum DecodeError {
    /// It has more samples than are allowed.
    TooLong,
    /// Nobody waits for it any more.
    Unwanted,
    /// It is no whole OGG/Opus, can't be read, or its samples can't be taken.
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

/// How far decoding goes. A packet of two bytes decodes to 120 ms, so the size of a file says nothing.
pub(crate) struct Bounds<'a> {
    /// How many samples of each channel are decoded, those included that the file tells to leave out: they cost as much.
    pub(crate) max_samples: u64,
    /// Gone when nobody waits any more. The thread looks at it between packets, since nobody else tells it.
    pub(crate) still_wanted: &'a Weak<()>,
}

/// Hands the samples of an OGG/Opus to `take`, mixed down to one channel.
pub(crate) fn decode(
    source: impl Read,
    rate: i32,
    bounds: &Bounds<'_>,
    mut take: impl FnMut(&[f32]) -> io::Result<()>,
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
        if bounds.still_wanted.strong_count() == 0 {
            return Err(DecodeError::Unwanted);
        }
        let samples = decoder.decode(&packet.data, MAX_PACKET_SAMPLES, &mut block)?;
        decoded += samples as u64;
        if decoded > bounds.max_samples {
            return Err(DecodeError::TooLong);
        }
        let kept = trim.keep(&packet, &block[..samples * channels]);
        mono.clear();
        #[expect(clippy::cast_precision_loss, reason = "there are two channels at most")]
        mono.extend(kept.chunks_exact(channels).map(|frame| frame.iter().sum::<f32>() / channels as f32));
        take(&mono)?;
    }
    Ok(())
}

/// Writes the samples of an OGG/Opus file as a WAV file: 16 kHz, 16 bits, one channel.
pub(crate) fn to_wav(from: &Path, to: &Path, still_wanted: &Weak<()>) -> Result<(), DecodeError> {
    let mut wav = BufWriter::new(File::options().write(true).create_new(true).mode(OWNER_ONLY).open(to)?);
    wav.write_all(&header(0))?;
    let mut samples = 0u64;
    let bounds = Bounds { max_samples: LONGEST, still_wanted };
    decode(io::BufReader::new(File::open(from)?), LISTENING_RATE, &bounds, |mono| {
        samples += mono.len() as u64;
        mono.iter().try_for_each(|sample| wav.write_all(&sixteen_bits(*sample).to_le_bytes()))
    })?;
    wav.seek(SeekFrom::Start(0))?;
    wav.write_all(&header(u32::try_from(samples * 2).expect("two hours fit")))?;
    wav.flush()?;
    Ok(())
}

#[expect(clippy::cast_possible_truncation, reason = "a sample is from -1 to 1")]
fn sixteen_bits(sample: f32) -> i16 {
    (sample.clamp(-1.0, 1.0) * 32_767.0).round() as i16
}

fn header(data_bytes: u32) -> Vec<u8> {
    let rate = LISTENING_RATE.unsigned_abs();
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
    pub(crate) fn recording(packets: usize, told: u32) -> Vec<u8> {
        // Six frames of 20 ms, all of them without a byte.
        let packet = [0xfb, 6];
        let mut writer = OggOpusWriter::new(Vec::new(), OpusHead::new(1, 48_000).unwrap()).unwrap();
        for _ in 0..packets {
            writer.write_packet_with_duration(&packet, told).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn limit_counts_decoded_samples_whatever_the_file_tells() {
        let wanted = Arc::new(());
        // A second of it, and files that tell everything and nothing of that; 1920 samples are a packet.
        for (packets, told, expected) in [(8, 5_760, true), (8, 0, true), (9, 5_760, false), (9, 0, false)] {
            let bounds = Bounds { max_samples: 8 * 1_920, still_wanted: &Arc::downgrade(&wanted) };
            let decoded = decode(Cursor::new(recording(packets, told)), LISTENING_RATE, &bounds, |_| Ok(()));
            assert_eq!(decoded.is_ok(), expected, "{packets} packets that tell {told}: {decoded:?}");
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
        let bounds = Bounds { max_samples: u64::MAX, still_wanted: &still_wanted };
        let decoded = decode(&mut source, LISTENING_RATE, &bounds, |_| Ok(()));
        assert!(matches!(decoded, Err(DecodeError::Unwanted)), "{decoded:?}");
        assert!(source.content.position() < length / 2, "{} of {length} were read", source.content.position());
    }
}
