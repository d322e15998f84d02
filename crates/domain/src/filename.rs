//! Names of files as people and platforms give them, made harmless once, at the edge.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

/// The longest name, in bytes of UTF-8: the limit of common file systems. Code that adds a prefix makes a new
/// [`Filename`] of the result, which truncates it.
const MAX_FILENAME_BYTES: usize = 255;

/// A file's name as the person wrote it, in composed form (NFC): not empty, no path, no control or direction-changing
/// characters, at most 255 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Filename(String);

impl Filename {
    /// Makes a name of whatever was given: drops any path before it and every hidden character, puts `_` for `:`, which
    /// some systems take for the end of a drive or a name, and cuts what is too long, keeping the extension. What has
    /// nothing left is called `file`.
    ///
    /// Some systems send `ё` as two characters. They are made one here, so that a file is found by typing its name and
    /// two spellings of one name are one name.
    #[must_use]
    pub fn from_untrusted(given: &str) -> Self {
        let last = given.rsplit(['/', '\\']).find(|part| !part.trim().is_empty()).unwrap_or_default();
        // Composed last: what is taken out may have stood between a letter and its mark.
        let safe = last.chars().filter(|c| !is_unsafe_char(*c)).map(|c| if c == ':' { '_' } else { c });
        let composed: String = safe.nfc().collect();
        let name = composed.trim_start().trim_end_matches(is_forbidden_at_end);
        if name.split('.').all(is_visually_empty) {
            return Self("file".to_owned());
        }
        Self(truncate_keeping_extension(name))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The extension without its dot, in lower case; a name that only begins with a dot has none.
    #[must_use]
    pub fn extension(&self) -> Option<String> {
        split_extension(&self.0).1.map(str::to_lowercase)
    }

    /// The same name with `-2`, `-3`, … before the extension, for the second and later files of one name.
    #[must_use]
    pub fn with_number(&self, number: u32) -> Self {
        let (stem, extension) = split_extension(&self.0);
        let suffix = extension.map(|extension| format!("-{number}.{extension}")).unwrap_or(format!("-{number}"));
        Self(format!("{}{suffix}", truncate_graphemes(stem, MAX_FILENAME_BYTES - suffix.len())))
    }
}

impl fmt::Display for Filename {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Filename {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_untrusted(&String::deserialize(deserializer)?))
    }
}

/// Tells whether a character must not stand in a name: controls, line separators, zero-width marks, byte order marks
/// and the direction overrides with which `gpj.exe` can be shown as `exe.jpg` (Unicode TR 36, 3.2).
///
/// The joiners U+200C and U+200D aren't: Persian is spelled with them, and a family emoji is held together by them.
#[must_use]
pub fn is_unsafe_char(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{061C}' | '\u{FFF9}'..='\u{FFFB}')
}

/// Tells whether a person would see nothing of a text: a joiner without neighbours is as empty as a blank.
#[must_use]
pub fn is_visually_empty(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || is_unsafe_char(c) || matches!(c, '\u{200C}' | '\u{200D}'))
}

/// Formats an untrusted text as inline code in Markdown, so that nothing in it is markup; at most `max_chars`
/// characters.
#[must_use]
pub fn to_inline_code(text: &str, max_chars: usize) -> String {
    let code: String = text.chars().filter(|c| !is_unsafe_char(*c) && *c != '`').take(max_chars).collect();
    format!("`{code}`")
}

fn split_extension(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() && !extension.is_empty() && extension.len() <= 16 => {
            (stem, Some(extension))
        }
        _ => (name, None),
    }
}

fn truncate_keeping_extension(name: &str) -> String {
    if name.len() <= MAX_FILENAME_BYTES {
        return name.to_owned();
    }
    let (stem, extension) = split_extension(name);
    let suffix = extension.map(|extension| format!(".{extension}")).unwrap_or_default();
    let stem = truncate_graphemes(stem, MAX_FILENAME_BYTES - suffix.len());
    format!("{}{suffix}", stem.trim_end_matches(is_forbidden_at_end))
}

/// The characters, as people count them, that begin a text and fit into so many bytes. Of one that never fits, such as
/// a letter under a tower of marks, what fits.
fn truncate_graphemes(text: &str, max_bytes: usize) -> &str {
    let ends = text.grapheme_indices(true).map(|(at, character)| at + character.len());
    match ends.take_while(|end| *end <= max_bytes).last() {
        Some(end) => &text[..end],
        None => &text[..text.floor_char_boundary(max_bytes)],
    }
}

