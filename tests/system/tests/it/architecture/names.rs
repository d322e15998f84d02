//! The crates that others build on name things by the words of the field: a retired word names nothing there.

use super::{assert_none, source_files};

/// The crates whose names have been swept. The list only grows, until it is the workspace.
const SWEPT: &[&str] = &[
    "adapters/http-server/src",
    "adapters/platform-http/src",
    "crates/domain/src",
    "crates/ports/src",
    "crates/routing/src",
];

/// Words that are no segment of a name: participles, metaphors and pronouns that no search would find.
const RETIRED: &str = "again anew asked asking began begun bookmark bookmarks came come desk dice doer door doorway \
    entrance errand errands heard hear insist judge judged kept known laid marks meaning meant noted ours patience \
    patient place places pulse said say says seen shown spoken stage stands standing stirred stood surroundings talk \
    tell teller tend tending thought thoughts told untold trouble turned unheard unruly us verdict waits wanted \
    whoever wish words wrong wrote";

/// Words that are no function's whole name: they don't say what the function does, or to what.
const RETIRED_FUNCTIONS: &str =
    "after ask described end first forget go look named of over plain take tidy what_of why word";

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

/// Whether the file is a test's own.
fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

#[test]
fn swept_crates_use_no_retired_words() {
    let retired =
        |name: &str| segments(name).iter().any(|segment| RETIRED.split_whitespace().any(|word| word == segment));
    let mut definitions = 0;
    let mut complaints = Vec::new();
    for (path, text) in source_files() {
        let path = path.to_string_lossy();
        if is_test(&path) || !SWEPT.iter().any(|swept| path.contains(swept)) {
            continue;
        }
        let production = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for line in production.lines() {
            let Some((kind, name)) = definition(line).or_else(|| Some(("variant", variant(line)?))) else { continue };
            definitions += 1;
            let says_nothing = kind == "fn" && RETIRED_FUNCTIONS.split_whitespace().any(|word| word == name);
            if says_nothing || retired(name) {
                complaints.push(format!("{path}: the {kind} `{name}` has a retired word"));
            }
        }
    }
    assert!(definitions > 1_000, "only {definitions} names were found");
    assert_none(&complaints);
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
