//! `/pair`: how an owner approves and refuses people and revokes approvals.

use std::fmt::Write;

use satchel_domain::{ChannelName, ConversationId, OutgoingResponse, PairingCode, Sender, Timestamp, TurnId};
use satchel_ports::{
    LedgerError, Pairings,
    ledger::{Pairing, PairingDecision, PairingOutcome, PairingRules, Person},
};

use crate::{
    access::AccessPolicy,
    system_tasks::{describe_sender, inline_name},
};

/// How many people and codes a list shows.
const MAX_LISTED: usize = 30;

/// A subcommand of `/pair`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairCommand {
    /// Lists the open codes and the approved people.
    List,
    /// Approves the person of a code; the code as it was given.
    Approve(String),
    /// Refuses the person of a code; the code as it was given.
    Refuse(String),
    /// Revokes an approval.
    Revoke {
        /// Where, if that was said.
        channel: Option<String>,
        id: String,
    },
    Help,
}

impl PairCommand {
    /// Reads what stands behind `/pair`.
    #[must_use]
    pub fn parse(arguments: &[String]) -> Self {
        let Some((verb, rest)) = arguments.split_first() else { return Self::Help };
        match (verb.to_lowercase().as_str(), rest) {
            ("list", []) => Self::List,
            ("approve", [_, ..]) => Self::Approve(rest.concat()),
            ("refuse", [_, ..]) => Self::Refuse(rest.concat()),
            ("revoke", [id]) => Self::Revoke { channel: None, id: id.clone() },
            ("revoke", [channel, id]) => Self::Revoke { channel: Some(channel.clone()), id: id.clone() },
            _ => Self::Help,
        }
    }
}

/// Who gave a command, and where.
#[derive(Debug, Clone, Copy)]
pub struct CommandContext<'a> {
    /// The turn that answers it; the same when the command is repeated after a crash.
    pub turn: TurnId,
    /// Whether a process died after it had started to answer, and so may have run the command.
    pub repeated: bool,
    pub conversation: &'a ConversationId,
    /// Whether others read along.
    pub group: bool,
    pub sender: &'a Sender,
    /// Who may do what.
    pub access: &'a AccessPolicy,
    /// When it runs.
    pub now: Timestamp,
}

impl CommandContext<'_> {
    /// Whether they own this Satchel.
    #[must_use]
    pub fn is_by_owner(&self) -> bool {
        self.access.is_owner(self.conversation.channel(), self.sender)
    }

    /// The channel about which they decide; `None` for all, where nobody but the owner of the machine or its token comes.
    pub(crate) fn channel(&self) -> Option<&ChannelName> {
        let channel = self.conversation.channel();
        (!self.access.can_decide_everywhere(channel)).then_some(channel)
    }
}

/// Runs `/pair`. Only an owner's codes are evaluated.
///
/// # Errors
/// When the ledger fails.
pub async fn handle_pair_command(
    command: &PairCommand,
    pairings: &dyn Pairings,
    context: &CommandContext<'_>,
) -> Result<OutgoingResponse, LedgerError> {
    if !context.is_by_owner() {
        return Ok(OutgoingResponse::from_text("Only an owner can approve people."));
    }
    if context.group {
        return Ok(OutgoingResponse::from_text(
            "Other people can read this chat. Please send me that command in a private chat.",
        ));
    }
    let text = match command {
        PairCommand::List => list_pairings(pairings, context).await?,
        PairCommand::Approve(code) => decide_code(pairings, context, code, true).await?,
        PairCommand::Refuse(code) => decide_code(pairings, context, code, false).await?,
        PairCommand::Revoke { channel, id } => revoke_person(pairings, context, channel.as_deref(), id).await?,
        PairCommand::Help => HELP.to_owned(),
    };
    Ok(OutgoingResponse::from_text(text))
}

const HELP: &str = "\
- `/pair list` shows who wants to talk to me and whom you approved
- `/pair approve ABCD-EFGH` approves the person with that code
- `/pair refuse ABCD-EFGH` refuses them; they get no new code for a day
- `/pair revoke ID` withdraws an approval";

async fn decide_code(
    pairings: &dyn Pairings,
    context: &CommandContext<'_>,
    code: &str,
    approve: bool,
) -> Result<String, LedgerError> {
    let Ok(code) = code.parse::<PairingCode>() else {
        return Ok("That isn't a pairing code. A code looks like `ABCD-EFGH`.".to_owned());
    };
    let decided_by = format!("{}:{}", context.conversation.channel(), context.sender.id);
    let decision = PairingDecision { code, approve, channel: context.channel().cloned(), decided_by };
    Ok(describe_outcome(&pairings.decide_pairing(&decision, &PairingRules::default()).await?, context.now))
}

