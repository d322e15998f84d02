//! An intake that stores what one sender writes only once it is released.

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    harness::{TIMEOUT, turn},
    stub_inbound::StubInbound,
};

pub(crate) struct SlowInbound {
    slow_sender: &'static str,
    busy: CancellationToken,
    released: CancellationToken,
}

impl SlowInbound {
    pub(crate) fn new(slow_sender: &'static str) -> Self {
        Self { slow_sender, busy: CancellationToken::new(), released: CancellationToken::new() }
    }

    /// Waits until a message of the slow sender is being stored.
    pub(crate) async fn wait_until_busy(&self) {
        timeout(TIMEOUT, self.busy.cancelled()).await.expect("a message of the slow sender comes");
    }

    /// Stores what waits, and from now on everything at once.
    pub(crate) fn release(&self) {
        self.released.cancel();
    }

    pub(crate) fn inbound(&self) -> StubInbound {
        let (slow_sender, busy, released) = (self.slow_sender, self.busy.clone(), self.released.clone());
        StubInbound::new(move |message| {
            let (busy, released) = (busy.clone(), released.clone());
            async move {
                if message.sender.id == slow_sender {
                    busy.cancel();
                    released.cancelled().await;
                }
                Ok(Some(turn(7)))
            }
        })
    }
}
