//! The ledger: the points around its commits are where a death tells most.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_ports::{LedgerError, intercept::Hook};

use crate::crash::points::CrashPoints;

/// The crash points before and after each verb of the ledger.
pub(in crate::crash) struct CrashHook(pub(in crate::crash) Arc<CrashPoints>);

#[async_trait]
impl Hook for CrashHook {
    /// The number of the call.
    type Passage = u32;

    async fn before_call(&self, verb: &'static str) -> Result<u32, LedgerError> {
        Ok(self.0.crash_before(verb))
    }

    fn after_call(&self, verb: &'static str, nth: u32) {
        self.0.crash_after(verb, nth);
    }
}
