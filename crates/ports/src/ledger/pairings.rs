//! The pairings: codes of strangers, and the people whom an owner approved.

use std::time::Duration;

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, PairingCode, Sender, Timestamp};
use serde::Serialize;

use super::LedgerError;

/// The people who asked for approval, and those who were approved.
///
/// # Contract
/// Besides that of [all ports](super):
/// - `issue_pairing_code` returns the same code for a stranger until it expires, issues no more open codes on a channel
///   than the rules allow, and none to a person who was refused recently. It counts the messages under the code's
///   [`offer_key`](satchel_domain::pairing::offer_key)s.
/// - `decide_pairing` accepts a code once, until it expires, from a decider for its channel who isn't locked out.
///   An approval also queues [`satchel_domain::SystemTask::ConfirmPairing`] for the person, a refusal
///   [`satchel_domain::SystemTask::ReportRefusal`]. Each [`satchel_domain::SystemTask::RequestApproval`] of the code loses
///   its buttons by an edit, in whichever chat of that channel it stands; one that is under way loses them as soon as it
///   stands, and one of a code that has expired when that is decided about, or when the person gets another code.
/// - An approved person is allowed on that channel until the approval is revoked; another id with the same name isn't.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Pairings: Send + Sync {
    /// Returns a stranger's open code or issues one, with how often they were told of it; `None` if they get none.
    async fn issue_pairing_code(
        &self,
        stranger: &PairingRequest,
        rules: &PairingRules,
    ) -> Result<Option<IssuedCode>, LedgerError>;

    /// Approves or refuses the person of a code.
    async fn decide_pairing(
        &self,
        decision: &PairingDecision,
        rules: &PairingRules,
    ) -> Result<PairingOutcome, LedgerError>;

    /// Returns the open codes, oldest first.
    async fn list_pairings(&self) -> Result<Vec<Pairing>, LedgerError>;

    /// Returns whether a person is approved on a channel; `id` is the channel's own.
    async fn is_approved(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError>;

    /// Returns the approved people, by channel.
    async fn list_people(&self) -> Result<Vec<Person>, LedgerError>;

    /// Revokes an approval. Returns `false` if no approval exists for this id.
    async fn revoke_person(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError>;
}

/// An allowed user whom an owner approved by a code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Person {
    /// The channel on which they may talk.
    pub channel: ChannelName,
    /// The person, by the names that they had when they asked.
    pub person: Sender,
    /// When they were approved.
    #[serde(rename = "let_in_at")]
    pub approved_at: Timestamp,
    /// Who approved them.
    #[serde(rename = "let_in_by")]
    pub approved_by: String,
}

/// A stranger's first message in a private chat, for which a code is issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairingRequest {
    /// The stranger.
    pub person: Sender,
    /// The conversation in which they wrote and get their reply.
    pub conversation: ConversationId,
}

/// An open pairing code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pairing {
    /// The code.
    pub code: PairingCode,
    /// The stranger who gets approved by it.
    pub person: Sender,
    /// The conversation in which they asked and in which the approval is confirmed.
    pub conversation: ConversationId,
    /// When the code was issued.
    pub issued_at: Timestamp,
    /// When the code expires.
    pub expires_at: Timestamp,
}

/// A stranger's code, new or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedCode {
    /// The code.
    pub pairing: Pairing,
    /// How many messages with the code were stored for them.
    pub offers: u32,
}

/// The limits of pairing codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairingRules {
    /// How long a code is valid, and how long a decider with too many wrong codes is locked out.
    pub code_ttl: Duration,
    /// The most codes that are open on a channel at once; further strangers get none.
    pub max_open: u32,
    /// Wrong codes that a decider may send before being locked out.
    pub max_attempts: u32,
    /// How long a refused person gets no new code.
    pub refusal_cooldown: Duration,
}

impl Default for PairingRules {
    fn default() -> Self {
        let hour = Duration::from_secs(60 * 60);
        Self { code_ttl: hour, max_open: 20, max_attempts: 5, refusal_cooldown: 24 * hour }
    }
}

/// An owner's decision about a pairing code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairingDecision {
    /// The code.
    pub code: PairingCode,
    /// Whether the person is approved, not refused.
    pub approve: bool,
    /// The channel whose codes the decider may decide about; `None` for all.
    pub channel: Option<ChannelName>,
    /// The decider, by a name that stays theirs: wrong codes are counted by it.
    pub decided_by: String,
}

/// The result of a [`PairingDecision`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairingOutcome {
    /// The person is an allowed user from now on.
    Approved(Pairing),
    /// The person was refused.
    Refused(Pairing),
    /// The code has already been decided.
    AlreadyUsed {
        /// Whose code it was.
        person: Sender,
        /// Whether the person was approved, not refused.
        approved: bool,
    },
    /// The code has expired.
    Expired,
    /// No such code exists among those that the decider may decide about.
    UnknownCode {
        /// Wrong codes that the decider may still send before being locked out.
        tries_left: u32,
    },
    /// The decider sent too many wrong codes; until then even a right one is ignored.
    LockedOut {
        /// When the lock-out ends.
        until: Timestamp,
    },
}
