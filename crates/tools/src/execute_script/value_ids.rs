//! The files that a script's value names. Pure.

use std::collections::HashSet;

use satchel_domain::AttachmentId;
use serde_json::Value;

/// An id that a script's value names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedId {
    pub(super) id: AttachmentId,
    /// The key under which it stands, so that it must be a file's; `None` for a value that is nothing but the id, which
    /// may be any id.
    pub(super) key: Option<&'static str>,
}

/// The keys under which ids are files.
const FILE_ID_KEYS: [&str; 2] = ["attachment_id", "attachment_ids"];

/// The ids that a value names, in order, each once. Only canonical, hyphenated UUIDs count; an id under any other key,
/// such as that of a note, is no file.
pub(super) fn find_ids(value: &Value) -> Vec<NamedId> {
    let mut ids = Vec::new();
    match value {
        Value::String(text) => push_id(text, None, &mut ids),
        value => visit_value(value, &mut ids),
    }
    let mut seen = HashSet::new();
    ids.retain(|named_id| seen.insert(named_id.id));
    ids
}

fn visit_value(value: &Value, ids: &mut Vec<NamedId>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| visit_value(item, ids)),
        Value::Object(fields) => {
            for (field, value) in fields {
                match FILE_ID_KEYS.into_iter().find(|key| key == field) {
                    Some(key) => collect_ids(value, key, ids),
                    None => visit_value(value, ids),
                }
            }
        }
        _ => {}
    }
}

/// Every id beneath a key.
fn collect_ids(value: &Value, key: &'static str, ids: &mut Vec<NamedId>) {
    match value {
        Value::String(text) => push_id(text, Some(key), ids),
        Value::Array(items) => items.iter().for_each(|item| collect_ids(item, key, ids)),
        Value::Object(fields) => fields.values().for_each(|item| collect_ids(item, key, ids)),
        _ => {}
    }
}

fn push_id(text: &str, key: Option<&'static str>, ids: &mut Vec<NamedId>) {
    let Ok(id) = text.parse::<AttachmentId>() else { return };
    // Another spelling of the same id is text.
    let canonical = id.to_string() == text;
    if canonical {
        ids.push(NamedId { id, key });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const A: &str = "0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6e";
    const B: &str = "0190c5a0-7f3b-7c62-8d5e-3f1a2b4c5d6f";

    fn found(value: &Value) -> Vec<(String, Option<&'static str>)> {
        find_ids(value).into_iter().map(|named| (named.id.to_string(), named.key)).collect()
    }

    #[test]
    fn ids_are_found_alone_and_under_nested_keys() {
        let a = A.to_owned();
        let b = B.to_owned();
        assert_eq!(found(&json!(A)), [(a.clone(), None)]);
        assert_eq!(found(&json!({"text": "x", "attachment_id": A})), [(a.clone(), Some("attachment_id"))]);
        let nested = json!({"report": [{"attachment_ids": [[B], {"chart": A}]}], "attachment_id": A});
        let key = Some("attachment_ids");
        assert_eq!(found(&nested), [(b.clone(), key), (a.clone(), key)], "in order, each once");
        assert_eq!(found(&json!([{"attachment_id": A}, {"attachment_id": B}])).len(), 2);
    }

    #[test]
    fn nothing_else_is_a_file() {
        for value in [
            json!({"id": A}),
            json!({"notes": [{"id": A, "title": B}]}),
            json!([A, B]),
            json!({"text": A, "chart_id": B}),
            json!({"attachment_id": A.replace('-', "")}),
            json!(A.replace('-', "")),
            json!(A.to_uppercase()),
            json!(format!("{{{A}}}")),
            json!(format!(" {A}")),
            json!(format!("made {A}")),
            json!({"attachment_ids": [1, null, true, "", "chart.png"]}),
            json!({"Attachment_id": A}),
            json!(null),
        ] {
            assert_eq!(found(&value), [], "{value}");
        }
    }
}
