//! The ledger on SQLite: one file in the data directory, one writer with group commit, readers beside it.

mod attachments;
mod audit;
mod batch;
mod bookmarks;
mod complete;
mod ends;
mod error;
mod forget;
mod held;
mod inbox;
mod inspect;
mod journal;
mod lanes;
mod open;
mod owners;
mod parts;
mod people;
mod process;
mod queries;
mod questions;
mod readers;
mod receive;
mod recorded_messages;
mod records;
mod rename;
mod rows;
mod running;
mod session;
mod settle;
mod turns;
mod unreadable;
mod usage;
mod voice;
mod workspace_usage;
mod writer;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use satchel_domain::{
    Attachment, ChannelName, ConversationId, HistoryMessage, InboundMessage, InboxId, MessageRef, Part, PartId,
    RefusedFile, Sha256, Timestamp, ToolOutcome, TurnId, UndecodableUpdate,
};
use satchel_ports::{
    AuditQuery, AuditRecord, FileChange,
    ledger::{
        AttachmentKey, AttachmentQuery, ClaimMode, CompletedTurn, ConversationSummary, HolderId, JournalEntry, Lease,
        Ledger, LedgerError, OutboxQuery, QueuedMessage, QueuedTurn, ReceiveOutcome, RecordedMessages, ReleaseMode,
        RenameOutcome, SettleOutcome, Settlement, Transcription, TurnQuery, TurnRecord, UndecodableCount,
        people::{Pairing, PairingDecision, PairingOutcome, PairingRequest, PairingRules, Person},
        usage::{ForgetOutcome, ForgetRequest, Usage, UsageQuery},
    },
};
use serde_json::Value;

use crate::{
    held::{Held, Known},
    owners::OwnerLock,
    process::Process,
    readers::{Reader, Readers},
    session::Session,
    writer::Writer,
};
pub use crate::{
    inspect::{Inspection, inspect},
    open::OpenError,
    process::Settings,
    running::{has_database, is_own_entry, open_data_dirs},
    usage::{IsOwner, QuotaRules},
};

/// The ledger of one process on a data directory.
///
/// Dropping it ends its leases: what it held, others may take at once, as after a crash.
#[derive(Debug)]
pub struct SqliteLedger {
    process: Arc<Process>,
    writer: Writer,
    readers: Readers,
    held: Held,
    _lock: OwnerLock,
}

impl SqliteLedger {
    /// Who this process is in leases.
    #[must_use]
    pub fn owner(&self) -> HolderId {
        self.process.owner
    }

    /// How many commits were made since it was opened: each is one fsync, shared by all verbs that waited for it.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }

    /// Until when a lease that is claimed or renewed now keeps all others from its lane.
    fn lease_end(&self) -> Instant {
        Instant::now() + self.process.settings.lease
    }

    async fn reader(&self, doing: &'static str) -> Result<Reader<'_>, LedgerError> {
        self.readers.lend().await.map_err(|error| error.at_port(doing))
    }
}

/// Runs a query on a reader.
macro_rules! read {
    ($ledger:ident, $doing:expr, $query:path $(, $argument:expr)*) => {{
        let mut reader = $ledger.reader($doing).await?;
        let read = $query(&mut Session::reading(&mut reader) $(, $argument)*).await;
        // One that failed is closed: another takes its place, whatever was wrong with it.
        if read.is_ok() {
            reader.give_back();
        }
        read.map_err(|error| error.at_port($doing))
    }};
}

#[async_trait]
impl Ledger for SqliteLedger {
    async fn ping(&self) -> Result<(), LedgerError> {
        read!(self, "checking the database", queries::ping)
    }

