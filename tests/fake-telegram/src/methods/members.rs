//! Methods about who is in a chat, and as what.

use serde_json::{Value, json};

use crate::{
    call::ReceivedCall,
    message::ChatKind,
    objects,
    platform_state::{BOT, PlatformState},
    refusal::{ApiRefusal, bad},
};

/// getChatMember.
pub(crate) fn member(platform: &PlatformState, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    let chat = platform.chat_of(call)?;
    let user = call.integer("user_id").ok_or_else(|| bad("invalid user_id specified"))?;
    if user != BOT && !platform.people.contains_key(&user) {
        // tdlib/telegram-bot-api, `Client.cpp`, `check_user`.
        return Err(bad("user not found"));
    }
    Ok(objects::member(platform, chat, user))
}

/// getChatAdministrators.
pub(crate) fn administrators(platform: &PlatformState, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    let chat = platform.chat_of(call)?;
    if platform.chat(chat).kind == ChatKind::Private {
        // tdlib/telegram-bot-api, `Client.cpp`, `process_get_chat_administrators_query`.
        return Err(bad("there are no administrators in the private chat"));
    }
    let members = [platform.chat(chat).owner, BOT].map(|user| objects::member(platform, chat, user));
    let is_administrator = |member: &Value| matches!(member["status"].as_str(), Some("creator" | "administrator"));
    Ok(json!(members.into_iter().filter(is_administrator).collect::<Vec<_>>()))
}
