//! The lines of a stream of text, a chunk at a time, with one line in memory.

/// The longest line that is searched whole, in bytes; of a longer one, as in a file without line breaks, only so much
/// is searched. It bounds the memory, and the time before other tasks run again.
const MAX_LINE_BYTES: usize = 64 << 10;

/// The bytes are no text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotTextError;

/// Splits chunks into lines, without their ends.
#[derive(Default)]
pub(super) struct LineSplitter {
    line: Vec<u8>,
    is_line_cut: bool,
    line_number: u64,
    /// The number of lines that were longer than [`MAX_LINE_BYTES`].
    pub(super) cut_lines: u64,
}

impl LineSplitter {
    /// Passes on each line that ends in the chunk, with its number counted from 1.
    ///
    /// # Errors
    /// When the chunk has a NUL byte or a line is not UTF-8. The rest of a line that is cut is not checked for UTF-8.
    pub(super) fn read_chunk(&mut self, chunk: &[u8], on_line: &mut impl FnMut(u64, &str)) -> Result<(), NotTextError> {
        if chunk.contains(&0) {
            return Err(NotTextError);
        }
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let content = piece.strip_suffix(b"\n").unwrap_or(piece);
            let room = MAX_LINE_BYTES - self.line.len();
            self.is_line_cut |= content.len() > room;
            self.line.extend_from_slice(&content[..content.len().min(room)]);
            if content.len() < piece.len() {
                self.end_line(on_line)?;
            }
        }
        Ok(())
    }

    /// Passes on the last line if it has no end.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub(super) fn finish(&mut self, on_line: &mut impl FnMut(u64, &str)) -> Result<(), NotTextError> {
        if self.line.is_empty() { Ok(()) } else { self.end_line(on_line) }
    }

    fn end_line(&mut self, on_line: &mut impl FnMut(u64, &str)) -> Result<(), NotTextError> {
        self.line_number += 1;
        let text = match std::str::from_utf8(&self.line) {
            Ok(text) => text,
            // It was cut within a character.
            Err(error) if self.is_line_cut && error.error_len().is_none() => {
                std::str::from_utf8(&self.line[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(_) => return Err(NotTextError),
        };
        let text = if self.line_number == 1 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text };
        let text = if self.is_line_cut { text } else { text.strip_suffix('\r').unwrap_or(text) };
        on_line(self.line_number, text);
        self.cut_lines += u64::from(self.is_line_cut);
        self.line.clear();
        self.is_line_cut = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(content: &[u8], chunk_bytes: usize) -> Result<(Vec<(u64, String)>, u64), NotTextError> {
        let (mut splitter, mut lines) = (LineSplitter::default(), Vec::new());
        let mut on_line = |number, text: &str| lines.push((number, text.to_owned()));
        content.chunks(chunk_bytes).try_for_each(|chunk| splitter.read_chunk(chunk, &mut on_line))?;
        splitter.finish(&mut on_line)?;
        Ok((lines, splitter.cut_lines))
    }

    #[test]
    fn lines_are_the_same_in_any_chunks() {
        let text = "\u{feff}один\r\n\ntwo\rthree\n漢字";
        let numbered = [(1, "один"), (2, ""), (3, "two\rthree"), (4, "漢字")];
        let numbered: Vec<(u64, String)> = numbered.map(|(number, line)| (number, line.to_owned())).into();
        for chunk_bytes in 1..=text.len() {
            assert_eq!(lines(text.as_bytes(), chunk_bytes), Ok((numbered.clone(), 0)), "{chunk_bytes}");
        }
        assert_eq!(lines(b"a\n", 1).unwrap().0.len(), 1, "there is no line behind the last end");
        assert_eq!(lines(b"", 1), Ok((vec![], 0)));
    }

    #[test]
    fn binary_bytes_are_no_text() {
        for content in [&b"a\0b"[..], b"a\n\xff\n", b"a\n\xd0", b"a\nb\0", b"\xd0\n\xb9"] {
            for chunk_bytes in 1..=content.len() {
                assert_eq!(lines(content, chunk_bytes), Err(NotTextError), "{content:?} {chunk_bytes}");
            }
        }
    }

    #[test]
    fn long_line_is_cut_between_characters() {
        let long = format!("x{}\r\nnext\n{}", "й".repeat(MAX_LINE_BYTES), "y".repeat(MAX_LINE_BYTES));
        let before_end = long.find('\n').unwrap();
        for chunk_bytes in [1_000, MAX_LINE_BYTES, before_end, usize::MAX] {
            let (found, cut_lines) = lines(long.as_bytes(), chunk_bytes).unwrap();
            assert_eq!((found.len(), cut_lines), (3, 1));
            assert_eq!((found[0].1.len(), found[1].1.as_str()), (MAX_LINE_BYTES - 1, "next"));
            assert_eq!(found[2].1.len(), MAX_LINE_BYTES);
        }
    }
}
