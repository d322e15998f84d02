//! The port `Outbox`: the parts on their way.

use async_trait::async_trait;
use satchel_domain::{CallId, ConversationId, MessageRef, Part, PartId, TurnId};
use satchel_ports::ledger::{Lease, LedgerError, NewQuestion, Outbox, RecordedMessages, SettleOutcome, Settlement};

use crate::{PostgresLedger, drafts, parts, queries, questions, recorded_messages, settle};

#[async_trait]
impl Outbox for PostgresLedger {
    async fn open_draft(
        &self,
        lease: &Lease,
        turn: TurnId,
        reply_to: Option<MessageRef>,
    ) -> Result<Option<Part>, LedgerError> {
        // Asked again and again while an earlier reply is under way, so that is looked at without a commit.
        if self.read("reading parts in progress", |db| async move { drafts::must_wait(&db, lease, turn).await }).await?
        {
            return Ok(None);
        }
        let reply_to = &reply_to;
        self.write("opening a draft", |db| async move { drafts::open(&db, lease, turn, reply_to.clone()).await }).await
    }

    async fn open_question(&self, lease: &Lease, question: &NewQuestion) -> Result<Part, LedgerError> {
        self.write("opening a question", |db| async move { questions::open(&db, lease, question.clone()).await }).await
    }

    async fn close_question(&self, lease: &Lease, call: CallId, text: &str) -> Result<(), LedgerError> {
        self.write("closing a question", |db| async move { questions::close(&db, lease, call, text).await }).await
    }

    async fn next_part(&self, lease: &Lease) -> Result<Option<Part>, LedgerError> {
        self.read("reading the next part", |db| async move { parts::next(&db, lease).await }).await
    }

    async fn save_part(&self, lease: &Lease, part: &Part) -> Result<(), LedgerError> {
        self.write("saving a part", |db| async move { parts::save(&db, lease, part).await }).await
    }

    async fn settle_part(&self, lease: &Lease, settlement: &Settlement) -> Result<SettleOutcome, LedgerError> {
        self.write("settling a part", |db| async move { settle::settle_part(&db, lease, settlement).await }).await
    }

    async fn discard_part(&self, part: PartId) -> Result<(), LedgerError> {
        self.write("discarding a part", |db| async move { parts::discard(&db, part).await }).await
    }

    async fn last_sent_before(&self, part: PartId) -> Result<Option<MessageRef>, LedgerError> {
        self.read("reading the message before a part", |db| async move { queries::last_sent_before(&db, part).await })
            .await
    }

    async fn list_recorded_messages(
        &self,
        conversation: &ConversationId,
        part: PartId,
    ) -> Result<RecordedMessages, LedgerError> {
        self.read("reading the messages around a part", |db| async move {
            recorded_messages::list_recorded_messages(&db, conversation, part).await
        })
        .await
    }
}
