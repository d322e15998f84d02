//! The storage: what files take up, whose quota they count for, forgetting files, and the audit log.

use std::{fmt, str::FromStr};

use async_trait::async_trait;
use satchel_domain::{
    Attachment, AttachmentId, ChannelName, ConversationId, LinkRevocation, Sender, Sha256, Timestamp, size,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::LedgerError;
use crate::audit::{AuditQuery, AuditRecord};

/// Usage, quotas, forgetting, and the audit log.
///
/// # Contract
/// Besides that of [all ports](super):
/// - `active_conversations` returns each conversation with a turn that is incomplete, or was completed at `since` or later.
/// - `store_file`, `journal_outcome` and `register_files` fail with [`LedgerError::QuotaExceeded`] if a new file would
///   take its conversation, or the turn's requester, beyond a quota. That is the person whose text its model has read
///   last; of a message's own file, its sender. Owners have no quota, unless the model has read texts of others too. A
///   turn without a requester counts for its conversation alone. Quotas never keep a turn from completing or a part from
///   settling.
/// - `reserve_workspace` applies the same quotas. A workspace counts for its conversation and, outside groups, each byte for
///   a person who has written there. When it shrinks, nobody's count falls by more than they have written there.
/// - Forgetting a file removes its name and its address from every row in one commit; its number stays, and
///   `attachment` returns the tombstone. A file that an unsettled part or an incomplete turn needs can't be forgotten.
/// - Results of calls that name a forgotten file, by its id or a path at which it was saved, are replaced in the
///   history and in journals; files that such calls made for the model alone are forgotten, too.
/// - Every record of a file that is read after `revoke_links` has returned, by any process, has its revocation; the count
///   never has an earlier value again, also of a forgotten file, whose number is never another's.
/// - A file of a part has the count of revocations that it had when its reply was planned, also in what replaces the part.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Storage: Send + Sync {
    /// Returns the bytes that files take up.
    async fn usages(&self, query: &UsageQuery) -> Result<Vec<Usage>, LedgerError>;

    /// Reserves bytes for a write to a workspace, until `record_workspace` records its result.
    async fn reserve_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError>;

    /// Records the bytes of a workspace, with those reserved for running writes.
    async fn record_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError>;

    /// Revokes all links to a file that were made until now, by counting one more revocation in its record. Returns it;
    /// `None` if there is no such file.
    async fn revoke_links(&self, attachment: AttachmentId) -> Result<Option<LinkRevocation>, LedgerError>;

    /// Forgets a file. Its bytes become unreferenced, unless another file has the same.
    async fn forget_file(&self, forget: &ForgetRequest) -> Result<ForgetOutcome, LedgerError>;

    /// Returns those of the addresses that no row references: no file's record, prepared voice or queued message.
    async fn find_unreferenced(&self, blobs: &[Sha256]) -> Result<Vec<Sha256>, LedgerError>;

    /// Returns the conversations with activity since then.
    async fn active_conversations(&self, since: Timestamp) -> Result<Vec<ConversationId>, LedgerError>;

    /// Returns lines of the audit log, newest first.
    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, LedgerError>;

    /// Removes the lines of the audit log that were committed before this time, and returns how many there were.
    async fn prune_audit(&self, before: Timestamp) -> Result<u64, LedgerError>;
}

/// A person for whom files count: a sender of a channel, by the channel's own id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PersonKey {
    /// The channel.
    pub channel: ChannelName,
    /// The channel's own id of the person.
    pub id: String,
}

impl PersonKey {
    /// Makes the key of a sender on a channel.
    #[must_use]
    pub fn new(channel: &ChannelName, sender: &Sender) -> Self {
        Self { channel: channel.clone(), id: sender.id.clone() }
    }
}

/// Writes `telegram:123`.
impl fmt::Display for PersonKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.channel, self.id)
    }
}

/// The text names no person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no person: people are named as in telegram:123")]
pub struct ParsePersonKeyError(String);

