//! What splitting promises, over texts that were made up to break it.

use proptest::prelude::*;
use satchel_domain::capabilities::{TextLimit, TextUnit};
use unicode_segmentation::UnicodeSegmentation;

use super::*;

mod measures;
mod parts;

fn limit(max: usize) -> TextLimit {
    TextLimit { unit: TextUnit::Utf16, max: Some(max), entities: None }
}

fn source(max: usize) -> TextLimit {
    TextLimit { unit: TextUnit::Utf16Source, ..limit(max) }
}

/// The characters that no marker, fence or white space is made of; infos of fences are in upper case and left out, and so
/// are digits, since items count on from chunk to chunk.
fn words(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_lowercase() || !(c.is_ascii() || c.is_whitespace())).collect()
}

#[test]
fn a_short_text_stays_as_it_is() {
    for text in ["hello", "  two\n\nparagraphs ", "```rust\nfn main() {}\n```"] {
        assert_eq!(split(text, &limit(100)), [text]);
    }
    assert!(split(" \n ", &limit(100)).is_empty());
    let unlimited = TextLimit { unit: TextUnit::Chars, max: None, entities: None };
    assert_eq!(split(&"x".repeat(100_000), &unlimited).len(), 1);
    assert!(split("\n", &unlimited).is_empty());
}

#[test]
fn hidden_markdown_markers_do_not_count() {
    let bold = format!("**{}**", "x".repeat(4096));
    assert_eq!(split(&bold, &limit(4096)), std::slice::from_ref(&bold));
    assert!(split(&bold, &source(4096)).len() == 2);
    let link = format!("[{}](https://example.org/{})", "word ".repeat(19).trim(), "y".repeat(300));
    assert_eq!(split(&link, &limit(100)), std::slice::from_ref(&link));
}

#[test]
fn the_best_place_is_chosen() {
    let sentence = "This is a sentence of a few words. ";
    for (text, first) in [
        (format!("{}\n\n{}", sentence.repeat(2).trim(), sentence.repeat(2)), sentence.repeat(2)),
        (format!("{}\n{}", sentence.repeat(2).trim(), sentence.repeat(2)), sentence.repeat(2)),
        (sentence.repeat(4), sentence.repeat(2)),
        ("word ".repeat(40), "word ".repeat(20)),
        ("x".repeat(150), "x".repeat(100)),
    ] {
        assert_eq!(split(&text, &limit(100))[0], first.trim(), "{text:?}");
    }
}

#[test]
fn fences_are_closed_and_reopened_with_their_language() {
    let lines: String = (0..30).map(|n| format!("    let x{n} = {n};\n")).collect();
    let chunks = split(&format!("Look:\n\n```rust\n{lines}```\n\nDone."), &limit(120));
    assert!(chunks.len() > 3);
    for chunk in &chunks[1..chunks.len() - 1] {
        assert!(chunk.starts_with("```rust\n    let"), "{chunk:?}");
        assert!(chunk.ends_with(";\n```"), "{chunk:?}");
    }
    assert!(chunks[chunks.len() - 1].ends_with("```\n\nDone."), "{chunks:?}");
}

#[test]
fn quoted_listed_and_nested_fences_are_preserved() {
    let quoted: String = (0..40).map(|n| format!("> line{n}\n")).collect();
    let listed: String = (0..40).map(|n| format!("  line{n}\n")).collect();
    let inner: String = (0..40).map(|n| format!("```\nline{n}\n```\n")).collect();
    let indented: String = (0..40).map(|n| format!("    line{n} **x**\n")).collect();
    for (name, text, again, end) in [
        ("quote", format!("> ```rust\n{quoted}> ```\n"), "> ```rust\n> line", "\n> ```"),
        ("list", format!("- ```rust\n{listed}  ```\n"), "```rust\nline", "\n```"),
        ("longer", format!("````md\n{inner}````\n"), "````md\n", "\n````"),
        ("tildes", format!("~~~md\n{inner}~~~\n"), "~~~md\n", "\n~~~"),
        ("indented", format!("Look:\n\n{indented}"), "```\nline", "\n```"),
    ] {
        let chunks = split(&text, &limit(100));
        assert!(chunks.len() > 2, "{name}: {chunks:#?}");
        for chunk in &chunks[1..] {
            assert!(chunk.starts_with(again), "{name}: {chunk}");
            assert!(chunk.ends_with(end), "{name}: {chunk}");
        }
        assert_eq!(
            chunks.iter().map(|chunk| words(chunk).replace("rust", "").replace("md", "")).collect::<String>(),
            words(&text).replace("rust", "").replace("md", ""),
            "{name}"
        );
    }
}

