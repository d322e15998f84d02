//! A script that stands in a message is run as it is: no model is asked for it. Pure.
//!
//! The call and its outcome are journalled like those that a model asks for, so that nothing else knows the difference.

use std::fmt::Write;

use satchel_domain::{
    Attachment, CallId, SystemTask, ToolCall, ToolOutcome,
    filename::to_inline_code,
    remedy,
    script::{NO_VALUE_TEXT, RESULT_PREFIX, SCRIPT_TOOL, fenced_block, parse_script_message},
};
use satchel_ports::ledger::QueuedTurn;
use serde_json::json;

use crate::{
    Toolbox,
    model::ModelResponse,
    rounds::{self, Rounds},
};

/// What is said where a schedule's script can't be run, and what the owner can do about it.
const NOT_RUN: &str = "This scheduled script did not run, because scripts are off here";
const REMEDY: &str = "the worker program `satchel-script` is not installed; put it next to `satchel`";

/// What a turn does next without its model: begins its script, or ends with what the script yielded. `None` where the
/// model is to be asked: there is no script, nothing runs it, or it wants the model to look.
pub(crate) fn next_step(
    turn: &QueuedTurn,
    rounds: &Rounds,
    tools: &Toolbox,
    for_owners: bool,
) -> Option<ModelResponse> {
    let words = rounds::user_text(turn);
    let script = parse_script_message(&words)?;
    if tools.find(SCRIPT_TOOL).is_none() {
        // A person's script the model may explain; a schedule's is nobody's question.
        let text = || format!("{}.", remedy::written(NOT_RUN, Some(REMEDY), for_owners));
        return schedule(turn).map(|_| ModelResponse { text: text(), calls: Vec::new() });
    }
    let id = script_call(turn, rounds, tools)?;
    match rounds.rounds.as_slice() {
        [] => {
            let call = ToolCall { id, name: SCRIPT_TOOL.to_owned(), arguments: json!({ "script": script }) };
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

/// The call that runs a turn's own script, whether it has begun or not. `None` where there is no script, nothing runs it,
/// or a model was asked before there was something to run it with.
pub(crate) fn script_call(turn: &QueuedTurn, rounds: &Rounds, tools: &Toolbox) -> Option<CallId> {
    tools.find(SCRIPT_TOOL).filter(|_| is_script_message(turn))?;
    match rounds.rounds.first().map(|round| round.calls.as_slice()) {
        None => Some(CallId { turn: turn.id, ordinal: 0 }),
        Some([call]) if call.name == SCRIPT_TOOL => Some(call.id),
        Some(_) => None,
    }
}

/// What people are told of their script that may have run.
pub(crate) fn interrupted_message(made: &[Attachment]) -> String {
    let mut told = "I was interrupted while the script ran: outcome unknown. What it did until then stays. I \
                    don't run it again automatically."
        .to_owned();
    let files = made.iter().map(|file| format!("#{} {}", file.number, to_inline_code(file.filename.as_str(), 60)));
    if let [first, ..] = made {
        let files = files.collect::<Vec<_>>().join(", ");
        let _ = write!(told, " Files of this turn so far: {files}. `/resend {}` sends the first.", first.number);
    }
    told
}

/// Whether a turn may end without a word: its schedule's script had nothing to say, and wants nobody to look.
pub(crate) fn allows_empty_reply(turn: &QueuedTurn, rounds: &Rounds) -> bool {
    let wakes = rounds.outcomes.values().any(|outcome| !outcome.wakes.is_empty());
    is_script_message(turn) && schedule(turn).is_some() && !wakes
}

/// Whether a turn's message is a script.
fn is_script_message(turn: &QueuedTurn) -> bool {
    parse_script_message(&rounds::user_text(turn)).is_some()
}

/// The schedule for which a turn runs, and when it was due.
pub(crate) fn schedule(turn: &QueuedTurn) -> Option<(&str, &str)> {
    turn.messages.iter().find_map(|queued| match &queued.message.system_task {
        Some(SystemTask::RunSchedule { name, due }) => Some((name.as_str(), due.as_str())),
        _ => None,
    })
}

/// What a script says, as people are to read it: JSON keeps its lines in a block of its own.
fn format_outcome(outcome: &ToolOutcome) -> String {
    let words = outcome.text.clone().unwrap_or_default();
    match &outcome.data {
        Some(data) => {
            let json = format!("{data:#}");
            words.replacen(&json, &fenced_block("json", &json), 1)
        }
        None => words,
    }
}

/// What a schedule's script says to people: its value alone, and nothing where it has none or where that is only the
/// id of a file that they get.
fn schedule_report(outcome: &ToolOutcome) -> String {
    let words = format_outcome(outcome);
    let said = [NO_VALUE_TEXT, RESULT_PREFIX.trim_end()].into_iter().find_map(|begins| words.strip_prefix(begins));
    let said = said.unwrap_or(&words).trim_start();
    let is_id = outcome.attachments.iter().any(|file| file.id.to_string() == said);
    if is_id { String::new() } else { said.to_owned() }
}
