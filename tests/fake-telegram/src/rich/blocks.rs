//! The blocks of rich messages as the Bot API writes them (RichBlock), counted against its limits.

use serde_json::{Value, json};

use super::{
    MAX_BLOCKS, MAX_CHARACTERS, MAX_COLUMNS, MAX_DEPTH, content_required,
    elements::{RichElement, RichNode},
    inlines::{is_blank, is_inline},
    unreadable,
};
use crate::refusal::{ApiRefusal, bad};

/// Reads one message.
#[derive(Debug, Default)]
pub(super) struct RichReader {
    characters: usize,
    blocks: usize,
}

impl RichReader {
    pub(super) fn read(&mut self, nodes: &[RichNode]) -> Result<Vec<Value>, ApiRefusal> {
        self.blocks(nodes, 1)
    }

    pub(super) fn size(&self) -> (usize, usize) {
        (self.characters, self.blocks)
    }

    /// Counts characters, of formulas too.
    pub(super) fn count(&mut self, characters: String) -> Result<String, ApiRefusal> {
        self.characters += characters.chars().count();
        if self.characters > MAX_CHARACTERS { Err(bad("RICH_MESSAGE_TEXT_TOO_LONG")) } else { Ok(characters) }
    }

    pub(super) fn check_depth(&self, depth: usize) -> Result<(), ApiRefusal> {
        if depth > MAX_DEPTH { Err(bad("RICH_MESSAGE_DEPTH_INVALID")) } else { Ok(()) }
    }

    /// Counts a block, an item of a list or a row of a table.
    fn begin_block(&mut self, depth: usize) -> Result<(), ApiRefusal> {
        self.blocks += 1;
        if self.blocks > MAX_BLOCKS {
            return Err(bad("RICH_MESSAGE_BLOCKS_TOO_MANY"));
        }
        self.check_depth(depth)
    }

    /// Reads blocks. Text that is in none is a paragraph.
    fn blocks(&mut self, nodes: &[RichNode], depth: usize) -> Result<Vec<Value>, ApiRefusal> {
        let mut blocks = Vec::new();
        for run in nodes.chunk_by(|one, other| is_inline(one) && is_inline(other)) {
            match run {
                [RichNode::Element(element)] if !is_inline(&run[0]) => blocks.push(self.block(element, depth)?),
                text if text.iter().all(is_blank_node) => {}
                text => {
                    self.begin_block(depth)?;
                    blocks.push(json!({ "type": "paragraph", "text": self.text(text, depth)? }));
                }
            }
        }
        Ok(blocks)
    }

