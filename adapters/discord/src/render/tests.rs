//! What a text becomes in Discord's Markdown, and what a person sees of it.

use proptest::prelude::*;
use rstest::rstest;
use satchel_contracts::markup::missing_characters;
use satchel_domain::capabilities::{TextLimit, TextUnit};
use satchel_fake_discord::{MarkKind, read_markdown};
use satchel_routing::split::split;

use super::*;

const LIMIT: usize = 2000;

/// What a person sees, with its marks.
fn outline(text: &str) -> String {
    read_markdown(&render_markdown(text, LIMIT)).outline
}

#[rstest]
#[case("**bold**, *italic*, ~~gone~~, ||spoiler||, `code` and [a link](https://example.com/a_b_c)")]
#[case("# One\n## Two\n### Three\n- item\n  - inner\n\n1. first\n> quote")]
#[case("@everyone, @here, <@42>, <@&7>, <#9>, <:a_b:1> and <t:1700000000:R>")]
#[case("```rust\nlet __x__ = 2 ** 3;\n```")]
#[case("snake_case and 2 * 3 * 4 and a ~ b, a || b, `")]
#[case("5* hotels")]
#[case("https://example.com/_a_/__b__?c=*d*")]
#[case("kept as #1: <https://x.example/links/_a_.b-_c__>, #2: <https://x.example/links/__d*> (for 7 days)")]
#[case("an escape \\*stays\\* and so does \\_this\\_")]
#[case("이것은 **\"중요\"**합니다. 请**注意**：")]
#[case("¯\\_(ツ)_/¯ costs ~20~ or C:\\dir")]
#[case(">>> quoted\n\nto the end")]
#[case("a <b>c</b> [1] & d")]
fn what_discord_reads_stays_as_it_was_written(#[case] text: &str) {
    assert_eq!(render_markdown(text, LIMIT), text);
}

#[rstest]
#[case("__bold__ and __two words__", "**bold** and **two words**")]
#[case("~gone~", "~gone~")]
#[case("#### Four\n###### Six", "### Four\n### Six")]
#[case("Title\n=====\n\nSub\n---\ntext", "# Title\n\n## Sub\ntext")]
#[case("# About C#\n- # in a list\n\n## #1 thing", "**About C#**\n- **in a list**\n\n## \\#1 thing")]
#[case("above\n\n---\n\nbelow", "above\n\n────────\n\nbelow")]
#[case("- [ ] open\n- [x] done", "- ☐ open\n- ☑ done")]
#[case("+ plus", "- plus")]
#[case("- a\n1. b", "- a\n\n1. b")]
#[case("![a chart](https://example.com/c.png)", "[a chart](https://example.com/c.png)")]
#[case("![](https://example.com/c.png)", "https://example.com/c.png")]
#[case("![a chart](chart.png)", "a chart (chart.png)")]
#[case("[![badge](https://a.b/c.svg)](https://a.b)", "[badge](https://a.b)")]
#[case("- [link][1]\n\n[1]: https://example.com", "- [link](https://example.com)")]
#[case("one<br>two<br/>\nthree", "one\ntwo\nthree")]
#[case("one\\\ntwo", "one\ntwo")]
#[case("a &amp; b &lt;c&gt; &quot;d&quot; 1 &#42; 2", "a & b <c> \"d\" 1 * 2")]
#[case("a__b__c and 2**3 and x**y", "a\\_\\_b\\_\\_c and 2\\*\\*3 and x\\*\\*y")]
#[case("~~~py\nx = 1\n~~~", "```py\nx = 1\n```")]
#[case("text\n\n    let a = *b;\n      indented\n\nmore", "text\n\n```\nlet a = *b;\n  indented\n```\n\nmore")]
#[case("1. a\n   ```\n   b\n   ```\n2. c", "1. a\n```\nb\n```\n2. c")]
#[case("- ```\n  b\n  ```\n- c", "-\n```\nb\n```\n- c")]
#[case("> a\n>\n> ```\n> b\n> ```", "> a\n> \n> ```\n> b\n> ```")]
fn what_discord_reads_otherwise_is_rewritten(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(render_markdown(text, LIMIT), expected);
}

#[rstest]
#[case("2*3*4 = 24 and 5*6*7 = 210")]
#[case("src/*.py, lib/*.rs")]
#[case("/shared/_drafts_/a.txt and /shared/__pycache__/b.pyc, see __init__.py")]
#[case("gimmick_ and a_ and b_")]
#[case("a || b || c and x ~~ y ~~ z")]
#[case("C:\\new\\dir and \\\\server\\share and a \\\\ b")]
#[case("2024\\. A good year\n\\# no heading\n\\> no quote\n\\- no item\n\\-# not small\n\\#")]
#[case("\\[no](https://example.com) \\`link\\` <no:/address>")]
fn what_stands_for_itself_is_seen_as_it_is(#[case] text: &str) {
    let written = render_markdown(text, LIMIT);
    let seen = read_markdown(&written);
    let is_format = |mark: &&satchel_fake_discord::SeenMark| !matches!(mark.kind, MarkKind::Link(_));
    assert_eq!(seen.marks.iter().find(is_format), None, "{written:?}");
    assert_eq!(missing_characters(text, &seen.text), "", "{written:?}");
}

