//! The command `/forget all`, which asks back before it removes everything of its conversation.

use satchel_domain::{Button, InboundMessage, OutgoingResponse, remedy};
use satchel_ports::{
    Ledger, LedgerError,
    ledger::{ForgetScope, HistoryChange, OutboxQuery, PersonKey, TurnQuery, UsageQuery, UsageScope},
};

use super::{
    AgentChoice, ChatCommand,
    storage::{StorageServices, format_usage},
};
use crate::pairing::CommandContext;

/// What stands behind `/forget` for everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgetAll {
    /// Asks back.
    Ask,
    Confirmed,
    Declined,
}

impl ForgetAll {
    /// Reads what stands behind `/forget`, if it is about everything.
    pub(super) fn parse(arguments: &[String]) -> Option<Self> {
        let words: Vec<String> = arguments.iter().map(|word| word.to_lowercase()).collect();
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["all"] => Some(Self::Ask),
            ["all", "yes"] => Some(Self::Confirmed),
            ["all", "no"] => Some(Self::Declined),
            _ => None,
        }
    }
}

/// What the command leads to.
pub(super) struct ForgetAllReply {
    pub(super) response: OutgoingResponse,
    /// What the history becomes.
    pub(super) history: HistoryChange,
    /// The buttons below the reply.
    pub(super) buttons: Vec<Button>,
    /// The command of the button by which the question is answered for good.
    pub(super) answered: Option<String>,
}

impl ForgetAllReply {
    /// Changes nothing and answers nothing.
    fn unchanged(text: impl Into<String>) -> Self {
        Self {
            response: OutgoingResponse::from_text(text),
            history: HistoryChange::Append(Vec::new()),
            buttons: Vec::new(),
            answered: None,
        }
    }
}

/// Asks, or removes the workspace and leaves the rest to the commit of the turn: a crash between the two repeats both. What
/// owners have set stays, unless one of them removes it.
pub(super) async fn forget_all(
    command: ForgetAll,
    ledger: &Ledger,
    context: &CommandContext<'_>,
    services: &StorageServices<'_>,
    agents: &AgentChoice<'_>,
) -> Result<ForgetAllReply, LedgerError> {
    let command_of = |answer: &str| format!("/forget all {answer}");
    if context.group && !context.is_by_owner() {
        return Ok(ForgetAllReply::unchanged("Only an owner can remove everything of a group. Nothing was removed."));
    }
    // A button that was pressed long after the question asks again.
    let command = match command {
        ForgetAll::Confirmed if !follows_question(ledger, context).await? => ForgetAll::Ask,
        command => command,
    };
    match command {
        ForgetAll::Declined => {
            Ok(ForgetAllReply { answered: Some(command_of("no")), ..ForgetAllReply::unchanged("Nothing was removed.") })
        }
        ForgetAll::Ask => {
            let scope = UsageScope::Conversation(context.conversation.clone());
            let usages = ledger.storage.usages(&UsageQuery::Scopes(vec![scope])).await?;
            let files = usages.first().map(|usage| format!(" ({})", format_usage(usage))).unwrap_or_default();
            let settings = match context.is_by_owner() {
                true => "I also remove all reminders and settings here.",
                false => "I also remove your reminders and settings here. Settings of an owner stay.",
            };
            let question = ForgetAllReply::unchanged(format!(
                "Remove everything that I have of this conversation, for good? That is every message and reply, all \
                 files{files}, and the workspace. {settings} What the chat itself shows stays there until you delete it.\n\n\
                 `/forget all yes` removes it, `/forget all no` keeps it."
            ));
            let button = |label: &str, answer: &str| Button { label: label.to_owned(), command: command_of(answer) };
            Ok(ForgetAllReply {
                buttons: vec![button("Remove everything", "yes"), button("Keep it", "no")],
                ..question
            })
        }
        ForgetAll::Confirmed => {
            if ledger.archive.has_earlier_work(context.turn).await? {
                return Ok(ForgetAllReply::unchanged(
                    "Something still waits here that came before your command. Nothing was removed; please try again when \
                     it has been shown or answered.",
                ));
            }
            let conversation = Some(context.conversation.clone());
            let query = OutboxQuery { conversation, unsettled_only: true, limit: Some(1), ..OutboxQuery::default() };
            if !ledger.archive.parts(&query).await?.is_empty() {
                return Ok(ForgetAllReply::unchanged(
                    "Something is still being delivered here. Nothing was removed; please try again when `/outbox` is \
                     empty.",
                ));
            }
            if let Err(error) = services.workspace.remove_conversation(context.conversation).await {
                tracing::warn!(chat.id = %context.conversation, error = &error as &dyn std::error::Error, "removing a workspace failed");
                let reason = remedy::public_message(&error.to_string());
                return Ok(ForgetAllReply::unchanged(format!(
                    "The workspace could not be removed: {reason}. Messages and files are still here; please try again."
                )));
            }
            let (scope, done) = match context.is_by_owner() {
                true => (
                    ForgetScope::Everything,
                    "Removed. I keep no messages, files or settings of this conversation. The log of changes to workspace \
                     files stays for 90 days.",
                ),
                false => (
                    ForgetScope::Own {
                        person: PersonKey::new(context.conversation.channel(), context.sender),
                        keeps_agent: !agents.can_return(context),
                    },
                    "Removed. I keep no messages or files of this conversation. Settings of an owner stay. The log of changes \
                     to workspace files stays for 90 days.",
                ),
            };
            Ok(ForgetAllReply {
                history: HistoryChange::Forget(scope),
                answered: Some(command_of("yes")),
                ..ForgetAllReply::unchanged(done)
            })
        }
    }
}

