//! Wraps every port with crash points around each call.

mod channel;
mod files;
mod ledger;
mod model;

use std::sync::Arc;

use crate::crash::points::CrashPoints;

pub(super) use self::{channel::CrashInbound, ledger::CrashHook};

/// An adapter with a crash point before and after each of its calls.
pub(super) struct CrashWrapper<P> {
    inner: P,
    points: Arc<CrashPoints>,
}

impl<P> CrashWrapper<P> {
    pub(super) fn new(inner: P, points: &Arc<CrashPoints>) -> Self {
        Self { inner, points: Arc::clone(points) }
    }
}

/// Performs a call between its two points.
macro_rules! between {
    ($self:ident, $call:literal, $performed:expr) => {{
        let nth = $self.points.crash_before($call);
        let outcome = $performed.await;
        $self.points.crash_after($call, nth);
        outcome
    }};
}
use between;
