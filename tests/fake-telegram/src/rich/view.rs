//! What a person sees of a rich message, in lines.

use serde_json::Value;

/// The lines of blocks.
pub(super) fn text(blocks: &[Value]) -> String {
    let mut lines = Vec::new();
    push_blocks(blocks, "", &mut lines);
    lines.join("\n")
}

/// The addresses of links, in their order.
pub(super) fn links(blocks: &[Value]) -> Vec<String> {
    let mut links = Vec::new();
    blocks.iter().for_each(|block| push_links(block, &mut links));
    links
}

fn push_links(value: &Value, links: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| push_links(value, links)),
        Value::Object(fields) => {
            let address =
                ["url", "email_address", "phone_number"].iter().find_map(|field| fields.get(*field)?.as_str());
            links.extend(address.map(str::to_owned));
            fields.values().for_each(|value| push_links(value, links));
        }
        _ => {}
    }
}

fn push_blocks(blocks: &[Value], prefix: &str, lines: &mut Vec<String>) {
    for block in blocks {
        match block["type"].as_str() {
            Some("divider") => lines.push(format!("{prefix}────────")),
            Some("mathematical_expression") => push_text(&block["expression"], prefix, lines),
            Some("list") => push_items(block, prefix, lines),
            Some("blockquote") => push_blocks(array(&block["blocks"]), &format!("{prefix}> "), lines),
            Some("details") => {
                push_text(&block["summary"], prefix, lines);
                push_blocks(array(&block["blocks"]), prefix, lines);
            }
            Some("table") => {
                for row in array(&block["cells"]) {
                    let cells: Vec<String> = array(row).iter().map(cell_text).collect();
                    lines.push(format!("{prefix}| {} |", cells.join(" | ")));
                }
            }
            _ => push_text(&block["text"], prefix, lines),
        }
    }
}

/// The mark of an item is before its first line, and blanks are before the others.
fn push_items(list: &Value, prefix: &str, lines: &mut Vec<String>) {
    for item in array(&list["items"]) {
        let label = item["label"].as_str().unwrap_or_default();
        let task = match (item["has_checkbox"] == true, item["is_checked"] == true) {
            (true, true) => "☑ ",
            (true, false) => "☐ ",
            (false, _) => "",
        };
        let mark = format!("{label} {task}");
        let mut content = Vec::new();
        push_blocks(array(&item["blocks"]), "", &mut content);
        let first = content.first().map_or("", String::as_str);
        lines.push(format!("{prefix}{mark}{first}"));
        let indent = " ".repeat(mark.chars().count());
        lines.extend(content.iter().skip(1).map(|line| format!("{prefix}{indent}{line}")));
    }
}

fn push_text(text: &Value, prefix: &str, lines: &mut Vec<String>) {
    lines.extend(plain(text).split('\n').map(|line| format!("{prefix}{line}")));
}

/// The text of a cell. One without a text is invisible (`RichBlockTableCell`), and the table has a hole there.
fn cell_text(cell: &Value) -> String {
    cell.get("text").map_or_else(|| "⌀".to_owned(), |text| plain(text).trim().to_owned())
}

/// The characters of a text, and the source of its formulas.
fn plain(text: &Value) -> String {
    match text {
        Value::String(characters) => characters.clone(),
        Value::Array(pieces) => pieces.iter().map(plain).collect(),
        Value::Object(fields) => {
            let expression = fields.get("expression").and_then(Value::as_str).map(str::to_owned);
            expression.or_else(|| fields.get("text").map(plain)).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
