//! What the page's settings show of this process, and what owners can do there, by the functions of the command line.

mod overview;
mod settings;

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{
    ChannelName, PairingCode, Part, PartContent, PartId, PartState, Sender, Timestamp, part::FileItem,
    size::format_bytes,
};
use satchel_ports::{
    Clock, Ledger, LedgerError, ToolSpec,
    ledger::{OutboxQuery, Pairing, PairingOutcome, Person},
};
use satchel_web::{
    Administration, AdministrationError, SystemFinding, SystemOverview, SystemPairing, SystemPart, SystemPeople,
    SystemPerson, SystemSetting,
};

use crate::{
    commands::{
        doctor::{self, Finding, FindingLevel},
        one_line, outbox, pair,
    },
    config::LoadedConfig,
    models::ModelSelection,
};

/// The most parts that are listed.
const MAX_PARTS: u32 = 200;

/// This process, as its owners see it.
pub(super) struct RunningSystem {
    pub(super) loaded: Arc<LoadedConfig>,
    pub(super) selection: ModelSelection,
    pub(super) ledger: Ledger,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) started_at: Timestamp,
    /// The channels that it hosts.
    pub(super) channels: Vec<ChannelName>,
    /// The models that can be chosen.
    pub(super) model_names: Vec<String>,
    pub(super) tools: Arc<[ToolSpec]>,
}

#[async_trait]
impl Administration for RunningSystem {
    async fn overview(&self) -> Result<SystemOverview, AdministrationError> {
        Ok(self.describe().await?)
    }

    async fn check(&self) -> Vec<SystemFinding> {
        doctor::collect_findings(&self.loaded, 1).await.into_iter().map(to_system_finding).collect()
    }

    fn settings(&self) -> Vec<SystemSetting> {
        settings::list(&self.loaded, &self.selection)
    }

    async fn people(&self) -> Result<SystemPeople, AdministrationError> {
        let pairings = self.ledger.pairings.list_pairings().await?;
        let approved = self.ledger.pairings.list_people().await?;
        let people = settings::configured_people(&self.loaded);
        let people = people.into_iter().chain(approved.into_iter().map(to_system_person));
        Ok(SystemPeople { pairings: pairings.into_iter().map(to_system_pairing).collect(), people: people.collect() })
    }

    async fn decide_pairing(&self, code: PairingCode, approve: bool) -> Result<(), AdministrationError> {
        let refusal = match pair::decide(&*self.ledger.pairings, code, approve).await? {
            PairingOutcome::Approved(_) | PairingOutcome::Refused(_) => return Ok(()),
            PairingOutcome::AlreadyUsed { approved, .. } if approved == approve => return Ok(()),
            PairingOutcome::AlreadyUsed { approved: true, .. } => {
                "This person is already approved. To withdraw that, revoke the approval.".to_owned()
            }
            PairingOutcome::AlreadyUsed { .. } => {
                "This person was already refused, and gets a new code after a day.".to_owned()
            }
            PairingOutcome::Expired | PairingOutcome::UnknownCode { .. } => {
                "This code has expired. The person gets a new one when they write again.".to_owned()
            }
            PairingOutcome::LockedOut { .. } => "There were too many wrong codes. Try again in an hour.".to_owned(),
        };
        Err(AdministrationError::Refused(refusal))
    }

    async fn revoke_person(&self, channel: &ChannelName, id: &str) -> Result<(), AdministrationError> {
        self.ledger.pairings.revoke_person(channel, id).await?;
        Ok(())
    }

    async fn outbox(&self) -> Result<Vec<SystemPart>, AdministrationError> {
        let query = OutboxQuery { limit: Some(MAX_PARTS), ..OutboxQuery::default() };
        let parts = self.ledger.archive.parts(&query).await?;
        Ok(parts.iter().map(to_system_part).collect())
    }

