//! Words that are meant as they are written: paths, globs, names of files, and identifiers.

use std::ops::Range;

use super::characters::is_unspaced;

/// Names of Python that have two underscores around them, and those of directories for tests.
const DUNDER_NAMES: &str = "all annotations author bool call class contains del delattr delitem dict dir dirname doc enter \
    eq exit file filename fixtures format future ge getattr getattribute getitem gt hash import init iter le len lt main \
    missing mocks module mro name ne new next path proto pycache qualname repr set setattr setitem slots snapshots spec str \
    sub subclasses tests typename version";

/// A word: what is between blanks, parentheses, or letters of a script without blanks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) range: Range<usize>,
    /// The part of it of which every mark stands for itself.
    pub(super) literal: Range<usize>,
    /// Whether its backslashes stand for themselves too.
    pub(super) has_backslashes: bool,
    /// How often `**` is in it.
    pub(super) double_stars: usize,
}

impl Word {
    fn new(range: Range<usize>, literal: Range<usize>, text: &str) -> Self {
        let double_stars = text[range.clone()].matches("**").count();
        Self { range, literal, has_backslashes: false, double_stars }
    }
}

/// The word around `at`, not before `start` and not behind `end`.
pub(super) fn word_at(text: &str, at: usize, start: usize, end: usize) -> Word {
    let begin = text[start..at].char_indices().rev().find(|(_, c)| is_separator(*c));
    let begin = begin.map_or(start, |(offset, c)| start + offset + c.len_utf8());
    let length = text[at..end].char_indices().find(|(_, c)| is_separator(*c));
    let range = begin..length.map_or(end, |(offset, _)| at + offset);
    let word = &text[range.clone()];
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || byte == b'*';
    if word.bytes().all(is_plain) {
        return Word::new(range.clone(), range.start..range.start, text);
    }
    if is_windows_path(word) || text[range.end..end].starts_with("(ツ)") || text[..range.start].ends_with("(ツ)") {
        return Word { has_backslashes: true, ..Word::new(range.clone(), range, text) };
    }
    let bare = without_punctuation(word);
    let is_alone = |outside: Option<char>| outside.is_none_or(char::is_whitespace);
    let is_face = word.contains('_')
        && !word.contains('\\')
        && !word.contains(char::is_alphanumeric)
        && word.chars().any(|c| c != '_')
        && is_alone(text[start..range.start].chars().next_back())
        && is_alone(text[range.end..end].chars().next());
    let is_called = word.ends_with('_') && text[range.end..end].starts_with('(');
    if is_dunder(bare) || is_called || is_face {
        return Word::new(range.clone(), range.start..range.start + bare.len(), text);
    }
    // Alternatives have marks of their own, so they are looked at with all of them.
    let inner = unwrapped(word);
    let name = &word[inner.clone()];
    let is_literal = (is_path(bare) && is_path(name)) || is_identifier(name);
    let literal =
        if is_literal { range.start + inner.start..range.start + inner.end } else { range.start..range.start };
    Word::new(range, literal, text)
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, '`' | '"' | '<' | '>' | '|' | '(' | ')' | '“' | '”' | '«' | '»') || is_unspaced(c)
}

fn is_mark(c: char) -> bool {
    matches!(c, '*' | '_' | '~')
}

/// The word without punctuation at its end and without the marks around it.
fn unwrapped(word: &str) -> Range<usize> {
    let trimmed = without_punctuation(word);
    let opening = &trimmed[..trimmed.len() - trimmed.trim_start_matches(is_mark).len()];
    let inner = &trimmed[opening.len()..];
    let closing = inner.len() - inner.trim_end_matches(is_mark).len();
    if !opening.is_empty() && closing == opening.len() && inner.ends_with(opening) {
        return opening.len()..trimmed.len() - closing;
    }
    // A mark before a name begins emphasis of several words, and a star before a suffix or a slash is a glob.
    let is_glob = (opening == "*" && is_suffix(inner)) || inner.starts_with('/');
    let begins_emphasis =
        !opening.starts_with('_') && inner.starts_with(|c: char| c.is_alphanumeric() || "/.~@".contains(c));
    let start = if begins_emphasis && !is_glob { opening.len() } else { 0 };
    start..trimmed.len()
}

fn without_punctuation(word: &str) -> &str {
    word.trim_end_matches(['.', ',', ';', ':', '!', '?', '\'', '…'])
}