impl FromStr for PersonKey {
    type Err = ParsePersonKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (channel, id) = text.split_once(':').ok_or_else(|| ParsePersonKeyError(text.to_owned()))?;
        let channel = ChannelName::new(channel).map_err(|_| ParsePersonKeyError(text.to_owned()))?;
        Ok(Self { channel, id: id.to_owned() })
    }
}

impl Serialize for PersonKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PersonKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// What files count for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageScope {
    /// A conversation: its files and its workspace.
    Conversation(ConversationId),
    /// A person: the files of all turns that run for them, in every conversation.
    Person(PersonKey),
}

/// What files take up in a scope. Bytes that two records share count for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Of what.
    pub scope: UsageScope,
    /// The number of files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes of the workspace, with what is set aside for writes that run.
    pub workspace_bytes: u64,
}

impl Usage {
    /// All that counts for a quota.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.workspace_bytes)
    }
}

/// The scopes to report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsageQuery {
    /// Every conversation and every person, the largest first.
    All,
    /// These; one that has nothing is left out.
    Scopes(Vec<UsageScope>),
}

/// How many bytes may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// In one conversation, its workspace included.
    pub conversation: u64,
    /// For one person, over all of their conversations.
    pub person: u64,
}

impl Quotas {
    /// No bounds but the disk's.
    pub const NONE: Self = Self { conversation: u64::MAX, person: u64::MAX };
}

/// Whose quota leaves no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaScope {
    /// The conversation's.
    Conversation,
    /// The person's, over all of their conversations.
    Person,
}

/// A quota that leaves no room for what was to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// Whose quota.
    pub scope: QuotaScope,
    /// The bytes that are in use.
    pub used: u64,
    /// The bytes that may be.
    pub quota: u64,
    /// The bytes that were to be stored.
    pub needed: u64,
}

impl fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = match self.scope {
            QuotaScope::Conversation => "this conversation's storage is full",
            QuotaScope::Person => "your storage is full across all conversations",
        };
        write!(
            f,
            "{summary}: {} of {} are used, and this needs {}. `/usage` shows what takes up space, `/forget NUMBER` \
             removes a file",
            size::format_bytes(self.used),
            size::format_bytes(self.quota),
            size::format_bytes(self.needed)
        )
    }
}

/// A file that is to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgetRequest {
    /// Its conversation.
    pub conversation: ConversationId,
    /// Its number there.
    pub number: u64,
    /// The person whose files may be forgotten; `None` if the caller may forget any.
    pub restricted_to: Option<PersonKey>,
}

/// The result of a [`ForgetRequest`].
#[derive(Debug, Clone, PartialEq)]
pub enum ForgetOutcome {
    /// It is forgotten; this is what it was.
    Forgotten(Box<Attachment>),
    /// It was forgotten before, at this time.
    AlreadyForgotten(Timestamp),
    /// There is no file of that number.
    NotFound,
    /// It counts for another person.
    NotPermitted,
    /// It is still to be sent.
    Unsettled,
    /// A turn that isn't complete refers to it.
    InUse,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn person_key_is_read_as_it_is_written() {
        for text in ["telegram:123", "web:owner", "signal:+49:1"] {
            assert_eq!(text.parse::<PersonKey>().unwrap().to_string(), text);
        }
        for text in ["telegram", "", ":1"] {
            assert!(text.parse::<PersonKey>().is_err(), "{text}");
        }
    }

    #[test]
    fn full_quota_names_numbers_and_way_out() {
        let full = |scope| QuotaExceeded { scope, used: 9_900_000_000, quota: 10_000_000_000, needed: 300_000_000 };
        assert_eq!(
            full(QuotaScope::Conversation).to_string(),
            "this conversation's storage is full: 9.9 GB of 10 GB are used, and this needs 300 MB. `/usage` shows what \
             takes up space, `/forget NUMBER` removes a file"
        );
        assert!(full(QuotaScope::Person).to_string().starts_with("your storage is full across all conversations: "));
    }
}
