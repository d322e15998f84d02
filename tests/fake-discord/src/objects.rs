//! The platform's state as Discord's objects, which the OpenAPI describes.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    links,
    message::{DiscordButton, DiscordFile, DiscordMessage},
    platform_state::{APPLICATION, BOT, BOT_NAME, ChannelKind, EPOCH_MS, PlatformState},
};

pub(crate) fn user(platform: &PlatformState, id: u64) -> Value {
    let own = id == BOT;
    let name = if own { BOT_NAME } else { platform.people.get(&id).map_or("Somebody", String::as_str) };
    let username: String = name.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let mut user = json!({
        "id": id.to_string(), "username": username, "discriminator": if own { "4321" } else { "0" },
        "global_name": if own { Value::Null } else { json!(name) }, "avatar": null, "banner": null,
        "accent_color": null, "avatar_decoration_data": null, "collectibles": null, "primary_guild": null,
        "public_flags": 0, "flags": 0,
    });
    if own {
        user["bot"] = json!(true);
    }
    user
}

/// The bot as `GET /users/@me` tells it.
pub(crate) fn me(platform: &PlatformState) -> Value {
    let mut me = user(platform, BOT);
    for (name, value) in [("mfa_enabled", json!(true)), ("locale", json!("en-US")), ("verified", json!(true))] {
        me[name] = value;
    }
    me["email"] = Value::Null;
    me
}

/// Application object. Its flags tell which privileged intents have been granted.
pub(crate) fn application(platform: &PlatformState, flags: u64) -> Value {
    json!({
        "id": APPLICATION.to_string(), "name": BOT_NAME, "icon": null, "description": "", "type": null,
        "bot": user(platform, BOT), "verify_key": "00", "flags": flags, "flags_new": flags.to_string(),
        "bot_public": false, "bot_require_code_grant": false, "redirect_uris": [], "interactions_endpoint_url": null,
        "role_connections_verification_url": null, "owner": user(platform, 1),
        "approximate_guild_count": platform.guilds.len(), "approximate_user_install_count": 0,
        "approximate_user_authorization_count": 0, "explicit_content_filter": 0, "team": null,
        "eligible_oauth2_scopes": [],
    })
}

/// Whether an application with these flags reads what messages say (Application Flags:
/// `GATEWAY_MESSAGE_CONTENT_LIMITED`, as it is for bots in fewer than a hundred guilds).
pub(crate) fn reads_content(flags: u64) -> bool {
    flags & 1 << 19 != 0
}

/// Guild Member object, without its user.
pub(crate) fn member() -> Value {
    json!({
        "nick": null, "avatar": null, "banner": null, "roles": [], "joined_at": "2024-01-02T03:04:05.678000+00:00",
        "premium_since": null, "communication_disabled_until": null, "deaf": false, "mute": false, "pending": false,
        "flags": 0,
    })
}

/// The same with its user, as an interaction tells it.
pub(crate) fn full_member(platform: &PlatformState, id: u64) -> Value {
    let mut member = member();
    member["user"] = user(platform, id);
    member["permissions"] = json!("2248473465835073");
    member
}

pub(crate) fn channel(platform: &PlatformState, id: u64) -> Value {
    let channel = platform.channel(id);
    let last = channel.last_message.map(|id| id.to_string());
    match channel.kind {
        ChannelKind::Direct { person } => json!({
            "id": id.to_string(), "type": 1, "last_message_id": last, "flags": 0,
            "recipients": [user(platform, person)],
        }),
        ChannelKind::Text { guild } => json!({
            "id": id.to_string(), "type": 0, "last_message_id": last, "flags": 0, "guild_id": guild.to_string(),
            "name": channel.name, "parent_id": null, "rate_limit_per_user": 0, "topic": null, "position": 0,
            "permission_overwrites": [], "nsfw": false,
        }),
        ChannelKind::Thread { guild, parent } => json!({
            "id": id.to_string(), "type": 11, "last_message_id": last, "flags": 0, "guild_id": guild.to_string(),
            "name": channel.name, "parent_id": parent.to_string(), "rate_limit_per_user": 0,
            "owner_id": BOT.to_string(),
            "thread_metadata": {
                "archived": false, "archive_timestamp": made_at(channel.made_us, id), "auto_archive_duration": 1440,
                "locked": false, "create_timestamp": made_at(channel.made_us, id),
            },
            "message_count": 0, "member_count": 1, "total_message_sent": 0,
        }),
    }
}

pub(crate) fn attachment(platform: &PlatformState, channel: u64, file: &DiscordFile) -> Value {
    let (url, proxy_url) = links::signed_links(platform, channel, file);
    let mut object = json!({
        "id": file.id.to_string(), "filename": file.filename, "size": file.bytes, "url": url, "proxy_url": proxy_url,
        "content_type": file.mime,
    });
    if let Some((width, height)) = file.sides {
        object["width"] = json!(width);
        object["height"] = json!(height);
    }
    for (name, value) in [
        ("title", file.title.as_ref().map(|title| json!(title))),
        ("description", file.description.as_ref().map(|words| json!(words))),
        ("duration_secs", file.duration_secs.map(|seconds| json!(seconds))),
        ("waveform", file.waveform.as_ref().map(|points| json!(points))),
    ] {
        if let Some(value) = value {
            object[name] = value;
        }
    }
    object
}

