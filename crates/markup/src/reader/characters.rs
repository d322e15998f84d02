//! Classes of characters that decide whether a mark is markup.

/// Whether a script is written without blanks between words, or with endings right behind a marked word: a mark between
/// two such letters is markup, and between two letters of any other script it is not.
pub(super) fn is_unspaced(c: char) -> bool {
    c >= '\u{E00}'
        && matches!(u32::from(c),
        0x0E00..=0x0EFF // Thai, Lao
        | 0x1000..=0x109F // Myanmar
        | 0x1100..=0x11FF // Hangul letters
        | 0x1780..=0x17FF // Khmer
        | 0x2E80..=0x9FFF // radicals, punctuation, kana, ideographs
        | 0xA960..=0xA97F
        | 0xAC00..=0xD7FF // Hangul syllables
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE4F
        | 0xFF00..=0xFFEF // full width
        | 0x20000..=0x3FFFF)
}

/// Whether a character is part of a word.
pub(super) fn is_letter(c: char) -> bool {
    c.is_alphanumeric()
}

/// Whether a character is punctuation or a symbol.
pub(super) fn is_punctuation(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_punctuation() } else { !c.is_alphanumeric() && !c.is_whitespace() && !c.is_control() }
}

/// A punctuation mark without meaning, of as many bytes as the character.
pub(super) fn punctuation_of_length(c: char) -> &'static str {
    match c.len_utf8() {
        1 => ",",
        2 => "\u{A1}",
        3 => "\u{3001}",
        _ => "\u{10100}",
    }
}