    async fn receive(&self, message: &InboundMessage, claim: ClaimMode) -> Result<ReceiveOutcome, LedgerError> {
        let (process, conversation) = (Arc::clone(&self.process), &message.conversation);
        let (message, until) = (message.clone(), self.lease_end());
        let before = self.held.arrivals(conversation);
        let (received, turn) = self
            .writer
            .write("receiving a message", move |s| {
                Box::pin(async move { receive::receive(s, &process, &message, claim).await })
            })
            .await?;
        match (&received.lease, turn) {
            (Some(lease), turn) => {
                self.held.claimed(lease, until);
                turn.into_iter().for_each(|turn| self.held.begun_by(lease, turn, before));
            }
            (None, _) => self.held.turn_changes(conversation),
        }
        Ok(received)
    }

    async fn record_undecodable(&self, update: &UndecodableUpdate) -> Result<bool, LedgerError> {
        let (process, update) = (Arc::clone(&self.process), update.clone());
        self.writer
            .write("storing an undecodable update", move |s| {
                Box::pin(async move { unreadable::keep(s, &process, &update).await })
            })
            .await
    }

    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, LedgerError> {
        read!(self, "loading a checkpoint", bookmarks::read, channel)
    }

    async fn save_checkpoint(&self, channel: &ChannelName, bookmark: &Value) -> Result<(), LedgerError> {
        let (channel, bookmark) = (channel.clone(), bookmark.clone());
        self.writer
            .write("saving a checkpoint", move |s| {
                Box::pin(async move { bookmarks::keep(s, &channel, &bookmark).await })
            })
            .await
    }

    async fn count_undecodable(&self) -> Result<Vec<UndecodableCount>, LedgerError> {
        read!(self, "counting undecodable updates", unreadable::counts)
    }

    async fn rename_conversation(
        &self,
        from: &ConversationId,
        to: &ConversationId,
    ) -> Result<RenameOutcome, LedgerError> {
        let (from, to) = (from.clone(), to.clone());
        let names = [from.clone(), to.clone()];
        let renamed = self
            .writer
            .write("renaming a conversation", move |s| Box::pin(async move { rename::rename(s, &from, &to).await }))
            .await;
        names.iter().for_each(|name| self.held.forget(name));
        renamed
    }

    async fn issue_pairing_code(
        &self,
        stranger: &PairingRequest,
        rules: &PairingRules,
    ) -> Result<Option<Pairing>, LedgerError> {
        // Most who write have a code, or get none; a flood of them must not become a flood of commits.
        if let Some(known) = read!(self, "issuing a pairing code", people::known, &self.process, stranger, rules)? {
            return Ok(known);
        }
        let (process, stranger, rules) = (Arc::clone(&self.process), stranger.clone(), *rules);
        self.writer
            .write("reading a pairing code", move |s| {
                Box::pin(async move { people::introduce(s, &process, &stranger, &rules).await })
            })
            .await
    }

    async fn decide_pairing(
        &self,
        decision: &PairingDecision,
        rules: &PairingRules,
    ) -> Result<PairingOutcome, LedgerError> {
        let (process, decision, rules) = (Arc::clone(&self.process), decision.clone(), *rules);
        let judged = self
            .writer
            .write("deciding a pairing code", move |s| {
                Box::pin(async move { people::judge(s, &process, &decision, &rules).await })
            })
            .await;
        // Whoever is let in is welcomed, by a turn.
        self.held.turns_change();
        judged
    }

    async fn list_pairings(&self) -> Result<Vec<Pairing>, LedgerError> {
        read!(self, "listing pairing codes", people::pairings, &self.process)
    }

