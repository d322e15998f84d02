//! `satchel pair …`: who may talk besides those whom the configuration names.

use std::io::Write;

use anyhow::bail;
use satchel_domain::{ChannelName, PairingCode, Sender};
use satchel_ports::{
    Ledger,
    ledger::people::{Pairing, PairingDecision, PairingOutcome, PairingRules, Person},
};

use super::{format_timestamp, one_line, outbox::OPERATOR, write_json, write_table};

/// How many characters of a name are shown.
const NAME: usize = 60;

/// Lists who asks to be let in, and who was.
///
/// # Errors
/// When the ledger fails or the output can't be written.
pub async fn list(ledger: &dyn Ledger, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let (pairings, people) = (ledger.list_pairings().await?, ledger.list_people().await?);
    if json {
        return Ok(write_json(out, &serde_json::json!({ "version": 1, "asking": pairings, "let_in": people }))?);
    }
    if pairings.is_empty() && people.is_empty() {
        writeln!(out, "no one is waiting for approval, and no one was approved with a code")?;
        return Ok(());
    }
    let asking = pairings.iter().map(|Pairing { code, person, conversation, expires_at, .. }| {
        let until = format!("waiting, until {}", format_timestamp(*expires_at));
        vec![conversation.channel().to_string(), one_line(&person.id, NAME), name_of(person), until, code.to_string()]
    });
    let let_in = people.iter().map(|Person { channel, person, approved_at, approved_by }| {
        let since = format!("approved, {}", format_timestamp(*approved_at));
        let by = format!("by {}", one_line(approved_by, NAME));
        vec![channel.to_string(), one_line(&person.id, NAME), name_of(person), since, by]
    });
    write_table(out, &asking.chain(let_in).collect::<Vec<_>>())?;
    Ok(())
}

/// Lets the person of a code in. Whoever serves their channel tells them.
///
/// # Errors
/// When the code can't be used, the ledger fails, or the output can't be written.
pub async fn approve(ledger: &dyn Ledger, code: PairingCode, out: &mut dyn Write) -> anyhow::Result<()> {
    let decision = PairingDecision { code, approve: true, channel: None, decided_by: OPERATOR.to_owned() };
    let judged = ledger.decide_pairing(&decision, &PairingRules::default()).await?;
    match judged {
        PairingOutcome::Approved(Pairing { person, conversation, .. }) => {
            let (who, id) = (name_of(&person), one_line(&person.id, NAME));
            writeln!(out, "approved: {who}, id {id}, on {}; they will be told", conversation.channel())?;
            Ok(())
        }
        PairingOutcome::Refused(_) => bail!("the code was refused"),
        PairingOutcome::AlreadyUsed { person, approved } => {
            let what = if approved { "approved" } else { "refused" };
            bail!("the code was already used: it {what} {}", name_of(&person))
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

/// Revokes an approval.
///
/// # Errors
/// When nobody was by that id, the ledger fails, or the output can't be written.
pub async fn revoke(ledger: &dyn Ledger, channel: &ChannelName, id: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    if !ledger.revoke_person(channel, id).await? {
        bail!(
            "id {} was not approved with a code on {channel}; if the configuration allows them, remove them there",
            one_line(id, NAME)
        );
    }
    writeln!(out, "revoked: {} on {channel}", one_line(id, NAME))?;
    Ok(())
}

fn name_of(person: &Sender) -> String {
    let handle = person.handle.as_ref().map(|handle| format!(" (@{})", one_line(handle, NAME))).unwrap_or_default();
    format!("{}{handle}", one_line(&person.name, NAME))
}

#[cfg(test)]
mod tests;
