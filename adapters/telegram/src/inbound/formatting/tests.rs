//! Texts with their entities, as a model reads them.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::inbound::{text::parse_forwarded, wire::MessageEntity};

/// An entity over a part of a text that is there once, with more fields.
fn over(text: &str, part: &str, kind: &str, more: Value) -> Value {
    let (before, _) = text.split_once(part).unwrap();
    let units = |text: &str| text.encode_utf16().count();
    let mut entity = json!({ "type": kind, "offset": units(before), "length": units(part) });
    entity.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    entity
}

fn read(text: &str, entities: Vec<Value>) -> String {
    let entities: Vec<MessageEntity> = serde_json::from_value(Value::Array(entities)).unwrap();
    parse_forwarded(text, &entities)
}

/// A text in which these parts are of these kinds.
fn read_kinds(text: &str, parts: &[(&str, &str)]) -> String {
    read(text, parts.iter().map(|(part, kind)| over(text, part, kind, json!({}))).collect())
}

#[test]
fn each_kind_of_formatting_is_read() {
    let text = "buy milk eggs bread";
    for (kind, expected) in [
        ("strikethrough", "buy ~~milk~~ eggs bread"),
        ("spoiler", "buy ||milk|| eggs bread"),
        ("bold", "buy **milk** eggs bread"),
        ("italic", "buy *milk* eggs bread"),
        ("underline", "buy __milk__ eggs bread"),
        ("code", "buy `milk` eggs bread"),
        ("pre", "buy \n```\nmilk\n```\n eggs bread"),
        ("blockquote", "buy \n> milk\n eggs bread"),
        ("expandable_blockquote", "buy \n> milk\n eggs bread"),
        ("custom_emoji", text),
        ("hashtag", text),
        ("brand_new", text),
    ] {
        assert_eq!(read_kinds(text, &[("milk", kind)]), expected);
    }
}

#[test]
fn code_keeps_its_characters() {
    for (code, expected) in [
        ("rm *_old_*", "`rm *_old_*`"),
        ("a\\b", "`a\\b`"),
        ("a `b` c", "``a `b` c``"),
        ("``", "` `` `"),
        ("`a", "`` `a ``"),
        (" a ", "`  a  `"),
        (" a", "` a`"),
        ("a\nb", "```\na\nb\n```"),
    ] {
        assert_eq!(read_kinds(code, &[(code, "code")]), expected);
    }
    let python = "def f():\n    return \"```\"\n```\n";
    let block = read(python, vec![over(python, python, "pre", json!({ "language": "python" }))]);
    assert_eq!(block, format!("````python\n{python}````"));
    // A backtick that was typed is none of the code's.
    assert_eq!(read_kinds("a` and b", &[("b", "code")]), "a` and ``b``");
    assert_eq!(read_kinds("`b", &[("b", "code")]), "` ``b``");
    assert_eq!(read_kinds("ab", &[("a", "code"), ("b", "code")]), "`ab`");
}

#[test]
fn label_of_code_stays_in_its_line() {
    for (language, line) in [("rust", "```rust"), ("c++\nx", "```c++"), ("a`b", "```a"), ("", "```")] {
        let block = read("x", vec![over("x", "x", "pre", json!({ "language": language }))]);
        assert_eq!(block, format!("{line}\nx\n```"));
    }
}

#[test]
fn formatting_ends_with_its_text() {
    for (text, part, expected) in [
        ("buy milk eggs", "milk ", "buy ~~milk~~ eggs"),
        ("buy milk eggs", " milk ", "buy ~~milk~~ eggs"),
        ("buy milk", " ", "buy milk"),
        ("milk\neggs", "milk\n", "~~milk~~\neggs"),
        ("milk\n\n eggs", "milk\n\n eggs", "~~milk~~\n\n ~~eggs~~"),
        ("buy milk and eggs", "milk and eggs", "buy ~~milk and eggs~~"),
        ("日本語です", "本語", "日~~本語~~です"),
        ("👨‍👩‍👧 𝄞 ok", "𝄞", "👨‍👩‍👧 ~~𝄞~~ ok"),
    ] {
        assert_eq!(read_kinds(text, &[(part, "strikethrough")]), expected);
    }
}

#[test]
fn formats_are_nested_and_never_crossed() {
    for (text, parts, expected) in [
        ("buy milk now", vec![("buy milk now", "bold"), ("milk", "strikethrough")], "**buy ~~milk~~ now**"),
        ("buy milk now", vec![("milk", "strikethrough"), ("buy milk", "bold")], "**buy ~~milk~~** now"),
        ("milk", vec![("milk", "bold"), ("milk", "italic"), ("milk", "spoiler")], "||***milk***||"),
        ("a b c", vec![("a b", "bold"), ("b c", "strikethrough")], "**a ~~b~~** ~~c~~"),
        ("one two", vec![("one", "bold"), (" two", "bold")], "**one two**"),
        ("rm x now", vec![("rm x", "bold"), ("x", "code")], "**rm `x`** now"),
        ("see rm x", vec![("rm x", "code"), ("x", "bold")], "see **`rm x`**"),
        ("> a", vec![("a", "italic")], "> *a*"),
    ] {
        assert_eq!(read_kinds(text, &parts), expected);
    }
}

