//! Cuts the bytes of an answer into whole frames, in one pass over them and within limits.

use std::mem;

use serde_json::Value;

use crate::settings::ModelProvider;

/// The longest frame, in bytes. Real ones have a few thousand.
pub(super) const MAX_FRAME_BYTES: usize = 8 << 20;

/// The most bytes of one answer on the wire, used or not.
pub(super) const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// The most values in a frame, counted by what separates them. Real frames have a few thousand; each takes the memory of
/// dozens of bytes on the wire.
const MAX_FRAME_VALUES: usize = 200_000;

/// The most separators in the texts of an answer: the arguments of calls arrive as texts, and are parsed at the end. Each
/// is a byte, and the longest answers of models have less than a million.
const MAX_TEXT_SEPARATORS: usize = 2_000_000;

/// The most calls in an answer.
const MAX_CALLS: usize = 1_024;

/// How many calls an index may leave out. Real servers count from 0 or 1; proxies that count the blocks of an answer start
/// with the number of those before the first call.
const MAX_CALL_GAP: usize = 16;

/// The most bytes of all calls of an answer, with the copies in gaps.
const MAX_CALL_BYTES: usize = 8 << 20;

/// The most bytes of calls that the client may copy for one frame. A real frame has few entries.
const MAX_COPIED_BYTES: usize = 64 << 20;

/// Why an answer is not passed on any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameError {
    /// A frame or the whole answer has too many bytes.
    TooLong,
    /// A frame would make the client use memory out of all proportion to its bytes.
    TooCostly,
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
    /// How many separators the texts of all frames have.
    text_separators: usize,
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
            text_separators: 0,
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
        let separators = SeparatorCount::new(&self.partial);
        self.text_separators += separators.in_texts;
        if separators.between_values > MAX_FRAME_VALUES || self.text_separators > MAX_TEXT_SEPARATORS {
            return Err(FrameError::TooCostly);
        }
        match &mut self.calls {
            Some(calls) => calls.check(&self.partial),
            None => Ok(()),
        }
    }
}

/// What separates values in a frame: there are at most as many values, and one more.
#[derive(Debug, Default)]
struct SeparatorCount {
    between_values: usize,
    in_texts: usize,
}

impl SeparatorCount {
    fn new(frame: &[u8]) -> Self {
        let mut count = Self::default();
        let (mut is_in_text, mut is_escaped) = (false, false);
        for &byte in frame {
            match byte {
                // No text of JSON goes beyond its line; a comment of the stream may hold a single quotation mark.
                b'\n' => (is_in_text, is_escaped) = (false, false),
                b',' | b':' | b'[' | b'{' if is_in_text => (count.in_texts, is_escaped) = (count.in_texts + 1, false),
                b',' | b':' | b'[' | b'{' => count.between_values += 1,
                // Any of them may be written as `\u002c`.
                b'u' if is_escaped => (count.in_texts, is_escaped) = (count.in_texts + 1, false),
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = is_in_text,
                b'"' => is_in_text = !is_in_text,
                _ => {}
            }
        }
        count
    }
}

/// Counts the calls of a chat completion.
///
/// The client makes room for as many calls as the highest index says and fills the gaps with copies of the call at hand, so
/// that one frame of a hundred bytes could ask for hundreds of gigabytes. It also copies all that it has of a call for each
/// entry of a frame, so that a frame of many entries could multiply a long call by their number.
#[derive(Debug, Default)]
struct CallCounter {
    /// What the client has of each call, by its index.
    calls: Vec<CallSize>,
    /// How many bytes it has of all of them.
    total_bytes: usize,
}

/// How many bytes the client has of a call.
#[derive(Debug, Clone, Copy)]
struct CallSize {
    /// Its id and its name, which are replaced.
    label_bytes: usize,
    /// Its arguments, which are joined.
    argument_bytes: usize,
}

impl CallSize {
    fn total(self) -> usize {
        self.label_bytes + self.argument_bytes
    }
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
        let mut copied_bytes = 0;
        for call in calls.into_iter().flatten() {
            let index = call.get("index").and_then(Value::as_u64);
            // The client takes a function that is no object, too.
            let (Some(index), Some(function)) = (index, call.get("function")) else { continue };
            let length = |value: Option<&Value>| value.and_then(Value::as_str).map_or(0, str::len);
            let size = CallSize {
                label_bytes: length(call.get("id")) + length(function.get("name")),
                argument_bytes: length(function.get("arguments")),
            };
            copied_bytes += self.add(index, size)?;
            if copied_bytes > MAX_COPIED_BYTES {
                return Err(FrameError::TooCostly);
            }
        }
        Ok(())
    }

    /// Adds what a frame has of a call. Returns how many bytes the client copies for it.
    fn add(&mut self, index: u64, added: CallSize) -> Result<usize, FrameError> {
        let count = self.calls.len();
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if index >= MAX_CALLS || index > count + MAX_CALL_GAP {
            return Err(FrameError::TooCostly);
        }
        let (new_bytes, copied_bytes) = match self.calls.get_mut(index) {
            Some(call) => {
                let before = call.total();
                // Servers that repeat both with each chunk replace them with the same.
                call.label_bytes = call.label_bytes.max(added.label_bytes);
                call.argument_bytes += added.argument_bytes;
                (call.total() - before, call.total())
            }
            None => {
                self.calls.resize(index + 1, added);
                let bytes = added.total() * (index + 1 - count);
                (bytes, bytes)
            }
        };
        self.total_bytes += new_bytes;
        match self.total_bytes > MAX_CALL_BYTES {
            true => Err(FrameError::TooCostly),
            false => Ok(copied_bytes),
        }
    }
}

#[cfg(test)]
mod tests;