/// Message object, as history tells it: without its nonce.
pub(crate) fn message(platform: &PlatformState, message: &DiscordMessage) -> Value {
    let mut object = alone(platform, message);
    let guild = platform.channel(message.channel).kind.guild();
    if let Some(answered) = message.reply_to {
        object["message_reference"] = reference(0, message.channel, answered, guild);
        // Message object: referenced_message, "If the field exists but is null, the referenced message was deleted."
        object["referenced_message"] =
            platform.existing_message(message.channel, answered).map(|found| alone(platform, found)).into();
    }
    if let Some(starter) = message.thread_starter
        && let ChannelKind::Thread { parent, .. } = platform.channel(message.channel).kind
    {
        object["message_reference"] = reference(0, parent, starter, guild);
        object["referenced_message"] =
            platform.existing_message(parent, starter).map(|found| alone(platform, found)).into();
    }
    if let Some(forwarded) = &message.forwarded {
        let guild = platform.channels.get(&forwarded.channel).and_then(|channel| channel.kind.guild());
        object["message_reference"] = reference(1, forwarded.channel, forwarded.id, guild);
        if !message.hides_forwarded {
            object["message_snapshots"] = json!([{ "message": snapshot(platform, forwarded) }]);
        }
    }
    object
}

/// A message without those that it refers to.
fn alone(platform: &PlatformState, message: &DiscordMessage) -> Value {
    let mut object = snapshot(platform, message);
    let fields = json!({
        "id": message.id.to_string(), "channel_id": message.channel.to_string(),
        "author": user(platform, message.author), "pinned": false, "mention_everyone": message.mentions_everyone,
        "tts": false,
    });
    object.as_object_mut().expect("it is one").extend(fields.as_object().expect("it is one").clone());
    if message.reply_to.is_some() {
        object["type"] = json!(19);
    }
    if message.thread_starter.is_some() {
        object["type"] = json!(21);
    }
    if message.interaction.is_some() {
        object["application_id"] = json!(APPLICATION.to_string());
    }
    object
}

/// Message Snapshot object: "minimal subset of fields in the forwarded message".
fn snapshot(platform: &PlatformState, message: &DiscordMessage) -> Value {
    let mentions: Vec<_> = message.mentions.iter().map(|id| user(platform, *id)).collect();
    let files: Vec<_> = message.files.iter().map(|file| attachment(platform, message.channel, file)).collect();
    let mut object = json!({
        "type": 0, "content": message.content, "mentions": mentions,
        "mention_roles": message.role_mentions.iter().map(u64::to_string).collect::<Vec<_>>(),
        "attachments": files, "embeds": [], "timestamp": timestamp_of(message.id),
        "edited_timestamp": message.edited_us.map(timestamp), "flags": message.flags, "components": rows(message),
    });
    if !message.stickers.is_empty() {
        let stickers =
            message.stickers.iter().map(|(id, name)| json!({ "id": id.to_string(), "name": name, "format_type": 1 }));
        object["sticker_items"] = stickers.collect();
    }
    object
}

/// The rows of buttons; Discord numbers all components (Components, Anatomy: `id`).
fn rows(message: &DiscordMessage) -> Vec<Value> {
    let mut number = 0;
    let mut next = || {
        number += 1;
        number
    };
    let row = |row: &Vec<DiscordButton>| {
        let id = next();
        let buttons: Vec<_> = row
            .iter()
            .map(|button| {
                let mut shown = button.described.clone();
                shown["id"] = json!(next());
                shown
            })
            .collect();
        json!({ "type": 1, "id": id, "components": buttons })
    };
    message.buttons.iter().map(row).collect()
}

/// A message as the gateway tells it: with its guild, its author's membership and its nonce.
pub(crate) fn event(platform: &PlatformState, found: &DiscordMessage) -> Value {
    let mut object = with_nonce(platform, found);
    if let Some(guild) = platform.channel(found.channel).kind.guild() {
        object["guild_id"] = json!(guild.to_string());
        object["member"] = member();
    }
    object
}

/// A message as it is told once, to its sender and in its event.
pub(crate) fn with_nonce(platform: &PlatformState, found: &DiscordMessage) -> Value {
    let mut object = message(platform, found);
    if let Some(nonce) = &found.nonce {
        object["nonce"] = json!(nonce);
    }
    object
}

fn reference(kind: u64, channel: u64, message: u64, guild: Option<u64>) -> Value {
    let mut reference = json!({ "type": kind, "channel_id": channel.to_string(), "message_id": message.to_string() });
    if let Some(guild) = guild {
        reference["guild_id"] = json!(guild.to_string());
    }
    reference
}

/// When a thread was made.
fn made_at(made_us: Option<i64>, id: u64) -> String {
    made_us.map_or_else(|| timestamp_of(id), timestamp)
}

/// When an id was given (Reference, Snowflakes: "Milliseconds since Discord Epoch" above 22 bits).
fn timestamp_of(id: u64) -> String {
    let since_1970 = (id >> 22) + EPOCH_MS;
    timestamp(i64::try_from(since_1970).expect("42 bits") * 1000)
}

/// Reference, ISO8601 Date/Time, as Discord writes it.
pub(crate) fn timestamp(microseconds: i64) -> String {
    let time = Timestamp::from_microsecond(microseconds).expect("it is in this age");
    time.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}
