//! What Markdown becomes, and that it never becomes more than it was measured to be.

use proptest::prelude::*;
use satchel_domain::capabilities::{TextLimit, TextUnit};
use satchel_routing::split::{fits, split, visible_units};

use super::*;

const TELEGRAM: TextLimit = TextLimit { unit: TextUnit::Utf16, max: Some(4096), entities: Some(100) };

/// The text that a person sees and how many spans are formatted, read as Telegram reads it. Anything that it would
/// refuse is an error.
fn read(html: &str) -> Result<(String, usize), String> {
    let (mut shown, mut open, mut entities) = (String::new(), Vec::new(), 0);
    let mut rest = html;
    while let Some(at) = rest.find(['<', '&']) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(entity) = rest.strip_prefix('&') {
            let (name, behind) = entity.split_once(';').ok_or("an entity without end")?;
            shown.push(match name {
                "lt" => '<',
                "gt" => '>',
                "amp" => '&',
                "quot" => '"',
                other => return Err(format!("&{other};")),
            });
            rest = behind;
            continue;
        }
        let (tag, behind) = rest[1..].split_once('>').ok_or("a tag without end")?;
        rest = behind;
        if let Some(name) = tag.strip_prefix('/') {
            let opened = open.pop().ok_or("a tag too many is closed")?;
            if name != opened {
                return Err(format!("</{name}> closes <{opened}>"));
            }
            continue;
        }
        let name = tag.split(' ').next().unwrap_or_default();
        let code = |open: &[&str]| open.iter().any(|around| ["pre", "code"].contains(around));
        let allowed = match name {
            "b" | "i" | "s" => tag == name && !code(&open),
            "a" => tag.starts_with("a href=\"") && !open.contains(&"a") && !code(&open),
            "blockquote" => open.is_empty(),
            "pre" => open.is_empty() || open == ["blockquote"],
            "code" if open.last() == Some(&"pre") => tag.starts_with("code class=\"language-"),
            "code" => open.is_empty() || open == ["blockquote"],
            _ => false,
        };
        if !allowed {
            return Err(format!("<{tag}> in {open:?}"));
        }
        entities += usize::from(open.last() != Some(&"pre"));
        open.push(name);
    }
    shown.push_str(rest);
    if open.is_empty() { Ok((shown, entities)) } else { Err(format!("{open:?} stays open")) }
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

#[test]
fn markdown_becomes_readable_html() {
    let text = include_str!("tests/everything.md");
    let html = render(text, &TELEGRAM);
    read(&html).unwrap();
    insta::assert_snapshot!(html);
}

#[test]
fn spans_are_nested_as_telegram_allows() {
    for (markdown, html) in [
        ("**`x`**", "<code>x</code>"),
        ("**a `b` c**", "<b>a </b><code>b</code><b> c</b>"),
        ("# A **b** `c`", "<b>A b </b><code>c</code>"),
        ("[`x`](https://a.example)", "<a href=\"https://a.example\">x</a>"),
        ("**[x](https://a.example)**", "<b><a href=\"https://a.example\">x</a></b>"),
        ("[**x**](https://a.example)", "<a href=\"https://a.example\"><b>x</b></a>"),
        ("***x***", "<i><b>x</b></i>"),
        ("~~a~~", "<s>a</s>"),
        ("> `x`", "<blockquote><code>x</code></blockquote>"),
        ("> ```\n> x\n> ```", "<blockquote><pre>x</pre></blockquote>"),
        ("> a\n>\n> > b\n> > c", "<blockquote>a\n\n&gt; b\n&gt; c</blockquote>"),
        ("**", "**"),
    ] {
        assert_eq!(render(markdown, &TELEGRAM), html, "{markdown}");
        read(html).unwrap();
    }
}

#[test]
fn everything_is_escaped() {
    for (markdown, html) in [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("a & b < c > d", "a &amp; b &lt; c &gt; d"),
        ("`<b>`", "<code>&lt;b&gt;</code>"),
        ("```\"><b>\nx\n```", "<pre>x</pre>"),
        ("```rust\n\"&\"\n```", "<pre><code class=\"language-rust\">&quot;&amp;&quot;</code></pre>"),
        ("[a](https://x.example/?a=1&b=\"<)", "<a href=\"https://x.example/?a=1&amp;b=&quot;&lt;\">a</a>"),
    ] {
        assert_eq!(render(markdown, &TELEGRAM), html, "{markdown}");
        read(html).unwrap();
    }
}

