//! HTML as Telegram's server reads it.

use serde_json::{Value, json};

use crate::Bot;

#[tokio::test]
async fn markup_becomes_entities_in_utf16_units() {
    let bot = Bot::start().await;
    let read = async |markup: &str| {
        let sent = bot.here("sendMessage", json!({ "text": markup, "parse_mode": "HTML" })).await.expect(markup);
        (sent["text"].as_str().unwrap_or_default().to_owned(), sent.get("entities").cloned().unwrap_or_default())
    };
    let entity = |kind: &str, offset: u64, length: u64| json!({ "type": kind, "offset": offset, "length": length });
    let with = |mut entity: Value, name: &str, value: &str| {
        entity[name] = json!(value);
        entity
    };
    for (markup, text, entities) in [
        ("𝄞 <b>bold</b>", "𝄞 bold", json!([entity("bold", 3, 4)])),
        ("<i>a<u>b</u></i>", "ab", json!([entity("italic", 0, 2), entity("underline", 1, 1)])),
        ("<del>a</del><strike>b</strike>", "ab", json!([entity("strikethrough", 0, 1), entity("strikethrough", 1, 1)])),
        ("<span class=\"tg-spoiler\">a</span>", "a", json!([entity("spoiler", 0, 1)])),
        ("&lt;b&gt; &amp; &quot;&#65;&#x42;&nbsp;", "<b> & \"AB&nbsp;", Value::Null),
        ("<code>a<b>b</b></code>", "ab", json!([entity("code", 0, 2)])),
        ("<blockquote>a<blockquote>b</blockquote></blockquote>", "ab", json!([entity("blockquote", 0, 2)])),
        ("a &lt", "a <", Value::Null),
        ("<pre>a\nb</pre>", "a\nb", json!([entity("pre", 0, 3)])),
        (
            "<pre><code class=\"language-rust\">fn</code></pre>",
            "fn",
            json!([with(entity("pre", 0, 2), "language", "rust")]),
        ),
        (
            "<a href='https://x.org/?a=1&amp;b=2'>x</a>",
            "x",
            json!([with(entity("text_link", 0, 1), "url", "https://x.org/?a=1&b=2")]),
        ),
        ("<a href=\"nowhere\">x</a>", "x", Value::Null),
        ("<blockquote expandable>q</blockquote>", "q", json!([entity("expandable_blockquote", 0, 1)])),
        ("\n  <b> a</b>  ", "a", json!([entity("bold", 0, 1)])),
        ("<B>a</>", "a", json!([entity("bold", 0, 1)])),
    ] {
        assert_eq!(read(markup).await, (text.to_owned(), entities), "{markup}");
    }
}

#[tokio::test]
async fn broken_markup_is_refused_with_its_place() {
    let bot = Bot::start().await;
    for (markup, expected) in [
        ("ä <h1>a</h1>", "Unsupported start tag \"h1\" at byte offset 3"),
        ("a < b", "Unsupported start tag \"\" at byte offset 2"),
        ("a <b", "Unclosed start tag at byte offset 2"),
        ("<a href=\"x\"", "Unclosed start tag \"a\" at byte offset 0"),
        ("<a =1>x</a>", "Empty attribute name in the tag \"a\" at byte offset 0"),
        ("<a href=x/y>x</a>", "Unexpected end of name token at byte offset 8"),
        ("<span>a</span>", "Tag \"span\" must have class \"tg-spoiler\" at byte offset 0"),
        ("a</b>", "Unexpected end tag at byte offset 1"),
        ("<b>a</b", "Unclosed end tag at byte offset 4"),
        ("<b><i>a</b></i>", "Unmatched end tag at byte offset 7, expected \"</i>\", found \"</b>\""),
        ("<b>a", "Can't find end tag corresponding to start tag \"b\""),
    ] {
        let refused = bot.here("sendMessage", json!({ "text": markup, "parse_mode": "HTML" })).await;
        assert_eq!(refused, Err(format!("400 Bad Request: can't parse entities: {expected}")), "{markup}");
    }
    bot.here("sendMessage", json!({ "text": "a < b <h1>" })).await.expect("plain words are just that");
}

#[tokio::test]
async fn entities_beyond_hundredth_are_dropped_visibly() {
    let bot = Bot::start().await;
    let text = "<b>a</b> ".repeat(103);
    let sent = bot.here("sendMessage", json!({ "text": text, "parse_mode": "HTML" })).await.expect("sent");
    assert_eq!(sent["entities"].as_array().map(Vec::len), Some(100));
    let transcript = bot.fake.transcript();
    assert_eq!(transcript.messages(bot.chat)[0].words.dropped_entities, 3);
    assert!(bot.reads().contains("(3 entities more were dropped)"), "{transcript}");
}

#[tokio::test]
async fn the_transcript_marks_what_is_formatted() {
    let bot = Bot::start().await;
    let text = "<b>Bold <i>both</i></b>, <code>x</code> <a href=\"https://x.org/\">there</a>\n\
                <pre><code class=\"language-sh\">ls</code></pre>";
    bot.here("sendMessage", json!({ "text": text, "parse_mode": "HTML" })).await.expect("sent");
    let expected = "== private chat: Ada ==\n[1] satchel:\n    **Bold _both_**, `x` [there](https://x.org/)\n    \
                    ```sh\n    ls\n    ```\n";
    assert_eq!(bot.reads(), expected);
}
