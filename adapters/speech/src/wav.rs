//! Reads WAV as it arrives: any chunking, any common sample format, mixed down to one channel.
//!
//! Programs that write to a pipe don't know the length when they write the header, so an absurd length means none.
//! Some, such as piper, write one WAV for each line that they read: consecutive ones are joined.

/// A length from here on means that the program doesn't know it: espeak-ng writes 2 GB, others 4 GB.
const UNKNOWN_LENGTH: u32 = 0x7FF0_0000;

/// The longest format chunk; real ones have 16 to 40 bytes.
const MAX_FORMAT_BYTES: u32 = 1024;

/// Why audio can't be used, as a phrase that follows "it produced".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnsupportedAudio(pub(crate) &'static str);

/// A WAV that is being read.
#[derive(Debug, Default)]
pub(crate) struct WavReader {
    /// The bytes that are not parsed yet: less than a header or a sample frame once `push` returns.
    buffer: Vec<u8>,
    state: State,
    format: Option<WavFormat>,
    /// Whether the samples of the current WAV are complete.
    samples_done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Before the first chunk.
    #[default]
    Start,
    Chunk,
    /// Within a chunk that is not needed.
    Skipping(u64),
    /// Within the samples; `None` where they continue to the end.
    Samples(Option<u64>),
    /// After the samples, where another WAV may start.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WavFormat {
    rate: u32,
    channels: usize,
    sample: SampleFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SampleFormat {
    Unsigned8,
    Signed16,
    Signed24,
    Signed32,
    Float32,
    Float64,
}

impl WavReader {
    /// Whether bytes start like a WAV.
    pub(crate) fn is_wav(bytes: &[u8]) -> bool {
        bytes.starts_with(b"RIFF")
    }

    /// The samples per second, once known.
    pub(crate) fn rate(&self) -> Option<u32> {
        self.format.map(|format| format.rate)
    }

    /// Parses the next bytes and appends their samples, from -1 to 1.
    pub(crate) fn push(&mut self, bytes: &[u8], samples: &mut Vec<f32>) -> Result<(), UnsupportedAudio> {
        self.buffer.extend_from_slice(bytes);
        let mut offset = 0;
        loop {
            let rest = &self.buffer[offset..];
            match self.state {
                State::Start => {
                    let Some(head) = rest.first_chunk::<12>() else { break };
                    if !Self::is_wav(head) || !head.ends_with(b"WAVE") {
                        return Err(UnsupportedAudio("something that isn't WAV"));
                    }
                    self.state = State::Chunk;
                    offset += 12;
                }
                State::Chunk => {
                    let Some(head) = rest.first_chunk::<8>() else { break };
                    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
                    match &head[..4] {
                        b"fmt " if length > MAX_FORMAT_BYTES => {
                            return Err(UnsupportedAudio("WAV with a damaged header"));
                        }
                        b"fmt " => {
                            let end = 8 + length as usize + length as usize % 2;
                            let Some(chunk) = rest.get(..end) else { break };
                            let format = WavFormat::parse(&chunk[8..8 + length as usize])?;
                            if self.format.is_some_and(|current| current.rate != format.rate) {
                                return Err(UnsupportedAudio("WAV whose rate changes in the middle"));
                            }
                            self.format = Some(format);
                            offset += end;
                        }
                        b"data" if self.format.is_none() => return Err(UnsupportedAudio("WAV without a format")),
                        b"data" => {
                            let is_known = (1..UNKNOWN_LENGTH).contains(&length);
                            self.state = State::Samples(is_known.then_some(u64::from(length)));
                            offset += 8;
                        }
                        _ => {
                            self.state = State::Skipping(u64::from(length) + u64::from(length % 2));
                            offset += 8;
                        }
                    }
                }
                State::Skipping(0) => self.state = if self.samples_done { State::End } else { State::Chunk },
                State::Skipping(_) if rest.is_empty() => break,
                State::Skipping(length) => {
                    let skipped = length.min(rest.len() as u64);
                    self.state = State::Skipping(length - skipped);
                    offset += usize::try_from(skipped).expect("no more than is there");
                }
                State::Samples(length) => {
                    let format = self.format.expect("samples come after their format");
                    let available = length
                        .map_or(rest.len(), |length| usize::try_from(length).unwrap_or(usize::MAX).min(rest.len()));
                    let complete = available - available % format.frame_bytes();
                    samples.extend(
                        rest[..complete].chunks_exact(format.frame_bytes()).map(|frame| format.mix_down(frame)),
                    );
                    offset += complete;
                    let remaining = length.map(|length| length - complete as u64);
                    if remaining.is_some_and(|remaining| remaining < format.frame_bytes() as u64) {
                        (self.state, self.samples_done) = (State::End, true);
                        continue;
                    }
                    self.state = State::Samples(remaining);
                    break;
                }
                State::End => {
                    let Some(head) = rest.first_chunk::<8>() else { break };
                    if Self::is_wav(head) {
                        (self.state, self.samples_done) = (State::Start, false);
                        continue;
                    }
                    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
                    self.state = State::Skipping(u64::from(length) + u64::from(length % 2));
                    offset += 8;
                }
            }
        }
        self.buffer.drain(..offset);
        Ok(())
    }

