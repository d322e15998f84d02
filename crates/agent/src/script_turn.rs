//! Runs a script that is sent as a message, without a model call. Pure.
//!
//! The call and its outcome are journalled like those that a model requests, so that no other code needs to differ.

use std::fmt::Write;

use satchel_domain::{
    Attachment, CallId, RecordedOutcome, ReminderAuthor, ReminderId, ReminderOrigin, SystemTask, ToolCall, Visibility,
    filename::to_inline_code,
    remedy,
    script::{NO_VALUE_TEXT, RESULT_PREFIX, SCRIPT_TOOL, ScriptMessage, fenced_block, parse_script_message},
};
use satchel_ports::ledger::QueuedTurn;
use serde_json::{Value, json};

use crate::{
    AgentProfile, AgentServices, Toolbox,
    model::ModelResponse,
    rounds::{self, Rounds},
    run::is_for_owners,
};

/// The reply where scripts are off, and the owner's remedy.
const SCRIPTS_OFF_TEXT: &str = "This scheduled script did not run, because scripts are off here";
const SCRIPTS_OFF_REMEDY: &str = "the worker program `satchel-script` is not installed; put it next to `satchel`";

/// The reply where only the chat's agent can't run scripts.
const AGENT_WITHOUT_SCRIPTS_TEXT: &str =
    "This scheduled script did not run, because the agent of this chat can't run scripts";

/// The next step of a turn that needs no model call: run the script, or reply with its outcome. `None` where the model
/// is called: there is no script, no worker runs it, or it has requested the model.
pub(crate) fn next_step(
    services: &AgentServices,
    agent: &AgentProfile,
    turn: &QueuedTurn,
    rounds: &Rounds,
) -> Option<ModelResponse> {
    let text = script_message(turn)?;
    let ScriptMessage { source, globals } = ScriptMessage::parse(&text)?;
    if rounds.rounds.is_empty() && agent.tools.find(SCRIPT_TOOL).is_none() {
        // The model may explain a person's script; a scheduled one has no person to explain it to.
        return schedule(turn).map(|_| ModelResponse { text: not_run_text(services, agent, turn), calls: Vec::new() });
    }
    let id = script_call(turn, rounds, &agent.tools)?;
    match rounds.rounds.as_slice() {
        [] => {
            let mut arguments = json!({ "script": source });
            if !globals.is_empty() {
                arguments["globals"] = Value::Object(globals);
            }
            let call = ToolCall { id, name: SCRIPT_TOOL.to_owned(), arguments };
            Some(ModelResponse { text: String::new(), calls: vec![call] })
        }
        [_] => {
            let outcome = rounds.outcomes.get(&id.ordinal).filter(|outcome| outcome.wakes.is_empty())?;
            let text = if schedule(turn).is_some() { schedule_report(outcome) } else { format_outcome(outcome) };
            Some(ModelResponse { text, calls: Vec::new() })
        }
        _ => None,
    }
}

/// Formats the reply where a scheduled script can't run.
fn not_run_text(services: &AgentServices, agent: &AgentProfile, turn: &QueuedTurn) -> String {
    let is_agent_at_fault = services.agents.default_agent().tools.find(SCRIPT_TOOL).is_some();
    let (reason, remedy) = match is_agent_at_fault {
        true => (
            AGENT_WITHOUT_SCRIPTS_TEXT,
            format!(
                "the agent `{}` lacks the tool `{SCRIPT_TOOL}`; choose another one with `/agent`",
                agent.summary.name
            ),
        ),
        false => (SCRIPTS_OFF_TEXT, SCRIPTS_OFF_REMEDY.to_owned()),
    };
    format!("{}.", remedy::message_for(reason, Some(&remedy), is_for_owners(services, turn)))
}

/// The call that runs the turn's script, started or not, even if its worker is gone since. `None` where there is no script,
/// no worker runs it, or a model was called before a worker was available.
pub(crate) fn script_call(turn: &QueuedTurn, rounds: &Rounds, tools: &Toolbox) -> Option<CallId> {
    if !is_script_message(turn) {
        return None;
    }
    let has_worker = tools.find(SCRIPT_TOOL).is_some();
    match rounds.rounds.first().map(|round| round.calls.as_slice()) {
        None => has_worker.then_some(CallId { turn: turn.id, ordinal: 0 }),
        // A model that was called because there is no worker may request the tool, too.
        Some([call]) if call.name == SCRIPT_TOOL && (has_worker || !rounds.model_answered) => Some(call.id),
        Some(_) => None,
    }
}

