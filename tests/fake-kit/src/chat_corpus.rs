//! Texts as models write them, each with what a person must see of it.
//!
//! `corpus/chat` has them in files by kind; its README describes their form.

use std::{collections::BTreeMap, fs, path::Path};

use crate::MarkedText;

/// What begins the line of a text's name, and that of a section below it.
const TEXT: &str = "▶ ";
const SECTION: &str = "▶▶ ";

/// A text and what a person must see of it.
#[derive(Debug, Clone)]
pub struct ChatCase {
    /// The file and the name of the text.
    pub name: String,
    /// The text as a model writes it.
    pub text: String,
    /// What must be visible, by section.
    sections: BTreeMap<String, String>,
}

impl ChatCase {
    /// Returns what must be visible on a chat platform, in canonical notation.
    #[must_use]
    pub fn visible_on(&self, platform: &str) -> String {
        match self.sections.get(platform).or_else(|| self.sections.get("seen")) {
            Some(notation) => MarkedText::parse(notation).canonical(),
            None => MarkedText::parse(&self.text).canonical(),
        }
    }

    /// Returns the lines that must be visible on the page, where blocks take the place of blank lines.
    #[must_use]
    pub fn visible_on_page(&self) -> String {
        let lines = match (self.sections.get("page"), self.sections.get("seen")) {
            (Some(lines), _) => lines.clone(),
            (None, Some(notation)) => MarkedText::parse(notation).characters(),
            (None, None) => self.text.clone(),
        };
        visible_lines(&lines)
    }
}

/// The lines of a text that aren't blank, without the blanks around them.
#[must_use]
pub fn visible_lines(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Reads the corpus.
///
/// # Panics
/// When it can't be read, or isn't in its form.
#[must_use]
pub fn chat_corpus() -> Vec<ChatCase> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/chat");
    let entries = fs::read_dir(folder).expect("the corpus can be listed").flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    let read = |file: &Path| {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        parse_cases(&name, &fs::read_to_string(file).expect("the corpus is UTF-8"))
    };
    files.iter().flat_map(|file| read(file)).collect()
}

fn parse_cases(file: &str, content: &str) -> Vec<ChatCase> {
    let mut cases: Vec<ChatCase> = Vec::new();
    let mut section = None;
    for line in content.lines() {
        if let Some(name) = line.strip_prefix(TEXT) {
            let (name, text) = (format!("{file}: {name}"), String::new());
            cases.push(ChatCase { name, text, sections: BTreeMap::new() });
            section = None;
            continue;
        }
        let case = cases.last_mut().expect("a file begins with the name of a text");
        if let Some(name) = line.strip_prefix(SECTION) {
            assert!(["seen", "telegram", "discord", "page"].contains(&name), "{name} is no section");
            section = Some(name.to_owned());
            case.sections.insert(name.to_owned(), String::new());
            continue;
        }
        let place = match &section {
            None => &mut case.text,
            Some(name) => case.sections.get_mut(name).expect("the section was begun"),
        };
        place.push_str(&line.replace('␠', " "));
        place.push('\n');
    }
    for case in &mut cases {
        case.text.truncate(case.text.trim_end_matches('\n').len());
    }
    cases
}