#[test]
fn spans_are_kept_whole_or_closed_and_reopened() {
    let before = "word ".repeat(16);
    let chunks = split(&format!("{before}**bold words here and there** and on"), &limit(100));
    assert!(chunks[1].starts_with("**bold"), "{chunks:?}");
    for (open, close) in [("**", "**"), ("*", "*"), ("~~", "~~"), ("`", "`"), ("[", "](https://example.org)")] {
        let text = format!("{open}{}{close}", "word ".repeat(60).trim());
        for limit in [limit(100), source(100)] {
            let chunks = split(&text, &limit);
            assert!(chunks.len() > 2);
            for chunk in chunks {
                assert!(
                    chunk.starts_with(&format!("{open}word")) && chunk.ends_with(&format!("word{close}")),
                    "{chunk}"
                );
            }
        }
    }
}

#[test]
fn cuts_never_split_a_grapheme() {
    for cluster in ["👩‍👩‍👧‍👦", "🇩🇪", "é́", "각", "\r\n", "க்ஷி"] {
        let text = cluster.repeat(200);
        for chunk in split(&text, &limit(60)) {
            let whole = chunk.trim().graphemes(true).all(|grapheme| cluster.graphemes(true).any(|g| g == grapheme));
            assert!(whole, "{cluster:?}: {chunk:?}");
        }
    }
}

#[test]
fn oversized_grapheme_is_cut_as_last_resort() {
    let text = format!("a{}", "\u{301}".repeat(1000));
    let chunks = split(&text, &limit(100));
    assert_eq!(chunks.concat(), text);
    assert!(chunks.iter().all(|chunk| units(chunk, TextUnit::Utf16) <= 100));
}

#[test]
fn excess_formatted_spans_move_to_next_chunk() {
    let text = "*a* `b` **c** ".repeat(200);
    let limit = TextLimit { entities: Some(100), ..limit(4096) };
    let chunks = split(&text, &limit);
    assert!(chunks.len() >= 6);
    assert!(chunks.iter().all(|chunk| fits(chunk, &limit)));
    assert_eq!(words(&chunks.concat()), words(&text));
}

/// Ten times the text may cost thirteen times as much; a quadratic step would cost a hundred times.
#[test]
fn adversarial_texts_are_split_in_linear_time() {
    let units = [
        ("flags", "🇩🇪"),
        ("marks", "\u{301}"),
        ("spans", "*a "),
        ("links", "[a](b) "),
        ("brackets", "[["),
        ("fences", "> ```x\n> y\n> ```\n"),
        ("newlines", "\n \n"),
        ("backticks", "`a``"),
        ("nested", "**a *b "),
        ("rules", "-- "),
        ("definitions", "[a]: /b\n"),
        ("open labels", "[\n]"),
    ];
    // What chat has besides CommonMark.
    let chat_units = [
        ("spoilers", "||a "),
        ("formulas", "$x$"),
        ("open formulas", "\\(a "),
        ("paths", "a/_b_/"),
        ("references", "&amp;"),
        ("loose bullets", "1. a\n- b\n"),
        ("interrupted quotations", "> a\nb\n"),
        ("HTML", "<div>\n"),
        ("CJK", "**「a」**b"),
        ("tables", "| a |\n|---|\n| b |\n\n"),
    ];
    let texts = units.map(|(name, unit)| (name, unit.repeat(100_000 / unit.len())));
    let chat_texts = chat_units.map(|(name, unit)| (name, unit.repeat(30_000 / unit.len())));
    for (name, text) in texts.into_iter().chain(chat_texts) {
        for limit in [limit(4096), source(2000), TextLimit { entities: Some(100), ..limit(4096) }] {
            let chunks = split(&text, &limit);
            assert!(chunks.len() <= text.len(), "{name}");
        }
    }
}

/// What is closed and reopened at each cut must leave room for the text, however deep it lies.
#[test]
fn deeply_nested_spans_leave_room_for_text() {
    let text = format!("{}{}{}", "*a ".repeat(150), "word ".repeat(20_000), "a*".repeat(150));
    for limit in [limit(4096), source(2000), TextLimit { entities: Some(100), ..limit(4096) }] {
        let chunks = split(&text, &limit);
        assert!(chunks.iter().map(String::len).sum::<usize>() < 2 * text.len(), "{limit:?}: {}", chunks.len());
        assert!(chunks.iter().all(|chunk| fits(chunk, &limit)), "{limit:?}");
    }
}

