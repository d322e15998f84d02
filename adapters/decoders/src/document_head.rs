//! Whether a file may be a document, by its type and its first bytes: for a program, an archive of unknown format or noise
//! no worker needs to be started.

/// How many of a file's first bytes [`may_be_document`] needs.
pub const HEAD_BYTES: u64 = 16 * 1024;

/// How far from the beginning a PDF may start.
pub const PDF_HEAD_BYTES: usize = 1_024;

/// The beginning of the container of the old office formats, and of encrypted new ones.
pub const OLE_MAGIC: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";

/// The beginning of the archives that hold the new office formats, and books.
pub const ZIP_MAGIC: &[u8] = b"PK\x03\x04";

/// The beginning of rich text.
pub const RTF_MAGIC: &[u8] = b"{\\rtf";

/// How many bytes are looked at for the zeros of UTF-16.
const UTF16_SAMPLE_BYTES: usize = 4 << 10;

/// Text may hold one strange character among so many: a file that was damaged a little is still read.
pub const MIN_CHARS_PER_STRANGE_ONE: usize = 200;

/// In a file that goes on behind its head, that may hold one strange byte among so many: how clean the rest is isn't known.
/// Compressed bytes have one among nine.
const MIN_BYTES_PER_STRANGE_ONE_IN_HEAD: usize = 16;

/// Whether a document could be read from a file of this type and of so many bytes that starts with these. Where they leave it
/// open, it may: the worker, which has all bytes, decides.
#[must_use]
pub fn may_be_document(head: &[u8], bytes: u64, mime: &str) -> bool {
    let is_text_by_type = matches!(mime, "text/html" | "application/xhtml+xml" | "message/rfc822");
    let has_magic = [OLE_MAGIC, ZIP_MAGIC, RTF_MAGIC].iter().any(|magic| head.starts_with(magic));
    head.is_empty() || is_text_by_type || has_magic || has_pdf_sign(head) || may_be_text(head, bytes)
}

/// Explains that a file of this type holds no text.
#[must_use]
pub fn no_text_reason(mime: &str) -> String {
    let what = if mime == "application/octet-stream" { "it" } else { mime };
    format!("{what} can't be read as text")
}

/// The order of bytes of UTF-16 without a mark: mostly Latin text has zeros at every other byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Utf16ByteOrder {
    LittleEndian,
    BigEndian,
}

/// Recognises UTF-16 without a mark by its zeros.
#[must_use]
pub fn detect_utf16(bytes: &[u8]) -> Option<Utf16ByteOrder> {
    let sample = &bytes[..bytes.len().min(UTF16_SAMPLE_BYTES) & !1];
    let zeros = |start: usize| sample.iter().skip(start).step_by(2).filter(|byte| **byte == 0).count();
    let pairs = sample.len() / 2;
    match (zeros(0), zeros(1)) {
        (0, odd) if pairs > 1 && odd * 2 > pairs => Some(Utf16ByteOrder::LittleEndian),
        (even, 0) if pairs > 1 && even * 2 > pairs => Some(Utf16ByteOrder::BigEndian),
        _ => None,
    }
}

/// Whether this character is one that text doesn't hold.
#[must_use]
pub fn is_strange(c: char) -> bool {
    c == '\u{fffd}' || c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}' | '\u{1b}')
}

fn has_pdf_sign(head: &[u8]) -> bool {
    head[..head.len().min(PDF_HEAD_BYTES)].windows(5).any(|window| window == b"%PDF-")
}

/// In every encoding but UTF-16, a byte of ASCII's control characters is one, whatever stands before it. So more of them
/// than the text of a whole file may hold are too many in all encodings.
fn may_be_text(head: &[u8], bytes: u64) -> bool {
    let is_utf16 = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") || detect_utf16(head).is_some();
    let strange = head.iter().filter(|byte| byte.is_ascii() && is_strange(char::from(**byte))).count();
    let has_rest = bytes > head.len() as u64;
    let is_clean = (strange * MIN_CHARS_PER_STRANGE_ONE) as u64 <= bytes.max(head.len() as u64);
    is_utf16 || is_clean && (!has_rest || strange * MIN_BYTES_PER_STRANGE_ONE_IN_HEAD <= head.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: &str = "application/octet-stream";

    /// Bytes without a pattern.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u32;
        std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_le_bytes()[3]
        })
        .take(length)
        .collect()
    }

    #[test]
    fn unknown_binary_is_no_document() {
        let program = [&b"\x7fELF\x02\x01\x01"[..], &[0; 500]].concat();
        let database = [&b"SQLite format 3\0"[..], &noise(4_000)].concat();
        let compressed = [&b"\x1f\x8b\x08"[..], &noise(4_000)].concat();
        for (head, mime) in [
            (noise(16_384), UNKNOWN),
            (noise(300), UNKNOWN),
            (vec![0; 16_384], UNKNOWN),
            (vec![0, 1, 2, 3], UNKNOWN),
            (program, "application/x-elf"),
            (database, "application/vnd.sqlite3"),
            (compressed, "application/gzip"),
        ] {
            for bytes in [head.len() as u64, 10_000_000] {
                assert!(!may_be_document(&head, bytes, mime), "{mime}, {bytes}: {:?}", &head[..4]);
            }
        }
    }

    /// Catches: a file that a worker would read, refused because what is strange in it is all at its beginning.
    #[test]
    fn head_is_not_judged_as_if_it_were_the_whole_file() {
        let head = ["x".repeat(98).as_bytes(), &[0, 0]].concat().repeat(163);
        assert!(!may_be_document(&head, head.len() as u64, UNKNOWN), "2 % of the file");
        assert!(!may_be_document(&head, 65_000, UNKNOWN), "more than 0.5 % of the file, even if the rest is clean");
        assert!(may_be_document(&head, 66_000, UNKNOWN), "0.5 % of the file, if the rest is clean");
    }

    #[test]
    fn everything_that_a_worker_may_read_is_one() {
        let behind = [&[0_u8; 900][..], b"%PDF-1.7"].concat();
        let utf16: Vec<u8> = "plain text".encode_utf16().flat_map(u16::to_be_bytes).collect();
        let marked: Vec<u8> = "\u{feff}текст".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let damaged = ["x".repeat(400).as_bytes(), &[0]].concat();
        for (head, mime) in [
            (behind, UNKNOWN),
            ([OLE_MAGIC, &[0; 500]].concat(), UNKNOWN),
            ([ZIP_MAGIC, &[0; 500]].concat(), "application/zip"),
            (b"{\\rtf1\0\0".to_vec(), UNKNOWN),
            (vec![0, 1, 2, 3], "message/rfc822"),
            (b"plain text".to_vec(), "text/plain"),
            // In windows-1251.
            (b"\xcf\xf0\xe8\xe2\xe5\xf2, \xea\xe0\xea \xe4\xe5\xeb\xe0?".to_vec(), UNKNOWN),
            (utf16, UNKNOWN),
            (marked, UNKNOWN),
            (damaged, UNKNOWN),
            (Vec::new(), UNKNOWN),
        ] {
            assert!(may_be_document(&head, head.len() as u64, mime), "{mime}: {head:?}");
        }
    }
}
