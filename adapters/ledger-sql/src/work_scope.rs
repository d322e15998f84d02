//! What a process works on, of all that waits: everything, one conversation, or only what it has stored itself.

use std::sync::{Arc, Mutex, PoisonError};

use satchel_domain::ConversationId;
use satchel_ports::ledger::HolderId;
use uuid::{Builder, Uuid, Version};

/// The UUID version in the holder ids of processes that work on their own turns only. All other holder ids have version 7.
/// The id of a killed holder stays in the lane, so the next process reads from it which turns the crash can be about.
const OWN_TURNS_VERSION: Version = Version::Custom;

/// What a process works on.
#[derive(Debug, Clone, Default)]
pub enum WorkScope {
    /// All conversations of the channels that it hosts.
    #[default]
    All,
    /// One conversation. A terminal shows one, so replies of another must wait for theirs.
    Conversation(ConversationId),
    /// The turns of messages that it has stored itself, in one conversation. Everything else that waits there is
    /// not for the person who reads its output.
    OwnTurns(OwnTurns),
}

/// The turns of messages that this process has stored in a conversation.
#[derive(Debug, Clone)]
pub struct OwnTurns {
    conversation: ConversationId,
    turns: Arc<Mutex<Vec<Uuid>>>,
}

impl OwnTurns {
    /// None yet.
    #[must_use]
    pub fn in_conversation(conversation: ConversationId) -> Self {
        Self { conversation, turns: Arc::default() }
    }

    /// Adds a turn. One whose transaction fails afterwards does no harm: it has no rows.
    pub(crate) fn add(&self, turn: Uuid) {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).push(turn);
    }
}

/// Which turns of a lane a statement is about: all, or these. A statement says
/// `($n OR id IN (SELECT value FROM rarray($m)))`.
#[derive(Debug)]
pub struct TurnSelection {
    /// Whether it is about all turns.
    pub all: bool,
    /// The turns that it is about otherwise.
    pub own: Vec<Uuid>,
}

impl WorkScope {
    /// The only conversation whose lane the process takes; `None` for all.
    #[must_use]
    pub fn conversation(&self) -> Option<&ConversationId> {
        match self {
            Self::All => None,
            Self::Conversation(conversation) | Self::OwnTurns(OwnTurns { conversation, .. }) => Some(conversation),
        }
    }

    /// Returns the holder id of a process with this scope, made from a new id.
    #[must_use]
    pub fn holder_id(&self, id: Uuid) -> HolderId {
        match self {
            Self::All | Self::Conversation(_) => HolderId(id),
            Self::OwnTurns(_) => {
                HolderId(Builder::from_bytes(id.into_bytes()).with_version(OWN_TURNS_VERSION).into_uuid())
            }
        }
    }

    /// Whether the process works on its own turns only.
    pub(crate) fn has_own_turns_only(&self) -> bool {
        matches!(self, Self::OwnTurns(_))
    }

    /// The turns that the process works on.
    #[must_use]
    pub fn turns(&self) -> TurnSelection {
        match self {
            Self::All | Self::Conversation(_) => TurnSelection { all: true, own: Vec::new() },
            Self::OwnTurns(own) => {
                TurnSelection { all: false, own: own.turns.lock().unwrap_or_else(PoisonError::into_inner).clone() }
            }
        }
    }
}

/// Returns whether the process with this holder id works on its own turns only.
pub(crate) fn is_holder_of_own_turns(holder: HolderId) -> bool {
    holder.0.get_version() == Some(OWN_TURNS_VERSION)
}
