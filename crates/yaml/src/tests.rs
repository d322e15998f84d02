//! Positions, and what is said about a file that can't be read.

use crate::{YamlNode, YamlPosition, YamlValue, parse};

fn position(line: u64, column: u64) -> YamlPosition {
    YamlPosition { line, column }
}

fn entry<'a>(node: &'a YamlNode, key: &str) -> &'a crate::YamlEntry {
    let YamlValue::Map(entries) = &node.value else { panic!("{node:?} is no map") };
    entries.iter().find(|entry| entry.key == key).unwrap_or_else(|| panic!("there is no {key}"))
}

#[test]
fn keys_values_and_items_have_positions() {
    let node = parse("a:\n  - one\n  - {b:  2}\n").unwrap();
    let a = entry(&node, "a");
    assert_eq!(a.key_position, position(1, 1));
    let YamlValue::List(items) = &a.node.value else { panic!("{a:?}") };
    assert_eq!((&items[0].value, items[0].position), (&YamlValue::Text("one".into()), position(2, 5)));
    let b = entry(&items[1], "b");
    assert_eq!(
        (b.key_position, &b.node.value, b.node.position),
        (position(3, 6), &YamlValue::Integer(2), position(3, 10))
    );
}

#[test]
fn file_without_value_is_null() {
    for text in ["", "# nothing\n", "~\n"] {
        assert_eq!(parse(text).unwrap().value, YamlValue::Null, "{text:?}");
    }
}

#[test]
fn mistakes_say_what_to_do_and_where() {
    for (text, line, column, message) in [
        ("a: {{ .x }}\n", 1, 4, "quote templates"),
        ("a: 1\na: 2\n", 2, 1, "`a` stands here twice: remove one"),
        ("a:\n\tb: 1\n", 2, 1, "a tab stands in the indentation"),
        ("a: 1\n---\nb: 2\n", 3, 1, "a second document"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.message.contains(message), "{text:?}: {error:?}");
        assert_eq!(error.position, position(line, column), "{text:?}");
    }
}

#[test]
fn multiplying_aliases_are_refused() {
    let mut text = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (key, below) in ('b'..='j').zip('a'..) {
        text += &format!("{key}: &{key} [{}]\n", vec![format!("*{below}"); 9].join(","));
    }
    assert!(parse(&text).unwrap_err().message.contains("holds too much"));
}
