//! The driver of one lane: performs its parts one at a time and in order, and lets the running turn's draft grow.
//!
//! What is done next is decided by [`satchel_domain::delivery`]; the driver does it, and writes down each step before
//! the next one begins, so that a death between any two lines leaves a part that is known to be unsent, known to be
//! sent, or in doubt. Nothing else sends or edits; what arrives late a second time is looked for, and deleted, beside it.

mod account;
mod doubt;
mod draft;
mod handle;
mod part;
mod reply_anchor;
mod report;
mod voice;

use std::sync::Arc;

use satchel_domain::{Part, PartState, delivery::DeliveryRules};
use satchel_ports::{Archive, Blobs, Channel, Clock, EventBus, FileLinks, Lease, LedgerError, Outbox, Speech};
use tokio_util::sync::CancellationToken;

pub use self::handle::{DeliveryHandle, DeliveryMark, DeliveryRequests, DraftHandle};
use self::{
    draft::DraftDelivery,
    handle::DeliveryRequest,
    part::{PartEnd, deliver_part, revert_start},
    reply_anchor::ReplyAnchor,
};

/// The ports and rules that a delivery needs.
#[derive(Clone)]
pub struct DeliveryContext {
    /// Where the parts are.
    pub outbox: Arc<dyn Outbox>,
    /// The turns that the parts answer.
    pub archive: Arc<dyn Archive>,
    /// The time of attempts and waits.
    pub clock: Arc<dyn Clock>,
    /// Where they go.
    pub channel: Arc<dyn Channel>,
    /// Where a spoken reply is kept until it has arrived.
    pub blobs: Arc<dyn Blobs>,
    /// The speech port; `None` where no voice is configured.
    pub speech: Option<Arc<dyn Speech>>,
    /// Where delivery events are published.
    pub bus: Arc<dyn EventBus>,
    /// Creates links to files that can't be sent; `None` where links are off.
    pub links: Option<Arc<dyn FileLinks>>,
    /// Whether an owner alone reads the lane's conversation, and so reads what can be done about a failure.
    pub owner_reads: bool,
    /// When a part is tried again and when it is given up.
    pub rules: DeliveryRules,
    /// Cancelled when the lane is to be given back: the part in flight is finished, the rest stays in the ledger.
    pub stop: CancellationToken,
    /// Cancelled when the process stops. What runs beside lanes ends then, and not with its lane.
    pub process_stop: CancellationToken,
}

/// How a driver ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverEnd {
    /// Nothing is unsettled and no turn is queued: the lane was released with the last part.
    Released,
    /// It was told to finish; the caller still holds the lane, and no part of it is in flight.
    Finished,
}

/// Delivers the parts of a lane, as long as this process holds it.
pub struct Driver {
    context: DeliveryContext,
    lease: Lease,
    requests: DeliveryRequests,
    reply_anchor: ReplyAnchor,
    /// The part that was unsettled when the lane was taken over.
    taken_over: Option<Part>,
    draft: Option<DraftDelivery>,
}

impl Driver {
    /// Makes the driver of a lane, which does what these requests ask for.
    #[must_use]
    pub fn new(context: DeliveryContext, lease: Lease, requests: DeliveryRequests) -> Self {
        Self { context, lease, requests, reply_anchor: ReplyAnchor::default(), taken_over: None, draft: None }
    }

    /// Takes over what is unsettled of a lane that was just claimed: a started part may have been sent by the holder before.
    /// Only afterwards may a turn start parts, which would be taken for such a one.
    ///
    /// # Errors
    /// When the ledger fails or the lane is lost.
    pub async fn take_over(&mut self) -> Result<(), LedgerError> {
        self.taken_over = self.read_next().await?;
        self.requests.set_busy(self.taken_over.is_some());
        Ok(())
    }

    /// Delivers what was taken over and does what it is asked to, until the lane is released or it is told to finish.
    ///
    /// # Errors
    /// When the ledger fails or the lane is lost. Whatever a channel does is no error: the part is tried again, replaced
    /// or given up.
    pub async fn run(mut self) -> Result<DriverEnd, LedgerError> {
        if let Some(part) = self.taken_over.take() {
            if self.deliver_from(part, false).await? {
                return Ok(DriverEnd::Released);
            }
            self.requests.set_busy(false);
        }
        loop {
            let request = tokio::select! {
                biased;
                request = self.requests.next() => request,
                () = draft::due(&mut self.draft, &self.context, &self.lease) => {
                    draft::advance(&mut self.draft, &self.context, &self.lease).await;
                    continue;
                }
            };
            let is_released = match request {
                DeliveryRequest::DeliverNext => self.deliver_next().await?,
                DeliveryRequest::Started(part, before) if self.requests.is_unread_since(before) => {
                    self.deliver_from(*part, true).await?
                }
                // It may have been read and delivered already.
                DeliveryRequest::Started(..) => self.deliver_next().await?,
                DeliveryRequest::Draft(draft) => {
                    self.draft = Some(*draft);
                    false
                }
                DeliveryRequest::Finish => return Ok(DriverEnd::Finished),
            };
            if is_released {
                return Ok(DriverEnd::Released);
            }
            self.requests.set_busy(false);
        }
    }

    /// Delivers what a turn or a question has planned. Only this holder has started parts since it took the lane over, and
    /// none is in flight: one that is started has not been sent yet.
    async fn deliver_next(&mut self) -> Result<bool, LedgerError> {
        let Some(part) = self.read_next().await? else { return Ok(false) };
        let is_started = part.state == PartState::Sending;
        self.deliver_from(part, is_started).await
    }

    async fn read_next(&self) -> Result<Option<Part>, LedgerError> {
        let next = self.context.outbox.next_part(&self.lease).await;
        // Afterwards: a mark that was made meanwhile must not count what was read as unread.
        self.requests.record_read();
        next
    }

    /// Delivers this part and those behind it, until none is left to deliver or the process stops. Returns whether the
    /// lane was released with the last one.
    async fn deliver_from(&mut self, first: Part, mut started_here: bool) -> Result<bool, LedgerError> {
        let mut next = Some(first);
        while let Some(part) = next {
            if self.context.stop.is_cancelled() {
                if started_here {
                    revert_start(&self.context, &self.lease, part).await?;
                }
                return Ok(false);
            }
            let Self { context, lease, reply_anchor, requests, .. } = &mut *self;
            next = match deliver_part(context, lease, requests, part, started_here, reply_anchor).await {
                Ok(PartEnd::Settled(outcome)) if outcome.released => return Ok(true),
                Ok(PartEnd::Settled(outcome)) => {
                    self.requests.record_read();
                    outcome.next
                }
                Ok(PartEnd::Stopped) => return Ok(false),
                Ok(PartEnd::Open) => self.read_next().await?,
                // An operator discarded it meanwhile, or nobody needs its answer any more.
                Err(LedgerError::AlreadySettled(_)) => self.read_next().await?,
                Err(error) => return Err(error),
            };
            started_here = next.as_ref().is_some_and(|part| part.state == PartState::Sending);
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
