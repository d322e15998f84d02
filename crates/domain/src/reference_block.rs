//! References to files in a message that can only be text: the block that two programs exchange at its end.
//!
//! `[[satchel.attachments]]{"items":[{"url":"…","filename":"…","mimeType":"…","id":"…"}]}[[/satchel.attachments]]`
//!
//! A message's typed files are the truth; the block stands in for them where a front end or a peer knows nothing but
//! text. Nobody can forge one: a person's text passes [`escape`] in intake, and only then what a front end hands over
//! as [`references`](crate::InboundMessage::references) becomes the block. Reading is strict: a block that isn't
//! well-formed, isn't at the end, or isn't the only one is text.

use serde::{Deserialize, Serialize};

use crate::{AttachmentId, Filename};

const OPEN_MARKER: &str = "[[satchel.attachments]]";
const CLOSE_MARKER: &str = "[[/satchel.attachments]]";

/// A file as a message's text refers to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttachmentReference {
    /// Where it can be fetched, or `satchel:attachment/<id>` for a file that has no address of its own.
    pub url: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<Filename>,
    /// The type that it is claimed to have; a hint, never believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its id, where Satchel knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<AttachmentId>,
}

impl AttachmentReference {
    /// A file of which nothing but its address is known.
    #[must_use]
    pub fn new(url: String) -> Self {
        Self { url, filename: None, mime_type: None, id: None }
    }

    /// Its name. Without one, what its address ends with if that is a filename with an extension; otherwise this number, since
    /// an address may end with a secret.
    #[must_use]
    pub fn display_name(&self, number: usize) -> Filename {
        let named = || match name_in_address(&self.url) {
            Some(name) => Filename::from_untrusted(name),
            None => Filename::from_untrusted(&format!("file {number}")),
        };
        self.filename.clone().unwrap_or_else(named)
    }
}

/// The longest extension, in characters, by which the end of an address is taken for a filename.
const MAX_EXTENSION_CHARS: usize = 5;

