//! For whom a turn's calls run: for the person whose text the model has read last, with no more rights than anyone whose text
//! it has read. Pure.

use satchel_domain::{Sender, SystemTask, WorkShare};
use satchel_ports::ledger::{QueuedMessage, QueuedTurn};

use crate::rounds::Rounds;

/// The person for whom calls run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallRequester {
    /// The person whose text the model has read last. The audit log names them, and they decide whether a call may run.
    pub(crate) person: Sender,
    /// Whether the model has read texts of others too in this turn. What it calls then may be what they wanted.
    pub(crate) is_shared: bool,
    /// Whether a schedule or a reminder has started the turn, and no person has written into it since.
    pub(crate) is_scheduled: bool,
    /// For whom workers and models do the work; `None` for a turn without messages.
    pub(crate) work_share: Option<WorkShare>,
}

impl CallRequester {
    /// Finds the person for whom the calls of a turn run now. The text of a schedule or of Satchel itself is nobody's.
    pub(crate) fn find(turn: &QueuedTurn, rounds: &Rounds) -> Self {
        let is_persons =
            |queued: &&QueuedMessage| queued.message.system_task.as_ref().is_none_or(SystemTask::runs_for_sender);
        let senders = turn.messages.iter().filter(is_persons).map(|queued| &queued.message.sender);
        let people: Vec<&Sender> = senders.chain(rounds.steered_messages().map(|steered| &steered.sender)).collect();
        let is_system_task = turn.messages.iter().any(|queued| queued.message.system_task.is_some());
        let is_scheduled = is_system_task && rounds.steered_messages().next().is_none();
        let conversation = turn.messages.first().map(|queued| queued.message.conversation.clone());
        match people.split_last() {
            Some((last, others)) => Self {
                person: (*last).clone(),
                is_shared: others.iter().any(|other| !other.is_same_person(last)),
                is_scheduled,
                work_share: conversation.map(|conversation| WorkShare::from_sender(conversation, last)),
            },
            None => {
                let first = turn.messages.first().map(|queued| queued.message.sender.clone());
                Self {
                    person: first.unwrap_or_else(|| Sender::new("", "")),
                    is_shared: false,
                    is_scheduled,
                    work_share: conversation.map(WorkShare::from_conversation),
                }
            }
        }
    }
}
