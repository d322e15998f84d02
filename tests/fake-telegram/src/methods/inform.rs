//! Methods about the bot itself, files, commands and pressed buttons.

use serde_json::{Value, json};

use crate::{
    TelegramRules,
    call::ReceivedCall,
    files, objects,
    platform_state::PlatformState,
    refusal::{ApiRefusal, bad},
};

/// getMe.
pub(crate) fn me(platform: &PlatformState) -> Value {
    objects::me(platform)
}

/// getChat, with the fields of ChatFullInfo that are always there.
pub(crate) fn chat(platform: &PlatformState, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    let id = platform.chat_of(call)?;
    let mut object = objects::chat(platform, id);
    object["accent_color_id"] = json!(0);
    object["max_reaction_count"] = json!(11);
    object["accepted_gift_types"] = json!({
        "unlimited_gifts": false, "limited_gifts": false, "unique_gifts": false, "premium_subscription": false,
        "gifts_from_channels": false,
    });
    if platform.chat(id).forbids_voice {
        object["has_restricted_voice_and_video_messages"] = json!(true);
    }
    Ok(object)
}

/// getFile.
pub(crate) fn file(platform: &PlatformState, rules: &TelegramRules, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    let id = call.text("file_id").filter(|id| !id.is_empty()).ok_or_else(|| bad("file_id not specified"))?;
    let file = platform.files.get(&id).ok_or_else(|| bad("wrong file_id or the file is temporarily unavailable"))?;
    if rules.download_bytes.is_some_and(|most| file.bytes > most) {
        // getFile: "bots can download files of up to 20MB in size".
        return Err(bad("file is too big"));
    }
    let path = match &rules.local_files {
        None => PlatformState::path_of(file),
        Some(root) => files::put_on_disk(root, file)?,
    };
    Ok(json!({
        "file_id": file.file_id, "file_unique_id": file.file_unique_id, "file_size": file.bytes, "file_path": path,
    }))
}

/// setMyCommands.
pub(crate) fn set_commands(platform: &mut PlatformState, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    let Some(Value::Array(commands)) = call.json("commands")? else {
        return Err(bad("can't parse commands JSON object"));
    };
    if commands.len() > 100 {
        // setMyCommands: commands, "At most 100 commands can be specified."
        return Err(bad("BOT_COMMANDS_TOO_MUCH"));
    }
    for command in &commands {
        let name = command["command"].as_str().unwrap_or_default();
        let description = command["description"].as_str().unwrap_or_default();
        let fits = |next: char| next.is_ascii_lowercase() || next.is_ascii_digit() || next == '_';
        // BotCommand: command, "1-32 characters. Can contain only lowercase English letters, digits and underscores."
        if name.is_empty() || name.len() > 32 || !name.chars().all(fits) {
            return Err(bad("BOT_COMMAND_INVALID"));
        }
        // BotCommand: description, "1-256 characters."
        if description.is_empty() || description.chars().count() > 256 {
            return Err(bad("BOT_COMMAND_DESCRIPTION_INVALID"));
        }
    }
    platform.commands = commands;
    Ok(json!(true))
}

pub(crate) fn answer_press(platform: &mut PlatformState, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    let id = call.text("callback_query_id").unwrap_or_default();
    let words = call.text("text").unwrap_or_default();
    let late = || bad("query is too old and response timeout expired or query ID is invalid");
    let press = platform.presses.get_mut(&id).filter(|press| !press.expired).ok_or_else(late)?;
    // answerCallbackQuery: text, "0-200 characters".
    if words.chars().count() > 200 {
        return Err(bad("MESSAGE_TOO_LONG"));
    }
    press.answer = Some(words);
    Ok(json!(true))
}
