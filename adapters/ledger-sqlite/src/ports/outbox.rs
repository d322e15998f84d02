//! The port `Outbox`: the parts on their way.

use async_trait::async_trait;
use satchel_domain::{CallId, ConversationId, MessageRef, Part, PartId, TurnId};
use satchel_ports::ledger::{Lease, LedgerError, NewQuestion, Outbox, RecordedMessages, SettleOutcome, Settlement};

use crate::{SqliteLedger, drafts, parts, queries, questions, recorded_messages, settle};

#[async_trait]
impl Outbox for SqliteLedger {
    async fn open_draft(
        &self,
        lease: &Lease,
        turn: TurnId,
        reply_to: Option<MessageRef>,
    ) -> Result<Option<Part>, LedgerError> {
        // Asked again and again while an earlier reply is under way, so that is looked at without a commit.
        let of_lease = lease.clone();
        if self.read("reading parts in progress", move |db| drafts::must_wait(db, &of_lease, turn)).await? {
            return Ok(None);
        }
        let lease = lease.clone();
        self.writer.run("opening a draft", move |db| drafts::open(db, &lease, turn, reply_to)).await
    }

    async fn open_question(&self, lease: &Lease, question: &NewQuestion) -> Result<Part, LedgerError> {
        let (lease, question) = (lease.clone(), question.clone());
        self.writer.run("opening a question", move |db| questions::open(db, &lease, question)).await
    }

    async fn close_question(&self, lease: &Lease, call: CallId, text: &str) -> Result<(), LedgerError> {
        let (lease, text) = (lease.clone(), text.to_owned());
        self.writer.run("closing a question", move |db| questions::close(db, &lease, call, &text)).await
    }

    async fn next_part(&self, lease: &Lease) -> Result<Option<Part>, LedgerError> {
        let lease = lease.clone();
        self.read("reading the next part", move |db| parts::next(db, &lease)).await
    }

    async fn save_part(&self, lease: &Lease, part: &Part) -> Result<(), LedgerError> {
        let (lease, part) = (lease.clone(), part.clone());
        self.writer.run("saving a part", move |db| parts::save(db, &lease, &part)).await
    }

    async fn settle_part(&self, lease: &Lease, settlement: &Settlement) -> Result<SettleOutcome, LedgerError> {
        let (lease, settlement) = (lease.clone(), settlement.clone());
        self.writer.run("settling a part", move |db| settle::settle_part(db, &lease, &settlement)).await
    }

    async fn discard_part(&self, part: PartId) -> Result<(), LedgerError> {
        self.writer.run("discarding a part", move |db| parts::discard(db, part)).await
    }

    async fn last_sent_before(&self, part: PartId) -> Result<Option<MessageRef>, LedgerError> {
        self.read("reading the message before a part", move |db| queries::last_sent_before(db, part)).await
    }

    async fn list_recorded_messages(
        &self,
        conversation: &ConversationId,
        part: PartId,
    ) -> Result<RecordedMessages, LedgerError> {
        let conversation = conversation.clone();
        self.read("reading the messages around a part", move |db| {
            recorded_messages::list_recorded_messages(db, &conversation, part)
        })
        .await
    }
}
