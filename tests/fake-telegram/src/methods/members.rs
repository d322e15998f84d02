//! Methods about who is in a chat, and as what.

use serde_json::{Value, json};

use crate::{
    call::ReceivedCall,
    message::ChatKind,
    objects,
    refusal::{Refusal, bad},
    world::{BOT, PlatformState},
};

/// getChatMember.
pub(crate) fn member(world: &PlatformState, call: &ReceivedCall) -> Result<Value, Refusal> {
    let chat = world.chat_of(call)?;
    let user = call.integer("user_id").ok_or_else(|| bad("invalid user_id specified"))?;
    if user != BOT && !world.people.contains_key(&user) {
        // tdlib/telegram-bot-api, `Client.cpp`, `check_user`.
        return Err(bad("user not found"));
    }
    Ok(objects::member(world, chat, user))
}

/// getChatAdministrators.
pub(crate) fn administrators(world: &PlatformState, call: &ReceivedCall) -> Result<Value, Refusal> {
    let chat = world.chat_of(call)?;
    if world.chat(chat).kind == ChatKind::Private {
        // tdlib/telegram-bot-api, `Client.cpp`, `process_get_chat_administrators_query`.
        return Err(bad("there are no administrators in the private chat"));
    }
    let members = [world.chat(chat).owner, BOT].map(|user| objects::member(world, chat, user));
    let is_administrator = |member: &Value| matches!(member["status"].as_str(), Some("creator" | "administrator"));
    Ok(json!(members.into_iter().filter(is_administrator).collect::<Vec<_>>()))
}
