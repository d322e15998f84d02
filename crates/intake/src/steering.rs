//! What the messages behind a running turn ask of it. Pure.

use satchel_domain::{reference_block, script::script_of};
use satchel_ports::ledger::{Decision, QueuedMessage, Steered, Steering};

use crate::commands::Command;

/// Decides about the messages that wait behind a running turn.
///
/// Text-only neighbours are put before the model; the first message with files, typed or referred to in a block, or with
/// a command, a script, and what Satchel itself has to say or to do, ends the neighbourhood, because what comes after it must not overtake
/// it. A `/stop` and a word about a tool call count wherever they stand.
#[must_use]
pub fn steering(waiting: &[QueuedMessage]) -> Steering {
    let command = |message: &QueuedMessage| Command::parse(&message.message.text);
    // A message with files is never a command: what it brings must not be consumed unseen.
    let stop = waiting.iter().find(|message| message.files.is_empty() && command(message) == Some(Command::Stop));
    let stop = stop.map(|message| message.id);
    let inject = waiting
        .iter()
        .filter(|message| decision(message).is_none())
        .take_while(|message| {
            let is_text_only = message.files.is_empty() && reference_block::split(&message.message.text).1.is_none();
            let is_talk = command(message).is_none() && script_of(&message.message.text).is_none();
            is_text_only && is_talk && message.message.errand.is_none()
        })
        .map(|message| Steered {
            id: message.id,
            sender: message.message.sender.clone(),
            text: message.message.text.clone(),
            origin: Some(message.origin()),
        })
        .collect();
    Steering { stop, inject, decisions: waiting.iter().filter_map(decision).collect() }
}

/// A message as a word about a tool call; one with files is none.
fn decision(message: &QueuedMessage) -> Option<Decision> {
    let (code, allow) = match Command::parse(&message.message.text)? {
        Command::Allow(code) => (code, true),
        Command::Refuse(code) => (code, false),
        _ => return None,
    };
    let sender = message.message.sender.clone();
    message.files.is_empty().then_some(Decision { id: message.id, sender, code, allow })
}

#[cfg(test)]
mod tests {
    use satchel_domain::{Errand, FileReference, Filename, InboundMessage, InboxId, Sender, Timestamp, TurnId};
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
                ..InboundMessage::new("console:main".parse().unwrap(), id.to_string(), Sender::new("owner", "Owner"))
            },
            files: vec![InboundFile::Waiting(file); files],
            heard: std::collections::BTreeMap::new(),
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
    fn a_message_that_refers_to_files_in_its_text_stays_whole() {
        let reference = reference_block::Reference::new("https://cdn.discordapp.com/a.png".into());
        let referring = reference_block::append("b", &[reference]);
        assert_eq!(injected(&[waiting(1, "a", 0), waiting(2, &referring, 0), waiting(3, "c", 0)]), ["a"]);
        let escaped = reference_block::escape(&referring);
        assert_eq!(injected(&[waiting(2, &escaped, 0)]), [escaped], "what a person typed is text");
    }

    #[test]
    fn a_script_is_a_turn_of_its_own() {
        let script = satchel_domain::script::fenced("return 1");
        assert_eq!(injected(&[waiting(1, "a", 0), waiting(2, &script, 0), waiting(3, "b", 0)]), ["a"]);
    }

    #[test]
    fn a_stop_counts_wherever_it_stands() {
        let steering = steering(&[waiting(1, "a", 1), waiting(2, "/stop", 0)]);
        assert_eq!(steering.stop, Some(InboxId(Uuid::from_u128(2))));
        assert!(steering.inject.is_empty());
        let captioned = super::steering(&[waiting(1, "/stop", 1)]);
        assert_eq!(captioned.stop, None, "a photo under which somebody wrote it is a message");
    }

    #[test]
    fn what_satchel_itself_says_never_reaches_the_model() {
        let mut errand = waiting(2, "", 0);
        errand.message.errand = Some(Errand::Welcome);
        assert_eq!(injected(&[waiting(1, "a", 0), errand, waiting(3, "b", 0)]), ["a"]);
    }

    #[test]
    fn a_word_about_a_call_is_heard_wherever_it_stands_and_holds_nothing_up() {
        let steering =
            steering(&[waiting(1, "/allow ABCD2345", 0), waiting(2, "and more", 0), waiting(3, "/refuse x", 0)]);
        let decisions: Vec<_> = steering.decisions.iter().map(|said| (said.code.as_str(), said.allow)).collect();
        assert_eq!(decisions, [("ABCD2345", true), ("x", false)]);
        assert_eq!(steering.inject.iter().map(|steered| steered.text.as_str()).collect::<Vec<_>>(), ["and more"]);
        assert!(super::steering(&[waiting(1, "/allow ABCD2345", 1)]).decisions.is_empty(), "files make it a message");
    }
}
