//! A message's words: read with their markup, trimmed, counted, and refused where they are too long.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::{
    call::ReceivedCall,
    html::parse_html,
    message::{FormattedText, TextEntity},
    refusal::{ApiRefusal, bad},
};

/// The entities in which the server looks for no others (TDLib, `fix_entities`): code holds none, and a link is one already.
const OPAQUE_ENTITIES: [&str; 4] = ["code", "pre", "text_link", "text_mention"];

/// The entities that the quoted passage of a message keeps (Bot API, TextQuote).
const QUOTED_ENTITIES: [&str; 7] =
    ["bold", "italic", "underline", "strikethrough", "spoiler", "custom_emoji", "date_time"];

/// Reads the words of a request: `text` or `caption`, with their parse mode or their entities.
pub(crate) fn read_text(call: &ReceivedCall, name: &str) -> Result<FormattedText, ApiRefusal> {
    let entities = call.json(if name == "text" { "entities" } else { "caption_entities" })?;
    let words = call.text(name).unwrap_or_default();
    parse(&words, call.text("parse_mode").as_deref(), entities.as_ref())
}

/// Reads words as they stand in a request or in an item of an album.
pub(crate) fn parse(words: &str, mode: Option<&str>, entities: Option<&Value>) -> Result<FormattedText, ApiRefusal> {
    let parsed = match mode.map(str::to_lowercase).as_deref() {
        None | Some("" | "none") => {
            FormattedText { text: words.to_owned(), entities: parse_entities(entities)?, dropped_entities: 0 }
        }
        Some("html") => parse_html(words)?,
        // The server reads Markdown too; nothing of ours sends it, so the fake does not pretend to.
        Some(_) => return Err(bad("unsupported parse_mode")),
    };
    Ok(trim_text(parsed))
}

/// Words that a person typed, with what Telegram's apps make of commands, mentions and addresses.
pub(crate) fn plain_text(words: &str) -> FormattedText {
    let mut entities = Vec::new();
    let mut units = 0;
    for piece in words.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let word = word.trim_end_matches(['.', ',', '!', '?', ':', ';', ')']);
        let name = |from: usize| {
            let name = &word[from..];
            !name.is_empty() && name.chars().all(|next| next.is_ascii_alphanumeric() || "_@".contains(next))
        };
        let kind = match word.chars().next() {
            Some('/') if name(1) => Some("bot_command"),
            Some('@') if name(1) => Some("mention"),
            _ if word.starts_with("http://") || word.starts_with("https://") => Some("url"),
            _ => None,
        };
        if let Some(kind) = kind {
            let length = word.encode_utf16().count();
            entities.push(TextEntity { kind: kind.to_owned(), offset: units, length, detail: None });
        }
        units += piece.encode_utf16().count();
    }
    FormattedText { text: words.to_owned(), entities, dropped_entities: 0 }
}

/// Words that a person formatted in an app, as HTML describes them, with the commands, mentions and addresses that the server
/// finds in them.
///
/// # Panics
/// When the HTML can't be read.
pub(crate) fn formatted_text(html: &str) -> FormattedText {
    let mut words = parse(html, Some("html"), None).expect("a test writes HTML that the server reads");
    let overlaps = |found: &TextEntity, own: &TextEntity| {
        own.offset < found.offset + found.length && found.offset < own.offset + own.length
    };
    let is_hidden = |found: &TextEntity| {
        words.entities.iter().any(|own| OPAQUE_ENTITIES.contains(&own.kind.as_str()) && overlaps(found, own))
    };
    let found: Vec<TextEntity> =
        plain_text(&words.text).entities.into_iter().filter(|found| !is_hidden(found)).collect();
    words.entities.extend(found);
    words.entities.sort_by_key(|entity| (entity.offset, Reverse(entity.length)));
    words
}

/// A passage that a person quotes, as HTML describes it.
///
/// # Panics
/// When the HTML can't be read.
pub(crate) fn quoted_text(html: &str) -> FormattedText {
    let mut words = formatted_text(html);
    words.entities.retain(|entity| QUOTED_ENTITIES.contains(&entity.kind.as_str()));
    words
}