/// Whether a character must not be the last: some systems drop it, and the name would be another one.
fn is_forbidden_at_end(c: char) -> bool {
    c == '.' || c.is_whitespace()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_made_harmless() {
        for (given, name) in [
            ("photo.jpg", "photo.jpg"),
            ("../../etc/passwd", "passwd"),
            ("C:\\Users\\me\\скан.pdf", "скан.pdf"),
            ("a\r\nSet-Cookie: x.txt", "aSet-Cookie_ x.txt"),
            ("invoice\u{202E}fdp.exe", "invoicefdp.exe"),
            ("..", "file"),
            ("", "file"),
            (" . ", "file"),
            ("dir/", "dir"),
            (".bashrc", ".bashrc"),
            ("a.\u{2003}.", "a"),
            (".\u{200D} .", "file"),
            (".\u{200C}.\u{200D}", "file"),
        ] {
            assert_eq!(Filename::from_untrusted(given).as_str(), name, "{given:?}");
        }
    }

    #[test]
    fn names_are_kept_as_people_write_them() {
        for kept in [
            "می\u{200C}خواهم.pdf",
            "👨\u{200D}👩\u{200D}👧.png",
            &format!("{}.pdf", "x".repeat(251)),
            "Счёт № 7 (копия).tar.gz",
        ] {
            assert_eq!(Filename::from_untrusted(kept).as_str(), kept);
        }
    }

    #[test]
    fn two_spellings_of_one_name_are_one_name() {
        let composed = Filename::from_untrusted("Счёт й.pdf");
        for decomposed in ["Сче\u{308}т и\u{306}.pdf", "Сче\u{200B}\u{308}т и\u{306}.pdf"] {
            assert_eq!(Filename::from_untrusted(decomposed), composed);
            let read: Filename = serde_json::from_value(decomposed.into()).expect("a name");
            assert_eq!(read, composed);
        }
    }

    #[test]
    fn long_names_keep_their_extension() {
        let name = Filename::from_untrusted(&format!("{}.tar.gz", "ё".repeat(300)));
        assert!(name.as_str().len() <= MAX_FILENAME_BYTES);
        assert!(name.as_str().ends_with("ё.gz") || name.as_str().ends_with(".tar.gz"), "{name}");
    }

    #[test]
    fn filename_is_truncated_at_grapheme_boundaries() {
        let family = "👨\u{200D}👩\u{200D}👧";
        let long = family.repeat(20);
        let fitting = family.repeat((MAX_FILENAME_BYTES - ".png".len()) / family.len());
        assert_eq!(Filename::from_untrusted(&format!("{long}.png")).as_str(), format!("{fitting}.png"));
        assert_eq!(Filename::from_untrusted(&format!("17-{long}.png")).as_str(), format!("17-{fitting}.png"));
        let full = Filename::from_untrusted(&format!("{}{fitting}.png", "x".repeat(17)));
        assert_eq!(full.as_str().len(), MAX_FILENAME_BYTES);
        let numbered = format!("{}{}-2.png", "x".repeat(17), &fitting[family.len()..]);
        assert_eq!(full.with_number(2).as_str(), numbered);

        let tower = format!("a{}.txt", "\u{318}".repeat(200));
        let cut = Filename::from_untrusted(&tower);
        assert!(cut.as_str().len() >= MAX_FILENAME_BYTES - 1 && cut.as_str().ends_with(".txt"), "{cut}");
    }

    #[test]
    fn numbers_go_before_the_extension() {
        assert_eq!(Filename::from_untrusted("a.pdf").with_number(2).as_str(), "a-2.pdf");
        assert_eq!(Filename::from_untrusted("README").with_number(3).as_str(), "README-3");
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_plain_name(given in "\\PC{0,400}|.{0,400}") {
            let name = Filename::from_untrusted(&given);
            prop_assert!(!name.as_str().is_empty() && name.as_str().len() <= MAX_FILENAME_BYTES);
            prop_assert!(!name.as_str().contains(['/', '\\']) && !name.as_str().chars().any(is_unsafe_char));
            prop_assert!(unicode_normalization::is_nfc(name.as_str()));
            prop_assert_eq!(Filename::from_untrusted(name.as_str()), name.clone());
            prop_assert!(name.with_number(u32::MAX).as_str().len() <= MAX_FILENAME_BYTES);
        }
    }
}
