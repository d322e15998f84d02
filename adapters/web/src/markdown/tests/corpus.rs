//! Texts as models write them, and what a person sees of them on the page.

use satchel_fake_kit::{chat_corpus, visible_lines};

use crate::markdown::to_html;

/// Bullets by the depth of their list.
const BULLETS: [&str; 3] = ["• ", "◦ ", "▪ "];

/// Reads the HTML of the page as lines of text, with bullets and numbers before items, pipes between cells, and
/// `⟦formula⟧` for a formula.
#[derive(Default)]
struct PageReader {
    text: String,
    /// The number of the next item of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    in_footnotes: bool,
    in_formula: bool,
    /// Whether nothing is behind the bullet or number of an item yet.
    at_item_start: bool,
    cells: usize,
}

impl PageReader {
    fn read(html: &str) -> String {
        let mut reader = Self::default();
        let mut rest = html;
        while let Some((text, behind)) = rest.split_once('<') {
            reader.push_text(text);
            let (tag, behind) = behind.split_once('>').expect("a tag ends");
            reader.push_tag(tag);
            rest = behind;
        }
        reader.push_text(rest);
        visible_lines(&reader.text)
    }

    fn push_text(&mut self, text: &str) {
        self.at_item_start &= text.is_empty();
        if !self.in_formula {
            let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
            self.text.push_str(&text.replace("&amp;", "&"));
        }
    }

    fn push_tag(&mut self, tag: &str) {
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        match name {
            "math" => {
                self.text.push_str("⟦formula⟧");
                self.in_formula = true;
            }
            "/math" => self.in_formula = false,
            "ul" => self.lists.push(None),
            "ol" => {
                self.in_footnotes = attributes == "class=\"footnotes\"";
                let start = attributes.strip_prefix("start=\"").and_then(|start| start.strip_suffix('"'));
                self.lists.push(Some(start.map_or(1, |start| start.parse().expect("a list starts with a number"))));
            }
            "/ul" | "/ol" => {
                self.lists.pop();
            }
            "li" => self.begin_item(),
            // The box of a task takes the place of the bullet.
            "span" if attributes.starts_with("class=\"task\"") => {
                let bullet = BULLETS[(self.lists.len() - 1).min(2)];
                self.text.truncate(self.text.trim_end_matches(bullet).len());
            }
            "sup" => self.text.push('['),
            "/sup" => self.text.push(']'),
            "tr" => {
                self.text.push('\n');
                self.cells = 0;
            }
            "td" | "th" => {
                self.text.push_str(if self.cells > 0 { " | " } else { "" });
                self.cells += 1;
            }
            "hr" => self.text.push_str("\n────────\n"),
            "p" if self.at_item_start => {}
            "br" | "p" | "/p" | "h3" | "h4" | "h5" | "h6" | "/h3" | "/h4" | "/h5" | "/h6" | "pre" | "/pre"
            | "blockquote" | "/blockquote" | "div" | "/div" => self.text.push('\n'),
            _ => {}
        }
    }

    fn begin_item(&mut self) {
        let depth = self.lists.len() - 1;
        self.at_item_start = true;
        self.text.push('\n');
        match &mut self.lists[depth] {
            None => self.text.push_str(BULLETS[depth.min(2)]),
            Some(number) => {
                let mark = if self.in_footnotes { format!("[{number}] ") } else { format!("{number}. ") };
                self.text.push_str(&mark);
                *number += 1;
            }
        }
    }
}

#[test]
fn corpus_is_shown_on_the_page_as_it_is_meant() {
    let cases = chat_corpus();
    assert!(cases.len() >= 200, "{} texts", cases.len());
    let mut complaints = Vec::new();
    for case in &cases {
        let html = to_html(&case.text);
        let (shown, wanted) = (PageReader::read(&html), case.visible_on_page());
        if shown != wanted {
            complaints.push(format!("{}\n{}\n-- wanted\n{wanted}\n-- shown\n{shown}\n", case.name, case.text));
        }
    }
    assert!(complaints.is_empty(), "{} of {}:\n{}", complaints.len(), cases.len(), complaints.join("\n"));
}
