//! The commands that people give to Satchel itself; the model never sees them.

mod agents;
mod blocks;
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
    Button, ConversationId, InboundMessage, OutgoingResponse, Part, PartState, TaskDirectory, TaskRequest,
    task::TASK_COMMAND,
};
use satchel_ports::{
    Archive, ChangeLog, FileChange, FileLinks, Ledger, LedgerError,
    ledger::{ConversationSetting, HistoryChange, OutboxQuery},
};

pub use self::agents::AgentChoice;
pub use self::blocks::{BlockCommand, BlockStatus};
pub use self::files::describe_file;
pub use self::find::FindCommand;
pub use self::forget_all::ForgetAll;
pub use self::help::{AGENT_COMMAND, CommandFeatures, MODEL_COMMAND, command_menu, explanation_text, owner_menu};
pub use self::models::ModelOffers;
pub use self::persona::PersonaCommand;
pub use self::reminders::{ConfiguredSchedule, ReminderClock, ScheduleDirectory, SchedulesCommand};
pub use self::storage::StorageServices;
pub use self::tasks::TaskStarter;
use self::{
    agents::{choose_agent, list_agents},
    blocks::{BlockReply, RICH_COMMAND, handle_rich},
    files::{list_files, list_named_files, resend_files, revoke_file_links},
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
    Files(u64),
    /// Lists the conversation's files whose names have these words.
    NamedFiles(FindCommand),
    /// Finds what was said in the conversation.
    Find(FindCommand),
    /// Sends files again, by their numbers, or one by its name; as given, so that a mistake can be named.
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
    /// Sets whether texts are shown in blocks, sends a sample, or says how it is.
    Rich(BlockCommand),
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
                let page = match arguments.as_slice() {
                    [page] => page.parse().ok().filter(|page| *page > 0),
                    _ => None,
                };
                Some(page.map_or_else(|| Self::NamedFiles(FindCommand::parse(arguments_text(text))), Self::Files))
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
            (RICH_COMMAND, _) => BlockCommand::parse(&arguments).map(Self::Rich),
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

/// What a person reads whose edit gives a command.
pub(crate) const EDITED_COMMAND_TEXT: &str =
    "I don't run edited commands, so I did nothing. Please send it again as a new message.";

/// Returns the reply to an edit that gives a command; `None` for any other message.
#[must_use]
pub fn edited_command_reply(message: &InboundMessage, command: &ChatCommand) -> Option<CommandReply> {
    is_edited_command(message, command).then(|| CommandReply {
        response: OutgoingResponse::from_text(EDITED_COMMAND_TEXT),
        history: HistoryChange::Append(Vec::new()),
        setting: None,
        buttons: Vec::new(),
        changes: Vec::new(),
        answered: None,
        in_blocks: false,
    })
}

/// Whether a message gives its command by an edit of what was read before, or may have been. Such a command is never run: nobody
/// expects that a correction does something once more. That a command is unknown is said of an edit, too.
pub(crate) fn is_edited_command(message: &InboundMessage, command: &ChatCommand) -> bool {
    let is_edit = message.earlier_text.is_some() || message.edits_forgotten;
    is_edit && !matches!(command, ChatCommand::Explain(Explanation::Hint { .. }))
}

/// Whether a version of a message that its sender has edited since was a command that was run, or may have been one.
pub(crate) fn corrects_command(message: &InboundMessage) -> bool {
    if message.edits_forgotten {
        return true;
    }
    let earlier = message.earlier_commands.iter().chain(&message.earlier_text);
    let mut commands = earlier.filter_map(|text| ChatCommand::parse(text));
    commands.any(|command| !matches!(command, ChatCommand::Explain(_)))
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
    /// The command of the button by which an earlier reply's question is answered.
    pub answered: Option<String>,
    /// Whether the reply is shown in blocks, whatever was chosen for the conversation.
    pub in_blocks: bool,
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
    /// Whether texts can be shown in blocks.
    pub blocks: BlockStatus,
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
    let CommandOffers { agents, models, persona, tasks, zone, reminders, starter, blocks } = offers;
    let features = CommandFeatures {
        links: links.is_some(),
        agents: agents.directory.has_choice() && agents.locked_agent().is_none(),
        models: models.has_choice(),
        tasks: !tasks.is_empty(),
        reminders: reminders.is_some(),
        rich: blocks.is_offered(),
    };
    let changes = ChangeLog::default();
    let mut setting = None;
    let mut history = HistoryChange::Append(Vec::new());
    let mut buttons = Vec::new();
    let mut answered = None;
    let mut in_blocks = false;
    let response = match command {
        ChatCommand::Files(page) => list_files(&*ledger.archive, conversation, *page).await?,
        ChatCommand::NamedFiles(command) => list_named_files(&*ledger.archive, conversation, command).await?,
        ChatCommand::Find(command) => {
            let zone = person_zone(&*ledger.reminders, context, zone).await?;
            find(command, ledger, context, &zone).await?
        }
        ChatCommand::Resend(numbers) => resend_files(&*ledger.archive, conversation, numbers).await?,
        ChatCommand::Unlink(numbers) => revoke_file_links(ledger, context, numbers, links.is_some()).await?,
        ChatCommand::Usage => show_usage(ledger, context, services).await?,
        ChatCommand::Forget(arguments) => {
            forget_files(&*ledger.storage, context, arguments, services, &changes).await?
        }
        ChatCommand::ForgetAll(all) => {
            let reply = forget_all(*all, ledger, context, services, agents).await?;
            (history, buttons, answered) = (reply.history, reply.buttons, reply.answered);
            reply.response
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
        ChatCommand::Rich(command) => {
            let reply = handle_rich(*command, *blocks);
            let response;
            BlockReply { response, setting, buttons, in_blocks } = reply;
            response
        }
        ChatCommand::Agent(None) => list_agents(context, agents),
        ChatCommand::Agent(Some(name)) => choose_agent(context, agents, name, &mut setting),
        ChatCommand::Persona(command) => handle_persona(command, context, *persona, &mut setting),
        ChatCommand::Model(None) => list_models(context, models),
        ChatCommand::Model(Some(name)) => choose_model(context, models, name, &mut setting),
        ChatCommand::Task(arguments) => match decide_task(arguments, tasks, *starter, agents.locked_agent()) {
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
    Ok(CommandOutcome::Reply(CommandReply { response, history, setting, buttons, changes, answered, in_blocks }))
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
mod tests;
