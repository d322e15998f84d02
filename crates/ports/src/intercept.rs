//! A ledger that calls a hook around each verb, so that a test can make a verb fail or hang, or end its process there.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use satchel_domain::{
    Attachment, CallId, ChannelName, ConversationId, HistoryMessage, InboundMessage, InboxId, MessageRef,
    NewAttachment, Part, PartId, RecordedOutcome, RefusedFile, ReminderId, Sha256, Timestamp, ToolOutcome, TurnId,
    UndecodableUpdate,
};
use serde_json::Value;

use crate::{
    AuditQuery, AuditRecord, FileChange,
    ledger::{
        Archive, AttachmentKey, AttachmentQuery, CallDecision, ClaimMode, ClaimedLane, CompletedTurn,
        ConversationQuery, ConversationSearch, ConversationSummary, Conversations, CreateReminderOutcome,
        ForgetConversationOutcome, ForgetOutcome, ForgetRequest, GatewayDuty, GatewayId, GatewayLease, Gateways, Inbox,
        JournalEntry, Lease, Leases, LedgerError, ListingChange, NewQuestion, NewReminder, Outbox, OutboxQuery,
        Pairing, PairingDecision, PairingOutcome, PairingRequest, PairingRules, Pairings, Person, PersonKey,
        QueuedMessage, QueuedTurn, ReceiveOutcome, RecordedMessages, ReleaseMode, Reminder, ReminderPerson,
        ReminderQuery, ReminderScope, Reminders, RenameOutcome, RetryOutcome, SearchResults, SettleOutcome, Settlement,
        Storage, Transcription, TurnQuery, TurnRecord, TurnRetry, Turns, UndecodableCount, Usage, UsageQuery,
        WorkFilter,
    },
};

/// What happens around each verb. A verb is named as in `ledger.receive`.
#[async_trait]
pub trait Hook: Send + Sync {
    /// What `before_call` hands to `after_call`.
    type Passage: Send;