    async fn is_approved(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError> {
        read!(self, "checking an approval", people::is_approved, channel, id)
    }

    async fn list_people(&self) -> Result<Vec<Person>, LedgerError> {
        read!(self, "listing approved people", people::people)
    }

    async fn revoke_person(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError> {
        let (channel, id) = (channel.clone(), id.to_owned());
        self.writer
            .write("revoking an approval", move |s| Box::pin(async move { people::revoke(s, &channel, &id).await }))
            .await
    }

    async fn claim_lane(&self, channels: &[ChannelName]) -> Result<Option<Lease>, LedgerError> {
        let candidates = read!(self, "claiming a lane", lanes::find, &self.process, channels)?;
        if candidates.is_empty() {
            return Ok(None);
        }
        let (process, until) = (Arc::clone(&self.process), self.lease_end());
        let taken = self
            .writer
            .write("claiming a lane", move |s| {
                Box::pin(async move { lanes::take_first(s, &process, &candidates).await })
            })
            .await?;
        if let Some(lease) = &taken {
            self.held.claimed(lease, until);
        }
        Ok(taken)
    }

    async fn renew(&self, leases: &[Lease]) -> Result<Vec<Lease>, LedgerError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let (process, until) = (Arc::clone(&self.process), self.lease_end());
        let renewed = leases.to_vec();
        let lost = self
            .writer
            .write("renewing leases", move |s| Box::pin(async move { lanes::renew(s, &process, &renewed).await }))
            .await?;
        self.held.renewed(leases, &lost, until);
        Ok(lost)
    }

    async fn release(&self, lease: &Lease, release: ReleaseMode) -> Result<bool, LedgerError> {
        // Before: once it is given back, another process may change what is known of it.
        self.held.given_back(lease);
        let lease = lease.clone();
        self.writer
            .write("releasing a lane", move |s| Box::pin(async move { lanes::release(s, &lease, release).await }))
            .await
    }

    async fn next_turn(&self, lease: &Lease) -> Result<Option<QueuedTurn>, LedgerError> {
        const DOING: &str = "reading the next turn";
        if let Some(turn) = self.held.take_turn(lease) {
            return Ok(Some(turn));
        }
        match read!(self, DOING, turns::next_turn, lease)? {
            // The message that would join it may be on its way to the disk: whoever is about to begin an album must
            // read it behind everything that was let in while it could be joined.
            Some(read) if read.is_album && read.turn.ready_at <= self.process.now() => {
                let lease = lease.clone();
                let read = self
                    .writer
                    .read_in_order(DOING, move |s| Box::pin(async move { turns::next_turn(s, &lease).await }))
                    .await?;
                Ok(read.map(|read| read.turn))
            }
            read => Ok(read.map(|read| read.turn)),
        }
    }

    async fn list_queued_behind(&self, lease: &Lease, turn: TurnId) -> Result<Vec<QueuedMessage>, LedgerError> {
        read!(self, "listing messages queued behind a turn", turns::list_queued_behind, lease, turn)
    }

    async fn store_file(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        attachment: &Attachment,
    ) -> Result<Attachment, LedgerError> {
        self.held.turn_changes(&lease.conversation);
        let (process, lease, attachment) = (Arc::clone(&self.process), lease.clone(), attachment.clone());
        self.writer
            .write("storing a file's record", move |s| {
                Box::pin(async move { inbox::store_file(s, &process, &lease, message, index, attachment).await })
            })
            .await
    }

    async fn refuse_file(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        refused: &RefusedFile,
    ) -> Result<(), LedgerError> {
        self.held.turn_changes(&lease.conversation);
        let (lease, refused) = (lease.clone(), refused.clone());
        self.writer
            .write("recording a refused file", move |s| {
                Box::pin(async move { inbox::refuse_file(s, &lease, message, index, &refused).await })
            })
            .await
    }

    async fn record_transcription(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        heard: &Transcription,
    ) -> Result<(), LedgerError> {
        self.held.turn_changes(&lease.conversation);
        let (lease, heard) = (lease.clone(), heard.clone());
        self.writer
            .write("recording a transcription", move |s| {
                Box::pin(async move { voice::record_transcription(s, &lease, message, index, &heard).await })
            })
            .await
    }

    async fn set_voice_replies(&self, conversation: &ConversationId, on: bool) -> Result<(), LedgerError> {
        let of = conversation.clone();
        let set = self
            .writer
            .write("setting voice replies", move |s| Box::pin(async move { voice::set(s, &of, on).await }))
            .await;
        self.held.turn_changes(conversation);
        set
    }

    async fn set_agent(&self, conversation: &ConversationId, agent: Option<String>) -> Result<(), LedgerError> {
        let of = conversation.clone();
        let set = self
            .writer
            .write("storing the chosen agent", move |s| Box::pin(async move { lanes::set_agent(s, &of, agent).await }))
            .await;
        self.held.turn_changes(conversation);
        set
    }

    async fn journal_message(&self, lease: &Lease, turn: TurnId, entry: &JournalEntry) -> Result<(), LedgerError> {
        self.held.turn_changes(&lease.conversation);
        let (lease, entry) = (lease.clone(), entry.clone());
        self.writer
            .write("journalling a message", move |s| {
                Box::pin(async move { journal::journal_message(s, &lease, turn, &entry).await })
            })
            .await
    }

    async fn journal_outcome(
        &self,
        lease: &Lease,
        turn: TurnId,
        ordinal: u32,
        outcome: &ToolOutcome,
        changes: &[FileChange],
    ) -> Result<ToolOutcome, LedgerError> {
        self.held.turn_changes(&lease.conversation);
        let (process, lease, outcome) = (Arc::clone(&self.process), lease.clone(), outcome.clone());
        let changes = changes.to_vec();
        self.writer
            .write("journalling an outcome", move |s| {
                Box::pin(async move {
                    journal::journal_outcome(s, &process, &lease, turn, ordinal, outcome, &changes).await
                })
            })
            .await
    }

    async fn register_files(&self, turn: TurnId, files: &[Attachment]) -> Result<Vec<Attachment>, LedgerError> {
        let (process, files) = (Arc::clone(&self.process), files.to_vec());
        self.writer
            .write("registering files", move |s| {
                Box::pin(async move { journal::register_files(s, &process, turn, files).await })
            })
            .await
    }

    async fn begin_stream(
        &self,
        lease: &Lease,
        turn: TurnId,
        reply_to: Option<MessageRef>,
    ) -> Result<Option<Part>, LedgerError> {
        self.held.turn_changes(&lease.conversation);
        // Asked again and again while an earlier reply is under way, so that is looked at without a commit.
        if read!(self, "reading parts in progress", journal::must_wait, lease, turn)? {
            return Ok(None);
        }
        self.held.streams(lease);
        let (process, lease) = (Arc::clone(&self.process), lease.clone());
        self.writer
            .write("starting a stream", move |s| {
                Box::pin(async move { journal::begin_stream(s, &process, &lease, turn, reply_to).await })
            })
            .await
    }

    async fn complete_turn(&self, lease: &Lease, completed: &CompletedTurn) -> Result<Option<Part>, LedgerError> {
        self.end_turn(lease, completed).await
    }

    async fn next_part(&self, lease: &Lease) -> Result<Option<Part>, LedgerError> {
        read!(self, "reading the next part", parts::next, lease)
    }

    async fn save_part(&self, lease: &Lease, part: &Part) -> Result<(), LedgerError> {
        self.held.turn_changes(&lease.conversation);
        let (lease, part) = (lease.clone(), part.clone());
        self.writer.write("saving a part", move |s| Box::pin(async move { parts::save(s, &lease, &part).await })).await
    }

    async fn settle_part(&self, lease: &Lease, settlement: &Settlement) -> Result<SettleOutcome, LedgerError> {
        self.end_part(lease, settlement).await
    }

    async fn discard_part(&self, part: PartId) -> Result<(), LedgerError> {
        let discarded = self.writer.write("discarding a part", move |s| Box::pin(parts::discard(s, part))).await;
        self.held.turns_change();
        discarded
    }

    async fn turn(&self, turn: TurnId) -> Result<Option<TurnRecord>, LedgerError> {
        read!(self, "reading a turn", records::turn, turn)
    }

    async fn conversations(&self, channel: &ChannelName, limit: u32) -> Result<Vec<ConversationSummary>, LedgerError> {
        read!(self, "reading the conversations", records::conversations, channel, limit)
    }

    async fn active_conversations(&self, since: Timestamp) -> Result<Vec<ConversationId>, LedgerError> {
        read!(self, "reading which conversations are active", records::active_conversations, since)
    }

    async fn turns(&self, query: &TurnQuery) -> Result<Vec<TurnRecord>, LedgerError> {
        read!(self, "reading turns", records::turns, query)
    }

    async fn history(&self, conversation: &ConversationId, limit: u32) -> Result<Vec<HistoryMessage>, LedgerError> {
        match self.held.history(conversation, limit) {
            Known::Messages(messages) => Ok(messages),
            Known::Nothing(reading) => {
                let read = read!(self, "reading the history", queries::history, conversation, limit)?;
                if let Some(reading) = reading {
                    self.held.learn(conversation, reading, &read, limit);
                }
                Ok(read)
            }
        }
    }

    async fn attachment(
        &self,
        conversation: &ConversationId,
        key: AttachmentKey,
    ) -> Result<Option<Attachment>, LedgerError> {
        read!(self, "reading a file's record", queries::attachment, conversation, key)
    }

    async fn attachments(&self, query: &AttachmentQuery) -> Result<Vec<Attachment>, LedgerError> {
        read!(self, "reading files' records", queries::attachments, query)
    }

    async fn usages(&self, query: &UsageQuery) -> Result<Vec<Usage>, LedgerError> {
        read!(self, "reading storage usage", usage::usages, query)
    }

    async fn reserve_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError> {
        let (process, conversation) = (Arc::clone(&self.process), conversation.clone());
        self.writer
            .write("reserving workspace bytes", move |s| {
                Box::pin(
                    async move { workspace_usage::reserve(s, &process.settings.quotas, &conversation, bytes).await },
                )
            })
            .await
    }

    async fn record_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError> {
        let conversation = conversation.clone();
        self.writer
            .write("recording a workspace's size", move |s| {
                Box::pin(async move { workspace_usage::record(s, &conversation, bytes).await })
            })
            .await
    }

    async fn forget_file(&self, forget: &ForgetRequest) -> Result<ForgetOutcome, LedgerError> {
        let (process, file) = (Arc::clone(&self.process), forget.clone());
        let forgotten = self
            .writer
            .write("forgetting a file", move |s| Box::pin(async move { forget::forget(s, &process, &file).await }))
            .await;
        self.held.forget(&forget.conversation);
        forgotten
    }

    async fn outbox(&self, query: &OutboxQuery) -> Result<Vec<Part>, LedgerError> {
        read!(self, "reading the outbox", queries::outbox, query)
    }

    async fn last_sent_before(&self, part: PartId) -> Result<Option<MessageRef>, LedgerError> {
        read!(self, "reading the message before a part", queries::last_sent_before, part)
    }

    async fn list_recorded_messages(
        &self,
        conversation: &ConversationId,
        part: PartId,
        since: Timestamp,
    ) -> Result<RecordedMessages, LedgerError> {
        let doing = "reading the messages around a part";
        read!(self, doing, recorded_messages::list_recorded_messages, conversation, part, since)
    }

    async fn begin_question(&self, lease: &Lease, question: PartId, turn: TurnId) -> Result<(), LedgerError> {
        let (process, lease) = (Arc::clone(&self.process), lease.clone());
        self.writer
            .write("starting a question", move |s| {
                Box::pin(async move { questions::begin(s, &process, &lease, question, turn).await })
            })
            .await
    }

    async fn settle_question(&self, question: PartId, message: Option<MessageRef>) -> Result<(), LedgerError> {
        self.writer.write("settling a question", move |s| Box::pin(questions::settle(s, question, message))).await
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, LedgerError> {
        read!(self, "reading the audit log", audit::list, query)
    }

    async fn prune_audit(&self, before: Timestamp) -> Result<u64, LedgerError> {
        self.writer.write("pruning the audit log", move |s| Box::pin(audit::prune(s, before))).await
    }

    async fn find_unreferenced(&self, blobs: &[Sha256]) -> Result<Vec<Sha256>, LedgerError> {
        read!(self, "finding unreferenced blobs", queries::unreferenced, blobs)
    }
}
