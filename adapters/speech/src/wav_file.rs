//! Writes decoded samples to a WAV file, for programs that read nothing else.

use std::{io, path::Path};

use futures::StreamExt;
use satchel_ports::{ByteStream, DECODED_SAMPLE_RATE};
use tokio::{
    fs::File,
    io::{AsyncSeekExt, AsyncWriteExt, BufWriter},
};

use crate::recording::OWNER_ONLY_MODE;

/// The size of the header that programs write.
pub(crate) const HEADER_BYTES: usize = 44;

/// Where the header says how many bytes follow; before that, it is the same for each file.
const SIZE_OFFSETS: [usize; 2] = [4, 40];

/// Whether a file that starts so is WAV as programs expect it: of one channel, at their rate, of 16 bits.
pub(crate) fn is_transcription_wav(head: &[u8]) -> bool {
    let expected = header(0);
    let is_size = |at: usize| SIZE_OFFSETS.iter().any(|start| (*start..*start + 4).contains(&at));
    head.len() == HEADER_BYTES && (0..HEADER_BYTES).all(|at| is_size(at) || head[at] == expected[at])
}

/// Whether a file that starts so is WAV of any kind.
pub(crate) fn is_wav(head: &[u8]) -> bool {
    head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WAVE")
}

/// Writes a file that only its owner can read. Its header is completed at the end, when the size is known.
pub(crate) async fn write_wav(path: &Path, mut samples: ByteStream) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).mode(OWNER_ONLY_MODE).open(path).await?;
    let mut wav = BufWriter::new(file);
    wav.write_all(&header(0)).await?;
    let mut bytes = 0_u64;
    while let Some(chunk) = samples.next().await {
        let chunk = chunk?;
        bytes += chunk.len() as u64;
        wav.write_all(&chunk).await?;
    }
    wav.rewind().await?;
    wav.write_all(&header(u32::try_from(bytes).map_err(io::Error::other)?)).await?;
    wav.flush().await
}

pub(crate) fn header(data_bytes: u32) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(b"RIFF");
    header.extend_from_slice(&(36_u32.saturating_add(data_bytes)).to_le_bytes());
    header.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    header.extend_from_slice(&DECODED_SAMPLE_RATE.to_le_bytes());
    header.extend_from_slice(&(DECODED_SAMPLE_RATE * 2).to_le_bytes());
    header.extend_from_slice(b"\x02\0\x10\0data");
    header.extend_from_slice(&data_bytes.to_le_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_expected_wav_needs_no_conversion() {
        assert!(is_transcription_wav(&header(77)));
        // A channel, the rate, the bits of a sample.
        for at in [22, 24, 34] {
            let mut other = header(77);
            other[at] ^= 3;
            assert!(!is_transcription_wav(&other), "{at}");
        }
        assert!(!is_transcription_wav(&header(0)[..43]));
    }
}