#[test]
fn only_supported_schemes_become_links_others_stay_text() {
    for (markdown, html) in [
        ("[a](HTTPS://x.example)", "<a href=\"HTTPS://x.example\">a</a>"),
        ("[a](tg://user?id=1)", "<a href=\"tg://user?id=1\">a</a>"),
        ("[write](mailto:a@b.example)", "write (a@b.example)"),
        ("[a@b.example](mailto:a@b.example)", "a@b.example"),
        ("[a](javascript:alert(1))", "a (javascript:alert(1))"),
        ("[a](/etc/passwd)", "a (/etc/passwd)"),
        ("[a](https://)", "a (https://)"),
        ("<https://x.example>", "https://x.example"),
        (
            "kept as #1: <https://x.example/links/_a_.b-_c__> (for 7 days)",
            "kept as #1: https://x.example/links/_a_.b-_c__ (for 7 days)",
        ),
        ("![chart](https://x.example/c.png)", "<a href=\"https://x.example/c.png\">🖼 chart</a>"),
        ("![](c.png)", "🖼 image (c.png)"),
    ] {
        assert_eq!(render(markdown, &TELEGRAM), html, "{markdown}");
    }
}

#[test]
fn what_would_become_too_long_is_shown_verbatim() {
    let numbers = "1. a\n".repeat(12);
    let limit = TextLimit { max: Some(visible_units(&numbers, TextUnit::Utf16)), ..TELEGRAM };
    assert_eq!(render(&numbers, &limit), numbers, "the tenth number would take one character more");
    let struck = "~~a`b`c~~ [x](https://a.example)";
    let limit = TextLimit { entities: Some(3), ..TELEGRAM };
    assert!(fits(struck, &limit));
    let html = "<s>abc</s> <a href=\"https://a.example\">x</a>";
    assert_eq!(render(struck, &limit), html, "code would cut the struck span in two");
    let table = format!("| a | b |\n|---|---|\n| {} | **y** |\n", "x".repeat(40)) + &"| x | y |\n".repeat(99);
    let limit = TextLimit { max: Some(1_200), ..TELEGRAM };
    assert!(fits(&table, &limit));
    assert!(render(&table, &limit).contains("| <b>y</b> |\n| x | y |"));
}

#[test]
fn excess_formatting_is_dropped_and_text_stays() {
    let limit = TextLimit { entities: Some(1), ..TELEGRAM };
    for (text, html) in
        [("***x***", "<i>x</i>"), ("**a** `b`", "<b>a</b> b"), ("*a*\n\n    b\n", "<i>a</i>\n\n    b\n")]
    {
        assert_eq!(render(text, &limit), html, "{text:?}");
    }
}

/// Pieces of which texts are made: every construct, broken ones too.
fn markdown() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-zа-я ]{1,30}",
        1 => "\\PC{0,9}",
        1 => "[\u{1F600}-\u{1F640}]{1,5}",
        8 => prop::sample::select(vec![
            "*", "**", "_", "`", "``", "~~", "~", "\n", "\n\n", "  \n", "# ", "## ", "- ", "  - ", "\t- ", "1. ", "9) ",
            "> ", "> > ", "```\n", "```rust\n", "    ", "| a | b |\n|---|---|\n| ", " | ", " |\n", "[x](https://a.example)",
            "[", "](", ")", "](mailto:a@b.example)", "![", "[^1]", "[^1]: ", "- [ ] ", "- [x] ", "---\n", "<br>", "<b>",
            "<!-- ", "-->", "&amp;", "&", "\\", "<https://a.example>", "===\n", "$", "\u{200b}", "\r\n",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn split_text_always_fits_when_rendered(text in markdown(), max in 48usize..400, entities in 1usize..12) {
        let limit = TextLimit { max: Some(max), entities: Some(entities), ..TELEGRAM };
        for chunk in split(&text, &limit) {
            let html = render(&chunk, &limit);
            let (shown, formatted) = read(&html).map_err(|error| TestCaseError::fail(format!("{error}: {html}")))?;
            prop_assert!(units(&shown) <= max, "{} > {max}: {chunk:?} {html:?}", units(&shown));
            prop_assert!(formatted <= entities, "{formatted} > {entities}: {chunk:?} {html:?}");
        }
    }

    #[test]
    fn verbatim_shows_what_was_measured_and_no_more(text in markdown()) {
        let html = verbatim::render(&text, None);
        let counted = html.units();
        let html = html.into_text();
        let (shown, _) = read(&html).map_err(|error| TestCaseError::fail(format!("{error}: {html}")))?;
        prop_assert_eq!(units(&shown), counted);
        prop_assert!(counted <= visible_units(&text, TextUnit::Utf16), "{text:?} {html:?}");
    }

    #[test]
    fn no_letter_is_lost(text in markdown()) {
        let (shown, _) = read(&render(&text, &TELEGRAM)).map_err(TestCaseError::fail)?;
        // What a reader would miss: words outside of addresses, definitions and names of languages.
        let words = |text: &str| text.chars().filter(|c| ('а'..='я').contains(c)).count();
        let hides_words = ["](", "]:", "```", "~~~"].iter().any(|mark| text.contains(mark));
        prop_assert!(hides_words || words(&shown) == words(&text), "{text:?} {shown:?}");
    }
}
