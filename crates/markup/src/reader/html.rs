//! Where blocks of HTML begin and end, in which no line is part of anything else.

/// What ends a block of HTML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HtmlEnd {
    /// The line that has this.
    Containing(&'static str),
    /// The line before a blank one.
    BlankLine,
}

/// The elements of which a tag at the beginning of a line begins a block of HTML.
const BLOCK_ELEMENTS: &str = "address article aside base basefont blockquote body caption center col colgroup dd details \
    dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hr html \
    iframe legend li link main menu menuitem nav noframes ol optgroup option p param search section summary table tbody \
    td tfoot th thead title tr track ul";

/// The elements whose block goes on to their closing tag.
const RAW_ELEMENTS: [(&str, &str); 4] =
    [("script", "</script>"), ("pre", "</pre>"), ("style", "</style>"), ("textarea", "</textarea>")];

/// What ends the block of HTML that begins with a line; `None` if none does.
pub(super) fn html_block(line: &[u8], is_continued: bool) -> Option<HtmlEnd> {
    let tag = line.strip_prefix(b"<")?;
    for (opening, closing) in [("!--", "-->"), ("?", "?>"), ("![CDATA[", "]]>")] {
        if tag.starts_with(opening.as_bytes()) {
            return Some(HtmlEnd::Containing(closing));
        }
    }
    if tag.starts_with(b"!") {
        return tag.get(1).is_some_and(u8::is_ascii_alphabetic).then_some(HtmlEnd::Containing(">"));
    }
    let name_and_rest = tag.strip_prefix(b"/").unwrap_or(tag);
    let length = name_and_rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let (name, rest) = name_and_rest.split_at(length);
    let name = std::str::from_utf8(name).unwrap_or_default().to_ascii_lowercase();
    let ends_name = rest.first().is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'>' | b'/'));
    if !ends_name || name.is_empty() {
        return None;
    }
    if !tag.starts_with(b"/")
        && let Some((_, closing)) = RAW_ELEMENTS.iter().find(|(element, _)| *element == name)
    {
        return Some(HtmlEnd::Containing(closing));
    }
    let is_block = BLOCK_ELEMENTS.split_ascii_whitespace().any(|element| element == name);
    // Any other tag only where it is alone.
    let is_alone = !is_continued && is_end_of_tag(rest.trim_ascii_end());
    (is_block || is_alone).then_some(HtmlEnd::BlankLine)
}

/// Whether the rest of a tag has its end at its end.
fn is_end_of_tag(rest: &[u8]) -> bool {
    rest.iter().position(|byte| matches!(byte, b'<' | b'>')) == rest.len().checked_sub(1) && rest.ends_with(b">")
}

impl HtmlEnd {
    /// Whether the block ends with a line.
    pub(super) fn is_in(self, line: &[u8]) -> bool {
        match self {
            Self::Containing(end) => line.windows(end.len()).any(|window| window.eq_ignore_ascii_case(end.as_bytes())),
            Self::BlankLine => false,
        }
    }
}
