//! A database of the version before: converted at the first start, with a copy that stays as it was.

use std::{os::unix::fs::PermissionsExt, sync::Arc};

use satchel_domain::{
    ChannelName, ConversationId, MessageRef, PartContent, PartState, Timestamp, TurnId, part::Operation,
};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::ledger::{Archive, Leases, Outbox};
use sqlx::{Connection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::{Settings, SqliteLedger};

/// The version before questions became parts.
const BEFORE_QUESTIONS: i64 = 10;

/// The version before the messages in which replies grow became drafts.
const BEFORE_DRAFTS: i64 = 11;

const TURN: Uuid = Uuid::from_u128(1);

async fn connect(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true).foreign_keys(true);
    SqliteConnection::connect_with(&options).await.unwrap()
}

/// A data directory as an earlier version has left it, with these rows.
async fn older_directory(version: i64, rows: &'static str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let mut connection = connect(&directory.path().join("satchel.db")).await;
    MIGRATIONS.run_direct(Some(version), &mut connection, false).await.unwrap();
    sqlx::raw_sql(rows).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    directory
}

/// A running turn with a reply under way, which has asked twice.
const ROWS: &str = "INSERT INTO lanes (conversation, channel) VALUES ('telegram:5', 'telegram');
         INSERT INTO turns (id, conversation, state, ready_at)
             VALUES (x'00000000000000000000000000000001', 'telegram:5', 'queued', 0);
         INSERT INTO parts (id, conversation, turn, turn_sequence, position, kind, content, state, state_detail, settled,
                            attempts, labelled, created_at)
             VALUES (x'0000000000000000000000000000000a', 'telegram:5', x'00000000000000000000000000000001', 1, 0, 'text',
                     '{\"kind\":\"text\",\"text\":\"hello\",\"markup\":\"rich\"}', 'pending', '{\"state\":\"pending\"}', 0,
                     0, 0, 7);
         INSERT INTO questions VALUES
             (x'0000000000000000000000000000000b', 'telegram:5', x'00000000000000000000000000000001', '41', 8),
             (x'0000000000000000000000000000000c', 'telegram:5', x'00000000000000000000000000000001', NULL, 9);";

/// A running turn whose reply has been streamed into message 41, and one whose message isn't known; a reply that takes
/// back message 42, and one that took back what nobody knew.
const STREAMED_ROWS: &str =
    "INSERT INTO lanes (conversation, channel) VALUES ('telegram:5', 'telegram'), ('telegram:6', 'telegram');
    INSERT INTO turns (id, conversation, state, ready_at)
        VALUES (x'00000000000000000000000000000001', 'telegram:5', 'queued', 0),
               (x'00000000000000000000000000000002', 'telegram:6', 'queued', 0),
               (x'00000000000000000000000000000003', 'telegram:6', 'completed', 0);
    INSERT INTO parts (id, conversation, turn, turn_sequence, position, kind, content, state, state_detail, settled,
                       attempts, first_attempt_at, labelled, target, created_at, open_stream, streamed)
        VALUES (x'0000000000000000000000000000000a', 'telegram:5', x'00000000000000000000000000000001', 1, 0, 'text',
                '{\"kind\":\"text\",\"text\":\"\",\"markup\":\"rich\"}', 'sending', '{\"state\":\"sending\"}', 0,
                1, 7, 0, '41', 7, 1, 1),
               (x'0000000000000000000000000000000b', 'telegram:6', x'00000000000000000000000000000002', 2, 0, 'text',
                '{\"kind\":\"text\",\"text\":\"\",\"markup\":\"rich\"}', 'sending', '{\"state\":\"sending\"}', 0,
                1, 8, 0, NULL, 8, 1, 1),
               (x'0000000000000000000000000000000c', 'telegram:6', x'00000000000000000000000000000003', 3, 0, 'withdraw',
                '{\"kind\":\"withdraw\"}', 'pending', '{\"state\":\"pending\"}', 0, 0, NULL, 0, '42', 9, 0, 1),
               (x'0000000000000000000000000000000d', 'telegram:6', x'00000000000000000000000000000003', 3, 1, 'withdraw',
                '{\"kind\":\"withdraw\"}', 'sent', '{\"state\":\"sent\",\"messages\":[]}', 1, 1, 9, 0, NULL, 9, 0, 1);";

