//! What people read about commands: the menu, `/help`, and hints.

use satchel_domain::task::TASK_COMMAND;

use super::{Explanation, blocks::RICH_COMMAND, suggestion};

/// The commands that are offered only where there is something for them to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommandFeatures {
    /// Whether links to files are given.
    pub links: bool,
    /// Whether there is more than one agent.
    pub agents: bool,
    /// Whether there is more than one model.
    pub models: bool,
    /// Whether there are tasks.
    pub tasks: bool,
    /// Whether reminders are delivered.
    pub reminders: bool,
    /// Whether people choose if tables and formulas are shown as such.
    pub rich: bool,
}

/// The commands as platforms list them while a person types: name and what it does.
#[must_use]
pub fn command_menu(features: CommandFeatures) -> Vec<(&'static str, &'static str)> {
    let unlink = features.links.then_some(("unlink", "revoke the links to a file, by its number"));
    let agent = features.agents.then_some((AGENT_COMMAND, "choose the agent that answers here"));
    let task = features.tasks.then_some((TASK_COMMAND, "run a task, or list all"));
    let rich = features.rich.then_some((RICH_COMMAND, "tables and formulas as such: on or off"));
    let reminders = REMINDER_MENU.into_iter().filter(|_| features.reminders);
    COMMAND_MENU.into_iter().chain(rich).chain(reminders).chain(unlink).chain(agent).chain(task).collect()
}

/// The commands that owners alone can give and complete while they type.
#[must_use]
pub fn owner_menu(features: CommandFeatures) -> Vec<(&'static str, &'static str)> {
    let model = features.models.then_some((MODEL_COMMAND, "choose the model that answers here"));
    std::iter::once((PERSONA_COMMAND, "say who I am in this chat")).chain(model).collect()
}

/// The command that chooses an agent.
pub const AGENT_COMMAND: &str = "agent";

/// The command that says who the assistant is in a conversation.
pub(super) const PERSONA_COMMAND: &str = "persona";

/// The command that makes a reminder.
pub(super) const REMIND_COMMAND: &str = "remind";

/// The command that lists reminders.
pub(super) const SCHEDULES_COMMAND: &str = "schedules";

/// The command that sets a person's time zone.
pub(super) const TIMEZONE_COMMAND: &str = "timezone";

/// The command that chooses a model.
pub const MODEL_COMMAND: &str = "model";

const COMMAND_MENU: [(&str, &str); 11] = [
    ("files", "the files of this conversation"),
    ("find", "find what was said here, and files, by words"),
    ("resend", "send a file again, by its number"),
    ("forget", "remove a file for good, by its number"),
    ("usage", "how much space my files take up"),
    ("undo", "bring back the files that were deleted last"),
    ("outbox", "see what is being sent and what failed"),
    ("stop", "stop what I am doing"),
    ("new", "start a new conversation"),
    ("voice", "voice replies: on or off"),
    ("help", "what I can do"),
];

const REMINDER_MENU: [(&str, &str); 3] = [
    (REMIND_COMMAND, "remind you: a time, such as 18:30, and a text"),
    (SCHEDULES_COMMAND, "your reminders"),
    (TIMEZONE_COMMAND, "your time zone"),
];

const HELP: &str = "\
Send me messages and files, and ask for your files back at any time.

- `/files` lists the files of this conversation, each with its number, `/files rent` those with that word in their names
- `/find rent contract` finds files, messages and replies of this conversation by words
- `/resend 17` sends file #17 again, `/resend plan.pdf` the one of that name; several numbers send several
- `/usage` shows how much space files take up, `/forget 17` removes file #17 for good, `/forget all` everything here
- `/undo` brings back the files of the workspace that were deleted last, for a day
- `/outbox` shows what is still being sent and what could not be delivered
- `/stop` stops what I am doing and sends what is done so far
- `/new` starts a new conversation; your files stay
- `/voice on` adds a voice message to my replies, `/voice off` turns that off
- When I ask to use a tool, answer with `/allow CODE` or `/refuse CODE`
- `/help` shows this";

const HELP_WITH_RICH: &str = "\
- `/rich on` shows tables, formulas and lists as such, `/rich off` as text, `/rich sample` shows what that looks like";

const HELP_WITH_LINKS: &str = "\
- `/unlink 17` revokes the links to file #17. I send a link when I can't send the file itself; anyone with the link can \
open it";

const HELP_WITH_AGENTS: &str = "- `/agent` lists the agents that can answer here, `/agent NAME` chooses one";

const HELP_WITH_TASKS: &str = "- `/task` lists the tasks that you can run, `/task NAME input=value` runs one";

const HELP_WITH_REMINDERS: &str = "\
- `/remind 18:30 TEXT`, `/remind in 20m TEXT` and `/remind 2026-12-24 18:30 TEXT` remind you; ask me in your own words for \
anything else
- `/schedules` lists your reminders, `/schedules cancel 3` cancels one, `/schedules cancel all` all of yours, `/timezone` \
shows your time zone";

const HELP_WITH_MODELS: &str = "- `/model` lists the models that can answer here, `/model NAME` chooses one";

const HELP_FOR_OWNERS: &str = "\
- `/persona TEXT` says who I am in this chat and how I answer, `/persona` shows that, `/persona reset` removes it
- `/pair list` shows who wants to talk to me and whom you approved; `/pair` shows all pairing commands";

const DECISION_HELP: &str = "\
The code is missing. When I ask to use a tool, my question shows one: answer with `/allow CODE` or `/refuse CODE`.";

/// Returns the help text of a topic; lines for owners and about features only where they apply.
#[must_use]
pub fn explanation_text(topic: &Explanation, is_owner: bool, features: CommandFeatures) -> String {
    match topic {
        Explanation::Commands => {
            let with_rich = features.rich.then_some(HELP_WITH_RICH);
            let with_links = features.links.then_some(HELP_WITH_LINKS);
            let with_reminders = features.reminders.then_some(HELP_WITH_REMINDERS);
            let with_agents = features.agents.then_some(HELP_WITH_AGENTS);
            let with_tasks = features.tasks.then_some(HELP_WITH_TASKS);
            let with_models = (is_owner && features.models).then_some(HELP_WITH_MODELS);
            let for_owners = is_owner.then_some(HELP_FOR_OWNERS);
            let features = [with_rich, with_reminders, with_links, with_agents, with_tasks, with_models];
            let lines = std::iter::once(Some(HELP)).chain(features).chain([for_owners]);
            lines.flatten().collect::<Vec<&str>>().join("\n")
        }
        Explanation::Decisions => DECISION_HELP.to_owned(),
        Explanation::Hint { typed, nearest } => hint_text(typed, nearest, is_owner, features),
    }
}

/// Suggests the most likely command; those of owners only to owners, agents, models and tasks only where there are some.
fn hint_text(typed: &str, nearest: &str, is_owner: bool, features: CommandFeatures) -> String {
    let is_offered = match nearest {
        suggestion::PAIR | PERSONA_COMMAND => is_owner,
        MODEL_COMMAND => is_owner && features.models,
        AGENT_COMMAND => features.agents,
        TASK_COMMAND => features.tasks,
        RICH_COMMAND => features.rich,
        REMIND_COMMAND | SCHEDULES_COMMAND | TIMEZONE_COMMAND => features.reminders,
        _ => true,
    };
    match nearest {
        _ if !is_offered => format!("I don't know the command `/{typed}`. `/help` lists all commands."),
        nearest => {
            format!("I don't know the command `/{typed}`. Did you mean `/{nearest}`? `/help` lists all commands.")
        }
    }
}
