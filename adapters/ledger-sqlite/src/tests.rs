//! The verbs that are tried in one trip: what they expect, and what becomes of them where it isn't so.

use std::{path::Path, sync::Arc, time::Duration};

use satchel_domain::{
    Ending, HistoryMessage, InboundMessage, MessageRef, OutgoingResponse, Part, PartContent, PartState, Sender, TurnId,
    delivery::DeliveryRules,
    part::{Plan, PlannedPart},
};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::ledger::{
    Archive, ClaimMode, CompletedTurn, HistoryChange, Inbox, Lease, Leases, Outbox, Settlement, TurnQuery, Turns,
};
use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::{complete::Way, error::is_otherwise};

fn message(conversation: &str, key: &str) -> InboundMessage {
    InboundMessage::new(conversation.parse().unwrap(), format!("{conversation}/{key}"), Sender::new("7", "Ada"))
}

fn completed(turn: TurnId, texts: &[&str]) -> CompletedTurn {
    CompletedTurn {
        turn,
        ending: Ending::Done,
        response: OutgoingResponse::from_text("reply"),
        plan: Plan { parts: texts.iter().map(|text| PlannedPart::new(PartContent::from_text(*text))).collect() },
        history: HistoryChange::Append(vec![HistoryMessage::Note { text: "said".into() }]),
        setting: None,
        steered: Vec::new(),
        reported_failures: Vec::new(),
        reply_to: None,
        changes: Vec::new(),
    }
}

fn settlement(part: Part) -> Settlement {
    Settlement { part, children: Vec::new(), notice: None, rules: DeliveryRules::default() }
}

fn sent(part: &Part) -> Part {
    Part { state: PartState::Sent { messages: vec![MessageRef("9".into())] }, ..part.clone() }
}

async fn open(directory: &Path) -> SqliteLedger {
    SqliteLedger::open(directory, Settings::default(), Arc::new(SystemClock::new()), Arc::new(UuidV7)).await.unwrap()
}

/// A ledger with a turn of one lane that is worked on.
struct Stage {
    ledger: SqliteLedger,
    lease: Lease,
    turn: TurnId,
    directory: TempDir,
}

impl Stage {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let ledger = open(directory.path()).await;
        let received = ledger.receive(&message("console:a", "1"), ClaimMode::IfFree).await.unwrap();
        Self { lease: received.claimed.unwrap().lease, turn: received.turn, ledger, directory }
    }

    async fn queue(&self, key: &str) -> TurnId {
        self.ledger.receive(&message("console:a", key), ClaimMode::Never).await.unwrap().turn
    }

    async fn complete(&self, lease: &Lease, turn: TurnId) -> Result<Option<Part>, LedgerError> {
        self.ledger.complete(lease, &completed(turn, &["reply"]), Way::AsExpected).await.map(|(begun, _)| begun)
    }

    /// A part of the turn that is being sent, and the only one unless there are others.
    async fn sending(&self, texts: &[&str]) -> Part {
        self.ledger.complete_turn(&self.lease, &completed(self.turn, texts)).await.unwrap().unwrap()
    }

    /// Everything that is stored of the lane.
    async fn all(&self) -> String {
        let conversation = self.lease.conversation.clone();
        let history = self.ledger.history(&conversation, 100).await.unwrap();
        let turns = self.ledger.turns(&TurnQuery { conversation, before: None, limit: 100 }).await.unwrap();
        let connection = &mut self.ledger.readers.lend().await.unwrap();
        let lane: Vec<(Vec<u8>, i64)> =
            sqlx::query_as("SELECT holder, token FROM lanes").fetch_all(&mut **connection).await.unwrap();
        format!("{turns:?} {history:?} {lane:?}")
    }
}

#[tokio::test]
async fn what_is_as_expected_takes_one_trip() {
    let stage = Stage::new().await;
    let part = stage.complete(&stage.lease, stage.turn).await.unwrap().expect("it was begun");
    assert_eq!(part.state, PartState::Sending);
    stage.ledger.settle_last(&stage.lease, &sent(&part)).await.unwrap();
    let stored = stage.ledger.turn(stage.turn).await.unwrap().unwrap();
    assert_eq!(stored.parts, [sent(&part)]);
    let next = stage.ledger.receive(&message("console:a", "2"), ClaimMode::IfFree).await.unwrap();
    assert_eq!(next.claimed.expect("the lane was given back").lease.token, stage.lease.token + 1);
}

