//! What the turns of a lane ask its driver for.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use satchel_domain::{MessageRef, Part, TurnId};
use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    watch,
};

use super::draft::DraftDelivery;

/// What a driver is asked for; see the methods of [`DeliveryHandle`].
pub(super) enum DeliveryRequest {
    DeliverNext,
    Started(Box<Part>, DeliveryMark),
    Draft(Box<DraftDelivery>),
    Finish,
}

/// Asks the [`Driver`](super::Driver) of a lane for what is to be done. Requests are served in their order; one to a
/// driver that has ended is ignored, for the ledger has it all.
#[derive(Clone)]
pub struct DeliveryHandle {
    requests: UnboundedSender<DeliveryRequest>,
    outstanding: Arc<watch::Sender<usize>>,
    reads: Arc<AtomicU64>,
}

/// What the driver had read of the ledger at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryMark(u64);

/// The driver's end of a [`DeliveryHandle`].
pub struct DeliveryRequests {
    requests: UnboundedReceiver<DeliveryRequest>,
    outstanding: Arc<watch::Sender<usize>>,
    reads: Arc<AtomicU64>,
}

impl DeliveryRequests {
    /// Returns the next request; `None` when every handle is gone.
    pub(super) async fn next(&mut self) -> Option<DeliveryRequest> {
        self.requests.recv().await
    }

    /// Counts something to do that nobody has asked for.
    pub(super) fn count_task(&self) {
        self.outstanding.send_modify(|count| *count += 1);
    }

    /// Counts it, or a request, as done.
    pub(super) fn count_done(&self) {
        self.outstanding.send_modify(|count| *count -= 1);
    }

    /// Records that a part was read of the ledger.
    pub(super) fn record_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether no part was read of the ledger since then.
    pub(super) fn is_unread_since(&self, mark: DeliveryMark) -> bool {
        self.reads.load(Ordering::Relaxed) == mark.0
    }
}

impl DeliveryHandle {
    /// Makes a handle, and what its requests arrive at.
    #[must_use]
    pub fn new() -> (Self, DeliveryRequests) {
        let (sender, requests) = unbounded_channel();
        let handle = Self { requests: sender, outstanding: Arc::default(), reads: Arc::default() };
        let (outstanding, reads) = (Arc::clone(&handle.outstanding), Arc::clone(&handle.reads));
        (handle, DeliveryRequests { requests, outstanding, reads })
    }

    /// Delivers what this holder of the lane has committed, from its next part.
    pub fn wake(&self) {
        self.send(DeliveryRequest::DeliverNext);
    }

    /// Returns what the driver has read by now. Called before a commit, it tells whether the driver may have read what was
    /// committed.
    #[must_use]
    pub fn mark(&self) -> DeliveryMark {
        DeliveryMark(self.reads.load(Ordering::Relaxed))
    }

    /// Delivers the parts of a turn that this holder of the lane has just completed: from the first one, if that was
    /// started with the commit. `before` is the mark before the commit.
    pub fn planned(&self, started: Option<Part>, before: DeliveryMark) {
        self.send(match started {
            Some(part) => DeliveryRequest::Started(Box::new(part), before),
            None => DeliveryRequest::DeliverNext,
        });
    }

    /// Lets the reply of a turn grow in one message, where the channel edits. `earlier` is the draft of an earlier
    /// attempt at the turn.
    #[must_use]
    pub fn open_draft(&self, turn: TurnId, reply_to: Option<MessageRef>, earlier: Option<Part>) -> DraftHandle {
        let feed = Arc::new(watch::Sender::new(DraftFeed::default()));
        self.send(DeliveryRequest::Draft(Box::new(DraftDelivery::new(turn, reply_to, earlier, Arc::clone(&feed)))));
        DraftHandle(feed)
    }

    /// Ends the driver when what it was asked for is done, or left to the ledger because the process stops.
    pub fn finish(&self) {
        self.send(DeliveryRequest::Finish);
    }

    /// Returns whether all that was asked for is done. A draft may still grow.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        *self.outstanding.borrow() == 0
    }

    /// Waits until all that was asked for is done.
    pub async fn idle(&self) {
        let mut outstanding = self.outstanding.subscribe();
        // The sender lives as long as this handle.
        let _ = outstanding.wait_for(|count| *count == 0).await;
    }

    fn send(&self, request: DeliveryRequest) {
        self.outstanding.send_modify(|count| *count += 1);
        // Whoever holds the lane next reads the ledger.
        let _ = self.requests.send(request);
    }
}

/// What a turn and the driver know of its draft.
#[derive(Default)]
pub(super) struct DraftFeed {
    /// What it is to show.
    pub(super) text: String,
    /// Whether it grows no further.
    pub(super) is_ended: bool,
    /// Whether a call of the channel is under way.
    pub(super) is_in_flight: bool,
}

/// The growing reply of a turn. It ends when this is dropped, too.
pub struct DraftHandle(Arc<watch::Sender<DraftFeed>>);

impl DraftHandle {
    /// Changes the text that is to be shown.
    pub fn update(&self, change: impl FnOnce(&mut String)) {
        self.0.send_modify(|feed| change(&mut feed.text));
    }

    /// Ends the growth, and waits for the edit in flight.
    pub async fn finish(self) {
        self.0.send_modify(|feed| feed.is_ended = true);
        // The sender is this one.
        let _ = self.0.subscribe().wait_for(|feed| !feed.is_in_flight).await;
    }
}

impl Drop for DraftHandle {
    fn drop(&mut self) {
        self.0.send_modify(|feed| feed.is_ended = true);
    }
}
