//! The names of a message's files: each another one, and each known again after Discord has rewritten it.

use std::collections::HashSet;

use satchel_domain::Filename;

/// Gives the second and later files of one name a number.
pub(super) fn numbered<'name>(names: impl IntoIterator<Item = &'name Filename>) -> Vec<Filename> {
    let mut taken = HashSet::new();
    let mut all = Vec::new();
    for name in names {
        let mut free = name.clone();
        // Discord takes no more than ten files, so the search is short.
        for number in 2.. {
            if taken.insert(free.as_str().to_lowercase()) {
                break;
            }
            free = name.numbered(number);
        }
        all.push(free);
    }
    all
}

/// The name without its extension, where Discord would rewrite it: people are shown this instead.
pub(super) fn title(name: &Filename) -> Option<String> {
    let stays = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (!name.as_str().chars().all(stays)).then(|| stem(name.as_str()).to_owned())
}

/// Whether a file that Discord shows under `filename`, and `title` where it has one, is the one that was sent under
/// `sent`. Discord puts `_` for blanks and leaves out what it doesn't like; which characters those are, it doesn't say.
pub(crate) fn is_same_name(sent: &Filename, filename: &str, title: Option<&str>) -> bool {
    let letters = |text: &str, is_kept: fn(char) -> bool| text.chars().filter(|c| is_kept(*c)).collect::<String>();
    let same = |is_kept: fn(char) -> bool| letters(sent.as_str(), is_kept) == letters(filename, is_kept);
    title.is_some_and(|title| title == stem(sent.as_str()))
        || same(char::is_alphanumeric)
        || (title.is_none() && same(|c| c.is_ascii_alphanumeric()))
}

fn stem(name: &str) -> &str {
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
        let numbered: Vec<String> = numbered(&given).iter().map(ToString::to_string).collect();
        assert_eq!(numbered, ["a.txt", "a-2.txt", "A-3.txt", "a-2-2.txt", "b", "b-2"]);
    }

    #[test]
    fn only_what_would_be_rewritten_has_a_title() {
        for (given, expected) in
            [("plan.pdf", None), ("a-b_c.d.txt", None), ("my plan.pdf", Some("my plan")), ("план.pdf", Some("план"))]
        {
            assert_eq!(title(&name(given)).as_deref(), expected, "{given}");
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