/// Whether a text begins like the suffix of a file's name.
fn is_suffix(text: &str) -> bool {
    let Some(suffix) = text.strip_prefix('.') else { return false };
    let length = suffix.bytes().take_while(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()).count();
    (1..=8).contains(&length) && suffix.as_bytes().get(length).is_none_or(|byte| !byte.is_ascii_alphanumeric())
}

fn is_windows_path(word: &str) -> bool {
    let bytes = word.as_bytes();
    let has_drive = bytes.first().is_some_and(u8::is_ascii_alphabetic) && word[1..].starts_with(":\\");
    has_drive
        || (word.starts_with("\\\\") && bytes.get(2).is_some_and(u8::is_ascii_alphanumeric) && word[2..].contains('\\'))
}

/// Whether a word is the path of a file, or a pattern for paths.
fn is_path(word: &str) -> bool {
    let segments: Vec<&str> = word.split('/').collect();
    let has_root = ["/", "./", "../", "~/"].iter().any(|root| word.starts_with(root));
    let has_suffix = segments.last().is_some_and(|last| last.find('.').is_some_and(|dot| is_suffix(&last[dot..])));
    // Marks around whole alternatives are emphasis: `**yes**/**no**`.
    let mut marked = segments.iter().filter(|segment| segment.contains(is_mark));
    let are_alternatives = !has_root
        && !has_suffix
        && marked.all(|segment| is_wrapped_word(segment))
        && (!word.contains(['_', '~']) || segments.iter().all(|segment| is_wrapped_word(segment)));
    segments.len() > 1 && !are_alternatives
}

/// Whether a segment is a word of letters between two marks.
fn is_wrapped_word(segment: &str) -> bool {
    let opening = &segment[..segment.len() - segment.trim_start_matches(is_mark).len()];
    let Some(inner) = segment.strip_prefix(opening).and_then(|rest| rest.strip_suffix(opening)) else { return false };
    !opening.is_empty() && inner.contains(char::is_alphabetic) && !inner.contains(is_mark)
}

/// Whether a word is a name of a program's: `__init__.py`, `test_*.py`, `std::_x_`, `?x=_q_`.
fn is_identifier(word: &str) -> bool {
    if !word.contains(is_mark) {
        return false;
    }
    let has_suffix_behind_mark = word.char_indices().any(|(at, c)| is_mark(c) && is_suffix(&word[at + 1..]));
    let is_glob = word.contains('*')
        && word.rfind('.').is_some_and(|dot| is_suffix(&word[dot..]) && !word[dot..].contains(is_mark));
    let has_value = ["=_", "=*", "._"]
        .iter()
        .any(|value| word.find(value).is_some_and(|at| word[..at].ends_with(char::is_alphanumeric)));
    let is_mail = word.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
    ((has_suffix_behind_mark || is_glob) && !word.contains("**"))
        || has_value
        || is_mail
        || word.contains("::")
        || word.starts_with('@')
}

/// Whether a word is a name with two underscores around it that programs have.
fn is_dunder(word: &str) -> bool {
    let Some(name) = word.strip_prefix("__").and_then(|rest| rest.strip_suffix("__")) else { return false };
    DUNDER_NAMES.split_ascii_whitespace().any(|dunder| dunder == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What of a word stands for itself.
    fn literal(word: &str) -> &str {
        let at = word.find(is_mark).unwrap_or(0);
        &word[word_at(word, at, 0, word.len()).literal]
    }

    #[test]
    fn paths_and_names_stand_for_themselves() {
        for word in [
            "/shared/_drafts_/a.txt",
            "/shared/__pycache__/b.pyc",
            "src/*.py",
            "**/*.rs",
            "lib/_v1_",
            "__init__.py",
            "test_*.py",
            "*.rs",
            "?x=_q_&y=_z_",
            "std::*",
            "C:\\_x_\\*.txt",
            "_a_@example.org",
        ] {
            assert_eq!(literal(word), word);
        }
        for (word, part) in [
            ("**src/*.rs**", "src/*.rs"),
            ("src/*.py,", "src/*.py"),
            ("**src/main_file.rs**", "src/main_file.rs"),
            ("__init__", "__init__"),
            ("__init__():", "__init__"),
        ] {
            assert_eq!(literal(word), part);
        }
    }

    #[test]
    fn marked_words_are_emphasis() {
        for word in ["**bold**", "_word_", "**yes**/**no**", "*he*/*she*", "**Input**/Output", "~~old~~", "__bold__"] {
            assert_eq!(literal(word), "", "{word}");
        }
    }
}
