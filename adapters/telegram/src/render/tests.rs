//! What a text becomes, that a person sees all of it, and that it never becomes more than it was measured to be.

use proptest::prelude::*;
use satchel_contracts::markup::missing_characters;
use satchel_domain::capabilities::{TextLimit, TextUnit};
use satchel_fake_telegram::{FormattedText, parse_html};
use satchel_routing::split::{fits, split};

use super::*;

const TELEGRAM: TextLimit = TextLimit { unit: TextUnit::Utf16, max: Some(4096), entities: Some(100) };

/// What a person sees, read as Telegram reads it. Anything that it would refuse, or show otherwise than it was written,
/// is an error.
fn read(html: &str) -> Result<FormattedText, String> {
    let seen = parse_html(html).map_err(|refusal| format!("{}: {html}", refusal.description))?;
    let range = |at: usize| seen.entities[at].offset..seen.entities[at].offset + seen.entities[at].length;
    let overlap = |one: usize, other: usize| range(one).start < range(other).end && range(other).start < range(one).end;
    for (at, entity) in seen.entities.iter().enumerate() {
        let beside = (0..seen.entities.len()).filter(|other| *other != at && overlap(at, *other));
        let kinds: Vec<_> = beside.map(|other| seen.entities[other].kind.as_str()).collect();
        let is_allowed = match entity.kind.as_str() {
            "code" | "pre" => kinds.iter().all(|kind| *kind == "blockquote"),
            kind => !kinds.contains(&kind),
        };
        if !is_allowed {
            return Err(format!("{} with {kinds:?}: {html}", entity.kind));
        }
    }
    let count = |part: &str| html.matches(part).count();
    let tags = count("</") - count("</a>") - count("</code></pre>");
    let is_format = |kind: &str| !["text_link", "text_mention"].contains(&kind);
    let formats = seen.entities.iter().filter(|entity| is_format(&entity.kind)).count();
    if tags == formats { Ok(seen) } else { Err(format!("tags that mean nothing: {html}")) }
}

fn seen(text: &str) -> String {
    read(&render(text, &TELEGRAM)).unwrap().text
}

