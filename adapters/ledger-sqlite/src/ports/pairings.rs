//! The port `Pairings`: codes of strangers, and approved people.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::ChannelName;
use satchel_ports::ledger::{
    LedgerError, Pairing, PairingDecision, PairingOutcome, PairingRequest, PairingRules, Pairings, Person,
};

use super::read;
use crate::{SqliteLedger, people};

#[async_trait]
impl Pairings for SqliteLedger {
    async fn issue_pairing_code(
        &self,
        stranger: &PairingRequest,
        rules: &PairingRules,
    ) -> Result<Option<Pairing>, LedgerError> {
        // Most who write have a code, or get none; a flood of them must not become a flood of commits.
        if let Some(known) = read!(self, "issuing a pairing code", people::find_answer, &self.process, stranger, rules)?
        {
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
        self.writer
            .write("deciding a pairing code", move |s| {
                Box::pin(async move { people::decide(s, &process, &decision, &rules).await })
            })
            .await
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
}
