//! Names of files as Discord rewrites them, and the titles that keep them as they are. Pure.
//!
//! Discord cleanses names as Flask's `secure_filename()` does (discord-api-docs, issue 7754): blanks become `_`, all but letters of
//! ASCII, digits, `-`, `_` and `.` is dropped, and then the `.` and `_` at both ends. Clients show an attachment's `title`
//! followed by the extension of the cleansed name.

use satchel_domain::Filename;

/// The name that a file is uploaded under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UploadName {
    /// The name that Discord cleanses.
    pub(crate) filename: String,
    /// What people see of the name in front of the extension, if the cleansed name would be another one.
    pub(crate) title: Option<String>,
}

impl UploadName {
    /// Chooses both so that people see the name as it is.
    pub(crate) fn new(name: &Filename) -> Self {
        let name = name.as_str();
        let cleansed = cleanse(name);
        if cleansed == name {
            return Self { filename: cleansed, title: None };
        }
        let (stem, extension) = split_extension(name);
        match (extension, split_extension(&cleansed).1) {
            (own, left) if own == left => Self { filename: name.to_owned(), title: Some(stem.to_owned()) },
            (_, None) => Self { filename: name.to_owned(), title: Some(name.to_owned()) },
            // Clients would append an extension that isn't the file's own.
            (_, Some(_)) => Self { filename: name.replace('.', "_"), title: Some(name.to_owned()) },
        }
    }
}

/// Whether a file that Discord has as `filename`, with an optional `title`, is the one that was uploaded as `sent`. It doesn't
/// document which characters it drops; only those at the ends that a title keeps are certain.
pub(crate) fn is_same_name(sent: &Filename, filename: &str, title: Option<&str>) -> bool {
    let upload = UploadName::new(sent);
    match (&upload.title, title) {
        (Some(sent), Some(shown)) => sent == shown,
        (None, None) => filename == upload.filename,
        // A title may be lost, or be one of Discord's own.
        (None, Some(shown)) => {
            shown == split_extension(&upload.filename).0 && letters(&upload.filename) == letters(filename)
        }
        (Some(_), None) => letters(&upload.filename) == letters(filename),
    }
}

/// The letters and digits of a name that Discord keeps.
fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect()
}

fn cleanse(name: &str) -> String {
    let joined = name.split_whitespace().collect::<Vec<_>>().join("_");
    let is_kept = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
    let kept: String = joined.chars().filter(is_kept).collect();
    let (stem, extension) = kept.rsplit_once('.').unwrap_or((kept.as_str(), ""));
    match stem.trim_matches(['.', '_']).is_empty() && kept != joined {
        // Of a name in other letters Discord keeps the extension alone.
        true => format!("unknown.{extension}").trim_end_matches('.').to_owned(),
        false => kept.trim_matches(['.', '_']).to_owned(),
    }
}

/// The name in front of its extension, and the extension. A name that only begins with a dot has none.
fn split_extension(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => (stem, Some(extension)),
        _ => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn upload(name: &str) -> (String, Option<String>) {
        let UploadName { filename, title } = UploadName::new(&Filename::from_untrusted(name));
        (filename, title)
    }

    #[test]
    fn only_what_would_be_rewritten_has_a_title() {
        for (name, filename, title) in [
            ("plan.pdf", "plan.pdf", None),
            ("a-b_c.d.txt", "a-b_c.d.txt", None),
            ("my plan.pdf", "my plan.pdf", Some("my plan")),
            ("план.pdf", "план.pdf", Some("план")),
            (".env", ".env", Some(".env")),
            (".config.json", ".config.json", Some(".config")),
            ("__init__.py", "__init__.py", Some("__init__")),
            ("_draft_.txt", "_draft_.txt", Some("_draft_")),
            ("draft_", "draft_", Some("draft_")),
            ("_.txt", "_.txt", Some("_.txt")),
            (".план", ".план", Some(".план")),
            ("план.док", "план.док", Some("план.док")),
            ("notes.txt~", "notes_txt~", Some("notes.txt~")),
            ("a b.tar.gz", "a b.tar.gz", Some("a b.tar")),
        ] {
            assert_eq!(upload(name), (filename.to_owned(), title.map(str::to_owned)), "{name}");
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
            (".env", "env", Some(".env"), true),
            (".env", "env", None, true),
            ("__init__.py", "init__.py", Some("__init__"), true),
            ("env", "env", Some(".env"), false),
            ("init.py", "init.py", Some("__init__"), false),
            ("_plan.pdf", "plan.pdf", Some("plan"), false),
            ("a_b.txt", "ab.txt", None, false),
        ] {
            let sent_as = Filename::from_untrusted(sent);
            assert_eq!(is_same_name(&sent_as, filename, title), same, "{sent} as {filename}, {title:?}");
        }
    }

    proptest! {
        #[test]
        fn person_sees_any_name_as_it_is(name in "[._ -]{0,3}[a-zа-я0-9]{0,4}[._ ~()-]{0,3}([.][a-zа-я]{1,3}[_~]{0,1})?") {
            let name = Filename::from_untrusted(&name);
            let UploadName { filename, title } = UploadName::new(&name);
            let cleansed = cleanse(&filename);
            let shown = match (&title, cleansed.rsplit_once('.')) {
                (Some(title), Some((_, extension))) => format!("{title}.{extension}"),
                (Some(title), None) => title.clone(),
                (None, _) => cleansed.clone(),
            };
            prop_assert_eq!(shown, name.as_str());
            prop_assert!(is_same_name(&name, &cleansed, title.as_deref()));
        }
    }
}
