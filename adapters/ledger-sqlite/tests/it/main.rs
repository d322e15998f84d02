//! The ledger on SQLite keeps the promises of the port, and its own.

#![expect(clippy::unwrap_used, reason = "a broken promise ends the test")]

mod forgetting;
mod full;
mod group_commit;
mod history;
mod moving;
mod opening;
mod serving;
mod stored_files;

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use satchel_contracts::ledger::LedgerFixture;
use satchel_domain::{
    ChannelName, Ending, HistoryMessage, InboundMessage, MessageRef, OutgoingResponse, Part, PartContent, PartState,
    Sender, Timestamp, TurnId,
    delivery::DeliveryRules,
    part::{Plan, PlannedPart},
};
use satchel_ledger_sqlite::{QuotaRules, Settings, SqliteLedger, VerbSettings};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{
    ManualClock,
    ledger::{CompletedTurn, HistoryChange, Ledger, Quotas, Settlement},
};
use tempfile::TempDir;

struct Store {
    data_dir: TempDir,
    clock: Arc<ManualClock>,
}

impl Store {
    fn new() -> Self {
        let clock = ManualClock::at(Timestamp(1_700_000_000_000));
        Self { data_dir: tempfile::tempdir().unwrap(), clock: Arc::new(clock) }
    }

    async fn open_with(&self, settings: Settings) -> Ledger {
        let clock = Arc::clone(&self.clock);
        let opened = SqliteLedger::open(self.data_dir.path(), settings, clock, Arc::new(UuidV7)).await;
        Arc::new(opened.unwrap()).into()
    }
}

#[async_trait]
impl LedgerFixture for Store {
    async fn open(&self) -> Ledger {
        self.open_with(Settings::default()).await
    }

    async fn open_with_quotas(&self, conversation: u64, person: u64) -> Ledger {
        let is_owner = Arc::new(|_: &ChannelName, sender: &Sender| sender.id == "owner");
        let quotas = QuotaRules { quotas: Quotas { conversation, person }, is_owner };
        self.open_with(Settings { verbs: VerbSettings { quotas, ..VerbSettings::default() }, ..Settings::default() })
            .await
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn lease(&self) -> Duration {
        Settings::default().verbs.lease
    }
}

satchel_contracts::ledger_contract!(Some(Store::new()));

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
        injected_texts: Default::default(),
        reported_failures: Vec::new(),
        reply_to: None,
        changes: Vec::new(),
        answered: None,
        hands_over: false,
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
