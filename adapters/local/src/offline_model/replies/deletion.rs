//! Replies about deleted files.

use serde_json::Value;

use super::{super::step::ToolAnswer, failure_text, fenced_block, inline_code, join_lines};

pub(in super::super) fn deleted_text(path: &str, answer: &ToolAnswer<'_>) -> String {
    if let Some(why) = answer.failure() {
        return failure_text(&format!("delete {}", inline_code(path)), why);
    }
    let value: Value = serde_json::from_str(answer.text).unwrap_or_default();
    let name = |path: &Value| path.as_str().map(inline_code);
    let undo = "`/undo` brings it back, for a day.";
    match (name(&value["path"]), value["paths"].as_array()) {
        (Some(path), _) => format!("Deleted {path}. {undo}"),
        (None, Some(paths)) if !paths.is_empty() => {
            let lines = paths.iter().filter_map(name).map(|path| format!("- {path}"));
            let count = value["count"].as_u64().unwrap_or_default();
            let files = if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") };
            format!("Deleted {files}:\n{}\n\n{}", join_lines(lines), undo.replace("it back", "them back"))
        }
        _ => format!("Deleting {} returned:\n{}", inline_code(path), fenced_block("", answer.text)),
    }
}

pub(in super::super) fn forget_hint_text(number: &str) -> String {
    format!("#{number} is a file of this conversation. `/forget {number}` removes it for good.")
}
