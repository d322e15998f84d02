//! Inline keyboards: read from a request and checked.

use serde_json::Value;

use crate::{
    TelegramRules,
    call::ReceivedCall,
    message::InlineButton,
    refusal::{ApiRefusal, bad},
};

/// Telegram Limits: "100 buttons" under a message.
const MAX_BUTTONS: usize = 100;

/// Reads `reply_markup`. Keyboards of other sorts are taken and shown to nobody.
pub(crate) fn read(rules: &TelegramRules, call: &ReceivedCall) -> Result<Vec<Vec<InlineButton>>, ApiRefusal> {
    let Some(markup) = call.json("reply_markup")? else { return Ok(Vec::new()) };
    if !markup.is_object() {
        return Err(bad("object expected as reply markup"));
    }
    let Some(rows) = markup.get("inline_keyboard") else { return Ok(Vec::new()) };
    let broken = || bad("can't parse inline keyboard button: Array of Arrays expected");
    let mut keyboard = Vec::new();
    for row in rows.as_array().ok_or_else(broken)? {
        let row = row.as_array().ok_or_else(broken)?;
        let row = row.iter().map(|described| button(rules, described)).collect::<Result<Vec<_>, _>>()?;
        if !row.is_empty() {
            keyboard.push(row);
        }
    }
    if keyboard.iter().map(Vec::len).sum::<usize>() > MAX_BUTTONS {
        return Err(bad("REPLY_MARKUP_TOO_LONG"));
    }
    Ok(keyboard)
}

/// InlineKeyboardButton: "Exactly one of the fields other than text … must be used".
fn button(rules: &TelegramRules, described: &Value) -> Result<InlineButton, ApiRefusal> {
    let Some(label) = described["text"].as_str() else {
        return Err(bad("can't parse inline keyboard button: Field \"text\" must be of type String"));
    };
    if label.trim().is_empty() {
        return Err(bad("inline keyboard button text is empty"));
    }
    let callback_data = described["callback_data"].as_str();
    if let Some(data) = callback_data
        && !data.is_empty()
        && !rules.callback_data_bytes.contains(&data.len())
    {
        return Err(bad("BUTTON_DATA_INVALID"));
    }
    let other = ["url", "web_app", "login_url", "switch_inline_query", "copy_text"];
    let acts =
        callback_data.is_some_and(|data| !data.is_empty()) || other.iter().any(|name| described.get(name).is_some());
    if !acts {
        return Err(bad("can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard"));
    }
    let callback_data = callback_data.map(str::to_owned);
    Ok(InlineButton { label: label.to_owned(), callback_data, described: described.clone() })
}
