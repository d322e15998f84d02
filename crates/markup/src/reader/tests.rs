//! What texts mean.

use proptest::prelude::*;

use super::*;
use crate::{
    Inline, InlineKind,
    outline::{inline_outline, outline},
};

fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(inline_outline(text), *expected, "{text:?}");
    }
}

fn check_blocks(text: &str, expected: &str) {
    assert_eq!(outline(text).trim_end(), expected, "{text:?}");
}

#[test]
fn commonmark_is_read() {
    check(&[
        ("Hello *there*, **you** ~~gone~~ `a<b`", "Hello [i:there], [b:you] [s:gone] [code:a<b]"),
        ("***x*** and **a _b_ c**", "[i:[b:x]] and [b:a [i:b] c]"),
        ("a\nb  \nc\\\nd<br>e<br>\nf", "a⏎b⏎c⏎d⏎e⏎f"),
        ("[x](https://a.example/_a_ \"t\") ![y](c.png)", "[link https://a.example/_a_:x] [image c.png:y]"),
        (
            "<https://a.example/_a_.b-_c__> <me_you_@a.example>",
            "[url:https://a.example/_a_.b-_c__] [url mailto:me_you_@a.example:me_you_@a.example]",
        ),
        ("a &amp; b &lt;c&gt; \\*d\\*", "a & b <c> *d*"),
        ("a <b>c</b> `` ` ``", "a <b>c</b> [code:`]"),
        ("see[^1]\n\n[^1]: a note", "see[note:1]\n·footnote 1\n  p a note"),
        ("<@42>, <:_a_:1>, <t:170:R>", "<@42>, <:_a_:1>, <t:170:R>"),
    ]);
}

#[test]
fn addresses_paths_and_sums_are_untouched() {
    let same = [
        "2*3*4 = 24 and 5*6*7 = 210",
        "2*(3+4)*5 and 6*(7+8)*9",
        "src/*.py, lib/*.rs",
        "/shared/_drafts_/a.txt and /shared/__pycache__/b.pyc, see __init__.py",
        "the __init__ and __main__ of *.py and *.rs",
        "2**10 and 3**4",
        "x*y*z and a*b",
        "un*frigging*believable",
        "snake_case_name and _private",
        "~20~ and ~5–~10, ~/x and ~/y",
        "M*A*S*H and s**t",
        "`C:\\Users`",
        "/* a */ b /* c */",
        ".*foo.* and [a-z]*b*",
        "?x=_q_&y=_z_ and a=*b*",
        "C:\\_x_\\*.txt",
        "¯\\_(ツ)_/¯",
        "f(x)*g(y)*h(z)",
        "*args, **kwargs",
        "5 * 3 * 2 and 1 < 2 > 0",
        "if (a||b) and (c||d)",
        "a || b || c",
        "*_* and ^_^",
        "std::*, foo::_bar_::baz",
        "@my_bot_ and @_x_",
    ];
    for text in same {
        let shown = inline_outline(text);
        assert_eq!(shown, if text.starts_with('`') { "[code:C:\\Users]" } else { text });
    }
    check(&[
        (
            "https://git.example.org/pkg/blob/main/__init__.py#L16",
            "[url:https://git.example.org/pkg/blob/main/__init__.py#L16]",
        ),
        ("at https://a.example/_v1_/a?x=_q_, or", "at [url:https://a.example/_v1_/a?x=_q_], or"),
        ("**https://a.example/c**", "[b:[url:https://a.example/c]]"),
        ("_see https://a.example/x_y_", "[i:see [url:https://a.example/x_y]]"),
        ("https://a.example/a\\_b", "[url:https://a.example/a_b]"),
        ("[https://a.example/_b_](https://c.example)", "[link https://c.example:https://a.example/_b_]"),
        ("sftp://a/_b_c", "sftp://a/_b_c"),
    ]);
}

#[test]
fn emphasis_is_what_is_meant_as_such() {
    check(&[
        ("이것은 **\"중요\"**합니다.", "이것은 [b:\"중요\"]합니다."),
        ("これは**「重要」**です。", "これは[b:「重要」]です。"),
        ("**注意：**请看", "[b:注意：]请看"),
        ("**「A」**和**「B」**", "[b:「A」]和[b:「B」]"),
        ("**`code`**입니다", "[b:[code:code]]입니다"),
        ("这是**重点**内容，*也是*。", "这是[b:重点]内容，[i:也是]。"),
        ("**Примечание:**текст", "[b:Примечание:]текст"),
        ("**S**ituation, **T**ask", "[b:S]ituation, [b:T]ask"),
        ("**New York**er", "[b:New York]er"),
        ("**yes**/**no**, *he*/*she*", "[b:yes]/[b:no], [i:he]/[i:she]"),
        ("**src/*.rs** and **a_b**", "[b:src/*.rs] and [b:a_b]"),
        ("*word*(note) **Node**.js", "[i:word](note) [b:Node].js"),
        ("**bold (x)**and", "[b:bold (x)]and"),
        ("__bold__ and _it_", "[b:bold] and [i:it]"),
        ("(**a**), \"*b*\"", "([b:a]), \"[i:b]\""),
        ("*two words*. And *two more*(note), *and these*-", "[i:two words]. And [i:two more](note), [i:and these]-"),
        ("**see src/*.rs** and **use a/_b_/c**.", "[b:see src/*.rs] and [b:use a/_b_/c]."),
        ("*Note this.* And _that!_", "[i:Note this.] And [i:that!]"),
        ("**a, *b* c**", "[b:a, [i:b] c]"),
    ]);
}

