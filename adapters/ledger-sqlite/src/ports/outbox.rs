//! The port `Outbox`: the parts on their way.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{CallId, ConversationId, MessageRef, Part, PartId, Timestamp, TurnId};
use satchel_ports::ledger::{Lease, LedgerError, NewQuestion, Outbox, RecordedMessages, SettleOutcome, Settlement};

use super::read;
use crate::{SqliteLedger, drafts, parts, queries, questions, recorded_messages};

#[async_trait]
impl Outbox for SqliteLedger {
    async fn open_draft(
        &self,
        lease: &Lease,
        turn: TurnId,
        reply_to: Option<MessageRef>,
    ) -> Result<Option<Part>, LedgerError> {
        // Asked again and again while an earlier reply is under way, so that is looked at without a commit.
        if read!(self, "reading parts in progress", drafts::must_wait, lease, turn)? {
            return Ok(None);
        }
        self.held.crowd(lease);
        let (process, lease) = (Arc::clone(&self.process), lease.clone());
        self.writer
            .write("opening a draft", move |s| {
                Box::pin(async move { drafts::open(s, &process, &lease, turn, reply_to).await })
            })
            .await
    }

    async fn open_question(&self, lease: &Lease, question: &NewQuestion) -> Result<Part, LedgerError> {
        self.held.crowd(lease);
        let (process, lease, question) = (Arc::clone(&self.process), lease.clone(), question.clone());
        self.writer
            .write("opening a question", move |s| {
                Box::pin(async move { questions::open(s, &process, &lease, question).await })
            })
            .await
    }

    async fn close_question(&self, lease: &Lease, call: CallId, text: &str) -> Result<(), LedgerError> {
        let (process, lease, text) = (Arc::clone(&self.process), lease.clone(), text.to_owned());
        self.writer
            .write("closing a question", move |s| {
                Box::pin(async move { questions::close(s, &process, &lease, call, &text).await })
            })
            .await
    }

    async fn next_part(&self, lease: &Lease) -> Result<Option<Part>, LedgerError> {
        read!(self, "reading the next part", parts::next, lease)
    }

    async fn save_part(&self, lease: &Lease, part: &Part) -> Result<(), LedgerError> {
        let (process, lease, part) = (Arc::clone(&self.process), lease.clone(), part.clone());
        self.writer
            .write("saving a part", move |s| Box::pin(async move { parts::save(s, &process, &lease, &part).await }))
            .await
    }

    async fn settle_part(&self, lease: &Lease, settlement: &Settlement) -> Result<SettleOutcome, LedgerError> {
        self.end_part(lease, settlement).await
    }

    async fn discard_part(&self, part: PartId) -> Result<(), LedgerError> {
        self.writer.write("discarding a part", move |s| Box::pin(parts::discard(s, part))).await
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
}
