//! What is printed about each entry: where it comes from and what it resolves to.

use std::io::Write;

use satchel_attachments::{
    EffectiveEntry, Item, SourcePosition,
    resolve::{self, Resolved},
};
use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::ResolveServices;
use crate::commands::{one_line, write_table};

/// The longest source and name in a table, in characters.
const MAX_CELL_CHARS: usize = 80;

/// The effective list of one task or action.
#[derive(Debug, Serialize)]
pub(super) struct ListReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<String>,
    pub(super) agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) action: Option<String>,
    pub(super) entries: Vec<EntryReport>,
}

/// One entry.
#[derive(Debug, Serialize)]
pub(super) struct EntryReport {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    source: String,
    #[serde(flatten)]
    state: EntryState,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    meta: Map<String, Json>,
    /// Where it is declared.
    scope: &'static str,
    declared: String,
    file: String,
    line: u64,
    optional: bool,
}

/// What became of it.
#[derive(Debug, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum EntryState {
    Resolved {
        mime: String,
        bytes: u64,
        sha256: String,
    },
    /// An address that is given to the model as text.
    Named,
    /// Nothing was opened or fetched.
    Unchecked,
    /// It needs the output of a task.
    Deferred,
    Unmatched,
    Failed {
        reason: String,
    },
}

/// Describes an entry, and resolves it unless that is not wanted.
pub(super) async fn entry_report(
    entry: &EffectiveEntry,
    is_unchecked: bool,
    services: &ResolveServices<'_>,
) -> EntryReport {
    match entry {
        EffectiveEntry::Item(item) => {
            let state = match is_unchecked {
                true => EntryState::Unchecked,
                false => match resolve::resolve(item, &services.policy, services.files, services.fetcher).await {
                    Ok(resolved) => resolved_state(&resolved),
                    Err(error) => EntryState::Failed { reason: error.reason },
                },
            };
            item_report(item, state)
        }
        EffectiveEntry::Deferred(deferred) => {
            let declaration = &deferred.declaration;
            let sources = declaration.source.texts.iter().map(|text| redact(text.template.source()));
            let origin =
                Origin { scope: deferred.scope.name(), item: &declaration.item, position: &declaration.position };
            EntryReport {
                name: declaration.name.as_ref().map(|name| name.template.source().to_owned()),
                ..plain_report(
                    sources.collect::<Vec<_>>().join(", "),
                    EntryState::Deferred,
                    &origin,
                    declaration.optional,
                )
            }
        }
        EffectiveEntry::Unmatched(unmatched) => {
            let origin = Origin { scope: unmatched.scope.name(), item: &unmatched.item, position: &unmatched.position };
            plain_report(unmatched.pattern.clone(), EntryState::Unmatched, &origin, true)
        }
    }
}

/// The text of a template without what a URL keeps secret: the name and the password, and the query.
fn redact(source: &str) -> String {
    let Some((scheme, rest)) = source.split_once("://") else { return source.to_owned() };
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, _)| (rest, "?…"));
    let authority_end = rest.find('/').unwrap_or(rest.len());
    let host_start = rest[..authority_end].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}{query}", &rest[host_start..])
}

struct Origin<'a> {
    scope: &'static str,
    item: &'a str,
    position: &'a SourcePosition,
}

fn item_report(item: &Item, state: EntryState) -> EntryReport {
    let origin = Origin { scope: item.scope.name(), item: &item.item, position: &item.position };
    EntryReport {
        kind: Some(item.kind.name()),
        name: item.name.clone(),
        meta: (*item.meta).clone(),
        ..plain_report(item.source.to_string(), state, &origin, item.optional)
    }
}

fn plain_report(source: String, state: EntryState, origin: &Origin<'_>, optional: bool) -> EntryReport {
    EntryReport {
        kind: None,
        source,
        state,
        name: None,
        meta: Map::new(),
        scope: origin.scope,
        declared: origin.item.to_owned(),
        file: origin.position.file.display().to_string(),
        line: origin.position.line,
        optional,
    }
}

fn resolved_state(resolved: &Resolved) -> EntryState {
    match resolved.file() {
        None => EntryState::Named,
        Some(file) => {
            EntryState::Resolved { mime: file.mime.clone(), bytes: file.bytes, sha256: file.sha256.to_string() }
        }
    }
}

impl ListReport {
    fn title(&self) -> String {
        let agent = &self.agent;
        match (&self.task, &self.action) {
            (Some(task), Some(action)) => format!("task {task} (agent {agent}, action {action})"),
            (_, Some(action)) => format!("agent {agent}, action {action}"),
            (_, None) => format!("agent {agent}"),
        }
    }
}

impl EntryReport {
    fn is_failure(&self) -> bool {
        matches!(self.state, EntryState::Failed { .. }) && !self.optional
    }

    fn result(&self) -> String {
        match &self.state {
            EntryState::Resolved { mime, bytes, .. } => {
                format!("{mime}, {}", satchel_domain::size::format_bytes(*bytes))
            }
            EntryState::Named => "named, not fetched".to_owned(),
            EntryState::Unchecked => "not checked".to_owned(),
            EntryState::Deferred => "waits for the output of a task".to_owned(),
            EntryState::Unmatched => "no file matches (optional)".to_owned(),
            EntryState::Failed { reason } if self.optional => format!("left out (optional): {reason}"),
            EntryState::Failed { reason } => format!("FAILED: {reason}"),
        }
    }

    fn row(&self) -> Vec<String> {
        vec![
            format!("  {}", self.kind.unwrap_or("-")),
            one_line(&self.source, MAX_CELL_CHARS),
            one_line(&self.result(), 200),
            one_line(self.name.as_deref().unwrap_or_default(), MAX_CELL_CHARS),
            format!("{} ({}:{})", self.declared, self.file, self.line),
        ]
    }
}

/// How many entries failed, of how many.
pub(super) fn count_failures(reports: &[ListReport]) -> (usize, usize) {
    let entries = || reports.iter().flat_map(|report| &report.entries);
    (entries().filter(|entry| entry.is_failure()).count(), entries().count())
}

/// Prints the lists as tables.
pub(super) fn write(out: &mut dyn Write, reports: &[ListReport]) -> std::io::Result<()> {
    if reports.is_empty() {
        return writeln!(out, "the file declares no agents and no tasks");
    }
    for (index, report) in reports.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", report.title())?;
        if report.entries.is_empty() {
            writeln!(out, "  no attachments")?;
            continue;
        }
        let header = ["  TYPE", "SOURCE", "RESULT", "NAME", "DECLARED"].map(str::to_owned).to_vec();
        let rows: Vec<Vec<String>> = [header].into_iter().chain(report.entries.iter().map(EntryReport::row)).collect();
        write_table(out, &rows)?;
    }
    Ok(())
}
