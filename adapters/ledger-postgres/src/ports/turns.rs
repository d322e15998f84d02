//! The port `Turns`: what turns work from and record.

use async_trait::async_trait;
use satchel_domain::{Attachment, InboxId, NewAttachment, Part, RecordedOutcome, RefusedFile, ToolOutcome, TurnId};
use satchel_ports::{
    FileChange,
    ledger::{
        CallDecision, CompletedTurn, JournalEntry, Lease, LedgerError, QueuedMessage, QueuedTurn, Transcription, Turns,
    },
};

use crate::{PostgresLedger, complete, inbox, journal, turns};

#[async_trait]
impl Turns for PostgresLedger {
    async fn next_turn(&self, lease: &Lease) -> Result<Option<QueuedTurn>, LedgerError> {
        const OPERATION: &str = "reading the next turn";
        match self.read(OPERATION, |db| async move { turns::next_turn(&db, lease).await }).await? {
            // The message that would join it may be on its way to the database: whoever is about to begin an album must
            // read it behind everything that was let in while it could be joined.
            Some(read) if read.is_ready_album => {
                let read = self.write(OPERATION, |db| async move { turns::next_turn(&db, lease).await }).await?;
                Ok(read.map(|read| read.turn))
            }
            read => Ok(read.map(|read| read.turn)),
        }
    }

    async fn list_queued_behind(&self, lease: &Lease, turn: TurnId) -> Result<Vec<QueuedMessage>, LedgerError> {
        self.read("listing messages queued behind a turn", |db| async move {
            turns::list_queued_behind(&db, lease, turn).await
        })
        .await
    }

    async fn store_file(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        file: &NewAttachment,
    ) -> Result<Attachment, LedgerError> {
        self.write(
            "storing a file's record",
            |db| async move { inbox::store_file(&db, lease, message, index, file).await },
        )
        .await
    }

    async fn refuse_file(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        refused: &RefusedFile,
    ) -> Result<(), LedgerError> {
        self.write("recording a refused file", |db| async move {
            inbox::refuse_file(&db, lease, message, index, refused).await
        })
        .await
    }

    async fn record_transcription(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        transcription: &Transcription,
    ) -> Result<(), LedgerError> {
        self.write("recording a transcription", |db| async move {
            inbox::record_transcription(&db, lease, message, index, transcription).await
        })
        .await
    }

    async fn journal_message(&self, lease: &Lease, turn: TurnId, entry: &JournalEntry) -> Result<(), LedgerError> {
        self.write("journalling a message", |db| async move { journal::journal_message(&db, lease, turn, entry).await })
            .await
    }

    async fn journal_decision(&self, lease: &Lease, decision: &CallDecision) -> Result<(), LedgerError> {
        self.write("journalling a decision", |db| async move { journal::journal_decision(&db, lease, decision).await })
            .await
    }

    async fn journal_outcome(
        &self,
        lease: &Lease,
        turn: TurnId,
        ordinal: u32,
        outcome: &ToolOutcome,
        changes: &[FileChange],
    ) -> Result<RecordedOutcome, LedgerError> {
        self.write("journalling an outcome", |db| async move {
            journal::journal_outcome(&db, lease, turn, ordinal, outcome.clone(), changes).await
        })
        .await
    }

    async fn register_files(&self, turn: TurnId, files: &[NewAttachment]) -> Result<Vec<Attachment>, LedgerError> {
        self.write("registering files", |db| async move { journal::register_files(&db, turn, files).await }).await
    }

    async fn complete_turn(&self, lease: &Lease, completed: &CompletedTurn) -> Result<Option<Part>, LedgerError> {
        self.write(
            "completing a turn",
            |db| async move { complete::complete_turn(&db, lease, completed.clone()).await },
        )
        .await
    }
}
