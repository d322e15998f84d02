//! The growing reply of the running turn, at the channel's interval and while nothing else is in flight: shown as a preview where
//! the channel has them, else in its draft, which is opened, sent and edited.

use std::{future::pending, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use satchel_domain::{
    ChannelCapabilities, ConversationId, MessageRef, Part, PartContent, Timestamp, TurnId,
    delivery::{Draft, DraftCall, DraftStep, Preview, PreviewRule, PreviewStep, SendError},
};
use satchel_ports::{Lease, LedgerError, PostRequest, PreviewRequest};
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

/// How long it waits for a preview in flight. One that comes behind the reply vanishes by itself, and the reply is worth more.
const LAST_PREVIEW_TIMEOUT: Duration = Duration::from_secs(5);

/// The draft of a turn on its way.
pub(super) struct DraftDelivery {
    turn: TurnId,
    reply_to: Option<MessageRef>,
    feed: Arc<watch::Sender<DraftFeed>>,
    /// What shows the reply as long as it isn't opened.
    preview: Preview,
    /// `None` until it is opened.
    draft: Option<Draft>,
    /// When something may be shown; `None` while there is nothing to show.
    opens_at: Option<Timestamp>,
    /// The text of the feed for which there is nothing left to do.
    done: String,
}

/// What is to be done for a growing reply.
enum GrowthStep {
    /// Make the next call of the channel, or store what became of the draft.
    Advance,
    Wait(Timestamp),
    /// Wait, unless the text is another.
    Rest(Timestamp),
    /// Wait until the text is another.
    Done,
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
        () = wait_too_long(&feed, LAST_EDIT_TIMEOUT) => {
            tracing::warn!(turn.id = %turn, "the last edit of a draft timed out; the reply is sent without waiting for it");
            Ok(())
        }
    };
    // A draft is a convenience: the error is met again, and reported, when the turn is completed.
    if let Err(reason) = &performed {
        tracing::debug!(turn.id = %turn, reason, "a draft failed; the rest is sent at the end of the turn");
    }
    let is_open = delivery.draft.is_some() || delivery.preview.may_be_visible();
    feed.send_modify(|feed| {
        feed.is_in_flight = false;
        feed.is_open |= is_open;
        feed.is_ended |= performed.is_err();
    });
}

/// Waits until the end of the turn has waited for long enough.
async fn wait_too_long(feed: &watch::Sender<DraftFeed>, timeout: Duration) {
    // The sender is this one.
    let _ = feed.subscribe().wait_for(|feed| feed.is_ended).await;
    tokio::time::sleep(timeout).await;
}

impl DraftDelivery {
    pub(super) fn new(
        turn: TurnId,
        reply_to: Option<MessageRef>,
        earlier: Option<Part>,
        feed: Arc<watch::Sender<DraftFeed>>,
    ) -> Self {
        let draft = earlier.map(Draft::take_up);
        Self { turn, reply_to, feed, preview: Preview::default(), draft, opens_at: None, done: String::new() }
    }

    async fn wait_until_due(&mut self, context: &DeliveryContext, conversation: &ConversationId) {
        let capabilities = context.channel.capabilities(conversation);
        let Some(interval) = capabilities.stream.edit_interval() else { return pending().await };
        if self.draft.as_ref().is_some_and(|draft| !draft.can_grow()) {
            return pending().await;
        }
        let mut feed = self.feed.subscribe();
        loop {
            let grown = feed.wait_for(|feed| !feed.is_ended && feed.text != self.done).await;
            let Ok(text) = grown.map(|feed| feed.text.clone()) else { return pending().await };
            let now = context.clock.now();
            match self.next_step(&text, &capabilities, interval, now) {
                GrowthStep::Done => self.done = text,
                GrowthStep::Wait(until) => {
                    // What a tool asks of the person comes behind the text that leads to it, which has to stand by then.
                    let needed_message = self.feed.borrow().needs_message;
                    let is_changed = |feed: &DraftFeed| feed.needs_message && !needed_message;
                    let remaining = until.saturating_duration_since(now);
                    // The sender lives as long as this.
                    let _ = tokio::time::timeout(remaining, feed.wait_for(is_changed)).await;
                }
                GrowthStep::Rest(until) => {
                    let is_changed = |feed: &DraftFeed| feed.text != text || feed.needs_message;
                    let remaining = until.saturating_duration_since(now);
                    // The sender lives as long as this.
                    let _ = tokio::time::timeout(remaining, feed.wait_for(is_changed)).await;
                }
                GrowthStep::Advance => return,
            }
        }
    }

