//! Telegram's HTML, read as strictly as its server reads it.
//!
//! Bot API, HTML style; the words of the refusals and the order of the checks are those of the server's own parser
//! (TDLib, `parse_html`). Offsets in refusals are bytes of what was sent, offsets of entities are UTF-16 units of what
//! is seen.

use crate::{
    message::{FormattedText, TextEntity},
    refusal::{ApiRefusal, bad},
};

/// Bot API, HTML style: "Only the tags mentioned above are currently supported."
const TAGS: [&str; 16] = [
    "a",
    "b",
    "blockquote",
    "code",
    "del",
    "em",
    "i",
    "ins",
    "pre",
    "s",
    "span",
    "strike",
    "strong",
    "tg-emoji",
    "tg-spoiler",
    "u",
];

struct OpenTag {
    tag: String,
    detail: Option<String>,
    /// Where the entity begins, in UTF-16 units.
    units: usize,
    /// Where its words begin in what is seen, in bytes.
    bytes: usize,
}

struct HtmlParser<'a> {
    markup: &'a str,
    at: usize,
    seen: String,
    units: usize,
    open: Vec<OpenTag>,
    entities: Vec<TextEntity>,
}

/// Reads a text with markup: what a person sees of it.
///
/// # Errors
///
/// The server's refusal of a text that it can't read.
pub fn parse_html(markup: &str) -> Result<FormattedText, ApiRefusal> {
    let mut reader =
        HtmlParser { markup, at: 0, seen: String::new(), units: 0, open: Vec::new(), entities: Vec::new() };
    reader.read().map_err(|words| bad(format!("can't parse entities: {words}")))?;
    let mut entities = reader.entities;
    entities.sort_by_key(|entity| (entity.offset, std::cmp::Reverse(entity.length)));
    Ok(FormattedText { text: reader.seen, entities, dropped_entities: 0 })
}

