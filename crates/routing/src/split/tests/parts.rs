//! What is closed and opened again where a text is cut, and that a person sees every character once.

use proptest::prelude::*;
use satchel_domain::capabilities::{TextLimit, TextUnit};
use satchel_markup::{Block, BlockKind, Document, InlineKind, TableRow, plain_text};

use super::{super::visible::visible_characters, limit, source};
use crate::split::{fits, split, visible_units};

const TELEGRAM: TextLimit = TextLimit { unit: TextUnit::Utf16, max: Some(4096), entities: Some(100) };
const DISCORD: TextLimit = TextLimit { unit: TextUnit::Utf16Source, max: Some(2000), entities: None };

/// The chunks of a text, each of which has to fit.
fn chunks(text: &str, limit: &TextLimit) -> Vec<String> {
    let chunks = split(text, limit);
    for chunk in &chunks {
        assert!(fits(chunk, limit), "{} units: {chunk}", visible_units(chunk, limit.unit));
    }
    chunks
}

fn assert_all_blocks(chunk: &str, is_expected: fn(&BlockKind<'_>) -> bool) {
    let document = Document::parse(chunk);
    assert!(document.blocks.iter().all(|block| is_expected(&block.kind)), "{chunk}");
}

const SENTENCE: &str = "A sentence of some words that goes on. ";

#[test]
fn quotations_keep_their_mark() {
    let long = format!("> {}", SENTENCE.repeat(6_000 / SENTENCE.len()));
    for limit in [TELEGRAM, DISCORD] {
        let chunks = chunks(&long, &limit);
        assert!(chunks.len() > 1 && chunks.len() <= 4, "{}", chunks.len());
        for chunk in &chunks {
            assert!(chunk.starts_with("> A sentence") && chunk.ends_with("goes on."), "{chunk}");
            assert_all_blocks(chunk, |block| matches!(block, BlockKind::Quote { .. }));
        }
    }
    let lines = format!("> {SENTENCE}\n> {SENTENCE}\n>\n> - {SENTENCE}\n>   more\n").repeat(8);
    for chunk in chunks(&lines, &limit(200)) {
        assert!(chunk.lines().all(|line| line.starts_with('>')), "{chunk}");
    }
    let to_end = format!("Before\n>>> {}\n\n- {SENTENCE}", SENTENCE.repeat(20));
    let chunks = chunks(&to_end, &source(200));
    assert!(chunks[1..].iter().all(|chunk| chunk.starts_with(">>> ")), "{chunks:#?}");
}

#[test]
fn items_keep_their_marks_and_numbers() {
    let text: String = (0..30).map(|n| format!("1. item {n}\n   and more of it\n   - within\n")).collect();
    let chunks = chunks(&text, &limit(200));
    assert!(chunks.len() > 3);
    let mut next = 1;
    for chunk in &chunks {
        for block in &Document::parse(chunk).blocks {
            let BlockKind::List(items) = &block.kind else { panic!("{chunk}") };
            for item in items.iter().filter(|item| item.number.is_some()) {
                assert_eq!(item.number, Some(next), "{chunk}");
                next += 1;
            }
        }
    }
    assert_eq!(next, 31);
    let bullets: String = (1..9).map(|n| format!("1. item {n}\n- sub one\n- sub two\n")).collect();
    let chunks = split(&bullets, &limit(100));
    assert_eq!(
        chunks[1],
        "- sub two\n4. item 4\n   - sub one\n   - sub two\n5. item 5\n   - sub one\n   - sub two\n6. item 6"
    );
    let tasks: String = (0..20).map(|n| format!("- [{}] task {n}\n", if n % 2 == 0 { "x" } else { " " })).collect();
    let chunks = split(&tasks, &limit(100));
    assert!(chunks.len() > 1 && chunks[1].starts_with("- ["), "{chunks:#?}");
}

/// An item that is cut goes on as text, and what is behind it is still a list.
#[test]
fn text_of_an_item_goes_on_without_its_mark() {
    let text = format!("1. {}\n2. Next\n", SENTENCE.repeat(5).trim());
    let chunks = chunks(&text, &limit(150));
    assert_eq!(chunks[1], format!("{}\n\n2. Next", SENTENCE.repeat(2).trim()));
}

fn table(columns: usize, rows: usize, cell: impl Fn(usize, usize) -> String) -> String {
    let line =
        |row: usize| format!("| {} |\n", (0..columns).map(|column| cell(row, column)).collect::<Vec<_>>().join(" | "));
    let head = (0..columns).map(|column| format!("Head {column}")).collect::<Vec<_>>().join(" | ");
    format!("| {head} |\n|{}\n", "---|".repeat(columns)) + &(0..rows).map(line).collect::<String>()
}

#[test]
fn tables_are_cut_between_rows_and_repeat_their_headings() {
    let tables = [
        (table(4, 60, |row, column| format!("cell {row}.{column} with words")), 60),
        (table(2, 260, |row, column| format!("c{row}.{column} and more")), 260),
        (table(5, 40, |row, column| format!("wide cell {row}.{column} {}", "words ".repeat(4).trim())), 40),
    ];
    for (text, rows) in &tables {
        for limit in [TELEGRAM, DISCORD] {
            let chunks = chunks(text, &limit);
            assert!(chunks.len() > 1);
            let mut found = 0;
            for chunk in &chunks {
                let document = Document::parse(chunk);
                let [Block { kind: BlockKind::Table(table), .. }] = document.blocks.as_slice() else {
                    panic!("{chunk}")
                };
                assert!(plain_text(&table.head.cells[0].content) == "Head 0", "{chunk}");
                found += table.rows.len();
            }
            assert_eq!(found, *rows);
            // As many rows share a message as it holds.
            let total: usize = chunks.iter().map(|chunk| visible_units(chunk, limit.unit)).sum();
            let max = limit.max.unwrap();
            assert!(chunks.len() <= total.div_ceil(max * 2 / 3), "{} of {total}", chunks.len());
        }
    }
}

#[test]
fn a_row_that_is_longer_than_a_chunk_goes_on_in_its_column() {
    let text = format!("| A | Long | C |\n|---|---|---|\n| 1 | {} | end |\n| 2 | x | y |\n", SENTENCE.repeat(12));
    let chunks = chunks(&text, &limit(200));
    assert!(chunks.len() > 3);
    assert!(chunks[1].contains("\n| | A sentence"), "{}", chunks[1]);
    for chunk in &chunks {
        assert_all_blocks(chunk, |block| matches!(block, BlockKind::Table(_)));
    }
    let words: String = chunks.iter().flat_map(|chunk| chunk.lines().skip(2)).collect();
    assert_eq!(words.matches("sentence").count(), 12);
    assert!(words.contains("end") && words.contains("| 2 | x | y |"));
}

#[test]
fn formulas_addresses_and_spoilers_are_not_torn() {
    let formula = "\\( x_{1} = \\frac{-b}{2a} \\int_0^\\infty x \\, dx \\)";
    let address = "https://git.example.org/pkg/blob/main/__init__.py#L16";
    let text = format!("{SENTENCE}{formula} {SENTENCE}{address} ").repeat(12);
    for limit in [limit(120), source(120)] {
        let chunks = chunks(&text, &limit);
        assert_eq!(chunks.iter().map(|chunk| chunk.matches(formula).count()).sum::<usize>(), 12, "{chunks:#?}");
        assert_eq!(chunks.iter().map(|chunk| chunk.matches(address).count()).sum::<usize>(), 12, "{chunks:#?}");
    }
    let spoiler = format!("||{}||", SENTENCE.repeat(12).trim());
    for chunk in chunks(&spoiler, &source(120)) {
        let document = Document::parse(&chunk);
        let BlockKind::Paragraph(content) = &document.blocks[0].kind else { panic!("{chunk}") };
        assert!(content.iter().all(|inline| matches!(inline.kind, InlineKind::Spoiler(_))), "{chunk}");
    }
}

#[test]
fn links_and_footnotes_that_are_defined_elsewhere_keep_their_address() {
    let text =
        format!("{SENTENCE}[one][1], see[^n]. \n\n").repeat(10) + "[1]: https://a.example/x\n\n[^n]: The note.\n";
    let chunks = chunks(&text, &limit(150));
    assert!(chunks.len() > 3);
    for chunk in chunks.iter().filter(|chunk| chunk.contains("one") && !chunk.contains("[1]: ")) {
        assert!(chunk.contains("[one](https://a.example/x)"), "{chunk}");
    }
    assert_eq!(chunks.iter().map(|chunk| chunk.matches("The note.").count()).sum::<usize>(), 1);
}

#[test]
fn html_that_is_longer_than_a_chunk_is_shown_as_code() {
    let text = format!("<div>\n{}</div>\n", "*not* a mark & more\n".repeat(20));
    for chunk in chunks(&text, &limit(100)) {
        assert_all_blocks(&chunk, |block| matches!(block, BlockKind::Code(_)));
    }
}

/// The headings of a table that goes on from the chunk before.
fn repeated_head<'text>(document: &'text Document<'text>, before: Option<&Document<'_>>) -> Option<String> {
    fn first<'a, 'text>(blocks: &'a [Block<'text>]) -> Option<&'a Block<'text>> {
        match &blocks.first()?.kind {
            BlockKind::Quote { blocks, .. } => first(blocks),
            _ => blocks.first(),
        }
    }
    fn last<'a, 'text>(blocks: &'a [Block<'text>]) -> Option<&'a Block<'text>> {
        match &blocks.last()?.kind {
            BlockKind::Quote { blocks, .. } | BlockKind::Footnote { blocks, .. } => last(blocks),
            BlockKind::List(items) => last(&items.last()?.blocks),
            _ => blocks.last(),
        }
    }
    let head = |row: &TableRow<'_>| row.cells.iter().map(|cell| plain_text(&cell.content)).collect::<String>();
    let BlockKind::Table(table) = &first(&document.blocks)?.kind else { return None };
    let BlockKind::Table(before) = &last(&before?.blocks)?.kind else { return None };
    let is_same = head(&table.head) == head(&before.head);
    is_same.then(|| head(&table.head).split_whitespace().collect())
}

