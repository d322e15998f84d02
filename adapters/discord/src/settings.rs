//! The settings of a bot.

use satchel_domain::ChannelCapabilities;
use secrecy::SecretString;

/// A bot, and how it behaves.
#[derive(Debug, Clone)]
pub struct DiscordSettings {
    /// Its token, from the developer portal.
    pub token: SecretString,
    /// A server other than Discord's own: `http(s)://host:port`. A user name or password in it is refused, because it
    /// would replace the token in the `Authorization` header.
    pub api_url: Option<SecretString>,
    /// The capabilities of a channel of which nothing more is known; without rate limits for test servers.
    pub capabilities: ChannelCapabilities,
    /// The ids of channels where it answers without being mentioned; `*` means all of them.
    pub answers_in: Vec<String>,
    /// The commands that Discord offers while a person types.
    pub commands: Vec<SlashCommand>,
}

/// A command in Discord's slash menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlashCommand {
    /// Its name, without the slash.
    pub name: String,
    /// What it does, in a few words.
    pub description: String,
    /// What can be added to it; nothing limits that where there are none, or more than 25.
    pub choices: Vec<String>,
    /// Whether inputs can be written behind a choice.
    pub takes_input: bool,
}
