//! The values in a rendered path: they may name directories, but none of them climbs or names what is hidden. Pure.
//!
//! Whether the whole path may be read is decided where it is opened. This is about who may choose it: a declaration is the
//! operator's, and its values come from people, models and scripts.

use std::path::Path;

use crate::template::TextWithValues;

/// The most characters of a component that an error repeats.
const MAX_QUOTED_CHARS: usize = 60;

/// Checks each component of a path that a value is part of, wholly or with the text and the values beside it: `..` may be
/// put together from two of them. An absolute path may begin with the directory of its file. One that doesn't may lead
/// there by another spelling, through hidden directories above it: where it leads is decided when it is opened.
///
/// # Errors
/// With the component that isn't allowed.
pub(crate) fn check_values(path: &TextWithValues, root: &Path) -> Result<(), String> {
    let TextWithValues { text, values } = path;
    let rest = root.to_str().and_then(|root| text.strip_prefix(root)).filter(|rest| rest.starts_with('/'));
    let is_spelled_otherwise = text.starts_with('/') && rest.is_none();
    let mut start = text.len() - rest.unwrap_or(text).len();
    for component in text[start..].split('/') {
        let end = start + component.len();
        let has_value = values.iter().any(|value| value.start <= end && start <= value.end);
        let is_hidden = component.starts_with('.') && component != "." && !is_spelled_otherwise;
        if has_value && (is_hidden || component == "..") {
            let shown: String = component.chars().take(MAX_QUOTED_CHARS).collect();
            return Err(format!(
                "{shown:?} comes from a value, which may name several directories, but none that is `..` or hidden"
            ));
        }
        start = end + 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::template::{Template, TemplateContext};

    /// Checks the path of a template with the values `a` and `b`.
    fn check(template: &str, a: &str, b: &str) -> Result<(), String> {
        let input = Map::from_iter([("a".to_owned(), json!(a)), ("b".to_owned(), json!(b))]);
        let context = TemplateContext::new().with_values("input", input);
        let rendered = Template::parse(template).unwrap().render_with_values(&context).unwrap().unwrap();
        check_values(&rendered, Path::new("/home/ann/.config/satchel"))
    }

    #[test]
    fn value_names_directories_and_never_climbs_or_hides() {
        for (template, a, b) in [
            ("{{ .input.a }}", "report.pdf", ""),
            ("{{ .input.a }}", "2026/03/report.pdf", ""),
            ("{{ .input.a }}", "./2026/report..v2.pdf", ""),
            ("{{ .input.a }}/cover.png", "assets", ""),
            ("{{ .input.a }}/cover.png", "/srv/satchel/assets", ""),
            ("{{ .input.a }}/cover.png", "/home/ann/.config/satchel/assets", ""),
            ("sub/../{{ .input.a }}", "report.pdf", ""),
            ("{{ .input.a }}", "/mnt/home/ann/.config/satchel/assets/x", ""),
            ("{{ .input.a }}", "/home/ann/./.config/satchel/x", ""),
            ("{{ .input.a }}{{ .input.b }}.pdf", "a", "."),
        ] {
            assert_eq!(check(template, a, b), Ok(()), "{template} {a:?} {b:?}");
        }
        for (template, a, b) in [
            ("reports/{{ .input.a }}", "../satchel-data/web-token", ""),
            ("reports/{{ .input.a }}", "2026/../../satchel.yaml", ""),
            ("reports/{{ .input.a }}", "..", ""),
            ("reports/{{ .input.a }}", ".env", ""),
            ("reports/{{ .input.a }}", "2026/.cache/x.png", ""),
            ("reports/{{ .input.a }}", "x//..", ""),
            ("reports/{{ .input.a }}{{ .input.b }}/x", ".", "."),
            ("reports/.{{ .input.a }}/x", ".", ""),
            ("reports/{{ .input.a }}./x", ".", ""),
            ("reports/.{{ .input.a }}./x", "", ""),
            ("reports/.{{ .input.a }}", "env", ""),
            ("{{ .input.a }}", "/home/ann/.config/satchel/../secret", ""),
            ("{{ .input.a }}", "/home/ann/.config/satchel/.env", ""),
            ("{{ .input.a }}", "/mnt/home/ann/.config/satchel/../secret", ""),
        ] {
            assert!(check(template, a, b).is_err(), "{template} {a:?} {b:?}");
        }
        let error = check("{{ .input.a }}", "../x", "").unwrap_err();
        assert_eq!(
            error,
            "\"..\" comes from a value, which may name several directories, but none that is `..` or hidden"
        );
    }
}