#[test]
fn text_beyond_window_splits_like_short_text() {
    let fence = format!("```rust\n{}```\n\n", "let x = 1;\n\nlet y = 2;\n".repeat(4_000));
    let prose = "Some **bold words** and [a link](https://example.org).\n\n- an item\n\n".repeat(1_000);
    let text = format!("{prose}{fence}<!-- a\n\ncomment -->\n\n{prose}{fence}{prose}");
    let limit = TextLimit { entities: Some(100), ..limit(4096) };
    let chunks = split(&text, &limit);
    assert!(chunks.iter().all(|chunk| fits(chunk, &limit)));
    let in_code = chunks.iter().filter(|chunk| chunk.contains("let x")).collect::<Vec<_>>();
    assert!(in_code.iter().all(|chunk| chunk.contains("```rust\n")), "{in_code:#?}");
    // Code is one block, so far more of it shares a chunk than of the prose, of which each paragraph has two spans.
    assert!(in_code.len() < 60, "{}", in_code.len());
}

fn markdown() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-z]{1,12} ",
        2 => "[а-яё]{1,12}[.!?]? ",
        2 => "[漢字仮名交文。]{1,30}",
        1 => Just("👩‍👩‍👧‍👦".to_owned()),
        1 => Just("é́ ".to_owned()),
        2 => "\\*\\*[a-z ]{1,60}\\*\\* ",
        1 => "_[a-z ]{1,60}_ ",
        1 => "`[a-z ]{1,40}` ",
        1 => "\\[[a-z ]{1,40}\\]\\(/[A-Z]{1,30}\\) ",
        // Three in a row would open a fence, of which the words behind it are the info that is repeated.
        1 => "[*_\\[\\]()#>-]{1,6}|`{1,2} |~{1,2} ",
        2 => Just("\n\n".to_owned()),
        2 => Just("\n".to_owned()),
        1 => "\n(> |- |1\\. |# |    )",
        1 => "\n```[A-Z]{0,4}\n([a-z ]{0,30}\n){0,12}```\n",
        1 => "\n> ~~~[A-Z]{0,4}\n(> [a-z ]{0,30}\n){0,12}> ~~~\n",
        1 => "\n- ````\n(  [a-z ]{0,30}\n){0,8}",
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn split_loses_and_repeats_nothing_within_limit(
        text in markdown(),
        max in prop_oneof![2usize..60, 60usize..400],
        unit in prop_oneof![Just(TextUnit::Utf16), Just(TextUnit::Utf16Source), Just(TextUnit::Chars)],
        entities in proptest::option::of(1usize..10),
    ) {
        let limit = TextLimit { unit, max: Some(max), entities };
        let chunks = split(&text, &limit);
        for chunk in &chunks {
            prop_assert!(visible_units(chunk, unit) <= max, "{} > {max}: {chunk:?}", visible_units(chunk, unit));
            prop_assert!(!chunk.trim().is_empty());
        }
        prop_assert_eq!(words(&chunks.concat()), words(&text));
        prop_assert_eq!(chunks, split(&text, &limit));
    }

    #[test]
    fn any_characters_at_all_are_split(text in "\\PC{0,300}|.{0,300}", max in 0usize..50) {
        for limit in [limit(max), source(max)] {
            for chunk in split(&text, &limit) {
                prop_assert!(visible_units(&chunk, limit.unit) <= max.max(2));
            }
            let plain = split_plain(&text, &limit);
            let shown = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(shown(&plain.concat()), shown(&text));
            prop_assert!(plain.iter().all(|chunk| units(chunk, limit.unit) <= max.max(2)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_chunk_exceeds_the_span_limit(text in markdown(), max in 60usize..400, entities in 1usize..10) {
        for unit in [TextUnit::Utf16, TextUnit::Utf16Source, TextUnit::Chars] {
            let limit = TextLimit { unit, max: Some(max), entities: Some(entities) };
            for chunk in split(&text, &limit) {
                prop_assert!(fits(&chunk, &limit), "{limit:?}: {chunk:?}");
            }
        }
    }
}
