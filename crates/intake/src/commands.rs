//! The commands that people give to Satchel itself; the model never sees them.

mod agents;
mod files;
mod find;
mod forget_all;
mod help;
mod models;
mod persona;
mod reminders;
mod storage;
mod suggestion;
mod tasks;

use std::fmt::Write;

use satchel_calendar::Zone;
use satchel_domain::{
    Button, ConversationId, OutgoingResponse, Part, PartState, TaskDirectory, TaskRequest, task::TASK_COMMAND,
};
use satchel_ports::{
    Archive, ChangeLog, FileChange, FileLinks, Ledger, LedgerError,
    ledger::{ConversationSetting, HistoryChange, OutboxQuery},
};

pub use self::agents::AgentChoice;
pub use self::files::describe_file;
pub use self::find::FindCommand;
pub use self::forget_all::ForgetAll;
pub use self::help::{AGENT_COMMAND, CommandFeatures, MODEL_COMMAND, command_menu, explanation_text, owner_menu};
pub use self::models::ModelOffers;
pub use self::persona::PersonaCommand;
pub use self::reminders::{ReminderClock, SchedulesCommand};
pub use self::storage::StorageServices;
pub use self::tasks::TaskStarter;
use self::{
    agents::{choose_agent, list_agents},
    files::{list_files, resend_files, revoke_file_links},
    find::find,
    forget_all::forget_all,
    help::{PERSONA_COMMAND, REMIND_COMMAND, SCHEDULES_COMMAND, TIMEZONE_COMMAND},
    models::{choose_model, list_models},
    persona::handle_persona,
    reminders::{create_reminder, handle_schedules, handle_timezone, is_for_remind, person_zone},
    storage::{forget_files, restore_files, show_usage},
    tasks::{TaskDecision, decide_task},
};
use crate::pairing::{self, CommandContext, PairCommand};

/// How many files or parts a list shows.
const MAX_LISTED: u32 = 30;

/// A command. What begins with a slash and is neither one of these nor a letter off one goes to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatCommand {
    /// Lists the conversation's files, a page of them, counted from 1.
    Files(usize),
    /// Finds what was said in the conversation.
    Find(FindCommand),
    /// Sends files again, by their numbers; as given, so that a mistake can be named.
    Resend(Vec<String>),
    /// Revokes all links to files, by their numbers; as given.
    Unlink(Vec<String>),
    /// Shows what files take up.
    Usage,
    /// Removes files for good, by their numbers; as given.
    Forget(Vec<String>),
    /// Removes everything of the conversation, once that is confirmed.
    ForgetAll(ForgetAll),
    /// Restores the files that were deleted last.
    Undo,
    /// Lists what is still to be delivered or could not be.
    Outbox,
    /// Stops the running turn.
    Stop,
    /// Starts a new conversation.
    New,
    Allow(String),
    /// Refuses the tool call with this code.
    Refuse(String),
    /// Sets whether every reply is spoken too; `None` asks whether it is.
    Voice(Option<bool>),
    /// Lists the agents; with a name, chooses one.
    Agent(Option<String>),
    /// Shows or changes who the assistant is in the conversation; for owners.
    Persona(PersonaCommand),
    /// Lists the models; with a name, chooses one; for owners.
    Model(Option<String>),
    /// Runs a task, or lists all of them; what stands behind the command, as it was written.
    Task(String),
    /// Makes a reminder; what stands behind the command, as it was written.
    Remind(String),
    /// Lists the reminders, or cancels one.
    Schedules(SchedulesCommand),
    /// Shows the person's time zone; with a name, changes it.
    Timezone(Option<String>),
    /// Manages pairing; for owners.
    Pair(PairCommand),
    Explain(Explanation),
}

/// A topic of help. It depends on no turn, so the reply is sent while one runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Explanation {
    Commands,
    /// How a tool call is allowed or refused: the code is missing.
    Decisions,
    /// The command that was probably meant.
    Hint {
        /// The name that was typed, without its slash.
        typed: String,
        /// The command that is one letter off it.
        nearest: &'static str,
    },
}

