//! HTML as text: a flat pass over the tags, so that neither depth nor width of a document costs anything.

use crate::{
    charset,
    page_writer::{DecodedDocument, PageWriter},
};

/// How many bytes at the beginning may name the encoding.
const HEAD_BYTES: usize = 2_048;

/// Elements with a line of their own.
const LINE_ELEMENTS: [&str; 10] =
    ["address", "caption", "dd", "div", "dt", "figcaption", "legend", "li", "option", "summary"];

/// Elements with an empty line around them.
const PARAGRAPH_ELEMENTS: [&str; 24] = [
    "article",
    "aside",
    "blockquote",
    "body",
    "details",
    "dl",
    "fieldset",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "main",
    "nav",
    "ol",
    "p",
    "section",
    "ul",
];

/// Elements whose content is no text.
const SKIPPED_ELEMENTS: [&str; 5] = ["noscript", "script", "style", "template", "title"];

/// Reads a page of HTML.
pub(crate) fn read_html(bytes: &[u8], max_pages: u32) -> DecodedDocument {
    let mut writer = PageWriter::new(max_pages);
    write_html(bytes, None, &mut writer);
    writer.into_flow()
}

/// Writes the text of a page in the encoding that `label` or the page names.
pub(crate) fn write_html(bytes: &[u8], label: Option<&str>, writer: &mut PageWriter) {
    let declared = declared_charset(bytes);
    let html = charset::decode_labelled(bytes, label.or(declared.as_deref()));
    let mut text = HtmlText { writer, is_preformatted: false, pending_space: false };
    let mut rest: &str = &html;
    while let Some(start) = rest.find('<') {
        text.write(&rest[..start]);
        rest = &rest[start..];
        rest = match parse_tag(rest) {
            None => {
                text.write("<");
                &rest[1..]
            }
            Some((tag, after)) if tag.has_content && SKIPPED_ELEMENTS.contains(&tag.name.as_str()) => {
                skip_element(after, &tag.name)
            }
            Some((tag, after)) => {
                text.write_tag(&tag);
                after
            }
        };
        if text.writer.is_full() {
            return;
        }
    }
    text.write(rest);
}

/// A start or an end of an element; comments and declarations have no name.
struct Tag {
    name: String,
    is_start: bool,
    /// Whether it starts an element that isn't ended by the same tag, as `<script/>` is in XHTML.
    has_content: bool,
}

/// Parses the tag at the beginning and returns what follows; `None` if it is a mere `<`.
fn parse_tag(html: &str) -> Option<(Tag, &str)> {
    let nameless = || Tag { name: String::new(), is_start: true, has_content: false };
    if let Some(comment) = html.strip_prefix("<!--") {
        return Some((nameless(), comment.split_once("-->").map_or("", |(_, after)| after)));
    }
    let inner = &html[1..];
    if inner.starts_with(['!', '?']) {
        return Some((nameless(), inner.split_once('>').map_or("", |(_, after)| after)));
    }
    let (is_start, inner) = inner.strip_prefix('/').map_or((true, inner), |inner| (false, inner));
    if !inner.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let name_end = inner.find(|c: char| c.is_whitespace() || c == '/' || c == '>').unwrap_or(inner.len());
    let name = inner[..name_end].rsplit(':').next().unwrap_or_default().to_ascii_lowercase();
    let after = skip_attributes(&inner[name_end..]);
    let has_content = is_start && !inner[..inner.len() - after.len()].ends_with("/>");
    Some((Tag { name, is_start, has_content }, after))
}

/// Skips to behind the `>` that ends a tag, over quoted values.
fn skip_attributes(html: &str) -> &str {
    let mut quote = None;
    for (at, c) in html.char_indices() {
        match (quote, c) {
            (None, '>') => return &html[at + 1..],
            // An unbalanced quote must not swallow the rest of the page.
            (None, '"' | '\'') if html[at + 1..].contains(c) && html[..at].trim_end().ends_with('=') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    ""
}

/// Skips to behind the end of an element whose start was read.
fn skip_element<'a>(html: &'a str, name: &str) -> &'a str {
    let mut rest = html;
    while let Some((_, after)) = rest.split_once("</") {
        let is_end = after.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
            && !after[name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric());
        if is_end {
            return skip_attributes(&after[name.len()..]);
        }
        rest = after;
    }
    ""
}

/// Writes text with the white space of HTML.
struct HtmlText<'a> {
    writer: &'a mut PageWriter,
    is_preformatted: bool,
    pending_space: bool,
}

