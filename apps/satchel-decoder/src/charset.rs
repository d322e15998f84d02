//! Turns bytes of any encoding into text: a byte order mark, UTF-8, UTF-16 by its zero bytes, then statistics.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};

/// How many bytes are looked at for zeros.
const SAMPLE_BYTES: usize = 4 << 10;

/// Decodes a text. What its encoding doesn't know becomes U+FFFD.
pub(crate) fn decode_text(bytes: &[u8]) -> Cow<'_, str> {
    if let Some((encoding, length)) = Encoding::for_bom(bytes) {
        return encoding.decode_without_bom_handling(&bytes[length..]).0;
    }
    if let Some(encoding) = utf16_without_mark(bytes) {
        return encoding.decode_without_bom_handling(bytes).0;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => guess_encoding(bytes).decode_without_bom_handling(bytes).0,
    }
}

/// Decodes a text that names its encoding, such as a page of HTML. Valid UTF-8 is UTF-8, whatever is claimed.
pub(crate) fn decode_labelled<'a>(bytes: &'a [u8], label: Option<&str>) -> Cow<'a, str> {
    let labelled = label.and_then(|label| Encoding::for_label(label.as_bytes()));
    match labelled {
        Some(encoding) if Encoding::for_bom(bytes).is_none() && std::str::from_utf8(bytes).is_err() => {
            encoding.decode_without_bom_handling(bytes).0
        }
        _ => decode_text(bytes),
    }
}

/// Whether the bytes look like text in some encoding rather than like a program or a picture.
pub(crate) fn is_plausible_text(bytes: &[u8]) -> bool {
    if bytes.is_empty() {
        return false;
    }
    let text = decode_text(bytes);
    let (mut chars, mut strange) = (0_usize, 0_usize);
    for c in text.chars() {
        chars += 1;
        if c == '\u{fffd}' || c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}' | '\u{1b}') {
            strange += 1;
        }
    }
    strange * 200 <= chars
}

/// UTF-16 of mostly Latin text has zeros at every other byte.
fn utf16_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES) & !1];
    let zeros = |start: usize| sample.iter().skip(start).step_by(2).filter(|byte| **byte == 0).count();
    let pairs = sample.len() / 2;
    match (zeros(0), zeros(1)) {
        (0, odd) if pairs > 1 && odd * 2 > pairs => Some(UTF_16LE),
        (even, 0) if pairs > 1 && even * 2 > pairs => Some(UTF_16BE),
        _ => None,
    }
}

fn guess_encoding(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Allow)
}

#[cfg(test)]
mod tests {
    use encoding_rs::{SHIFT_JIS, WINDOWS_1251};

    use super::*;

    #[test]
    fn encodings_are_recognised() {
        let russian = "Съешь же ещё этих мягких французских булок, да выпей чаю";
        assert_eq!(decode_text(&WINDOWS_1251.encode(russian).0), russian);
        let japanese = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。";
        assert_eq!(decode_text(&SHIFT_JIS.encode(japanese).0), japanese);
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        assert_eq!(decode_text(&utf16("plain text")), "plain text");
        assert_eq!(decode_text(&utf16("\u{feff}текст")), "текст");
        assert_eq!(decode_text("\u{feff}текст".as_bytes()), "текст");
        assert_eq!(decode_labelled(&WINDOWS_1251.encode("да").0, Some("windows-1251")), "да");
        assert_eq!(decode_labelled("да".as_bytes(), Some("windows-1251")), "да");
    }

    #[test]
    fn programs_are_no_text() {
        assert!(is_plausible_text(&WINDOWS_1251.encode("Привет, как дела?\r\n").0));
        let mut state = 1_u32;
        let random: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_le_bytes()[3]
        })
        .take(4_000)
        .collect();
        assert!(!is_plausible_text(&random));
        assert!(!is_plausible_text(b"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"));
        assert!(!is_plausible_text(b""));
    }
}
