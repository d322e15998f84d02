//! Names of files as people and platforms give them, made harmless once, at the edge.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// The longest name, in bytes of UTF-8; the usual file systems take 255, and a number and a dash are put before it.
const LONGEST: usize = 200;

/// A file's name: not empty, no path, no control or direction-changing characters, at most 200 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Filename(String);

impl Filename {
    /// Makes a name of whatever was given: drops any path before it and every character that can't be shown,
    /// and cuts what is too long, keeping the extension. What has nothing left is called `file`.
    #[must_use]
    pub fn from_untrusted(given: &str) -> Self {
        let last = given.rsplit(['/', '\\']).find(|part| !part.trim().is_empty()).unwrap_or_default();
        let shown: String = last.chars().filter(|c| !is_hidden(*c)).map(|c| if c == ':' { '_' } else { c }).collect();
        let name = shown.trim_start().trim_end_matches(ends_no_name);
        if name.is_empty() || name.chars().all(|c| c == '.') {
            return Self("file".to_owned());
        }
        Self(cut(name))
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
    pub fn numbered(&self, number: u32) -> Self {
        let (stem, extension) = split_extension(&self.0);
        let suffix = extension.map(|extension| format!(".{extension}")).unwrap_or_default();
        let room = LONGEST.saturating_sub(suffix.len() + 12);
        Self(format!("{}-{number}{suffix}", &stem[..stem.floor_char_boundary(room)]))
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
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{061C}' | '\u{FFF9}'..='\u{FFFB}')
}

/// Words that somebody else chose, as code in Markdown, so that nothing in them is read as markup; at most so many
/// characters of them.
#[must_use]
pub fn as_code(words: &str, most: usize) -> String {
    let shown: String = words.chars().filter(|c| !is_hidden(*c) && *c != '`').take(most).collect();
    format!("`{shown}`")
}

fn split_extension(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() && !extension.is_empty() && extension.len() <= 16 => {
            (stem, Some(extension))
        }
        _ => (name, None),
    }
}

fn cut(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let (stem, extension) = split_extension(name);
    let suffix = extension.map(|extension| format!(".{extension}")).unwrap_or_default();
    let stem = &stem[..stem.floor_char_boundary(LONGEST - suffix.len())];
    format!("{}{suffix}", stem.trim_end_matches(ends_no_name))
}

/// Whether a character must not be the last: some systems drop it, and the name would be another one.
fn ends_no_name(c: char) -> bool {
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
        ] {
            assert_eq!(Filename::from_untrusted(given).as_str(), name, "{given:?}");
        }
    }

    #[test]
    fn long_names_keep_their_extension() {
        let name = Filename::from_untrusted(&format!("{}.tar.gz", "ё".repeat(300)));
        assert!(name.as_str().len() <= LONGEST);
        assert!(name.as_str().ends_with("ё.gz") || name.as_str().ends_with(".tar.gz"), "{name}");
    }

    #[test]
    fn numbers_go_before_the_extension() {
        assert_eq!(Filename::from_untrusted("a.pdf").numbered(2).as_str(), "a-2.pdf");
        assert_eq!(Filename::from_untrusted("README").numbered(3).as_str(), "README-3");
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_plain_name(given in "\\PC{0,400}|.{0,400}") {
            let name = Filename::from_untrusted(&given);
            prop_assert!(!name.as_str().is_empty() && name.as_str().len() <= LONGEST);
            prop_assert!(!name.as_str().contains(['/', '\\']) && !name.as_str().chars().any(is_hidden));
            prop_assert_eq!(Filename::from_untrusted(name.as_str()), name.clone());
            prop_assert!(name.numbered(u32::MAX).as_str().len() <= LONGEST);
        }
    }
}