impl HtmlText<'_> {
    fn write(&mut self, raw: &str) {
        let text = html_escape::decode_html_entities(raw);
        if self.is_preformatted {
            self.writer.push_str(&text);
            return;
        }
        for c in text.chars() {
            if c.is_ascii_whitespace() {
                self.pending_space = true;
                continue;
            }
            if std::mem::take(&mut self.pending_space) && self.writer.is_inside_line() {
                self.writer.push(' ');
            }
            self.writer.push(c);
        }
    }

    fn write_tag(&mut self, Tag { name, is_start, .. }: &Tag) {
        match name.as_str() {
            "br" => self.end_with(PageWriter::push_line_end),
            "pre" | "textarea" => {
                self.is_preformatted = *is_start;
                self.end_with(PageWriter::end_paragraph);
            }
            "table" => self.end_with(|writer| {
                writer.end_paragraph();
                writer.end_row();
            }),
            "tr" => self.end_with(PageWriter::end_row),
            "td" | "th" if !is_start => {
                self.pending_space = false;
                self.writer.end_cell();
            }
            "li" if *is_start => {
                self.end_with(PageWriter::end_line);
                self.writer.push_str("- ");
            }
            // A block at the start of a cell or an item continues its line.
            name if self.writer.is_at_item_start() && !self.is_preformatted && is_block(name) => {
                self.pending_space = false;
            }
            name if LINE_ELEMENTS.contains(&name) => self.end_with(PageWriter::end_line),
            name if PARAGRAPH_ELEMENTS.contains(&name) => self.end_with(PageWriter::end_paragraph),
            _ => {}
        }
    }

    fn end_with(&mut self, end: fn(&mut PageWriter)) {
        self.pending_space = false;
        end(self.writer);
    }
}

fn is_block(name: &str) -> bool {
    LINE_ELEMENTS.contains(&name) || PARAGRAPH_ELEMENTS.contains(&name)
}

/// The encoding that a page names in its head.
fn declared_charset(bytes: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_BYTES)]).to_ascii_lowercase();
    let (_, value) = head.split_once("charset=").or_else(|| head.split_once("encoding="))?;
    let value = value.trim_start_matches(['"', '\'', ' ']);
    Some(value.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(html: &str) -> String {
        read_html(html.as_bytes(), 9).pages.join("|")
    }

    #[test]
    fn structure_becomes_lines() {
        let html = "<!DOCTYPE html><html><head><title>T</title><style>p{}</style></head><body><!-- no -->\n<h1>Head\n line</h1>\
                    <p>One <b>bold</b>, &lt;two&gt; &amp; caf&eacute;<br>next</p><ul><li>a<li>b</ul>\
                    <table><tr><td>1</td><td>2</td></tr><tr><td>3</td><td><p>4</p></td></tr></table>\
                    <script>if (a < b) { alert('</p>') }</script><a href=\"x>y\">link</a><pre> a\n  b</pre>1 < 2</body></html>";
        let expected =
            "Head line\n\nOne bold, <two> & café\nnext\n\n- a\n- b\n\n1\t2\n3\t4\n\nlink\n\n a\n  b\n\n1 < 2";
        assert_eq!(text_of(html), expected);
    }

    #[test]
    fn head_without_end_hides_nothing() {
        assert_eq!(text_of("<!doctype html><html><head><title>T</title><body><p>Hello"), "Hello");
        assert_eq!(text_of("<head/><body><script src=\"x.js\"/><p>chapter</p><script>x</script></body>"), "chapter");
    }

    #[test]
    fn declared_encoding_is_used() {
        let (bytes, _, _) = encoding_rs::WINDOWS_1251.encode("<meta charset=\"windows-1251\"><p>да");
        assert_eq!(read_html(&bytes, 1).pages, ["да"]);
    }

    #[test]
    fn broken_and_hostile_pages_have_text() {
        for (html, expected) in [
            ("<div>".repeat(1_000_000) + "deep", "deep"),
            ("<td colspan=2000000000>wide</td>".to_owned(), "wide"),
            ("<p title=\"open>text".to_owned(), "text"),
            ("<script>never closed".to_owned(), ""),
            ("<!-- never closed".to_owned(), ""),
            ("a <3 b & c &#xFFFFFFFF; <".to_owned(), "a <3 b & c &#xFFFFFFFF; <"),
        ] {
            assert_eq!(text_of(&html), expected, "{}", &html[..html.len().min(40)]);
        }
    }
}