    async fn discard_part(&self, part: PartId) -> Result<(), AdministrationError> {
        match self.ledger.outbox.discard_part(part).await {
            Ok(()) => return Ok(()),
            Err(LedgerError::AlreadySettled(_) | LedgerError::Unknown { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let found = outbox::read_part(&*self.ledger.archive, part).await?;
        let refusal = match found.ok_or(AdministrationError::Unknown("part"))?.state {
            // It was given up before.
            PartState::Failed { .. } => return Ok(()),
            PartState::Sent { .. } | PartState::Replaced { .. } => "It has arrived meanwhile.",
            _ => "It is being sent right now. Try again in a moment.",
        };
        Err(AdministrationError::Refused(refusal.to_owned()))
    }

    async fn resend_part(&self, part: PartId, key: &str) -> Result<(), AdministrationError> {
        let found = outbox::read_part(&*self.ledger.archive, part).await?;
        let found = found.ok_or(AdministrationError::Unknown("part"))?;
        if let Some(reason) = outbox::resend_obstacle(&found) {
            return Err(AdministrationError::Refused(format!("This part {reason}.")));
        }
        outbox::queue_resend(&self.ledger, &found, key).await?;
        Ok(())
    }
}

fn to_system_finding(finding: Finding) -> SystemFinding {
    let Finding { check, level, found, advice } = finding;
    let level = match level {
        FindingLevel::Ok => "ok",
        FindingLevel::Warning => "warning",
        FindingLevel::Problem => "problem",
    };
    SystemFinding { check: check.to_owned(), level, found, advice }
}

fn to_system_pairing(pairing: Pairing) -> SystemPairing {
    let Pairing { code, person, conversation, expires_at, .. } = pairing;
    let Sender { id, name, handle } = person;
    let channel = conversation.channel().to_string();
    SystemPairing { code: code.to_string(), channel, id, name, handle, expires_at: expires_at.0 }
}

fn to_system_person(approved: Person) -> SystemPerson {
    let Person { channel, person, approved_at, approved_by } = approved;
    let Sender { id, name, handle } = person;
    SystemPerson {
        channel: channel.to_string(),
        id,
        name,
        handle,
        role: "user",
        configured_at: None,
        approved_at: Some(approved_at.0),
        approved_by: Some(approved_by),
    }
}

fn to_system_part(part: &Part) -> SystemPart {
    let reason = match &part.state {
        PartState::Failed { reason } => Some(reason.to_string()),
        PartState::Waiting { reason, .. } | PartState::InDoubt { reason, .. } => Some(reason.clone()),
        _ => None,
    };
    let can_discard = !part.is_draft()
        && matches!(part.state, PartState::Pending | PartState::Waiting { .. } | PartState::InDoubt { .. });
    SystemPart {
        id: part.id.to_string(),
        conversation: part.conversation.to_string(),
        operation: part.operation.kind().to_owned(),
        content: describe_content(part),
        state: part.state.as_str().to_owned(),
        reason: reason.map(|reason| one_line(&reason, 200)),
        attempts: part.attempts,
        created_at: part.created_at.0,
        can_discard,
        can_resend: matches!(part.state, PartState::Failed { .. }) && outbox::resend_obstacle(part).is_none(),
    }
}

/// What a part is, without its words: they stay in their conversation.
fn describe_content(part: &Part) -> String {
    let kind = match part.content() {
        _ if part.is_draft() => return "a reply that is still being written".to_owned(),
        Some(PartContent::Text { .. }) => Some("text"),
        Some(PartContent::Voice { .. }) => Some("voice message"),
        Some(PartContent::Notice { .. }) => Some("notice"),
        Some(PartContent::Question { .. }) => Some("question"),
        Some(PartContent::File(_) | PartContent::Album { .. }) => None,
        None => Some("draft without text"),
    };
    let file = |item: &FileItem| format!("{} ({})", item.attachment.filename, format_bytes(item.attachment.bytes));
    let files = part.operation.files().iter().map(file);
    kind.map(str::to_owned).into_iter().chain(files).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