impl HtmlParser<'_> {
    fn peek(&self) -> Option<char> {
        self.markup[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(|next| next.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &str {
        let from = self.at;
        while self.peek().is_some_and(&wanted) {
            self.next();
        }
        &self.markup[from..self.at]
    }

    fn read(&mut self) -> Result<(), String> {
        while let Some(next) = self.peek() {
            match next {
                '<' if self.markup[self.at..].starts_with("</") => self.end_tag()?,
                '<' => self.start_tag()?,
                '&' => {
                    let decoded = self.reference().unwrap_or_else(|| self.next().expect("it was peeked at"));
                    self.see(decoded);
                }
                _ => {
                    self.next();
                    self.see(next);
                }
            }
        }
        match self.open.last() {
            Some(open) => Err(format!("Can't find end tag corresponding to start tag \"{}\"", open.tag)),
            None => Ok(()),
        }
    }

    fn see(&mut self, character: char) {
        self.seen.push(character);
        self.units += character.len_utf16();
    }

    /// Bot API, HTML style: "All numerical HTML entities are supported", and "only the following named HTML entities:
    /// &lt;, &gt;, &amp; and &quot;". Anything else stays as it is.
    fn reference(&mut self) -> Option<char> {
        let rest = &self.markup[self.at..];
        let beyond = |next: char| !next.is_ascii_alphanumeric() && next != '#';
        let name_end = rest[1..].find(beyond).map_or(rest.len(), |place| 1 + place);
        let name = &rest[1..name_end];
        let decoded = match name {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            "quot" => '"',
            _ => {
                let number = name.strip_prefix('#')?;
                let hexadecimal = number.strip_prefix(['x', 'X']).map(|digits| u32::from_str_radix(digits, 16));
                char::from_u32(hexadecimal.unwrap_or_else(|| number.parse()).ok()?)
                    .filter(|decoded| *decoded != '\0')?
            }
        };
        self.at += name_end + usize::from(rest[name_end..].starts_with(';'));
        Some(decoded)
    }

    fn start_tag(&mut self) -> Result<(), String> {
        let begin = self.at;
        self.at += 1;
        let tag = self.take_while(|next| !next.is_ascii_whitespace() && next != '>').to_lowercase();
        if self.peek().is_none() {
            return Err(format!("Unclosed start tag at byte offset {begin}"));
        }
        if !TAGS.contains(&tag.as_str()) {
            return Err(format!("Unsupported start tag \"{tag}\" at byte offset {begin}"));
        }
        let unclosed = || format!("Unclosed start tag \"{tag}\" at byte offset {begin}");
        let mut detail = None;
        loop {
            self.skip_spaces();
            match self.peek() {
                None => return Err(unclosed()),
                Some('>') => break,
                Some(_) => {}
            }
            let name = self.take_while(|next| !next.is_ascii_whitespace() && next != '=' && next != '>').to_owned();
            if name.is_empty() {
                return Err(format!("Empty attribute name in the tag \"{tag}\" at byte offset {begin}"));
            }
            self.skip_spaces();
            let value = match self.peek() {
                None => return Err(unclosed()),
                Some('=') => {
                    self.at += 1;
                    self.skip_spaces();
                    self.attribute_value()?
                }
                Some(_) => String::new(),
            };
            // What means nothing to the server is passed over.
            match (tag.as_str(), name.as_str()) {
                ("a", "href") | ("tg-emoji", "emoji-id") => detail = Some(value),
                ("blockquote", "expandable") => detail = Some("expandable".to_owned()),
                ("code", "class") => detail = value.strip_prefix("language-").map(str::to_owned),
                ("span", "class") => detail = value.strip_prefix("tg-").map(str::to_owned),
                _ => {}
            }
        }
        self.at += 1;
        if tag == "span" && detail.as_deref() != Some("spoiler") {
            return Err(format!("Tag \"span\" must have class \"tg-spoiler\" at byte offset {begin}"));
        }
        self.open.push(OpenTag { tag, detail, units: self.units, bytes: self.seen.len() });
        Ok(())
    }

    fn attribute_value(&mut self) -> Result<String, String> {
        let begin = self.at;
        let Some(quote @ ('"' | '\'')) = self.peek() else {
            let token = self.take_while(|next| next.is_ascii_alphanumeric() || next == '.' || next == '-');
            let token = token.to_lowercase();
            return match self.peek() {
                Some(next) if next != '>' && !next.is_ascii_whitespace() => {
                    Err(format!("Unexpected end of name token at byte offset {begin}"))
                }
                _ => Ok(token),
            };
        };
        self.at += 1;
        let mut value = String::new();
        while let Some(next) = self.peek().filter(|next| *next != quote) {
            let decoded = if next == '&' { self.reference() } else { None };
            match decoded {
                Some(decoded) => value.push(decoded),
                None => value.extend(self.next()),
            }
        }
        self.next();
        Ok(value)
    }

    fn end_tag(&mut self) -> Result<(), String> {
        let begin = self.at;
        self.at += 2;
        let Some(open) = self.open.pop() else {
            return Err(format!("Unexpected end tag at byte offset {begin}"));
        };
        let found = self.take_while(|next| !next.is_ascii_whitespace() && next != '>').to_lowercase();
        self.skip_spaces();
        if self.next() != Some('>') {
            return Err(format!("Unclosed end tag at byte offset {begin}"));
        }
        // "</>" closes whatever is open.
        if !found.is_empty() && found != open.tag {
            let expected = &open.tag;
            return Err(format!(
                "Unmatched end tag at byte offset {begin}, expected \"</{expected}>\", found \"</{found}>\""
            ));
        }
        self.close(open);
        Ok(())
    }

    fn close(&mut self, open: OpenTag) {
        let length = self.units - open.units;
        if length == 0 {
            return;
        }
        let (kind, detail) = match open.tag.as_str() {
            "b" | "strong" => ("bold", None),
            "i" | "em" => ("italic", None),
            "u" | "ins" => ("underline", None),
            "s" | "strike" | "del" => ("strikethrough", None),
            "span" | "tg-spoiler" => ("spoiler", None),
            "blockquote" if open.detail.is_some() => ("expandable_blockquote", None),
            "blockquote" => ("blockquote", None),
            "tg-emoji" => ("custom_emoji", open.detail),
            "pre" => {
                // A `<code>` that fills a `<pre>` says its language.
                let whole = |entity: &TextEntity| {
                    entity.kind == "code" && entity.offset == open.units && entity.length == length
                };
                let inner = self.entities.iter().position(whole).map(|place| self.entities.remove(place));
                ("pre", inner.and_then(|inner| inner.detail))
            }
            "code" => ("code", open.detail),
            _ => {
                let address = open.detail.unwrap_or_else(|| self.seen[open.bytes..].to_owned());
                if let Some(person) = address.strip_prefix("tg://user?id=") {
                    ("text_mention", Some(person.to_owned()))
                } else if reqwest::Url::parse(&address).is_ok_and(|address| address.has_host()) {
                    ("text_link", Some(address))
                } else {
                    // An address that is none leaves its words without a link.
                    return;
                }
            }
        };
        // HTML style: "pre and code entities can't contain other entities", and quotes "can't be nested".
        let dropped = |inner: &TextEntity| match kind {
            "pre" | "code" => true,
            "blockquote" | "expandable_blockquote" => inner.kind.ends_with("blockquote"),
            _ => false,
        };
        self.entities.retain(|inner| inner.offset < open.units || !dropped(inner));
        self.entities.push(TextEntity { kind: kind.to_owned(), offset: open.units, length, detail });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_stands_there_is_read_or_refused() {
        let pieces = ["<b>", "</b>", "<a href=", "'", "&", "&#x1d11e;", "ä", ">", "<", "/", " ", "𝄞", "<pre>", "</"];
        let mut read = 0;
        for number in 0..pieces.len().pow(4) {
            let places = (0..4).map(|place| number / pieces.len().pow(place) % pieces.len());
            let markup: String = places.map(|place| pieces[place]).collect();
            let Ok(formatted) = parse_html(&markup) else { continue };
            read += 1;
            for entity in &formatted.entities {
                assert!(entity.length > 0 && entity.offset + entity.length <= formatted.units(), "{markup}");
            }
        }
        assert!(read > 1000, "{read} of them can be read");
    }
}