/// Whether voice replies are available and enabled in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VoiceStatus {
    /// Whether speech synthesis is configured.
    pub available: bool,
    /// Whether the person wants every reply spoken too.
    pub enabled: bool,
}

impl ChatCommand {
    /// Reads a message as a command.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let name = words.next()?.strip_prefix('/')?.to_lowercase();
        let arguments: Vec<String> = words.map(str::to_owned).collect();
        match (name.as_str(), arguments.is_empty()) {
            ("files", true) => Some(Self::Files(1)),
            ("files", false) => {
                let [page] = arguments.as_slice() else { return None };
                page.parse().ok().filter(|page| *page > 0).map(Self::Files)
            }
            ("find", _) => Some(Self::Find(FindCommand::parse(arguments_text(text)))),
            ("resend", _) => Some(Self::Resend(arguments)),
            ("unlink", _) => Some(Self::Unlink(arguments)),
            ("usage", true) => Some(Self::Usage),
            ("forget", _) => Some(match ForgetAll::parse(&arguments) {
                Some(all) => Self::ForgetAll(all),
                None => Self::Forget(arguments),
            }),
            ("undo", true) => Some(Self::Undo),
            ("outbox", true) => Some(Self::Outbox),
            ("stop", true) => Some(Self::Stop),
            ("new", true) => Some(Self::New),
            ("help", true) | ("start", _) => Some(Self::Explain(Explanation::Commands)),
            ("voice", true) => Some(Self::Voice(None)),
            ("voice", false) => match arguments.join(" ").to_lowercase().as_str() {
                "on" => Some(Self::Voice(Some(true))),
                "off" => Some(Self::Voice(Some(false))),
                _ => None,
            },
            ("agent", true) => Some(Self::Agent(None)),
            ("agent", false) => Some(Self::Agent(Some(arguments.join(" ")))),
            (PERSONA_COMMAND, _) => Some(Self::Persona(PersonaCommand::parse(arguments_text(text)))),
            (MODEL_COMMAND, true) => Some(Self::Model(None)),
            (MODEL_COMMAND, false) => Some(Self::Model(Some(arguments.join(" ")))),
            (TASK_COMMAND, _) => Some(Self::Task(arguments_text(text).to_owned())),
            (REMIND_COMMAND, _) => {
                let text = arguments_text(text);
                is_for_remind(text).then(|| Self::Remind(text.to_owned()))
            }
            (SCHEDULES_COMMAND, _) => Some(Self::Schedules(SchedulesCommand::parse(&arguments))),
            (TIMEZONE_COMMAND, _) => Some(Self::Timezone(arguments.into_iter().next())),
            ("pair", _) => Some(Self::Pair(PairCommand::parse(&arguments))),
            ("allow" | "refuse", true) => Some(Self::Explain(Explanation::Decisions)),
            ("allow" | "refuse", false) => {
                let [code] = arguments.as_slice() else { return None };
                Some(if name == "allow" { Self::Allow(code.clone()) } else { Self::Refuse(code.clone()) })
            }
            _ => suggestion::nearest_command(&name)
                .map(|nearest| Self::Explain(Explanation::Hint { typed: name, nearest })),
        }
    }
}

/// What stands behind the name of a command.
fn arguments_text(text: &str) -> &str {
    text.trim().split_once(char::is_whitespace).map_or("", |(_name, arguments)| arguments.trim())
}

/// The reply to a command, and its effect on the history.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandReply {
    /// What the person gets.
    pub response: OutgoingResponse,
    /// What the history becomes; commands themselves are not kept in it.
    pub history: HistoryChange,
    /// The setting that the command changes, if it changes one.
    pub setting: Option<ConversationSetting>,
    /// The buttons under the reply.
    pub buttons: Vec<Button>,
    /// The files that the command changed.
    pub changes: Vec<FileChange>,
}

