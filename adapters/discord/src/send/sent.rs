//! A message as Discord's answer shows it, held against what was sent.
//!
//! With `enforce_nonce` the answer to a new message may show an older one, which an earlier call of the same part has
//! made (Create Message): what arrived then need not be what was sent now.

use serde::Deserialize;
use serde_json::Value;

use super::compose::ComposedMessage;

/// A message as an answer shows it. What can't be read of it doesn't make the answer unreadable.
#[derive(Debug, Deserialize)]
pub(crate) struct SentMessage {
    /// Its number, as text.
    pub(crate) id: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    attachments: Value,
}

impl SentMessage {
    /// Whether it has other words or files than these. What the answer doesn't show is taken to be right, and so are the
    /// files of a message that is to have none: words that are repeated without their files take none away.
    pub(crate) fn differs_from(&self, composed: &ComposedMessage) -> bool {
        let other_words = self.content.as_str().is_some_and(|content| !is_same_text(content, composed.text()));
        // Names are rewritten; so many files of these sizes are not there by chance.
        let other_files = self.attachments.as_array().is_some_and(|files| {
            let is_other = |(file, sent): (&Value, u64)| size(file).is_some_and(|size| size != sent);
            let sent = composed.uploads.iter().map(|upload| upload.bytes);
            files.len() != sent.len() || files.iter().zip(sent).any(is_other)
        });
        other_words || !composed.uploads.is_empty() && other_files
    }

    /// Whether the answer shows as many files of just these sizes.
    pub(crate) fn shows_files_of(&self, composed: &ComposedMessage) -> bool {
        let sent = composed.uploads.iter().map(|upload| Some(upload.bytes));
        self.attachments.as_array().is_some_and(|files| files.iter().map(size).eq(sent))
    }
}

fn size(file: &Value) -> Option<u64> {
    file.get("size").and_then(Value::as_u64)
}

/// Whether Discord shows these words for those. It "may strip certain characters" (Create Message), which are blanks at
/// the ends and such as nobody sees.
pub(crate) fn is_same_text(shown: &str, sent: &str) -> bool {
    let seen = |text: &str| text.chars().filter(|c| !is_unseen(*c)).collect::<String>();
    shown.trim() == sent.trim() || seen(shown).trim() == seen(sent).trim()
}

/// Control characters but line feeds and tabs, and marks of direction, width and order.
fn is_unseen(c: char) -> bool {
    let is_control = c.is_control() && !matches!(c, '\n' | '\t');
    is_control || matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::send::compose::FileUpload;

    fn composed(words: &str, sizes: &[u64]) -> ComposedMessage {
        let upload = |bytes: &u64| FileUpload {
            sha256: satchel_domain::Sha256([1; 32]),
            bytes: *bytes,
            filename: satchel_domain::Filename::from_untrusted("a b.txt"),
            mime: "text/plain".to_owned(),
        };
        let payload = json!({ "content": words }).as_object().cloned().unwrap_or_default();
        ComposedMessage { payload, uploads: sizes.iter().map(upload).collect() }
    }

    #[test]
    fn response_differs_by_text_file_count_and_sizes() {
        let files = |sizes: &[u64]| sizes.iter().map(|size| json!({ "size": size, "filename": "a_b.txt" })).collect();
        for (content, attachments, differs) in [
            (json!("hello"), files(&[1, 2]), false),
            (json!("\u{200e}hello\r\n"), files(&[1, 2]), false),
            (json!("hello!"), files(&[1, 2]), true),
            (json!(""), files(&[1, 2]), true),
            (json!("hello"), files(&[1]), true),
            (json!("hello"), files(&[]), true),
            (json!("hello"), files(&[1, 3]), true),
            (json!("hello"), files(&[1, 2, 3]), true),
            (json!(null), json!(null), false),
            (json!(7), json!({ "odd": 1 }), false),
            (json!("hello"), json!([{}, 7]), false),
        ] {
            let answer = json!({ "id": "1", "content": content, "attachments": attachments });
            let sent: SentMessage = serde_json::from_value(answer.clone()).unwrap();
            assert_eq!(sent.differs_from(&composed(" hello \n", &[1, 2])), differs, "{answer}");
        }
        let bare: SentMessage = serde_json::from_value(json!({ "id": "1" })).unwrap();
        assert!(!bare.differs_from(&composed("hello", &[1])), "nothing is shown");
        let answer = json!({ "id": "1", "content": "hello", "attachments": files(&[1, 2]) });
        let sent: SentMessage = serde_json::from_value(answer).unwrap();
        assert!(!sent.differs_from(&composed("hello", &[])), "its files may stay");
        assert!(sent.differs_from(&composed("hello!", &[])));
    }

    #[test]
    fn files_are_present_only_if_response_lists_each() {
        let files = |sizes: &[u64]| sizes.iter().map(|size| json!({ "size": size })).collect::<Value>();
        for (attachments, shows) in [
            (files(&[1, 2]), true),
            (files(&[2, 1]), false),
            (files(&[1]), false),
            (files(&[1, 2, 3]), false),
            (json!([{ "size": 1 }, {}]), false),
            (json!([]), false),
            (json!(null), false),
        ] {
            let sent: SentMessage = serde_json::from_value(json!({ "id": "1", "attachments": attachments })).unwrap();
            assert_eq!(sent.shows_files_of(&composed("hello", &[1, 2])), shows, "{attachments}");
        }
    }

    #[test]
    fn whitespace_and_formatting_count_as_text() {
        for (shown, sent) in [("ab", "a b"), ("a b", "a\nb"), ("**a**", "a"), ("a", "A")] {
            assert!(!is_same_text(shown, sent), "{shown:?} is not {sent:?}");
        }
    }
}
