//! Of a forgotten conversation no word stands in any table.

use satchel_domain::{
    FileReference, Filename, HistoryMessage, InboundMessage, MessageRef, OutgoingResponse, Part, PartState, Sender,
    ToolOutcome, delivery::DeliveryRules,
};
use satchel_ports::{
    Conversations, Inbox, Outbox, Turns,
    ledger::{
        ClaimMode, CompletedTurn, ConversationSetting, ForgetConversationOutcome, HistoryChange, ListingChange,
        Settlement,
    },
};
use satchel_requirements::required;
use satchel_servers::postgres::TestDatabase;
use sqlx::{AssertSqlSafe, PgPool};

use crate::{completed, connect, message};

const WORD: &str = "xylophone";

/// The tables of the schema in which the word stands.
async fn tables_with_the_word(pool: &PgPool) -> Vec<String> {
    let tables: Vec<String> =
        sqlx::query_scalar("SELECT tablename::TEXT FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1")
            .fetch_all(pool)
            .await
            .unwrap();
    let mut found = Vec::new();
    for table in tables {
        let query = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE {table}::TEXT LIKE '%{WORD}%')");
        if sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(pool).await.unwrap() {
            found.push(table);
        }
    }
    found
}

#[tokio::test]
async fn forgotten_conversation_leaves_no_word() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let ledger = connect(&database).await;
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
    let state = PartState::Sent { messages: vec![MessageRef("1".into())] };
    let sent = Settlement {
        part: Part { state, ..part },
        children: Vec::new(),
        notice: None,
        rules: DeliveryRules::default(),
    };
    ledger.settle_part(&lease, &sent).await.unwrap();
    ledger.change_listing(&conversation, &[ListingChange::Name(Some(WORD.to_owned()))]).await.unwrap();
    ledger.index_turns(9).await.unwrap();

    let pool = PgPool::connect_lazy(&database.url()).unwrap();
    let before = tables_with_the_word(&pool).await;
    for table in ["history", "inbox", "journal", "parts", "search_index", "turns"] {
        assert!(before.iter().any(|found| found == table), "{table} has it at first: {before:?}");
    }
    let forgotten = ledger.forget_conversation(&conversation).await.unwrap();
    assert_eq!(forgotten, ForgetConversationOutcome::Forgotten(Vec::new()));
    assert_eq!(tables_with_the_word(&pool).await, [""; 0]);
}
