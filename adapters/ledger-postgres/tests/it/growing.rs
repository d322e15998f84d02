//! A ledger that has grown: what a turn needs is found by indexes, however much others have said.

use std::collections::BTreeMap;

use satchel_domain::{ChannelName, InboundMessage, MessageRef, Part, PartState, delivery::DeliveryRules};
use satchel_ledger_postgres::PostgresLedger;
use satchel_ports::{
    Inbox, Leases, Outbox, Turns,
    ledger::{ClaimMode, ReleaseMode, Settlement, WorkFilter},
};
use satchel_requirements::required;
use satchel_servers::postgres::TestDatabase;
use satchel_wait::wait_until_async;
use sqlx::{Connection, PgConnection};

use crate::{completed, connect, message};

/// How many conversations there are besides, each with a turn.
const CONVERSATIONS: i64 = 5_000;

/// Gives a turn like the first one to other conversations, too.
const COPY_TURN: &str = "\
    CREATE TEMPORARY TABLE the_turn AS SELECT * FROM turns ORDER BY sequence LIMIT 1; \
    CREATE TEMPORARY TABLE the_part AS SELECT * FROM parts; \
    CREATE TEMPORARY TABLE copies AS SELECT number, gen_random_uuid() AS turn FROM generate_series(1, 5000) AS number; \
    INSERT INTO lanes (id, conversation, channel) SELECT 1000 + number, 'console:copy-' || number, 'console' FROM copies; \
    INSERT INTO turns (sequence, id, lane, state, ready_at, ending, response, completed_at, indexed) \
        SELECT 1000 + number, turn, 1000 + number, state, ready_at, ending, response, completed_at, TRUE \
        FROM the_turn CROSS JOIN copies; \
    INSERT INTO inbox (sequence, id, lane, turn, message, received_at, consumed_by) \
        SELECT 1000 + number, gen_random_uuid(), 1000 + number, turn, '{\"message\": \"1\"}', 1, turn FROM copies; \
    INSERT INTO inbox_keys SELECT 'console', 'copy-' || number, 1000 + number FROM copies; \
    INSERT INTO history SELECT 1000 + number, 1, turn, '{}' FROM copies; \
    INSERT INTO journal SELECT turn, 0, NULL, '{}', 1 FROM copies; \
    INSERT INTO parts (id, lane, turn, turn_sequence, position, kind, content, state, state_detail, settled, attempts, \
            labelled, last_message, created_at) \
        SELECT gen_random_uuid(), 1000 + number, copies.turn, 1000 + number, 0, kind, content, state, state_detail, settled, \
            attempts, labelled, last_message, created_at FROM the_part CROSS JOIN copies; \
    ANALYZE";

/// How many rows of each table were read until now. What a connection has read is counted once it is closed.
async fn rows_read(connection: &mut PgConnection) -> BTreeMap<String, i64> {
    let others =
        "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE usename = current_user AND pid <> pg_backend_pid())";
    wait_until_async("the other connections are closed", async || {
        !sqlx::query_scalar::<_, bool>(others).fetch_one(&mut *connection).await.unwrap()
    })
    .await;
    let query = "SELECT relname::TEXT, seq_tup_read + COALESCE(idx_tup_fetch, 0) FROM pg_stat_user_tables \
                 WHERE schemaname = current_schema()";
    sqlx::query_as(query).fetch_all(connection).await.unwrap().into_iter().collect()
}

/// Runs a turn from its message to its last part, with a message that waits behind it.
async fn run_turn(ledger: &PostgresLedger, first: &InboundMessage, second: &InboundMessage) {
    ledger.receive(first, ClaimMode::Never).await.unwrap();
    let console = [ChannelName::new("console").unwrap()];
    let claimed = ledger.claim_lane(&console, WorkFilter::Any).await.unwrap().expect("it is free");
    let (lease, turn) = (claimed.lease, claimed.turn.expect("it is ready"));
    assert_eq!(ledger.renew(std::slice::from_ref(&lease)).await.unwrap(), []);
    ledger.receive(second, ClaimMode::IfFree).await.unwrap();
    assert_eq!(ledger.list_queued_behind(&lease, turn.id).await.unwrap().len(), 1);
    let part = ledger.complete_turn(&lease, &completed(turn.id, &["reply"])).await.unwrap().expect("it is started");
    let state = PartState::Sent { messages: vec![MessageRef("1".into())] };
    let part = Part { state, ..part };
    let settlement = Settlement { part, children: Vec::new(), notice: None, rules: DeliveryRules::default() };
    ledger.settle_part(&lease, &settlement).await.unwrap();
    let behind = ledger.next_turn(&lease).await.unwrap().expect("it waits");
    ledger.complete_turn(&lease, &completed(behind.id, &[])).await.unwrap();
    assert_eq!(ledger.next_part(&lease).await.unwrap(), None);
    assert!(ledger.release(&lease, ReleaseMode::IfIdle).await.unwrap());
    assert_eq!(ledger.longest_wait().await.unwrap(), None);
}

#[tokio::test]
async fn turn_reads_no_table_whole() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let mut watching = PgConnection::connect(&database.url()).await.unwrap();
    let ledger = connect(&database).await;
    run_turn(&ledger, &message("console:a", "1"), &message("console:a", "2")).await;
    drop(ledger);
    let mut copying = PgConnection::connect(&database.url()).await.unwrap();
    sqlx::raw_sql(COPY_TURN).execute(&mut copying).await.unwrap();
    copying.close().await.unwrap();

    let before = rows_read(&mut watching).await;
    let ledger = connect(&database).await;
    run_turn(&ledger, &message("console:a", "3"), &message("console:a", "4")).await;
    drop(ledger);
    let mut read_whole = Vec::new();
    for (table, after) in rows_read(&mut watching).await {
        let read = after - before[&table];
        if read >= CONVERSATIONS {
            read_whole.push((table, read));
        }
    }
    assert_eq!(read_whole, [], "rows that one turn has read");
}
