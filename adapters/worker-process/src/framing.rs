//! Reads lines of a bounded length: a flood without an end of line costs no more than the longest line.

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// How many bytes are read at once.
const BUFFER_BYTES: usize = 64 << 10;

#[derive(Debug, PartialEq, Eq)]
pub enum LineRead {
    /// A whole line, without its end.
    Line(Vec<u8>),
    /// The line is longer than allowed. What follows can't be parsed.
    TooLong,
    /// The input has ended. An incomplete last line is dropped.
    Closed,
}

/// Reads lines as they arrive.
pub struct LineReader<R> {
    source: BufReader<R>,
    line: Vec<u8>,
    max_line_bytes: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// A reader of lines with at most so many bytes, the end not counted.
    #[must_use]
    pub fn new(source: R, max_line_bytes: usize) -> Self {
        Self { source: BufReader::with_capacity(BUFFER_BYTES, source), line: Vec::new(), max_line_bytes }
    }

    /// Reads the next line. Cancel safe: dropping the call loses nothing.
    pub async fn next(&mut self) -> LineRead {
        let room = self.max_line_bytes + 1 - self.line.len();
        let read = (&mut self.source).take(room as u64).read_until(b'\n', &mut self.line).await;
        if read.is_err() {
            return LineRead::Closed;
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            return LineRead::Line(std::mem::take(&mut self.line));
        }
        if self.line.len() > self.max_line_bytes { LineRead::TooLong } else { LineRead::Closed }
    }

    /// Whether the buffer holds unread bytes.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.source.buffer().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;

    use super::*;

    const MAX_LINE_BYTES: usize = 1 << 20;

    #[tokio::test]
    async fn lines_are_whole_and_trailing_fragment_is_dropped() {
        let mut lines = LineReader::new(Cursor::new(b"one\n\ntwo\r\nha".to_vec()), MAX_LINE_BYTES);
        for expected in ["one", "", "two\r"] {
            assert_eq!(lines.next().await, LineRead::Line(expected.into()));
        }
        assert!(!lines.has_more() || lines.source.buffer() == b"ha");
        assert_eq!(lines.next().await, LineRead::Closed);
        assert_eq!(lines.next().await, LineRead::Closed);
    }

    #[tokio::test]
    async fn longest_line_passes_and_longer_fails() {
        let mut text = vec![b'x'; MAX_LINE_BYTES];
        text.push(b'\n');
        let mut lines = LineReader::new(Cursor::new(text.clone()), MAX_LINE_BYTES);
        assert_eq!(lines.next().await, LineRead::Line(vec![b'x'; MAX_LINE_BYTES]));
        text.insert(0, b'x');
        assert_eq!(LineReader::new(Cursor::new(text), MAX_LINE_BYTES).next().await, LineRead::TooLong);
    }

    #[tokio::test]
    async fn endless_line_uses_bounded_memory() {
        let mut lines = LineReader::new(tokio::io::repeat(b'x'), MAX_LINE_BYTES);
        assert_eq!(lines.next().await, LineRead::TooLong);
        assert!(lines.line.capacity() <= 2 * MAX_LINE_BYTES + BUFFER_BYTES, "{}", lines.line.capacity());
        assert_eq!(lines.next().await, LineRead::TooLong, "asking again reads nothing more");
        assert_eq!(lines.line.len(), MAX_LINE_BYTES + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_dropped_loses_nothing() {
        let (mut far, near) = tokio::io::duplex(4);
        let mut lines = LineReader::new(near, MAX_LINE_BYTES);
        let writing = tokio::spawn(async move {
            for piece in ["on", "e li", "ne\nmo", "re\n"] {
                far.write_all(piece.as_bytes()).await.unwrap();
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        });
        let mut received = Vec::new();
        while received.len() < 2 {
            let result = tokio::time::timeout(std::time::Duration::from_millis(1), lines.next()).await;
            received.extend(result.ok());
        }
        assert_eq!(received, [LineRead::Line(b"one line".to_vec()), LineRead::Line(b"more".to_vec())]);
        writing.await.unwrap();
    }

    proptest! {
        #[test]
        fn any_bytes_come_out_as_their_lines(bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..300)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let heard = runtime.block_on(async {
                let mut lines = LineReader::new(bytes.as_slice(), MAX_LINE_BYTES);
                let mut heard = Vec::new();
                while let LineRead::Line(line) = lines.next().await {
                    heard.push(line);
                }
                heard
            });
            let mut expected: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            expected.pop();
            prop_assert_eq!(heard, expected);
        }
    }
}