async fn open(directory: &Path) -> SqliteLedger {
    SqliteLedger::open(directory, Settings::default(), Arc::new(SystemClock::new()), Arc::new(UuidV7)).await.unwrap()
}

#[tokio::test]
async fn previous_questions_become_parts() {
    let directory = older_directory(BEFORE_QUESTIONS, ROWS).await;
    let ledger = open(directory.path()).await;
    let parts = ledger.turn(TurnId(TURN)).await.unwrap().unwrap().parts;
    assert_eq!(parts.iter().map(|part| part.position).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(parts[0].content(), Some(&PartContent::from_text("hello")));
    let replaced = PartState::Replaced { by: Vec::new() };
    assert!(parts[1..].iter().all(|part| part.state == replaced), "nothing of them is shown");
    assert!(parts[0].question.is_none() && parts[1..].iter().all(|part| part.question.is_some()));

    let claimed = ledger.claim_lane(&[ChannelName::new("telegram").unwrap()]).await.unwrap().unwrap();
    assert_eq!(ledger.next_part(&claimed.lease).await.unwrap().unwrap().id, parts[0].id);
    assert_eq!(claimed.turn.unwrap().unreported_failures, []);
    let recorded = ledger.list_recorded_messages(&parts[0].conversation, parts[0].id, Timestamp(100)).await.unwrap();
    assert_eq!(recorded.other.iter().map(|recorded| recorded.message.0.as_str()).collect::<Vec<_>>(), ["41"]);
    assert!(recorded.other_doubt, "the second question may have arrived");
}

#[tokio::test]
async fn previous_streams_become_drafts() {
    let directory = older_directory(BEFORE_DRAFTS, STREAMED_ROWS).await;
    let ledger = open(directory.path()).await;
    for (key, open) in [("5", Some("41")), ("6", None)] {
        let conversation: ConversationId = format!("telegram:{key}").parse().unwrap();
        let claimed = ledger.claim_lane(std::slice::from_ref(conversation.channel())).await.unwrap().unwrap();
        assert_eq!(claimed.lease.conversation, conversation);
        let draft = claimed.turn.unwrap().draft.unwrap();
        let state = open.map_or(PartState::Sending, |id| PartState::Open { message: MessageRef(id.to_owned()) });
        assert_eq!((&draft.state, draft.target(), draft.attempts), (&state, None, 1));
    }
    let parts = ledger.turn(TurnId(Uuid::from_u128(3))).await.unwrap().unwrap().parts;
    let deletion = Operation::Delete { message: MessageRef("42".to_owned()) };
    assert_eq!(parts.iter().map(|part| &part.operation).collect::<Vec<_>>(), [&deletion]);
}

#[tokio::test]
async fn previous_database_is_copied_before_migration() {
    let directory = older_directory(BEFORE_QUESTIONS, ROWS).await;
    // As a start that was killed in the midst of it leaves it.
    let unfinished = directory.path().join("satchel.db.version-10.partial");
    fs::write(&unfinished, "half a copy").unwrap();
    // And as an update leaves it from which somebody has gone back.
    fs::write(directory.path().join("satchel.db.version-10"), "a database of last month").unwrap();
    drop(open(directory.path()).await);
    let copy = directory.path().join("satchel.db.version-10");
    assert_eq!(list_copies(directory.path(), "satchel.db").unwrap(), std::slice::from_ref(&copy));
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    let mut old = connect(&copy).await;
    assert_eq!(version(&mut old).await.unwrap(), BEFORE_QUESTIONS);
    let questions: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM questions").fetch_one(&mut old).await.unwrap();
    assert_eq!(questions, 2);
    old.close().await.unwrap();

    let fresh = tempfile::tempdir().unwrap();
    drop(open(fresh.path()).await);
    assert_eq!(list_copies(fresh.path(), "satchel.db").unwrap(), [] as [PathBuf; 0], "a new one has nothing to keep");
}