#[test]
fn formulas_and_money_are_told_apart() {
    check(&[
        ("\\( x_{1} = \\frac{-b}{2a} \\)", "[tex:x_{1} = \\frac{-b}{2a}]"),
        ("so \\[ \\{1,2\\} \\subset A \\], and", "so [tex:\\{1,2\\} \\subset A], and"),
        ("a \\\\ b", "a \\\\ b"),
        ("$a_1 * b_1$ and $c_1 * d$", "[tex:a_1 * b_1] and [tex:c_1 * d]"),
        ("**$x^2$**", "[b:[tex:x^2]]"),
        ("costs $5 and $6, *really*", "costs $5 and $6, [i:really]"),
        ("\\$a$ and", "$a$ and"),
        ("\\[1\\] a.pdf", "[1] a.pdf"),
        ("`$a$` and `\\(a\\)`", "[code:$a$] and [code:\\(a\\)]"),
        ("https://a.example/?x=$y$", "[url:https://a.example/?x=$y$]"),
        ("A = \\{1,2\\} \\cup B", "A = \\{1,2\\} \\cup B"),
    ]);
    check_blocks("\\[\nx\n- y\n= 3\n\\]\n\nand", "formula x⏎- y⏎= 3\n·p and");
    check_blocks("So:\n$$\nE = mc^2\n$$", "p So:⏎[tex:E = mc^2]");
    check_blocks("- \\[\n  a_1\n  \\]\n- b", "list\n  -\n    formula a_1\n  -\n    p b");
    check_blocks("> $$\n> a\n> $$", "quote\n  formula a");
    check_blocks(
        "\\begin{align}\na &= b \\\\\nc &= d\n\\end{align}",
        "formula \\begin{align}⏎a &= b \\\\⏎c &= d⏎\\end{align}",
    );
}

#[test]
fn spoilers_are_hidden() {
    check(&[
        ("a ||b **c**|| d", "a [spoiler:b [b:c]] d"),
        ("|| padded ||", "[spoiler: padded ]"),
        ("||a", "||a"),
        ("**a ||b** c||", "[b:a ||b] c||"),
        ("||`a||b`||", "[spoiler:[code:a||b]]"),
    ]);
}

#[test]
fn lists_quotes_and_fences_are_read_as_models_write_them() {
    check_blocks(
        "1. First\n- a\n- b\n1. Second\n- c\n1. Third\n- d",
        "list
  1.
    p First
    list
      -
        p a
      -
        p b
  2.
    p Second
    list
      -
        p c
  3.
    p Third
    list
      -
        p d",
    );
    check_blocks("1. a\n2. b\n\ntext\n\n1. c", "list\n  1.\n    p a\n  2.\n    p b\n·p text\n·list\n  1.\n    p c");
    check_blocks(
        "- [x] a\n- [ ] b\n  - c",
        "list\n  - done\n    p a\n  - open\n    p b\n    list\n      -\n        p c",
    );
    check_blocks("> a\nb\n> c", "quote\n  p a\np b\nquote\n  p c");
    check_blocks("> a\n>\n> > b\n> c", "quote\n  p a\n  ·quote\n    p b\n  p c");
    check_blocks(
        "x\n>>> a\n\nb\n>>> c",
        "p x\nquote to end\n  p a\n  ·p b\n  quote\n    quote\n      quote\n        p c",
    );
    check_blocks("````md\n```\na\n```\n````", "code(md) ```⏎a⏎```");
    check_blocks("> ```rust\n> a\n>\n> b\n> ```\n> c", "quote\n  code(rust) a⏎⏎b\n  p c");
    check_blocks("Long text.\n---\nmore", "p Long text.\nrule\np more");
    check_blocks("Title\n===\n\nSub\n---\ntext", "h1 Title\n·h2 Sub\np text");
    check_blocks("a\n\n    b\n      c", "p a\n·code() b⏎  c");
}

#[test]
fn tables_are_read_as_models_write_them() {
    check_blocks("Text:\n| a | b |\n|---|---|\n| 1 | 2 |\nmore", "p Text:\ntable a | b\n  1 | 2\np more");
    check_blocks("| a | b |\n|---|\n| 1 | 2 | *3* |", "table a | b\n  1 | 2 | [i:3]");
    check_blocks("| a | b |\n|---|---|---|\n| `x|y` | <br>2<br>3 |", "table a | b\n  [code:x|y] | ⏎2⏎3");
    check_blocks("- item\n| a |\n|---|\n| $x|y$ |", "list\n  -\n    p item\ntable a\n  $x | y$");
    check_blocks("> Text\n> | a | b |\n> |---|---|\n> | 1 | 2 |", "quote\n  p Text\n  table a | b\n    1 | 2");
    check_blocks("| a | b |\n|---|---|\n| $5 | $6 |\n| \\| | **x** |", "table a | b\n  $5 | $6\n  | | [b:x]");
}

