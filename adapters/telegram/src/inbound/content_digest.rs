//! What the sender of a message wrote and attached, as a digest: Telegram reports edits in which nothing of it changed. Pure.
//!
//! Update, edited_message: "This update may at times be triggered by changes to message fields that are either unavailable or not
//! actively used by your bot."

use std::collections::BTreeMap;

use satchel_domain::{FileReference, Sha256};
use serde_json::{Value, json};

/// Returns the digest of a message's text or caption with its entities, of its own files, and of what `fallback_text` describes.
///
/// A file counts by the id that is the same in every update that has it.
pub(super) fn digest_content(message: &Value, files: &[FileReference], fallback_text: Option<&str>) -> Sha256 {
    let texts = ["text", "caption"].map(|field| message.get(field));
    let entities = ["entities", "caption_entities"].map(|field| canonical_entities(message.get(field)));
    let files: Vec<&str> = files.iter().map(|file| file.platform_id.as_deref().unwrap_or(&file.locator)).collect();
    Sha256::digest(json!([texts, entities, files, fallback_text]).to_string())
}

/// Returns entities with their fields in one order, and people in them by their ids: their names may change.
fn canonical_entities(entities: Option<&Value>) -> Vec<BTreeMap<&str, &Value>> {
    let entities = entities.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
    let canonical = entities.map(|entity| {
        let fields = entity.iter().map(|(name, value)| match name.as_str() {
            "user" => ("user", value.get("id").unwrap_or(value)),
            name => (name, value),
        });
        fields.collect::<BTreeMap<_, _>>()
    });
    canonical.collect()
}

#[cfg(test)]
mod tests {
    use satchel_domain::Filename;

    use super::*;

    fn digest(message: &Value) -> Sha256 {
        digest_content(message, &[], None)
    }

    fn formatted(entity: Value) -> Value {
        json!({ "message_id": 1, "text": "buy milk", "entities": [entity] })
    }

    #[test]
    fn fields_that_a_person_does_not_write_change_nothing() {
        let written = formatted(json!({ "type": "bold", "offset": 0, "length": 3 }));
        let mut told_again = formatted(json!({ "length": 3, "offset": 0, "type": "bold" }));
        for (field, value) in [
            ("edit_date", json!(1_700_000_060)),
            ("sender_tag", json!("Cook")),
            ("reply_to_message", json!({ "message_id": 3, "text": "edited since" })),
            ("from", json!({ "id": 42, "is_bot": false, "first_name": "Renamed" })),
            ("has_protected_content", json!(true)),
        ] {
            told_again[field] = value;
        }
        assert_eq!(digest(&written), digest(&told_again));
        let mention = |name: &str| {
            let user = json!({ "id": 43, "is_bot": false, "first_name": name });
            formatted(json!({ "type": "text_mention", "offset": 0, "length": 3, "user": user }))
        };
        assert_eq!(digest(&mention("Bob")), digest(&mention("Robert")));
    }

    #[test]
    fn text_caption_entities_files_and_places_count() {
        let photo = |id: &str| FileReference {
            platform_id: Some(id.to_owned()),
            ..FileReference::new("link".to_owned(), Filename::from_untrusted("a.jpg"))
        };
        let bold = formatted(json!({ "type": "bold", "offset": 0, "length": 3 }));
        let digests = [
            digest(&json!({ "text": "buy milk" })),
            digest(&json!({ "text": "buy tea" })),
            digest(&json!({ "caption": "buy milk" })),
            digest(&bold),
            digest(&formatted(json!({ "type": "strikethrough", "offset": 0, "length": 3 }))),
            digest(&formatted(json!({ "type": "bold", "offset": 4, "length": 4 }))),
            digest(&formatted(json!({ "type": "custom_emoji", "offset": 0, "length": 3, "custom_emoji_id": "1" }))),
            digest(&formatted(json!({ "type": "custom_emoji", "offset": 0, "length": 3, "custom_emoji_id": "2" }))),
            digest_content(&bold, &[photo("a")], None),
            digest_content(&bold, &[photo("b")], None),
            digest_content(&bold, &[photo("a"), photo("b")], None),
            digest_content(&bold, &[], Some("[location: 1, 2]")),
        ];
        for (index, one) in digests.iter().enumerate() {
            assert!(!digests[..index].contains(one), "{index}");
        }
        let fetched_elsewhere = FileReference { locator: "another link".to_owned(), ..photo("a") };
        assert_eq!(digest_content(&bold, &[fetched_elsewhere], None), digests[8], "the id of a file may change");
    }
}
