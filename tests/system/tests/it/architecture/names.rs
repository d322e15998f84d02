//! Names are the field's words: a retired word names nothing, a name means one type, and a predicate changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::{assert_no_complaints, source_files};

/// Words that are no segment of a name: participles, metaphors and pronouns that no search would find.
const RETIRED: &str = "again anew asked asking began begun bookmark bookmarks came come desk dice doer door doorway \
    entrance errand errands heard hear insist judge judged kept known laid marks meaning meant noted ours patience \
    patient place places pulse said say says seen shown spoken stage stands standing stirred stood surroundings talk \
    tell teller tend tending thought thoughts told untold trouble turned unheard unruly us verdict waits wanted \
    whoever wish words wrong wrote";

/// Words that are no function's whole name: they don't say what the function does, or to what.
const RETIRED_FUNCTIONS: &str =
    "after ask described end first forget go look named of over plain take tidy what_of why word";

/// Names that a file may use for itself, whatever others do.
const PRIVATE: [&str; 5] = ["Arguments", "State", "Shared", "Inner", "Error"];

/// The kind and the name of what a line of Rust defines.
fn definition(line: &str) -> Option<(&str, &str)> {
    const KINDS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "mod", "const", "static", "macro_rules!"];
    let modifiers = ["pub", "pub(crate)", "pub(super)", "async", "const", "unsafe"];
    let ends_name = |letter: char| !(letter.is_alphanumeric() || letter == '_');
    let mut tokens = line.split_whitespace().peekable();
    while let Some(token) = tokens.next() {
        let next = tokens.peek().copied()?;
        if KINDS.contains(&token) && next != "fn" {
            return Some((token, next.split(ends_name).next()?));
        }
        if !modifiers.contains(&token) {
            break;
        }
    }
    None
}

/// The name of the enum variant on a line, as rustfmt writes those of an enum at the top of a file.
fn variant(line: &str) -> Option<&str> {
    let text = line.strip_prefix("    ").filter(|text| text.starts_with(|letter: char| letter.is_ascii_uppercase()))?;
    let end = text.find(|letter: char| !letter.is_alphanumeric())?;
    let is_variant = [",", "(", " {", " ="].iter().any(|follows| text[end..].starts_with(follows));
    is_variant.then(|| &text[..end])
}

/// The words of a name in `snake_case`, `CamelCase` or `CAPITALS`, in small letters.
fn segments(name: &str) -> Vec<String> {
    let is_constant = !name.contains(|letter: char| letter.is_ascii_lowercase());
    let mut segments = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || (letter.is_ascii_uppercase() && !is_constant) {
            segments.push(String::new());
        }
        if letter != '_' {
            segments.last_mut().expect("there is always one").push(letter.to_ascii_lowercase());
        }
    }
    segments
}

/// A file of production code without its inline tests.
pub(super) struct ProductionFile {
    pub(super) path: String,
    pub(super) text: String,
}

impl ProductionFile {
    /// What the file defines: kind and name.
    fn definitions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text.lines().filter_map(|line| definition(line).or_else(|| Some(("variant", variant(line)?))))
    }

    /// Its definitions whose name has a retired word, or is one.
    fn retired(&self) -> Vec<String> {
        let is_retired =
            |name: &str| segments(name).iter().any(|segment| RETIRED.split_whitespace().any(|word| word == segment));
        let says_nothing =
            |kind: &str, name: &str| kind == "fn" && RETIRED_FUNCTIONS.split_whitespace().any(|word| word == name);
        // Telegram's dice are called so.
        let is_vendors = |name: &str| name == "Dice" && self.path == "adapters/telegram/src/inbound/wire.rs";
        self.definitions()
            .filter(|(kind, name)| (is_retired(name) && !is_vendors(name)) || says_nothing(kind, name))
            .map(|(kind, name)| format!("{}: the {kind} `{name}` has a retired word", self.path))
            .collect()
    }
}

pub(super) fn production_files() -> Vec<ProductionFile> {
    let is_test =
        |path: &str| path.starts_with("tests/") || ["/tests.rs", "/contract.rs"].iter().any(|end| path.ends_with(end));
    let is_production = |path: &str| path.contains("/src/") && !path.contains("/tests/") && !is_test(path);
    let root = satchel_system::real_binary::workspace_root();
    let files = source_files().into_iter().filter_map(|(path, text)| {
        let path = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
        is_production(&path).then_some(ProductionFile { path, text })
    });
    files.collect()
}

#[test]
fn production_code_uses_no_retired_words() {
    let files = production_files();
    let definitions: usize = files.iter().map(|file| file.definitions().count()).sum();
    assert!(definitions > 5_000, "only {definitions} names were found");
    assert_no_complaints(&files.iter().flat_map(ProductionFile::retired).collect::<Vec<_>>());
}

/// Adapters of one port, whose files and types have the same names.
const TWINS: [(&str, &str); 2] =
    [("adapters/telegram/", "adapters/discord/"), ("adapters/ledger-sqlite/", "adapters/ledger-postgres/")];

#[test]
fn type_names_are_unique_in_the_workspace() {
    let files = production_files();
    let mut paths: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| !["wire.rs", "protocol.rs"].iter().any(|name| file.path.ends_with(name))) {
        for (kind, name) in file.definitions() {
            if ["struct", "enum", "trait"].contains(&kind) && !PRIVATE.contains(&name) {
                paths.entry(name).or_default().insert(&file.path);
            }
        }
    }
    let are_twins = |paths: &BTreeSet<&str>| {
        let of_each = |(one, other): &(&str, &str)| {
            let is_in = |folder: &str| paths.iter().any(|path| path.starts_with(folder));
            is_in(one) && is_in(other)
        };
        paths.len() == 2 && TWINS.iter().any(of_each)
    };
    let repeated: BTreeMap<_, _> =
        paths.into_iter().filter(|(_, paths)| paths.len() > 1 && !are_twins(paths)).collect();
    let complaints = repeated.iter().map(|(name, paths)| format!("`{name}` is a type in {paths:?}"));
    assert_no_complaints(&complaints.collect::<Vec<_>>());
}

#[test]
fn predicates_change_nothing() {
    let mut complaints = Vec::new();
    for file in production_files() {
        let mut lines = file.text.lines().peekable();
        while let Some(line) = lines.next() {
            let Some(("fn", name)) = definition(line) else { continue };
            let is_predicate = ["is_", "has_", "can_", "needs_"].iter().any(|prefix| name.starts_with(prefix));
            let receiver = format!("{line}{}", lines.peek().copied().unwrap_or_default());
            if is_predicate && receiver.contains("&mut self") {
                complaints.push(format!("{}: `{name}` takes `&mut self`", file.path));
            }
        }
    }
    assert_no_complaints(&complaints);
}

#[test]
fn names_are_read_as_their_words() {
    assert_eq!(definition("pub(crate) async fn take_lane(&self)"), Some(("fn", "take_lane")));
    assert_eq!(definition("const LONGEST: usize = 3;"), Some(("const", "LONGEST")));
    assert_eq!(definition("pub const fn of(x: u8) -> Self {"), Some(("fn", "of")));
    assert_eq!(definition("    let begun = 3;"), None);
    assert_eq!(
        (variant("    Begun { at: u8 },"), variant("    Ok(begun)"), variant("let x")),
        (Some("Begun"), Some("Ok"), None)
    );
    assert_eq!(segments("LaneToldOf"), ["", "lane", "told", "of"]);
    assert_eq!(segments("WAS_TOLD"), ["was", "told"]);
    assert_eq!(segments("was_told"), ["was", "told"]);
}
