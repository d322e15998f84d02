//! The policy's promises: what it refuses and in which words, and that nothing gets round it.

use proptest::prelude::*;
use satchel_domain::path::Mount;
use serde_json::json;

use super::*;
use crate::{
    fakes::{World, attachment},
    path_fields::path_fields,
};

#[test]
fn a_refusal_names_the_argument_the_path_and_the_mounts() {
    for (tool, arguments, says) in [
        ("attachment_save", json!({"path": "/vault/key"}), "but `/vault/key` can't be written"),
        ("file_read", json!({"path": "/vault/key"}), "but `/vault/key` can't be read"),
        ("attachment.save_all", json!({"dir": "/etc"}), "but `/etc` is outside the workspace"),
        ("attachment.add", json!({"paths": ["/shared/a", "/shared/../b"]}), "but `/shared/../b` climbs"),
        ("attachment.add", json!({"paths": ["/shared/a"], "path": "C:\\a"}), "but `C:\\\\a` is outside"),
        ("file_write", json!({"path": "/shared/a\0b"}), "invisible"),
        ("file_write", json!({"path": {"a": 1}}), "but {\"a\":1} is no path"),
        ("file_write", json!({"path": ["/shared/a", ["/vault/b"]]}), "is no path"),
        ("file_write", json!({"path": "/".repeat(100_000)}), "it has 100000 bytes, and at most 1024 are allowed"),
    ] {
        let error = check(path_fields(tool).unwrap(), &arguments).expect_err(says).0;
        assert!(error.contains(says), "{tool}: `{says}` is not in `{error:.300}`");
        assert!(error.starts_with("argument `"), "{error}");
        assert!(error.contains("`: expected a path beneath /shared or /tmp, but "), "{tool}: {error:.600}");
    }
}

#[test]
fn what_lies_beneath_the_mounts_passes_and_what_is_missing_is_the_tools_affair() {
    for (tool, arguments) in [
        ("attachment_save", json!({"path": "~/photo.jpg"})),
        ("attachment.add", json!({"paths": ["/shared/a", "/tmp/b", null]})),
        ("attachment.list", json!({"path": "/etc/passwd"})),
        ("file_list", json!({})),
        ("file_list", json!("not an object")),
    ] {
        assert_eq!(check(path_fields(tool).unwrap(), &arguments), Ok(()), "{tool} {arguments}");
    }
}

fn path_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "(/shared|/tmp|~|/vault|/etc)(/(a|b|\\.\\.|\\.|sub|key|nul|\u{202E})){0,4}/?",
        "[~/a-z.\\\\:]{0,12}",
        ".{0,12}",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => path_text().prop_map(Value::from),
        3 => proptest::collection::vec(path_text(), 0..4).prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => path_text().prop_map(|path| json!({ "path": path })),
    ]
}

proptest! {
    #[test]
    fn no_arguments_bring_a_tool_outside_its_mounts(
        values in proptest::collection::vec(proptest::option::weighted(0.7, value()), 8),
        valid_rest in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let world = World::new();
            world.put_file("/shared/a", b"a");
            world.put_file("/vault/key", b"secret");
            world.receive(attachment(1, "a", "text/plain", b"a"));
            for spec in world.registry().specs() {
                let names = spec.parameters["properties"].as_object().cloned().unwrap_or_default();
                let mut arguments: serde_json::Map<String, Value> = names
                    .keys()
                    .zip(&values)
                    .filter_map(|(name, value)| Some((name.clone(), value.clone()?)))
                    .collect();
                if valid_rest {
                    // With its other arguments right, a call comes as far as its paths let it.
                    let PathFields::Some(fields) = path_fields(&spec.name).unwrap() else { continue };
                    arguments.retain(|name, _| fields.iter().any(|field| field.name == name.as_str()));
                    match spec.name.as_str() {
                        "attachment_save" => drop(arguments.insert("index".to_owned(), json!(0))),
                        "file_write" => drop(arguments.insert("content".to_owned(), json!("x"))),
                        _ => {}
                    }
                }
                let _answer = world.call(&spec.name, Value::Object(arguments)).await;
                let allowed = [Mount::Shared, Mount::Tmp];
                for path in world.touched() {
                    assert!(allowed.contains(&path.mount()), "{} touched {path}", spec.name);
                    assert!(!path.to_string().contains(".."), "{} touched {path}", spec.name);
                }
            }
        });
    }
}