/// Whether the turn before this one was the question.
async fn follows_question(ledger: &Ledger, context: &CommandContext<'_>) -> Result<bool, LedgerError> {
    let query = TurnQuery { conversation: context.conversation.clone(), before: Some(context.turn), limit: 1 };
    let turns = ledger.archive.turns(&query).await?;
    let mut messages = turns.iter().flat_map(|turn| &turn.messages).map(|queued| &queued.message);
    // The prompt of a reminder, which a model may have written, asks nobody.
    let is_question = |message: &InboundMessage| {
        message.system_task.is_none()
            && ChatCommand::parse(&message.text) == Some(ChatCommand::ForgetAll(ForgetAll::Ask))
    };
    Ok(messages.any(is_question))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io};

    use satchel_domain::{
        AgentDirectory, ConversationId, InboxId, Part, PartContent, PartId, ReminderId, Sender, SystemTask, Timestamp,
        TurnId, agent::AgentChat,
    };
    use satchel_ports::{
        MockBlobs, MockLedger, MockWorkspace,
        ledger::{QueuedMessage, Quotas, TurnRecord},
    };
    use uuid::Uuid;

    use super::*;
    use crate::access::{AccessPolicy, ChannelAccess};

    fn conversation() -> ConversationId {
        "telegram:-1".parse().unwrap()
    }

    /// The turn before, with this message.
    fn turn_saying(text: &str) -> TurnRecord {
        let message = InboundMessage {
            text: text.to_owned(),
            ..InboundMessage::new(conversation(), "k".into(), Sender::new("2", "Ada"))
        };
        let turn = TurnId(Uuid::from_u128(1));
        let queued = QueuedMessage {
            id: InboxId(Uuid::nil()),
            turn,
            message,
            files: Vec::new(),
            transcriptions: BTreeMap::new(),
            received_at: Timestamp(0),
        };
        TurnRecord {
            id: turn,
            conversation: conversation(),
            ending: None,
            response: None,
            messages: vec![queued],
            parts: Vec::new(),
            calls: Vec::new(),
            replaced_by: None,
        }
    }

    fn unsettled_part() -> Part {
        let (id, turn) = (PartId(Uuid::nil()), TurnId(Uuid::nil()));
        Part::new(id, conversation(), turn, 0, PartContent::from_text("on its way"), Timestamp(0))
    }

    /// What somebody gets for `/forget` with these words behind it, where `1` is the owner.
    async fn forgets(
        (sender, group): (&str, bool),
        words: &[&str],
        ledger: MockLedger,
        workspace: MockWorkspace,
    ) -> (String, HistoryChange, usize) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let command = ForgetAll::parse(&words).expect("it is about everything");
        let rules = ChannelAccess { owners: vec!["1".into()], ..ChannelAccess::default() };
        let access = AccessPolicy::new([(conversation().channel().clone(), rules)]);
        let context = CommandContext {
            turn: TurnId(Uuid::nil()),
            repeated: false,
            conversation: &conversation(),
            group,
            sender: &Sender::new(sender, "Ada"),
            access: &access,
            now: Timestamp(0),
        };
        let services = StorageServices { blobs: &MockBlobs::new(), workspace: &workspace, quotas: Quotas::NONE };
        let chat = AgentChat { conversation: &conversation(), parents: &[], person: None };
        let agents = AgentChoice { directory: &AgentDirectory::default(), chosen: None, chat };
        let reply = forget_all(command, &ledger.into(), &context, &services, &agents).await;
        let ForgetAllReply { response, history, buttons, answered } = reply.unwrap();
        let text = response.text.unwrap();
        let expected = match (&history, words.last().map(String::as_str)) {
            (HistoryChange::Forget(_), _) => Some("/forget all yes".to_owned()),
            (_, Some("no")) => Some("/forget all no".to_owned()),
            _ => None,
        };
        assert_eq!(answered, expected, "the buttons go where the question is answered for good: {text}");
        (text, history, buttons.len())
    }

    #[tokio::test]
    async fn everything_is_removed_only_when_confirmed_and_settled() {
        let keeps = || HistoryChange::Append(Vec::new());
        let no_disk = MockWorkspace::new;
        let mut ledger = MockLedger::default();
        ledger.storage.expect_usages().returning(|_| Ok(Vec::new()));
        let (text, history, buttons) = forgets(("1", true), &["ALL"], ledger, no_disk()).await;
        assert!(text.contains("for good?") && text.contains("`/forget all yes`"), "{text}");
        assert_eq!((history, buttons), (keeps(), 2));

        // Neither of these reads or removes anything.
        for (person, words) in [("2", &["all", "yes"]), ("1", &["all", "no"])] {
            let (text, history, _) = forgets((person, true), words, MockLedger::default(), no_disk()).await;
            assert!(text.contains("Nothing was removed"), "{text}");
            assert_eq!(history, keeps());
        }

        // The press of a button that has stood there for months, also behind a reminder that seems to ask.
        let mut reminder = turn_saying("/forget all");
        reminder.messages[0].message.system_task =
            Some(SystemTask::RunReminder { reminder: ReminderId(3), due: "today".into(), origin: None });
        for before in [turn_saying("good morning"), reminder] {
            let mut ledger = MockLedger::default();
            ledger.archive.expect_turns().returning(move |_| Ok(vec![before.clone()]));
            ledger.storage.expect_usages().returning(|_| Ok(Vec::new()));
            let (text, history, _) = forgets(("2", false), &["all", "yes"], ledger, no_disk()).await;
            assert!(text.contains("for good?"), "it asks again: {text}");
            assert_eq!(history, keeps());
        }

        let own = ForgetScope::Own { person: "telegram:2".parse().unwrap(), keeps_agent: true };
        // A message of another program, or what a job that was killed had begun.
        let mut ledger = MockLedger::default();
        ledger.archive.expect_turns().returning(|_| Ok(vec![turn_saying("/forget all")]));
        ledger.archive.expect_has_earlier_work().returning(|_| Ok(true));
        let (text, history, _) = forgets(("1", false), &["all", "yes"], ledger, no_disk()).await;
        assert!(text.contains("still waits here") && text.contains("Nothing was removed"), "{text}");
        assert_eq!(history, keeps());

        for (person, unsettled, disk_fails, expected) in [
            ("2", true, false, keeps()),
            ("2", false, true, keeps()),
            // What an owner has set there, such as a persona, stays.
            ("2", false, false, HistoryChange::Forget(own)),
            ("1", false, false, HistoryChange::Forget(ForgetScope::Everything)),
        ] {
            let mut ledger = MockLedger::default();
            ledger.archive.expect_turns().returning(|_| Ok(vec![turn_saying("/forget all")]));
            ledger.archive.expect_has_earlier_work().returning(|_| Ok(false));
            ledger
                .archive
                .expect_parts()
                .withf(|query| query.unsettled_only && query.conversation == Some(conversation()))
                .returning(move |_| Ok(if unsettled { vec![unsettled_part()] } else { Vec::new() }));
            let mut workspace = MockWorkspace::new();
            workspace
                .expect_remove_conversation()
                .times(usize::from(!unsettled))
                .withf(|of| *of == conversation())
                .returning(move |_| if disk_fails { Err(io::Error::other("the disk failed")) } else { Ok(()) });
            let (text, history, _) = forgets((person, false), &["all", "yes"], ledger, workspace).await;
            assert_eq!(text.contains("Settings of an owner stay."), person == "2" && history != keeps(), "{text}");
            assert_eq!(history, expected, "{text}");
        }
        assert_eq!(ForgetAll::parse(&["all".to_owned(), "17".to_owned()]), None);
    }
}
