//! A text as a person sees it: its characters, and how each of them is shown. It is the same on every platform, however
//! the platform writes it.

use std::collections::BTreeSet;

/// How a character is shown. In the notation `⟦b:…⟧`, what is first here is outermost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TextMark {
    /// `quote`.
    Quote,
    /// `spoiler`: hidden until it is pressed.
    Spoiler,
    /// `link` and its address.
    Link(String),
    /// `b`; headings, too.
    Bold,
    /// `i`.
    Italic,
    /// `s`.
    Struck,
    /// `u`: nothing that a model writes is meant so.
    Underlined,
    /// `small`: nor this.
    Small,
    /// `code`: within a line.
    Code,
    /// `pre` and its language, if it has one.
    Pre(String),
}

/// A character and how it is shown.
type MarkedCharacter = (char, BTreeSet<TextMark>);

/// A text with marks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MarkedText {
    characters: Vec<MarkedCharacter>,
}

impl MarkedText {
    /// Reads a text in the notation of the corpus.
    ///
    /// # Panics
    /// When a bracket isn't closed, or a mark is unknown.
    #[must_use]
    pub fn parse(notation: &str) -> Self {
        let mut text = Self::default();
        let mut open = Vec::new();
        let mut rest = notation;
        while let Some(character) = rest.chars().next() {
            rest = &rest[character.len_utf8()..];
            match character {
                '⟦' => {
                    let (mark, content) = parse_mark(rest);
                    open.push(mark);
                    rest = content;
                }
                '⟧' => drop(open.pop().expect("a mark is open")),
                other => text.push(other, open.iter().cloned()),
            }
        }
        assert!(open.is_empty(), "a mark stays open in {notation}");
        text
    }

    /// Adds a character.
    pub fn push(&mut self, character: char, marks: impl IntoIterator<Item = TextMark>) {
        self.characters.push((character, marks.into_iter().collect()));
    }

    /// Returns the characters alone.
    #[must_use]
    pub fn characters(&self) -> String {
        self.characters.iter().map(|(character, _)| *character).collect()
    }

    /// Returns the notation of the text, the same for texts that look the same: blanks have no marks of their own, lines no
    /// indentation, neighbouring blocks at most one blank line between them, and quotations and code none around them. An
    /// address that is its own text is no link, and code isn't bold.
    #[must_use]
    pub fn canonical(&self) -> String {
        let is_invisible = |character: char| matches!(character, '\u{200b}' | '\u{2060}' | '\u{feff}');
        let visible = self.characters.iter().filter(|(character, _)| !is_invisible(*character)).cloned();
        let text = without_needless_marks(visible.collect());
        let mut characters: Vec<MarkedCharacter> = Vec::new();
        let mut blanks = String::new();
        for (character, marks) in text {
            if character.is_whitespace() && !is_code(&marks) {
                blanks.push(character);
                continue;
            }
            let gap = characters.last().map(|(_, before)| (gap(&blanks, before, &marks), shared(before, &marks)));
            if let Some((gap, marks)) = gap {
                characters.extend(gap.chars().map(|blank| (blank, marks.clone())));
            }
            blanks.clear();
            characters.push((character, marks));
        }
        write(&characters)
    }
}

/// Reads a mark behind its bracket, and returns it with the text that it applies to.
fn parse_mark(notation: &str) -> (TextMark, &str) {
    let scheme = if notation.starts_with("link ") { notation.find("://").map_or(0, |scheme| scheme + 3) } else { 0 };
    let colon = scheme + notation[scheme..].find(':').expect("a mark is followed by a colon");
    let mark = match &notation[..colon] {
        "quote" => TextMark::Quote,
        "spoiler" => TextMark::Spoiler,
        "b" => TextMark::Bold,
        "i" => TextMark::Italic,
        "s" => TextMark::Struck,
        "u" => TextMark::Underlined,
        "small" => TextMark::Small,
        "code" => TextMark::Code,
        "pre" => TextMark::Pre(String::new()),
        other => match other.split_once(' ').expect("only links and code have a detail") {
            ("link", address) => TextMark::Link(address.to_owned()),
            (name, language) => {
                assert_eq!(name, "pre", "{other} is no mark");
                TextMark::Pre(language.to_owned())
            }
        },
    };
    (mark, &notation[colon + 1..])
}

fn is_code(marks: &BTreeSet<TextMark>) -> bool {
    marks.iter().any(|mark| matches!(mark, TextMark::Code | TextMark::Pre(_)))
}

fn is_code_block(marks: &BTreeSet<TextMark>) -> bool {
    marks.iter().any(|mark| matches!(mark, TextMark::Pre(_)))
}

