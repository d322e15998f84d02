//! Rich HTML as a tree of elements: tags, attributes and decoded characters.

use super::unreadable;
use crate::refusal::ApiRefusal;

/// Bot API, Rich messages, HTML: "only the following named HTML entities". All numerical ones are supported.
const NAMED_ENTITIES: [(&str, char); 13] = [
    ("lt", '<'),
    ("gt", '>'),
    ("amp", '&'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", '\u{a0}'),
    ("hellip", '…'),
    ("mdash", '—'),
    ("ndash", '–'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("ldquo", '“'),
    ("rdquo", '”'),
];

/// Bot API, Rich messages, HTML: the tags that are supported. Those of media, maps and emoji are among them; nothing of ours
/// sends them, and the fake refuses them.
const TAGS: [&str; 43] = [
    "a",
    "aside",
    "b",
    "blockquote",
    "br",
    "caption",
    "cite",
    "code",
    "del",
    "details",
    "em",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "input",
    "ins",
    "li",
    "mark",
    "ol",
    "p",
    "pre",
    "s",
    "strike",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "td",
    "th",
    "tr",
    "tg-math",
    "tg-math-block",
    "tg-reference",
    "tg-spoiler",
    "u",
    "ul",
];

/// Those that have no content and no end.
const VOID_TAGS: [&str; 3] = ["br", "hr", "input"];

#[derive(Debug)]
pub(super) enum RichNode {
    Characters(String),
    Element(RichElement),
}

#[derive(Debug, Default)]
pub(super) struct RichElement {
    pub(super) tag: String,
    attributes: Vec<(String, String)>,
    pub(super) children: Vec<RichNode>,
}

impl RichElement {
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The characters of an element that holds nothing else.
    pub(super) fn characters(&self) -> Result<String, ApiRefusal> {
        let characters = self.children.iter().map(|child| match child {
            RichNode::Characters(characters) => Ok(characters.as_str()),
            RichNode::Element(inner) => Err(unreadable(format!("Tag \"{}\" within \"{}\"", inner.tag, self.tag))),
        });
        characters.collect()
    }
}

struct ElementParser<'a> {
    html: &'a str,
    at: usize,
    open: Vec<RichElement>,
}

/// Reads the elements of a message.
pub(super) fn parse(html: &str) -> Result<Vec<RichNode>, ApiRefusal> {
    // The outermost element is the message itself.
    let mut parser = ElementParser { html, at: 0, open: vec![RichElement::default()] };
    parser.read()?;
    match parser.open.pop() {
        Some(message) if parser.open.is_empty() => Ok(message.children),
        Some(open) => Err(unreadable(format!("Can't find end tag corresponding to start tag \"{}\"", open.tag))),
        None => Ok(Vec::new()),
    }
}

impl ElementParser<'_> {
    fn rest(&self) -> &str {
        &self.html[self.at..]
    }

    fn read(&mut self) -> Result<(), ApiRefusal> {
        while let Some(next) = self.rest().chars().next() {
            match next {
                '<' if self.rest().starts_with("</") => self.end_tag()?,
                '<' => self.start_tag()?,
                _ => {
                    let end = self.rest().find('<').unwrap_or(self.rest().len());
                    let characters = decode(&self.rest()[..end])?;
                    self.at += end;
                    self.push(RichNode::Characters(characters));
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, node: RichNode) {
        if let Some(open) = self.open.last_mut() {
            open.children.push(node);
        }
    }

    fn end_tag(&mut self) -> Result<(), ApiRefusal> {
        let begin = self.at;
        let Some(length) = self.rest().find('>') else {
            return Err(unreadable(format!("Unclosed end tag at byte offset {begin}")));
        };
        let found = self.rest()[2..length].trim().to_lowercase();
        self.at += length + 1;
        match self.open.pop() {
            Some(element) if !self.open.is_empty() && element.tag == found => {
                self.push(RichNode::Element(element));
                Ok(())
            }
            Some(element) if !self.open.is_empty() => Err(unreadable(format!(
                "Unmatched end tag at byte offset {begin}, expected \"</{}>\", found \"</{found}>\"",
                element.tag
            ))),
            _ => Err(unreadable(format!("Unexpected end tag at byte offset {begin}"))),
        }
    }

    fn start_tag(&mut self) -> Result<(), ApiRefusal> {
        let begin = self.at;
        let unclosed = || unreadable(format!("Unclosed start tag at byte offset {begin}"));
        self.at += 1;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let name_end = self.rest().find(|c| !is_name(c)).ok_or_else(unclosed)?;
        let tag = self.rest()[..name_end].to_lowercase();
        if !TAGS.contains(&tag.as_str()) {
            return Err(unreadable(format!("Unsupported start tag \"{tag}\" at byte offset {begin}")));
        }
        self.at += name_end;
        let mut element = RichElement { tag, ..RichElement::default() };
        let is_closed = loop {
            let blanks = self.rest().len() - self.rest().trim_start().len();
            self.at += blanks;
            if self.rest().starts_with("/>") {
                self.at += 2;
                break true;
            }
            if self.rest().starts_with('>') {
                self.at += 1;
                break false;
            }
            let attribute = self.attribute().ok_or_else(unclosed)??;
            element.attributes.push(attribute);
        };
        if is_closed || VOID_TAGS.contains(&element.tag.as_str()) {
            self.push(RichNode::Element(element));
        } else {
            self.open.push(element);
        }
        Ok(())
    }

    /// Reads a name and its value in quotation marks, or a name alone; `None` where the tag has no end.
    fn attribute(&mut self) -> Option<Result<(String, String), ApiRefusal>> {
        let end = self.rest().find(|c: char| c.is_whitespace() || "=>/".contains(c)).filter(|end| *end > 0)?;
        let name = self.rest()[..end].to_lowercase();
        self.at += end;
        let Some(value) = self.rest().strip_prefix('=') else { return Some(Ok((name, String::new()))) };
        let quote = value.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
        let length = value[1..].find(quote)?;
        let decoded = decode(&value[1..=length]);
        self.at += length + 3;
        Some(decoded.map(|value| (name, value)))
    }
}

/// Decodes entities. One that isn't supported is refused.
fn decode(written: &str) -> Result<String, ApiRefusal> {
    let mut decoded = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let name = rest.find(';').map(|end| &rest[..end]);
        let name = name.filter(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '#'));
        let Some(name) = name else {
            // An ampersand that begins no entity stands for itself.
            decoded.push('&');
            continue;
        };
        decoded.push(entity(name).ok_or_else(|| unreadable(format!("Unsupported entity \"&{name};\"")))?);
        rest = &rest[name.len() + 1..];
    }
    decoded.push_str(rest);
    Ok(decoded)
}

fn entity(name: &str) -> Option<char> {
    let Some(number) = name.strip_prefix('#') else {
        return NAMED_ENTITIES.into_iter().find(|(known, _)| *known == name).map(|(_, character)| character);
    };
    let number = match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    number.ok().and_then(char::from_u32).filter(|character| *character != '\0')
}
