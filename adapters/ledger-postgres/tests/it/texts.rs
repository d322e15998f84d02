//! Texts as people and platforms write them, in a database that refuses one of all characters.

use satchel_domain::{InboundMessage, Sender};
use satchel_ports::{
    Archive, Conversations, Inbox, Turns,
    ledger::{ClaimMode, ConversationSearch, ListingChange, SearchTerms},
};
use satchel_requirements::required;
use satchel_servers::postgres::TestDatabase;

use crate::{completed, connect, message};

#[tokio::test]
async fn nul_in_a_text_is_stored_as_replacement() {
    let Some(database) = required(TestDatabase::create().await) else { return };
    let ledger = connect(&database).await;
    let message = InboundMessage {
        text: "a\0b \\u0000 rent".into(),
        raw: serde_json::json!({ "text": "a\0b" }),
        sender: Sender::new("7", "A\0da"),
        ..message("web:a", "1")
    };
    let received = ledger.receive(&message, ClaimMode::IfFree).await.unwrap();
    let lease = received.claimed.unwrap().lease;
    assert_eq!(ledger.list_queued_behind(&lease, received.turn).await.unwrap(), []);
    let queued = ledger.next_turn(&lease).await.unwrap().unwrap();
    assert_eq!(queued.messages[0].message.text, "a\u{fffd}b \\u0000 rent", "what is written like it stays");
    ledger.complete_turn(&lease, &completed(received.turn, &[])).await.unwrap();
    let named = [ListingChange::Name(Some("May\0".into()))];
    ledger.change_listing(&lease.conversation, &named).await.unwrap();
    let search = ConversationSearch {
        channel: lease.conversation.channel().clone(),
        terms: SearchTerms::parse("rent").unwrap(),
        conversation: None,
        before: None,
        limit: 9,
    };
    assert_eq!(ledger.search_conversations(&search).await.unwrap().hits.len(), 1);
    assert_eq!(ledger.history(&lease.conversation, 9).await.unwrap().len(), 1);
}
