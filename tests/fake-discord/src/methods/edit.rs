//! Changes and ends of messages (Message resource, Edit Message, Delete Message).

use serde_json::{Value, json};

use crate::{
    DiscordRules,
    call::{ReceivedCall, fields},
    draft::MessageDraft,
    message::{DiscordMessage, MessageVersion},
    methods::{RouteReply, create},
    objects,
    platform_state::{BOT, ChannelKind, PlatformState},
    refusal::{ApiRefusal, empty_message, missing_permissions},
};

pub(crate) fn edit(
    platform: &mut PlatformState,
    rules: &DiscordRules,
    call: &ReceivedCall,
) -> Result<Value, ApiRefusal> {
    let channel = platform.visible_channel(call.id(0))?;
    let message = platform.message_of(channel, call.id(1))?.clone();
    if message.author != BOT {
        return Err(ApiRefusal::new(403, 50_005, "Cannot edit a message authored by another user"));
    }
    if !call.uploads.is_empty() {
        create::writable(platform, rules, call)?;
    }
    if message.is_voice() {
        return Err(ApiRefusal::new(400, 50_162, "Voice messages cannot be edited."));
    }
    let form = fields(&call.body);
    let edited =
        edited(platform, rules, call, &message, &MessageDraft::read(rules, &form)?, form.contains_key("content"))?;
    platform.messages.insert(message.id, edited);
    platform.touch(message.id);
    let edited = &platform.messages[&message.id];
    let (answer, mut event) = (objects::message(platform, edited), objects::event(platform, edited));
    event.as_object_mut().expect("a message is an object").shift_remove("nonce");
    platform.events.push(("MESSAGE_UPDATE", event));
    Ok(answer)
}

/// A message after an edit. What the form leaves out stays.
pub(crate) fn edited(
    platform: &mut PlatformState,
    rules: &DiscordRules,
    call: &ReceivedCall,
    message: &DiscordMessage,
    draft: &MessageDraft,
    says: bool,
) -> Result<DiscordMessage, ApiRefusal> {
    let files = create::files(platform, rules, call, draft, message.channel, &message.files)?;
    let keep = |platform: &mut PlatformState, file: crate::DiscordFile| {
        if file.id == 0 { platform.keep_file(file) } else { file }
    };
    let content = if says { draft.content.clone().unwrap_or_default() } else { message.content.clone() };
    let buttons = draft.buttons.clone().unwrap_or_else(|| message.buttons.clone());
    if content.is_empty() && files.is_empty() && buttons.is_empty() {
        return Err(empty_message());
    }
    let mut edited = DiscordMessage {
        files: files.into_iter().map(|file| keep(platform, file)).collect(),
        buttons,
        content: content.clone(),
        ..message.clone()
    };
    edited.edits.push(MessageVersion { content: message.content.clone(), files: message.files.clone() });
    if says {
        // Edit Message: the mentions "will be reconstructed from scratch based on the new content"; an edit notifies
        // nobody.
        let DiscordMessage { mentions, role_mentions, mentions_everyone, .. } =
            create::with_pings(draft, content, None);
        edited = DiscordMessage { mentions, role_mentions, mentions_everyone, ..edited };
    }
    Ok(edited)
}

pub(crate) fn delete(platform: &mut PlatformState, call: &ReceivedCall) -> Result<RouteReply, ApiRefusal> {
    let channel = platform.visible_channel(call.id(0))?;
    let message = platform.message_of(channel, call.id(1))?;
    let (id, own) = (message.id, message.author == BOT);
    if !own {
        // Delete Message: "requires the MANAGE_MESSAGES permission", which the fake's bot hasn't got.
        return Err(match platform.channel(channel).kind {
            ChannelKind::Direct { .. } => ApiRefusal::new(403, 50_003, "Cannot execute action on a DM channel"),
            _ => missing_permissions(),
        });
    }
    remove(platform, id);
    Ok(RouteReply::NoContent)
}

/// Takes a message away, of which the gateway tells.
pub(crate) fn remove(platform: &mut PlatformState, id: u64) {
    let message = platform.messages.get_mut(&id).expect("it was looked up before");
    message.deleted = true;
    let channel = message.channel;
    let mut event = json!({ "id": id.to_string(), "channel_id": channel.to_string() });
    if let Some(guild) = platform.channel(channel).kind.guild() {
        event["guild_id"] = json!(guild.to_string());
    }
    platform.events.push(("MESSAGE_DELETE", event));
}