#[test]
fn an_address_is_seen_whole_and_ends_where_it_was_meant_to() {
    for (text, links) in [
        (
            "https://git.example.org/pkg/blob/main/__init__.py#L16",
            vec!["https://git.example.org/pkg/blob/main/__init__.py#L16"],
        ),
        ("see gimmick_: https://a.example/_v1_/a?x=_q_, or so", vec!["https://a.example/_v1_/a?x=_q_"]),
        ("请看https://a.example/x。然后**再来**", vec!["https://a.example/x"]),
        ("(https://a.example/x_(y)) and **https://b.example**.", vec!["https://a.example/x_(y)", "https://b.example"]),
        (
            "[here](https://a.example/x_(y)) and [b \\_ c](https://b.example)",
            vec!["https://a.example/x_(y)", "https://b.example"],
        ),
        (
            "[look 🎉](https://a.example) and [https://c.example/d](https://b.example)",
            vec!["https://a.example", "https://c.example/d", "https://b.example"],
        ),
    ] {
        let seen = read_markdown(&render_markdown(text, LIMIT));
        assert_eq!(seen.links(), links, "{text}");
        assert!(!seen.text.contains('\\'), "{}", seen.text);
    }
}

#[rstest]
#[case("***x*** **a *b* c** ***d** e* **f *g***", "[i:[b:x]] [b:a [i:b] c] [i:[b:d] e] [b:f [i:g]]")]
#[case("**a**_b_ _c_**d**", "[b:a][i:b] [i:c][b:d]")]
#[case("*a * b* and **c `d*e` f**", "[i:a * b] and [b:c [code:d*e] f]")]
#[case("||a | b|| and ||`c||d`||", "[spoiler:a | b] and [spoiler:c||d]")]
#[case("**1. Title**\n## 2. Part", "[b:1. Title]\n[h2:2. Part]")]
#[case("> a\n> > b\n\n- c", "[quote:a\n> b\n]\n• c")]
#[case("`` a`b `` and `\\`", "[code:a`b] and [code:\\]")]
fn marks_are_read_as_they_were_meant(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(outline(text), expected, "{}", render_markdown(text, LIMIT));
}

#[test]
fn code_with_a_fence_in_it_keeps_its_characters() {
    let text = "````md\nText\n\n```js\nlet a = `b`;\n```\n````";
    assert_eq!(outline(text), "[code:Text]\n\n[code:```js]\n[code:let a = `b`;]\n[code:```]");
    let broken = render_markdown(text, 40);
    assert_eq!(broken, "```md\nText\n\n``\u{200b}`js\nlet a = `b`;\n``\u{200b}`\n```");
}

#[test]
fn narrow_table_has_columns() {
    let table = "| Name | Sum |\n| --- | ---: |\n| **Ann** | 12 |\n| Bob \\| Co | 7 |";
    let shown = "```\nName     │ Sum\n──────────────\nAnn      │ 12\nBob | Co │ 7\n```";
    assert_eq!(render_markdown(&format!("Before\n\n{table}\n\nAfter"), LIMIT), format!("Before\n\n{shown}\n\nAfter"));
}

#[test]
fn table_with_links_or_long_cells_becomes_rows() {
    let links = "| Name | Page | Note |\n|---|---|---|\n| Ann | [home](https://a.b) | ![x](https://a.b/c.png) |";
    assert_eq!(render_markdown(links, LIMIT), "**Name: Ann**\nPage: [home](https://a.b)\nNote: [x](https://a.b/c.png)");
    let wide = format!("| Word | Meaning |\n|---|---|\n| one | {} |\n| two | short |", "long ".repeat(12));
    assert_eq!(
        render_markdown(&wide, LIMIT),
        format!("*Word: Meaning*\none: {}\ntwo: short", "long ".repeat(12).trim())
    );
}

#[test]
fn cells_without_a_heading_are_seen() {
    assert_eq!(render_markdown("| a |\n|---|\n| b | more |", LIMIT), "```\na\n────────\nb │ more\n```");
}

#[test]
fn text_that_outgrows_the_limit_has_less_and_less_of_its_form() {
    let table = "|a|b|c|\n|-|-|-|\n|1|2|3|\n|4|5|6|";
    assert_eq!(render_markdown(table, table.len()), "a · b · c\n1 · 2 · 3\n4 · 5 · 6");
    let marked = "**bold** 2*3*4";
    assert_eq!(render_markdown(marked, LIMIT), "**bold** 2\\*3\\*4");
    assert_eq!(render_markdown(marked, marked.len()), "bold 2\\*3\\*4");
    let sum = "2*3*4";
    assert_eq!(render_markdown(sum, sum.len()), sum);
    let marks = "*".repeat(1_990);
    assert_eq!(to_plain_text(&marks, LIMIT), format!("```\n{marks}\n```"));
    let fences = "```".repeat(660);
    assert_eq!(to_plain_text(&fences, LIMIT), fences);
}