/// The characters of a text that are no marks and no white space.
fn letters(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !c.is_ascii_punctuation()).collect()
}

fn check_ranges(blocks: &[Block<'_>], within: std::ops::Range<usize>, text: &str) {
    let mut last = within.start;
    for block in blocks {
        assert!(
            block.range.start >= last && block.range.end <= within.end,
            "{:?} in {within:?} of {text:?}",
            block.range
        );
        assert!(text.get(block.range.clone()).is_some(), "{:?} of {text:?}", block.range);
        last = block.range.start;
        match &block.kind {
            BlockKind::Paragraph(content) | BlockKind::Heading { content, .. } | BlockKind::Html(content) => {
                check_inlines(content, block.range.clone(), text);
            }
            BlockKind::Quote { blocks, .. } | BlockKind::Footnote { blocks, .. } => {
                check_ranges(blocks, block.range.clone(), text);
            }
            BlockKind::List(items) => {
                for item in items {
                    assert!(item.mark.start >= block.range.start && item.mark.end <= item.range.end, "{text:?}");
                    check_ranges(&item.blocks, item.range.clone(), text);
                }
            }
            BlockKind::Table(table) => {
                for cell in std::iter::once(&table.head).chain(&table.rows).flat_map(|row| &row.cells) {
                    check_inlines(&cell.content, block.range.clone(), text);
                }
            }
            BlockKind::Code(code) => {
                assert!(code.lines.iter().all(|line| text.get(line.clone()).is_some()), "{text:?}")
            }
            BlockKind::Formula(_) | BlockKind::Rule => {}
        }
    }
}

fn check_inlines(content: &[Inline<'_>], within: std::ops::Range<usize>, text: &str) {
    let mut last = within.start;
    for inline in content {
        let range = inline.range.clone();
        assert!(range.start >= last && !range.is_empty() && text.get(range.clone()).is_some(), "{range:?} of {text:?}");
        last = range.end;
        match &inline.kind {
            InlineKind::Text(content) => assert!(!content.contains('\n'), "{content:?} of {text:?}"),
            InlineKind::Emphasis(content)
            | InlineKind::Strong(content)
            | InlineKind::Struck(content)
            | InlineKind::Spoiler(content)
            | InlineKind::Link { content, .. }
            | InlineKind::Image { content, .. } => check_inlines(content, range, text),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn plain_characters_are_never_lost(text in "[a-z0-9 \n*_~`|#>+<()!:.=\\\\$/é漢、「」-]{0,120}") {
        let outline = outline(&text);
        let kept = letters(&outline);
        for letter in letters(&text).chars().filter(|c| !c.is_ascii()) {
            let count = |text: &str| text.chars().filter(|c| *c == letter).count();
            prop_assert!(count(&kept) == count(&text), "{letter} in {text:?}: {outline}");
        }
    }

    #[test]
    fn any_text_has_ranges_in_its_source_and_in_order(
        text in "(\\PC{0,30}|[\\x00-\\x7f]{0,30}|[*_~`|$\\[\\]()<>#>\\\\ \n\r\t!.:=+&x1漢é-]{0,60}){0,6}",
    ) {
        let document = crate::Document::parse(&text);
        check_ranges(&document.blocks, 0..text.len(), &text);
    }

    #[test]
    fn windows_are_read_as_the_whole(
        pieces in proptest::collection::vec(prop::sample::select(vec![
            "\n\n", "\n", "text ", "**b** ", "- a\n", "1. a\n", "1. b\n\n", "> q\n", ">>> r\n", "```\n", "~~~\n", "    code\n",
            "| a | b |\n", "|---|---|\n", "# h\n", "<!-- a\n", "-->\n", "<div>\n", "<pre>\n", "</pre>", "$$\n", "\\[ x \\]", "`",
            "||", "x_y", "---\n", "  - n\n", "\t", " ", "a|b",
        ]), 0..24),
        window in 1usize..60,
    ) {
        let text = pieces.concat();
        let whole: Vec<_> = MarkupReader::with_window(&text, usize::MAX).flatten().collect();
        let in_windows: Vec<_> = MarkupReader::with_window(&text, window).flatten().collect();
        let shown = |blocks: &[Block<'_>]| format!("{blocks:?}");
        prop_assert_eq!(shown(&in_windows), shown(&whole), "{:?}", text);
    }
}

/// Texts as models write them, most with a line that looks like something else in CommonMark.
#[test]
fn corpus_is_read_as_it_is_meant() {
    let corpus = include_str!("tests/corpus.txt");
    let trees = corpus.trim_end().split("\n====\n").map(|text| format!("{text}\n→\n{}", outline(text)));
    insta::assert_snapshot!(trees.collect::<Vec<_>>().join("\n"));
}
