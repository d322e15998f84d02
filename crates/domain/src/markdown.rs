//! Appending paragraphs to a model's Markdown, which may be unfinished.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

/// The text without blank lines before it and blanks behind it. Its first line keeps its indentation, which may be what
/// makes it code or part of a list.
#[must_use]
pub fn trim_blank_edges(text: &str) -> &str {
    let text = text.trim_end();
    let leading_len = text.len() - text.trim_start().len();
    &text[text[..leading_len].rfind('\n').map_or(0, |newline| newline + 1)..]
}

/// The text with a paragraph behind it. A code fence that the text leaves open is closed first: a model that is stopped
/// within a code block must not make code of what the person is told.
#[must_use]
pub fn append_paragraph(text: &str, paragraph: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() {
        return paragraph.to_owned();
    }
    let joined = format!("{text}\n\n{paragraph}");
    match open_fence_at(&joined, joined.len() - paragraph.len()) {
        Some(fence) => format!("{text}\n{fence}\n\n{paragraph}"),
        None => joined,
    }
}

/// The text with the beginning of another paragraph behind it, outside of a code fence that it leaves open; empty if it is
/// empty.
#[must_use]
pub fn start_paragraph(text: &str) -> String {
    if text.trim_end().is_empty() {
        return String::new();
    }
    let mut started = append_paragraph(text, "x");
    started.pop();
    started
}

/// Whether a text has another one as a whole: between its edges or blank lines. White space around them and at the ends of
/// lines doesn't count.
#[must_use]
pub fn has_block(text: &str, block: &str) -> bool {
    if block.trim().is_empty() {
        return false;
    }
    // The blank lines around it belong to the searched text, so that nothing overlaps and the search takes linear time.
    let between_blank_lines = |text: &str| {
        let lines: Vec<&str> = trim_blank_edges(text).lines().map(str::trim_end).collect();
        format!("\n\n{}\n\n", lines.join("\n"))
    };
    text.trim() == block.trim() || between_blank_lines(text).contains(&between_blank_lines(block))
}

/// The fence of the code block in which a place stands, as it must be repeated to close it.
fn open_fence_at(text: &str, at: usize) -> Option<&str> {
    // Parsed as it is for splitting and rendering: only the parser knows which quotes and lists have ended.
    let blocks = Parser::new(text).into_offset_iter().filter_map(|(event, range)| match event {
        Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => Some(range),
        _ => None,
    });
    let block = blocks.into_iter().find(|range| range.contains(&at))?;
    let opening = text[block].trim_start();
    let fence_char = opening.chars().next()?;
    Some(&opening[..opening.len() - opening.trim_start_matches(fence_char).len()])
}

/// Keeps a text that is no Markdown from being read as such, within a line.
#[must_use]
pub fn escape(text: &str) -> String {
    let is_markup = |c: char| "`*_[]<>#|~$".contains(c);
    // Between `\[` and `\]` is a formula, if it looks like one.
    let may_be_formula = text.contains(['^', '=', '+', '<', '>', '/', '{', '_', '\\']) || text.contains("[ ");
    let mut escaped = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c {
            '[' if may_be_formula => escaped.push_str("&#91;"),
            // Two backslashes are read as two, so that formulas stay whole.
            '\\' => escaped.push_str("&#92;"),
            c if is_markup(c) || (c == '&' && is_reference(&text[at + 1..])) => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// Whether what is behind an ampersand makes it a reference to a character.
fn is_reference(text: &str) -> bool {
    let name = text.strip_prefix('#').unwrap_or(text);
    let length = name.bytes().take_while(u8::is_ascii_alphanumeric).count();
    length > 0 && name[length..].starts_with(';')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blank_lines_go_from_the_beginning() {
        for (given, rest) in [
            ("\n \n    let x;\n    x\n\n", "    let x;\n    x"),
            ("\r\n\tx ", "\tx"),
            ("  - a\n  - b", "  - a\n  - b"),
            ("x", "x"),
            (" \n\t", ""),
            ("", ""),
        ] {
            assert_eq!(trim_blank_edges(given), rest, "{given:?}");
        }
    }

    #[test]
    fn escaped_text_has_no_markup() {
        for (text, escaped) in [
            ("a *c* [1] #2", "a \\*c\\* \\[1\\] \\#2"),
            ("[a_1 = b]", "&#91;a\\_1 = b\\]"),
            ("C:\\dir and $5", "C:&#92;dir and \\$5"),
            ("AT&T &lt; &#92;", "AT&T \\&lt; \\&\\#92;"),
            ("plain words.", "plain words."),
        ] {
            assert_eq!(escape(text), escaped);
        }
    }

    #[test]
    fn paragraph_after_open_fence_is_not_code() {
        for (text, whole) in [
            ("", "Told."),
            ("so far\n", "so far\n\nTold."),
            ("so far\n```rust\nlet x = ", "so far\n```rust\nlet x =\n```\n\nTold."),
            ("```rust", "```rust\n```\n\nTold."),
            ("```\nx\n```", "```\nx\n```\n\nTold."),
            ("~~~~ md\n~~~\n```", "~~~~ md\n~~~\n```\n~~~~\n\nTold."),
            ("```\na\n```\n````\nb\n```", "```\na\n```\n````\nb\n```\n````\n\nTold."),
            ("  ```\n  a", "  ```\n  a\n```\n\nTold."),
            // These end where their quote, their list or their paragraph does.
            ("> ```\n> x", "> ```\n> x\n\nTold."),
            ("- ```\n  x", "- ```\n  x\n\nTold."),
            ("a `b", "a `b\n\nTold."),
            ("    ```", "    ```\n\nTold."),
        ] {
            assert_eq!(append_paragraph(text, "Told."), whole, "{text:?}");
            assert_eq!(format!("{}Told.", start_paragraph(text)), whole, "{text:?}");
        }
    }

    #[test]
    fn block_is_whole_between_edges_or_blank_lines() {
        for (text, block, found) in [
            ("Saved.", "Saved.", true),
            (" Saved.\n", "\nSaved. ", true),
            ("Milk\nBread\n\nSaved.", "Milk\nBread", true),
            ("First.\n \nMilk\r\n\r\nLast.", "Milk", true),
            ("First.\n\n    let x;\n\nLast.", "\n    let x;", true),
            ("    let x;", "let x;", true),
            ("Milk.  \nBread.\n\n\nSaved.", "Milk.\nBread.", true),
            ("aa\n\na\n\na", "a\n\na", true),
            ("Milk\n\nBread\n\nSaved.", "Milk\n\nBread", true),
            ("Milk\nBread\n\nSaved.", "Milk", false),
            ("Milk, Bread", "Milk", false),
            ("Milky\n\nMilk", "Milk", true),
            ("Saved.", "", false),
            ("", "Saved.", false),
        ] {
            assert_eq!(has_block(text, block), found, "{block:?} in {text:?}");
        }
    }
}
