//! What Markdown looks like in a terminal and in a pipe.

use insta::assert_snapshot;

use super::*;

const TEXT: &str = "# The plan\n\nA paragraph with **bold**, *slanted*, ~~gone~~ and `code`,\nits second line, and a \
[link](https://example.org/a?b=c).\n\n## List\n\n- one\n- two with\n  more\n  1. inner\n  2. deep `x`\n- three\n\n3. \
third\n4. fourth\n\n> A quote\n> of two lines\n>\n> and **two** paragraphs\n\n```rust\nfn main() {\n\tprintln!(\"*not \
slanted*\");\n\n}\n```\n\n---\n\n<https://example.org> ![a cat](cat.png)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n<b>html</b> &amp; AT&T";

fn look(colour: bool, width: Option<usize>) -> ScreenStyle {
    ScreenStyle { terminal: colour, colour, width }
}

#[test]
fn markdown_without_colours_keeps_its_marks() {
    assert_snapshot!(render(TEXT, look(false, None)).join("\n"));
}

#[test]
fn markdown_with_colours_has_styles_for_marks() {
    assert_snapshot!(render(TEXT, look(true, None)).join("\n").replace('\x1b', "␛"));
}

#[test]
fn lines_are_broken_at_the_width() {
    let text = "> - Съешь же ещё этих мягких французских булок, да выпей **чаю и кофе**, 日本語の 文章 https://example.org/a/very/long/link/that/stays/whole";
    assert_snapshot!(render(text, look(false, Some(30))).join("\n"));
}

#[test]
fn code_blocks_are_kept_verbatim() {
    let code = "  if x:\n\n\treturn  [1][0] # *a* <b> &amp; \\*\n";
    let lines = render(&format!("````py\n{code}```\n````"), look(false, Some(20)));
    assert_eq!(lines.join("\n"), format!("````py\n{code}```\n````"));
}

#[test]
fn no_escape_gets_through_any_markup() {
    let attacks = [
        "\x1b[2J",
        "&#27;[2J",
        "&#x1b;]0;title&#7;",
        "`\x1b[2J`",
        "```\x1b[2J\n\x1b[2J\n```",
        "[x](http://a/\x1b[2J)",
        "[x](<http://a/&#27;[2J>)",
        "![&#27;c](a)",
        "# &#155;31m",
        "<b \x1b[2J>",
        "> \x1b]52;c;AAAA\x07",
        "- \x08\x08\rover",
    ];
    for attack in attacks {
        for (form, lines) in [("rich", render(attack, look(false, None))), ("plain", plain_lines(attack))] {
            let shown = lines.join("\n");
            assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{form} {attack:?} became {shown:?}");
        }
        // With colours, the only escapes are ours: styles, all of them ended.
        let shown = render(attack, look(true, Some(40))).join("\n");
        let mut rest = &*shown;
        while let Some(at) = rest.find('\x1b') {
            let style = &rest[at + 1..];
            let end = style.find('m').unwrap();
            assert!(style[1..end].chars().all(|c| c.is_ascii_digit() || c == ';'), "{attack:?} became {shown:?}");
            rest = &style[end..];
        }
    }
}

#[test]
fn odd_texts_are_rendered_somehow() {
    for text in ["", "\n\n\n", "**", "```", "> ", "- ", "1.", "[", "![](", "| |", "&#0;", "\u{feff}", "*a **b* c**"] {
        let _ = (render(text, look(false, Some(1))), render(text, look(true, None)), plain_lines(text));
    }
    assert_eq!(render(&"> ".repeat(500), look(false, Some(40))).len(), 0);
}

#[test]
fn texts_that_are_no_markdown_keep_their_characters() {
    for text in [
        "2*3*4 = 24 and 5*6*7 = 210",
        "src/*.py, lib/*.rs",
        "/shared/_drafts_/a.txt and /shared/__pycache__/b.pyc, see __init__.py",
        "https://git.example.org/pkg/blob/main/__init__.py#L16",
        "about ~20~ of them",
        "It is ||the butler||.",
        "\\( x_{1} = \\frac{-b}{2a} \\)",
        "a[^1]\n\n[^1]: A note",
        "- [x] done\n- [ ] open",
        "| a | b |\n|---|:-:|\n| `1` | **2** |",
        "before\n| a | b |\n|---|---|\n| 1 | 2 |\nbehind",
        "> 1. one\n>    - two",
    ] {
        assert_eq!(render(text, look(false, None)).join("\n"), text);
    }
    assert_eq!(render(">>> a\n\nb", look(false, None)), ["> a", ">", "> b"]);
    assert_eq!(render("1. a\n- b\n2. c", look(false, None)), ["1. a", "   - b", "2. c"]);
}

#[test]
fn styled_line_is_cut_by_visible_width() {
    let painted = paint("日本語 text", Style::new().bold(), look(true, None));
    assert_eq!(truncate_line(&painted, 20), painted);
    assert_eq!(truncate_line(&painted, 5), "日本");
}
