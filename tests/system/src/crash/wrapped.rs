//! Every port behind a wrapper that passes the points around each of its calls.

mod channel;
mod files;
mod ledger;
mod thinking;

use std::sync::Arc;

use crate::crash::points::Points;

pub(super) use self::channel::WrappedInbound;

/// An adapter whose calls can be the last thing that its process does.
pub(super) struct Wrapped<P> {
    inner: P,
    points: Arc<Points>,
}

impl<P> Wrapped<P> {
    pub(super) fn new(inner: P, points: &Arc<Points>) -> Self {
        Self { inner, points: Arc::clone(points) }
    }
}

/// Performs a call between its two points.
macro_rules! between {
    ($self:ident, $call:literal, $performed:expr) => {{
        let nth = $self.points.before($call);
        let answer = $performed.await;
        $self.points.after($call, nth);
        answer
    }};
}
use between;
