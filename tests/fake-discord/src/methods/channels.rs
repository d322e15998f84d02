//! Channels and what stands in them (Channel resource, User resource, Message resource).

use reqwest::Url;
use serde_json::{Value, json};

use crate::{
    call::ReceivedCall,
    links,
    message::{DiscordMessage, EPHEMERAL},
    methods::RouteReply,
    objects,
    platform_state::{ChannelKind, FakeGuildChannel, Permission, PlatformState, direct_id, id_in, snowflake},
    refusal::{ApiRefusal, FormErrors, missing_access, missing_permissions},
};

/// Create DM: "If one already exists, it will be returned instead."
pub(crate) fn open_direct(platform: &mut PlatformState, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    let Some(recipient) = id_in(&call.body, "recipient_id") else {
        return Err(ApiRefusal::invalid_field(&["recipient_id"], "BASE_TYPE_REQUIRED", "This field is required"));
    };
    let person = snowflake(&recipient, "recipient_id")?;
    if !platform.people.contains_key(&person) {
        return Err(ApiRefusal::new(400, 50_033, "Invalid Recipient(s)"));
    }
    let id = direct_id(person);
    platform.channels.entry(id).or_insert_with(|| FakeGuildChannel::new(ChannelKind::Direct { person }, ""));
    Ok(objects::channel(platform, id))
}

/// Trigger Typing Indicator: 204.
pub(crate) fn typing(platform: &mut PlatformState, call: &ReceivedCall) -> Result<RouteReply, ApiRefusal> {
    let channel = platform.visible_channel(call.id(0))?;
    if !platform.may(channel, Permission::Send) {
        return Err(missing_permissions());
    }
    platform.channel_mut(channel).typed += 1;
    Ok(RouteReply::NoContent)
}

/// Get Channel Messages: newest first; "The before, after, and around parameters are mutually exclusive".
pub(crate) fn list(platform: &PlatformState, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    let channel = platform.visible_channel(call.id(0))?;
    let mut form = FormErrors::default();
    let limit = match call.query("limit").map(str::parse) {
        None => 50,
        Some(Ok(limit)) if limit > 100 => {
            form.add_error(&["limit"], "NUMBER_TYPE_MAX", "int value should be less than or equal to 100.");
            limit
        }
        Some(Ok(limit)) if limit > 0 => limit,
        Some(_) => {
            form.add_error(&["limit"], "NUMBER_TYPE_MIN", "int value should be greater than or equal to 1.");
            1
        }
    };
    form.check()?;
    let id = |name: &str| call.query(name).map(|given| snowflake(given, name)).transpose();
    let (before, after, around) = (id("before")?, id("after")?, id("around")?);
    if [before, after, around].iter().flatten().count() > 1 {
        let words = "before, after and around are mutually exclusive";
        return Err(ApiRefusal::invalid_field(&["_misc"], "MUTUALLY_EXCLUSIVE", words));
    }
    // "If the current user is missing the READ_MESSAGE_HISTORY permission in the channel, then no messages will be
    // returned."
    if !platform.may(channel, Permission::ReadHistory) {
        return Ok(json!([]));
    }
    let stands =
        |message: &&DiscordMessage| message.channel == channel && !message.deleted && message.flags & EPHEMERAL == 0;
    let all: Vec<&DiscordMessage> = platform.messages.values().filter(stands).collect();
    let place = |id: u64| all.partition_point(|message| message.id < id);
    let chosen = match (before, after, around) {
        (None, Some(after), _) => {
            // The ones that follow it at once, and not the newest.
            let from = all.partition_point(|message| message.id <= after);
            &all[from..all.len().min(from + limit)]
        }
        (Some(before), ..) => &all[place(before).saturating_sub(limit)..place(before)],
        (None, None, Some(around)) => {
            let from = place(around).saturating_sub(limit / 2);
            &all[from..all.len().min(from + limit)]
        }
        (None, None, None) => &all[all.len().saturating_sub(limit)..],
    };
    Ok(chosen.iter().rev().map(|message| objects::message(platform, message)).collect())
}

/// Get Channel Message: "requires the current user to have the VIEW_CHANNEL and READ_MESSAGE_HISTORY permissions".
pub(crate) fn get(platform: &PlatformState, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    let channel = platform.visible_channel(call.id(0))?;
    if !platform.may(channel, Permission::ReadHistory) {
        return Err(missing_access());
    }
    Ok(objects::message(platform, platform.message_of(channel, call.id(1))?))
}

/// New links in place of those that have expired or will soon; `null` for one whose file is gone. Not documented:
/// Discord's own clients ask so, with up to 50 links.
pub(crate) fn refresh_links(platform: &PlatformState, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    let Some(urls) = call.body["attachment_urls"].as_array() else {
        return Err(ApiRefusal::invalid_field(&["attachment_urls"], "BASE_TYPE_REQUIRED", "This field is required"));
    };
    if urls.is_empty() || urls.len() > 50 {
        let words = "Must be between 1 and 50 in length.";
        return Err(ApiRefusal::invalid_field(&["attachment_urls"], "BASE_TYPE_BAD_LENGTH", words));
    }
    let refreshed = urls.iter().map(|original| {
        let url = original.as_str().and_then(|url| Url::parse(url).ok());
        let file = url.as_ref().and_then(|url| links::file_of(url.path().trim_start_matches("/media")));
        let standing = file.and_then(|id| {
            let mut shown = platform.messages.values().filter(|message| !message.deleted);
            shown.find_map(|message| Some((message.channel, message.files.iter().find(|file| file.id == id)?)))
        });
        let refreshed = standing.map(|(channel, file)| links::signed_links(platform, channel, file).0);
        json!({ "original": original, "refreshed": refreshed })
    });
    Ok(json!({ "refreshed_urls": refreshed.collect::<Vec<_>>() }))
}
