//! Decides what the messages queued behind a running turn request of it. Pure.

use satchel_domain::{InboundMessage, reference_block, script::parse_script_message};
use satchel_ports::ledger::{
    ImmediateReply, QueuedMessage, QueuedTurn, SteeringMessage, SteeringRequests, ToolDecision,
};

use crate::{
    access::AccessPolicy,
    commands::{
        ChatCommand, CommandFeatures, EDITED_COMMAND_TEXT, corrects_command, explanation_text, is_edited_command,
    },
    joining::find_joining_turns,
};

/// Decides about the messages that wait behind a running turn.
///
/// Text-only neighbours are put before the model; the first message with files, typed or referred to in a block, or
/// with a command, a script, and what Satchel itself has to say or to do, ends the neighbourhood, because what comes
/// after it must not overtake it. A person's `/stop`, decision about a tool call, request for help and edited command count at
/// any position and block nothing.
///
/// Where others can write too, so does a message of another person than the turn's: it gets a turn of its own, with its
/// sender's rights. `max_files` is how many files a turn may have.
#[must_use]
pub fn plan_steering(
    turn: &QueuedTurn,
    queued: &[QueuedMessage],
    access: &AccessPolicy,
    features: CommandFeatures,
    max_files: usize,
) -> SteeringRequests {
    let stop =
        queued.iter().find(|message| person_command(message) == Some(ChatCommand::Stop)).map(|message| message.id);
    let inject = queued
        .iter()
        .filter(|message| parse_decision(message).is_none() && immediate_reply(message, access, features).is_none())
        .take_while(|message| {
            let is_text_only = message.files.is_empty() && reference_block::split(&message.message.text).1.is_none();
            let text = &message.message.text;
            let is_plain_message = ChatCommand::parse(text).is_none() && parse_script_message(text).is_none();
            // What a client tells about a conversation of its own is for the model of its own turn.
            let is_of_conversation = message.message.system_task.is_none() && message.message.context.is_none();
            // The edit of a command that was run has an answer of its own.
            let is_plain_message = is_plain_message && !corrects_command(&message.message);
            is_text_only && is_plain_message && is_of_conversation && may_join(turn, message)
        })
        .map(|message| SteeringMessage {
            id: message.id,
            sender: message.message.sender.clone(),
            text: message.message.text.clone(),
            origin: Some(message.origin()),
        })
        .collect();
    SteeringRequests {
        stop,
        inject,
        decisions: queued.iter().filter_map(parse_decision).collect(),
        immediate_replies: queued.iter().filter_map(|message| immediate_reply(message, access, features)).collect(),
        joins: find_joining_turns(turn, queued, max_files),
    }
}

/// Whether a message may become part of a turn, as far as it depends on who wrote it.
fn may_join(turn: &QueuedTurn, queued: &QueuedMessage) -> bool {
    let is_room = queued.message.group || turn.messages.iter().any(|own| own.message.group);
    let is_same_person = |own: &QueuedMessage| own.message.sender.is_same_person(&queued.message.sender);
    // The id of an anonymous sender may be another person's.
    !is_room || (!queued.message.anonymous && turn.messages.iter().all(is_same_person))
}

/// The command by which a message may change what runs. One with files is none: what it brings must not be consumed unseen.
/// Nor is what Satchel itself has queued: a model may have written the prompt of a reminder, and only people decide. Nor is an
/// edit of what was read before.
pub(crate) fn person_command(queued: &QueuedMessage) -> Option<ChatCommand> {
    command_of(&queued.message, !queued.files.is_empty())
}

fn command_of(message: &InboundMessage, has_files: bool) -> Option<ChatCommand> {
    let is_persons = message.system_task.is_none() && !has_files;
    ChatCommand::parse(&message.text).filter(|command| is_persons && !is_edited_command(message, command))
}

/// Whether a message is for the process that runs a turn now, and of use before that turn has ended: what
/// [`plan_steering`] takes at any position.
pub(crate) fn is_about_running_turn(message: &InboundMessage) -> bool {
    matches!(
        command_of(message, !message.files.is_empty()),
        Some(ChatCommand::Stop | ChatCommand::Allow(_) | ChatCommand::Refuse(_) | ChatCommand::Explain(_))
    )
}

