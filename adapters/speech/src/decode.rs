//! OGG/Opus as samples: to see that it is what it should be, and for programs that read only WAV.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
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

/// Hands the samples of an OGG/Opus to `take`, mixed down to one channel.
pub(crate) fn decode(
    source: impl Read,
    rate: i32,
    mut take: impl FnMut(&[f32]) -> io::Result<()>,
) -> Result<(), opus_pure::Error> {
    let mut reader = OggOpusReader::new(source)?;
    let head = reader.head().clone();
    let channels = usize::from(head.channel_count);
    let mut decoder = head.decoder(rate)?;
    let mut trim = Trim::new(&head, rate, channels)?;
    let mut block = vec![0.0; MAX_PACKET_SAMPLES * channels];
    let mut mono = Vec::new();
    while let Some(packet) = reader.read_packet()? {
        let samples = decoder.decode(&packet.data, MAX_PACKET_SAMPLES, &mut block)?;
        let kept = trim.keep(&packet, &block[..samples * channels]);
        mono.clear();
        #[expect(clippy::cast_precision_loss, reason = "there are two channels at most")]
        mono.extend(kept.chunks_exact(channels).map(|frame| frame.iter().sum::<f32>() / channels as f32));
        take(&mono)?;
    }
    Ok(())
}

/// Writes the samples of an OGG/Opus file as a WAV file: 16 kHz, 16 bits, one channel.
pub(crate) fn to_wav(from: &Path, to: &Path) -> Result<(), opus_pure::Error> {
    let mut wav = BufWriter::new(File::options().write(true).create_new(true).mode(OWNER_ONLY).open(to)?);
    wav.write_all(&header(0))?;
    let mut samples = 0u64;
    decode(io::BufReader::new(File::open(from)?), LISTENING_RATE, |mono| {
        samples += mono.len() as u64;
        if samples > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is longer than two hours"));
        }
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
