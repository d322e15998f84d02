//! The port `Pairings`: codes of strangers, and approved people.

use async_trait::async_trait;
use satchel_domain::ChannelName;
use satchel_ports::ledger::{
    LedgerError, Pairing, PairingDecision, PairingOutcome, PairingRequest, PairingRules, Pairings, Person,
};

use crate::{PostgresLedger, people};

#[async_trait]
impl Pairings for PostgresLedger {
    async fn issue_pairing_code(
        &self,
        stranger: &PairingRequest,
        rules: &PairingRules,
    ) -> Result<Option<Pairing>, LedgerError> {
        const OPERATION: &str = "issuing a pairing code";
        // Most who write have a code, or get none; a flood of them must not become a flood of commits.
        let known = self.read(OPERATION, |db| async move { people::find_answer(&db, stranger, rules).await }).await?;
        if let Some(known) = known {
            return Ok(known);
        }
        self.write(OPERATION, |db| async move { people::introduce(&db, stranger, rules).await }).await
    }

    async fn decide_pairing(
        &self,
        decision: &PairingDecision,
        rules: &PairingRules,
    ) -> Result<PairingOutcome, LedgerError> {
        self.write("deciding a pairing code", |db| async move { people::decide(&db, decision, rules).await }).await
    }

    async fn list_pairings(&self) -> Result<Vec<Pairing>, LedgerError> {
        self.read("listing pairing codes", |db| async move { people::pairings(&db).await }).await
    }

    async fn is_approved(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError> {
        self.read("checking an approval", |db| async move { people::is_approved(&db, channel, id).await }).await
    }

    async fn list_people(&self) -> Result<Vec<Person>, LedgerError> {
        self.read("listing approved people", |db| async move { people::people(&db).await }).await
    }

    async fn revoke_person(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError> {
        self.write("revoking an approval", |db| async move { people::revoke(&db, channel, id).await }).await
    }
}
