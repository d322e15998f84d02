//! A hundred documents by other programs pass through the worker: how many of their authors' words arrive, by format.
//!
//! `tests/corpus` holds each document beside its golden text.

use std::{collections::HashMap, fmt::Write as _, fs, path::Path};

use futures::{StreamExt, stream};
use unicode_normalization::UnicodeNormalization;

use crate::harness::{read, settings};

/// For each format the type that its files have, and the least recall and precision of its documents together.
const BARS: [(&str, &str, f64, f64); 13] = [
    ("pdf", "application/pdf", 0.99, 0.99),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", 0.99, 0.98),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", 1.0, 0.97),
    ("xls", "application/vnd.ms-excel", 1.0, 0.97),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation", 1.0, 0.98),
    ("odt", "application/vnd.oasis.opendocument.text", 0.99, 0.98),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet", 1.0, 0.97),
    ("odp", "application/vnd.oasis.opendocument.presentation", 1.0, 0.98),
    ("epub", "application/epub+zip", 1.0, 0.98),
    ("rtf", "application/rtf", 0.95, 0.98),
    ("html", "text/html", 1.0, 0.98),
    ("eml", "message/rfc822", 1.0, 0.93),
    ("txt", "text/plain", 0.9, 0.98),
];

/// Code pages that nothing in their bytes tells from another.
const UNREAD_CODE_PAGES: [&str; 2] = ["cp437", "mac-roman"];

/// A document of the corpus with what its author wrote.
struct GoldenDocument {
    name: String,
    content: Vec<u8>,
    golden: String,
}

/// How many words were found, and how many there are on both sides.
#[derive(Clone, Copy, Default)]
struct WordCounts {
    found: usize,
    golden: usize,
    decoded: usize,
}

impl WordCounts {
    fn add(&mut self, other: Self) {
        self.found += other.found;
        self.golden += other.golden;
        self.decoded += other.decoded;
    }

    fn recall(self) -> f64 {
        self.found as f64 / self.golden.max(1) as f64
    }

    fn precision(self) -> f64 {
        self.found as f64 / self.decoded.max(1) as f64
    }
}

fn documents(format: &str) -> Vec<GoldenDocument> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(format);
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut documents: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == format))
        .map(|path| GoldenDocument {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            content: fs::read(&path).unwrap(),
            golden: fs::read_to_string(path.with_extension("golden")).unwrap(),
        })
        .collect();
    documents.sort_by(|a, b| a.name.cmp(&b.name));
    documents
}

/// The words of a text with the number of each. Where lines break between any two letters, each is a word; what has
/// neither a letter nor a digit, such as a bullet, is none.
fn words(text: &str) -> HashMap<String, usize> {
    let is_word_by_itself =
        |c: char| matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}');
    let mut spaced = String::new();
    for c in text.nfkc() {
        if is_word_by_itself(c) {
            spaced.extend([' ', c, ' ']);
        } else {
            spaced.push(c);
        }
    }
    let mut words = HashMap::new();
    for word in spaced.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)) {
        *words.entry(word.to_owned()).or_default() += 1;
    }
    words
}

/// The counts, and the golden words that are missing.
fn compare(golden: &str, decoded: &str) -> (WordCounts, Vec<String>) {
    let (golden, decoded) = (words(golden), words(decoded));
    let mut counts =
        WordCounts { golden: golden.values().sum(), decoded: decoded.values().sum(), ..WordCounts::default() };
    let mut missing = Vec::new();
    for (word, number) in golden {
        let found = number.min(decoded.get(&word).copied().unwrap_or_default());
        counts.found += found;
        if found < number {
            missing.push(word);
        }
    }
    missing.sort();
    (counts, missing)
}

/// The text of the document, or the error that the model would read.
async fn decode(content: Vec<u8>, mime: &str) -> String {
    match read(settings(), content, mime).await {
        Ok(text) => text.pages.into_iter().map(|page| page.text + "\n").collect(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn words_of_a_hundred_documents_are_recalled() {
    let (mut table, mut losses, mut failed, mut total) = (String::new(), String::new(), Vec::new(), 0);
    for (format, mime, least_recall, least_precision) in BARS {
        let compared = stream::iter(documents(format)).map(|document| async move {
            let decoded = decode(document.content, mime).await;
            (document.name, compare(&document.golden, &decoded))
        });
        let mut counts = WordCounts::default();
        let compared: Vec<_> = compared.buffered(2).collect().await;
        for (name, (of_document, missing)) in &compared {
            counts.add(*of_document);
            if !missing.is_empty() {
                writeln!(losses, "{format} {name} {:.3} lacks {missing:?}", of_document.recall()).unwrap();
            }
            let code_page = name.split_once('-').map(|(_, code_page)| code_page).filter(|_| format == "txt");
            if code_page.is_some_and(|code_page| missing.is_empty() == UNREAD_CODE_PAGES.contains(&code_page)) {
                failed.push(name.clone());
            }
        }
        total += compared.len();
        let (recall, precision) = (counts.recall(), counts.precision());
        writeln!(table, "{format:5} {:3} documents, recall {recall:.3}, precision {precision:.3}", compared.len())
            .unwrap();
        if recall < least_recall || precision < least_precision {
            failed.push(format.to_owned());
        }
    }
    println!("{table}{losses}");
    assert!(failed.is_empty(), "{failed:?} are below their bars:\n{table}{losses}");
    assert!(total >= 100, "there are {total} documents");
}

#[test]
fn words_are_counted_as_a_person_would() {
    let (counts, missing) = compare("one two two\nﬁsh 東京駅 –", "• two one, fish 東京\n駅");
    assert_eq!(missing, ["one", "two"]);
    assert_eq!((counts.found, counts.golden, counts.decoded), (5, 7, 6));
}
