//! Walks through XML, bounded in depth. Entities other than the five of XML and character references are dropped, and
//! nothing outside of the text is ever read.

use quick_xml::{
    Reader,
    events::{BytesStart, Event},
    name::QName,
};

use crate::{charset, error::FileDecodeError};

/// The deepest nesting of elements.
const MAX_DEPTH: usize = 4_096;

/// What a walk meets. Names come without their prefix.
pub(crate) enum XmlToken<'a> {
    Start(&'a str, Attributes<'a>),
    End(&'a str),
    Text(&'a str),
}

/// The attributes of an element.
pub(crate) struct Attributes<'a>(&'a BytesStart<'a>);

impl Attributes<'_> {
    /// The value of an attribute, by its name without the prefix.
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        self.find(|key| key.local_name().as_ref() == name)
    }

    /// The value of an attribute, by its name with the prefix.
    pub(crate) fn prefixed_value(&self, name: &str) -> Option<String> {
        self.find(|key| key.as_ref() == name)
    }

    fn find(&self, is_wanted: impl Fn(QName<'_>) -> bool) -> Option<String> {
        let attribute = self.0.attributes().with_checks(false).flatten().find(|attribute| is_wanted(attribute.key))?;
        Some(html_escape::decode_html_entities(&attribute.value).into_owned())
    }
}

/// Walks through a document in the order of its text. The walk ends early when `visit` returns `false`.
pub(crate) fn walk_xml(xml: &[u8], mut visit: impl FnMut(XmlToken<'_>) -> bool) -> Result<(), FileDecodeError> {
    let xml = charset::decode_text(xml);
    let mut reader = Reader::from_str(&xml);
    let config = reader.config_mut();
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    let mut depth = 0_usize;
    loop {
        let goes_on = match reader.read_event().map_err(FileDecodeError::damaged)? {
            Event::Start(element) => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(FileDecodeError::TooLarge(format!(
                        "its elements are nested deeper than {MAX_DEPTH} levels"
                    )));
                }
                visit(XmlToken::Start(element.local_name().as_ref(), Attributes(&element)))
            }
            Event::Empty(element) => {
                visit(XmlToken::Start(element.local_name().as_ref(), Attributes(&element)))
                    && visit(XmlToken::End(element.local_name().as_ref()))
            }
            Event::End(element) => {
                depth = depth.saturating_sub(1);
                visit(XmlToken::End(element.local_name().as_ref()))
            }
            Event::Text(text) => visit(XmlToken::Text(&text)),
            Event::CData(text) => visit(XmlToken::Text(&text)),
            Event::GeneralRef(reference) => match reference.resolve_char_ref() {
                Ok(Some(c)) => visit(XmlToken::Text(c.encode_utf8(&mut [0; 4]))),
                _ => visit(XmlToken::Text(predefined_entity(&reference))),
            },
            Event::Eof => return Ok(()),
            _ => true,
        };
        if !goes_on {
            return Ok(());
        }
    }
}

fn predefined_entity(name: &str) -> &'static str {
    match name {
        "amp" => "&",
        "lt" => "<",
        "gt" => ">",
        "quot" => "\"",
        "apos" => "'",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(xml: &str) -> Result<String, FileDecodeError> {
        let mut text = String::new();
        walk_xml(xml.as_bytes(), |token| {
            if let XmlToken::Text(part) = token {
                text.push_str(part);
            }
            true
        })?;
        Ok(text)
    }

    #[test]
    fn entities_are_never_expanded() {
        let laughs = "<!DOCTYPE l [<!ENTITY a \"lol\"><!ENTITY b \"&a;&a;&a;\"><!ENTITY f SYSTEM \"file:///etc/passwd\">]>\
                      <l>1&b;&f;&amp;&#65;&#x42;</l>";
        assert_eq!(text_of(laughs).as_deref(), Ok("1&AB"));
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(text_of(&format!("{}x", "<a>".repeat(MAX_DEPTH))).is_ok());
        let error = text_of(&"<a>".repeat(100_000)).unwrap_err();
        assert_eq!(error.to_string(), "its elements are nested deeper than 4096 levels");
    }
}
