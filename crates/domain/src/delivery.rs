//! The part's state machine: what a response of the channel means and what to do next.
//!
//! Pure: the loop in `routing` performs what [`Delivery`] says and feeds back what happened.
//! Whatever happens in whatever order, a part ends settled, because [`DeliveryRules::max_age`] ends every wait.

mod doubt;
mod draft;
mod machine;
mod preview;
mod step;
mod transition;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::{
    draft::{Draft, DraftCall, DraftStep, finish_draft},
    machine::{
        Attempt, Continuation, Delivery, DeliveryAction, DeliveryEffect, DeliveryEvent, DeliveryPlan, ReplanOutcome,
        SearchResult,
    },
    preview::{Preview, PreviewRule, PreviewStep},
};

/// The form of a refusal, from which follows what is tried instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The request or a file in it is too large.
    TooLarge {
        /// The limit in bytes, where the platform tells it.
        limit: Option<u64>,
    },
    /// The file can't be sent in this form. Stored as `wrong_kind`.
    #[serde(rename = "wrong_kind")]
    UnsupportedKind,
    /// The text's markup can't be read.
    BadMarkup,
    /// Voice messages are forbidden here.
    VoiceForbidden,
    /// The message to edit is gone.
    TargetGone,
    /// One file of several is at fault.
    Item {
        /// Its place in the part, from 0.
        index: usize,
    },
    /// Something else that sending the same again can't mend.
    Other,
}

/// Why a send has no message ids to show. The adapter classifies; nothing else does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum SendError {
    /// It certainly did not arrive, and may later: a rate limit, no connection.
    #[error("not sent: {reason}")]
    NotSent {
        /// The platform's own wait in milliseconds, which is a floor.
        retry_after_ms: Option<u64>,
        /// What went wrong.
        reason: String,
    },
    /// It did not arrive and won't in this form.
    #[error("refused: {reason}")]
    Refused {
        /// What is wrong with it.
        refusal: Refusal,
        /// The platform's words.
        reason: String,
    },
    /// It did not arrive and never will.
    #[error("not allowed: {reason}")]
    Forbidden {
        /// The platform's words.
        reason: String,
    },
    /// The platform refuses the bot's account. It did not arrive, and may once the account is accepted again; nothing
    /// else that is sent there arrives before.
    #[error("the account is refused: {reason}")]
    AccountRefused {
        /// The reason, written for the person.
        reason: String,
    },
    /// The bytes of a file can't be read; nothing was sent.
    #[error("unreadable: {reason}")]
    Unreadable {
        /// Why.
        reason: String,
    },
    /// The request was written, and no usable response came.
    #[error("in doubt: {reason}")]
    InDoubt {
        /// What happened instead of a response.
        reason: String,
    },
}

impl SendError {
    /// Returns the platform's requested delay, if there is one.
    fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Self::NotSent { retry_after_ms, .. } => *retry_after_ms,
            Self::InDoubt { .. }
            | Self::Refused { .. }
            | Self::Forbidden { .. }
            | Self::AccountRefused { .. }
            | Self::Unreadable { .. } => None,
        }
    }
}

/// What an operator decides about doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDoubt {
    /// Send it again, labelled as a possible duplicate.
    #[default]
    Resend,
    /// Give it up as "may have arrived" and go on.
    Hold,
}

/// The numbers by which parts are retried and given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryRules {
    /// The age at which a part is given up: a day by default.
    pub max_age: Duration,
    /// What is done about doubt where the channel has no key.
    pub on_doubt: OnDoubt,
    /// The first delay before a part is retried, half a second by default; each further one doubles.
    pub backoff: Duration,
    /// The longest wait that doubling leads to: a minute by default.
    pub backoff_cap: Duration,
    /// The waits before a doubtful part is sent with a label: one for each try, after which it is given up.
    pub resend_delays: [Duration; 3],
    /// The delay after a retried upload before a late duplicate is looked up.
    pub late_duplicate_delay: Duration,
}

impl Default for DeliveryRules {
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(24 * 60 * 60),
            on_doubt: OnDoubt::default(),
            backoff: Duration::from_millis(500),
            backoff_cap: Duration::from_secs(60),
            resend_delays: [Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(3 * 60)],
            late_duplicate_delay: Duration::from_secs(10 * 60),
        }
    }
}

#[cfg(test)]
mod tests;
