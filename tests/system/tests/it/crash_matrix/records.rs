//! Compares the history and the file records after a run with those of an undisturbed run.

use std::{collections::BTreeSet, num::NonZeroU64};

use satchel_domain::{Attachment, HistoryMessage};
use satchel_ports::AuditRecord;
use satchel_system::crash::CrashReport;
use serde_json::Value;

use super::{
    disk::DiskSnapshot,
    run::RunOutcome,
    turn_scenario::{SAVED_FILE, TurnScenario},
};

/// The tools that aren't run again after a crash; the model reads that their outcome is unknown.
const UNREPEATED_TOOLS: [&str; 3] = ["tally", "attachment_save", "execute_script"];

/// Fields that differ between runs.
const RUN_SPECIFIC_FIELDS: [&str; 4] = ["number", "created_at", "duration_ms", "sent_at"];

/// What is wrong with the history, the records of files, and the bytes behind them.
pub(crate) fn all_problems(
    scene: &TurnScenario,
    outcome: &RunOutcome,
    report: &CrashReport,
    undisturbed: &CrashReport,
) -> Vec<String> {
    let mut problems = common_problems(outcome, report, undisturbed);
    problems.extend(record_problems(scene, &attachments(report)));
    let is_save_doubtful = has_unknown_outcome(report, "attachment_save");
    problems.extend(saved_problem(scene, &outcome.disk, is_save_doubtful));
    problems.extend(audit_problem(report, is_save_doubtful));
    problems
}

/// What is wrong with them whatever the scene.
pub(crate) fn common_problems(outcome: &RunOutcome, report: &CrashReport, undisturbed: &CrashReport) -> Vec<String> {
    let mut problems = history_problems(report, undisturbed);
    problems.extend(missing_blobs(outcome, report));
    problems
}

/// The files of which there is a record but no bytes.
pub(crate) fn missing_blobs(outcome: &RunOutcome, report: &CrashReport) -> Vec<String> {
    let recorded = attachments(report).into_iter();
    let missing = recorded.filter(|file| !outcome.disk.blobs.contains(&file.sha256));
    missing.map(|file| format!("the bytes of {} are not on the disk", file.filename)).collect()
}

/// What a file is, but for what belongs to its run alone.
pub(crate) fn file_identities(report: &CrashReport) -> Vec<String> {
    let identity =
        |file: &&Attachment| format!("{} {} {} {:?}", file.filename, file.mime, file.sha256, file.description);
    let mut identities: Vec<String> = attachments(report).iter().map(identity).collect();
    identities.sort();
    identities
}

fn attachments(report: &CrashReport) -> Vec<&Attachment> {
    report.conversations.iter().flat_map(|conversation| &conversation.attachments).collect()
}

/// Returns whether the model was told that the outcome of a tool call is unknown.
pub(crate) fn has_unknown_outcome(report: &CrashReport, tool: &str) -> bool {
    report.tool_results().any(|answer| tool_with_unknown_outcome(answer) == Some(tool))
}

/// Returns the tool whose outcome a tool result reports as unknown.
fn tool_with_unknown_outcome(answer: &str) -> Option<&str> {
    let (_, rest) = answer.strip_prefix("error: outcome unknown: ")?.split_once('`')?;
    rest.split_once('`').map(|(tool, _)| tool)
}

fn history_problems(report: &CrashReport, undisturbed: &CrashReport) -> Vec<String> {
    let (history, expected): (Vec<&HistoryMessage>, Vec<&HistoryMessage>) =
        (report.history().collect(), undisturbed.history().collect());
    if history.len() != expected.len() {
        return vec![format!("the history has {} messages instead of {}", history.len(), expected.len())];
    }
    let differ = |(message, expected): &(&HistoryMessage, &HistoryMessage)| {
        let doubtful = match message {
            HistoryMessage::Tool { text, .. } => tool_with_unknown_outcome(text),
            _ => None,
        };
        !doubtful.is_some_and(|tool| UNREPEATED_TOOLS.contains(&tool))
            && normalize_message(message) != normalize_message(expected)
    };
    let pairs = history.into_iter().zip(expected).filter(differ);
    pairs.map(|(message, expected)| format!("the history has {message:?} where it should have {expected:?}")).collect()
}