/// Removes what is not seen: the marks of code besides its own, and links whose text is their address.
fn without_needless_marks(mut characters: Vec<MarkedCharacter>) -> Vec<MarkedCharacter> {
    for (_, marks) in &mut characters {
        if is_code(marks) {
            marks.retain(|mark| !matches!(mark, TextMark::Bold | TextMark::Italic | TextMark::Struck));
        }
    }
    let link = |(_, marks): &MarkedCharacter| {
        marks.iter().find_map(|mark| match mark {
            TextMark::Link(address) => Some(address.clone()),
            _ => None,
        })
    };
    for run in characters.chunk_by_mut(|one, next| link(one) == link(next)) {
        let text: String = run.iter().map(|(character, _)| *character).collect();
        if link(&run[0]).is_some_and(|address| address.strip_prefix("mailto:").unwrap_or(&address) == text) {
            run.iter_mut().for_each(|(_, marks)| marks.retain(|mark| !matches!(mark, TextMark::Link(_))));
        }
    }
    characters
}

/// What is between two characters: the blanks of one line, a line break, or a blank line.
fn gap<'a>(blanks: &'a str, before: &BTreeSet<TextMark>, behind: &BTreeSet<TextMark>) -> &'a str {
    let is_edge = is_code_block(before)
        || is_code_block(behind)
        || before.contains(&TextMark::Quote) != behind.contains(&TextMark::Quote);
    match blanks.matches('\n').count() {
        0 => blanks,
        1 => "\n",
        _ if is_edge => "\n",
        _ => "\n\n",
    }
}

/// The marks of the blanks between two characters: those that both have.
fn shared(before: &BTreeSet<TextMark>, behind: &BTreeSet<TextMark>) -> BTreeSet<TextMark> {
    let is_code = |mark: &TextMark| matches!(mark, TextMark::Code | TextMark::Pre(_));
    before.intersection(behind).filter(|mark| !is_code(mark)).cloned().collect()
}

fn write(characters: &[MarkedCharacter]) -> String {
    let mut notation = String::new();
    let mut open: Vec<&TextMark> = Vec::new();
    for (character, marks) in characters {
        let marks: Vec<&TextMark> = marks.iter().collect();
        let common = open.iter().zip(&marks).take_while(|(one, other)| one == other).count();
        notation.extend(std::iter::repeat_n('⟧', open.len() - common));
        for mark in &marks[common..] {
            notation.push_str(&match mark {
                TextMark::Quote => "⟦quote:".to_owned(),
                TextMark::Spoiler => "⟦spoiler:".to_owned(),
                TextMark::Link(address) => format!("⟦link {address}:"),
                TextMark::Bold => "⟦b:".to_owned(),
                TextMark::Italic => "⟦i:".to_owned(),
                TextMark::Struck => "⟦s:".to_owned(),
                TextMark::Underlined => "⟦u:".to_owned(),
                TextMark::Small => "⟦small:".to_owned(),
                TextMark::Code => "⟦code:".to_owned(),
                TextMark::Pre(language) if language.is_empty() => "⟦pre:".to_owned(),
                TextMark::Pre(language) => format!("⟦pre {language}:"),
            });
        }
        open = marks;
        notation.push(*character);
    }
    notation.extend(std::iter::repeat_n('⟧', open.len()));
    notation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_look_the_same_have_one_notation() {
        for (notation, canonical) in [
            ("a ⟦b:b ⟦i:c⟧⟧", "a ⟦b:b ⟦i:c⟧⟧"),
            ("⟦i:a ⟦b:b⟧ c⟧", "⟦i:a ⟧⟦b:⟦i:b⟧⟧⟦i: c⟧"),
            ("⟦b:a ⟧b", "⟦b:a⟧ b"),
            ("⟦b:a⟧ ⟦b:b⟧", "⟦b:a b⟧"),
            ("⟦b:a ⟦code:b⟧ c⟧", "⟦b:a⟧ ⟦code:b⟧ ⟦b:c⟧"),
            ("⟦link https://a.example/x:a⟧ b", "⟦link https://a.example/x:a⟧ b"),
            ("⟦link https://a.example:https://a.example⟧", "https://a.example"),
            ("a\n\n\n  b\n c", "a\n\nb\nc"),
            ("a\n\n⟦quote:b\n\nc⟧\n\n\nd", "a\n⟦quote:b\n\nc⟧\nd"),
            ("a\n\n⟦pre rust:  b\n\n c⟧\n\n⟦pre rust:d⟧\n", "a\n⟦pre rust:  b\n\n c⟧\n⟦pre rust:d⟧"),
            ("\u{200b}a\u{feff}", "a"),
        ] {
            assert_eq!(MarkedText::parse(notation).canonical(), canonical, "{notation}");
        }
    }
}