/// What a person sees of chunks, one after the other.
fn shown(chunks: &[String]) -> String {
    let mut shown = String::new();
    let mut before: Option<&String> = None;
    for chunk in chunks {
        let document = Document::parse(chunk);
        let last = before.map(|chunk| Document::parse(chunk));
        let characters = visible_characters(&document);
        let head = repeated_head(&document, last.as_ref()).unwrap_or_default();
        shown.push_str(characters.strip_prefix(&head).unwrap_or(&characters));
        before = Some(chunk);
    }
    shown
}

pub(super) fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => "[a-z]{1,9} ",
        2 => "[a-zäé漢字。，]{1,12}",
        2 => "\\*\\*[a-z ]{1,60}\\*\\* ",
        1 => "_[a-z ]{1,60}_ ",
        1 => "`[a-z |*]{1,40}` ",
        1 => "\\|\\|[a-z ]{1,30}\\|\\| ",
        1 => "\\[[a-z ]{1,40}\\]\\(https://a\\.b/[a-z]{1,9}\\) ",
        1 => "https://a\\.example/[a-z_*/]{1,20} ",
        1 => "[a-z*_/.]{1,16} ",
        1 => prop::sample::select(vec![
            "\\( x_1 = \\frac{a}{2} \\) ", "$a * b$ ", "$5 and $6 ", "\\[ \\{1\\} \\hat x \\] ", "a \\\\ b ", "2*3*4 ", "x**y**z ", "\\*a\\* ",
            "&amp; ", "<br>", "<b>", "~20~ ", "1. ", "# ", "- ", "> ", "| ", "``` ", "~~~", "**", "*", "_", "`", "[", "](", "||", "$", "\\",
            "(ツ)", "**\"重要\"**です", "![c](d.png) ", "[^1] ", "[x] ", "+ ", "--", "=", "==",
        ]).prop_map(str::to_owned),
        2 => Just("\n\n".to_owned()),
        3 => "\n(> |- |1\\. |# |    |  - |>> |- \\[x\\] |)",
        1 => "\n```[a-z]{0,4}\n([a-z*|` ]{0,30}\n){0,12}```\n",
        1 => "\n> ~~~[a-z]{0,4}\n(> [a-z *]{0,30}\n){0,12}> ~~~\n",
        1 => "\n\\| [a-z]{7} \\| [a-z]{1,9} \\| c \\|\n\\|---\\|---\\|---\\|\n(\\| [a-z* ]{1,30} \\| [a-z ]{1,90} \\| [a-z]{0,5} \\|\n){1,12}",
        1 => "\n\\| [a-z]{7} \\| b \\|\n\\|---\\|---\\|\n(\\| [a-z]{1,9} \\| `[a-z]{1,9}` \\|\n){1,12}\n",
        1 => Just("\n<div>\n*x* y\n</div>\n\n".to_owned()),
        1 => Just("\n---\n".to_owned()),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_visible_character_arrives_once_and_in_order(text in any_text(), max in 150usize..500, entities in 12usize..30) {
        for limit in [TextLimit { entities: Some(entities), ..limit(max) }, source(max)] {
            let chunks = split(&text, &limit);
            for chunk in &chunks {
                prop_assert!(fits(chunk, &limit), "{} > {max}: {chunk:?} of {text:?}", visible_units(chunk, limit.unit));
            }
            prop_assert_eq!(shown(&chunks), visible_characters(&Document::parse(&text)), "{:?}: {:#?}", text, chunks);
        }
    }
}
