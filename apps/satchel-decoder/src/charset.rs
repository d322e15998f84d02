//! Turns bytes of any encoding into text: a byte order mark, UTF-8, UTF-16 by its zero bytes, then statistics.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use satchel_decoders::document_head::{MIN_CHARS_PER_STRANGE_ONE, Utf16ByteOrder, detect_utf16, is_strange};

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
        strange += usize::from(is_strange(c));
    }
    strange * MIN_CHARS_PER_STRANGE_ONE <= chars
}

fn utf16_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    detect_utf16(bytes).map(|order| match order {
        Utf16ByteOrder::LittleEndian => UTF_16LE,
        Utf16ByteOrder::BigEndian => UTF_16BE,
    })
}

fn guess_encoding(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Allow)
}

#[cfg(test)]
mod tests {
    use encoding_rs::{SHIFT_JIS, WINDOWS_1251};
    use satchel_decoders::document_head::may_be_document;

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

    /// No text that is read here may be kept from the worker.
    #[test]
    fn beginning_of_a_text_of_any_encoding_may_be_a_document() {
        let (russian, japanese) = ("Съешь же ещё этих мягких булок", "吾輩は猫である。名前はまだ無い。");
        for (encoding, text) in [
            (WINDOWS_1251, russian),
            (encoding_rs::KOI8_R, russian),
            (SHIFT_JIS, japanese),
            (encoding_rs::EUC_JP, japanese),
            (encoding_rs::ISO_2022_JP, japanese),
            (encoding_rs::GB18030, "床前明月光，疑是地上霜。"),
            (encoding_rs::BIG5, "床前明月光，疑是地上霜。"),
            (encoding_rs::WINDOWS_1252, "déjà vu, naïve façade"),
        ] {
            let bytes = encoding.encode(text).0.repeat(40);
            for head in [&bytes[..], &bytes[..101]] {
                for length in [head.len(), bytes.len()] {
                    let is_read = may_be_document(head, length as u64, "application/octet-stream");
                    assert!(is_read, "{}, {length} bytes", encoding.name());
                }
            }
        }
    }

    /// Catches: a file that is read here and refused by its head, where all of its damage is.
    #[test]
    fn text_with_a_damaged_beginning_may_be_a_document() {
        let damaged = ["x".repeat(98).as_bytes(), &[0, 0]].concat().repeat(163);
        let text = [&damaged[..], "A sentence. ".repeat(10_000).as_bytes()].concat();
        assert!(is_plausible_text(&text));
        assert!(may_be_document(&text[..damaged.len()], text.len() as u64, "application/octet-stream"));
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
