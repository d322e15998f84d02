//! What a text becomes in blocks: nothing that Telegram refuses, nothing that is lost, and no more than was measured.

use proptest::prelude::*;
use satchel_contracts::markup::missing_characters;
use satchel_fake_kit::chat_corpus;
use satchel_fake_telegram::{RichContent, parse_rich_html};
use satchel_markup::Document;

use super::*;

fn read(html: &str) -> RichContent {
    parse_rich_html(html).unwrap_or_else(|refusal| panic!("{}: {html}", refusal.description))
}

#[test]
fn every_construct_has_its_block() {
    for (markdown, html) in [
        ("## A **b**", "<h2>A <b>b</b></h2>"),
        ("a\nb & <c>", "<p>a<br/>b &amp; &lt;c&gt;</p>"),
        (
            "| A | B |\n|:--|--:|\n| 1 | **2** |\n| 3 |",
            "<table bordered><tr><th align=\"left\">A</th><th align=\"right\">B</th></tr><tr><td align=\"left\">1</td>\
             <td align=\"right\"><b>2</b></td></tr><tr><td align=\"left\">3</td><td align=\"right\">&nbsp;</td></tr></table>",
        ),
        (
            "- [x] done\n- [ ] open",
            "<ul><li><input type=\"checkbox\" checked>done</li><li><input type=\"checkbox\">open</li></ul>",
        ),
        ("3. c\n   - d\n4. e", "<ol start=\"3\"><li>c<ul><li>d</li></ul></li><li>e</li></ol>"),
        ("> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"),
        ("```rust\na < b\n```", "<pre><code class=\"language-rust\">a &lt; b</code></pre>"),
        ("```\na\n```", "<pre>a</pre>"),
        ("\\( x_1 < y \\)", "<p><tg-math>x_1 &lt; y</tg-math></p>"),
        ("$$\nE = mc^2\n$$", "<tg-math-block>E = mc^2</tg-math-block>"),
        ("a\n\n---\n\nb", "<p>a</p><hr/><p>b</p>"),
        ("||hidden||", "<p><tg-spoiler>hidden</tg-spoiler></p>"),
        (
            "See [^1].\n\n[^1]: The *note*.",
            "<p>See <a href=\"#note-1\">[1]</a>.</p><p><a name=\"note-1\"></a>[1] The <i>note</i>.</p>",
        ),
    ] {
        assert_eq!(render_rich(markdown), html, "{markdown}");
        read(html);
    }
}

#[test]
fn only_addresses_that_telegram_takes_are_links() {
    for (markdown, links) in [
        ("https://a.example/_x_ and <https://b.example>", vec!["https://a.example/_x_", "https://b.example"]),
        ("[a](https://a.example/?b=1&c=2)", vec!["https://a.example/?b=1&c=2"]),
        ("[write](mailto:ada@b.example)", vec!["ada@b.example"]),
        ("[write](mailto:nobody)", vec![]),
        ("[a](javascript:alert(1)) [b](/etc/passwd) [c](https://b|c)", vec![]),
        ("![chart](https://a.example/c.png)", vec!["https://a.example/c.png"]),
    ] {
        assert_eq!(read(&render_rich(markdown)).links(), links, "{markdown}");
    }
    assert_eq!(read(&render_rich("[a](/etc/passwd)")).text(), "a (/etc/passwd)");
}

#[test]
fn what_nobody_would_see_is_not_written() {
    for markdown in ["```\n```", "[a]: https://a.example"] {
        assert_eq!(render_rich(markdown), "", "{markdown}");
    }
    assert_eq!(render_rich("```\n```\n\na"), "<p>a</p>");
}

/// What is wrong with the rich message of a text: refused, characters that nobody sees, or more than was measured.
fn problem(text: &str) -> Option<String> {
    let (html, statistics) = (render_rich(text), Document::parse(text).block_statistics());
    if html.is_empty() || statistics.depth > 16 {
        return None;
    }
    let content = match parse_rich_html(&html) {
        Ok(content) => content,
        Err(refusal) => return Some(format!("{}: {html}", refusal.description)),
    };
    // A formula is seen as its source, without the delimiters.
    let missing = if statistics.has_formula { String::new() } else { missing_characters(text, &content.text()) };
    let (characters, blocks) = content.size();
    let fits = characters <= statistics.characters && blocks <= statistics.blocks;
    let is_right = missing.is_empty() && fits;
    (!is_right).then(|| format!("{missing:?} is missing, {characters} and {blocks} of {statistics:?}: {html}"))
}

#[test]
fn texts_of_models_are_taken_and_seen() {
    let cases = chat_corpus();
    let wrong = cases.iter().filter_map(|case| Some(format!("{}: {}", case.name, problem(&case.text)?)));
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<String>::new());
}

/// Pieces of which texts are made: every construct, broken ones too.
fn markdown() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-zа-я ]{1,30}",
        1 => "\\PC{0,9}",
        8 => prop::sample::select(vec![
            "*", "**", "`", "``", "~~", "\n", "\n\n", "# ", "- ", "  - ", "1. ", "7) ", "> ", "> > ", ">>> ", "||", "```\n",
            "```rust\n", "| a | b |\n|---|:-:|\n| ", " | ", " |\n", "[x](https://a.example)", "[", "](", ")",
            "](mailto:a@b.example)", "![", "[^1]", "[^1]: ", "- [ ] ", "- [x] ", "---\n", "<br>", "<b>", "&amp;", "&",
            "<https://a.example>", "https://a.example/_b_", "$", "$x_1$", "\\(", "\\)", "\\[ \\hat{x} \\]", "$$\n", "\r\n",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn every_text_is_taken_and_seen_and_no_larger_than_measured(text in markdown()) {
        prop_assert_eq!(problem(&text), None, "{:?}", text);
    }
}
