//! A turn brings the newest messages of its history, and no more than it may.

use std::sync::Arc;

use satchel_domain::HistoryMessage;
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{
    Inbox, Turns,
    ledger::{ClaimMode, CompletedTurn, HistoryChange},
};

use crate::{Settings, SqliteLedger, VerbSettings, completed, message};

fn note(text: &str) -> HistoryMessage {
    HistoryMessage::Note { text: text.to_owned() }
}

#[tokio::test]
async fn turn_brings_newest_messages_only() {
    let directory = tempfile::tempdir().unwrap();
    let settings =
        Settings { verbs: VerbSettings { max_history_messages: 2, ..VerbSettings::default() }, ..Settings::default() };
    let ledger =
        SqliteLedger::open(directory.path(), settings, Arc::new(SystemClock::new()), Arc::new(UuidV7)).await.unwrap();
    let received = ledger.receive(&message("console:a", "1"), ClaimMode::IfFree).await.unwrap();
    let claimed = received.claimed.unwrap();
    assert_eq!(claimed.turn.unwrap().history.as_ref(), []);
    let history = HistoryChange::Append(["a", "b", "c"].map(note).to_vec());
    let done = CompletedTurn { history, ..completed(received.turn, &[]) };
    ledger.complete_turn(&claimed.lease, &done).await.unwrap();
    ledger.receive(&message("console:a", "2"), ClaimMode::Never).await.unwrap();
    let next = ledger.next_turn(&claimed.lease).await.unwrap().unwrap();
    assert_eq!(next.history.as_ref(), ["b", "c"].map(note));
}
