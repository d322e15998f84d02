//! Decodes the OGG/Opus of the operator's own engine, to validate and to measure it. What people send is decoded in a
//! worker (ADR 0020).

use std::{
    io::{self, Read},
    sync::Weak,
};

use opus_pure::{MAX_PACKET_SAMPLES, OggOpusReader, Trim};

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
    /// It is not complete OGG/Opus, or its samples can't be processed.
    Opus,
}

impl From<opus_pure::Error> for DecodeError {
    fn from(_: opus_pure::Error) -> Self {
        Self::Opus
    }
}

impl From<io::Error> for DecodeError {
    fn from(_: io::Error) -> Self {
        Self::Opus
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

#[cfg(test)]
mod tests {
    use std::{
        io::Cursor,
        sync::{Arc, Mutex},
    };

    use opus_pure::{OggOpusWriter, OpusHead};

    use super::*;

    /// A rate at which 1920 samples are a packet.
    const RATE: i32 = 16_000;

    /// A recording of packets that have two bytes and decode to 120 ms each. Its pages tell that it lasts
    /// `told` samples a packet.
    fn recording(packets: usize, declared_samples: u32) -> Vec<u8> {
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
            let decoded = decode(Cursor::new(recording(packets, declared)), RATE, &bounds, |_| Ok(()));
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
        let decoded = decode(&mut source, RATE, &bounds, |_| Ok(()));
        assert!(matches!(decoded, Err(DecodeError::Cancelled)), "{decoded:?}");
        assert!(source.content.position() < length / 2, "{} of {length} were read", source.content.position());
    }
}