/// What a command leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandOutcome {
    Reply(CommandReply),
    /// The turn runs this task.
    RunTask(TaskRequest),
}

/// What people can choose and run.
#[derive(Debug, Clone, Copy)]
pub struct CommandOffers<'a> {
    pub agents: AgentChoice<'a>,
    pub models: ModelOffers<'a>,
    /// Who the assistant is in the conversation, if somebody said so.
    pub persona: Option<&'a str>,
    pub tasks: &'a TaskDirectory,
    /// The time zone of everybody who has chosen none.
    pub zone: &'a Zone,
    /// What reminders are made with; `None` where no process delivers them.
    pub reminders: Option<ReminderClock<'a>>,
    /// Who gives the command, where it runs a task.
    pub starter: TaskStarter,
}

/// Runs a command and returns the reply; `links` is `None` where file links are off.
///
/// # Errors
/// When the ledger can't be read.
pub async fn handle_command(
    command: &ChatCommand,
    ledger: &Ledger,
    context: &CommandContext<'_>,
    voice_status: VoiceStatus,
    offers: &CommandOffers<'_>,
    links: Option<&dyn FileLinks>,
    services: &StorageServices<'_>,
) -> Result<CommandOutcome, LedgerError> {
    let conversation = context.conversation;
    let CommandOffers { agents, models, persona, tasks, zone, reminders, starter } = offers;
    let features = CommandFeatures {
        links: links.is_some(),
        agents: agents.directory.has_choice(),
        models: models.has_choice(),
        tasks: !tasks.is_empty(),
        reminders: reminders.is_some(),
    };
    let changes = ChangeLog::default();
    let mut setting = None;
    let mut history = HistoryChange::Append(Vec::new());
    let mut buttons = Vec::new();
    let response = match command {
        ChatCommand::Files(page) => list_files(&*ledger.archive, conversation, *page).await?,
        ChatCommand::Find(command) => {
            let zone = person_zone(&*ledger.reminders, context, zone).await?;
            find(command, ledger, context, &zone).await?
        }
        ChatCommand::Resend(numbers) => resend_files(&*ledger.archive, conversation, numbers).await?,
        ChatCommand::Unlink(numbers) => revoke_file_links(&*ledger.archive, context, numbers, links).await?,
        ChatCommand::Usage => show_usage(ledger, context, services).await?,
        ChatCommand::Forget(arguments) => {
            forget_files(&*ledger.storage, context, arguments, services, &changes).await?
        }
        ChatCommand::ForgetAll(all) => {
            let reply = forget_all(*all, ledger, context, services).await?;
            (history, buttons) = (reply.1, reply.2);
            reply.0
        }
        ChatCommand::Undo => restore_files(context, services, &changes).await,
        ChatCommand::Outbox => list_outbox(&*ledger.archive, conversation).await?,
        // A turn that a `/stop` has stopped consumes it; one that is answered by itself found nothing to stop.
        ChatCommand::Stop => OutgoingResponse::from_text("Nothing is running, so there is nothing to stop."),
        ChatCommand::New => {
            history = HistoryChange::Reset;
            OutgoingResponse::from_text(
                "Started a new conversation. I no longer see the earlier messages. Your files are still here: /files",
            )
        }
        // A valid decision is consumed by the turn that waits for it.
        ChatCommand::Allow(_) | ChatCommand::Refuse(_) => OutgoingResponse::from_text(
            "There is no open question with that code. It was already answered, it expired, or it is someone else's to \
             decide.",
        ),
        ChatCommand::Voice(enable) => change_voice_replies(context, *enable, voice_status, &mut setting),
        ChatCommand::Agent(None) => list_agents(context, agents),
        ChatCommand::Agent(Some(name)) => choose_agent(context, agents, name, &mut setting),
        ChatCommand::Persona(command) => handle_persona(command, context, *persona, &mut setting),
        ChatCommand::Model(None) => list_models(context, models),
        ChatCommand::Model(Some(name)) => choose_model(context, models, name, &mut setting),
        ChatCommand::Task(arguments) => match decide_task(arguments, tasks, *starter) {
            TaskDecision::Run(request) => return Ok(CommandOutcome::RunTask(request)),
            TaskDecision::Reply(response) => response,
        },
        ChatCommand::Remind(text) => create_reminder(text, &*ledger.reminders, context, *reminders).await?,
        ChatCommand::Schedules(command) => handle_schedules(command, &*ledger.reminders, context, *reminders).await?,
        ChatCommand::Timezone(name) => {
            handle_timezone(name.as_deref(), &*ledger.reminders, context, *reminders).await?
        }
        ChatCommand::Pair(command) => pairing::handle_pair_command(command, &*ledger.pairings, context).await?,
        ChatCommand::Explain(topic) => {
            OutgoingResponse::from_text(explanation_text(topic, context.is_by_owner(), features))
        }
    };
    let changes = changes.to_vec();
    Ok(CommandOutcome::Reply(CommandReply { response, history, setting, buttons, changes }))
}

