//! The port `Turns`: what turns work from and record.

use async_trait::async_trait;
use satchel_domain::{Attachment, InboxId, NewAttachment, Part, RecordedOutcome, RefusedFile, ToolOutcome, TurnId};
use satchel_ports::{
    FileChange,
    ledger::{
        CallDecision, CompletedTurn, JournalEntry, Lease, LedgerError, QueuedMessage, QueuedTurn, Transcription, Turns,
    },
};

use crate::{SqliteLedger, complete, inbox, journal, turns};

#[async_trait]
impl Turns for SqliteLedger {
    async fn next_turn(&self, lease: &Lease) -> Result<Option<QueuedTurn>, LedgerError> {
        const OPERATION: &str = "reading the next turn";
        let of_lease = lease.clone();
        match self.read(OPERATION, move |db| turns::next_turn(db, &of_lease)).await? {
            // The message that would join it may be on its way to the disk: whoever is about to begin an album must
            // read it behind everything that was let in while it could be joined.
            Some(read) if read.is_album && read.turn.ready_at <= self.process.clock.now() => {
                let lease = lease.clone();
                let read = self.writer.run(OPERATION, move |db| turns::next_turn(db, &lease)).await?;
                Ok(read.map(|read| read.turn))
            }
            read => Ok(read.map(|read| read.turn)),
        }
    }

    async fn list_queued_behind(&self, lease: &Lease, turn: TurnId) -> Result<Vec<QueuedMessage>, LedgerError> {
        let lease = lease.clone();
        self.read("listing messages queued behind a turn", move |db| turns::list_queued_behind(db, &lease, turn)).await
    }

    async fn store_file(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        file: &NewAttachment,
    ) -> Result<Attachment, LedgerError> {
        let (lease, file) = (lease.clone(), file.clone());
        self.writer.run("storing a file's record", move |db| inbox::store_file(db, &lease, message, index, &file)).await
    }

    async fn refuse_file(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        refused: &RefusedFile,
    ) -> Result<(), LedgerError> {
        let (lease, refused) = (lease.clone(), refused.clone());
        self.writer
            .run("recording a refused file", move |db| inbox::refuse_file(db, &lease, message, index, &refused))
            .await
    }

    async fn record_transcription(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        transcription: &Transcription,
    ) -> Result<(), LedgerError> {
        let (lease, transcription) = (lease.clone(), transcription.clone());
        self.writer
            .run("recording a transcription", move |db| {
                inbox::record_transcription(db, &lease, message, index, &transcription)
            })
            .await
    }

    async fn journal_message(&self, lease: &Lease, turn: TurnId, entry: &JournalEntry) -> Result<(), LedgerError> {
        let (lease, entry) = (lease.clone(), entry.clone());
        self.writer.run("journalling a message", move |db| journal::journal_message(db, &lease, turn, &entry)).await
    }

    async fn journal_decision(&self, lease: &Lease, decision: &CallDecision) -> Result<(), LedgerError> {
        let (lease, decision) = (lease.clone(), decision.clone());
        self.writer.run("journalling a decision", move |db| journal::journal_decision(db, &lease, &decision)).await
    }

    async fn journal_outcome(
        &self,
        lease: &Lease,
        turn: TurnId,
        ordinal: u32,
        outcome: &ToolOutcome,
        changes: &[FileChange],
    ) -> Result<RecordedOutcome, LedgerError> {
        let (lease, outcome, changes) = (lease.clone(), outcome.clone(), changes.to_vec());
        self.writer
            .run("journalling an outcome", move |db| {
                journal::journal_outcome(db, &lease, turn, ordinal, outcome, &changes)
            })
            .await
    }

    async fn register_files(&self, turn: TurnId, files: &[NewAttachment]) -> Result<Vec<Attachment>, LedgerError> {
        let files = files.to_vec();
        self.writer.run("registering files", move |db| journal::register_files(db, turn, &files)).await
    }

    async fn complete_turn(&self, lease: &Lease, completed: &CompletedTurn) -> Result<Option<Part>, LedgerError> {
        let (lease, completed) = (lease.clone(), completed.clone());
        self.writer.run("completing a turn", move |db| complete::complete_turn(db, &lease, completed)).await
    }
}
