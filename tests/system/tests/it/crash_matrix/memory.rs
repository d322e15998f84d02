//! What the model remembers and the ledger knows once all is over, held against a run in which nobody died.

use std::collections::BTreeSet;

use satchel_domain::{Attachment, HistoryMessage};
use satchel_system::crash::CrashReport;
use serde_json::Value;

use super::{
    disk::Disk,
    run::Outcome,
    scene::{SAVED, Scene},
};

/// The tools that aren't run again after a death: the model is told that nobody knows what became of them.
const NOT_REPEATED: [&str; 3] = ["tally", "attachment_save", "execute_script"];

/// What belongs to one run alone.
const OF_ONE_RUN: [&str; 4] = ["number", "created_at", "duration_ms", "sent_at"];

/// What is wrong with the history, the records of files, and the bytes behind them.
pub(crate) fn problems(
    scene: &Scene,
    outcome: &Outcome,
    report: &CrashReport,
    undisturbed: &CrashReport,
) -> Vec<String> {
    let mut problems = common_problems(outcome, report, undisturbed);
    problems.extend(record_problems(scene, &files(report)));
    problems.extend(saved_problem(scene, &outcome.disk, is_doubtful(report, "attachment_save")));
    problems
}

/// What is wrong with them whatever the scene.
pub(crate) fn common_problems(outcome: &Outcome, report: &CrashReport, undisturbed: &CrashReport) -> Vec<String> {
    let mut problems = history_problems(report, undisturbed);
    problems.extend(unkept_files(outcome, report));
    problems
}

/// The files of which there is a record but no bytes.
pub(crate) fn unkept_files(outcome: &Outcome, report: &CrashReport) -> Vec<String> {
    let known = files(report).into_iter();
    let unkept = known.filter(|file| !outcome.disk.blobs.contains(&file.sha256));
    unkept.map(|file| format!("the bytes of {} are not on the disk", file.filename)).collect()
}

/// What a file is, but for what belongs to its run alone.
pub(crate) fn identities(report: &CrashReport) -> Vec<String> {
    let identity =
        |file: &&Attachment| format!("{} {} {} {:?}", file.filename, file.mime, file.sha256, file.description);
    let mut identities: Vec<String> = files(report).iter().map(identity).collect();
    identities.sort();
    identities
}

fn files(report: &CrashReport) -> Vec<&Attachment> {
    report.conversations.iter().flat_map(|conversation| &conversation.attachments).collect()
}

/// Whether the model was told that nobody knows what became of a tool's call.
pub(crate) fn is_doubtful(report: &CrashReport, tool: &str) -> bool {
    report.tool_answers().any(|answer| doubtful_tool(answer) == Some(tool))
}

/// The tool of which an answer says that nobody knows what became of its call.
fn doubtful_tool(answer: &str) -> Option<&str> {
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
            HistoryMessage::Tool { text, .. } => doubtful_tool(text),
            _ => None,
        };
        !doubtful.is_some_and(|tool| NOT_REPEATED.contains(&tool)) && plain(message) != plain(expected)
    };
    let pairs = history.into_iter().zip(expected).filter(differ);
    pairs.map(|(message, expected)| format!("the history has {message:?} where it should have {expected:?}")).collect()
}

/// A message without what belongs to its run alone.
fn plain(message: &HistoryMessage) -> String {
    let mut value = serde_json::to_value(message).expect("a message is data");
    strip(&mut value);
    value.to_string()
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            OF_ONE_RUN.iter().for_each(|field| {
                fields.remove(*field);
            });
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::String(text) => *text = without_ids(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A text in which every UUID is the same.
fn without_ids(text: &str) -> String {
    let is_of_id = |c: char| c.is_ascii_hexdigit() || c == '-';
    let words = text.split_inclusive(|c| !is_of_id(c));
    let replaced = words.map(|word| {
        let id = word.trim_end_matches(|c| !is_of_id(c));
        let is_id = id.len() == 36 && id.bytes().filter(|byte| *byte == b'-').count() == 4;
        if is_id { word.replacen(id, "ID", 1) } else { word.to_owned() }
    });
    replaced.collect()
}

/// Every file is recorded once, under its own name and type and a number of its own.
fn record_problems(scene: &Scene, files: &[&Attachment]) -> Vec<String> {
    let mut problems = Vec::new();
    let numbers: BTreeSet<u64> = files.iter().map(|file| file.number).collect();
    if numbers.len() < files.len() {
        problems.push("two files have one number".to_owned());
    }
    for file in &scene.sent {
        let recorded = files.iter().filter(|recorded| recorded.sha256 == file.sha256()).collect::<Vec<_>>();
        let is_right = matches!(
            recorded.as_slice(),
            [one] if one.filename.as_str() == file.filename && one.mime == file.mime && one.bytes == file.bytes()
        );
        if !is_right {
            problems.push(format!("the person's {} is recorded as {recorded:?}", file.filename));
        }
    }
    for file in scene.files.iter().chain(&scene.made) {
        let recorded = files.iter().filter(|recorded| recorded.sha256 == file.sha256).count();
        let may_be_unmade = scene.made.contains(file);
        if recorded > 1 || recorded == 0 && !may_be_unmade {
            problems.push(format!("{} is recorded {recorded} times", file.filename));
        }
    }
    problems
}

/// The saved copy is the person's file, byte for byte; where nobody knows whether it was saved, that or nothing.
fn saved_problem(scene: &Scene, disk: &Disk, is_doubtful: bool) -> Option<String> {
    match disk.saved(SAVED).as_slice() {
        [] if is_doubtful => None,
        [saved] if *saved == scene.saved => None,
        [saved] => Some(format!("the saved copy has {} bytes and is not the person's file", saved.len())),
        saved => Some(format!("the person's file was saved {} times", saved.len())),
    }
}