const VOICE_REPLIES_ON: &str = "\
Voice replies are on here: you get each reply as text and as a voice message. Turn them off with `/voice off`.";

async fn list_outbox(archive: &dyn Archive, conversation: &ConversationId) -> Result<OutgoingResponse, LedgerError> {
    let query =
        OutboxQuery { conversation: Some(conversation.clone()), limit: Some(MAX_LISTED), ..OutboxQuery::default() };
    let mut parts = archive.parts(&query).await?;
    // Its text is in the chat.
    parts.retain(|part| !matches!(part.state, PartState::Open { .. }));
    if parts.is_empty() {
        return Ok(OutgoingResponse::from_text("Everything has been delivered."));
    }
    let mut text = "Not delivered, newest first:\n\n".to_owned();
    for part in &parts {
        let _ = writeln!(text, "- {}: {}", describe_part(part), describe_state(&part.state));
    }
    Ok(OutgoingResponse::from_text(text.trim_end()))
}

/// Changes or reports voice replies. They can't be enabled where synthesis is not configured.
fn change_voice_replies(
    context: &CommandContext<'_>,
    enable: Option<bool>,
    voice_status: VoiceStatus,
    setting: &mut Option<ConversationSetting>,
) -> OutgoingResponse {
    let unavailable_text = match context.is_by_owner() {
        true => "I can't send voice messages here. You can turn them on with `speech.speak`.",
        false => "I can't send voice messages here. Please ask the person who runs this bot to turn them on.",
    };
    let Some(enable) = enable else {
        return OutgoingResponse::from_text(match voice_status {
            VoiceStatus { available: false, .. } => unavailable_text,
            VoiceStatus { enabled: true, .. } => VOICE_REPLIES_ON,
            VoiceStatus { enabled: false, .. } => "Voice replies are off. Turn them on with `/voice on`.",
        });
    };
    if enable && !voice_status.available {
        return OutgoingResponse::from_text(unavailable_text);
    }
    *setting = Some(ConversationSetting::VoiceReplies(enable));
    OutgoingResponse::from_text(match enable {
        true => VOICE_REPLIES_ON,
        false => "Voice replies are off. Turn them on again with `/voice on`.",
    })
}

fn describe_part(part: &Part) -> String {
    match part.operation.files() {
        [] => part.operation.kind().to_owned(),
        files => files.iter().map(|item| describe_file(&item.attachment)).collect::<Vec<_>>().join(", "),
    }
}

