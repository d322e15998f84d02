//! `satchel pair …`: people who are approved with a code.

use std::io::Write;

use anyhow::bail;
use satchel_domain::{ChannelName, PairingCode, Sender};
use satchel_ports::{
    LedgerError, Pairings,
    ledger::{Pairing, PairingDecision, PairingOutcome, PairingRules, Person},
};

use super::{format_timestamp, one_line, outbox::OPERATOR, write_json, write_table};

/// How many characters of a name are shown at most.
const MAX_NAME_CHARS: usize = 60;

/// Lists the people who are waiting for approval, and those who are approved.
///
/// # Errors
/// When the ledger fails or the output can't be written.
pub async fn list(pairings: &dyn Pairings, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let (pairings, people) = (pairings.list_pairings().await?, pairings.list_people().await?);
    if json {
        return Ok(write_json(out, &serde_json::json!({ "version": 1, "asking": pairings, "let_in": people }))?);
    }
    if pairings.is_empty() && people.is_empty() {
        writeln!(out, "no one is waiting for approval, and no one was approved with a code")?;
        return Ok(());
    }
    let pending_rows = pairings.iter().map(|Pairing { code, person, conversation, expires_at, .. }| {
        let until = format!("waiting, until {}", format_timestamp(*expires_at));
        vec![
            conversation.channel().to_string(),
            one_line(&person.id, MAX_NAME_CHARS),
            display_name(person),
            until,
            code.to_string(),
        ]
    });
    let approved_rows = people.iter().map(|Person { channel, person, approved_at, approved_by }| {
        let since = format!("approved, {}", format_timestamp(*approved_at));
        let by = format!("by {}", one_line(approved_by, MAX_NAME_CHARS));
        vec![channel.to_string(), one_line(&person.id, MAX_NAME_CHARS), display_name(person), since, by]
    });
    write_table(out, &pending_rows.chain(approved_rows).collect::<Vec<_>>())?;
    Ok(())
}

/// Approves the person of a code. The process that hosts their channel notifies them.
///
/// # Errors
/// When the code can't be used, the ledger fails, or the output can't be written.
pub async fn approve(pairings: &dyn Pairings, code: PairingCode, out: &mut dyn Write) -> anyhow::Result<()> {
    match decide(pairings, code, true).await? {
        PairingOutcome::Approved(Pairing { person, conversation, .. }) => {
            let (name, id) = (display_name(&person), one_line(&person.id, MAX_NAME_CHARS));
            writeln!(out, "approved: {name}, id {id}, on {}; they will be told", conversation.channel())?;
            Ok(())
        }
        PairingOutcome::Refused(_) => bail!("the code was refused"),
        PairingOutcome::AlreadyUsed { person, approved } => {
            let verb = if approved { "approved" } else { "refused" };
            bail!("the code was already used: it {verb} {}", display_name(&person))
        }
        PairingOutcome::Expired => bail!("the code has expired; the person gets a new one when they write again"),
        PairingOutcome::UnknownCode { tries_left } => {
            bail!("there is no such code; `satchel pair list` shows the valid ones (tries left: {tries_left})")
        }
        PairingOutcome::LockedOut { until } => {
            bail!("too many wrong codes; try again after {}", format_timestamp(until))
        }
    }
}

/// Decides about a code for the operator, who may do so on all channels.
///
/// # Errors
/// When the ledger fails.
pub(crate) async fn decide(
    pairings: &dyn Pairings,
    code: PairingCode,
    approve: bool,
) -> Result<PairingOutcome, LedgerError> {
    let decision = PairingDecision { code, approve, channel: None, decided_by: OPERATOR.to_owned() };
    pairings.decide_pairing(&decision, &PairingRules::default()).await
}

/// Revokes an approval.
///
/// # Errors
/// When nobody with that id is approved, the ledger fails, or the output can't be written.
pub async fn revoke(
    pairings: &dyn Pairings,
    channel: &ChannelName,
    id: &str,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if !pairings.revoke_person(channel, id).await? {
        bail!(
            "id {} was not approved with a code on {channel}; if the configuration allows them, remove them there",
            one_line(id, MAX_NAME_CHARS)
        );
    }
    writeln!(out, "revoked: {} on {channel}", one_line(id, MAX_NAME_CHARS))?;
    Ok(())
}

fn display_name(person: &Sender) -> String {
    let handle =
        person.handle.as_ref().map(|handle| format!(" (@{})", one_line(handle, MAX_NAME_CHARS))).unwrap_or_default();
    format!("{}{handle}", one_line(&person.name, MAX_NAME_CHARS))
}

#[cfg(test)]
mod tests;
