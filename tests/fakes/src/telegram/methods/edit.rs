//! Methods that change or end a message.

use serde_json::{Value, json};

use crate::telegram::{
    TelegramRules,
    call::Call,
    keyboard,
    message::{Content, Formatted, InlineButton},
    methods::send,
    objects,
    refusal::{Refusal, bad},
    words,
    world::{BOT, World, now},
};

/// editMessageText.
pub(crate) fn text(world: &mut World, rules: &TelegramRules, call: &Call) -> Result<Value, Refusal> {
    let target = target(world, call)?;
    let words = words::read(call, "text")?;
    if words.text.is_empty() {
        return Err(bad("message text is empty"));
    }
    if words.units() > rules.text_units {
        // An edit is refused in other words than a send.
        return Err(bad("MESSAGE_TOO_LONG"));
    }
    if !matches!(world.messages[&target].content, Content::Words) {
        return Err(bad("there is no text in the message to edit"));
    }
    let buttons = keyboard::read(rules, call)?;
    change(world, target, words.keep_entities(rules.entities), buttons)
}

/// editMessageCaption.
pub(crate) fn caption(world: &mut World, rules: &TelegramRules, call: &Call) -> Result<Value, Refusal> {
    let target = target(world, call)?;
    let words = send::caption(rules, words::read(call, "caption")?)?;
    if !matches!(world.messages[&target].content, Content::File(_)) {
        return Err(bad("there is no caption in the message to edit"));
    }
    let buttons = keyboard::read(rules, call)?;
    change(world, target, words, buttons)
}

/// editMessageReplyMarkup.
pub(crate) fn buttons(world: &mut World, rules: &TelegramRules, call: &Call) -> Result<Value, Refusal> {
    let target = target(world, call)?;
    let buttons = keyboard::read(rules, call)?;
    let words = world.messages[&target].words.clone();
    change(world, target, words, buttons)
}

/// deleteMessage.
pub(crate) fn delete(world: &mut World, call: &Call) -> Result<Value, Refusal> {
    let chat = world.chat_of(call)?;
    let id = call.integer("message_id").unwrap_or_default();
    if world.message(chat, id).is_none() {
        return Err(bad("message to delete not found"));
    }
    world.messages.get_mut(&id).expect("it was found").deleted = true;
    Ok(json!(true))
}

/// The message that an edit means.
fn target(world: &World, call: &Call) -> Result<i64, Refusal> {
    let chat = world.chat_of(call)?;
    let id = call.integer("message_id").ok_or_else(|| bad("message identifier is not specified"))?;
    let message = world.message(chat, id).ok_or_else(|| bad("message to edit not found"))?;
    if message.from != BOT {
        // Bot API, Updating messages: bots edit their own messages.
        return Err(bad("message can't be edited"));
    }
    Ok(id)
}

fn change(world: &mut World, target: i64, words: Formatted, buttons: Vec<Vec<InlineButton>>) -> Result<Value, Refusal> {
    let message = world.messages.get_mut(&target).expect("it was found");
    if message.words == words && message.buttons == buttons {
        // Bot API, Updating messages; the words are the server's.
        return Err(bad(
            "message is not modified: specified new message content and reply markup are exactly the same as a \
             current content and reply markup of the message",
        ));
    }
    message.edits.push(std::mem::replace(&mut message.words, words));
    message.buttons = buttons;
    message.edit_date = Some(now());
    Ok(objects::message(world, &world.messages[&target]))
}