fn describe_state(state: &PartState) -> String {
    match state {
        PartState::Pending => "queued".to_owned(),
        PartState::Sending => "being sent".to_owned(),
        PartState::Waiting { reason, .. } => format!("will be retried ({reason})"),
        PartState::InDoubt { reason, .. } => format!("may have arrived; I'm checking ({reason})"),
        PartState::Open { .. } => "waits for your answer".to_owned(),
        PartState::Failed { reason } => reason.to_string(),
        PartState::Sent { .. } | PartState::Replaced { .. } => "delivered".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use rstest::rstest;
    use satchel_domain::{AgentDirectory, Sender, Timestamp, TurnId, agent::AgentChat};
    use satchel_ports::{MockBlobs, MockFileLinks, MockLedger, MockWorkspace, ledger::Quotas};
    use uuid::Uuid;

    use super::*;
    use crate::access::{AccessPolicy, ChannelAccess, IMPLICIT_OWNER_ID};

    #[rstest]
    #[case("/files", Some(ChatCommand::Files(1)))]
    #[case("/files 3", Some(ChatCommand::Files(3)))]
    #[case("/files 0", None)]
    #[case("/files please", None)]
    #[case("  /HELP \n", Some(ChatCommand::Explain(Explanation::Commands)))]
    #[case("/resend 17 #18", Some(ChatCommand::Resend(vec!["17".into(), "#18".into()])))]
    #[case("/resend", Some(ChatCommand::Resend(vec![])))]
    #[case("/unlink #17", Some(ChatCommand::Unlink(vec!["#17".into()])))]
    #[case("/undo", Some(ChatCommand::Undo))]
    #[case("/undo that", None)]
    #[case("/stop", Some(ChatCommand::Stop))]
    #[case("/stop that", None)]
    #[case("/voice", Some(ChatCommand::Voice(None)))]
    #[case("/Voice  ON", Some(ChatCommand::Voice(Some(true))))]
    #[case("/voice off", Some(ChatCommand::Voice(Some(false))))]
    #[case("/voice of the people", None)]
    #[case("/agent", Some(ChatCommand::Agent(None)))]
    #[case("/Agent Kids", Some(ChatCommand::Agent(Some("Kids".into()))))]
    #[case("/agent of change", Some(ChatCommand::Agent(Some("of change".into()))))]
    #[case("/persona", Some(ChatCommand::Persona(PersonaCommand::Show)))]
    #[case("/Persona  You are\n Ada ", Some(ChatCommand::Persona(PersonaCommand::Set("You are\n Ada".into()))))]
    #[case("/model", Some(ChatCommand::Model(None)))]
    #[case("/model Small", Some(ChatCommand::Model(Some("Small".into()))))]
    #[case("/pair", Some(ChatCommand::Pair(PairCommand::Help)))]
    #[case("/PAIR List", Some(ChatCommand::Pair(PairCommand::List)))]
    #[case("/start", Some(ChatCommand::Explain(Explanation::Commands)))]
    #[case("/start from-a-link", Some(ChatCommand::Explain(Explanation::Commands)))]
    #[case("/allow", Some(ChatCommand::Explain(Explanation::Decisions)))]
    #[case("/refuse ", Some(ChatCommand::Explain(Explanation::Decisions)))]
    #[case("/allow ABCD2345", Some(ChatCommand::Allow("ABCD2345".into())))]
    #[case("/allow me to explain", None)]
    #[case("/tool file_list {}", None)]
    #[case("files", None)]
    #[case("", None)]
    fn only_what_satchel_knows_is_a_command(#[case] text: &str, #[case] command: Option<ChatCommand>) {
        assert_eq!(ChatCommand::parse(text), command);
    }

    #[rstest]
    #[case::letter_missing("/file", Some("files"))]
    #[case::letter_added("/Newt", Some("new"))]
    #[case::letter_changed("/resent 17", Some("resend"))]
    #[case::neighbours_swapped("/flies", Some("files"))]
    #[case::pairing("/pairs list", Some("pair"))]
    #[case::two_letters("/fils3", None)]
    #[case::another_word("/weather", None)]
    #[case::one_of_the_model("/tool", None)]
    #[case::slash_alone("/", None)]
    #[case::path("/etc/hosts", None)]
    #[case::other_letters("/файл", None)]
    fn command_one_letter_off_gets_hint(#[case] text: &str, #[case] nearest: Option<&str>) {
        let hint = match ChatCommand::parse(text) {
            Some(ChatCommand::Explain(Explanation::Hint { nearest, .. })) => Some(nearest),
            None => None,
            Some(command) => panic!("{command:?}"),
        };
        assert_eq!(hint, nearest);
    }

    #[tokio::test]
    async fn hint_names_only_offered_commands() {
        let ledger = Ledger::from(MockLedger::default());
        let strict = without_owner();
        let text = async |text: &str, access: &AccessPolicy| {
            let command = ChatCommand::parse(text).unwrap();
            let answer = handle_command(
                &command,
                &ledger,
                &command_context(access),
                VoiceStatus::default(),
                &no_offers(),
                None,
                &storage(),
            )
            .await
            .unwrap();
            replied(answer).response.text.unwrap()
        };
        assert_eq!(
            text("/flies", &strict).await,
            "I don't know the command `/flies`. Did you mean `/files`? `/help` lists all commands."
        );
        assert!(text("/pairr list", &access()).await.contains("`/pair`"));
        assert_eq!(
            text("/pairr list", &strict).await,
            "I don't know the command `/pairr`. `/help` lists all commands."
        );
        assert_eq!(
            text("/agents", &access()).await,
            "I don't know the command `/agents`. `/help` lists all commands.",
            "there is no choice"
        );
        assert!(text("/allow", &strict).await.contains("`/allow CODE`"));
    }

    fn conversation() -> ConversationId {
        "console:main".parse().unwrap()
    }

    /// The default agent alone, and no tasks.
    fn no_offers() -> CommandOffers<'static> {
        static ALONE: LazyLock<AgentDirectory> = LazyLock::new(AgentDirectory::default);
        static NO_TASKS: LazyLock<TaskDirectory> = LazyLock::new(TaskDirectory::default);
        static CONVERSATION: LazyLock<ConversationId> = LazyLock::new(conversation);
        let chat = AgentChat { conversation: &CONVERSATION, parents: &[], person: None };
        let agents = AgentChoice { directory: &ALONE, chosen: None, chat };
        let models = ModelOffers { names: &[], usual: "usual", chosen: None };
        static ZONE: LazyLock<Zone> = LazyLock::new(|| Zone::find("UTC").unwrap());
        CommandOffers {
            agents,
            models,
            persona: None,
            tasks: &NO_TASKS,
            zone: &ZONE,
            reminders: None,
            starter: TaskStarter::Owner,
        }
    }

    fn replied(outcome: CommandOutcome) -> CommandReply {
        match outcome {
            CommandOutcome::Reply(reply) => reply,
            CommandOutcome::RunTask(request) => panic!("{request:?} runs"),
        }
    }

    /// A storage that no command of these looks into.
    fn storage() -> StorageServices<'static> {
        static UNUSED: LazyLock<(MockBlobs, MockWorkspace)> = LazyLock::new(Default::default);
        StorageServices { blobs: &UNUSED.0, workspace: &UNUSED.1, quotas: Quotas::NONE }
    }

    pub(super) fn access() -> AccessPolicy {
        AccessPolicy::default().with_owner_on([conversation().channel().clone()])
    }

    /// A channel on which nobody owns the bot.
    pub(super) fn without_owner() -> AccessPolicy {
        AccessPolicy::new([(conversation().channel().clone(), ChannelAccess::default())])
    }

    pub(super) fn command_context(access: &AccessPolicy) -> CommandContext<'_> {
        static PLACE: LazyLock<(ConversationId, Sender)> =
            LazyLock::new(|| (conversation(), Sender::new(IMPLICIT_OWNER_ID, "Owner")));
        CommandContext {
            turn: TurnId(Uuid::nil()),
            repeated: false,
            conversation: &PLACE.0,
            group: false,
            sender: &PLACE.1,
            access,
            now: Timestamp(0),
        }
    }

    /// What a command that needs neither voice nor files is answered.
    async fn reply(command: &ChatCommand, access: &AccessPolicy, links: Option<&dyn FileLinks>) -> CommandReply {
        let (ledger, voice) = (Ledger::from(MockLedger::default()), VoiceStatus::default());
        let context = command_context(access);
        replied(handle_command(command, &ledger, &context, voice, &no_offers(), links, &storage()).await.unwrap())
    }

    #[rstest]
    #[case::told_while_on(None, true, true, "Voice replies are on here", None)]
    #[case::told_while_off(None, true, false, "Voice replies are off. Turn them on with", None)]
    #[case::told_without_a_voice(None, false, true, "`speech.speak`", None)]
    #[case::on(Some(true), true, false, "Voice replies are on here", Some(true))]
    #[case::off(Some(false), true, true, "Voice replies are off. Turn them on again", Some(false))]
    #[case::off_without_a_voice(Some(false), false, true, "Voice replies are off. Turn them on again", Some(false))]
    #[case::nothing_to_speak_with(Some(true), false, false, "`speech.speak`", None)]
    #[tokio::test]
    async fn voice_command_sets_reports_and_checks_availability(
        #[case] wish: Option<bool>,
        #[case] possible: bool,
        #[case] wanted: bool,
        #[case] says: &str,
        #[case] set: Option<bool>,
    ) {
        let speaking = VoiceStatus { available: possible, enabled: wanted };
        let answer = handle_command(
            &ChatCommand::Voice(wish),
            &Ledger::from(MockLedger::default()),
            &command_context(&access()),
            speaking,
            &no_offers(),
            None,
            &storage(),
        )
        .await
        .unwrap();
        let answer = replied(answer);
        assert!(answer.response.text.as_ref().unwrap().contains(says), "{answer:?}");
        assert_eq!(answer.setting, set.map(ConversationSetting::VoiceReplies));
        assert_eq!((answer.response.voice, answer.history), (None, HistoryChange::Append(Vec::new())));
    }

    #[tokio::test]
    async fn only_owners_read_which_setting_helps() {
        let strict = without_owner();
        for (command, key) in [("/voice on", "`speech.speak`"), ("/unlink 17", "`web.public_url`")] {
            for (access, names_key) in [(access(), true), (strict.clone(), false)] {
                let command = ChatCommand::parse(command).unwrap();
                let text = reply(&command, &access, None).await.response.text.unwrap();
                assert_eq!(
                    (text.contains(key), text.contains("ask the person who runs this bot")),
                    (names_key, !names_key),
                    "{text}"
                );
            }
        }
    }

    #[tokio::test]
    async fn only_an_owner_hears_of_pairing() {
        let help = async |access: &AccessPolicy| {
            reply(&ChatCommand::Explain(Explanation::Commands), access, None).await.response.text.unwrap()
        };
        assert!(help(&access()).await.contains("`/pair list`"));
        let strict = without_owner();
        assert!(!help(&strict).await.contains("/pair"));
    }

    #[tokio::test]
    async fn unlink_command_is_offered_only_with_links() {
        let links = MockFileLinks::new();
        for links in [None, Some(&links as &dyn FileLinks)] {
            let help = reply(&ChatCommand::Explain(Explanation::Commands), &access(), links).await;
            assert_eq!(help.response.text.unwrap().contains("- `/unlink 17`"), links.is_some());
            let features = CommandFeatures { links: links.is_some(), ..CommandFeatures::default() };
            assert_eq!(command_menu(features).iter().any(|(name, _)| *name == "unlink"), links.is_some());
        }
    }

    #[tokio::test]
    async fn only_new_forgets_the_history() {
        let new = reply(&ChatCommand::New, &access(), None).await;
        assert_eq!(new.history, HistoryChange::Reset);
        let stop = reply(&ChatCommand::Stop, &access(), None).await;
        assert_eq!(stop.history, HistoryChange::Append(Vec::new()));
    }
}
