//! What an operator says about the bot.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use satchel_domain::ChannelCapabilities;
use satchel_http_server::ProxyRange;
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
    pub webhook: Option<WebhookSettings>,
    /// The commands that Telegram offers while a person types.
    pub commands: Vec<BotCommand>,
    /// The waits of a look-up.
    pub look_up: LookupSettings,
}

/// The waits of a look-up for a message whose send was left in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupSettings {
    /// How long a request may go on by itself once nobody waits for its answer.
    pub delay: Duration,
    /// How much longer for each megabyte of an upload.
    pub delay_per_megabyte: Duration,
    /// The wait before it is looked once more for what was not found.
    pub second_pass_delay: Duration,
    /// The time between two ids that are asked for.
    pub interval: Duration,
    /// The longest wait that Telegram may ask for without ending the look-up.
    pub max_flood_wait: Duration,
}

impl Default for LookupSettings {
    fn default() -> Self {
        Self {
            delay: Duration::from_secs(3),
            delay_per_megabyte: Duration::from_secs(1),
            // The server waits by itself where Telegram asks for up to 8 s.
            second_pass_delay: Duration::from_secs(12),
            interval: Duration::from_millis(200),
            max_flood_wait: Duration::from_secs(8),
        }
    }
}

/// Where Telegram delivers updates.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// The address that Telegram calls.
    pub url: SecretString,
    /// Where the calls arrive, behind whatever speaks TLS for it.
    pub listen: SocketAddr,
    /// The proxies through which many clients come, whose connections are not counted as one client's.
    pub trusted_proxies: Vec<ProxyRange>,
}

/// A command as people see it while they type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BotCommand {
    /// Its name, without the slash.
    pub name: String,
    /// What it does, in a few words.
    pub description: String,
}