#[test]
fn quote_has_lines_of_its_own() {
    for (text, parts, expected) in [
        ("he said\none\ntwo\nwhat?", vec![("one\ntwo\n", "blockquote")], "he said\n> one\n> two\nwhat?"),
        ("one\n\ntwo", vec![("one\n\ntwo", "blockquote")], "> one\n>\n> two"),
        ("one\ntwo", vec![("one", "blockquote"), ("two", "expandable_blockquote")], "> one\n\n> two"),
        ("buy milk", vec![("buy milk", "blockquote"), ("milk", "strikethrough")], "> buy ~~milk~~"),
        ("run\nx = 1\nnow", vec![("run\nx = 1", "blockquote"), ("x = 1", "pre")], "> run\n> ```\n> x = 1\n> ```\nnow"),
        ("all\nof it", vec![("all\nof it", "bold"), ("of it", "blockquote")], "**all**\n> **of it**"),
    ] {
        assert_eq!(read_kinds(text, &parts), expected);
    }
}

#[test]
fn targets_of_a_text_are_read() {
    let link =
        |text: &str, part: &str, url: &str| read(text, vec![over(text, part, "text_link", json!({ "url": url }))]);
    assert_eq!(link("read this now", "this ", "https://a.example/b"), "read [this](https://a.example/b) now");
    assert_eq!(link("wiki", "wiki", "https://a.example/B_(c)"), "[wiki](https://a.example/B_(c))");
    assert_eq!(link("wiki", "wiki", "https://a.example/B)c"), "[wiki](<https://a.example/B)c>)");
    assert_eq!(link("a b", " ", "https://a.example/b"), "a[ ](https://a.example/b)b", "it would be lost");
    let shown = "see https://a.example/b";
    assert_eq!(link(shown, "https://a.example/b", "https://a.example/b/"), shown);
    let both = vec![
        over("pay here", "here", "text_link", json!({ "url": "https://a.example" })),
        over("pay here", "here", "bold", json!({})),
    ];
    assert_eq!(read("pay here", both), "pay [**here**](https://a.example)");

    let person = json!({ "user": { "id": 8, "is_bot": false, "first_name": "Ann" } });
    assert_eq!(read("ask Ann Lee.", vec![over("ask Ann Lee.", "Ann Lee", "text_mention", person)]), "ask @Ann Lee.");
    let time = |seconds: i64| {
        read("at 22:45 ok", vec![over("at 22:45 ok", "22:45", "date_time", json!({ "unix_time": seconds }))])
    };
    assert_eq!(time(1_700_000_000), "at 22:45 (2023-11-14T22:13Z) ok");
    assert_eq!(time(i64::MAX), "at 22:45 ok");
}

/// Catches: characters within an address, which make it another one, or one that is not recognised as Satchel's own link.
#[test]
fn formatting_stays_outside_of_addresses() {
    let text = "see https://a.example/links/__x__, ok";
    for part in ["links", "https://a", "x__", "see https://a.ex"] {
        let read = read_kinds(text, &[(part, "bold")]);
        assert!(read.contains("https://a.example/links/__x__") && read.matches("**").count() == 2, "{read}");
    }
    assert_eq!(read_kinds(text, &[("links", "code")]), "see `https://a.example/links/__x__`, ok");
    assert_eq!(read_kinds("a.example/b", &[("a.example/b", "url"), ("b", "bold")]), "**a.example/b**");
}

/// A text of characters that formatting and offsets stumble over.
fn text() -> impl Strategy<Value = String> {
    let characters = [
        "a", "b", " ", "\n", "`", "*", "_", "~", "|", ">", "[", "]", "\\", "é", "日", "𝄞", "👍🏽", "\u{200D}", "://", "@",
    ];
    prop::collection::vec(prop::sample::select(characters.to_vec()), 0..40).prop_map(|characters| characters.concat())
}

fn entity(units: usize) -> impl Strategy<Value = MessageEntity> {
    let kinds = [
        "bold",
        "italic",
        "underline",
        "strikethrough",
        "spoiler",
        "code",
        "pre",
        "blockquote",
        "expandable_blockquote",
        "text_link",
        "text_mention",
        "custom_emoji",
        "date_time",
        "url",
        "mention",
        "hashtag",
    ];
    (prop::sample::select(kinds.to_vec()), 0..=units, 0..=units).prop_map(|(kind, offset, length)| MessageEntity {
        kind: kind.into(),
        offset,
        length,
        url: Some("https://x.example/".into()),
        user: None,
        language: (length < 9).then(|| "rust".into()),
        unix_time: Some(0),
    })
}

proptest! {
    #[test]
    fn each_character_stays_in_its_order(
        (text, entities) in text().prop_flat_map(|text| {
            let units = text.encode_utf16().count();
            (Just(text), prop::collection::vec(entity(units), 0..8))
        }),
    ) {
        let read = parse_forwarded(&text, &entities);
        let mut rest = read.chars();
        for character in text.chars() {
            prop_assert!(rest.any(|next| next == character), "{character:?} of {text:?} is missing in {read:?}");
        }
    }

    /// Nothing but formatting is added where that is all that there is.
    #[test]
    fn text_without_formatting_characters_is_the_same_without_them(
        words in "[a-z é𝄞\n]{0,30}",
        spans in prop::collection::vec((0..5_usize, 0..30_usize, 1..30_usize), 0..6),
    ) {
        let kinds = ["bold", "italic", "underline", "strikethrough", "spoiler"];
        let entities = spans.into_iter().map(|(kind, offset, length)| json!({ "type": kinds[kind], "offset": offset, "length": length }));
        prop_assert_eq!(read(&words, entities.collect()).replace(['*', '_', '~', '|'], ""), words);
    }
}
