//! The ledger on PostgreSQL keeps the promises of the port, and its own.

#![expect(clippy::unwrap_used, reason = "a broken promise ends the test")]

mod connecting;
mod failing;
mod forgetting;
mod growing;
mod inspecting;
mod proxy;
mod sharing;
mod store;
mod texts;
mod tls;
mod transfer;

use std::sync::Arc;

use satchel_domain::{
    Ending, HistoryMessage, InboundMessage, OutgoingResponse, PartContent, Sender, TurnId,
    part::{Plan, PlannedPart},
};
use satchel_ledger_postgres::{PostgresLedger, Settings};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{
    Clock,
    ledger::{CompletedTurn, HistoryChange},
};
use satchel_requirements::required;
use satchel_servers::postgres::TestDatabase;

use self::store::Store;

satchel_contracts::ledger_contract!(required(Store::new().await));

async fn connect(database: &TestDatabase) -> PostgresLedger {
    connect_with(database, Arc::new(SystemClock::new())).await
}

async fn connect_with(database: &TestDatabase, clock: Arc<dyn Clock>) -> PostgresLedger {
    PostgresLedger::connect(Settings::new(database.url().into()), clock, Arc::new(UuidV7)).await.unwrap()
}

fn message(conversation: &str, key: &str) -> InboundMessage {
    InboundMessage {
        text: "hello".into(),
        ..InboundMessage::new(conversation.parse().unwrap(), format!("{conversation}/{key}"), Sender::new("7", "Ada"))
    }
}

fn completed(turn: TurnId, texts: &[&str]) -> CompletedTurn {
    let parts = texts.iter().map(|text| PlannedPart::new(PartContent::from_text(*text))).collect();
    CompletedTurn {
        turn,
        ending: Ending::Done,
        response: OutgoingResponse::from_text("reply"),
        plan: Plan { parts },
        history: HistoryChange::Append(vec![HistoryMessage::Note { text: "said".into() }]),
        setting: None,
        steered: Vec::new(),
        injected_texts: Default::default(),
        reported_failures: Vec::new(),
        reply_to: None,
        changes: Vec::new(),
        answered: None,
        hands_over: false,
    }
}
