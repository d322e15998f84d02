//! The contract suite of the port, in order and out of it.

use satchel_contracts::event_bus::EventBusFixture;

use super::*;

struct InOrder(Arc<LocalBus>);

struct OutOfOrder(Arc<LocalBus>);

#[async_trait]
impl EventBusFixture for InOrder {
    async fn new() -> Result<Self, String> {
        Ok(Self(Arc::default()))
    }

    fn publisher(&self) -> Arc<dyn EventBus> {
        Arc::clone(&self.0) as _
    }

    fn subscriber(&self) -> Arc<dyn EventBus> {
        Arc::clone(&self.0) as _
    }
}

#[async_trait]
impl EventBusFixture for OutOfOrder {
    async fn new() -> Result<Self, String> {
        Ok(Self(Arc::new(LocalBus::with_reordering(7))))
    }

    fn publisher(&self) -> Arc<dyn EventBus> {
        Arc::clone(&self.0) as _
    }

    fn subscriber(&self) -> Arc<dyn EventBus> {
        Arc::clone(&self.0) as _
    }
}

mod in_order {
    satchel_contracts::event_bus_contract!(super::InOrder);
}

mod out_of_order {
    satchel_contracts::event_bus_contract!(super::OutOfOrder);
}
