//! Promises about the audit log.

use satchel_domain::{InboundMessage, Sender, Timestamp, ToolOutcome, TurnId};
use satchel_ports::{
    AuditQuery, AuditRecord, ChangeOutcome, Clock, FileAction, FileChange, Ledger,
    ledger::{CompletedTurn, ReleaseMode, RenameOutcome},
};
use uuid::Uuid;

use super::{LedgerFixture, completed_turn, message, receive, text_parts};

pub(crate) fn change(path: &str, outcome: ChangeOutcome) -> FileChange {
    let path = Some(path.parse().unwrap());
    let started = FileChange::started(Sender::new("7", "Ada"), "file_write", FileAction::Write, path);
    FileChange { bytes: Some(12), outcome, ..started }
}

fn paths(records: &[AuditRecord]) -> Vec<String> {
    records.iter().map(|record| record.change.path.as_ref().unwrap().to_string()).collect()
}

fn in_conversation(conversation: &str, key: &str) -> InboundMessage {
    InboundMessage { conversation: conversation.parse().unwrap(), ..message(key, "hello") }
}

async fn all(ledger: &Ledger) -> Vec<AuditRecord> {
    ledger.storage.audit(&AuditQuery::default()).await.unwrap()
}

/// Caught: lines written before, after or beside the commit; a field lost on the way.
pub async fn changes_are_committed_with_their_outcome(fixture: &dyn LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("a", "hello")).await;
    let failed = change("/tmp/b", ChangeOutcome::Failed { reason: "the workspace is full".into() });
    let changes = [change("/shared/a", ChangeOutcome::Done), failed.clone()];
    let outcome = ToolOutcome::from_text("written");
    let unknown = TurnId(Uuid::from_u128(1));
    assert!(ledger.turns.journal_outcome(&lease, unknown, 0, &outcome, &changes).await.is_err());
    assert_eq!(all(&ledger).await, [], "a verb that failed changed nothing");
    ledger.turns.journal_outcome(&lease, turn, 0, &outcome, &changes).await.unwrap();
    drop(ledger);

    let ledger = fixture.open().await;
    let records = all(&ledger).await;
    assert_eq!(paths(&records), ["/tmp/b", "/shared/a"], "newest first");
    let AuditRecord { at, conversation, turn: recorded_turn, change } = records[0].clone();
    assert_eq!((conversation, recorded_turn, change), (lease.conversation.clone(), turn, failed));
    assert_eq!(at, fixture.clock().now());
}

/// Caught: changes of calls that were cut off, and of commands, that are dropped with the turn's end.
pub async fn completed_turn_commits_remaining_changes(fixture: &dyn LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("a", "hello")).await;
    let changes = vec![change("/shared/a", ChangeOutcome::Unknown)];
    let completed = CompletedTurn { changes, ..completed_turn(turn, text_parts(&["done"])) };
    ledger.turns.complete_turn(&lease, &completed).await.unwrap();
    assert!(ledger.turns.complete_turn(&lease, &completed).await.is_err(), "once only");
    let records = all(&ledger).await;
    assert_eq!((paths(&records), records[0].turn), (vec!["/shared/a".to_owned()], turn));
}

/// Caught: a filter that is ignored, or that cuts off the newest lines.
pub async fn audit_is_filtered_and_limited(fixture: &dyn LedgerFixture) {
    let ledger = fixture.open().await;
    for (conversation, path) in [("telegram:1", "/shared/a"), ("telegram:2", "/shared/b"), ("telegram:1", "/shared/c")]
    {
        let (lease, turn) = receive(&ledger, &in_conversation(conversation, path)).await;
        let changes = vec![change(path, ChangeOutcome::Done)];
        let completed = CompletedTurn { changes, ..completed_turn(turn, Vec::new()) };
        ledger.turns.complete_turn(&lease, &completed).await.unwrap();
        ledger.leases.release(&lease, ReleaseMode::IfIdle).await.unwrap();
    }
    let of_one = AuditQuery { conversation: Some("telegram:1".parse().unwrap()), ..AuditQuery::default() };
    assert_eq!(paths(&ledger.storage.audit(&of_one).await.unwrap()), ["/shared/c", "/shared/a"]);
    let two = AuditQuery { limit: Some(2), ..AuditQuery::default() };
    assert_eq!(paths(&ledger.storage.audit(&two).await.unwrap()), ["/shared/c", "/shared/b"]);
    let later = AuditQuery { since: Some(Timestamp(fixture.clock().now().0 + 60_000)), ..AuditQuery::default() };
    assert_eq!(ledger.storage.audit(&later).await.unwrap(), []);
    let earlier = AuditQuery { since: Some(Timestamp(fixture.clock().now().0 - 60_000)), ..AuditQuery::default() };
    assert_eq!(ledger.storage.audit(&earlier).await.unwrap().len(), 3);
}

/// Caught: lines that outlive their time, or lose it.
pub async fn audit_is_pruned_by_age(fixture: &dyn LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("a", "hello")).await;
    let changes = [change("/shared/a", ChangeOutcome::Done)];
    ledger.turns.journal_outcome(&lease, turn, 0, &ToolOutcome::default(), &changes).await.unwrap();
    let at = all(&ledger).await[0].at;
    assert_eq!(ledger.storage.prune_audit(at).await.unwrap(), 0);
    assert_eq!(all(&ledger).await.len(), 1);
    assert_eq!(ledger.storage.prune_audit(Timestamp(at.0 + 1)).await.unwrap(), 1);
    assert_eq!(all(&ledger).await, []);
}

/// Caught: lines that stay under a name which the group no longer has.
pub async fn renamed_conversation_keeps_its_audit(fixture: &dyn LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &in_conversation("telegram:-1", "a")).await;
    let changes = [change("/shared/a", ChangeOutcome::Done)];
    ledger.turns.journal_outcome(&lease, turn, 0, &ToolOutcome::default(), &changes).await.unwrap();
    let new = "telegram:-1001".parse().unwrap();
    assert_eq!(ledger.inbox.rename_conversation(&lease.conversation, &new).await.unwrap(), RenameOutcome::Renamed);
    let of_new = AuditQuery { conversation: Some(new), ..AuditQuery::default() };
    assert_eq!(paths(&ledger.storage.audit(&of_new).await.unwrap()), ["/shared/a"]);
}
