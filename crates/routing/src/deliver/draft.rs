//! The draft of the running turn: opened, sent and edited at the channel's interval, while nothing else is in flight.

use std::{future::pending, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use satchel_domain::{
    ChannelCapabilities, ConversationId, MessageRef, Part, PartContent, Timestamp, TurnId,
    capabilities::StreamRule,
    delivery::{Draft, DraftCall, DraftStep, SendError},
};
use satchel_ports::{Lease, LedgerError, PostRequest};
use tokio::sync::watch;

use super::{DeliveryContext, handle::DraftFeed};
use crate::split::split;

/// How long a reply may grow before it is shown: one that is complete in a moment needs no draft, which costs two
/// commits and an edit.
const FIRST_SEND_DELAY: Duration = Duration::from_millis(300);

/// How long the end of a turn waits for an edit in flight: longer than any adapter lets a call take, its turn,
/// connecting and a silence in the answer included. An edit that is cut off earlier may arrive after the final one and
/// stand there for good.
const LAST_EDIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The draft of a turn on its way.
pub(super) struct DraftDelivery {
    turn: TurnId,
    reply_to: Option<MessageRef>,
    feed: Arc<watch::Sender<DraftFeed>>,
    /// `None` until it is opened.
    draft: Option<Draft>,
    /// When it may be opened; `None` while there is nothing to show.
    opens_at: Option<Timestamp>,
    /// The text of the feed for which there is nothing left to do.
    done: String,
}

/// Waits until there is something to be done for the draft.
pub(super) async fn due(delivery: &mut Option<DraftDelivery>, context: &DeliveryContext, lease: &Lease) {
    if let Some(delivery) = delivery
        && !delivery.feed.borrow().is_ended
        && context.stop.run_until_cancelled(delivery.wait_until_due(context, &lease.conversation)).await.is_some()
    {
        return;
    }
    pending().await
}

/// Does it: one call of the channel at most, which the end of the turn waits for.
pub(super) async fn advance(delivery: &mut Option<DraftDelivery>, context: &DeliveryContext, lease: &Lease) {
    let Some(delivery) = delivery else { return };
    let feed = Arc::clone(&delivery.feed);
    let is_begun = feed.send_if_modified(|feed| {
        feed.is_in_flight = !feed.is_ended;
        feed.is_in_flight
    });
    if !is_begun {
        return;
    }
    let turn = delivery.turn;
    let performed = tokio::select! {
        biased;
        // What breaks down here must not take the turn with it.
        performed = AssertUnwindSafe(delivery.perform(context, lease)).catch_unwind() => match performed {
            Ok(performed) => performed.map_err(|error| error.to_string()),
            Err(_panic) => Err("it panicked".to_owned()),
        },
        () = wait_too_long(&feed) => {
            tracing::warn!(turn.id = %turn, "the last edit of a draft timed out; the reply is sent without waiting for it");
            Ok(())
        }
    };
    // A draft is a convenience: the error is met again, and reported, when the turn is completed.
    if let Err(reason) = &performed {
        tracing::debug!(turn.id = %turn, reason, "a draft failed; the rest is sent at the end of the turn");
    }
    let is_open = delivery.draft.is_some();
    feed.send_modify(|feed| {
        feed.is_in_flight = false;
        feed.is_open |= is_open;
        feed.is_ended |= performed.is_err();
    });
}

/// Waits until the end of the turn has waited for long enough.
async fn wait_too_long(feed: &watch::Sender<DraftFeed>) {
    // The sender is this one.
    let _ = feed.subscribe().wait_for(|feed| feed.is_ended).await;
    tokio::time::sleep(LAST_EDIT_TIMEOUT).await;
}

impl DraftDelivery {
    pub(super) fn new(
        turn: TurnId,
        reply_to: Option<MessageRef>,
        earlier: Option<Part>,
        feed: Arc<watch::Sender<DraftFeed>>,
    ) -> Self {
        let draft = earlier.map(Draft::take_up);
        Self { turn, reply_to, feed, draft, opens_at: None, done: String::new() }
    }

    async fn wait_until_due(&mut self, context: &DeliveryContext, conversation: &ConversationId) {
        let capabilities = context.channel.capabilities(conversation);
        let StreamRule::Edits { interval_ms } = capabilities.stream else { return pending().await };
        if self.draft.as_ref().is_some_and(|draft| !draft.can_grow()) {
            return pending().await;
        }
        let mut feed = self.feed.subscribe();
        loop {
            let grown = feed.wait_for(|feed| !feed.is_ended && feed.text != self.done).await;
            let Ok(text) = grown.map(|feed| feed.text.clone()) else { return pending().await };
            let now = context.clock.now();
            match self.next_step(&text, &capabilities, interval_ms, now) {
                DraftStep::Rest => self.done = text,
                DraftStep::Wait(until) => tokio::time::sleep(until.saturating_duration_since(now)).await,
                DraftStep::Call(_) | DraftStep::Abandon => return,
            }
        }
    }

    /// The next step for this text. One that isn't opened yet is sent with its first call.
    fn next_step(
        &mut self,
        text: &str,
        capabilities: &ChannelCapabilities,
        interval_ms: u64,
        now: Timestamp,
    ) -> DraftStep {
        let text = clip(text, capabilities);
        if let Some(draft) = &self.draft {
            return draft.next_step(&text, now, capabilities.idempotency);
        }
        if text.trim().is_empty() {
            return DraftStep::Rest;
        }
        let delay = FIRST_SEND_DELAY.min(Duration::from_millis(interval_ms));
        match *self.opens_at.get_or_insert(now.saturating_add(delay)) {
            opens_at if now < opens_at => DraftStep::Wait(opens_at),
            _ => DraftStep::Call(DraftCall::Send),
        }
    }

    async fn perform(&mut self, context: &DeliveryContext, lease: &Lease) -> Result<(), LedgerError> {
        let DeliveryContext { outbox, channel, clock, .. } = context;
        let capabilities = channel.capabilities(&lease.conversation);
        let StreamRule::Edits { interval_ms } = capabilities.stream else { return Ok(()) };
        let interval = Duration::from_millis(interval_ms);
        let text = clip(&self.feed.borrow().text, &capabilities);
        if text.trim().is_empty() {
            return Ok(());
        }
        let draft = match &mut self.draft {
            Some(draft) => draft,
            None => match outbox.open_draft(lease, self.turn, self.reply_to.clone()).await? {
                Some(part) => self.draft.insert(Draft::new(part)),
                // An earlier reply is still on its way; this one must not overtake it.
                None => {
                    self.opens_at = Some(clock.now().saturating_add(interval));
                    return Ok(());
                }
            },
        };
        let is_changed = match draft.next_step(&text, clock.now(), capabilities.idempotency) {
            DraftStep::Call(call) => {
                let answer = send_draft(context, draft.part(), &call, &text).await;
                draft.on_answer(&call, &text, answer, clock.now(), interval)
            }
            DraftStep::Abandon => {
                draft.abandon(clock.now());
                true
            }
            DraftStep::Wait(_) | DraftStep::Rest => false,
        };
        if is_changed {
            outbox.save_part(lease, draft.part()).await?;
        }
        Ok(())
    }
}

async fn send_draft(
    context: &DeliveryContext,
    part: &Part,
    call: &DraftCall,
    text: &str,
) -> Result<Vec<MessageRef>, SendError> {
    let request = PostRequest {
        part_id: part.id,
        turn: part.turn,
        conversation: part.conversation.clone(),
        content: PartContent::from_text(text),
        reply_to: part.reply_to.clone(),
    };
    match call {
        DraftCall::Send | DraftCall::Retry => context.channel.post(&request).await,
        DraftCall::Edit(message) => context.channel.edit(message, &request).await,
    }
}

/// As much of the text as one message holds.
fn clip(text: &str, capabilities: &ChannelCapabilities) -> String {
    split(text, &capabilities.text).into_iter().next().unwrap_or_default()
}
