//! The Discord adapter: messages arrive through the gateway and are sent through the REST API.
//!
//! [`DiscordChannel`] sends messages and fetches people's files. Messages are composed with serenity's builders; the
//! HTTP client is our own (`rest`), because a failed call must show whether the message may have arrived, and
//! serenity's client doesn't report that (ADR 0027).

mod channel;
mod fetch;
mod inbound;

mod gateway;
mod rest;

mod cache;
mod classify;
mod filenames;
mod lookup;
mod render;
mod send;
mod snowflake;

use std::time::Duration;

use satchel_domain::ChannelCapabilities;
use satchel_platform_http::{Backoff, PlatformError, random_fraction};
use secrecy::SecretString;

use crate::rest::{ApiError, RetryTracker};

pub use channel::DiscordChannel;
pub use inbound::DiscordListener;
pub use rest::DiscordError;
pub use satchel_platform_http::{BotToken, HttpTimeouts};

/// A bot, and how it behaves.
#[derive(Debug, Clone)]
pub struct DiscordSettings {
    /// Its token, from the developer portal.
    pub token: BotToken,
    /// A server other than Discord's own: `http(s)://host:port`. A user name or password in it is refused, because it
    /// would replace the token in the `Authorization` header.
    pub api_url: Option<SecretString>,
    /// The capabilities of a channel of which nothing more is known; without rate limits for test servers.
    pub capabilities: ChannelCapabilities,
    /// The ids of channels where it answers without being mentioned; `*` means all of them.
    pub answers_in: Vec<String>,
    /// Whether a message in a guild waits for as long as Discord doesn't say which channel and category it is in: with those,
    /// another agent would answer.
    pub needs_parents: bool,
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

/// Delays and timeouts of the gateway and of what reads from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayTimeouts {
    /// Between the starts of two sessions: Discord accepts one in five seconds.
    pub identify_interval: Duration,
    /// Before a session follows one that Discord invalidated: Discord demands one to five times as much.
    pub invalid_session_delay: Duration,
    /// After the first failure; it doubles with each further one.
    pub min_retry_delay: Duration,
    pub max_retry_delay: Duration,
    /// Between two checkpoints.
    pub checkpoint_interval: Duration,
    /// For what fails while Discord responds otherwise, such as a channel's history, before it is skipped for now. It is
    /// also the longest delay before what was skipped is requested again.
    pub unavailable_timeout: Duration,
    /// For an unavailable guild, before the backfill of the others is complete without it.
    pub guilds_timeout: Duration,
}

impl Default for GatewayTimeouts {
    fn default() -> Self {
        Self {
            identify_interval: Duration::from_secs(5),
            invalid_session_delay: Duration::from_secs(1),
            min_retry_delay: Duration::from_millis(250),
            max_retry_delay: Duration::from_secs(60),
            checkpoint_interval: Duration::from_secs(1),
            unavailable_timeout: Duration::from_secs(180),
            guilds_timeout: Duration::from_secs(60),
        }
    }
}

impl GatewayTimeouts {
    fn backoff(&self) -> Backoff {
        Backoff { min_delay: self.min_retry_delay, max_delay: self.max_retry_delay }
    }

    /// Returns the delay after this many failures.
    pub(crate) fn retry_delay(&self, failures: u32) -> Duration {
        self.backoff().delay(failures)
    }

    /// Returns the delay before what was skipped for now is requested again, after this many failures.
    pub(crate) fn recheck_delay(&self, failures: u32) -> Duration {
        Backoff { min_delay: self.min_retry_delay, max_delay: self.unavailable_timeout }.delay(failures)
    }

    /// Returns the random delay before a session follows one that Discord invalidated.
    pub(crate) fn new_session_delay(&self) -> Duration {
        self.invalid_session_delay.mul_f64(1.0 + 4.0 * random_fraction())
    }

    pub(crate) fn new_retry_tracker(&self) -> RetryTracker {
        RetryTracker::new(ApiError::PLATFORM, self.backoff())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delay_is_capped_at_three_minutes() {
        let timeouts = GatewayTimeouts::default();
        for (failures, longest) in [(0, 250), (9, 128_000), (10, 180_000), (u32::MAX, 180_000)] {
            assert!((longest / 2..=longest).contains(&timeouts.recheck_delay(failures).as_millis()), "{failures}");
        }
    }

    #[test]
    fn new_session_is_delayed_by_one_to_five_seconds() {
        let timeouts = GatewayTimeouts::default();
        let delays: Vec<u128> = (0..50).map(|_| timeouts.new_session_delay().as_millis()).collect();
        assert!(delays.iter().all(|delay| (1_000..=5_000).contains(delay)), "{delays:?}");
        assert!(delays.iter().any(|delay| *delay > 2_000) && delays.iter().any(|delay| *delay < 4_000), "{delays:?}");
    }
}
