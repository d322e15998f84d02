//! `satchel audit`: who changed which file of a workspace, and how it ended.

use std::{io::Write, time::Duration};

use satchel_domain::{ConversationId, Sender, Timestamp, size::format_bytes};
use satchel_ports::{AuditQuery, AuditRecord, Storage};

use super::{format_timestamp, one_line, write_json, write_table};

/// The longest path that is shown whole, in characters; a reason is cut there, too.
const MAX_CELL_CHARS: usize = 200;

/// How many characters of a person's name or id, or of a tool's name, are shown.
const MAX_NAME_CHARS: usize = 40;

/// Selects the lines that are shown.
#[derive(Debug, Clone)]
pub struct AuditFilter {
    /// Only those of this conversation.
    pub conversation: Option<ConversationId>,
    /// Only those within this time.
    pub since: Option<Duration>,
    /// The most that are shown.
    pub limit: u32,
}

/// Lists the changes of files, newest first; `notes` gets what is no part of the list.
///
/// # Errors
/// When the ledger fails or the output can't be written.
pub async fn list(
    storage: &dyn Storage,
    now: Timestamp,
    filter: AuditFilter,
    json: bool,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> anyhow::Result<()> {
    let AuditFilter { conversation, since, limit } = filter;
    let started_at =
        |since: Duration| Timestamp(now.0.saturating_sub(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)));
    // One more shows that there are more.
    let query = AuditQuery { conversation, since: since.map(started_at), limit: Some(limit.saturating_add(1)) };
    let mut records = storage.audit(&query).await?;
    let has_more = records.len() > limit as usize;
    records.truncate(limit as usize);
    match (json, records.as_slice()) {
        (true, records) => write_json(out, &records)?,
        (false, []) => writeln!(out, "no change of a file in the last 90 days matches")?,
        (false, records) => write_table(out, &records.iter().map(row).collect::<Vec<_>>())?,
    }
    if has_more {
        writeln!(notes, "older changes exist; raise --limit (now {limit})")?;
    }
    Ok(())
}

fn row(AuditRecord { at, conversation, change, .. }: &AuditRecord) -> Vec<String> {
    let path = change.path.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string);
    let outcome = match change.outcome.reason() {
        Some(reason) => format!("{}: {}", change.outcome.as_str(), one_line(reason, MAX_CELL_CHARS)),
        None => change.outcome.as_str().to_owned(),
    };
    vec![
        format_timestamp(*at),
        conversation.to_string(),
        describe_person(&change.person),
        one_line(&change.tool, MAX_NAME_CHARS),
        change.action.as_str().to_owned(),
        one_line(&path, MAX_CELL_CHARS),
        change.bytes.map_or_else(|| "-".to_owned(), format_bytes),
        outcome,
    ]
}

fn describe_person(person: &Sender) -> String {
    let (name, id) = (one_line(&person.name, MAX_NAME_CHARS), one_line(&person.id, MAX_NAME_CHARS));
    if name.is_empty() || name == id { id } else { format!("{name} ({id})") }
}

#[cfg(test)]
mod tests {
    use satchel_domain::TurnId;
    use satchel_ports::{ChangeOutcome, FileAction, FileChange, MockStorage};
    use uuid::Uuid;

    use super::*;

    fn record(minute: i64, change: FileChange) -> AuditRecord {
        AuditRecord {
            at: Timestamp(1_700_000_000_000 + minute * 60_000),
            conversation: "telegram:41".parse().unwrap(),
            turn: TurnId(Uuid::from_u128(6)),
            change,
        }
    }

    fn records() -> Vec<AuditRecord> {
        let ada = Sender::new("7", "Ada\n\u{1b}[2J");
        let path = |path: &str| Some(path.parse().unwrap());
        let change = |tool: &str, action, path| FileChange::started(ada.clone(), tool, action, path);
        let written = FileChange {
            bytes: Some(142_857),
            outcome: ChangeOutcome::Done,
            ..change("attachment_save", FileAction::Write, path("/shared/photo.jpg"))
        };
        let failed = FileChange {
            outcome: ChangeOutcome::Failed { reason: "the workspace is full".to_owned() },
            ..change("file_write", FileAction::Write, path("/tmp/a"))
        };
        let interrupted = change("execute_script", FileAction::Change, None);
        vec![record(2, interrupted), record(1, failed), record(0, written)]
    }

    /// What is printed, and what is noted besides.
    async fn output(count: usize, limit: u32, json: bool) -> (String, String) {
        let mut ledger = MockStorage::new();
        ledger.expect_audit().returning(move |query| {
            assert_eq!(query.since, Some(Timestamp(3_000)));
            Ok(records().into_iter().take(count.min(query.limit.unwrap() as usize)).collect())
        });
        let filter = AuditFilter { conversation: None, since: Some(Duration::from_secs(7)), limit };
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        list(&ledger, Timestamp(10_000), filter, json, &mut out, &mut notes).await.unwrap();
        (String::from_utf8(out).unwrap(), String::from_utf8(notes).unwrap())
    }

    #[tokio::test]
    async fn changes_are_listed_without_control_characters() {
        let (table, notes) = output(3, 100, false).await;
        assert_eq!(notes, "");
        insta::assert_snapshot!(table, @r#"
        2023-11-14 22:15:20Z  telegram:41  Ada [2J (7)  execute_script   change  ?                  -       unknown
        2023-11-14 22:14:20Z  telegram:41  Ada [2J (7)  file_write       write   /tmp/a             -       failed: the workspace is full
        2023-11-14 22:13:20Z  telegram:41  Ada [2J (7)  attachment_save  write   /shared/photo.jpg  142 KB  done
        "#);
        assert_eq!(output(0, 100, false).await.0, "no change of a file in the last 90 days matches\n");
    }

    #[tokio::test]
    async fn longer_log_than_limit_is_reported_beside_list() {
        for json in [true, false] {
            let (out, notes) = output(3, 2, json).await;
            assert_eq!(notes, "older changes exist; raise --limit (now 2)\n");
            assert!(out.contains("execute_script") && !out.contains("attachment_save"), "{out}");
        }
    }

    #[tokio::test]
    async fn json_has_every_field_of_a_change() {
        let lines: serde_json::Value = serde_json::from_str(&output(3, 3, true).await.0).unwrap();
        let expected = serde_json::json!({
            "at": 1_700_000_060_000_i64, "conversation": "telegram:41", "turn": "00000000-0000-0000-0000-000000000006",
            "person": { "id": "7", "name": "Ada\n\u{1b}[2J" }, "tool": "file_write", "action": "write",
            "path": "/tmp/a", "bytes": null, "outcome": "failed", "reason": "the workspace is full",
        });
        assert_eq!(lines[1], expected);
        assert_eq!((&lines[2]["outcome"], &lines[2]["bytes"]), (&"done".into(), &142_857.into()));
    }
}
