//! A ledger that fails, or never answers, when it is told to.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use satchel_domain::{
    Attachment, ChannelName, ConversationId, HistoryMessage, InboundMessage, InboxId, MessageRef, Part, PartId,
    RefusedFile, Sha256, Timestamp, ToolOutcome, TurnId, UndecodableUpdate,
};
use satchel_ledger::SqliteLedger;
use satchel_ports::{
    AuditQuery, AuditRecord, FileChange,
    ledger::{
        AttachmentKey, AttachmentQuery, ClaimMode, CompletedTurn, ConversationSummary, JournalEntry, Lease, Ledger,
        LedgerError, OutboxQuery, QueuedMessage, QueuedTurn, ReceiveOutcome, RecordedMessages, ReleaseMode,
        RenameOutcome, SettleOutcome, Settlement, Transcription, TurnQuery, TurnRecord, UndecodableCount,
        people::{Pairing, PairingDecision, PairingOutcome, PairingRequest, PairingRules, Person},
        usage::{ForgetOutcome, ForgetRequest, Usage, UsageQuery},
    },
};
use serde_json::Value;
use uuid::Uuid;

/// What a verb does instead of its work.
#[derive(Clone, Copy)]
pub(super) enum Trouble {
    FailsOnce,
    FailsAlways,
    HangsAlways,
}

pub(super) struct TroubledLedger {
    inner: Arc<SqliteLedger>,
    trouble: Mutex<Option<(&'static str, Trouble)>>,
    met: AtomicU32,
    /// How far its clock has leapt ahead, in milliseconds.
    leapt: AtomicI64,
    /// The verbs that were used since then.
    since: Mutex<Vec<&'static str>>,
}

impl TroubledLedger {
    pub(super) fn new(inner: Arc<SqliteLedger>) -> Self {
        let (trouble, since) = (Mutex::new(None), Mutex::default());
        Self { inner, trouble, met: AtomicU32::new(0), leapt: AtomicI64::new(0), since }
    }

    /// From now on the verb is in trouble.
    pub(super) fn trouble(&self, verb: &'static str, trouble: Trouble) {
        *self.trouble.lock().unwrap() = Some((verb, trouble));
    }

    /// How often the trouble was met.
    pub(super) fn met(&self) -> u32 {
        self.met.load(Ordering::Relaxed)
    }

    /// Lets its clock leap ahead.
    pub(super) fn leap(&self, by: Duration) {
        let mut since = self.since.lock().unwrap();
        self.leapt.store(i64::try_from(by.as_millis()).unwrap(), Ordering::Relaxed);
        since.clear();
    }

    /// The verbs that were used since the clock has leapt.
    pub(super) fn since_the_leap(&self) -> Vec<&'static str> {
        self.since.lock().unwrap().clone()
    }

    async fn enter(&self, verb: &'static str) -> Result<(), LedgerError> {
        self.since.lock().unwrap().push(verb);
        let trouble = {
            let mut set = self.trouble.lock().unwrap();
            let trouble = set.filter(|(troubled, _)| *troubled == verb).map(|(_, trouble)| trouble);
            if matches!(trouble, Some(Trouble::FailsOnce)) {
                *set = None;
            }
            trouble
        };
        let Some(trouble) = trouble else { return Ok(()) };
        self.met.fetch_add(1, Ordering::Relaxed);
        match trouble {
            Trouble::FailsOnce | Trouble::FailsAlways => Err(LedgerError::Full),
            Trouble::HangsAlways => std::future::pending().await,
        }
    }
}

macro_rules! troubled {
    ($(fn $verb:ident($($argument:ident: $type:ty),*) -> $output:ty;)*) => {
        #[async_trait]
        impl Ledger for TroubledLedger {
            fn now(&self) -> Timestamp {
                Timestamp(self.inner.now().0 + self.leapt.load(Ordering::Relaxed))
            }

            fn new_id(&self) -> Uuid {
                self.inner.new_id()
            }

            $(async fn $verb(&self, $($argument: $type),*) -> Result<$output, LedgerError> {
                self.enter(stringify!($verb)).await?;
                self.inner.$verb($($argument),*).await
            })*
        }
    };
}