/// Formats the reply about a script that may have run.
pub(crate) fn interrupted_message(turn_files: &[Attachment]) -> String {
    let mut text = "I was interrupted while the script ran: outcome unknown. What it did until then stays. I \
                    don't run it again automatically."
        .to_owned();
    let visible: Vec<_> = turn_files.iter().filter(|file| file.visibility == Visibility::Deliver).collect();
    if let [first, ..] = visible.as_slice() {
        let name = |file: &&Attachment| format!("#{} {}", file.number, to_inline_code(file.filename.as_str(), 60));
        let files = visible.iter().map(name).collect::<Vec<_>>().join(", ");
        let _ = write!(text, " Files of this turn so far: {files}. `/resend {}` sends the first.", first.number);
    }
    text
}

/// Whether a turn may end without a reply: its scheduled script has no output and requests no model.
pub(crate) fn allows_empty_reply(turn: &QueuedTurn, rounds: &Rounds) -> bool {
    let wakes = rounds.outcomes.values().any(|outcome| !outcome.wakes.is_empty());
    is_script_message(turn) && schedule(turn).is_some() && !wakes
}

/// Whether a turn's message is a script.
fn is_script_message(turn: &QueuedTurn) -> bool {
    script_message(turn).is_some_and(|text| parse_script_message(&text).is_some())
}

/// The text of a turn that may be a script. The prompt of a reminder is none: a model may have written it.
fn script_message(turn: &QueuedTurn) -> Option<String> {
    prompt_reminder(turn).is_none().then(|| rounds::user_text(turn))
}

/// A reminder whose prompt a turn runs.
pub(crate) struct PromptReminder<'a> {
    pub(crate) reminder: ReminderId,
    /// When it was due.
    pub(crate) due: &'a str,
    pub(crate) origin: ReminderOrigin,
}

/// The reminder whose prompt a turn runs; `None` where it runs none.
pub(crate) fn prompt_reminder(turn: &QueuedTurn) -> Option<PromptReminder<'_>> {
    turn.messages.iter().find_map(|queued| match &queued.message.system_task {
        Some(SystemTask::RunReminder { reminder, due, origin }) => {
            // Earlier versions stored none. Only models have made prompts.
            let unknown = || ReminderOrigin { author: ReminderAuthor::Model, made: None, repeats: false };
            let origin = origin.clone().unwrap_or_else(unknown);
            Some(PromptReminder { reminder: *reminder, due, origin })
        }
        _ => None,
    })
}

/// The schedule for which a turn runs, and when it was due.
pub(crate) fn schedule(turn: &QueuedTurn) -> Option<(&str, &str)> {
    turn.messages.iter().find_map(|queued| match &queued.message.system_task {
        Some(SystemTask::RunSchedule { name, due }) => Some((name.as_str(), due.as_str())),
        _ => None,
    })
}

/// Formats a script's outcome for people: JSON gets its own code block.
fn format_outcome(outcome: &RecordedOutcome) -> String {
    let text = outcome.text.clone().unwrap_or_default();
    match &outcome.data {
        Some(data) => {
            let json = format!("{data:#}");
            text.replacen(&json, &fenced_block("json", &json), 1)
        }
        None => text,
    }
}

/// The report of a scheduled script: its value alone; empty where it has none or where the value is only the id of a
/// delivered file.
fn schedule_report(outcome: &RecordedOutcome) -> String {
    let text = format_outcome(outcome);
    let value = [NO_VALUE_TEXT, RESULT_PREFIX.trim_end()].into_iter().find_map(|prefix| text.strip_prefix(prefix));
    let value = value.unwrap_or(&text).trim_start();
    let is_id = outcome.attachments.iter().any(|file| file.id.to_string() == value);
    if is_id { String::new() } else { value.to_owned() }
}
