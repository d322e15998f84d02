//! The ledger on SQLite keeps the promises of the port, and its own.

#![expect(clippy::unwrap_used, reason = "a broken promise ends the test")]

mod full;
mod group_commit;
mod opening;
mod serving;
mod stored_files;

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use satchel_contracts::ledger::LedgerFixture;
use satchel_domain::{
    ChannelName, Ending, HistoryMessage, InboundMessage, MessageRef, OutgoingResponse, Part, PartContent, PartState,
    Sender, TurnId,
    delivery::DeliveryRules,
    part::{Plan, PlannedPart},
};
use satchel_ledger_sqlite::{QuotaRules, Settings, SqliteLedger};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{
    Clock,
    ledger::{CompletedTurn, HistoryChange, Ledger, Quotas, Settlement},
};
use tempfile::TempDir;

struct Store {
    data_dir: TempDir,
    clock: Arc<SystemClock>,
}

impl Store {
    fn new() -> Self {
        Self { data_dir: tempfile::tempdir().unwrap(), clock: Arc::default() }
    }
}

#[async_trait]
impl LedgerFixture for Store {
    async fn open(&self) -> Ledger {
        // An album stays open for as long as a test may be held up between its pieces.
        let settings = Settings { lease: self.lease(), album_quiet: Duration::from_secs(2), ..Settings::default() };
        Arc::new(
            SqliteLedger::open(self.data_dir.path(), settings, Arc::new(SystemClock::new()), Arc::new(UuidV7))
                .await
                .unwrap(),
        )
        .into()
    }

    async fn open_with_quotas(&self, conversation: u64, person: u64) -> Ledger {
        let is_owner = Arc::new(|_: &ChannelName, sender: &Sender| sender.id == "owner");
        let settings = Settings {
            quotas: QuotaRules { quotas: Quotas { conversation, person }, is_owner },
            ..Settings::default()
        };
        Arc::new(
            SqliteLedger::open(self.data_dir.path(), settings, Arc::new(SystemClock::new()), Arc::new(UuidV7))
                .await
                .unwrap(),
        )
        .into()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as _
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(1_500)
    }
}

satchel_contracts::ledger_contract!(Store::new());

async fn open(data_dir: &Path) -> SqliteLedger {
    SqliteLedger::open(data_dir, Settings::default(), Arc::new(SystemClock::new()), Arc::new(UuidV7)).await.unwrap()
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
        reported_failures: Vec::new(),
        reply_to: None,
        changes: Vec::new(),
    }
}

fn sent(part: &Part) -> Settlement {
    let state = PartState::Sent { messages: vec![MessageRef("1".into())] };
    Settlement {
        part: Part { state, ..part.clone() },
        children: Vec::new(),
        notice: None,
        rules: DeliveryRules::default(),
    }
}