troubled! {
    fn ping() -> ();
    fn receive(message: &InboundMessage, claim: ClaimMode) -> ReceiveOutcome;
    fn record_undecodable(update: &UndecodableUpdate) -> bool;
    fn load_checkpoint(channel: &ChannelName) -> Option<Value>;
    fn save_checkpoint(channel: &ChannelName, bookmark: &Value) -> ();
    fn count_undecodable() -> Vec<UndecodableCount>;
    fn rename_conversation(from: &ConversationId, to: &ConversationId) -> RenameOutcome;
    fn issue_pairing_code(stranger: &PairingRequest, rules: &PairingRules) -> Option<Pairing>;
    fn decide_pairing(decision: &PairingDecision, rules: &PairingRules) -> PairingOutcome;
    fn list_pairings() -> Vec<Pairing>;
    fn is_approved(channel: &ChannelName, id: &str) -> bool;
    fn list_people() -> Vec<Person>;
    fn revoke_person(channel: &ChannelName, id: &str) -> bool;
    fn claim_lane(channels: &[ChannelName]) -> Option<Lease>;
    fn renew(leases: &[Lease]) -> Vec<Lease>;
    fn release(lease: &Lease, release: ReleaseMode) -> bool;
    fn next_turn(lease: &Lease) -> Option<QueuedTurn>;
    fn list_queued_behind(lease: &Lease, turn: TurnId) -> Vec<QueuedMessage>;
    fn store_file(lease: &Lease, message: InboxId, index: u32, attachment: &Attachment) -> Attachment;
    fn refuse_file(lease: &Lease, message: InboxId, index: u32, refused: &RefusedFile) -> ();
    fn record_transcription(lease: &Lease, message: InboxId, index: u32, heard: &Transcription) -> ();
    fn set_voice_replies(conversation: &ConversationId, on: bool) -> ();
    fn set_agent(conversation: &ConversationId, agent: Option<String>) -> ();
    fn journal_message(lease: &Lease, turn: TurnId, entry: &JournalEntry) -> ();
    fn journal_outcome(lease: &Lease, turn: TurnId, ordinal: u32, outcome: &ToolOutcome, changes: &[FileChange]) -> ToolOutcome;
    fn register_files(turn: TurnId, files: &[Attachment]) -> Vec<Attachment>;
    fn begin_stream(lease: &Lease, turn: TurnId, reply_to: Option<MessageRef>) -> Option<Part>;
    fn complete_turn(lease: &Lease, completed: &CompletedTurn) -> Option<Part>;
    fn next_part(lease: &Lease) -> Option<Part>;
    fn save_part(lease: &Lease, part: &Part) -> ();
    fn settle_part(lease: &Lease, settlement: &Settlement) -> SettleOutcome;
    fn discard_part(part: PartId) -> ();
    fn turn(turn: TurnId) -> Option<TurnRecord>;
    fn conversations(channel: &ChannelName, limit: u32) -> Vec<ConversationSummary>;
    fn active_conversations(since: Timestamp) -> Vec<ConversationId>;
    fn turns(query: &TurnQuery) -> Vec<TurnRecord>;
    fn history(conversation: &ConversationId, limit: u32) -> Vec<HistoryMessage>;
    fn attachment(conversation: &ConversationId, key: AttachmentKey) -> Option<Attachment>;
    fn attachments(query: &AttachmentQuery) -> Vec<Attachment>;
    fn usages(query: &UsageQuery) -> Vec<Usage>;
    fn reserve_workspace(conversation: &ConversationId, bytes: u64) -> ();
    fn record_workspace(conversation: &ConversationId, bytes: u64) -> ();
    fn forget_file(forget: &ForgetRequest) -> ForgetOutcome;
    fn outbox(query: &OutboxQuery) -> Vec<Part>;
    fn last_sent_before(part: PartId) -> Option<MessageRef>;
    fn list_recorded_messages(conversation: &ConversationId, part: PartId, since: Timestamp) -> RecordedMessages;
    fn begin_question(lease: &Lease, question: PartId, turn: TurnId) -> ();
    fn settle_question(question: PartId, message: Option<MessageRef>) -> ();
    fn audit(query: &AuditQuery) -> Vec<AuditRecord>;
    fn prune_audit(before: Timestamp) -> u64;
    fn find_unreferenced(blobs: &[Sha256]) -> Vec<Sha256>;
}
