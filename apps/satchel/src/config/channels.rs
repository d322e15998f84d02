//! The platforms: `telegram` and `discord`.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use satchel_domain::{ChannelCapabilities, ChannelName, ConversationId, capabilities::LookupRule};
use satchel_intake::access::ChannelAccess;
use satchel_routing::tables;
use secrecy::SecretString;

use super::{limits::LimitOverrides, reader::Reader};

/// Where Telegram's updates arrive unless something else is said: behind the proxy that speaks TLS for it.
const WEBHOOK_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8788);

/// How Satchel is present on Telegram.
#[derive(Debug)]
pub struct Telegram {
    /// The bot's token; without one there is no Telegram.
    pub token: Option<SecretString>,
    /// Another server than Telegram's own.
    pub api_url: Option<SecretString>,
    /// Who may talk to it; `*` for everybody.
    pub allow_users: Vec<String>,
    /// Who may approve others and confirm tools.
    pub owners: Vec<String>,
    /// The groups where it answers without being mentioned; `*` for all.
    pub groups: Vec<String>,
    /// The address to which Telegram sends updates; without one they are polled.
    pub webhook: Option<SecretString>,
    /// Where these updates arrive on this machine.
    pub webhook_listen: SocketAddr,
    /// Where a Bot API server of one's own keeps its files; with it no limit of Telegram's servers counts.
    pub local_files: Option<PathBuf>,
    /// What Telegram takes.
    pub limits: ChannelCapabilities,
    /// What it would take by a Bot API server of one's own.
    pub own_server_limits: ChannelCapabilities,
}

/// How Satchel is present on Discord.
#[derive(Debug)]
pub struct Discord {
    /// The bot's token; without one there is no Discord.
    pub token: Option<SecretString>,
    /// Another server than Discord's own.
    pub api_url: Option<SecretString>,
    /// Who may talk to it; `*` for everybody.
    pub allow_users: Vec<String>,
    /// Who may approve others and confirm tools.
    pub owners: Vec<String>,
    /// Where it answers without a mention; `*` for everywhere.
    pub channels: Vec<String>,
    /// What Discord takes where nobody has boosted it.
    pub limits: ChannelCapabilities,
}

impl Telegram {
    /// Who may talk. An owner's private chat has the owner's id.
    pub(super) fn access(&self) -> (ChannelName, ChannelAccess) {
        access("telegram", &self.allow_users, &self.owners, |id| id.to_owned())
    }
}

impl Discord {
    /// Who may talk. An owner's private channel is opened by the owner's id.
    pub(super) fn access(&self) -> (ChannelName, ChannelAccess) {
        access("discord", &self.allow_users, &self.owners, |id| format!("@{id}"))
    }
}

/// Who may talk on a channel. Owners who are named by their ids can be asked in private, where `chat` says.
fn access(
    channel: &str,
    allow_users: &[String],
    owners: &[String],
    chat: impl Fn(&str) -> String,
) -> (ChannelName, ChannelAccess) {
    let channel = ChannelName::new(channel).expect("it is made of small letters");
    let chat_of = |owner: &String| {
        let is_a_number = !owner.is_empty() && owner.bytes().all(|byte| byte.is_ascii_digit());
        is_a_number.then(|| ConversationId::new(channel.clone(), chat(owner)).ok()).flatten()
    };
    let owner_chats = owners.iter().filter_map(chat_of).collect();
    let (allow_users, owners) = (allow_users.to_vec(), owners.to_vec());
    (channel, ChannelAccess { allow_users, owners, owner_chats })
}

pub(super) fn read_telegram(reader: &mut Reader<'_>) -> Telegram {
    let local_files = reader.path("telegram.local_files");
    if local_files.is_some() && !reader.is_given("telegram.api_url") {
        let message = "`telegram.local_files` is the directory of a Bot API server of your own: say where that server \
                       is with `telegram.api_url`";
        reader.wrong("telegram.local_files", message.to_owned());
    }
    let table = if local_files.is_some() { tables::telegram_local_server() } else { tables::telegram() };
    let look_up = reader.choice("telegram.look_up", &[("on", LookupRule::MessageIds), ("off", LookupRule::None)]);
    let mut telegram = Telegram {
        token: reader.secret("telegram.token"),
        api_url: reader.http_url("telegram.api_url"),
        allow_users: reader.texts("telegram.allow_users", &[]),
        owners: read_owners(reader, "telegram.owners"),
        groups: reader.texts("telegram.groups", &[]),
        webhook: reader.http_url("telegram.webhook"),
        webhook_listen: reader.listen("telegram.webhook_listen", Some(WEBHOOK_LISTEN)).unwrap_or(WEBHOOK_LISTEN),
        local_files,
        limits: table,
        own_server_limits: tables::telegram_local_server(),
    };
    let overrides = LimitOverrides::read(reader, "telegram", &telegram.limits);
    for limits in [&mut telegram.limits, &mut telegram.own_server_limits] {
        *limits = overrides.apply(ChannelCapabilities { look_up, ..limits.clone() });
    }
    telegram
}

pub(super) fn read_discord(reader: &mut Reader<'_>) -> Discord {
    Discord {
        token: reader.secret("discord.token"),
        api_url: reader.http_url("discord.api_url"),
        allow_users: reader.texts("discord.allow_users", &[]),
        owners: read_owners(reader, "discord.owners"),
        channels: reader.texts("discord.channels", &[]),
        limits: LimitOverrides::read(reader, "discord", &tables::discord()).apply(tables::discord()),
    }
}

/// Those who decide for others must be named one by one.
fn read_owners(reader: &mut Reader<'_>, key: &str) -> Vec<String> {
    let owners = reader.texts(key, &[]);
    if owners.iter().any(|owner| owner == "*") {
        let message = format!("`{key}` must name each owner: an owner lets others in and allows tool calls");
        reader.wrong(key, message);
    }
    owners
}

#[cfg(test)]
mod tests;
