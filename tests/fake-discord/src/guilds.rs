//! Guilds as Discord's objects (Guild resource; Gateway Events, Guild Create).

use serde_json::{Value, json};

use crate::{
    call::ReceivedCall,
    objects::{channel, member, user},
    platform_state::{BOT, BOT_NAME, ChannelKind, FakeGuild, FakeGuildChannel, PlatformState, Tier, snowflake},
    refusal::ApiRefusal,
};

/// The role that a guild gave the bot when it came.
pub(crate) fn bot_role(guild: u64) -> u64 {
    guild + 1
}

pub(crate) fn get(platform: &PlatformState, call: &ReceivedCall) -> Result<Value, ApiRefusal> {
    let id = snowflake(call.id(0), "guild_id")?;
    let guild = platform.guilds.get(&id).ok_or_else(|| ApiRefusal::new(404, 10_004, "Unknown Guild"))?;
    Ok(alone(id, guild))
}

pub(crate) fn alone(id: u64, guild: &FakeGuild) -> Value {
    let role = |id: u64, name: &str, managed: bool| {
        json!({
            "id": id.to_string(), "name": name, "permissions": "2248473465835073", "position": 0, "color": 0,
            "colors": { "primary_color": 0, "secondary_color": null, "tertiary_color": null }, "hoist": false,
            "managed": managed, "mentionable": false, "icon": null, "unicode_emoji": null, "flags": 0,
        })
    };
    let mut own = role(bot_role(id), BOT_NAME, true);
    own["tags"] = json!({ "bot_id": BOT.to_string() });
    json!({
        "id": id.to_string(), "name": guild.name, "icon": null, "description": null, "home_header": null,
        "splash": null, "discovery_splash": null, "features": [], "banner": null, "owner_id": "1",
        "application_id": null, "region": "deprecated", "afk_channel_id": null, "afk_timeout": 300,
        "system_channel_id": null, "system_channel_flags": 0, "widget_enabled": false, "widget_channel_id": null,
        "verification_level": 0, "roles": [role(id, "@everyone", false), own], "default_message_notifications": 0,
        "mfa_level": 0, "explicit_content_filter": 0, "max_presences": null, "max_members": 500_000,
        "max_stage_video_channel_users": 50, "max_video_channel_users": 25, "vanity_url_code": null,
        "premium_tier": match guild.tier { Tier::None => 0, Tier::One => 1, Tier::Two => 2, Tier::Three => 3 },
        "premium_subscription_count": 0, "preferred_locale": "en-US", "rules_channel_id": null,
        "safety_alerts_channel_id": null, "public_updates_channel_id": null, "premium_progress_bar_enabled": false,
        "nsfw": false, "nsfw_level": 0, "emojis": [], "stickers": [], "incidents_data": null,
    })
}

/// What GUILD_CREATE tells: the guild with its channels and threads.
pub(crate) fn with_channels(platform: &PlatformState, id: u64, guild: &FakeGuild) -> Value {
    let of_kind = |threads: bool| -> Vec<Value> {
        let meant = |channel: &FakeGuildChannel| match channel.kind {
            ChannelKind::Text { guild } => guild == id && !threads,
            ChannelKind::Thread { guild, .. } => guild == id && threads,
            ChannelKind::Direct { .. } => false,
        };
        platform.channels.iter().filter(|(_, found)| meant(found)).map(|(id, _)| channel(platform, *id)).collect()
    };
    let mut bot = member();
    bot["user"] = user(platform, BOT);
    bot["roles"] = json!([bot_role(id).to_string()]);
    let mut told = alone(id, guild);
    let added = json!({
        "joined_at": "2024-01-02T03:04:05.678000+00:00", "large": false, "unavailable": false,
        "member_count": platform.people.len() + 1, "voice_states": [], "members": [bot], "channels": of_kind(false),
        "threads": of_kind(true), "presences": [], "stage_instances": [], "guild_scheduled_events": [],
        "soundboard_sounds": [],
    });
    told.as_object_mut().expect("it is one").extend(added.as_object().expect("it is one").clone());
    told
}
