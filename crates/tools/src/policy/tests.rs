//! The policy's promises: what it refuses and in which words, and that nothing gets round it.

use proptest::prelude::*;
use satchel_domain::path::Mount;
use serde_json::json;

use super::*;
use crate::{fakes::ToolHarness, path_fields::path_fields};

#[test]
fn refusal_names_argument_path_and_mounts() {
    for (tool, arguments, says) in [
        ("attachment_save", json!({"path": "/vault/key"}), "but `/vault/key` can't be written"),
        ("file_read", json!({"path": "/vault/key"}), "but `/vault/key` can't be read"),
        ("attachment.save_all", json!({"dir": "/etc"}), "but `/etc` is outside the workspace"),
        ("attachment.add", json!({"paths": ["/shared/a", "/shared/../b"]}), "but `/shared/../b` climbs"),
        ("attachment.add", json!({"paths": ["/shared/a"], "path": "C:\\a"}), "but `C:\\\\a` is outside"),
        ("attachment.add", json!({"paths": ["a.png", "../b.png"]}), "but `../b.png` climbs"),
        ("file_read", json!({"path": "vault/key"}), "but `vault/key` is outside the workspace"),
        ("file_write", json!({"path": "/shared/a\0b"}), "invisible"),
        ("file_write", json!({"path": {"a": 1}}), "but {\"a\":1} is not a path"),
        ("file_write", json!({"path": ["/shared/a", ["/vault/b"]]}), "is not a path"),
        ("file_write", json!({"path": "/".repeat(100_000)}), "it has 100000 bytes, and at most 1024 are allowed"),
    ] {
        let error = check_paths(path_fields(tool).unwrap(), &arguments).expect_err(says).0;
        assert!(error.contains(says), "{tool}: `{says}` is not in `{error:.300}`");
        assert!(error.starts_with("argument `"), "{error}");
        assert!(error.contains("`: expected a path beneath /shared or /tmp, but "), "{tool}: {error:.600}");
    }
}

#[test]
fn paths_in_mounts_and_absent_paths_pass() {
    for (tool, arguments) in [
        ("attachment_save", json!({"path": "~/photo.jpg"})),
        ("attachment.add", json!({"paths": ["/shared/a", "/tmp/b", null]})),
        ("attachment.add", json!({"paths": ["a.png", "./b.png"]})),
        ("file_write", json!({"path": "notes/a.txt"})),
        ("attachment.list", json!({"path": "/etc/passwd"})),
        ("file_list", json!({})),
        ("file_list", json!("not an object")),
    ] {
        assert_eq!(check_paths(path_fields(tool).unwrap(), &arguments), Ok(()), "{tool} {arguments}");
    }
}

#[tokio::test]
async fn every_tool_takes_paths_without_a_mount() {
    let world = ToolHarness::new();
    world.put_file("/shared/in/a", b"a");
    world.receive_bytes(1, "b", "text/plain", b"b");
    for (tool, arguments) in [
        ("attachment.add", json!({"paths": ["in/a"]})),
        ("attachment.add", json!({"path": "./in/a"})),
        ("attachment.save_all", json!({"dir": "in"})),
        ("attachment_save", json!({"index": 0, "path": "in/b-again"})),
        ("file_edit", json!({"path": "in/a", "old": "a", "new": "b"})),
        ("file_list", json!({"path": "in"})),
        ("file_read", json!({"path": "in/a"})),
        ("file_search", json!({"path": "in", "query": "b"})),
        ("file_write", json!({"path": "in/c", "content": "c"})),
    ] {
        let outcome = world.call(tool, arguments.clone()).await;
        assert!(outcome.as_ref().is_ok_and(|outcome| !outcome.failed), "{tool} {arguments}: {outcome:?}");
    }
    let written = ["/shared/in/b", "/shared/in/b-again", "/shared/in/c"].map(|path| world.file(path).is_some());
    assert_eq!(written, [true, true, true]);
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

/// A path that every tool may use, or one that none may, with which of both it is.
fn path_case() -> impl Strategy<Value = (String, bool)> {
    prop_oneof![
        "(/shared|/tmp|~)(/(a|b|sub|\u{e9})){1,3}".prop_map(|path| (path, true)),
        "(/vault|/etc)(/(key|a)){1,2}".prop_map(|path| (path, false)),
        "(/shared|/tmp|~)(/sub){0,2}/\\.\\.(/(a|key|vault)){0,3}".prop_map(|path| (path, false)),
    ]
}

/// A conversation with a file in it, one that just came, and a secret.
fn world() -> ToolHarness {
    let world = ToolHarness::new();
    world.put_file("/shared/a", b"a");
    world.put_file("/vault/key", b"secret");
    world.receive_bytes(1, "a", "text/plain", b"a");
    world
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

proptest! {
    #[test]
    fn no_arguments_bring_a_tool_outside_its_mounts(
        values in proptest::collection::vec(proptest::option::weighted(0.7, value()), 8),
    ) {
        block_on(async {
            let world = world();
            for spec in world.registry().specs() {
                let names = spec.parameters["properties"].as_object().cloned().unwrap_or_default();
                let arguments: serde_json::Map<String, Value> = names
                    .keys()
                    .zip(&values)
                    .filter_map(|(name, value)| Some((name.clone(), value.clone()?)))
                    .collect();
                let _answer = world.call(&spec.name, Value::Object(arguments)).await;
                for path in world.touched() {
                    assert!([Mount::Shared, Mount::Tmp].contains(&path.mount()), "{} touched {path}", spec.name);
                    assert!(path.to_string().split('/').all(|name| name != ".."), "{} touched {path}", spec.name);
                }
            }
        });
    }

    /// Everything else about the calls is right, so that nothing but their paths decides.
    #[test]
    fn only_allowed_paths_bring_calls_to_the_workspace(paths in proptest::collection::vec(path_case(), 1..4)) {
        block_on(async {
            let world = world();
            let mut tried = 0;
            for spec in world.registry().specs() {
                let PathFields::Some(fields) = path_fields(&spec.name).unwrap() else { continue };
                for field in fields {
                    let is_list = spec.parameters["properties"][field.name].to_string().contains("\"array\"");
                    let given = if is_list { &paths[..] } else { &paths[..1] };
                    let texts: Vec<&str> = given.iter().map(|(path, _)| path.as_str()).collect();
                    let mut arguments = match spec.name.as_str() {
                        "attachment_save" => json!({ "index": 0 }),
                        "file_edit" => json!({ "old": "x", "new": "y" }),
                        "file_search" => json!({ "query": "x" }),
                        "file_write" => json!({ "content": "x" }),
                        _ => json!({}),
                    };
                    arguments[field.name] = if is_list { json!(texts) } else { json!(texts[0]) };

                    let before = world.touched().len();
                    let answer = world.call(&spec.name, arguments.clone()).await;
                    let touched = &world.touched()[before..];
                    let call = format!("{} {arguments}: {answer:?} after {touched:?}", spec.name);
                    if given.iter().all(|(_, is_allowed)| *is_allowed) {
                        // Nothing was said with files in this world, so a download has nothing to bring.
                        let reaches = spec.name != "attachment.download";
                        assert!(!(reaches && touched.is_empty()), "nothing was wrong with its paths: {call}");
                        assert!(touched.iter().all(|path| path.mount() != Mount::Vault), "{call}");
                    } else {
                        assert!(answer.is_err() && touched.is_empty(), "it is refused before it begins: {call}");
                    }
                    tried += 1;
                }
            }
            assert!(tried >= 8, "every tool that takes paths was called");
        });
    }
}
