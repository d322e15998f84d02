//! The ledger: the points around its commits are where a death tells most.

use std::sync::Arc;

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

use super::{CrashWrapper, between};

#[async_trait]
impl Ledger for CrashWrapper<Arc<SqliteLedger>> {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn new_id(&self) -> Uuid {
        self.inner.new_id()
    }

    async fn ping(&self) -> Result<(), LedgerError> {
        between!(self, "ledger.ping", self.inner.ping())
    }

    async fn receive(&self, message: &InboundMessage, claim: ClaimMode) -> Result<ReceiveOutcome, LedgerError> {
        between!(self, "ledger.receive", self.inner.receive(message, claim))
    }

    async fn record_undecodable(&self, update: &UndecodableUpdate) -> Result<bool, LedgerError> {
        between!(self, "ledger.keep_unreadable", self.inner.record_undecodable(update))
    }

    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, LedgerError> {
        between!(self, "ledger.bookmark", self.inner.load_checkpoint(channel))
    }

    async fn save_checkpoint(&self, channel: &ChannelName, checkpoint: &Value) -> Result<(), LedgerError> {
        between!(self, "ledger.keep_bookmark", self.inner.save_checkpoint(channel, checkpoint))
    }

    async fn count_undecodable(&self) -> Result<Vec<UndecodableCount>, LedgerError> {
        between!(self, "ledger.unreadable", self.inner.count_undecodable())
    }

    async fn rename_conversation(
        &self,
        from: &ConversationId,
        to: &ConversationId,
    ) -> Result<RenameOutcome, LedgerError> {
        between!(self, "ledger.rename_conversation", self.inner.rename_conversation(from, to))
    }

    async fn issue_pairing_code(
        &self,
        request: &PairingRequest,
        rules: &PairingRules,
    ) -> Result<Option<Pairing>, LedgerError> {
        between!(self, "ledger.introduce", self.inner.issue_pairing_code(request, rules))
    }

    async fn decide_pairing(
        &self,
        decision: &PairingDecision,
        rules: &PairingRules,
    ) -> Result<PairingOutcome, LedgerError> {
        between!(self, "ledger.judge_pairing", self.inner.decide_pairing(decision, rules))
    }

    async fn list_pairings(&self) -> Result<Vec<Pairing>, LedgerError> {
        between!(self, "ledger.pairings", self.inner.list_pairings())
    }