impl FormattedText {
    /// How many UTF-16 units are seen.
    #[must_use]
    pub fn units(&self) -> usize {
        self.text.encode_utf16().count()
    }

    /// The addresses that a person can press: those of links, and those that Telegram finds in the text itself, outside
    /// of code (TDLib, `find_urls`: up to a blank, and without the punctuation at the end).
    #[must_use]
    pub fn links(&self) -> Vec<String> {
        let of_kind = |kinds: &'static [&'static str]| {
            self.entities.iter().filter(move |entity| kinds.contains(&entity.kind.as_str()))
        };
        let mut links: Vec<String> = of_kind(&["text_link"]).filter_map(|entity| entity.detail.clone()).collect();
        for (at, _) in self.text.match_indices("http") {
            let offset = self.text[..at].encode_utf16().count();
            let is_inside = |entity: &TextEntity| (entity.offset..entity.offset + entity.length).contains(&offset);
            let address = self.text[at..].split(|c: char| c.is_whitespace() || "<>\"".contains(c)).next();
            let address = address.unwrap_or_default().trim_end_matches(['.', ',', '!', '?', ':', ';', ')', '\'']);
            let is_address = ["http://", "https://"]
                .iter()
                .any(|scheme| address.len() > scheme.len() && address.starts_with(scheme));
            if is_address && !of_kind(&["text_link", "code", "pre"]).any(is_inside) {
                links.push(address.to_owned());
            }
        }
        links
    }

    /// Drops the entities beyond what a message keeps.
    pub(crate) fn keep_entities(mut self, most: usize) -> Self {
        self.dropped_entities = self.entities.len().saturating_sub(most);
        self.entities.truncate(most);
        self
    }

    /// The entities as the Bot API writes them.
    pub(crate) fn entities_json(&self) -> Vec<Value> {
        self.entities.iter().map(TextEntity::json).collect()
    }
}

impl TextEntity {
    fn json(&self) -> Value {
        let mut json = json!({ "type": self.kind, "offset": self.offset, "length": self.length });
        let Some(detail) = &self.detail else { return json };
        match self.kind.as_str() {
            "text_link" => json["url"] = json!(detail),
            "pre" => json["language"] = json!(detail),
            "custom_emoji" => json["custom_emoji_id"] = json!(detail),
            "text_mention" => {
                let id: i64 = detail.parse().unwrap_or_default();
                json["user"] = json!({ "id": id, "is_bot": false, "first_name": "Person" });
            }
            _ => {}
        }
        json
    }
}

/// The entities that a request names itself.
fn parse_entities(entities: Option<&Value>) -> Result<Vec<TextEntity>, ApiRefusal> {
    let Some(Value::Array(entities)) = entities else { return Ok(Vec::new()) };
    let broken = || bad("can't parse MessageEntity");
    let read = entities.iter().map(|entity| {
        let number = |name: &str| entity[name].as_u64().and_then(|number| usize::try_from(number).ok());
        let words = |name: &str| entity[name].as_str().map(str::to_owned);
        Ok(TextEntity {
            kind: words("type").ok_or_else(broken)?,
            offset: number("offset").ok_or_else(broken)?,
            length: number("length").ok_or_else(broken)?,
            detail: words("url").or_else(|| words("language")).or_else(|| words("custom_emoji_id")),
        })
    });
    read.collect()
}

/// The server cuts off the white space around a text (TDLib, `fix_formatted_text`).
fn trim_text(words: FormattedText) -> FormattedText {
    let front = words.text.len() - words.text.trim_start().len();
    let front = words.text[..front].encode_utf16().count();
    let text = words.text.trim().to_owned();
    let units = text.encode_utf16().count();
    let fitted = words.entities.into_iter().filter_map(|entity| {
        let from = entity.offset.saturating_sub(front).min(units);
        let to = (entity.offset + entity.length).saturating_sub(front).min(units);
        (to > from).then(|| TextEntity { offset: from, length: to - from, ..entity })
    });
    FormattedText { entities: fitted.collect(), text, dropped_entities: words.dropped_entities }
}
