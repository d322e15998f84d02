//! Whether a channel can be used, or is closed because its platform refuses the bot's account.

use crate::Timestamp;

/// Whether a channel can be used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ChannelState {
    /// It can, as far as is known.
    #[default]
    Open,
    /// The platform refuses the bot's account, so nothing is sent or received until it accepts it again.
    Closed(ChannelClosure),
}

/// Why a channel is closed. Holds no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelClosure {
    /// Names the credentials that are refused: the same in each process that has them.
    pub credentials: String,
    /// Counts the closures of the channel in this process. Those that follow at once are one.
    pub number: u32,
    /// The platform's name, as people know it.
    pub platform: &'static str,
    /// Why, as text that follows the platform's name.
    pub reason: String,
    /// What an owner can do about it.
    pub remedy: String,
    /// When the platform first refused.
    pub since: Timestamp,
}

impl ChannelState {
    /// Returns why the channel is closed; `None` while it is open.
    #[must_use]
    pub fn closure(&self) -> Option<&ChannelClosure> {
        match self {
            Self::Open => None,
            Self::Closed(closure) => Some(closure),
        }
    }
}