    async fn is_approved(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError> {
        between!(self, "ledger.is_let_in", self.inner.is_approved(channel, id))
    }

    async fn list_people(&self) -> Result<Vec<Person>, LedgerError> {
        between!(self, "ledger.people", self.inner.list_people())
    }

    async fn revoke_person(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError> {
        between!(self, "ledger.revoke", self.inner.revoke_person(channel, id))
    }

    async fn claim_lane(&self, channels: &[ChannelName]) -> Result<Option<Lease>, LedgerError> {
        between!(self, "ledger.take_lane", self.inner.claim_lane(channels))
    }

    async fn renew(&self, leases: &[Lease]) -> Result<Vec<Lease>, LedgerError> {
        between!(self, "ledger.renew", self.inner.renew(leases))
    }

    async fn release(&self, lease: &Lease, release: ReleaseMode) -> Result<bool, LedgerError> {
        between!(self, "ledger.release", self.inner.release(lease, release))
    }

    async fn next_turn(&self, lease: &Lease) -> Result<Option<QueuedTurn>, LedgerError> {
        between!(self, "ledger.next_turn", self.inner.next_turn(lease))
    }

    async fn list_queued_behind(&self, lease: &Lease, turn: TurnId) -> Result<Vec<QueuedMessage>, LedgerError> {
        between!(self, "ledger.waiting_behind", self.inner.list_queued_behind(lease, turn))
    }

    async fn store_file(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        attachment: &Attachment,
    ) -> Result<Attachment, LedgerError> {
        between!(self, "ledger.store_file", self.inner.store_file(lease, message, index, attachment))
    }

    async fn refuse_file(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        refused: &RefusedFile,
    ) -> Result<(), LedgerError> {
        between!(self, "ledger.refuse_file", self.inner.refuse_file(lease, message, index, refused))
    }

    async fn record_transcription(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        transcription: &Transcription,
    ) -> Result<(), LedgerError> {
        between!(self, "ledger.record_heard", self.inner.record_transcription(lease, message, index, transcription))
    }

    async fn set_voice_replies(&self, conversation: &ConversationId, on: bool) -> Result<(), LedgerError> {
        between!(self, "ledger.set_voice", self.inner.set_voice_replies(conversation, on))
    }

    async fn set_agent(&self, conversation: &ConversationId, agent: Option<String>) -> Result<(), LedgerError> {
        between!(self, "ledger.set_agent", self.inner.set_agent(conversation, agent))
    }

    async fn journal_message(&self, lease: &Lease, turn: TurnId, entry: &JournalEntry) -> Result<(), LedgerError> {
        between!(self, "ledger.journal_message", self.inner.journal_message(lease, turn, entry))
    }

    async fn journal_outcome(
        &self,
        lease: &Lease,
        turn: TurnId,
        ordinal: u32,
        outcome: &ToolOutcome,
        changes: &[FileChange],
    ) -> Result<ToolOutcome, LedgerError> {
        between!(self, "ledger.journal_outcome", self.inner.journal_outcome(lease, turn, ordinal, outcome, changes))
    }

    async fn register_files(&self, turn: TurnId, files: &[Attachment]) -> Result<Vec<Attachment>, LedgerError> {
        between!(self, "ledger.register_files", self.inner.register_files(turn, files))
    }

    async fn begin_stream(
        &self,
        lease: &Lease,
        turn: TurnId,
        reply_to: Option<MessageRef>,
    ) -> Result<Option<Part>, LedgerError> {
        between!(self, "ledger.begin_stream", self.inner.begin_stream(lease, turn, reply_to))
    }

    async fn complete_turn(&self, lease: &Lease, completed: &CompletedTurn) -> Result<Option<Part>, LedgerError> {
        between!(self, "ledger.complete_turn", self.inner.complete_turn(lease, completed))
    }

    async fn next_part(&self, lease: &Lease) -> Result<Option<Part>, LedgerError> {
        between!(self, "ledger.next_part", self.inner.next_part(lease))
    }

    async fn save_part(&self, lease: &Lease, part: &Part) -> Result<(), LedgerError> {
        between!(self, "ledger.save_part", self.inner.save_part(lease, part))
    }

    async fn settle_part(&self, lease: &Lease, settlement: &Settlement) -> Result<SettleOutcome, LedgerError> {
        between!(self, "ledger.settle_part", self.inner.settle_part(lease, settlement))
    }

    async fn discard_part(&self, part: PartId) -> Result<(), LedgerError> {
        between!(self, "ledger.discard_part", self.inner.discard_part(part))
    }

    async fn turn(&self, turn: TurnId) -> Result<Option<TurnRecord>, LedgerError> {
        between!(self, "ledger.turn", self.inner.turn(turn))
    }

    async fn history(&self, conversation: &ConversationId, limit: u32) -> Result<Vec<HistoryMessage>, LedgerError> {
        between!(self, "ledger.history", self.inner.history(conversation, limit))
    }

    async fn attachment(
        &self,
        conversation: &ConversationId,
        key: AttachmentKey,
    ) -> Result<Option<Attachment>, LedgerError> {
        between!(self, "ledger.attachment", self.inner.attachment(conversation, key))
    }

    async fn attachments(&self, query: &AttachmentQuery) -> Result<Vec<Attachment>, LedgerError> {
        between!(self, "ledger.attachments", self.inner.attachments(query))
    }

    async fn usages(&self, query: &UsageQuery) -> Result<Vec<Usage>, LedgerError> {
        between!(self, "ledger.usages", self.inner.usages(query))
    }

    async fn reserve_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError> {
        between!(self, "ledger.reserve_workspace", self.inner.reserve_workspace(conversation, bytes))
    }

    async fn record_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError> {
        between!(self, "ledger.record_workspace", self.inner.record_workspace(conversation, bytes))
    }

    async fn forget_file(&self, forget: &ForgetRequest) -> Result<ForgetOutcome, LedgerError> {
        between!(self, "ledger.forget_file", self.inner.forget_file(forget))
    }

    async fn outbox(&self, query: &OutboxQuery) -> Result<Vec<Part>, LedgerError> {
        between!(self, "ledger.outbox", self.inner.outbox(query))
    }

    async fn conversations(&self, channel: &ChannelName, limit: u32) -> Result<Vec<ConversationSummary>, LedgerError> {
        between!(self, "ledger.conversations", self.inner.conversations(channel, limit))
    }

    async fn active_conversations(&self, since: Timestamp) -> Result<Vec<ConversationId>, LedgerError> {
        between!(self, "ledger.active_conversations", self.inner.active_conversations(since))
    }

    async fn turns(&self, query: &TurnQuery) -> Result<Vec<TurnRecord>, LedgerError> {
        between!(self, "ledger.turns", self.inner.turns(query))
    }

    async fn list_recorded_messages(
        &self,
        conversation: &ConversationId,
        part: PartId,
        since: Timestamp,
    ) -> Result<RecordedMessages, LedgerError> {
        between!(self, "ledger.list_recorded_messages", self.inner.list_recorded_messages(conversation, part, since))
    }

    async fn begin_question(&self, lease: &Lease, question: PartId, turn: TurnId) -> Result<(), LedgerError> {
        between!(self, "ledger.begin_question", self.inner.begin_question(lease, question, turn))
    }

    async fn settle_question(&self, question: PartId, message: Option<MessageRef>) -> Result<(), LedgerError> {
        between!(self, "ledger.settle_question", self.inner.settle_question(question, message))
    }

    async fn last_sent_before(&self, part: PartId) -> Result<Option<MessageRef>, LedgerError> {
        between!(self, "ledger.sent_before", self.inner.last_sent_before(part))
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, LedgerError> {
        between!(self, "ledger.audit", self.inner.audit(query))
    }

    async fn prune_audit(&self, before: Timestamp) -> Result<u64, LedgerError> {
        between!(self, "ledger.prune_audit", self.inner.prune_audit(before))
    }

    async fn find_unreferenced(&self, blobs: &[Sha256]) -> Result<Vec<Sha256>, LedgerError> {
        between!(self, "ledger.unreferenced", self.inner.find_unreferenced(blobs))
    }
}
