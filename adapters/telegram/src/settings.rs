//! What an operator says about the bot.

use std::{net::SocketAddr, path::PathBuf};

use satchel_domain::ChannelCapabilities;
use secrecy::SecretString;

/// A bot, and how it behaves.
#[derive(Debug, Clone)]
pub struct TelegramSettings {
    /// Its token, from @BotFather.
    pub token: SecretString,
    /// Another server than Telegram's own: `http(s)://host:port`. It may hold a name and a password.
    pub api_url: Option<SecretString>,
    /// What Telegram, or the other server, lets it do; no pace for test servers.
    pub capabilities: ChannelCapabilities,
    /// Where a Bot API server of one's own (`--local`) keeps its files; nothing outside of it is opened.
    pub local_files: Option<PathBuf>,
    /// The chats where it answers without being mentioned; `*` is all of them.
    pub answers_in: Vec<String>,
    /// Where Telegram is to deliver updates; polling where this is `None`.
    pub webhook: Option<Webhook>,
    /// The commands that Telegram offers while a person types.
    pub commands: Vec<BotCommand>,
}

/// Where Telegram delivers updates.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// The address that Telegram calls.
    pub url: SecretString,
    /// Where the calls arrive, behind whatever speaks TLS for it.
    pub listen: SocketAddr,
}

/// A command as people see it while they type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BotCommand {
    /// Its name, without the slash.
    pub name: String,
    /// What it does, in a few words.
    pub description: String,
}
