//! Methods that change or end a message.

use serde_json::{Value, json};

use crate::{
    TelegramRules,
    call::ReceivedCall,
    keyboard,
    message::{Content, FileKind, Formatted, InlineButton, TelegramMessage},
    methods::send,
    objects,
    refusal::{Refusal, bad},
    words,
    world::{BOT, BotRole, PlatformState},
};

/// editMessageText.
pub(crate) fn text(world: &mut PlatformState, rules: &TelegramRules, call: &ReceivedCall) -> Result<Value, Refusal> {
    let target = content_target(world, call)?;
    let words = words::read(call, "text")?;
    if words.text.is_empty() {
        return Err(bad("message text is empty"));
    }
    if words.units() > rules.text_units {
        // An edit is refused in other words than a send.
        return Err(bad("MESSAGE_TOO_LONG"));
    }
    if !matches!(target.content, Content::Words) {
        return Err(bad("there is no text in the message to edit"));
    }
    let buttons = keyboard::read(rules, call)?;
    let target = (target.chat, target.id);
    change(world, target, words.keep_entities(rules.entities), buttons)
}

/// editMessageCaption.
pub(crate) fn caption(world: &mut PlatformState, rules: &TelegramRules, call: &ReceivedCall) -> Result<Value, Refusal> {
    let target = content_target(world, call)?;
    let words = send::caption(rules, words::read(call, "caption")?)?;
    if !matches!(target.content, Content::File(_)) {
        return Err(bad("there is no caption in the message to edit"));
    }
    let buttons = keyboard::read(rules, call)?;
    let target = (target.chat, target.id);
    change(world, target, words, buttons)
}

/// editMessageReplyMarkup.
pub(crate) fn buttons(world: &mut PlatformState, rules: &TelegramRules, call: &ReceivedCall) -> Result<Value, Refusal> {
    let target = target(world, call)?;
    let buttons = keyboard::read(rules, call)?;
    let (target, words) = ((target.chat, target.id), target.words.clone());
    change(world, target, words, buttons)
}

/// stopMessageLiveLocation, which always refuses, since the fake knows no live locations, and so tells whose a message
/// is without changing it.
///
/// Both refusals come before Telegram itself is asked for an edit (tdlib/telegram-bot-api, `Client.cpp`,
/// `check_message`, then tdlib/td, `MessagesManager.cpp`, `edit_message_live_location`): what `can_edit_message` lets
/// through is asked for its content next.
pub(crate) fn stop_live_location(
    world: &PlatformState,
    rules: &TelegramRules,
    call: &ReceivedCall,
) -> Result<Value, Refusal> {
    keyboard::read(rules, call)?;
    content_target(world, call)?;
    Err(bad("there is no live location in the message to edit"))
}

pub(crate) fn delete(world: &mut PlatformState, call: &ReceivedCall) -> Result<Value, Refusal> {
    let chat = world.chat_of(call)?;
    let id = call.integer("message_id").unwrap_or_default();
    if world.message(chat, id).is_none() {
        return Err(bad("message to delete not found"));
    }
    world.messages.get_mut(&(chat, id)).expect("it was found").deleted = true;
    Ok(json!(true))
}

/// The message that an edit means.
fn target<'a>(world: &'a PlatformState, call: &ReceivedCall) -> Result<&'a TelegramMessage, Refusal> {
    let chat = world.chat_of(call)?;
    let id = call.integer("message_id").ok_or_else(|| bad("message identifier is not specified"))?;
    let message = world.message(chat, id).ok_or_else(|| bad("message to edit not found"))?;
    // tdlib/td, `MessagesManager.cpp`, `can_edit_message`: a bot's own have no limit of time, posts of a channel are
    // edited by all who may, service messages by nobody.
    let may_edit = message.from == BOT || world.chat(chat).role == BotRole::Administrator { edits_posts: true };
    if !may_edit || matches!(message.content, Content::Service(_)) {
        return Err(bad("message can't be edited"));
    }
    Ok(message)
}

/// The same where more than its buttons is meant: of a bot's own, those are left out that have nothing to edit but
/// buttons (tdlib/td, `MessageContent.cpp`, `is_editable_message_content`).
fn content_target<'a>(world: &'a PlatformState, call: &ReceivedCall) -> Result<&'a TelegramMessage, Refusal> {
    let message = target(world, call)?;
    match &message.content {
        Content::Words => Ok(message),
        Content::File(file) if !matches!(file.kind, FileKind::VideoNote | FileKind::Sticker) => Ok(message),
        _ => Err(bad("message can't be edited")),
    }
}

fn change(
    world: &mut PlatformState,
    target: (i64, i64),
    words: Formatted,
    buttons: Vec<Vec<InlineButton>>,
) -> Result<Value, Refusal> {
    let now = world.now();
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
    message.edit_date = Some(now);
    Ok(objects::message(world, &world.messages[&target]))
}
