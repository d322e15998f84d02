//! The contract suite of the bus, within one process and between two.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_contracts::event_bus::EventBusFixture;
use satchel_nats::NatsBus;
use satchel_ports::EventBus;

use crate::harness::Harness;

struct OneProcess {
    bus: Arc<NatsBus>,
    _harness: Harness,
}

struct TwoProcesses {
    one: Arc<NatsBus>,
    other: Arc<NatsBus>,
    _harness: Harness,
}

#[async_trait]
impl EventBusFixture for OneProcess {
    async fn new() -> Result<Self, String> {
        let harness = Harness::start().await?;
        Ok(Self { bus: Arc::new(harness.bus().await), _harness: harness })
    }

    fn publisher(&self) -> Arc<dyn EventBus> {
        Arc::clone(&self.bus) as _
    }

    fn subscriber(&self) -> Arc<dyn EventBus> {
        Arc::clone(&self.bus) as _
    }
}

#[async_trait]
impl EventBusFixture for TwoProcesses {
    async fn new() -> Result<Self, String> {
        let harness = Harness::start().await?;
        let (one, other) = (Arc::new(harness.bus().await), Arc::new(harness.bus().await));
        Ok(Self { one, other, _harness: harness })
    }

    fn publisher(&self) -> Arc<dyn EventBus> {
        Arc::clone(&self.one) as _
    }

    fn subscriber(&self) -> Arc<dyn EventBus> {
        Arc::clone(&self.other) as _
    }
}

mod one_process {
    satchel_contracts::event_bus_contract!(super::OneProcess);
}

mod two_processes {
    satchel_contracts::event_bus_contract!(super::TwoProcesses);
}
