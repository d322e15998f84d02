//! That a text is as long as it is measured, where its lines are written.

use proptest::prelude::*;
use satchel_domain::capabilities::{TextLimit, TextUnit};
use satchel_markup::{ChatSpan, ChatWriter, Document, utf16_units, write_message};

use super::parts::any_text;
use crate::split::{fits, visible_units};

/// Counts what is written, as a channel does that closes spans before code and opens them again behind it.
#[derive(Default)]
struct CountingWriter {
    units: usize,
    spans: usize,
    open: Vec<bool>,
}

impl ChatWriter for CountingWriter {
    fn can_link(&self, address: &str) -> bool {
        address.starts_with("https://") || address.starts_with("http://")
    }

    fn open(&mut self, span: ChatSpan<'_>) {
        self.open.push(span != ChatSpan::Quote);
        self.spans += 1;
    }

    fn close(&mut self) {
        self.open.pop();
    }

    fn push_text(&mut self, text: &str) {
        assert!(!text.contains('\n'), "{text:?}");
        self.units += utf16_units(text);
    }

    fn push_address(&mut self, text: &str, _address: &str) {
        self.push_text(text);
    }

    fn push_code(&mut self, code: &str) {
        self.push_text(code);
        self.spans += 1 + self.open.iter().filter(|is_reopened| **is_reopened).count();
    }

    fn push_code_block(&mut self, _language: &str, code: &str) {
        self.units += utf16_units(code);
        self.spans += 1;
    }

    fn push_breaks(&mut self, breaks: usize, prefix: &str) {
        self.units += breaks;
        self.push_text(prefix);
    }
}

fn written(text: &str) -> CountingWriter {
    let mut writer = CountingWriter::default();
    write_message(&Document::parse(text), &mut writer);
    writer
}

#[test]
fn lines_are_measured_as_they_are_written() {
    for text in [
        "# A **b** `c`\ntext\n\nmore",
        "- a\n  b\n  - c\n    - d\n- [x] e\n\n10. f\n11. [ ] g\n    h",
        "> a\n> - b\n>\n> > c\n> > d",
        "- a\n  ```rust\n  b\n  ```\n  c\n- ```\n  d\n  ```",
        "a\n\n---\n\nb",
        "[x](/y) [z](mailto:z@a.b) ![i](https://a.b) ![](c.png) https://a.b/c",
        "||a|| $x_1$ **$\\hat{y}$** see[^1]\n\n[^1]: a",
        "\\[\na \\\\\nb\n\\]",
        "| Name | B |\n|---|---|\n| 1 | a longer cell |\n| 漢字 | |",
        "| A | B | C |\n|---|---|---|\n| 1 | [l](https://a.b) | 3 |\n| 4<br>5 | **6** | 7 |",
        "| A | B |\n|---|---|\n| 1 | [l](https://a.b) |\n| 2 | `x` |",
    ] {
        let written = written(text);
        assert_eq!(visible_units(text, TextUnit::Utf16), written.units, "{text:?}");
        let limit = |spans| TextLimit { unit: TextUnit::Utf16, max: None, entities: Some(spans) };
        // Where a link isn't one for the channel, its span is counted nevertheless.
        let unlinked = text.matches("](/").count() + text.matches("](m").count() + text.matches("](c").count();
        assert!(fits(text, &limit(written.spans + unlinked)), "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn no_text_is_longer_than_it_is_measured(text in any_text()) {
        let (written, measured) = (written(&text), visible_units(&text, TextUnit::Utf16));
        prop_assert!(written.units <= measured, "{} > {measured}: {text:?}", written.units);
        // Nor is it measured as much longer: texts would be cut too early.
        prop_assert!(measured <= written.units + written.units / 8 + 60, "{measured} > {}: {text:?}", written.units);
    }
}