#[tokio::test]
async fn what_is_otherwise_is_refused_and_changes_nothing() {
    let stage = Stage::new().await;
    let other = stage.ledger.receive(&message("console:b", "1"), ClaimMode::IfFree).await.unwrap();
    let stale = Lease { token: stage.lease.token - 1, ..stage.lease.clone() };
    let foreign = Lease { holder: HolderId(Uuid::now_v7()), ..stage.lease.clone() };
    let cases = [
        ("an old token", &stale, stage.turn),
        ("another owner", &foreign, stage.turn),
        ("a turn of another lane", &stage.lease, other.turn),
        ("no turn at all", &stage.lease, TurnId(Uuid::now_v7())),
    ];
    let before = stage.all().await;
    for (what, lease, turn) in cases {
        let done = stage.complete(lease, turn).await;
        assert!(is_otherwise(&done), "{what}: {done:?}");
    }
    assert_eq!(stage.all().await, before);

    let stream = stage.ledger.open_draft(&stage.lease, stage.turn, None).await.unwrap().unwrap();
    assert!(is_otherwise(&stage.complete(&stage.lease, stage.turn).await), "it streams");
    stage.ledger.complete_turn(&stage.lease, &completed(stage.turn, &["a"])).await.unwrap();
    let part = stage.ledger.next_part(&stage.lease).await.unwrap().unwrap();
    assert_eq!((part.id, part.attempts), (stream.id, 1), "its first part takes over what was streamed");
}

#[tokio::test]
async fn turn_behind_running_one_fails_optimistic_commit() {
    let stage = Stage::new().await;
    let second = stage.queue("2").await;
    let part = stage.sending(&["a"]).await;
    let before = stage.all().await;
    assert!(is_otherwise(&stage.complete(&stage.lease, second).await), "the reply before it is under way");
    assert!(is_otherwise(&stage.complete(&stage.lease, stage.turn).await), "it is complete");
    assert_eq!(stage.all().await, before);
    assert!(is_otherwise(&stage.ledger.settle_last(&stage.lease, &sent(&part)).await), "a turn is queued");
    assert_eq!(stage.all().await, before);

    // The lane is idle then, and still held.
    stage.ledger.settle_part(&stage.lease, &settlement(sent(&part))).await.unwrap();
    stage.ledger.complete_turn(&stage.lease, &completed(second, &[])).await.unwrap();
    assert!(is_otherwise(&stage.ledger.settle_last(&stage.lease, &sent(&part)).await), "it is settled already");
}

#[tokio::test]
async fn non_last_part_fails_optimistic_settle() {
    let stage = Stage::new().await;
    let part = stage.sending(&["a", "b"]).await;
    let stale = Lease { token: stage.lease.token - 1, ..stage.lease.clone() };
    let before = stage.all().await;
    assert!(is_otherwise(&stage.ledger.settle_last(&stage.lease, &sent(&part)).await), "another part follows");
    assert_eq!(stage.all().await, before);

    let last = stage.ledger.settle_part(&stage.lease, &settlement(sent(&part))).await.unwrap().next.unwrap();
    let before = stage.all().await;
    assert!(is_otherwise(&stage.ledger.settle_last(&stale, &sent(&last)).await), "an old token");
    assert!(is_otherwise(&stage.ledger.settle_last(&stage.lease, &last).await), "it is not settled");
    assert_eq!(stage.all().await, before);
    stage.ledger.settle_last(&stage.lease, &sent(&last)).await.unwrap();
}

#[tokio::test]
async fn unrelated_commit_failure_is_not_retried() {
    let stage = Stage::new().await;
    let database = SqliteConnectOptions::new().filename(stage.directory.path().join("satchel.db"));
    let mut other = SqliteConnection::connect_with(&database).await.unwrap();
    drop(stage.ledger);
    let patience = Duration::from_secs(2);
    let settings = Settings { busy_timeout: patience, ..Settings::default() };
    let ledger = SqliteLedger::open(stage.directory.path(), settings, Arc::new(SystemClock::new()), Arc::new(UuidV7))
        .await
        .unwrap();
    let lease = ledger.claim_lane(&[stage.lease.conversation.channel().clone()]).await.unwrap().unwrap().lease;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let began = Instant::now();
    let done = ledger.complete_turn(&lease, &completed(stage.turn, &["reply"])).await;
    assert!(done.is_err() && !is_otherwise(&done), "{done:?}");
    assert!(began.elapsed() < patience * 2, "it waited twice: {:?}", began.elapsed());
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    assert!(ledger.complete_turn(&lease, &completed(stage.turn, &["reply"])).await.unwrap().is_some());
}