/// A message without what belongs to its run alone.
fn normalize_message(message: &HistoryMessage) -> String {
    let mut value = serde_json::to_value(message).expect("a message is data");
    strip_run_fields(&mut value);
    value.to_string()
}

fn strip_run_fields(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            RUN_SPECIFIC_FIELDS.iter().for_each(|field| {
                fields.remove(*field);
            });
            fields.values_mut().for_each(strip_run_fields);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_run_fields),
        Value::String(text) => *text = mask_ids(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A text in which every UUID is the same.
fn mask_ids(text: &str) -> String {
    let is_id_char = |c: char| c.is_ascii_hexdigit() || c == '-';
    let words = text.split_inclusive(|c| !is_id_char(c));
    let replaced = words.map(|word| {
        let id = word.trim_end_matches(|c| !is_id_char(c));
        let is_id = id.len() == 36 && id.bytes().filter(|byte| *byte == b'-').count() == 4;
        if is_id { word.replacen(id, "ID", 1) } else { word.to_owned() }
    });
    replaced.collect()
}

/// Every file is recorded once, under its own name and type and a number of its own.
fn record_problems(scenario: &TurnScenario, files: &[&Attachment]) -> Vec<String> {
    let mut problems = Vec::new();
    let numbers: BTreeSet<NonZeroU64> = files.iter().map(|file| file.number).collect();
    if numbers.len() < files.len() {
        problems.push("two files have one number".to_owned());
    }
    for file in &scenario.inbound_files {
        let recorded = files.iter().filter(|recorded| recorded.sha256 == file.sha256()).collect::<Vec<_>>();
        let is_right = matches!(
            recorded.as_slice(),
            [one] if one.filename.as_str() == file.filename && one.mime == file.mime && one.bytes == file.bytes()
        );
        if !is_right {
            problems.push(format!("the person's {} is recorded as {recorded:?}", file.filename));
        }
    }
    for file in scenario.reply_files.iter().chain(&scenario.script_files) {
        let recorded = files.iter().filter(|recorded| recorded.sha256 == file.sha256).count();
        let may_be_unmade = scenario.script_files.contains(file);
        if recorded > 1 || recorded == 0 && !may_be_unmade {
            problems.push(format!("{} is recorded {recorded} times", file.filename));
        }
    }
    problems
}

/// What is wrong with the audit log: it has one line for the saved file, and one without a path for a script that was
/// interrupted.
fn audit_problem(report: &CrashReport, is_save_doubtful: bool) -> Option<String> {
    let line = |AuditRecord { change, .. }: &AuditRecord| {
        let path = change.path.as_ref().map_or("?".to_owned(), ToString::to_string);
        format!("{} {} {path} {}", change.tool, change.action.as_str(), change.outcome.as_str())
    };
    let mut lines: Vec<String> =
        report.conversations.iter().flat_map(|conversation| &conversation.audit).map(line).collect();
    lines.sort();
    let (action, outcome) = if is_save_doubtful { ("change", "unknown") } else { ("write", "done") };
    let mut expected = vec![format!("attachment_save {action} /tmp/{SAVED_FILE} {outcome}")];
    if has_unknown_outcome(report, "execute_script") {
        expected.push("execute_script change ? unknown".to_owned());
    }
    (lines != expected).then(|| format!("the audit log has {lines:?} instead of {expected:?}"))
}

/// The saved copy is the person's file, byte for byte; where nobody knows whether it was saved, that or nothing.
fn saved_problem(scenario: &TurnScenario, disk: &DiskSnapshot, is_doubtful: bool) -> Option<String> {
    match disk.saved_copies(SAVED_FILE).as_slice() {
        [] if is_doubtful => None,
        [saved] if *saved == scenario.saved_bytes => None,
        [saved] => Some(format!("the saved copy has {} bytes and is not the person's file", saved.len())),
        saved => Some(format!("the person's file was saved {} times", saved.len())),
    }
}
