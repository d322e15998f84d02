//! What a message shows of other people by replying to their messages or forwarding them, and the message without it. Pure.
//!
//! Whether they may talk to Satchel isn't known here. So a message that shows something of somebody comes with the forms that
//! take its place if they may not.

use satchel_domain::{RedactedForm, Sender};
use serde_json::{Map, Value};

use super::{ANONYMOUS_ADMINISTRATOR, ParsedMessage, message_sender, new_sender, reply, sanitize_name};
use crate::inbound::{
    text::BotIdentity,
    wire::{MessageHeader, MessageOrigin},
};

/// The kinds of updates that have a message.
const MESSAGE_KINDS: [&str; 4] = ["message", "channel_post", "edited_message", "edited_channel_post"];

/// The fields of a message that repeat another one, or a story.
const QUOTATION_FIELDS: [&str; 4] = ["reply_to_message", "external_reply", "quote", "reply_to_story"];

/// How much of other people's messages is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disclosure {
    /// All of them.
    Full,
    /// All but the names of those whose messages were forwarded.
    WithoutOrigin,
    /// The message that this one replies to, with only the passage that the sender has quoted themselves.
    WithoutReply,
}

/// Returns what the message becomes if the people may not talk whose messages its sender forwards or replies to. A
/// forwarded message counts as its sender's own: only the name of its author is somebody else's.
pub(super) fn redacted_forms(
    parsed: &ParsedMessage<'_>,
    sender: &Sender,
    update: &Value,
    bot: &BotIdentity,
    commands: &[String],
    is_first_item: bool,
) -> Vec<RedactedForm> {
    let head = &parsed.message.head;
    let replied_origin = head.replied_to().and_then(|replied| replied.head.forward_origin.as_ref());
    let named = head.forward_origin.as_ref().or(replied_origin).and_then(origin_author);
    let forms = [(named, Disclosure::WithoutOrigin), (replied_author(head), Disclosure::WithoutReply)];
    let form = |(author, disclosure): (Option<Sender>, Disclosure)| {
        let author = author.filter(|author| !author.is_same_person(sender))?;
        let (text, files) = reply::compose_text_and_files(parsed, bot, commands, is_first_item, disclosure);
        Some(RedactedForm { author, text, files, raw: redact_update(update, disclosure) })
    };
    forms.into_iter().filter_map(form).collect()
}

/// Returns an update without what its messages show of others: of one that can't be read it is unknown whose that is, and so it
/// is of what the bot's message says under which somebody has pressed a button.
pub(crate) fn without_quotations(update: &Value) -> Value {
    match update {
        Value::Object(fields) => {
            let own = fields.iter().filter(|(name, _)| !is_quotation(name) && !is_origin(name));
            Value::Object(own.map(|(name, value)| (name.clone(), without_quotations(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_quotations).collect()),
        other => other.clone(),
    }
}

/// The author of the message that is replied to; `None` where there is none, or it is a program's or a channel's, which
/// everybody may read.
fn replied_author(head: &MessageHeader) -> Option<Sender> {
    let Some(replied) = head.replied_to() else {
        return head.external_reply.as_deref().and_then(|reply| origin_author(&reply.head.origin));
    };
    let replied = &replied.head;
    let is_bot = replied.from.as_ref().is_some_and(|from| from.is_bot && from.id != ANONYMOUS_ADMINISTRATOR);
    let is_program = is_bot && replied.sender_chat.is_none();
    if is_program || replied.is_automatic_forward {
        return None;
    }
    Some(message_sender(replied).unwrap_or_else(|| Sender::new("", "")))
}

/// The author of a message that was forwarded or is in another chat; `None` where that is a program or a channel. Somebody who
/// hides behind a name has no id.
fn origin_author(origin: &MessageOrigin) -> Option<Sender> {
    if let Some(user) = &origin.sender_user {
        return (!user.is_bot).then(|| new_sender(user.id, &user.name(), user.username.clone()));
    }
    if let Some(chat) = &origin.sender_chat {
        return Some(new_sender(chat.id, &chat.name(), chat.username.clone()));
    }
    origin.chat.is_none().then(|| Sender::new("", sanitize_name(&origin.name())))
}

/// Returns an update as it is stored where everybody may talk whose messages its sender forwards or replies to. Those messages
/// may show something of others in turn, of whom nobody knows whether they may.
pub(super) fn stored_update(update: &Value) -> Value {
    let mut stored = update.clone();
    for message in messages_mut(&mut stored) {
        message.remove("reply_to_story");
        let Some(replied) = message.get_mut("reply_to_message").and_then(Value::as_object_mut) else { continue };
        if replied.contains_key("forum_topic_created") {
            // In a topic every message replies to the one by which somebody opened it.
            message.remove("reply_to_message");
        } else {
            replied.retain(|field, _| !is_quotation(field) && !is_origin(field));
        }
    }
    stored
}

/// Returns an update as it is stored where these people may not talk: without what is theirs.
fn redact_update(update: &Value, disclosure: Disclosure) -> Value {
    let mut redacted = stored_update(update);
    for message in messages_mut(&mut redacted) {
        message.retain(|field, _| !is_origin(field));
        if disclosure == Disclosure::WithoutReply {
            let is_manual = message.get("quote").and_then(|quote| quote.get("is_manual")) == Some(&Value::Bool(true));
            message.retain(|field, _| !is_quotation(field) || (field == "quote" && is_manual));
        }
    }
    redacted
}

/// The message of an update.
fn messages_mut(update: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let fields = update.as_object_mut().into_iter().flatten();
    fields.filter(|(kind, _)| MESSAGE_KINDS.contains(&kind.as_str())).filter_map(|(_, message)| message.as_object_mut())
}

fn is_quotation(field: &str) -> bool {
    QUOTATION_FIELDS.contains(&field)
}

/// Whether a field of a message names who wrote what it forwards.
fn is_origin(field: &str) -> bool {
    field.starts_with("forward_")
}
