//! What the tests of this crate give a turn to work with.

use std::sync::Arc;

use satchel_ports::{
    ManualClock, MockEventBus, MockLanguageModel, MockLedger, SequentialIds, ledger::SteeringRequests,
};

use crate::{AgentProfile, AgentProfiles, AgentServices, AgentSettings, Toolbox};

/// Services with these ports, one agent without tools, nobody who owns anything, and nothing optional.
pub(crate) fn services(ledger: MockLedger, bus: MockEventBus, model: MockLanguageModel) -> AgentServices {
    AgentServices {
        turns: Arc::new(ledger.turns),
        outbox: Arc::new(ledger.outbox),
        archive: Arc::new(ledger.archive),
        reminders: Arc::new(ledger.reminders),
        clock: Arc::new(ManualClock::default()),
        ids: Arc::new(SequentialIds::default()),
        bus: Arc::new(bus),
        agents: AgentProfiles::single(AgentProfile::default_agent(Arc::new(model), Toolbox::default())),
        playbooks: None,
        documents: None,
        plan_steering: Arc::new(|_, _| SteeringRequests::default()),
        links: None,
        is_owner: Arc::new(|_, _| false),
        is_owners_chat: Arc::new(|_| false),
        settings: AgentSettings::default(),
    }
}
