//! Which texts are shown in blocks, and in how many messages.

use super::*;
use crate::tables;

const TABLE: &str = "| Name | Age |\n|---|---|\n| Ada | 36 |";

fn telegram(offer: BlockOffer) -> ChannelCapabilities {
    let table = tables::telegram();
    let blocks = table.blocks.map(|rule| BlockRule { offer, ..rule });
    ChannelCapabilities { blocks, ..table }
}

fn planned(text: &str, offer: BlockOffer) -> Vec<(Markup, String)> {
    let described = |content| match content {
        PartContent::Text { text, markup, files } if files.is_empty() => (markup, text),
        other => panic!("{other:?}"),
    };
    plan_text(text, &telegram(offer)).into_iter().map(described).collect()
}

fn rows(count: usize) -> String {
    let row =
        |number: usize| format!("| {number} | a longer cell, as people write them | another cell of some length |\n");
    format!(
        "# Report\n\n| Number | What it is | Where it is |\n|---|---|---|\n{}",
        (0..count).map(row).collect::<String>()
    )
}

#[test]
fn only_texts_that_need_blocks_are_shown_in_them() {
    for text in [TABLE, "It is $\\frac{1}{2}$.", "- [x] done\n- [ ] not yet", "1. a\n   - b"] {
        assert_eq!(planned(text, BlockOffer::Auto), [(Markup::Blocks, text.to_owned())], "{text}");
        for offer in [BlockOffer::Ask, BlockOffer::Never] {
            assert_eq!(planned(text, offer), [(Markup::Rich, text.to_owned())], "{text}");
        }
    }
    for text in ["Hello", "**a** and `b`", "# A\n\n- b\n- c", "> quoted", "It costs $5."] {
        assert_eq!(planned(text, BlockOffer::Auto), [(Markup::Rich, text.to_owned())], "{text}");
    }
    let long = "A sentence of some words. ".repeat(600);
    assert_eq!(planned(&long, BlockOffer::Auto), planned(&long, BlockOffer::Never), "length alone needs none");
}

#[test]
fn a_text_of_eight_messages_is_one_in_blocks() {
    let text = rows(320);
    let in_lines = planned(&text, BlockOffer::Ask);
    assert!(in_lines.len() >= 8, "{}", in_lines.len());
    assert_eq!(planned(&text, BlockOffer::Auto), [(Markup::Blocks, text)]);
}

#[test]
fn longer_texts_are_cut_within_all_limits() {
    let rule = telegram(BlockOffer::Auto).blocks.unwrap();
    let items: String = (0..900).map(|number| format!("- [ ] item {number}\n")).collect();
    for text in [rows(1_200), items, format!("{TABLE}\n\n{}", "Some words. ".repeat(9_000))] {
        let parts = planned(&text, BlockOffer::Auto);
        assert!(parts.len() > 1);
        for (markup, part) in parts {
            let statistics = Document::parse(&part).block_statistics();
            assert_eq!(markup, Markup::Blocks, "{part}");
            assert!(statistics.blocks < rule.max_blocks && statistics.characters < rule.max_chars, "{statistics:?}");
        }
    }
}

#[test]
fn what_is_too_wide_or_too_deep_is_shown_in_lines() {
    let wide = format!("|{}\n|{}\n|{}", "a|".repeat(21), "---|".repeat(21), "b|".repeat(21));
    let deep = format!("{TABLE}\n\n{}a", "> ".repeat(20));
    for text in [wide, deep] {
        let parts = planned(&text, BlockOffer::Auto);
        assert!(parts.iter().all(|(markup, _)| *markup == Markup::Rich), "{parts:?}");
    }
    // It isn't cut into pieces first: it comes in as few messages as any text in lines.
    let row = format!("|{}\n", "some words|".repeat(21));
    let wide = format!("|{}\n|{}\n{}", "a|".repeat(21), "---|".repeat(21), row.repeat(60));
    assert_eq!(planned(&wide, BlockOffer::Auto), planned(&wide, BlockOffer::Never));
}

#[test]
fn only_tables_and_formulas_are_worth_asking() {
    for (text, gains) in [
        (TABLE, Some(BlockGain::Table)),
        ("It is \\( x_1 \\).", Some(BlockGain::Formulas)),
        ("- [x] done", None),
        ("a | b", None),
        ("It costs $5.", None),
        ("`| a |`", None),
    ] {
        assert_eq!(find_block_gain(text), gains, "{text}");
    }
}
