//! The port `Turns`: what turns work from and record.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{Attachment, InboxId, NewAttachment, Part, RecordedOutcome, RefusedFile, ToolOutcome, TurnId};
use satchel_ports::{
    FileChange,
    ledger::{
        CallDecision, CompletedTurn, JournalEntry, Lease, LedgerError, QueuedMessage, QueuedTurn, Transcription, Turns,
    },
};

use super::read;
use crate::{SqliteLedger, inbox, journal, turns, voice};

#[async_trait]
impl Turns for SqliteLedger {
    async fn next_turn(&self, lease: &Lease) -> Result<Option<QueuedTurn>, LedgerError> {
        const DOING: &str = "reading the next turn";
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
        file: &NewAttachment,
    ) -> Result<Attachment, LedgerError> {
        let (process, lease, file) = (Arc::clone(&self.process), lease.clone(), file.clone());
        self.writer
            .write("storing a file's record", move |s| {
                Box::pin(async move { inbox::store_file(s, &process, &lease, message, index, &file).await })
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
        transcription: &Transcription,
    ) -> Result<(), LedgerError> {
        let (lease, transcription) = (lease.clone(), transcription.clone());
        self.writer
            .write("recording a transcription", move |s| {
                Box::pin(async move { voice::record_transcription(s, &lease, message, index, &transcription).await })
            })
            .await
    }

    async fn journal_message(&self, lease: &Lease, turn: TurnId, entry: &JournalEntry) -> Result<(), LedgerError> {
        let (lease, entry) = (lease.clone(), entry.clone());
        self.writer
            .write("journalling a message", move |s| {
                Box::pin(async move { journal::journal_message(s, &lease, turn, &entry).await })
            })
            .await
    }

    async fn journal_decision(&self, lease: &Lease, decision: &CallDecision) -> Result<(), LedgerError> {
        let (process, lease, decision) = (Arc::clone(&self.process), lease.clone(), decision.clone());
        self.writer
            .write("journalling a decision", move |s| {
                Box::pin(async move { journal::journal_decision(s, &process, &lease, &decision).await })
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
    ) -> Result<RecordedOutcome, LedgerError> {
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

    async fn register_files(&self, turn: TurnId, files: &[NewAttachment]) -> Result<Vec<Attachment>, LedgerError> {
        let (process, files) = (Arc::clone(&self.process), files.to_vec());
        self.writer
            .write("registering files", move |s| {
                Box::pin(async move { journal::register_files(s, &process, turn, files).await })
            })
            .await
    }

    async fn complete_turn(&self, lease: &Lease, completed: &CompletedTurn) -> Result<Option<Part>, LedgerError> {
        self.end_turn(lease, completed).await
    }
}
