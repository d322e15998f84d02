//! Reading text page by page: a bounded window of a stream, cut between characters. A program gets no pages.

use futures::StreamExt;
use satchel_ports::{ByteStream, OutcomeReader, ToolError};

use crate::error;

/// The shortest page: the longest character has four bytes, and a page must bring the reader on.
const MIN_PAGE_BYTES: u64 = 4;

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TextPage {
    pub(crate) text: String,
    /// Where it begins, in bytes of the file.
    pub(crate) offset: u64,
    /// Where it ends, in bytes of the file; where the next page begins.
    pub(crate) end: u64,
}

/// Why there is no page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PageError {
    /// The bytes at this place are no text.
    Binary {
        /// Their place in the file.
        at: u64,
    },
    /// The bytes broke off.
    Interrupted(String),
}

/// The most bytes that one call may answer this reader with.
pub(crate) fn max_page_bytes(reader: OutcomeReader, page_bytes: u64) -> u64 {
    match reader {
        OutcomeReader::Model | OutcomeReader::Person => page_bytes,
        OutcomeReader::Program => OutcomeReader::MAX_PROGRAM_BYTES,
    }
}

/// Checks that a program, which doesn't read on by itself, gets all that it asked for.
pub(crate) fn check_program_limit(
    reader: OutcomeReader,
    subject: &str,
    limit: Option<u64>,
    remaining_bytes: u64,
) -> Result<(), ToolError> {
    let is_too_much = limit.is_none() && remaining_bytes > OutcomeReader::MAX_PROGRAM_BYTES;
    match reader {
        OutcomeReader::Program if is_too_much => Err(error::too_large_for_program(subject, remaining_bytes)),
        _ => Ok(()),
    }
}

/// Checks which page was asked for.
pub(crate) fn page_limit(limit: Option<u64>, max_bytes: u64) -> Result<u64, ToolError> {
    match limit {
        None => Ok(max_bytes.max(MIN_PAGE_BYTES)),
        Some(limit) if (MIN_PAGE_BYTES..=max_bytes.max(MIN_PAGE_BYTES)).contains(&limit) => Ok(limit),
        Some(limit) => Err(error::tool_error(format!(
            "argument `limit`: {limit} is not allowed; allowed are {MIN_PAGE_BYTES} to {max_bytes} bytes, the default is {max_bytes}"
        ))),
    }
}

/// Checks that a page can begin at `offset` of a file that has `bytes` bytes.
pub(crate) fn check_offset(offset: u64, bytes: u64) -> Result<(), ToolError> {
    if offset < bytes || offset == 0 {
        return Ok(());
    }
    Err(error::tool_error(format!("argument `offset`: {offset} is behind the end; the file has {bytes} bytes")))
}

/// Reads a page of at most `limit` bytes at `offset`, from a stream that begins at `stream_at` of the file.
///
/// An offset inside a character begins with the next one. Reads no more of the stream than it must, and keeps no more
/// than the page and one chunk.
pub(crate) async fn read_page(
    mut content: ByteStream,
    stream_offset: u64,
    offset: u64,
    limit: u64,
) -> Result<TextPage, PageError> {
    let mut to_skip = offset.saturating_sub(stream_offset);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut window: Vec<u8> = Vec::new();
    // One byte more than the page tells whether the file ends with it, and so whether a half character is damage.
    while window.len() <= limit {
        let Some(chunk) = content.next().await else { break };
        let mut chunk = chunk.map_err(|error| PageError::Interrupted(error.to_string()))?;
        let skipped = usize::try_from(to_skip).unwrap_or(usize::MAX).min(chunk.len());
        to_skip -= skipped as u64;
        let chunk = chunk.split_off(skipped);
        let room = limit + 1 - window.len();
        window.extend_from_slice(&chunk[..room.min(chunk.len())]);
    }
    let more_follows = window.len() > limit;
    window.truncate(limit);

    let is_continuation = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let skipped_bytes = match offset {
        0 => 0,
        _ => window.iter().take(3).take_while(is_continuation).count(),
    };
    let offset = offset + skipped_bytes as u64;
    let text = &window[skipped_bytes..];
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() && more_follows => {
            std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => return Err(PageError::Binary { at: offset + error.valid_up_to() as u64 }),
    };
    if let Some(at) = text.find('\0') {
        return Err(PageError::Binary { at: offset + at as u64 });
    }
    Ok(TextPage { text: text.to_owned(), offset, end: offset + text.len() as u64 })
}

