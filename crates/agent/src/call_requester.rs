//! For whom a turn's calls run: for who asked last, with no more rights than all who asked. Pure.

use satchel_domain::{Sender, SystemTask};
use satchel_ports::ledger::{QueuedMessage, QueuedTurn};

use crate::rounds::Rounds;

/// The person for whom calls run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallRequester {
    /// Who asked last: the audit log names them, and they are asked whether a call may run.
    pub(crate) person: Sender,
    /// Whether the model has read texts of others too in this turn. What it calls then may be what they wanted.
    pub(crate) is_shared: bool,
}

impl CallRequester {
    /// Finds the person for whom the calls of a turn run now. What a schedule or Satchel itself says is nobody's.
    pub(crate) fn find(turn: &QueuedTurn, rounds: &Rounds) -> Self {
        let is_persons =
            |queued: &&QueuedMessage| queued.message.system_task.as_ref().is_none_or(SystemTask::runs_for_sender);
        let senders = turn.messages.iter().filter(is_persons).map(|queued| &queued.message.sender);
        let people: Vec<&Sender> = senders.chain(rounds.steered_messages().map(|steered| &steered.sender)).collect();
        match people.split_last() {
            Some((last, others)) => {
                Self { person: (*last).clone(), is_shared: others.iter().any(|other| !other.is_same_person(last)) }
            }
            None => {
                let first = turn.messages.first().map(|queued| queued.message.sender.clone());
                Self { person: first.unwrap_or_else(|| Sender::new("", "")), is_shared: false }
            }
        }
    }
}
