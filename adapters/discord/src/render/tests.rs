//! What becomes of what.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

#[rstest]
#[case("**bold**, *italic*, ~~gone~~, ||spoiler||, `code` and [a link](https://example.com/a_b_c)")]
#[case("# One\n## Two\n### Three\n- item\n  - inner\n1. first\n> quote")]
#[case("@everyone, @here, <@42>, <@&7>, <#9>, <:a_b:1> and <t:1700000000:R>")]
#[case("```rust\nlet __x__ = 2 ** 3;\n```")]
#[case("snake_case and 2 * 3 * 4 and a ~ b")]
#[case("https://example.com/_a_/__b__?c=*d*")]
#[case("kept as #1: <https://x.example/links/_a_.b-_c__>, #2: <https://x.example/links/__d*> (for 7 days)")]
#[case("an escape \\*stays\\* and so does \\_this\\_")]
#[case("- [link][1]\n\n[1]: https://example.com")]
fn what_discord_reads_stays_as_it_was_written(#[case] text: &str) {
    assert_eq!(render_markdown(text, 2000), text);
}

#[rstest]
#[case("__bold__ and __two words__", "**bold** and **two words**")]
#[case("~gone~", "~~gone~~")]
#[case("#### Four\n###### Six", "### Four\n### Six")]
#[case("Title\n=====\n\nSub\n---\ntext", "# Title\n\n## Sub\ntext")]
#[case("above\n\n---\n\nbelow", "above\n\n———\n\nbelow")]
#[case("- [ ] open\n- [x] done", "- ☐ open\n- ☑ done")]
#[case("+ plus", "- plus")]
#[case("![a chart](https://example.com/c.png)", "[a chart](https://example.com/c.png)")]
#[case("![](https://example.com/c.png)", "https://example.com/c.png")]
#[case("![a chart](chart.png)", "a chart (chart.png)")]
#[case("[![badge](https://a.b/c.svg)](https://a.b)", "[badge](https://a.b)")]
#[case("one<br>two<br/>\nthree", "one\ntwo\nthree")]
#[case("one\\\ntwo", "one\ntwo")]
#[case("a &amp; b &lt;c&gt; &quot;d&quot; 1 &#42; 2", "a & b \\<c\\> \"d\" 1 \\* 2")]
#[case("a__b__c and 2**3 and x**y", "a\\_\\_b\\_\\_c and 2**3 and x**y")]
#[case("~~~py\nx = 1\n~~~", "```py\nx = 1\n```")]
#[case("text\n\n    let a = *b;\n      indented\n\nmore", "text\n\n```\nlet a = *b;\n  indented\n```\n\nmore")]
fn what_discord_reads_otherwise_is_rewritten(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(render_markdown(text, 2000), expected);
}

#[test]
fn a_narrow_table_is_shown_in_columns() {
    let table = "| Name | Sum |\n| --- | ---: |\n| **Ann** | 12 |\n| Bob \\| Co | 7 |";
    let shown = "```\nName     │ Sum\n──────────────\nAnn      │ 12\nBob | Co │ 7\n```";
    assert_eq!(render_markdown(&format!("Before\n\n{table}\n\nAfter"), 2000), format!("Before\n\n{shown}\n\nAfter"));
}

#[test]
fn table_with_links_or_long_cells_becomes_rows() {
    let links = "| Name | Page | Note |\n|---|---|---|\n| Ann | [home](https://a.b) | ![x](https://a.b/c.png) |";
    assert_eq!(render_markdown(links, 2000), "Name: Ann\nPage: [home](https://a.b)\nNote: [x](https://a.b/c.png)");
    let wide = format!("| Word | Meaning |\n|---|---|\n| one | {} |\n| two | short |", "long ".repeat(12));
    assert_eq!(render_markdown(&wide, 2000), format!("Word: Meaning\none: {}\ntwo: short", "long ".repeat(12).trim()));
}

#[test]
fn table_with_surplus_cells_stays_literal() {
    let table = "| a |\n|---|\n| b | lost |";
    assert_eq!(render_markdown(table, 2000), format!("```\n{table}\n```"));
}

#[test]
fn text_that_outgrows_limit_stays_unrendered() {
    let table = "|a|b|c|\n|-|-|-|\n|1|2|3|\n|4|5|6|";
    assert_ne!(render_markdown(table, 2000), table);
    assert_eq!(render_markdown(table, table.len()), table);
    let marks = "*".repeat(1_990);
    assert_eq!(to_plain_text(&marks, 2000), format!("```\n{marks}\n```"));
    let fences = "```".repeat(660);
    assert_eq!(to_plain_text(&fences, 2000), fences);
}

#[rstest]
#[case("*a* _b_ ~~c~~ `d` ||e|| [f](g)", "\\*a\\* \\_b\\_ \\~\\~c\\~\\~ \\`d\\` \\|\\|e\\|\\| \\[f](g)")]
#[case("# a\n> b\n- c\n12. d\n  * e", "\\# a\n\\> b\n\\- c\n12\\. d\n  \\* e")]
#[case("<@42> and @everyone", "\\<@42> and @everyone")]
#[case("see https://a.b/c_d_e*f now_then", "see https://a.b/c_d_e*f now\\_then")]
#[case("at <https://a.b/_c_>, <https://a.b/*d*>", "at <https://a.b/_c_>, <https://a.b/*d*>")]
#[case("back\\slash and plain words", "back\\\\slash and plain words")]
#[case("12 apples - and 3.5 pears", "12 apples - and 3.5 pears")]
fn plain_text_shows_its_characters(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(to_plain_text(text, 2000), expected);
}

/// The letters and digits of a text, of which none may get lost.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

proptest! {
    #[test]
    fn no_letter_is_lost_and_no_limit_broken(text in "[a-z0-9 \n*_~`|#>+<()!\\[\\]:.=\\\\-]{0,200}") {
        let rewritten = render_markdown(&text, 300);
        prop_assert!(utf16_len(&rewritten) <= 300.max(utf16_len(&text)));
        for letter in letters(&text).chars() {
            let count = |text: &str| text.chars().filter(|c| *c == letter).count();
            prop_assert!(count(&rewritten) >= count(&text.replace("<br>", "")), "{text:?} became {rewritten:?}");
        }
        prop_assert_eq!(letters(&to_plain_text(&text, usize::MAX)), letters(&text));
    }

    #[test]
    fn no_text_is_too_odd(text in "\\PC{0,80}") {
        render_markdown(&text, 2000);
        to_plain_text(&text, 2000);
    }
}