    fn block(&mut self, element: &RichElement, depth: usize) -> Result<Value, ApiRefusal> {
        self.begin_block(depth)?;
        let text = |reader: &mut Self, kind: &str| {
            let text = reader.text(&element.children, depth)?;
            // Whether an empty paragraph is refused as an empty heading is, nobody has written down.
            if is_blank(&text) { Err(content_required()) } else { Ok(json!({ "type": kind, "text": text })) }
        };
        match element.tag.as_str() {
            "p" => text(self, "paragraph"),
            "footer" => text(self, "footer"),
            "aside" => text(self, "pullquote"),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let mut heading = text(self, "heading")?;
                heading["size"] = json!(element.tag[1..].parse::<u8>().unwrap_or(1));
                Ok(heading)
            }
            "hr" => Ok(json!({ "type": "divider" })),
            "pre" => self.code(element),
            "tg-math-block" => {
                let expression = self.formula(element)?;
                Ok(json!({ "type": "mathematical_expression", "expression": expression }))
            }
            "ul" | "ol" => self.list(element, depth),
            "blockquote" => self.quotation(element, depth),
            "details" => self.details(element, depth),
            "table" => self.table(element, depth),
            tag => Err(unreadable(format!("Tag \"{tag}\" isn't allowed here"))),
        }
    }

    /// Code as it was written, line breaks too.
    fn code(&mut self, element: &RichElement) -> Result<Value, ApiRefusal> {
        let (characters, class) = match element.children.as_slice() {
            [RichNode::Element(code)] if code.tag == "code" => (code.characters()?, code.attribute("class")),
            _ => (element.characters()?, None),
        };
        if characters.trim().is_empty() {
            return Err(content_required());
        }
        let mut block = json!({ "type": "pre", "text": self.count(characters)? });
        if let Some(language) = class.and_then(|class| class.strip_prefix("language-")) {
            block["language"] = json!(language);
        }
        Ok(block)
    }

    fn list(&mut self, list: &RichElement, depth: usize) -> Result<Value, ApiRefusal> {
        let mut next: u64 = number(list, "start").unwrap_or(1);
        let mut items = Vec::new();
        for item in children(list, &["li"])? {
            self.begin_block(depth + 1)?;
            let (task, content) = match item.children.as_slice() {
                [RichNode::Element(input), content @ ..] if input.tag == "input" => {
                    if input.attribute("type") != Some("checkbox") {
                        return Err(unreadable("an input of a list is no checkbox"));
                    }
                    (Some(input.attribute("checked").is_some()), content)
                }
                content => (None, content),
            };
            let mut read = json!({ "label": "•", "blocks": self.blocks(content, depth + 2)? });
            if list.tag == "ol" {
                next = number(item, "value").unwrap_or(next);
                read["label"] = json!(format!("{next}."));
                read["value"] = json!(next);
                read["type"] = json!("1");
                next += 1;
            }
            if let Some(is_checked) = task {
                read["has_checkbox"] = json!(true);
                if is_checked {
                    read["is_checked"] = json!(true);
                }
            }
            items.push(read);
        }
        if items.is_empty() { Err(content_required()) } else { Ok(json!({ "type": "list", "items": items })) }
    }

    fn quotation(&mut self, element: &RichElement, depth: usize) -> Result<Value, ApiRefusal> {
        let (credit, content) = match element.children.split_last() {
            Some((RichNode::Element(cite), content)) if cite.tag == "cite" => (Some(cite), content),
            _ => (None, element.children.as_slice()),
        };
        let mut block = json!({ "type": "blockquote", "blocks": self.blocks(content, depth + 1)? });
        if block["blocks"] == json!([]) {
            return Err(content_required());
        }
        if let Some(cite) = credit {
            block["credit"] = self.text(&cite.children, depth)?;
        }
        Ok(block)
    }

    fn details(&mut self, element: &RichElement, depth: usize) -> Result<Value, ApiRefusal> {
        let [RichNode::Element(summary), content @ ..] = element.children.as_slice() else {
            return Err(unreadable("details begin with a summary"));
        };
        if summary.tag != "summary" {
            return Err(unreadable("details begin with a summary"));
        }
        let summary = self.text(&summary.children, depth)?;
        if is_blank(&summary) {
            return Err(content_required());
        }
        let mut block = json!({ "type": "details", "summary": summary, "blocks": self.blocks(content, depth + 1)? });
        if element.attribute("open").is_some() {
            block["is_open"] = json!(true);
        }
        Ok(block)
    }

    fn table(&mut self, table: &RichElement, depth: usize) -> Result<Value, ApiRefusal> {
        let mut rows = Vec::new();
        let mut block = json!({ "type": "table" });
        for part in children(table, &["tr", "caption"])? {
            if part.tag == "caption" {
                block["caption"] = self.text(&part.children, depth)?;
            } else {
                rows.push(self.row(part, depth)?);
            }
        }
        if rows.is_empty() {
            return Err(content_required());
        }
        block["cells"] = json!(rows);
        for (attribute, field) in [("bordered", "is_bordered"), ("striped", "is_striped")] {
            if table.attribute(attribute).is_some() {
                block[field] = json!(true);
            }
        }
        Ok(block)
    }

    fn row(&mut self, row: &RichElement, depth: usize) -> Result<Value, ApiRefusal> {
        self.begin_block(depth + 1)?;
        let mut cells = Vec::new();
        let mut columns = 0;
        for cell in children(row, &["th", "td"])? {
            let span = number(cell, "colspan").unwrap_or(1).max(1);
            columns += usize::try_from(span).unwrap_or(usize::MAX);
            if columns > MAX_COLUMNS {
                return Err(bad("RICH_MESSAGE_TABLE_COLS_TOO_MANY"));
            }
            let align = cell.attribute("align").unwrap_or("left");
            if !["left", "center", "right"].contains(&align) {
                return Err(unreadable(format!("a cell can't be aligned \"{align}\"")));
            }
            let mut read = json!({ "align": align, "valign": cell.attribute("valign").unwrap_or("top") });
            if !cell.children.is_empty() {
                read["text"] = self.text(&cell.children, depth + 2)?;
            }
            if cell.tag == "th" {
                read["is_header"] = json!(true);
            }
            if span > 1 {
                read["colspan"] = json!(span);
            }
            cells.push(read);
        }
        if cells.is_empty() { Err(content_required()) } else { Ok(json!(cells)) }
    }
}

fn is_blank_node(node: &RichNode) -> bool {
    matches!(node, RichNode::Characters(characters) if characters.trim().is_empty())
}

fn number(element: &RichElement, name: &str) -> Option<u64> {
    element.attribute(name)?.parse().ok()
}

/// The elements within one that holds only these.
fn children<'a>(element: &'a RichElement, allowed: &[&str]) -> Result<Vec<&'a RichElement>, ApiRefusal> {
    let mut children = Vec::new();
    for node in &element.children {
        match node {
            RichNode::Element(child) if allowed.contains(&child.tag.as_str()) => children.push(child),
            RichNode::Characters(characters) if characters.trim().is_empty() => {}
            RichNode::Element(child) => {
                return Err(unreadable(format!("Tag \"{}\" isn't allowed within \"{}\"", child.tag, element.tag)));
            }
            RichNode::Characters(_) => {
                return Err(unreadable(format!("Text isn't allowed within \"{}\"", element.tag)));
            }
        }
    }
    Ok(children)
}
