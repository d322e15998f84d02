//! What a process writes on its own account when it starts: on a busy machine that may come after the first message.

use std::collections::BTreeSet;

use async_trait::async_trait;
use satchel_ports::{LedgerError, intercept::Hook};
use tokio::sync::watch;

/// Its first lease, and the search index of what was there before.
const VERBS: [&str; 2] = ["ledger.renew", "ledger.index_turns"];

/// Reports which of the verbs have returned.
pub(super) struct StartWrites(watch::Sender<BTreeSet<&'static str>>);

impl StartWrites {
    pub(super) fn new() -> (Self, watch::Receiver<BTreeSet<&'static str>>) {
        let (sender, receiver) = watch::channel(BTreeSet::new());
        (Self(sender), receiver)
    }
}

#[async_trait]
impl Hook for StartWrites {
    type Passage = ();

    async fn before_call(&self, _verb: &'static str) -> Result<(), LedgerError> {
        Ok(())
    }

    fn after_call(&self, verb: &'static str, (): ()) {
        if VERBS.contains(&verb) {
            self.0.send_if_modified(|returned| returned.insert(verb));
        }
    }
}

/// Waits until all of it is on the disk.
pub(super) async fn wait_for_start_writes(mut returned: watch::Receiver<BTreeSet<&'static str>>) {
    returned.wait_for(|returned| returned.len() == VERBS.len()).await.expect("the product has not ended");
}
