//! What the lines of a message look like, and that they are as long as they are measured.

use super::*;

/// Writes spans as tags.
#[derive(Default)]
struct TagWriter {
    text: String,
    /// What a person sees.
    shown: String,
    open: Vec<&'static str>,
    spans: usize,
}

impl TagWriter {
    fn push(&mut self, tag: &'static str, text: &str) {
        self.text.push_str(&format!("<{tag}>{text}</{tag}>"));
        self.shown.push_str(text);
        self.spans += 1;
    }
}

impl ChatWriter for TagWriter {
    fn can_link(&self, address: &str) -> bool {
        address.starts_with("https://") || address.starts_with("http://")
    }

    fn open(&mut self, span: ChatSpan<'_>) {
        let tag = match span {
            ChatSpan::Bold => "b",
            ChatSpan::Italic => "i",
            ChatSpan::Struck => "s",
            ChatSpan::Spoiler => "spoiler",
            ChatSpan::Link(_) => "a",
            ChatSpan::Quote => "quote",
        };
        self.text.push_str(&format!("<{tag}>"));
        self.open.push(tag);
        self.spans += 1;
    }

    fn close(&mut self) {
        let tag = self.open.pop().unwrap();
        self.text.push_str(&format!("</{tag}>"));
    }

    fn push_text(&mut self, text: &str) {
        assert!(!text.contains('\n'), "{text:?}");
        self.text.push_str(text);
        self.shown.push_str(text);
    }

    fn push_address(&mut self, text: &str, _address: &str) {
        self.push("a", text);
        self.spans -= 1;
    }

    fn push_code(&mut self, code: &str) {
        self.push("code", code);
    }

    fn push_code_block(&mut self, _language: &str, code: &str) {
        self.push("pre", code);
    }

    fn push_breaks(&mut self, breaks: usize, prefix: &str) {
        for text in [&mut self.text, &mut self.shown] {
            text.push_str(&"\n".repeat(breaks));
            text.push_str(prefix);
        }
    }
}

fn write(text: &str) -> TagWriter {
    let mut writer = TagWriter::default();
    write_message(&Document::parse(text), &mut writer);
    assert!(writer.open.is_empty());
    writer
}

#[test]
fn blocks_become_lines() {
    for (text, lines) in [
        ("# A\ntext\n\nmore **b**", "<b>A</b>\ntext\n\nmore <b>b</b>"),
        ("- a\n  b\n  - c\n    - d\n- [x] e", "• a\n  b\n  ◦ c\n    ▪ d\n☑ e"),
        ("9. a\n10. b\n    c\n\n    d", "9. a\n10. b\n    c\n\n    d"),
        ("1. a\n- b\n1. c", "1. a\n   ◦ b\n2. c"),
        ("> a\n> - b\n>\n> > c\n> > d", "<quote>a\n• b\n\n> c\n> d</quote>"),
        ("- > a\n  > b", "• > a\n  > b"),
        ("- a\n  ```rust\n  b\n  ```\n  c", "• a\n<pre>b</pre>\n  c"),
        ("a\n\n---\n\nb", "a\n\n────────\n\nb"),
        ("[x](/y) [z](mailto:z) ![i](https://a.b) ![](c.png)", "x (/y) z <a>🖼 i</a> 🖼 image (c.png)"),
        ("||a|| $x_1$ $\\hat{y}$", "<spoiler>a</spoiler> x₁ <code>$\\hat{y}$</code>"),
        ("\\[\na \\\\\nb\n\\]", "<pre>\\[\na \\\\\nb\n\\]</pre>"),
        ("| A | B |\n|---|---|\n| 1 | 2 |", "<pre>A │ B\n─────\n1 │ 2</pre>"),
        (
            "| A | B | C |\n|---|---|---|\n| 1 | [l](https://a.b) | 3 |\n| 4<br>5 | | |",
            "<b>A: 1</b>\nB: <a>l</a>\nC: 3\n\n<b>A: 4\n5</b>",
        ),
        ("see[^1]\n\n[^1]: a", "see[1]\n\n[1] a"),
        ("a<br>b", "a\nb"),
    ] {
        assert_eq!(write(text).text, lines, "{text:?}");
    }
}
