//! Which intents there are, and which of them an event needs (Gateway, List of Intents).

use serde_json::Value;

/// Guilds, channels and threads.
pub const GUILDS: u64 = 1;
pub const GUILD_MESSAGES: u64 = 1 << 9;
/// Messages in direct chats.
pub const DIRECT_MESSAGES: u64 = 1 << 12;
/// What messages in guilds say; a privileged intent.
pub const MESSAGE_CONTENT: u64 = 1 << 15;

const GUILD_MEMBERS: u64 = 1 << 1;
const GUILD_PRESENCES: u64 = 1 << 8;
const GUILD_MESSAGE_REACTIONS: u64 = 1 << 10;
const GUILD_MESSAGE_TYPING: u64 = 1 << 11;
const DIRECT_MESSAGE_REACTIONS: u64 = 1 << 13;
const DIRECT_MESSAGE_TYPING: u64 = 1 << 14;

/// Privileged Intents: "Currently, those intents include".
pub(crate) const PRIVILEGED: u64 = GUILD_MEMBERS | GUILD_PRESENCES | MESSAGE_CONTENT;

/// List of Intents: the bits from 0 to 16, then 20, 21, 24 and 25.
pub(crate) const ALL: u64 = 0x1_ffff | 1 << 20 | 1 << 21 | 1 << 24 | 1 << 25;

/// Whether a session with these intents is told of an event.
///
/// List of Intents: "Any events not listed means it's not associated with an intent and will always be sent to your
/// app." Only what can happen on the fake is listed here.
pub(crate) fn lets_through(intents: u64, name: &str, data: &Value) -> bool {
    let of_guild = data.get("guild_id").is_some_and(|guild| !guild.is_null());
    let either = |guild, direct| if of_guild { guild } else { direct };
    let needed = match name {
        "GUILD_CREATE"
        | "GUILD_UPDATE"
        | "GUILD_DELETE"
        | "GUILD_ROLE_CREATE"
        | "GUILD_ROLE_UPDATE"
        | "GUILD_ROLE_DELETE"
        | "CHANNEL_CREATE"
        | "CHANNEL_UPDATE"
        | "CHANNEL_DELETE"
        | "THREAD_CREATE"
        | "THREAD_UPDATE"
        | "THREAD_DELETE"
        | "THREAD_LIST_SYNC"
        | "THREAD_MEMBER_UPDATE"
        | "THREAD_MEMBERS_UPDATE" => GUILDS,
        "CHANNEL_PINS_UPDATE" => either(GUILDS, DIRECT_MESSAGES),
        "GUILD_MEMBER_ADD" | "GUILD_MEMBER_UPDATE" | "GUILD_MEMBER_REMOVE" => GUILD_MEMBERS,
        "PRESENCE_UPDATE" => GUILD_PRESENCES,
        "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK" => {
            either(GUILD_MESSAGES, DIRECT_MESSAGES)
        }
        "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE" => either(GUILD_MESSAGE_REACTIONS, DIRECT_MESSAGE_REACTIONS),
        "TYPING_START" => either(GUILD_MESSAGE_TYPING, DIRECT_MESSAGE_TYPING),
        _ => return true,
    };
    intents & needed != 0
}

/// The flags of an application that was granted these privileged intents (Application Flags: those of an application
/// in fewer than 100 guilds, which end in `_LIMITED`).
pub(crate) fn application_flags(granted: u64) -> u64 {
    [(GUILD_PRESENCES, 1 << 13), (GUILD_MEMBERS, 1 << 15), (MESSAGE_CONTENT, 1 << 19)]
        .into_iter()
        .filter(|(intent, _)| granted & intent != 0)
        .fold(0, |flags, (_, flag)| flags | flag)
}
