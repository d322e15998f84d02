//! The durable store of input, turns, history and deliveries, as eleven ports, each cut by who calls it.
//!
//! The database is the only queue (ADR 0003). Each verb is one atomic, durable commit, whatever tables it spans; each
//! query is a read. One type implements all ports over one database.
//!
//! # Contract of all ports
//! - A verb that returned `Ok` is durable: it survives power loss. A verb that returned an error changed nothing.
//! - Every verb that takes a lease fails with [`LedgerError::LeaseLost`] if a newer one exists.
//! - What a verb of one port commits, the next read of any other shows, in every process.

mod archive;
mod conversations;
mod gateways;
mod inbox;
mod leases;
mod logins;
mod outbox;
mod pairings;
mod reminders;
mod storage;
mod turns;
pub mod verbs;

use std::sync::Arc;

use satchel_domain::{ConversationId, PartId};

#[cfg(feature = "mocks")]
pub use self::{
    archive::MockArchive, conversations::MockConversations, gateways::MockGateways, inbox::MockInbox,
    leases::MockLeases, logins::MockLogins, outbox::MockOutbox, pairings::MockPairings, reminders::MockReminders,
    storage::MockStorage, turns::MockTurns,
};
pub use self::{
    archive::{
        Archive, AttachmentKey, AttachmentOrder, AttachmentQuery, CallRecord, FileCategory, FileOrigin, FinishedCall,
        OutboxQuery, TurnQuery, TurnRecord, UndecodableCount,
    },
    conversations::{
        ConversationQuery, ConversationSearch, ConversationSummary, Conversations, ExcerptPiece,
        ForgetConversationOutcome, ListingChange, MAX_SEARCH_TERMS, ParseSearchError, RetryOutcome, SearchHit,
        SearchResults, SearchTerms, TurnRetry,
    },
    gateways::{GATEWAY_TAKEOVER, GatewayDuty, GatewayId, GatewayLease, Gateways},
    inbox::{Inbox, ReceiveOutcome, RenameOutcome},
    leases::{ClaimMode, ClaimedLane, HolderId, Lease, Leases, ReleaseMode, TURN_PRECEDENCE, WorkFilter},
    logins::{Logins, NewLogin, PageLogin},
    outbox::{NewQuestion, Outbox, QuestionKey, RecordedMessage, RecordedMessages, SettleOutcome, Settlement},
    pairings::{IssuedCode, Pairing, PairingDecision, PairingOutcome, PairingRequest, PairingRules, Pairings, Person},
    reminders::{
        CreateReminderOutcome, NewReminder, Reminder, ReminderLimits, ReminderPerson, ReminderQuery, ReminderScope,
        Reminders,
    },
    storage::{
        ForgetOutcome, ForgetRequest, ParsePersonKeyError, PersonKey, QuotaExceeded, QuotaScope, Quotas, Storage,
        Usage, UsageQuery, UsageScope,
    },
    turns::{
        CallDecision, CompletedTurn, ConversationSetting, ConversationSettings, ForgetScope, HistoryChange,
        ImmediateReply, InboundFileState, JournalEntry, QueuedMessage, QueuedTurn, SteeringMessage, SteeringRequests,
        ToolDecision, Transcription, Turns,
    },
};

/// Why a verb failed. Nothing of a failed verb is committed.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another process holds the lane now; the caller must stop working on it at once.
    #[error("the lane of {0} has another holder")]
    LeaseLost(ConversationId),
    /// Another process works on the lane; a message that this one alone may answer has to wait until it has ended.
    #[error("another process works on {0}")]
    LaneHeld(ConversationId),
    /// The part has already been settled, for example by an operator who discarded it.
    #[error("part {0} is already settled")]
    AlreadySettled(PartId),
    /// The conversation has nothing of that name.
    #[error("unknown {item}")]
    Unknown {
        /// The thing that was looked up.
        item: String,
    },
    /// A quota leaves no room for a file; a retry may help after files are forgotten.
    #[error("{0}")]
    QuotaExceeded(QuotaExceeded),
    /// The disk is full; a retry may help once there is free space.
    #[error("no space is left for the database")]
    Full,
    /// The store failed.
    #[error("the database failed: {operation}")]
    Store {
        /// The operation that failed.
        operation: &'static str,
        /// The database's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A mock of each port, for tests of what takes several.
#[cfg(feature = "mocks")]
#[derive(Default)]
#[expect(missing_docs, reason = "the type of each is enough")]
pub struct MockLedger {
    pub inbox: MockInbox,
    pub gateways: MockGateways,
    pub leases: MockLeases,
    pub turns: MockTurns,
    pub outbox: MockOutbox,
    pub pairings: MockPairings,
    pub archive: MockArchive,
    pub conversations: MockConversations,
    pub reminders: MockReminders,
    pub storage: MockStorage,
    pub logins: MockLogins,
}

#[cfg(feature = "mocks")]
impl From<MockLedger> for Ledger {
    fn from(mocks: MockLedger) -> Self {
        Self {
            inbox: Arc::new(mocks.inbox),
            gateways: Arc::new(mocks.gateways),
            leases: Arc::new(mocks.leases),
            turns: Arc::new(mocks.turns),
            outbox: Arc::new(mocks.outbox),
            pairings: Arc::new(mocks.pairings),
            archive: Arc::new(mocks.archive),
            conversations: Arc::new(mocks.conversations),
            reminders: Arc::new(mocks.reminders),
            storage: Arc::new(mocks.storage),
            logins: Arc::new(mocks.logins),
        }
    }
}

/// All ports of one store, to put a process together. A function takes single ports, unless it uses several.
#[derive(Clone)]
pub struct Ledger {
    /// What comes in.
    pub inbox: Arc<dyn Inbox>,
    /// Who receives the messages of which channel.
    pub gateways: Arc<dyn Gateways>,
    /// Who works on which lane.
    pub leases: Arc<dyn Leases>,
    /// What turns work from and record.
    pub turns: Arc<dyn Turns>,
    /// The parts on their way.
    pub outbox: Arc<dyn Outbox>,
    /// Codes of strangers, and approved people.
    pub pairings: Arc<dyn Pairings>,
    /// What is stored, for readers.
    pub archive: Arc<dyn Archive>,
    /// The conversations, as lists show them.
    pub conversations: Arc<dyn Conversations>,
    /// The reminders that people made.
    pub reminders: Arc<dyn Reminders>,
    /// Quotas, forgetting and the audit log.
    pub storage: Arc<dyn Storage>,
    /// Which browsers are logged in to the page.
    pub logins: Arc<dyn Logins>,
}

impl<T> From<Arc<T>> for Ledger
where
    T: Inbox
        + Gateways
        + Leases
        + Turns
        + Outbox
        + Pairings
        + Archive
        + Conversations
        + Reminders
        + Storage
        + Logins
        + 'static,
{
    fn from(store: Arc<T>) -> Self {
        Self {
            inbox: Arc::clone(&store) as _,
            gateways: Arc::clone(&store) as _,
            leases: Arc::clone(&store) as _,
            turns: Arc::clone(&store) as _,
            outbox: Arc::clone(&store) as _,
            pairings: Arc::clone(&store) as _,
            archive: Arc::clone(&store) as _,
            conversations: Arc::clone(&store) as _,
            reminders: Arc::clone(&store) as _,
            storage: Arc::clone(&store) as _,
            logins: store,
        }
    }
}