/// Returns the last segment of an address's path if it has a file's extension.
fn name_in_address(url: &str) -> Option<&str> {
    let (_, rest) = url.split(['?', '#']).next()?.split_once("://")?;
    let (_, path) = rest.split_once('/')?;
    let name = path.rsplit('/').next()?;
    let (stem, extension) = name.rsplit_once('.')?;
    let is_extension = (1..=MAX_EXTENSION_CHARS).contains(&extension.len())
        && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && extension.bytes().any(|byte| byte.is_ascii_alphabetic());
    (is_extension && !stem.is_empty()).then_some(name)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReferenceBlock {
    items: Vec<AttachmentReference>,
}

/// Appends references to a text. An existing block and the new one are merged, the old references first and each once;
/// any other marker in the text is escaped.
#[must_use]
pub fn append(text: &str, references: &[AttachmentReference]) -> String {
    let (text, existing) = split(text);
    let mut items = existing.unwrap_or_default();
    let new = references.iter().filter(|reference| !items.contains(reference)).cloned().collect::<Vec<_>>();
    items.extend(new);
    let text = escape(text);
    if items.is_empty() {
        return text;
    }
    let json = serde_json::to_string(&ReferenceBlock { items }).expect("texts are JSON");
    // Two brackets in a row are never structure here, so they stand inside a text, perhaps as a marker in a filename.
    let json = json.replace("[[", "[\\u005b");
    let line_break = if text.is_empty() { "" } else { "\n" };
    format!("{text}{line_break}{OPEN_MARKER}{json}{CLOSE_MARKER}")
}

/// Takes the block off a text. A text whose block is malformed comes back whole, with `None`, as does one without;
/// [`has_marker`] tells the two apart.
#[must_use]
pub fn split(text: &str) -> (&str, Option<Vec<AttachmentReference>>) {
    match find_block(text) {
        Some((before, items)) => (before, Some(items)),
        None => (text, None),
    }
}

/// Returns the beginning of a text without the block that it may have, whole or cut off, as for a title.
#[must_use]
pub fn text_before_block(text: &str) -> &str {
    text.find(OPEN_MARKER).map_or(text, |at| text[..at].trim_end())
}

/// Whether anything in a text looks like a block's begin or end.
#[must_use]
pub fn has_marker(text: &str) -> bool {
    text.contains(OPEN_MARKER) || text.contains(CLOSE_MARKER)
}

/// Makes a person's text one that holds no block and no part of one. A text without markers, and one that was escaped
/// before, stays as it is.
#[must_use]
pub fn escape(text: &str) -> String {
    // A backslash is in no marker, so none comes into being.
    text.replace(OPEN_MARKER, r"[\[satchel.attachments]]").replace(CLOSE_MARKER, r"[\[/satchel.attachments]]")
}

/// The text before a well-formed block, and what the block holds.
fn find_block(text: &str) -> Option<(&str, Vec<AttachmentReference>)> {
    let (before, block) = text.split_once(OPEN_MARKER)?;
    let json = block.strip_suffix(CLOSE_MARKER)?;
    if has_marker(before) || has_marker(json) || json.contains(['\n', '\r']) {
        return None;
    }
    let ReferenceBlock { items } = serde_json::from_str(json).ok()?;
    // Nobody appends an empty one.
    (!items.is_empty()).then(|| (before.strip_suffix('\n').unwrap_or(before), items))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn reference(url: &str) -> AttachmentReference {
        AttachmentReference::new(url.to_owned())
    }

    fn whole() -> AttachmentReference {
        AttachmentReference {
            url: "https://cdn.discordapp.com/a.png?ex=1".to_owned(),
            filename: Some(Filename::from_untrusted("a.png")),
            mime_type: Some("image/png".to_owned()),
            id: Some(AttachmentId(Uuid::from_u128(7))),
        }
    }

    #[test]
    fn address_names_a_file_only_with_an_extension() {
        for (url, name) in [
            ("https://host/d/map.png?token=x#y", "map.png"),
            ("https://host/backup.tar.gz", "backup.tar.gz"),
            ("https://host/d/4f9aS3cr3tT0ken", "file 2"),
            ("https://host/d/head.payload.4f9aS3cr3tT0ken", "file 2"),
            ("https://host/d/4f9a.2026", "file 2"),
            ("https://host/d/", "file 2"),
            ("https://host/d/map.png/", "file 2"),
            ("https://host.example.org", "file 2"),
            ("https://host/?name=a.png", "file 2"),
            ("https://host/.env", "file 2"),
            ("satchel:attachment/00000000-0000-0000-0000-000000000007", "file 2"),
        ] {
            assert_eq!(reference(url).display_name(2).as_str(), name, "{url}");
        }
        assert_eq!(whole().display_name(2).as_str(), "a.png");
    }

    #[test]
    fn title_ends_before_the_block() {
        let text = append("see these", &[whole()]);
        assert_eq!(text_before_block(&text), "see these");
        assert_eq!(text_before_block(&text[..60]), "see these");
        assert_eq!(text_before_block("see [[these]]"), "see [[these]]");
    }

    #[test]
    fn the_block_is_written_as_it_is_specified() {
        assert_eq!(
            append("see these", &[whole(), reference("satchel:attachment/x")]),
            "see these\n[[satchel.attachments]]{\"items\":[{\"url\":\"https://cdn.discordapp.com/a.png?ex=1\",\
             \"filename\":\"a.png\",\"mimeType\":\"image/png\",\"id\":\"00000000-0000-0000-0000-000000000007\"},\
             {\"url\":\"satchel:attachment/x\"}]}[[/satchel.attachments]]"
        );
        assert_eq!(append("nothing to refer to", &[]), "nothing to refer to");
        assert!(append("", &[whole()]).starts_with(OPEN_MARKER));
    }

    #[test]
    fn a_block_of_another_program_is_read() {
        let text = r#"hi [[satchel.attachments]]{ "items": [ {"filename":"../x/a.png", "url":"u"} ] }[[/satchel.attachments]]"#;
        let (before, items) = split(text);
        let items = items.expect("a block");
        assert_eq!((before, items[0].url.as_str()), ("hi ", "u"));
        assert_eq!(items[0].filename.as_ref().map(Filename::as_str), Some("a.png"), "its names are made harmless");
    }

    #[test]
    fn a_malformed_block_is_text() {
        let good = r#"[[satchel.attachments]]{"items":[{"url":"u"}]}[[/satchel.attachments]]"#;
        assert!(split(good).1.is_some());
        for malformed in [
            format!("{good} and more"),
            format!("{good}\n"),
            format!("{good}{good}"),
            format!("[[satchel.attachments]]{good}"),
            format!("[[/satchel.attachments]]{good}"),
            format!("{good}[[/satchel.attachments]]"),
            good.replace("[[/satchel", "[[satchel"),
            good.replace("}[[/", "[[/"),
            good.replace("{\"items", "\n{\"items"),
            good.replace("]}", "]\r}"),
            good.replace("\"url\":\"u\"", ""),
            good.replace("\"url\":\"u\"", "\"url\":7"),
            good.replace("{\"url\":\"u\"}", ""),
            good.replace("\"url\":\"u\"", "\"url\":\"u\",\"size\":1"),
            good.replace("\"url\":\"u\"", "\"url\":\"u\",\"url\":\"v\""),
            good.replace("\"url\":\"u\"", "\"url\":\"u\",\"id\":\"7\""),
            good.replace("]}", "],\"more\":1}"),
            good.replace("]}", "]}{}"),
            good.replace("\"u\"", "\"[[satchel.attachments]]\""),
            good.replace("\"u\"", "\"[[/satchel.attachments]]\""),
            good.replace("satchel", "Satchel"),
            good.replace("[[/", "[[ /"),
            good.replace("[[/satchel.attachments]]", ""),
            good.replace("[[satchel.attachments]]", ""),
        ] {
            assert_eq!(split(&malformed), (malformed.as_str(), None));
        }
        assert!(has_marker("x [[satchel.attachments]]") && has_marker("[[/satchel.attachments]]"));
        assert!(!has_marker("[[satchel.attachment]] [[/satchel]] [satchel.attachments]"));
    }

    #[test]
    fn a_filename_that_holds_the_marker_breaks_nothing() {
        let forged = r#"a[[/satchel.attachments]][[satchel.attachments]]{"items":[{"url":"evil"}]}"#;
        let named =
            AttachmentReference { filename: Some(Filename::from_untrusted(forged)), ..reference("https://x/[[[[y") };
        let text = append("text", std::slice::from_ref(&named));
        assert_eq!((text.matches(OPEN_MARKER).count(), text.matches(CLOSE_MARKER).count()), (1, 1), "{text}");
        assert_eq!(split(&text), ("text", Some(vec![named])));
    }

    #[test]
    fn two_blocks_become_one() {
        let text = append(&append("text", &[reference("a"), whole()]), &[whole(), reference("b")]);
        assert_eq!(split(&text), ("text", Some(vec![reference("a"), whole(), reference("b")])));
        assert_eq!(append(&text, &[]), text);
    }

    #[test]
    fn what_a_person_types_stays_readable() {
        let typed = "why do I see [[satchel.attachments]]{}[[/satchel.attachments]] in [[my]] notes?";
        let escaped = r"why do I see [\[satchel.attachments]]{}[\[/satchel.attachments]] in [[my]] notes?";
        assert_eq!(escape(typed), escaped);
        assert_eq!(escape(escaped), escaped, "once is enough");
    }

    /// Texts in which pieces of blocks are likely.
    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just(OPEN_MARKER.to_owned()),
            Just(CLOSE_MARKER.to_owned()),
            Just("[".to_owned()),
            Just("\\".to_owned()),
            Just("[satchel.attachments]]".to_owned()),
            Just("/satchel.attachments]]".to_owned()),
            Just(r#"{"items":[{"url":"evil"}]}"#.to_owned()),
            Just("\n".to_owned()),
            any::<String>(),
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    fn references() -> impl Strategy<Value = Vec<AttachmentReference>> {
        let reference = (pieces(), prop::option::of(pieces()), prop::option::of(pieces()), any::<Option<u128>>());
        let reference = reference.prop_map(|(url, filename, mime_type, id)| AttachmentReference {
            url,
            filename: filename.map(|filename| Filename::from_untrusted(&filename)),
            mime_type,
            id: id.map(|id| AttachmentId(Uuid::from_u128(id))),
        });
        prop::collection::vec(reference, 1..4)
    }

    proptest! {
        #[test]
        fn what_is_appended_comes_back(typed in pieces(), references in references()) {
            let text = escape(&typed);
            let appended = append(&text, &references);
            prop_assert_eq!(split(&appended), (text.as_str(), Some(references)));
            prop_assert!(!appended[text.len()..].trim_start_matches('\n').contains(['\n', '\r']), "one line");
        }

        #[test]
        fn typed_text_is_never_parsed_as_block(typed in pieces(), next in pieces()) {
            let escaped = escape(&typed);
            prop_assert!(!has_marker(&escaped));
            prop_assert_eq!(split(&escaped), (escaped.as_str(), None));
            prop_assert_eq!(&escape(&escaped), &escaped);
            // Nor does it become one when a turn's messages are read line by line.
            let lines = format!("{escaped}\n{}", escape(&next));
            prop_assert!(!has_marker(&lines));
        }

        #[test]
        fn a_text_never_holds_more_than_one_block(typed in pieces(), first in references(), second in references()) {
            let text = append(&append(&typed, &first), &second);
            prop_assert_eq!((text.matches(OPEN_MARKER).count(), text.matches(CLOSE_MARKER).count()), (1, 1));
            prop_assert!(split(&text).1.is_some());
        }
    }
}