#[rstest]
#[case::shortcode("**a** :[: *b*")]
#[case::backslash_before_an_address("\\https://a.example/_b_、")]
#[case::code_behind_an_address("аhttps://a.example/_b_` \\`")]
#[case::code_of_all_marks("```\n``<https://a.example>`a```\n")]
#[case::indented_mark("a<br>  - b")]
#[case::code_quoted_in_an_item("- >     ****\n- b")]
fn marks_in_odd_places_are_seen_as_they_are(#[case] text: &str) {
    let seen = read_markdown(&render_markdown(text, LIMIT));
    assert_eq!(missing_characters(text, &seen.text), "", "{seen:?}");
}

#[test]
fn a_text_of_nothing_visible_is_sent_as_it_was_written() {
    assert_eq!(render_markdown("[a]: https://a.example", LIMIT), "[a]: https://a.example");
}

#[rstest]
#[case("*a* _b_ ~~c~~ `d` ||e|| [f](g)", "\\*a\\* \\_b\\_ \\~\\~c\\~\\~ \\`d\\` \\|\\|e\\|\\| \\[f](g)")]
#[case("# a\n> b\n- c\n12. d\n  * e", "\\# a\n\\> b\n\\- c\n12\\. d\n  \\* e")]
#[case(":[: and :a:", "\\:\\[: and :a:")]
#[case("::|:", "\\:\\:\\|:")]
#[case("<@42> and @everyone", "\\<@42> and @everyone")]
#[case("see https://a.b/c_d_e*f now_then", "see https://a.b/c_d_e*f now\\_then")]
#[case("at <https://a.b/_c_>, <https://a.b/*d*>", "at <https://a.b/_c_>, <https://a.b/*d*>")]
#[case("**https://a.b**", "\\*\\*https://a.b**")]
#[case("back\\slash and plain words", "back\\\\slash and plain words")]
#[case("12 apples - and 3.5 pears", "12 apples - and 3.5 pears")]
fn plain_text_shows_its_characters(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(to_plain_text(text, LIMIT), expected);
}

/// Pieces of which texts are made: every construct, broken ones too.
fn markdown() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-zа-я ]{1,12}",
        1 => "[\u{4e00}-\u{4e20}、。「」]{1,4}",
        8 => prop::sample::select(vec![
            "*", "**", "***", "_", "__", "`", "``", "~~", "~", "||", "|", "\n", "\n\n", "# ", "#", "- ", "  - ", "1. ", "2024. ",
            "> ", ">>> ", "```\n", "````\n", "```rust\n", "    ", "| a | b |\n|---|---|\n| ", " | ", " |\n",
            "[x](https://a.example)", "[", "](", ")", "![", "[^1]", "- [ ] ", "- [x] ", "<br>", "<b>", "&amp;", "\\",
            "<https://a.example>", "https://a.example/_b_", "$x_1$", "\\(", "\\)", "2*3*4", "__init__.py", "a_b", "<@4>",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn every_character_is_seen(text in markdown()) {
        let written = render_markdown(&text, LIMIT);
        let seen = read_markdown(&written);
        prop_assert_eq!(missing_characters(&text, &seen.text), "", "{:?} {:?} {:?}", text, written, seen.outline);
    }

    #[test]
    fn characters_that_stand_for_themselves_are_seen_as_they_are(text in "[a-z0-9 *_~`|#>+<()!\\[\\]:.=/\\\\-]{1,60}") {
        let seen = read_markdown(&to_plain_text(&text, usize::MAX));
        let solid = |text: &str| text.split_whitespace().collect::<String>();
        prop_assert_eq!(solid(&seen.text), solid(&text), "{:?}", seen.outline);
    }

    #[test]
    fn split_text_never_exceeds_the_limit(text in markdown(), max in 48usize..300) {
        let limit = TextLimit { unit: TextUnit::Utf16Source, max: Some(max), entities: None };
        for chunk in split(&text, &limit) {
            let written = render_markdown(&chunk, max);
            prop_assert!(utf16_units(&written) <= max, "{} > {max}: {chunk:?} {written:?}", utf16_units(&written));
            let seen = read_markdown(&written);
            prop_assert_eq!(missing_characters(&chunk, &seen.text), "", "{:?} {:?}", chunk, written);
        }
    }

    #[test]
    fn no_text_is_too_odd(text in "\\PC{0,80}") {
        render_markdown(&text, LIMIT);
        to_plain_text(&text, LIMIT);
    }
}
