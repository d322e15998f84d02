//! What the turns of a lane ask its driver for.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use satchel_domain::{MessageRef, Part, TurnId};
use tokio::sync::watch;

use super::draft::DraftDelivery;

/// What a driver is asked for; see the methods of [`DeliveryHandle`].
pub(super) enum DeliveryRequest {
    DeliverNext,
    Started(Box<Part>, DeliveryMark),
    Draft(Box<DraftDelivery>),
    Finish,
}

/// The requests that wait for the driver: one of each kind, however long a platform is away, for the ledger has what is to
/// be delivered and in which order.
#[derive(Default)]
struct PendingRequests {
    draft: Option<Box<DraftDelivery>>,
    delivery: Option<DeliveryRequest>,
    is_finishing: bool,
    /// Whether the driver delivers.
    is_busy: bool,
    /// Whether it delivers nothing before the platform accepts the bot's account again.
    awaits_account: bool,
}

impl PendingRequests {
    fn is_empty(&self) -> bool {
        self.draft.is_none() && self.delivery.is_none() && !self.is_finishing
    }

    /// Takes the next one. A driver finishes when nothing else is left.
    fn take_next(&mut self) -> Option<DeliveryRequest> {
        if let Some(draft) = self.draft.take() {
            return Some(DeliveryRequest::Draft(draft));
        }
        let delivery = self.delivery.take();
        self.is_busy = delivery.is_some();
        delivery.or_else(|| std::mem::take(&mut self.is_finishing).then_some(DeliveryRequest::Finish))
    }

    /// Adds a delivery. Where another one waits, both are what the ledger has to deliver.
    fn deliver(&mut self, delivery: DeliveryRequest) {
        self.delivery = Some(match self.delivery {
            None => delivery,
            Some(_) => DeliveryRequest::DeliverNext,
        });
    }
}

/// Asks the [`Driver`](super::Driver) of a lane for what is to be done. What is asked of a driver that has ended is ignored,
/// for the ledger has it all.
#[derive(Clone)]
pub struct DeliveryHandle {
    pending: Arc<watch::Sender<PendingRequests>>,
    reads: Arc<AtomicU64>,
}

/// What the driver had read of the ledger at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryMark(u64);

/// The driver's end of a [`DeliveryHandle`].
pub struct DeliveryRequests {
    pending: Arc<watch::Sender<PendingRequests>>,
    reads: Arc<AtomicU64>,
}

impl DeliveryRequests {
    /// Waits for the next request.
    pub(super) async fn next(&mut self) -> DeliveryRequest {
        let mut changes = self.pending.subscribe();
        loop {
            let mut next = None;
            self.pending.send_if_modified(|pending| {
                next = pending.take_next();
                next.is_some()
            });
            if let Some(next) = next {
                return next;
            }
            // The sender lives as long as this.
            let _ = changes.wait_for(|pending| !pending.is_empty()).await;
        }
    }

    /// Records that the driver delivers, or no longer does.
    pub(super) fn set_busy(&self, is_busy: bool) {
        self.pending.send_modify(|pending| pending.is_busy = is_busy);
    }

    /// Records that the driver waits for a closed channel, or no longer does.
    pub(super) fn set_awaits_account(&self, awaits_account: bool) {
        self.pending.send_modify(|pending| pending.awaits_account = awaits_account);
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
        let handle = Self { pending: Arc::default(), reads: Arc::default() };
        let (pending, reads) = (Arc::clone(&handle.pending), Arc::clone(&handle.reads));
        (handle, DeliveryRequests { pending, reads })
    }

    /// Delivers what this holder of the lane has committed, from its next part.
    pub fn wake(&self) {
        self.pending.send_modify(|pending| pending.deliver(DeliveryRequest::DeliverNext));
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
        let delivery = match started {
            Some(part) => DeliveryRequest::Started(Box::new(part), before),
            None => DeliveryRequest::DeliverNext,
        };
        self.pending.send_modify(|pending| pending.deliver(delivery));
    }

