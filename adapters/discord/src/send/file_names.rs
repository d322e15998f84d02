//! The names of a message's files: unique, and recognised after Discord has rewritten them.

use std::collections::HashSet;

use satchel_domain::Filename;

/// Adds a number to the second and later files of one name.
pub(super) fn number_duplicates<'name>(names: impl IntoIterator<Item = &'name Filename>) -> Vec<Filename> {
    let mut taken = HashSet::new();
    let mut unique = Vec::new();
    for name in names {
        let mut candidate = name.clone();
        // A message has at most ten files, so the search is short.
        for number in 2.. {
            if taken.insert(candidate.as_str().to_lowercase()) {
                break;
            }
            candidate = name.with_number(number);
        }
        unique.push(candidate);
    }
    unique
}

/// Returns the name without its extension if Discord would rewrite it; people see this title instead.
pub(super) fn display_title(name: &Filename) -> Option<String> {
    let is_preserved = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (!name.as_str().chars().all(is_preserved)).then(|| file_stem(name.as_str()).to_owned())
}

/// Whether a file that Discord shows as `filename`, with an optional `title`, is the one that was sent as `sent`.
/// Discord replaces blanks by `_` and drops some characters; it doesn't document which.
pub(crate) fn is_same_name(sent: &Filename, filename: &str, title: Option<&str>) -> bool {
    let kept_chars = |text: &str, is_kept: fn(char) -> bool| text.chars().filter(|c| is_kept(*c)).collect::<String>();
    let is_equal = |is_kept: fn(char) -> bool| kept_chars(sent.as_str(), is_kept) == kept_chars(filename, is_kept);
    title.is_some_and(|title| title == file_stem(sent.as_str()))
        || is_equal(char::is_alphanumeric)
        || (title.is_none() && is_equal(|c| c.is_ascii_alphanumeric()))
}

fn file_stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Filename {
        Filename::from_untrusted(text)
    }

    #[test]
    fn equal_names_are_numbered_without_collisions() {
        let given = ["a.txt", "a.txt", "A.txt", "a-2.txt", "b", "b"].map(name);
        let numbered: Vec<String> = number_duplicates(&given).iter().map(ToString::to_string).collect();
        assert_eq!(numbered, ["a.txt", "a-2.txt", "A-3.txt", "a-2-2.txt", "b", "b-2"]);
    }

    #[test]
    fn only_what_would_be_rewritten_has_a_title() {
        for (given, expected) in
            [("plan.pdf", None), ("a-b_c.d.txt", None), ("my plan.pdf", Some("my plan")), ("план.pdf", Some("план"))]
        {
            assert_eq!(display_title(&name(given)).as_deref(), expected, "{given}");
        }
    }

    #[test]
    fn rewritten_name_matches_only_its_original() {
        for (sent, filename, title, same) in [
            ("plan.pdf", "plan.pdf", None, true),
            ("my (new) plan.pdf", "my_new_plan.pdf", None, true),
            ("my plan.pdf", "my_plan.pdf", Some("my plan"), true),
            ("план.pdf", "_.pdf", Some("план"), true),
            ("план.pdf", ".pdf", None, true),
            ("план.pdf", "pdf", Some("проект"), false),
            ("plan.pdf", "plan-2.pdf", None, false),
            ("plan.pdf", "plan.txt", None, false),
        ] {
            assert_eq!(is_same_name(&name(sent), filename, title), same, "{sent} as {filename}");
        }
    }
}
