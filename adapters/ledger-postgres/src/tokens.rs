//! The words of a text as a search compares them: runs of letters and digits, in small letters and without accents.

use std::{collections::BTreeSet, ops::Range};

use satchel_ledger::excerpt::{MATCH_END, MATCH_START};
use satchel_ports::ledger::SearchTerms;
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

/// The longest word that is indexed; what follows is no longer compared.
const MAX_TOKEN_CHARS: usize = 200;

/// How long the words of a turn may be together; PostgreSQL refuses more than 1 MiB.
const MAX_INDEX_BYTES: usize = 900 * 1024;

/// The words for which a search looks, all of which must be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenQuery(Vec<QueryToken>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct QueryToken {
    word: String,
    /// Whether it is the beginning of a word.
    is_prefix: bool,
}

impl TokenQuery {
    pub(crate) fn new(terms: &SearchTerms) -> Self {
        let mut words = Vec::new();
        for term in terms.iter() {
            // What begins with one letter is nearly everything; in scripts of one sign a word it isn't.
            let is_letter = term.is_ascii() && term.chars().filter(|char| char.is_alphanumeric()).count() < 2;
            let mut of_term: Vec<QueryToken> =
                split(term).map(|(word, _)| QueryToken { word, is_prefix: false }).collect();
            if let Some(last) = of_term.last_mut() {
                last.is_prefix = !is_letter;
            }
            words.extend(of_term);
        }
        words.sort_unstable();
        words.dedup();
        Self(words)
    }

    /// The expression of a search of the index; `None` where nothing is sought that has words.
    pub(crate) fn to_tsquery(&self) -> Option<String> {
        let words = self.0.iter().map(|sought| {
            // A word has letters and digits alone, so that none ends the quotes.
            format!("'{}'{}", sought.word, if sought.is_prefix { ":*" } else { "" })
        });
        Some(words.collect::<Vec<_>>().join(" & ")).filter(|query| !query.is_empty())
    }

    /// Whether a text has all of them.
    pub(crate) fn are_in(&self, text: &str) -> bool {
        let words: Vec<String> = split(text).map(|(word, _)| word).collect();
        !self.0.is_empty() && self.0.iter().all(|sought| words.iter().any(|word| sought.matches(word)))
    }

    /// Marks those that stand in a text.
    pub(crate) fn mark(&self, text: &str) -> String {
        let mut marked = String::with_capacity(text.len());
        let mut end = 0;
        for (word, place) in split(text) {
            if self.0.iter().any(|sought| sought.matches(&word)) {
                marked.push_str(&text[end..place.start]);
                marked.push(MATCH_START);
                marked.push_str(&text[place.clone()]);
                marked.push(MATCH_END);
                end = place.end;
            }
        }
        marked.push_str(&text[end..]);
        marked
    }
}

impl QueryToken {
    fn matches(&self, word: &str) -> bool {
        if self.is_prefix { word.starts_with(&self.word) } else { word == self.word }
    }
}

/// The different words of texts, as the index has them: as many as it has room for.
pub(crate) fn index_tokens(texts: &[&str]) -> Vec<String> {
    let words: BTreeSet<String> = texts.iter().flat_map(|text| split(text)).map(|(word, _)| word).collect();
    let mut bytes = 0;
    let fits = |word: &String| {
        bytes += word.len() + 1;
        bytes <= MAX_INDEX_BYTES
    };
    words.into_iter().take_while(fits).collect()
}

/// Splits a text into its words, as they are compared, with their places.
fn split(text: &str) -> impl Iterator<Item = (String, Range<usize>)> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let is_part = |char: char| char.is_alphanumeric() || is_combining_mark(char);
        let start = rest + text[rest..].find(|char: char| char.is_alphanumeric())?;
        let end = text[start..].find(|char| !is_part(char)).map_or(text.len(), |length| start + length);
        rest = end;
        Some((fold(&text[start..end]), start..end))
    })
    .filter(|(word, _)| !word.is_empty())
}

/// Small letters without accents. What isn't a letter or a digit by itself is left out.
fn fold(word: &str) -> String {
    let letters = word.chars().flat_map(char::to_lowercase).nfd().filter(|char| char.is_alphanumeric());
    letters.take(MAX_TOKEN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sought(text: &str) -> TokenQuery {
        TokenQuery::new(&SearchTerms::parse(text).unwrap())
    }

    #[test]
    fn no_word_is_an_operator() {
        assert_eq!(sought("rent rent").to_tsquery().as_deref(), Some("'rent':*"));
        assert_eq!(sought("a\"b | !x' C++ 日").to_tsquery().as_deref(), Some("'a' & 'b':* & 'c' & 'x' & '日':*"),);
    }

    #[test]
    fn tokens_ignore_case_and_accents() {
        assert_eq!(index_tokens(&["Müller's beach_2024.JPG", "müller"]), ["2024", "beach", "jpg", "muller", "s"]);
        assert!(sought("MULL jpg").are_in("beach.jpg of Müller") && !sought("rent").are_in("parent"));
        let marked = sought("beach jpg").mark("the beach_2024.jpg");
        assert_eq!(marked, "the \u{e000}beach\u{e001}_2024.\u{e000}jpg\u{e001}");
    }
}
