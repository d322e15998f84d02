//! A message as Discord's response shows it, compared with what was sent.
//!
//! With `enforce_nonce` the response to a new message may show an older one that an earlier attempt of the same part
//! posted (Create Message), so its content can differ from what was sent now.

use serde::Deserialize;
use serde_json::Value;

use super::compose::ComposedMessage;

/// A message in a response. Fields of an unknown form don't make the response undecodable.
#[derive(Debug, Deserialize)]
pub(crate) struct SentMessage {
    /// Its id, as text.
    pub(crate) id: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    attachments: Value,
}

impl SentMessage {
    /// Whether its text or files differ from what was composed. What the response doesn't show counts as equal, and so
    /// do the files of a message composed without any: an edit of the text leaves them in place.
    pub(crate) fn is_different_from(&self, composed: &ComposedMessage) -> bool {
        let has_other_text = self.content.as_str().is_some_and(|content| !is_same_text(content, composed.text()));
        // Discord rewrites names; the number and sizes of the files are sufficient.
        let has_other_files = self.attachments.as_array().is_some_and(|files| {
            let has_other_size = |(file, sent): (&Value, u64)| file_size(file).is_some_and(|size| size != sent);
            let sent = composed.uploads.iter().map(|upload| upload.bytes);
            files.len() != sent.len() || files.iter().zip(sent).any(has_other_size)
        });
        has_other_text || !composed.uploads.is_empty() && has_other_files
    }

    /// Whether the response shows the same number of files with the same sizes.
    pub(crate) fn has_files_of(&self, composed: &ComposedMessage) -> bool {
        let sent = composed.uploads.iter().map(|upload| Some(upload.bytes));
        self.attachments.as_array().is_some_and(|files| files.iter().map(file_size).eq(sent))
    }
}

fn file_size(file: &Value) -> Option<u64> {
    file.get("size").and_then(Value::as_u64)
}

/// Whether Discord shows `sent` as `shown`. It "may strip certain characters" (Create Message): whitespace at the ends
/// and invisible characters.
pub(crate) fn is_same_text(shown: &str, sent: &str) -> bool {
    let visible = |text: &str| text.chars().filter(|c| !is_invisible(*c)).collect::<String>();
    shown.trim() == sent.trim() || visible(shown).trim() == visible(sent).trim()
}

/// Whether a character is a control character other than a line feed or tab, or a direction or zero-width mark.
fn is_invisible(c: char) -> bool {
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
            assert_eq!(sent.is_different_from(&composed(" hello \n", &[1, 2])), differs, "{answer}");
        }
        let bare: SentMessage = serde_json::from_value(json!({ "id": "1" })).unwrap();
        assert!(!bare.is_different_from(&composed("hello", &[1])), "nothing is shown");
        let answer = json!({ "id": "1", "content": "hello", "attachments": files(&[1, 2]) });
        let sent: SentMessage = serde_json::from_value(answer).unwrap();
        assert!(!sent.is_different_from(&composed("hello", &[])), "its files may stay");
        assert!(sent.is_different_from(&composed("hello!", &[])));
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
            assert_eq!(sent.has_files_of(&composed("hello", &[1, 2])), shows, "{attachments}");
        }
    }

    #[test]
    fn whitespace_and_formatting_count_as_text() {
        for (shown, sent) in [("ab", "a b"), ("a b", "a\nb"), ("**a**", "a"), ("a", "A")] {
            assert!(!is_same_text(shown, sent), "{shown:?} is not {sent:?}");
        }
    }
}
