//! Settings of the Telegram adapter.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use satchel_domain::ChannelCapabilities;
use satchel_http_server::ProxyRange;
use satchel_platform_http::BotToken;
use secrecy::SecretString;

/// Settings of a bot.
#[derive(Debug, Clone)]
pub struct TelegramSettings {
    /// Its token, from @BotFather.
    pub token: BotToken,
    /// URL of another Bot API server than Telegram's: `http(s)://host:port`. It may hold a user name and a password.
    pub api_url: Option<SecretString>,
    /// Capabilities of the server; without rate limits for test servers.
    pub capabilities: ChannelCapabilities,
    /// Where a self-hosted Bot API server (`--local`) stores its files; nothing outside of it is opened.
    pub local_files: Option<PathBuf>,
    /// The chats where it answers without being mentioned; `*` is all of them.
    pub answers_in: Vec<String>,
    /// Where Telegram delivers updates; long polling if this is `None`.
    pub webhook: Option<WebhookSettings>,
    /// The commands that Telegram shows while a person types.
    pub commands: Vec<BotCommand>,
    /// Delays of a look-up.
    pub look_up: LookupSettings,
}

/// Delays of a look-up for a message that is in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupSettings {
    /// How long the server may still process a request after its response was lost.
    pub delay: Duration,
    /// Extra delay for each megabyte of an upload.
    pub delay_per_megabyte: Duration,
    /// Delay before the second pass for messages that were not found.
    pub second_pass_delay: Duration,
    /// Delay between two queried ids.
    pub interval: Duration,
    /// Longest retry-after that does not end the look-up.
    pub max_flood_wait: Duration,
}

impl Default for LookupSettings {
    fn default() -> Self {
        Self {
            delay: Duration::from_secs(3),
            delay_per_megabyte: Duration::from_secs(1),
            // The server itself waits out a retry-after of up to 8 s.
            second_pass_delay: Duration::from_secs(12),
            interval: Duration::from_millis(200),
            max_flood_wait: Duration::from_secs(8),
        }
    }
}

/// Where Telegram delivers updates.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// The URL that Telegram calls.
    pub url: SecretString,
    /// Where the calls arrive, behind a proxy that terminates TLS.
    pub listen: SocketAddr,
    /// Proxies whose connections carry many clients and are not limited per peer.
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