    /// The next step for this text. A draft that isn't opened yet is sent with its first call.
    fn next_step(
        &mut self,
        text: &str,
        capabilities: &ChannelCapabilities,
        interval: Duration,
        now: Timestamp,
    ) -> GrowthStep {
        let excerpt = clip(text, capabilities);
        if let Some(draft) = &self.draft {
            return match draft.next_step(&excerpt, now, capabilities.idempotency) {
                DraftStep::Rest => GrowthStep::Done,
                DraftStep::Wait(until) => GrowthStep::Wait(until),
                DraftStep::Call(_) | DraftStep::Abandon => GrowthStep::Advance,
            };
        }
        if excerpt.trim().is_empty() {
            return GrowthStep::Done;
        }
        let opens_at = *self.opens_at.get_or_insert(now.saturating_add(FIRST_SEND_DELAY.min(interval)));
        if now < opens_at {
            return GrowthStep::Wait(opens_at);
        }
        let rule = self.preview_rule(capabilities);
        match rule.map(|rule| self.preview.next_step(text, &excerpt, now, rule)) {
            Some(PreviewStep::Wait(until)) => GrowthStep::Wait(until),
            Some(PreviewStep::Rest(until)) => GrowthStep::Rest(until),
            Some(PreviewStep::Show | PreviewStep::Abandon) | None => GrowthStep::Advance,
        }
    }

    /// How the reply is shown before its draft is opened; `None` where that is to be opened.
    fn preview_rule(&self, capabilities: &ChannelCapabilities) -> Option<PreviewRule> {
        let needs_message = self.draft.is_some() || self.preview.is_abandoned() || self.feed.borrow().needs_message;
        capabilities.stream.preview_rule().filter(|_| !needs_message)
    }

    async fn perform(&mut self, context: &DeliveryContext, lease: &Lease) -> Result<(), LedgerError> {
        let capabilities = context.channel.capabilities(&lease.conversation);
        let Some(interval) = capabilities.stream.edit_interval() else { return Ok(()) };
        let written = self.feed.borrow().text.clone();
        let text = clip(&written, &capabilities);
        if text.trim().is_empty() {
            return Ok(());
        }
        if let Some(rule) = self.preview_rule(&capabilities) {
            match self.preview.next_step(&written, &text, context.clock.now(), rule) {
                PreviewStep::Show => {
                    self.show_preview(context, lease, text, rule).await;
                    return Ok(());
                }
                PreviewStep::Abandon => self.preview.abandon(),
                PreviewStep::Wait(_) | PreviewStep::Rest(_) => return Ok(()),
            }
        }
        self.advance_draft(context, lease, &text, interval).await
    }

    /// Nothing of it is recorded, and whatever becomes of it, the reply is sent.
    async fn show_preview(&mut self, context: &DeliveryContext, lease: &Lease, text: String, rule: PreviewRule) {
        let request = PreviewRequest { turn: self.turn, conversation: lease.conversation.clone(), text };
        let answer = tokio::select! {
            biased;
            answer = context.channel.show_preview(&request) => answer,
            () = wait_too_long(&self.feed, LAST_PREVIEW_TIMEOUT) => {
                tracing::debug!(turn.id = %self.turn, "the last preview timed out; the reply is sent without waiting for it");
                return;
            }
        };
        if let Err(error) = &answer {
            tracing::debug!(turn.id = %self.turn, %error, "a preview of a reply was not shown");
        }
        if let Err(SendError::NotSent { retry_after_ms: Some(wait), .. }) = &answer {
            // A message has to wait as well: it would be refused, and then grow no further.
            let opens_at = context.clock.now().saturating_add(Duration::from_millis(*wait));
            self.opens_at = self.opens_at.max(Some(opens_at));
        }
        self.preview.on_answer(&request.text, answer, context.clock.now(), rule);
    }

    async fn advance_draft(
        &mut self,
        context: &DeliveryContext,
        lease: &Lease,
        text: &str,
        interval: Duration,
    ) -> Result<(), LedgerError> {
        let DeliveryContext { outbox, clock, .. } = context;
        let idempotency = context.channel.capabilities(&lease.conversation).idempotency;
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
        let is_changed = match draft.next_step(text, clock.now(), idempotency) {
            DraftStep::Call(call) => {
                let answer = send_draft(context, draft.part(), &call, text).await;
                draft.on_answer(&call, text, answer, clock.now(), interval)
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