    /// Whether the audio is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.samples_done || self.state == State::Samples(None)
    }
}

impl WavFormat {
    fn parse(chunk: &[u8]) -> Result<Self, UnsupportedAudio> {
        let number = |at: usize| chunk.get(at..at + 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
        let (Some(tag), Some(channels), Some(rate), Some(bits)) = (number(0), number(2), chunk.get(4..8), number(14))
        else {
            return Err(UnsupportedAudio("WAV with a damaged header"));
        };
        // The extensible form names the true one in the first bytes of its identifier.
        let tag = if tag == 0xFFFE { number(24).unwrap_or(0) } else { tag };
        let sample = match (tag, bits) {
            (1, 8) => SampleFormat::Unsigned8,
            (1, 16) => SampleFormat::Signed16,
            (1, 24) => SampleFormat::Signed24,
            (1, 32) => SampleFormat::Signed32,
            (3, 32) => SampleFormat::Float32,
            (3, 64) => SampleFormat::Float64,
            _ => return Err(UnsupportedAudio("WAV in a form other than PCM")),
        };
        let rate = u32::from_le_bytes([rate[0], rate[1], rate[2], rate[3]]);
        let channels = usize::from(channels);
        if !(1_000..=384_000).contains(&rate) || !(1..=8).contains(&channels) {
            return Err(UnsupportedAudio("WAV with an impossible rate or number of channels"));
        }
        Ok(Self { rate, channels, sample })
    }

    fn frame_bytes(&self) -> usize {
        self.channels * self.sample.bytes()
    }

    fn mix_down(&self, frame: &[u8]) -> f32 {
        let sum: f32 = frame.chunks_exact(self.sample.bytes()).map(|bytes| self.sample.decode(bytes)).sum();
        #[expect(clippy::cast_precision_loss, reason = "there are at most eight channels")]
        let mean = sum / self.channels as f32;
        mean
    }
}

impl SampleFormat {
    fn bytes(self) -> usize {
        match self {
            Self::Unsigned8 => 1,
            Self::Signed16 => 2,
            Self::Signed24 => 3,
            Self::Signed32 | Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "sound needs no more than 24 bits"
    )]
    fn decode(self, bytes: &[u8]) -> f32 {
        let sample = match (self, bytes) {
            (Self::Unsigned8, &[a]) => (f32::from(a) - 128.0) / 128.0,
            (Self::Signed16, &[a, b]) => f32::from(i16::from_le_bytes([a, b])) / 32_768.0,
            (Self::Signed24, &[a, b, c]) => i32::from_le_bytes([0, a, b, c]) as f32 / 2_147_483_648.0,
            (Self::Signed32, &[a, b, c, d]) => i32::from_le_bytes([a, b, c, d]) as f32 / 2_147_483_648.0,
            (Self::Float32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
            (Self::Float64, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]) as f32,
            _ => 0.0,
        };
        if sample.is_finite() { sample.clamp(-1.0, 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests;
