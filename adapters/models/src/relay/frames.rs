//! Cuts the bytes of an answer into whole frames, in one pass over them and within limits.

use std::mem;

use serde_json::Value;

use crate::settings::ModelProvider;

/// The longest frame, in bytes. Real ones have a few thousand.
pub(super) const MAX_FRAME_BYTES: usize = 8 << 20;

/// The most bytes of one answer on the wire, used or not.
pub(super) const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// Why an answer is not passed on any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameError {
    /// A frame or the whole answer has too many bytes.
    TooLong,
    /// A frame would make the client reserve memory for calls that don't exist.
    ImpossibleCall,
}

/// Where frames end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameFormat {
    /// Each line is a frame.
    JsonLines,
    /// A blank line ends a frame; a line ends with a line feed, a carriage return, or both.
    EventStream,
}

impl FrameFormat {
    fn is_line_break(self, byte: u8) -> bool {
        byte == b'\n' || (byte == b'\r' && self == Self::EventStream)
    }
}

/// The part of an answer that is not passed on yet.
///
/// The client joins the pieces of a frame with each piece that it gets, and takes a carriage return at the end of a piece
/// for a line break of its own. So it gets whole frames alone, with a line feed for each line break.
pub(super) struct FrameBuffer {
    format: FrameFormat,
    /// The beginning of a frame whose end has not arrived.
    partial: Vec<u8>,
    /// How many bytes have arrived.
    total_bytes: usize,
    /// Whether nothing of the current line has arrived.
    is_line_empty: bool,
    /// Whether the last byte was a carriage return, to which a line feed belongs.
    follows_return: bool,
    /// Counts the calls where the client makes room by their index.
    calls: Option<CallCounter>,
}

impl FrameBuffer {
    pub(super) fn new(provider: ModelProvider) -> Self {
        let format = match provider {
            ModelProvider::Ollama => FrameFormat::JsonLines,
            _ => FrameFormat::EventStream,
        };
        Self {
            format,
            partial: Vec::new(),
            total_bytes: 0,
            is_line_empty: true,
            follows_return: false,
            calls: (provider == ModelProvider::OpenAi).then(CallCounter::default),
        }
    }

    /// Adds the next bytes, and returns the frames that they complete.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<Vec<u8>, FrameError> {
        self.total_bytes += chunk.len();
        if self.total_bytes > MAX_RESPONSE_BYTES {
            return Err(FrameError::TooLong);
        }
        let format = self.format;
        let mut complete = Vec::new();
        for line in chunk.split_inclusive(|byte| format.is_line_break(*byte)) {
            let (text, line_break) = match line.split_last() {
                Some((last, text)) if format.is_line_break(*last) => (text, Some(*last)),
                _ => (line, None),
            };
            let ends_same_line = self.follows_return && text.is_empty() && line_break == Some(b'\n');
            self.follows_return = line_break == Some(b'\r');
            if ends_same_line {
                continue;
            }
            if self.push_line(text, line_break.is_some())? {
                complete.append(&mut self.partial);
            }
        }
        Ok(complete)
    }

    /// Adds a part of a line, and returns whether it completes a frame.
    fn push_line(&mut self, text: &[u8], is_complete: bool) -> Result<bool, FrameError> {
        if self.partial.len() + text.len() > MAX_FRAME_BYTES {
            return Err(FrameError::TooLong);
        }
        self.partial.extend_from_slice(text);
        let is_line_empty = self.is_line_empty && text.is_empty();
        self.is_line_empty = is_complete || is_line_empty;
        if !is_complete {
            return Ok(false);
        }
        self.partial.push(b'\n');
        if self.format == FrameFormat::EventStream && !is_line_empty {
            return Ok(false);
        }
        self.check_partial()?;
        Ok(true)
    }

    /// Returns what follows the last complete frame, once the answer has ended: some servers leave out the last end.
    pub(super) fn finish(&mut self) -> Result<Vec<u8>, FrameError> {
        self.check_partial()?;
        Ok(mem::take(&mut self.partial))
    }

    fn check_partial(&mut self) -> Result<(), FrameError> {
        match &mut self.calls {
            Some(calls) => calls.check(&self.partial),
            None => Ok(()),
        }
    }
}

/// Counts the calls of a chat completion.
///
/// The client makes room for as many calls as the highest index says and fills the gaps with copies of the call at hand, so
/// that one frame of a hundred bytes could ask for hundreds of gigabytes. Real servers count from 0, a few from 1.
#[derive(Debug, Default)]
struct CallCounter {
    count: u64,
}

impl CallCounter {
    /// Checks the calls of a frame; what the client can't read has none.
    fn check(&mut self, frame: &[u8]) -> Result<(), FrameError> {
        let Ok(text) = std::str::from_utf8(frame) else { return Ok(()) };
        // A key may be written with escapes.
        if !text.contains("tool_calls") && !text.contains("\\u") {
            return Ok(());
        }
        let data = text.lines().filter_map(|line| line.trim().strip_prefix("data:")).map(str::trim);
        let data = data.collect::<Vec<_>>().join("\n");
        let Ok(json) = serde_json::from_str::<Value>(&data) else { return Ok(()) };
        let calls = json.pointer("/choices/0/delta/tool_calls").and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            let index = call.get("index").and_then(Value::as_u64);
            let Some(index) = index.filter(|_| call.get("function").is_some_and(Value::is_object)) else { continue };
            if index > self.count + 1 {
                return Err(FrameError::ImpossibleCall);
            }
            self.count = self.count.max(index + 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