    /// Lets the reply of a turn grow in a preview or in one message, as the channel can. `earlier` is the draft of an earlier
    /// attempt at the turn.
    #[must_use]
    pub fn open_draft(&self, turn: TurnId, reply_to: Option<MessageRef>, earlier: Option<Part>) -> DraftHandle {
        let feed = DraftFeed { is_open: earlier.is_some(), ..DraftFeed::default() };
        let feed = Arc::new(watch::Sender::new(feed));
        let draft = Box::new(DraftDelivery::new(turn, reply_to, earlier, Arc::clone(&feed)));
        self.pending.send_modify(|pending| pending.draft = Some(draft));
        DraftHandle(feed)
    }

    /// Ends the driver when what it was asked for is done, or left to the ledger because the process stops.
    pub fn finish(&self) {
        self.pending.send_modify(|pending| pending.is_finishing = true);
    }

    /// Returns whether all that was asked for is delivered. A draft may still grow.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let pending = self.pending.borrow();
        !pending.is_busy && pending.delivery.is_none()
    }

    /// Returns whether what was asked for waits for a closed channel.
    #[must_use]
    pub fn awaits_account(&self) -> bool {
        self.pending.borrow().awaits_account
    }

    /// Waits until what was asked for waits for a closed channel.
    pub async fn account_awaited(&self) {
        let mut pending = self.pending.subscribe();
        // The sender lives as long as this handle.
        let _ = pending.wait_for(|pending| pending.awaits_account).await;
    }

    /// Waits until all that was asked for is delivered.
    pub async fn idle(&self) {
        let mut pending = self.pending.subscribe();
        // The sender lives as long as this handle.
        let _ = pending.wait_for(|pending| !pending.is_busy && pending.delivery.is_none()).await;
    }
}

/// What a turn and the driver know of its draft.
#[derive(Default)]
pub(super) struct DraftFeed {
    /// What it is to show.
    pub(super) text: String,
    /// Whether it has to stand in a message, because the model is busy with something else than the text.
    pub(super) needs_message: bool,
    /// Whether it grows no further.
    pub(super) is_ended: bool,
    /// Whether a call of the channel is under way.
    pub(super) is_in_flight: bool,
    /// Whether the ledger has a part for it, which may stand on the platform, or a preview of it may have been seen.
    pub(super) is_open: bool,
}

/// The growing reply of a turn. It ends when this is dropped, too.
pub struct DraftHandle(Arc<watch::Sender<DraftFeed>>);

impl DraftHandle {
    /// Changes the text that is to be shown.
    pub fn update(&self, change: impl FnOnce(&mut String)) {
        self.0.send_modify(|feed| change(&mut feed.text));
    }

    /// Changes the text that is to be shown, and shows it in a message from now on: a preview would vanish before the model
    /// writes on.
    pub fn update_in_message(&self, change: impl FnOnce(&mut String)) {
        self.0.send_modify(|feed| {
            change(&mut feed.text);
            feed.needs_message = true;
        });
    }

    /// Returns whether it has been given a text to show.
    #[must_use]
    pub fn has_text(&self) -> bool {
        !self.0.borrow().text.trim().is_empty()
    }

    /// Ends the growth if nothing of it has been recorded or shown, once no call is in flight. Returns whether it has ended so.
    pub async fn withdraw(&self) -> bool {
        let mut feed = self.0.subscribe();
        loop {
            // The sender is this one.
            let _ = feed.wait_for(|feed| !feed.is_in_flight).await;
            let mut is_withdrawn = None;
            self.0.send_if_modified(|feed| {
                // The driver may have begun a call since.
                if !feed.is_in_flight {
                    is_withdrawn = Some(!feed.is_open);
                    feed.is_ended |= !feed.is_open;
                }
                is_withdrawn == Some(true)
            });
            if let Some(is_withdrawn) = is_withdrawn {
                return is_withdrawn;
            }
        }
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
