//! Methods that change or end a message.

use serde_json::{Value, json};

use crate::{
    TelegramRules,
    call::ReceivedCall,
    keyboard,
    message::{FileKind, FormattedText, InlineButton, TelegramContent, TelegramMessage},
    methods::send,
    objects,
    platform_state::{BOT, BotRole, PlatformState},
    refusal::{ApiRefusal, bad},
    rich, text,
};

/// editMessageText.
pub(crate) fn text(
    platform: &mut PlatformState,
    rules: &TelegramRules,
    call: &ReceivedCall,
) -> Result<Value, ApiRefusal> {
    let target = content_target(platform, call)?;
    let is_text = matches!(target.content, TelegramContent::Words | TelegramContent::Rich(_));
    let target_id = (target.chat, target.id);
    let words = text::read_text(call, "text")?;
    // editMessageText, rich_message: "required if text isn't specified".
    let rich = if rules.knows_rich_messages { rich::read(call)? } else { None };
    if let Some(rich) = rich {
        if !words.text.is_empty() {
            return Err(bad("exactly one of text and rich message must be specified"));
        }
        if !is_text {
            return Err(bad("there is no text in the message to edit"));
        }
        let buttons = keyboard::read(rules, call)?;
        return change(platform, target_id, (rich.words(), TelegramContent::Rich(rich)), buttons);
    }
    if words.text.is_empty() {
        return Err(bad("message text is empty"));
    }
    if words.units() > rules.text_units {
        // An edit is refused in other words than a send.
        return Err(bad("MESSAGE_TOO_LONG"));
    }
    if !is_text {
        return Err(bad("there is no text in the message to edit"));
    }
    let buttons = keyboard::read(rules, call)?;
    change(platform, target_id, (words.keep_entities(rules.entities), TelegramContent::Words), buttons)
}

/// editMessageCaption.
pub(crate) fn caption(
    platform: &mut PlatformState,
    rules: &TelegramRules,
    call: &ReceivedCall,
) -> Result<Value, ApiRefusal> {
    let target = content_target(platform, call)?;
    let words = send::caption(rules, text::read_text(call, "caption")?)?;
    if !matches!(target.content, TelegramContent::File(_)) {
        return Err(bad("there is no caption in the message to edit"));
    }
    let buttons = keyboard::read(rules, call)?;
    let (target, content) = ((target.chat, target.id), target.content.clone());
    change(platform, target, (words, content), buttons)
}

/// editMessageReplyMarkup.
pub(crate) fn buttons(
    platform: &mut PlatformState,
    rules: &TelegramRules,
    call: &ReceivedCall,
) -> Result<Value, ApiRefusal> {
    let target = target(platform, call)?;
    let buttons = keyboard::read(rules, call)?;
    let (target, shown) = ((target.chat, target.id), (target.words.clone(), target.content.clone()));
    change(platform, target, shown, buttons)
}

/// stopMessageLiveLocation, which always refuses, since the fake knows no live locations, and so tells whose a message
/// is without changing it.
///
/// Both refusals come before Telegram itself is asked for an edit (tdlib/telegram-bot-api, `Client.cpp`,
/// `check_message`, then tdlib/td, `MessagesManager.cpp`, `edit_message_live_location`): what `can_edit_message` lets
/// through is asked for its content next.
pub(crate) fn stop_live_location(
    platform: &PlatformState,
    rules: &TelegramRules,
    call: &ReceivedCall,
) -> Result<Value, ApiRefusal> {
    keyboard::read(rules, call)?;
    content_target(platform, call)?;
    Err(bad("there is no live location in the message to edit"))
}

pub(crate) fn delete(platform: &mut PlatformState, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    let chat = platform.chat_of(call)?;
    let id = call.integer("message_id").unwrap_or_default();
    if platform.message(chat, id).is_none() {
        return Err(bad("message to delete not found"));
    }
    platform.messages.get_mut(&(chat, id)).expect("it was found").deleted = true;
    Ok(json!(true))
}

/// The message that an edit means.
fn target<'a>(platform: &'a PlatformState, call: &ReceivedCall) -> Result<&'a TelegramMessage, ApiRefusal> {
    let chat = platform.chat_of(call)?;
    let id = call.integer("message_id").ok_or_else(|| bad("message identifier is not specified"))?;
    let message = platform.message(chat, id).ok_or_else(|| bad("message to edit not found"))?;
    // tdlib/td, `MessagesManager.cpp`, `can_edit_message`: a bot's own have no limit of time, posts of a channel are
    // edited by all who may, service messages by nobody.
    let may_edit = message.from == BOT || platform.chat(chat).role == BotRole::Administrator { edits_posts: true };
    if !may_edit || matches!(message.content, TelegramContent::Service(_)) {
        return Err(bad("message can't be edited"));
    }
    Ok(message)
}

/// The same where more than its buttons is meant: of a bot's own, those are left out that have nothing to edit but
/// buttons (tdlib/td, `MessageContent.cpp`, `is_editable_message_content`).
fn content_target<'a>(platform: &'a PlatformState, call: &ReceivedCall) -> Result<&'a TelegramMessage, ApiRefusal> {
    let message = target(platform, call)?;
    match &message.content {
        TelegramContent::Words | TelegramContent::Rich(_) => Ok(message),
        TelegramContent::File(file) if !matches!(file.kind, FileKind::VideoNote | FileKind::Sticker) => Ok(message),
        _ => Err(bad("message can't be edited")),
    }
}

fn change(
    platform: &mut PlatformState,
    target: (i64, i64),
    (words, content): (FormattedText, TelegramContent),
    buttons: Vec<Vec<InlineButton>>,
) -> Result<Value, ApiRefusal> {
    let now = platform.now();
    let message = platform.messages.get_mut(&target).expect("it was found");
    let is_equal = match (&message.content, &content) {
        (TelegramContent::Rich(shown), TelegramContent::Rich(content)) => shown == content,
        (TelegramContent::Rich(_), _) | (_, TelegramContent::Rich(_)) => false,
        _ => message.words == words,
    };
    if is_equal && message.buttons == buttons {
        // Bot API, Updating messages; the words are the server's.
        return Err(bad(
            "message is not modified: specified new message content and reply markup are exactly the same as a \
             current content and reply markup of the message",
        ));
    }
    message.edits.push(std::mem::replace(&mut message.words, words));
    message.content = content;
    message.buttons = buttons;
    message.edit_date = Some(now);
    Ok(objects::message(platform, &platform.messages[&target]))
}
