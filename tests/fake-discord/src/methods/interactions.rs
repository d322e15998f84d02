//! Answers to interactions (Receiving and Responding, Create Interaction Response).

use serde_json::{Value, json};

use crate::{
    DiscordRules,
    call::{ReceivedCall, fields},
    draft::MessageDraft,
    message::{DiscordMessage, EPHEMERAL},
    methods::{RouteReply, create, edit},
    objects,
    platform_state::{BOT, InteractionKind, InteractionResponse, PlatformState, snowflake},
    refusal::{ApiRefusal, empty_message, unknown_interaction},
};

/// Interaction Callback Type: a message, a message that comes later.
const MESSAGE: u64 = 4;
const DEFERRED_MESSAGE: u64 = 5;

/// For buttons only: the message stays and may be edited later; the message is edited now.
const DEFERRED_UPDATE: u64 = 6;
const UPDATE: u64 = 7;

pub(crate) fn answer(
    platform: &mut PlatformState,
    rules: &DiscordRules,
    call: &ReceivedCall,
) -> Result<RouteReply, ApiRefusal> {
    let id = snowflake(call.id(0), "interaction_id")?;
    let interaction = platform.interactions.get(&id).filter(|found| found.token == call.id(1));
    let interaction = interaction.ok_or_else(unknown_interaction)?.clone();
    if interaction.answer.is_some() {
        return Err(ApiRefusal::new(400, 40_060, "Interaction has already been acknowledged."));
    }
    if interaction.expired || platform.clock.elapsed_since(interaction.began) > rules.interaction_ttl {
        return Err(unknown_interaction());
    }
    let pressed = match &interaction.kind {
        InteractionKind::Press { message, .. } => Some(*message),
        InteractionKind::Command { .. } => None,
    };
    let kind = call.body["type"].as_u64().unwrap_or(0);
    if !(matches!(kind, MESSAGE | DEFERRED_MESSAGE) || pressed.is_some() && matches!(kind, DEFERRED_UPDATE | UPDATE)) {
        let words = "the fake takes 4 and 5, and 6 and 7 for buttons";
        return Err(ApiRefusal::invalid_field(&["type"], "BASE_TYPE_CHOICES", words));
    }
    let form = fields(&call.body["data"]);
    let draft = MessageDraft::read(rules, &form)?;
    let content = draft.content.clone().unwrap_or_default();
    let ephemeral = form.get("flags").and_then(Value::as_u64).is_some_and(|flags| flags & EPHEMERAL != 0);
    let shown = match (kind, pressed) {
        (MESSAGE, _) => {
            let buttons = draft.buttons.clone().unwrap_or_default();
            if content.is_empty() && buttons.is_empty() {
                return Err(empty_message());
            }
            let message = DiscordMessage {
                channel: interaction.channel,
                author: BOT,
                flags: if ephemeral { EPHEMERAL } else { 0 },
                buttons,
                interaction: Some(id),
                ..create::with_pings(&draft, content.clone(), None)
            };
            let message = platform.add(message);
            if !ephemeral {
                let event = objects::event(platform, &platform.messages[&message]);
                platform.events.push(("MESSAGE_CREATE", event));
            }
            Some(message)
        }
        (UPDATE, Some(message)) => {
            let before = platform.messages[&message].clone();
            let edited = edit::edited(platform, rules, call, &before, &draft, form.contains_key("content"))?;
            platform.messages.insert(message, edited);
            platform.touch(message);
            let event = objects::event(platform, &platform.messages[&message]);
            platform.events.push(("MESSAGE_UPDATE", event));
            Some(message)
        }
        _ => None,
    };
    // What an update says stands in the message.
    let text = if kind == MESSAGE { content } else { String::new() };
    let answer = InteractionResponse { kind, text, ephemeral };
    let found = platform.interactions.get_mut(&id).expect("it was looked up before");
    found.answer = Some(answer);
    // Reference, Boolean Query Strings: "True, true, or 1".
    if !matches!(call.query("with_response"), Some("True" | "true" | "1")) {
        return Ok(RouteReply::NoContent);
    }
    Ok(RouteReply::Json(callback(platform, id, pressed.is_some(), kind, shown)))
}

/// Interaction Callback Response object.
fn callback(platform: &PlatformState, id: u64, pressed: bool, kind: u64, shown: Option<u64>) -> Value {
    let shown = shown.map(|id| &platform.messages[&id]);
    let mut response = json!({
        "interaction": {
            "id": id.to_string(), "type": if pressed { 3 } else { 2 },
            "response_message_loading": kind == DEFERRED_MESSAGE,
            "response_message_ephemeral": shown.is_some_and(|message| message.flags & EPHEMERAL != 0),
        },
        "resource": { "type": kind },
    });
    if let Some(message) = shown {
        response["interaction"]["response_message_id"] = json!(message.id.to_string());
        response["resource"]["message"] = objects::message(platform, message);
    }
    response
}
