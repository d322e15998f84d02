//! The platforms: `telegram` and `discord`.

use secrecy::SecretString;

use super::reader::Reader;

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
    /// The address to which Telegram sends updates; without one they are polled.
    pub webhook: Option<SecretString>,
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
}

pub(super) fn read_telegram(reader: &mut Reader<'_>) -> Telegram {
    let token = reader.secret("telegram.token");
    if token.is_some() {
        reader.not_built("telegram.token", "the Telegram channel");
    }
    Telegram {
        token,
        api_url: reader.http_url("telegram.api_url"),
        allow_users: reader.texts("telegram.allow_users", &[]),
        owners: reader.texts("telegram.owners", &[]),
        webhook: reader.http_url("telegram.webhook"),
    }
}

pub(super) fn read_discord(reader: &mut Reader<'_>) -> Discord {
    let token = reader.secret("discord.token");
    if token.is_some() {
        reader.not_built("discord.token", "the Discord channel");
    }
    Discord {
        token,
        api_url: reader.http_url("discord.api_url"),
        allow_users: reader.texts("discord.allow_users", &[]),
        owners: reader.texts("discord.owners", &[]),
        channels: reader.texts("discord.channels", &[]),
    }
}
