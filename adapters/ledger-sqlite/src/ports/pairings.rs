//! The port `Pairings`: codes of strangers, and approved people.

use async_trait::async_trait;
use satchel_domain::ChannelName;
use satchel_ports::ledger::{
    LedgerError, Pairing, PairingDecision, PairingOutcome, PairingRequest, PairingRules, Pairings, Person,
};

use crate::{SqliteLedger, people};

#[async_trait]
impl Pairings for SqliteLedger {
    async fn issue_pairing_code(
        &self,
        stranger: &PairingRequest,
        rules: &PairingRules,
    ) -> Result<Option<Pairing>, LedgerError> {
        const OPERATION: &str = "issuing a pairing code";
        let (request, rules) = (stranger.clone(), *rules);
        // Most who write have a code, or get none; a flood of them must not become a flood of commits.
        let known = self.read(OPERATION, move |db| people::find_answer(db, &request, &rules)).await?;
        if let Some(known) = known {
            return Ok(known);
        }
        let stranger = stranger.clone();
        self.writer.run(OPERATION, move |db| people::introduce(db, &stranger, &rules)).await
    }

    async fn decide_pairing(
        &self,
        decision: &PairingDecision,
        rules: &PairingRules,
    ) -> Result<PairingOutcome, LedgerError> {
        let (decision, rules) = (decision.clone(), *rules);
        self.writer.run("deciding a pairing code", move |db| people::decide(db, &decision, &rules)).await
    }

    async fn list_pairings(&self) -> Result<Vec<Pairing>, LedgerError> {
        self.read("listing pairing codes", people::pairings).await
    }

    async fn is_approved(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError> {
        let (channel, id) = (channel.clone(), id.to_owned());
        self.read("checking an approval", move |db| people::is_approved(db, &channel, &id)).await
    }

    async fn list_people(&self) -> Result<Vec<Person>, LedgerError> {
        self.read("listing approved people", people::people).await
    }

    async fn revoke_person(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError> {
        let (channel, id) = (channel.clone(), id.to_owned());
        self.writer.run("revoking an approval", move |db| people::revoke(db, &channel, &id)).await
    }
}
