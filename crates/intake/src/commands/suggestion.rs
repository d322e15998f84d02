//! Suggests the command whose name is one letter off a mistyped one.

use satchel_domain::task::TASK_COMMAND;

use super::{
    blocks::RICH_COMMAND,
    help::{AGENT_COMMAND, MODEL_COMMAND, PERSONA_COMMAND, REMIND_COMMAND, SCHEDULES_COMMAND, TIMEZONE_COMMAND},
};

/// The command of owners.
pub(super) const PAIR: &str = "pair";

/// Every command, in the order in which a hint prefers them.
const COMMAND_NAMES: [&str; 24] = [
    "files",
    "find",
    "resend",
    "unlink",
    "usage",
    "forget",
    "undo",
    "outbox",
    "stop",
    "new",
    "voice",
    RICH_COMMAND,
    "allow",
    "refuse",
    "help",
    PAIR,
    AGENT_COMMAND,
    PERSONA_COMMAND,
    MODEL_COMMAND,
    TASK_COMMAND,
    REMIND_COMMAND,
    SCHEDULES_COMMAND,
    TIMEZONE_COMMAND,
    "start",
];

/// Returns the command that is one letter off `typed`, which is in lower case and no command itself.
pub(super) fn nearest_command(typed: &str) -> Option<&'static str> {
    // Arguments that make no sense behind a command don't make it another one.
    if COMMAND_NAMES.contains(&typed) {
        return None;
    }
    COMMAND_NAMES.into_iter().find(|name| is_one_letter_off(typed, name))
}

/// Whether one letter is missing, too many or another, or two neighbours changed places.
fn is_one_letter_off(typed: &str, name: &str) -> bool {
    let (typed, name): (Vec<char>, Vec<char>) = (typed.chars().collect(), name.chars().collect());
    let common_len = typed.iter().zip(&name).take_while(|(typed, name)| typed == name).count();
    let (typed, name) = (&typed[common_len..], &name[common_len..]);
    match (typed, name) {
        ([_, typed @ ..], name) if typed == name => true,
        (typed, [_, name @ ..]) if typed == name => true,
        ([_, typed @ ..], [_, name @ ..]) if typed == name => true,
        ([first, second, typed @ ..], [third, fourth, name @ ..]) => {
            (first, second) == (fourth, third) && typed == name
        }
        _ => false,
    }
}
