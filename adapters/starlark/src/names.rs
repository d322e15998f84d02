//! The names that a script can use for a variable or a function.

/// Starlark's keywords and reserved words.
const RESERVED_NAMES: [&str; 36] = [
    "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else", "except",
    "False", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "load", "None", "nonlocal",
    "not", "or", "pass", "raise", "return", "True", "try", "while", "with", "yield",
];

/// Whether a script can use this name for a variable or a function.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|character| character.is_ascii_alphanumeric() || character == '_')
        && !RESERVED_NAMES.contains(&name)
}

/// Explains why a name can't be used for a variable, and suggests a similar valid one.
#[cfg(feature = "host")]
pub(crate) fn invalid_name_reason(name: &str) -> String {
    let escaped: String = name.escape_debug().take(100).collect();
    let nearest = nearest_name(name).map_or(String::new(), |nearest| format!("; `{nearest}` can"));
    format!(
        "`{escaped}` can't be the name of a variable{nearest}: names are made of the letters a to z, digits and _, don't \
         begin with a digit, and are no words of the language such as `for`"
    )
}

/// Returns the nearest valid name; `None` where no character of the name is valid.
#[cfg(feature = "host")]
fn nearest_name(given: &str) -> Option<String> {
    let replace_invalid = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
    let mut name: String = given.chars().take(100).map(replace_invalid).collect();
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        name.insert(0, '_');
    }
    if RESERVED_NAMES.contains(&name.as_str()) {
        name.push('_');
    }
    name.contains(|character| character != '_').then_some(name)
}