/// The page as its reader gets it: the bare text when it is the whole file or for a program, else with a line that
/// tells what is shown of how much and how to read on.
pub(crate) fn format_page(
    page: &TextPage,
    bytes: u64,
    reader: OutcomeReader,
    next_call: impl FnOnce(u64) -> String,
) -> String {
    let TextPage { text, offset, end } = page;
    if reader == OutcomeReader::Program {
        return text.clone();
    }
    if bytes == 0 {
        return "[the file is empty]".to_owned();
    }
    if *end < bytes {
        return format!("{text}\n[bytes {offset} to {end} of {bytes}; read on with {}]", next_call(*end));
    }
    match offset {
        0 => text.clone(),
        _ => format!("{text}\n[bytes {offset} to {end} of {bytes}: the end]"),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::stream;
    use proptest::prelude::*;

    use super::*;

    fn in_chunks(content: &[u8], size: usize) -> ByteStream {
        let chunks: Vec<_> = content.chunks(size).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        Box::pin(stream::iter(chunks))
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    proptest! {
        #[test]
        fn the_pages_joined_are_the_text(text in "[a-zй漢🎒]{0,60}", limit in 4u64..20, chunk in 1usize..9) {
            let total = text.len() as u64;
            let (mut joined, mut offset) = (String::new(), 0);
            while offset < total {
                let page = wait(read_page(in_chunks(text.as_bytes(), chunk), 0, offset, limit)).unwrap();
                prop_assert_eq!(page.offset, offset);
                prop_assert!(page.end > offset && page.end - offset <= limit, "the reader comes on: {:?}", page);
                joined.push_str(&page.text);
                offset = page.end;
            }
            prop_assert_eq!(joined, text);
        }

        #[test]
        fn any_bytes_and_any_offset_are_answered(content in proptest::collection::vec(any::<u8>(), 0..40), offset in 0u64..60, limit in 4u64..20) {
            if let Ok(page) = wait(read_page(in_chunks(&content, 5), 0, offset, limit)) {
                prop_assert!(!page.text.contains('\0') && page.end - page.offset == page.text.len() as u64);
            }
        }
    }

    #[test]
    fn offset_inside_character_starts_at_the_next() {
        let page = wait(read_page(in_chunks("aйb".as_bytes(), 2), 0, 2, 100));
        assert_eq!(page, Ok(TextPage { text: "b".to_owned(), offset: 3, end: 4 }));
    }

    #[test]
    fn binary_content_is_reported_with_its_position() {
        for (content, at) in
            [(&b"ab\xff\xfe"[..], 2), (b"\x80ab", 0), (b"a\0b", 1), ("abй".as_bytes().split_last().unwrap().1, 2)]
        {
            assert_eq!(wait(read_page(in_chunks(content, 1), 0, 0, 100)), Err(PageError::Binary { at }), "{content:?}");
        }
        let broken: ByteStream = Box::pin(stream::iter([Err(std::io::Error::other("gone"))]));
        assert_eq!(wait(read_page(broken, 0, 0, 100)), Err(PageError::Interrupted("gone".to_owned())));
    }

    #[test]
    fn limits_and_offsets_are_checked_with_both_numbers() {
        assert_eq!(page_limit(None, 100), Ok(100));
        assert_eq!(page_limit(Some(4), 100), Ok(4));
        for limit in [0, 3, 101, u64::MAX] {
            let error = page_limit(Some(limit), 100).expect_err("a wrong limit").0;
            assert!(error.contains(&limit.to_string()) && error.contains("4 to 100"), "{error}");
        }
        assert_eq!(check_offset(0, 0), Ok(()));
        assert_eq!(check_offset(9, 10), Ok(()));
        let error = check_offset(10, 10).expect_err("behind the end").0;
        assert!(error.contains("`offset`: 10") && error.contains("10 bytes"), "{error}");
    }
}
