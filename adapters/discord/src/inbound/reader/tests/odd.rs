//! What has another form than Discord documents: never a panic, and readable as long as what is needed is there.

use proptest::prelude::*;

use super::*;

#[test]
fn malformed_event_is_undecodable_without_leaking_content() {
    let reader = reader();
    let without = |field: &str| {
        let mut message = direct(json!({ "content": "secret" }));
        message.as_object_mut().unwrap().remove(field);
        message
    };
    for message in [
        without("id"),
        without("channel_id"),
        without("author"),
        direct(json!({ "content": 5 })),
        direct(json!({ "content": "secret", "id": 1_000 })),
        direct(json!({ "content": "secret", "id": "secret" })),
        direct(json!({ "content": "secret", "attachments": [{ "id": "1", "filename": "a" }] })),
        direct(json!({ "content": "secret", "attachments": "secret" })),
        direct(json!({ "content": "secret", "message_snapshots": [{ "message": { "attachments": [5] } }] })),
        direct(json!({ "content": "secret", "referenced_message": { "content": "secret" } })),
        json!("secret"),
        Value::Null,
    ] {
        for event in ["MESSAGE_CREATE", "INTERACTION_CREATE"] {
            let InboundEvent::Undecodable(reason) = reader.read(event, &message) else { panic!("{event}: {message}") };
            assert!(!reason.contains("secret"), "{reason}");
        }
    }
}

/// Any JSON, some of it with the names of fields that are read.
fn json() -> impl Strategy<Value = Value> {
    let names = "id|content|author|attachments|mentions|embeds|poll|question|answers|poll_media|text|member|nick|type|\
                 data|options|value|url|title|filename|referenced_message|message_snapshots|message|sticker_items|token|\
                 [a-z]{1,3}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[0-9]{1,4}|\\PC{0,12}|<[@#:/&!a]{0,3}[a-z0-9:]{0,6}>?|`{1,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_that_comes_makes_it_panic(
        data in json(),
        fields in prop::collection::btree_map(
            "content|type|data|poll|mentions|embeds|referenced_message|message_snapshots|attachments|member|token|user",
            json(),
            0..5,
        ),
    ) {
        let reader = reader();
        let fields = Value::Object(fields.into_iter().collect());
        let odd = with(in_guild(OPEN, json!({ "token": "t", "user": ann() })), fields);
        for event in ["MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE"] {
            reader.read(event, &data);
            reader.read(event, &odd);
        }
        reader.read_history(&odd, None);
    }

    #[test]
    fn message_for_bot_decodes_despite_odd_fields(
        more in prop::collection::btree_map(
            "embeds|poll|sticker_items|mentions|mention_roles|member|components|nonce|thread|reactions|[a-z]{1,8}",
            json(),
            0..6,
        ),
    ) {
        let mut message = with(direct(json!({})), Value::Object(more.into_iter().collect()));
        let needed = direct(json!({ "content": "hello <b>", "attachments": [pdf(json!({}))] }));
        for field in ["id", "channel_id", "author", "type", "flags", "content", "attachments", "edited_timestamp"] {
            message[field] = needed[field].clone();
        }
        for field in ["guild_id", "webhook_id", "message_reference", "referenced_message", "message_snapshots"] {
            message.as_object_mut().unwrap().remove(field);
        }
        let read = read(&message);
        prop_assert!(read.text.starts_with("hello <b>"), "{}", read.text);
        prop_assert_eq!(read.files.len(), 1);
        prop_assert_eq!(read.raw, message);
    }
}
