//! Rich messages: read from a request as strictly as Telegram reads them, and as a person sees them.
//!
//! Bot API, Rich messages: the tags and entities that are supported, what may contain what, and the limits. The words of
//! refusals in capitals are those that bots have got from Telegram; others are our own, for rules that the manual states
//! without words.

mod blocks;
mod elements;
mod inlines;
mod view;

use serde_json::{Value, json};

use self::blocks::RichReader;
use crate::{
    call::ReceivedCall,
    message::FormattedText,
    refusal::{ApiRefusal, bad},
};

/// Bot API, Rich messages: "up to 32768 UTF-8 characters of text", the source of formulas included.
const MAX_CHARACTERS: usize = 32_768;

/// "up to 500 blocks", nested blocks, items of lists, rows of tables and quotations included.
const MAX_BLOCKS: usize = 500;

/// "up to 16 levels of nested formatting and blocks".
const MAX_DEPTH: usize = 16;

/// "up to 20 columns in a table".
const MAX_COLUMNS: usize = 20;

/// What a rich message shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RichContent {
    /// Its blocks, as `Message.rich_message` has them (Bot API, RichBlock).
    pub blocks: Vec<Value>,
    /// Whether it is shown from right to left.
    pub is_rtl: bool,
    /// The characters and the blocks that count.
    size: (usize, usize),
}

/// Reads the Rich HTML of a message.
///
/// # Errors
///
/// Telegram's refusal of what it can't read or doesn't take.
pub fn parse_rich_html(html: &str) -> Result<RichContent, ApiRefusal> {
    let elements = elements::parse(html)?;
    let mut reader = RichReader::default();
    let blocks = reader.read(&elements)?;
    if blocks.is_empty() {
        return Err(content_required());
    }
    Ok(RichContent { blocks, is_rtl: false, size: reader.size() })
}

/// Reads `rich_message` (Bot API, InputRichMessage); `None` where a request has none.
pub(crate) fn read(call: &ReceivedCall) -> Result<Option<RichContent>, ApiRefusal> {
    let Some(input) = call.json("rich_message")? else { return Ok(None) };
    if !input.is_object() {
        return Err(bad("object expected as rich message"));
    }
    let content = match (input["html"].as_str(), input.get("markdown").is_some_and(|value| !value.is_null())) {
        (Some(html), false) => parse_rich_html(html)?,
        (Some(_), true) => return Err(bad("exactly one of the fields html and markdown must be used")),
        // Nothing of ours sends Markdown, so the fake does not pretend to read it.
        (None, true) => return Err(bad("can't parse rich message: Markdown isn't read here")),
        (None, false) => return Err(content_required()),
    };
    Ok(Some(RichContent { is_rtl: input["is_rtl"] == true, ..content }))
}

impl RichContent {
    /// RichMessage, as a message has it.
    pub(crate) fn json(&self) -> Value {
        let mut object = json!({ "blocks": self.blocks });
        if self.is_rtl {
            object["is_rtl"] = json!(true);
        }
        object
    }

    /// What a person sees, in lines: cells of a table between bars, bullets and numbers before items, formulas in their
    /// source.
    #[must_use]
    pub fn text(&self) -> String {
        view::text(&self.blocks)
    }

    /// The kinds of its blocks on the highest level, in their order.
    #[must_use]
    pub fn kinds(&self) -> Vec<&str> {
        self.blocks.iter().filter_map(|block| block["type"].as_str()).collect()
    }

    /// How many characters and blocks it has, as Telegram counts them.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        self.size
    }

    /// The addresses that a person can press.
    #[must_use]
    pub fn links(&self) -> Vec<String> {
        view::links(&self.blocks)
    }

    /// The same as the words of a message.
    pub(crate) fn words(&self) -> FormattedText {
        FormattedText { text: self.text(), ..FormattedText::default() }
    }
}

/// A heading, code, or a message without content.
fn content_required() -> ApiRefusal {
    bad("RICH_MESSAGE_CONTENT_REQUIRED")
}

/// What can't be read. The words before the reason are those of texts.
fn unreadable(reason: impl AsRef<str>) -> ApiRefusal {
    bad(format!("can't parse entities: {}", reason.as_ref()))
}
