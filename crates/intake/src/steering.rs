//! What the messages behind a running turn ask of it. Pure.

use satchel_ports::ledger::{QueuedMessage, Steered, Steering};

use crate::commands::Command;

/// Decides about the messages that wait behind a running turn.
///
/// Text-only neighbours are put before the model; the first message with files or with a command ends the neighbourhood,
/// because what comes after it must not overtake it. A `/stop` counts wherever it stands.
#[must_use]
pub fn steering(waiting: &[QueuedMessage]) -> Steering {
    let command = |message: &QueuedMessage| Command::parse(&message.message.text);
    let stop = waiting.iter().find(|message| command(message) == Some(Command::Stop)).map(|message| message.id);
    let inject = waiting
        .iter()
        .take_while(|message| message.files.is_empty() && command(message).is_none())
        .map(|message| Steered {
            id: message.id,
            sender: message.message.sender.clone(),
            text: message.message.text.clone(),
        })
        .collect();
    Steering { stop, inject }
}

#[cfg(test)]
mod tests {
    use satchel_domain::{FileReference, Filename, InboundMessage, InboxId, Sender, Timestamp, TurnId};
    use satchel_ports::ledger::InboundFile;
    use uuid::Uuid;

    use super::*;

    fn waiting(id: u128, text: &str, files: usize) -> QueuedMessage {
        let file = FileReference::new("x".into(), Filename::from_untrusted("a.txt"));
        QueuedMessage {
            id: InboxId(Uuid::from_u128(id)),
            turn: TurnId(Uuid::from_u128(id)),
            message: InboundMessage {
                text: text.into(),
                files: vec![file.clone(); files],
                ..InboundMessage::new(
                    "console:main".parse().unwrap(),
                    id.to_string(),
                    Sender { id: "owner".into(), name: "Owner".into() },
                )
            },
            files: vec![InboundFile::Waiting(file); files],
            received_at: Timestamp(0),
        }
    }

    fn injected(messages: &[QueuedMessage]) -> Vec<String> {
        steering(messages).inject.into_iter().map(|steered| steered.text).collect()
    }

    #[test]
    fn neighbours_without_files_are_injected_in_order() {
        assert_eq!(injected(&[waiting(1, "a", 0), waiting(2, "b", 0)]), ["a", "b"]);
    }

    #[test]
    fn nothing_overtakes_a_message_with_files_or_a_command() {
        assert_eq!(injected(&[waiting(1, "a", 0), waiting(2, "b", 1), waiting(3, "c", 0)]), ["a"]);
        assert_eq!(injected(&[waiting(1, "/files", 0), waiting(2, "b", 0)]), [] as [&str; 0]);
    }

    #[test]
    fn a_stop_counts_wherever_it_stands() {
        let steering = steering(&[waiting(1, "a", 1), waiting(2, "/stop", 0)]);
        assert_eq!(steering.stop, Some(InboxId(Uuid::from_u128(2))));
        assert!(steering.inject.is_empty());
    }
}
