//! The text of rich messages: formatted pieces as the Bot API writes them (RichText).

use serde_json::{Value, json};

use super::{
    blocks::RichReader,
    elements::{RichElement, RichNode},
    unreadable,
};
use crate::refusal::{ApiRefusal, bad};

/// The tags of formatted text, and the types of what they become (Bot API, RichText).
const FORMATS: [(&str, &str); 15] = [
    ("b", "bold"),
    ("strong", "bold"),
    ("i", "italic"),
    ("em", "italic"),
    ("u", "underline"),
    ("ins", "underline"),
    ("s", "strikethrough"),
    ("strike", "strikethrough"),
    ("del", "strikethrough"),
    ("code", "code"),
    ("mark", "marked"),
    ("sub", "subscript"),
    ("sup", "superscript"),
    ("tg-spoiler", "spoiler"),
    ("tg-reference", "reference"),
];

/// Whether an element is text, and no block.
pub(super) fn is_inline(node: &RichNode) -> bool {
    let RichNode::Element(element) = node else { return true };
    let tag = element.tag.as_str();
    matches!(tag, "a" | "br" | "tg-math") || FORMATS.iter().any(|(inline, _)| *inline == tag)
}

/// Whether a text has nothing that a person sees.
pub(super) fn is_blank(text: &Value) -> bool {
    match text {
        Value::String(characters) => characters.trim().is_empty(),
        Value::Array(pieces) => pieces.iter().all(is_blank),
        piece if piece["type"] == "mathematical_expression" => false,
        piece => is_blank(piece.get("text").unwrap_or(&Value::String(String::new()))),
    }
}

impl RichReader {
    /// Reads a text, in which white space is one blank each.
    pub(super) fn text(&mut self, nodes: &[RichNode], depth: usize) -> Result<Value, ApiRefusal> {
        let mut pieces = Vec::new();
        for node in nodes {
            match node {
                RichNode::Characters(characters) => {
                    let characters: Vec<&str> = characters.split(['\n', '\r', '\t']).collect();
                    pieces.push(json!(self.count(characters.join(" "))?));
                }
                RichNode::Element(element) => pieces.push(self.piece(element, depth + 1)?),
            }
        }
        Ok(match pieces.as_slice() {
            [] => json!(""),
            [only] => only.clone(),
            _ => json!(pieces),
        })
    }

    fn piece(&mut self, element: &RichElement, depth: usize) -> Result<Value, ApiRefusal> {
        self.check_depth(depth)?;
        match element.tag.as_str() {
            "br" => Ok(json!("\n")),
            "a" => self.link(element, depth),
            "tg-math" => {
                let expression = self.formula(element)?;
                Ok(json!({ "type": "mathematical_expression", "expression": expression }))
            }
            tag => {
                let Some((_, kind)) = FORMATS.iter().find(|(inline, _)| *inline == tag) else {
                    // Blocks aren't allowed within text; cells of tables have only inline formatting.
                    return Err(unreadable(format!("Tag \"{tag}\" isn't allowed within text")));
                };
                let mut piece = json!({ "type": kind, "text": self.text(&element.children, depth)? });
                if *kind == "reference" {
                    let name = element.attribute("name").filter(|name| !name.is_empty());
                    piece["name"] = json!(name.ok_or_else(|| unreadable("a reference has no name"))?);
                }
                Ok(piece)
            }
        }
    }

    /// The raw LaTeX of a formula.
    pub(super) fn formula(&mut self, element: &RichElement) -> Result<String, ApiRefusal> {
        let expression = element.characters()?;
        if expression.trim().is_empty() {
            return Err(super::content_required());
        }
        self.count(expression)
    }

    fn link(&mut self, element: &RichElement, depth: usize) -> Result<Value, ApiRefusal> {
        if let Some(name) = element.attribute("name") {
            return Ok(json!({ "type": "anchor", "name": name }));
        }
        let address = element.attribute("href").ok_or_else(|| bad("RICH_MESSAGE_URL_INVALID"))?;
        let text = self.text(&element.children, depth)?;
        if let Some(anchor) = address.strip_prefix('#') {
            return Ok(json!({ "type": "anchor_link", "text": text, "anchor_name": anchor }));
        }
        if let Some(email) = address.strip_prefix("mailto:") {
            let is_email = email.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
            if !is_email {
                return Err(bad("RICH_MESSAGE_EMAIL_INVALID"));
            }
            return Ok(json!({ "type": "email_address", "text": text, "email_address": email }));
        }
        if let Some(phone) = address.strip_prefix("tel:") {
            if !phone.chars().any(|c| c.is_ascii_digit()) {
                return Err(bad("RICH_MESSAGE_PHONE_INVALID"));
            }
            return Ok(json!({ "type": "phone_number", "text": text, "phone_number": phone }));
        }
        let is_web = reqwest::Url::parse(address).is_ok_and(|url| url.has_host());
        if !is_web || address.chars().any(char::is_whitespace) {
            return Err(bad("RICH_MESSAGE_URL_INVALID"));
        }
        Ok(json!({ "type": "url", "text": text, "url": address }))
    }
}
