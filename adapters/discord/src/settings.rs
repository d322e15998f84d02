//! What an operator says about the bot.

use satchel_domain::ChannelCapabilities;
use secrecy::SecretString;

/// A bot, and how it behaves.
#[derive(Debug, Clone)]
pub struct DiscordSettings {
    /// Its token, from the developer portal.
    pub token: SecretString,
    /// Another server than Discord's own: `http(s)://host:port`. A name and a password in it are refused: they would
    /// take the place of the token.
    pub api_url: Option<SecretString>,
    /// What the platform lets it do where nothing more is known of a place; no pace for test servers.
    pub capabilities: ChannelCapabilities,
    /// The channels where it answers without being mentioned, by their ids; `*` is all of them.
    pub answers_in: Vec<String>,
    /// The commands that Discord offers while a person types.
    pub commands: Vec<SlashCommand>,
}

/// A command as people see it while they type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlashCommand {
    /// Its name, without the slash.
    pub name: String,
    /// What it does, in a few words.
    pub description: String,
}
