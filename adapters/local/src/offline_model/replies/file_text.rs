//! Replies about text in the files of the workspace: what was replaced, and what was found.

use serde_json::Value;

use super::{super::step::ToolAnswer, failure_text, fenced_block, inline_code, join_lines};

pub(in super::super) fn missing_edit_text() -> String {
    "What should I replace, and by what? For example: `edit notes.txt: milk => bread`.".to_owned()
}

pub(in super::super) fn edited_text(path: &str, answer: &ToolAnswer<'_>) -> String {
    if let Some(why) = answer.failure() {
        return failure_text(&format!("edit {}", inline_code(path)), why);
    }
    let value: Value = serde_json::from_str(answer.text).unwrap_or_default();
    match value["diff"].as_str() {
        Some(diff) => format!("Edited {}:\n{}", inline_code(path), fenced_block("diff", diff)),
        None => format!("Edited {}.", inline_code(path)),
    }
}

pub(in super::super) fn search_text(query: &str, path: &str, answer: &ToolAnswer<'_>) -> String {
    let (query, directory) = (inline_code(query), inline_code(path));
    if let Some(why) = answer.failure() {
        return failure_text(&format!("search {directory}"), why);
    }
    let value: Value = serde_json::from_str(answer.text).unwrap_or_default();
    let Some(matches) = value["matches"].as_array() else {
        return format!("The search for {query} in {directory} returned:\n{}", fenced_block("", answer.text));
    };
    let mut paragraphs = if matches.is_empty() {
        vec![format!("I found no {query} in {directory}.")]
    } else {
        vec![format!("I found {query} here:\n{}", join_lines(matches.iter().map(match_line)))]
    };
    if let Some(next) = value["next"].as_str() {
        paragraphs.push(format!("There are more; {} shows the next ones.", inline_code(&format!("/tool {next}"))));
    }
    if value["incomplete"].is_string() {
        paragraphs.push("The search reached its limit, so there may be more. Name a smaller folder.".to_owned());
    }
    paragraphs.extend(skipped_text(&value["skipped"]));
    paragraphs.join("\n\n")
}

fn match_line(found: &Value) -> String {
    let (path, text) = (found["path"].as_str().unwrap_or("?"), found["text"].as_str().unwrap_or_default());
    format!("- {}, line {}: {}", inline_code(path), found["line"].as_u64().unwrap_or(0), inline_code(text.trim()))
}

fn skipped_text(skipped: &Value) -> Option<String> {
    let count: u64 = skipped.as_object()?.values().filter_map(Value::as_u64).sum();
    match count {
        0 => None,
        1 => Some("I skipped 1 file that is not text, is too large, or can't be read.".to_owned()),
        count => Some(format!("I skipped {count} files that are not text, are too large, or can't be read.")),
    }
}