#[test]
fn markdown_becomes_readable_html() {
    let text = include_str!("tests/everything.md");
    let html = render(text, &TELEGRAM);
    assert_eq!(missing_characters(text, &read(&html).unwrap().text), "");
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
        ("||a `b` **c**||", "<tg-spoiler>a b <b>c</b></tg-spoiler>"),
        ("> `x`", "<blockquote><code>x</code></blockquote>"),
        ("> ```\n> x\n> ```", "<blockquote><pre>x</pre></blockquote>"),
        ("> a\n>\n> > b\n> > c", "<blockquote>a\n\n&gt; b\n&gt; c</blockquote>"),
        (">>> a\n\nb", "<blockquote>a\n\nb</blockquote>"),
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
        ("[a](https://b|c)", "a (https://b|c)"),
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
fn addresses_paths_and_sums_arrive_as_they_were_written() {
    for text in [
        "https://git.example.org/pkg/blob/main/__init__.py#L16",
        "https://a.example/_v1_/a?x=_q_",
        "2*3*4 = 24 and 5*6*7 = 210",
        "src/*.py, lib/*.rs",
        "/shared/_drafts_/a.txt and /shared/__pycache__/b.pyc, see __init__.py",
        "C:\\new\\dir and \\\\server\\share",
    ] {
        let seen = read(&render(text, &TELEGRAM)).unwrap();
        assert_eq!((seen.text.as_str(), seen.entities.as_slice()), (text, &[][..]));
        assert_eq!(seen.links(), text.split(' ').filter(|word| word.starts_with("https://")).collect::<Vec<_>>());
    }
}

#[test]
fn an_address_ends_where_it_was_meant_to() {
    let html = render("<https://a.example/_x_>を見て、<https://b.example>。", &TELEGRAM);
    let link = "<a href=\"https://a.example/_x_\">https://a.example/_x_</a>";
    assert_eq!(html, format!("{link}を見て、https://b.example。"));
}

#[test]
fn wide_tables_become_records_with_their_headings() {
    let wide = "a long description that fits into no column of a phone";
    let table = format!("| Name | What | Where |\n|---|---|---|\n| **a** | {wide} | x |\n| b | {wide} | y |");
    let record = |name: &str, place: &str| format!("<b>Name: {name}</b>\nWhat: {wide}\nWhere: {place}");
    assert_eq!(render(&table, &TELEGRAM), format!("{}\n\n{}", record("a", "x"), record("b", "y")));
}

#[test]
fn what_would_become_too_long_has_its_tables_as_lines_and_at_last_shows_its_characters() {
    let row = |cell: &str| format!("| {} | {cell} | *z* |\n", "x".repeat(20));
    let table = format!("| a long heading | another | third |\n|---|---|---|\n{}", row(&"y".repeat(30)).repeat(9));
    let limit = TextLimit { max: Some(table.len()), ..TELEGRAM };
    let full = read(&render(&table, &TELEGRAM)).unwrap();
    assert!(full.units() > table.len(), "as records it is longer");
    let line = format!("{} · {} · <i>z</i>", "x".repeat(20), "y".repeat(30));
    let html = render(&table, &limit);
    assert_eq!(html, format!("a long heading · another · third\n{}", vec![line; 9].join("\n")));
    let numbers = "1. a\n".repeat(12);
    let limit = TextLimit { max: Some(60), ..TELEGRAM };
    assert_eq!(render(&numbers, &limit), numbers, "the tenth number would take one character more");
}

#[test]
fn code_cuts_no_span_in_two_where_that_would_be_too_many() {
    let struck = "~~a`b`c~~ [x](https://a.example)";
    let limit = TextLimit { entities: Some(3), ..TELEGRAM };
    let html = "<s>abc</s> <a href=\"https://a.example\">x</a>";
    assert_eq!(render(struck, &limit), html);
}

#[test]
fn excess_formatting_is_dropped_and_text_stays() {
    let limit = TextLimit { entities: Some(1), ..TELEGRAM };
    for (text, html) in [
        ("***x***", "<i>x</i>"),
        ("**a** `b`", "<b>a</b> b"),
        ("*a*\n\n    b\n", "<i>a</i>\n\nb"),
        ("*a* [b](https://b.example)", "a <a href=\"https://b.example\">b</a>"),
        ("[a](https://a.example) [b](https://b.example)", "<a href=\"https://a.example\">a</a> b (https://b.example)"),
    ] {
        assert_eq!(render(text, &limit), html, "{text:?}");
    }
}

#[test]
fn a_text_of_nothing_visible_is_shown_as_it_was_written() {
    assert_eq!(seen("[a]: https://a.example"), "[a]: https://a.example");
}

/// Pieces of which texts are made: every construct, broken ones too.
fn markdown() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-zа-я ]{1,30}",
        1 => "\\PC{0,9}",
        1 => "[\u{1F600}-\u{1F640}]{1,5}",
        8 => prop::sample::select(vec![
            "*", "**", "_", "`", "``", "~~", "~", "\n", "\n\n", "  \n", "# ", "## ", "- ", "  - ", "\t- ", "1. ", "9) ",
            "> ", "> > ", ">>> ", "||", "```\n", "````\n", "```rust\n", "    ", "| a | b |\n|---|---|\n| ", " | ", " |\n",
            "[x](https://a.example)", "[", "](", ")", "](mailto:a@b.example)", "![", "[^1]", "[^1]: ", "- [ ] ", "- [x] ",
            "---\n", "<br>", "<b>", "<!-- ", "-->", "&amp;", "&", "\\", "<https://a.example>", "https://a.example/_b_",
            "===\n", "$", "$x_1$", "\\(", "\\)", "\\[ \\hat{x} \\]", "2*3*4", "__init__.py", "\u{200b}", "\r\n",
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
            let seen = read(&html).map_err(TestCaseError::fail)?;
            prop_assert!(seen.units() <= max, "{} > {max}: {chunk:?} {html:?}", seen.units());
            prop_assert!(seen.entities.len() <= entities, "{} > {entities}: {chunk:?} {html:?}", seen.entities.len());
        }
    }

    #[test]
    fn every_character_is_seen(text in markdown(), max in 48usize..400, entities in 1usize..12) {
        let seen = read(&render(&text, &TELEGRAM)).map_err(TestCaseError::fail)?;
        prop_assert_eq!(missing_characters(&text, &seen.text), "", "{:?} {:?}", text, seen.text);
        let limit = TextLimit { max: Some(max), entities: Some(entities), ..TELEGRAM };
        if fits(&text, &limit) {
            let seen = read(&render(&text, &limit)).map_err(TestCaseError::fail)?;
            prop_assert_eq!(missing_characters(&text, &seen.text), "", "{:?} {:?}", text, seen.text);
        }
    }
}