/// Returns the help that a message requests, or what is said of an edited command.
fn immediate_reply(queued: &QueuedMessage, access: &AccessPolicy, features: CommandFeatures) -> Option<ImmediateReply> {
    let QueuedMessage { turn, message, files, .. } = queued;
    if message.system_task.is_some() || !files.is_empty() {
        return None;
    }
    let text = match ChatCommand::parse(&message.text)? {
        command if is_edited_command(message, &command) => EDITED_COMMAND_TEXT.to_owned(),
        ChatCommand::Explain(topic) => {
            let is_owner = access.is_owner(message.conversation.channel(), &message.sender);
            explanation_text(&topic, is_owner, features)
        }
        _ => return None,
    };
    Some(ImmediateReply { turn: *turn, reply_to: message.message.clone(), text })
}

/// Parses a message as a decision about a tool call.
fn parse_decision(message: &QueuedMessage) -> Option<ToolDecision> {
    let (code, allow) = match person_command(message)? {
        ChatCommand::Allow(code) => (code, true),
        ChatCommand::Refuse(code) => (code, false),
        _ => return None,
    };
    Some(ToolDecision { id: message.id, sender: message.message.sender.clone(), code, allow })
}

#[cfg(test)]
mod tests {
    use satchel_domain::{FileReference, Filename, InboxId, ReminderId, Sender, SystemTask, Timestamp, TurnId};
    use satchel_ports::ledger::{ConversationSettings, InboundFileState};
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
            files: vec![InboundFileState::Waiting(file); files],
            transcriptions: std::collections::BTreeMap::new(),
            received_at: Timestamp(0),
        }
    }

    /// A turn that runs for the owner in a chat of their own.
    fn running_turn() -> QueuedTurn {
        let message = waiting(99, "do it", 0);
        QueuedTurn {
            id: message.turn,
            messages: vec![message],
            ready_at: Timestamp(0),
            has_followers: true,
            journal: Vec::new(),
            draft: None,
            crashes: 0,
            unreported_failures: Vec::new(),
            settings: ConversationSettings::default(),
            history: [].into(),
        }
    }

    fn requests(messages: &[QueuedMessage]) -> SteeringRequests {
        plan_steering(&running_turn(), messages, &AccessPolicy::default(), CommandFeatures::default(), 20)
    }

    fn injected(messages: &[QueuedMessage]) -> Vec<String> {
        requests(messages).inject.into_iter().map(|steered| steered.text).collect()
    }

    #[test]
    fn neighbours_without_files_are_injected_in_order() {
        assert_eq!(injected(&[waiting(1, "a", 0), waiting(2, "b", 0)]), ["a", "b"]);
    }

    /// Catches: `/new` that has run and is edited to `/stop`, which stops a turn that began since; and a call that an edit allows.
    #[test]
    fn edited_command_is_answered_at_once_and_changes_nothing_that_runs() {
        for (earlier, text) in [
            ("/new", "/stop"),
            ("stop", "/stop"),
            ("/stpo", "/stop"),
            ("/allow A1", "/refuse A1"),
            ("/refuse A1", "/allow A1"),
            ("hm", "/allow A1"),
            ("", "/new"),
            ("hlep", "/help"),
        ] {
            let mut edit = waiting(1, text, 0);
            edit.message.earlier_text = Some(earlier.to_owned());
            let found = requests(&[edit.clone(), waiting(2, "and more", 0)]);
            let replies: Vec<_> = found.immediate_replies.iter().map(|it| (it.turn, it.text.as_str())).collect();
            assert_eq!(replies, [(edit.turn, EDITED_COMMAND_TEXT)], "{earlier} to {text}");
            assert_eq!((found.stop, found.decisions), (None, Vec::new()), "{earlier} to {text}");
            assert_eq!(found.inject.iter().map(|it| it.text.as_str()).collect::<Vec<_>>(), ["and more"]);

            edit.message.edits_forgotten = true;
            edit.message.earlier_text = None;
            assert_eq!(requests(&[edit]).immediate_replies.len(), 1, "nobody knows what it was");
        }
    }

    /// A message that nobody has read yet is what its edit says.
    #[test]
    fn edit_in_the_place_of_an_unread_message_is_a_command() {
        let mut edit = waiting(1, "/stop", 0);
        edit.message.edit_of = Some("0".into());
        assert_eq!(requests(std::slice::from_ref(&edit)).stop, Some(edit.id));
    }

    /// Catches: `/task pay` that has run and is edited to words which the model of another turn takes for an order.
    #[test]
    fn edit_of_a_command_that_was_run_is_not_injected() {
        let mut edit = waiting(1, "pay the rent", 0);
        edit.message.earlier_text = Some("/task pay".to_owned());
        assert_eq!(injected(&[edit.clone(), waiting(2, "and more", 0)]), [] as [&str; 0]);
        edit.message.earlier_text = Some("pay".to_owned());
        assert_eq!(injected(std::slice::from_ref(&edit)), ["pay the rent"]);
        edit.message.earlier_commands = vec!["/task pay".to_owned()];
        assert_eq!(injected(&[edit]), [] as [&str; 0], "it was one before another edit");
    }

    #[test]
    fn nothing_overtakes_files_or_commands() {
        assert_eq!(injected(&[waiting(1, "a", 0), waiting(2, "b", 1), waiting(3, "c", 0)]), ["a"]);
        assert_eq!(injected(&[waiting(1, "/files", 0), waiting(2, "b", 0)]), [] as [&str; 0]);
    }

    #[test]
    fn message_with_text_references_is_not_steered() {
        let reference = reference_block::AttachmentReference::new("https://cdn.discordapp.com/a.png".into());
        let referring = reference_block::append("b", &[reference]);
        assert_eq!(injected(&[waiting(1, "a", 0), waiting(2, &referring, 0), waiting(3, "c", 0)]), ["a"]);
        let escaped = reference_block::escape(&referring);
        assert_eq!(injected(&[waiting(2, &escaped, 0)]), [escaped], "what a person typed is text");
    }

    #[test]
    fn a_script_is_a_turn_of_its_own() {
        let script = satchel_domain::script::to_script_message("return 1");
        assert_eq!(injected(&[waiting(1, "a", 0), waiting(2, &script, 0), waiting(3, "b", 0)]), ["a"]);
    }

    #[test]
    fn a_stop_counts_wherever_it_stands() {
        let steering = requests(&[waiting(1, "a", 1), waiting(2, "/stop", 0)]);
        assert_eq!(steering.stop, Some(InboxId(Uuid::from_u128(2))));
        assert!(steering.inject.is_empty());
        let captioned = requests(&[waiting(1, "/stop", 1)]);
        assert_eq!(captioned.stop, None, "a photo under which somebody wrote it is a message");
    }

    /// The attack: somebody speaks a second after the owner, and their text is done in the owner's name.
    #[test]
    fn other_peoples_messages_in_rooms_are_turns_of_their_own() {
        let by = |id, person: &str, group| {
            let mut message = waiting(id, &format!("{person} {id}"), 0);
            message.message.sender = Sender::new(person, "Owner");
            message.message.group = group;
            message
        };
        let injected = |turn: &QueuedTurn, messages: &[QueuedMessage]| -> Vec<String> {
            let steering = plan_steering(turn, messages, &AccessPolicy::default(), CommandFeatures::default(), 20);
            steering.inject.into_iter().map(|steered| steered.text).collect()
        };
        let mut turn = running_turn();
        turn.messages[0].message.group = true;
        assert_eq!(injected(&turn, &[by(1, "owner", true), by(2, "7", true), by(3, "owner", true)]), ["owner 1"]);
        assert_eq!(injected(&turn, &[by(1, "", true)]), [] as [&str; 0], "somebody without an id is another");

        let mut anonymous = by(1, "owner", true);
        anonymous.message.anonymous = true;
        assert_eq!(injected(&turn, &[anonymous]), [] as [&str; 0], "others write under the same id");

        // What a schedule has started in a room goes on without what people say.
        turn.messages[0].message.sender = Sender::new("satchel", "Satchel");
        assert_eq!(injected(&turn, &[by(1, "owner", true)]), [] as [&str; 0]);
        let unmarked = running_turn();
        assert_eq!(injected(&unmarked, &[by(1, "7", true)]), [] as [&str; 0], "a chat can become a room");
        assert_eq!(injected(&unmarked, &[by(1, "7", false), by(2, "owner", false)]), ["7 1", "owner 2"]);

        let mut stop = by(4, "7", true);
        stop.message.text = "/stop".to_owned();
        let steering = plan_steering(&turn, &[stop], &AccessPolicy::default(), CommandFeatures::default(), 20);
        assert!(steering.stop.is_some(), "anyone in a room can stop what runs there");
    }

    #[test]
    fn what_satchel_itself_says_never_reaches_the_model() {
        let mut errand = waiting(2, "", 0);
        errand.message.system_task = Some(SystemTask::ConfirmPairing);
        assert_eq!(injected(&[waiting(1, "a", 0), errand, waiting(3, "b", 0)]), ["a"]);
    }

    /// The attack: a model makes a reminder whose prompt allows its own call, or stops what somebody has started.
    #[test]
    fn system_messages_never_decide_stop_or_explain() {
        let (reminder, due) = (ReminderId(3), "today".to_owned());
        let tasks = [
            SystemTask::RunReminder { reminder, due: due.clone(), origin: None },
            SystemTask::RunSchedule { name: "report".into(), due },
            SystemTask::DeliverNotification { text: String::new() },
        ];
        for task in tasks {
            for text in ["/allow ABCD2345", "/refuse ABCD2345", "/stop", "/allow", "/help", "/flies"] {
                let mut prompt = waiting(1, text, 0);
                assert_ne!(requests(std::slice::from_ref(&prompt)), SteeringRequests::default(), "{text} of a person");
                prompt.message.system_task = Some(task.clone());
                assert_eq!(requests(&[prompt]), SteeringRequests::default(), "{text} of {task:?}");
            }
        }
    }

    #[test]
    fn decision_is_accepted_anywhere_without_blocking_steering() {
        let steering =
            requests(&[waiting(1, "/allow ABCD2345", 0), waiting(2, "and more", 0), waiting(3, "/refuse x", 0)]);
        let decisions: Vec<_> = steering.decisions.iter().map(|said| (said.code.as_str(), said.allow)).collect();
        assert_eq!(decisions, [("ABCD2345", true), ("x", false)]);
        assert_eq!(steering.inject.iter().map(|steered| steered.text.as_str()).collect::<Vec<_>>(), ["and more"]);
        assert!(requests(&[waiting(1, "/allow ABCD2345", 1)]).decisions.is_empty(), "files make it a message");
    }

    const ALL_FEATURES: CommandFeatures =
        CommandFeatures { links: true, agents: true, models: true, tasks: true, reminders: true, rich: true };

    #[test]
    fn explanation_is_immediate_and_blocks_nothing() {
        let access = AccessPolicy::default().with_owner_on([satchel_domain::ChannelName::new("console").unwrap()]);
        let messages =
            [waiting(1, "/flies", 0), waiting(2, "and more", 0), waiting(3, "/allow", 0), waiting(4, "/help", 1)];
        let steering = plan_steering(&running_turn(), &messages, &access, ALL_FEATURES, 20);
        let explained: Vec<_> =
            steering.immediate_replies.iter().map(|it| (it.turn, it.text.split('`').nth(1))).collect();
        let turn = |id| TurnId(Uuid::from_u128(id));
        assert_eq!(
            explained,
            [(turn(1), Some("/flies")), (turn(3), Some("/allow CODE"))],
            "a caption asks for nothing"
        );
        assert_eq!(steering.inject.iter().map(|steered| steered.text.as_str()).collect::<Vec<_>>(), ["and more"]);

        let message = [waiting(1, "/help", 0)];
        let help = |access: &AccessPolicy, features| {
            let text = plan_steering(&running_turn(), &message, access, features, 20).immediate_replies.remove(0).text;
            (text.contains("/pair list"), text.contains("/unlink"), text.contains("/agent"))
        };
        assert_eq!(help(&access, ALL_FEATURES), (true, true, true));
        assert_eq!(help(&AccessPolicy::default(), CommandFeatures::default()), (false, false, false));
    }
}