/// Describes the outcome of a decision to the person who sent the code.
#[must_use]
pub fn describe_outcome(outcome: &PairingOutcome, now: Timestamp) -> String {
    match outcome {
        PairingOutcome::Approved(pairing) => format!("{} is approved. I've told them.", inline_name(&pairing.person)),
        PairingOutcome::Refused(pairing) => {
            format!("{} is refused and gets no new code for a day.", inline_name(&pairing.person))
        }
        PairingOutcome::AlreadyUsed { person, approved: true } => {
            format!("This code was already used: it approved {}.", inline_name(person))
        }
        PairingOutcome::AlreadyUsed { person, approved: false } => {
            format!("This code was already used: it refused {}.", inline_name(person))
        }
        PairingOutcome::Expired => {
            "This code has expired. The person gets a new one when they write to me again.".to_owned()
        }
        PairingOutcome::UnknownCode { tries_left: 0 } => {
            "There is no such code. That was one wrong code too many: I'll ignore codes from you for an hour."
                .to_owned()
        }
        PairingOutcome::UnknownCode { tries_left } => {
            let tries = if *tries_left == 1 { "try" } else { "tries" };
            format!(
                "There is no such code. You have {tries_left} {tries} left before I ignore codes from you for an hour."
            )
        }
        PairingOutcome::LockedOut { until } => {
            let minutes = until.saturating_duration_since(now).as_secs().div_ceil(60);
            let unit = if minutes == 1 { "minute" } else { "minutes" };
            format!("Too many wrong codes. Please try again in {minutes} {unit}.")
        }
    }
}

async fn list_pairings(pairings: &dyn Pairings, context: &CommandContext<'_>) -> Result<String, LedgerError> {
    let (channel, now) = (context.channel(), context.now);
    let is_in_scope = |other: &ChannelName| channel.is_none_or(|channel| channel == other);
    let mut codes = pairings.list_pairings().await?;
    codes.retain(|pairing| is_in_scope(pairing.conversation.channel()));
    let mut people = pairings.list_people().await?;
    people.retain(|person| is_in_scope(&person.channel));
    let mut text = String::new();
    if codes.is_empty() && people.is_empty() {
        return Ok("No one is waiting for approval, and no one was approved with a code.".to_owned());
    }
    if !codes.is_empty() {
        text.push_str("Waiting for approval:\n\n");
    }
    for Pairing { code, person, conversation, expires_at, .. } in codes.iter().take(MAX_LISTED) {
        let minutes = expires_at.saturating_duration_since(now).as_secs().div_ceil(60);
        let _ = writeln!(
            text,
            "- **{code}** {} on {}, valid for {minutes} min",
            describe_sender(person),
            conversation.channel()
        );
    }
    if !people.is_empty() {
        let _ = writeln!(text, "{}Approved with a code:\n", if text.is_empty() { "" } else { "\n" });
    }
    for Person { channel, person, .. } in people.iter().rev().take(MAX_LISTED) {
        let _ = writeln!(text, "- {} on {channel}", describe_sender(person));
    }
    if codes.len() > MAX_LISTED || people.len() > MAX_LISTED {
        text.push_str("\n`satchel pair list` shows them all.");
    }
    Ok(text.trim_end().to_owned())
}

async fn revoke_person(
    pairings: &dyn Pairings,
    context: &CommandContext<'_>,
    channel: Option<&str>,
    id: &str,
) -> Result<String, LedgerError> {
    let requested = channel.map(|name| ChannelName::new(name.to_lowercase()));
    let channel = match (requested, context.channel()) {
        (None, None) => return Ok("On which channel? For example: `/pair revoke telegram 123456`".to_owned()),
        (Some(Err(_)), _) => {
            return Ok("There is no such channel. For example: `/pair revoke telegram 123456`".to_owned());
        }
        (Some(Ok(requested)), Some(own)) if requested != *own => {
            return Ok(format!("In this chat you can only approve people on {own}."));
        }
        (Some(Ok(requested)), _) => requested,
        (None, Some(own)) => own.clone(),
    };
    let quoted_id = inline_name(&Sender::new(id, id));
    if pairings.revoke_person(&channel, id).await? {
        return Ok(format!("Done: id {quoted_id} on {channel} is no longer approved."));
    }
    Ok(format!(
        "{quoted_id} was not approved with a code on {channel}. If the configuration allows them, remove them there."
    ))
}

#[cfg(test)]
mod tests;
