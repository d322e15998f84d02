//! No column keeps a word of a forgotten conversation, and no byte of the database, its log or later copies does.

use std::{fs, path::Path};

use rusqlite::{Connection, types::ValueRef};
use satchel_domain::{FileReference, Filename, HistoryMessage, InboundMessage, OutgoingResponse, Sender, ToolOutcome};
use satchel_ledger_sqlite::{SqliteLedger, copy_database};
use satchel_ports::{
    Conversations, Inbox, Outbox, Turns,
    ledger::{ClaimMode, CompletedTurn, ConversationSetting, ForgetConversationOutcome, HistoryChange, ListingChange},
};
use satchel_wait::wait_until;

use crate::{completed, message, open, sent};

const WORD: &str = "xylophone";

/// The columns of all tables that contain the word. The blocks of an index are no text; what it finds, contracts show.
fn columns_with_the_word(connection: &Connection) -> Vec<String> {
    let mut found = Vec::new();
    let mut tables = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB '*_index_data'")
        .unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for table in tables {
        let mut select = connection.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
        let columns: Vec<String> = select.column_names().into_iter().map(str::to_owned).collect();
        let mut rows = select.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            for (index, column) in columns.iter().enumerate() {
                let text = match row.get_ref(index).unwrap() {
                    ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).into_owned(),
                    _ => continue,
                };
                if text.contains(WORD) {
                    found.push(format!("{table}.{column}"));
                }
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

#[tokio::test]
async fn forgotten_conversation_leaves_no_word() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = open(directory.path()).await;
    let message = InboundMessage {
        text: format!("where is the {WORD}?"),
        raw: serde_json::json!({ "text": WORD }),
        files: vec![FileReference::new(WORD.to_owned(), Filename::from_untrusted(WORD))],
        sender: Sender::new("7", WORD),
        ..message("web:a", "1")
    };
    let conversation = message.conversation.clone();
    let received = ledger.receive(&message, ClaimMode::IfFree).await.unwrap();
    let lease = received.claimed.unwrap().lease;
    ledger.journal_outcome(&lease, received.turn, 0, &ToolOutcome::from_text(WORD), &[]).await.unwrap();
    let completed = CompletedTurn {
        response: OutgoingResponse::from_text(WORD),
        history: HistoryChange::Append(vec![HistoryMessage::Note { text: WORD.to_owned() }]),
        setting: Some(ConversationSetting::Persona(Some(WORD.to_owned()))),
        ..completed(received.turn, &[WORD])
    };
    let part = ledger.complete_turn(&lease, &completed).await.unwrap().unwrap();
    ledger.settle_part(&lease, &sent(&part)).await.unwrap();
    ledger.change_listing(&conversation, &[ListingChange::Name(Some(WORD.to_owned()))]).await.unwrap();
    ledger.index_turns(9).await.unwrap();

    let connection = Connection::open(directory.path().join("satchel.db")).unwrap();
    let before = columns_with_the_word(&connection);
    for column in ["inbox.message", "turns.response", "parts.content", "history.message", "journal.entry"] {
        assert!(before.iter().any(|found| found == column), "{column} has it at first: {before:?}");
    }
    let forgotten = ledger.forget_conversation(&conversation).await.unwrap();
    assert_eq!(forgotten, ForgetConversationOutcome::Forgotten(Vec::new()));
    assert_eq!(columns_with_the_word(&connection), [""; 0]);
}

/// Says something in a conversation, which is answered with the same.
async fn exchange(ledger: &SqliteLedger, conversation: &str, key: usize, text: &str) {
    let message = InboundMessage { text: text.to_owned(), ..message(conversation, &key.to_string()) };
    let received = ledger.receive(&message, ClaimMode::IfFree).await.unwrap();
    let lease = received.claimed.unwrap().lease;
    ledger.journal_outcome(&lease, received.turn, 0, &ToolOutcome::from_text(text), &[]).await.unwrap();
    let completed = CompletedTurn {
        response: OutgoingResponse::from_text(text),
        history: HistoryChange::Append(vec![HistoryMessage::Note { text: text.to_owned() }]),
        ..completed(received.turn, &[text])
    };
    let part = ledger.complete_turn(&lease, &completed).await.unwrap().unwrap();
    ledger.settle_part(&lease, &sent(&part)).await.unwrap();
}

/// Whether the word stands anywhere in a file, if there is one.
fn has_word(path: &Path) -> bool {
    let bytes = fs::read(path).unwrap_or_default();
    bytes.windows(WORD.len()).any(|window| window.eq_ignore_ascii_case(WORD.as_bytes()))
}

/// Rows of all lengths share pages with those of other conversations, so that pages are split and leave copies behind.
#[tokio::test]
async fn forgotten_words_leave_database_log_and_later_copies() {
    let directory = tempfile::tempdir().unwrap();
    let (database, log) = (directory.path().join("satchel.db"), directory.path().join("satchel.db-wal"));
    let ledger = open(directory.path()).await;
    for number in 0..240 {
        let (conversation, word) = [("web:a", WORD), ("web:b", "piano"), ("web:c", "violin")][number % 3];
        exchange(&ledger, conversation, number, &format!("{word} {}", "note ".repeat(number * 37 % 500))).await;
    }
    ledger.index_turns(240).await.unwrap();
    assert!(has_word(&database) || has_word(&log));
    let forgotten = ledger.forget_conversation(&"web:a".parse().unwrap()).await.unwrap();
    assert_eq!(forgotten, ForgetConversationOutcome::Forgotten(Vec::new()));
    wait_until("the log is cut", || fs::metadata(&log).is_ok_and(|log| log.len() == 0)).await;

    let copy = directory.path().join("copy");
    fs::write(&copy, "").unwrap();
    copy_database(directory.path(), &copy).unwrap();
    assert!(!has_word(&copy), "a backup that is made while the process runs");
    drop(ledger);
    assert!(!has_word(&database) && !has_word(&log));
    let ledger = open(directory.path()).await;
    assert!(ledger.find_conversation(&"web:b".parse().unwrap()).await.unwrap().is_some(), "others stay");
}