    /// Runs before the verb; an error takes its place.
    async fn before_call(&self, verb: &'static str) -> Result<Self::Passage, LedgerError>;

    /// Runs after the verb, before its caller knows what became of it.
    fn after_call(&self, verb: &'static str, passage: Self::Passage);
}

/// A ledger that calls a hook around each verb.
#[derive(Debug)]
pub struct Intercepted<T, H> {
    /// The ledger.
    pub inner: Arc<T>,
    /// The hook.
    pub hook: H,
}

/// Implements each port by calling the hook before and after the verb. A verb that is missing here doesn't compile.
macro_rules! intercept {
    ($($port:ident { $(fn $verb:ident($($argument:ident: $type:ty),*) -> $output:ty;)* })*) => {
        /// All verbs, named as the hook gets them.
        pub const VERBS: &[&str] = &[$($(concat!("ledger.", stringify!($verb))),*),*];

        $(#[async_trait]
        impl<T: $port, H: Hook> $port for Intercepted<T, H> {
            $(async fn $verb(&self, $($argument: $type),*) -> Result<$output, LedgerError> {
                const VERB: &str = concat!("ledger.", stringify!($verb));
                let passage = self.hook.before_call(VERB).await?;
                let outcome = self.inner.$verb($($argument),*).await;
                self.hook.after_call(VERB, passage);
                outcome
            })*
        })*
    };
}

intercept! {
    Inbox {
        fn receive(message: &InboundMessage, claim: ClaimMode) -> ReceiveOutcome;
        fn record_undecodable(update: &UndecodableUpdate) -> bool;
        fn load_checkpoint(channel: &ChannelName) -> Option<Value>;
        fn save_checkpoint(channel: &ChannelName, checkpoint: &Value) -> ();
        fn rename_conversation(from: &ConversationId, to: &ConversationId) -> RenameOutcome;
    }
    Gateways {
        fn claim_gateway(gateway: &GatewayId) -> Option<GatewayLease>;
        fn list_held_gateways(duty: GatewayDuty) -> Vec<ChannelName>;
        fn renew_gateway(lease: &GatewayLease) -> bool;
        fn release_gateway(lease: &GatewayLease) -> ();
    }
    Leases {
        fn claim_lane(channels: &[ChannelName], filter: WorkFilter) -> Option<ClaimedLane>;
        fn longest_wait() -> Option<Duration>;
        fn renew(leases: &[Lease]) -> Vec<Lease>;
        fn release(lease: &Lease, release: ReleaseMode) -> bool;
    }
    Turns {
        fn next_turn(lease: &Lease) -> Option<QueuedTurn>;
        fn list_queued_behind(lease: &Lease, turn: TurnId) -> Vec<QueuedMessage>;
        fn store_file(lease: &Lease, message: InboxId, index: u32, file: &NewAttachment) -> Attachment;
        fn refuse_file(lease: &Lease, message: InboxId, index: u32, refused: &RefusedFile) -> ();
        fn record_transcription(lease: &Lease, message: InboxId, index: u32, transcription: &Transcription) -> ();
        fn journal_message(lease: &Lease, turn: TurnId, entry: &JournalEntry) -> ();
        fn journal_decision(lease: &Lease, decision: &CallDecision) -> ();
        fn journal_outcome(lease: &Lease, turn: TurnId, ordinal: u32, outcome: &ToolOutcome, changes: &[FileChange]) -> RecordedOutcome;
        fn register_files(turn: TurnId, files: &[NewAttachment]) -> Vec<Attachment>;
        fn complete_turn(lease: &Lease, completed: &CompletedTurn) -> Option<Part>;
    }
    Outbox {
        fn open_draft(lease: &Lease, turn: TurnId, reply_to: Option<MessageRef>) -> Option<Part>;
        fn next_part(lease: &Lease) -> Option<Part>;
        fn save_part(lease: &Lease, part: &Part) -> ();
        fn settle_part(lease: &Lease, settlement: &Settlement) -> SettleOutcome;
        fn discard_part(part: PartId) -> ();
        fn last_sent_before(part: PartId) -> Option<MessageRef>;
        fn list_recorded_messages(conversation: &ConversationId, part: PartId) -> RecordedMessages;
        fn open_question(lease: &Lease, question: &NewQuestion) -> Part;
        fn close_question(lease: &Lease, call: CallId, text: &str) -> ();
    }
    Pairings {
        fn issue_pairing_code(stranger: &PairingRequest, rules: &PairingRules) -> Option<Pairing>;
        fn decide_pairing(decision: &PairingDecision, rules: &PairingRules) -> PairingOutcome;
        fn list_pairings() -> Vec<Pairing>;
        fn is_approved(channel: &ChannelName, id: &str) -> bool;
        fn list_people() -> Vec<Person>;
        fn revoke_person(channel: &ChannelName, id: &str) -> bool;
    }
    Archive {
        fn ping() -> ();
        fn count_processes() -> usize;
        fn count_undecodable() -> Vec<UndecodableCount>;
        fn turn(turn: TurnId) -> Option<TurnRecord>;
        fn turns(query: &TurnQuery) -> Vec<TurnRecord>;
        fn history(conversation: &ConversationId, limit: u32) -> Vec<HistoryMessage>;
        fn attachment(conversation: &ConversationId, key: AttachmentKey) -> Option<Attachment>;
        fn attachments(query: &AttachmentQuery) -> Vec<Attachment>;
        fn parts(query: &OutboxQuery) -> Vec<Part>;
    }
    Conversations {
        fn list_conversations(query: &ConversationQuery) -> Vec<ConversationSummary>;
        fn find_conversation(conversation: &ConversationId) -> Option<ConversationSummary>;
        fn change_listing(conversation: &ConversationId, changes: &[ListingChange]) -> bool;
        fn search_conversations(search: &ConversationSearch) -> SearchResults;
        fn index_turns(limit: u32) -> u64;
        fn retry_turn(retry: &TurnRetry) -> RetryOutcome;
        fn forget_conversation(conversation: &ConversationId) -> ForgetConversationOutcome;
        fn list_forgotten_workspaces() -> Vec<ConversationId>;
        fn record_workspace_removed(conversation: &ConversationId) -> ();
    }
    Reminders {
        fn create_reminder(reminder: &NewReminder, max_per_person: u32) -> CreateReminderOutcome;
        fn list_reminders(query: &ReminderQuery) -> Vec<Reminder>;
        fn cancel_reminder(reminder: ReminderId, scope: &ReminderScope) -> Option<Reminder>;
        fn advance_reminder(reminder: ReminderId, due: Timestamp, next: Option<Timestamp>) -> ();
        fn list_reminder_people(channels: &[ChannelName]) -> Vec<ReminderPerson>;
        fn end_reminders(person: &PersonKey) -> u64;
        fn load_timezone(person: &PersonKey) -> Option<String>;
        fn save_timezone(person: &PersonKey, timezone: Option<String>) -> ();
    }
    Storage {
        fn active_conversations(since: Timestamp) -> Vec<ConversationId>;
        fn usages(query: &UsageQuery) -> Vec<Usage>;
        fn reserve_workspace(conversation: &ConversationId, bytes: u64) -> ();
        fn record_workspace(conversation: &ConversationId, bytes: u64) -> ();
        fn forget_file(forget: &ForgetRequest) -> ForgetOutcome;
        fn audit(query: &AuditQuery) -> Vec<AuditRecord>;
        fn prune_audit(before: Timestamp) -> u64;
        fn find_unreferenced(blobs: &[Sha256]) -> Vec<Sha256>;
    }
}
