//! Performs the parts of one lane, one at a time and in order, until none is unsettled.
//!
//! What is done next is decided by [`satchel_domain::delivery`]; this loop does it, and writes down each step before
//! the next one begins, so that a death between any two lines leaves a part that is known to be unsent, known to be
//! sent, or in doubt.

mod doubt;
mod reply_anchor;
mod voice;

use std::{collections::VecDeque, sync::Arc};

use satchel_domain::{
    ChannelCapabilities, MessageRef, Part, PartContent, PartState,
    delivery::{Delivery, DeliveryAction, DeliveryEffect, DeliveryEvent, DeliveryRules, SendError},
    part::{FailureReason, PlannedPart},
};
use satchel_ports::{
    Archive, Blobs, BusEvent, Channel, Clock, EventBus, FileLinks, Lease, LedgerError, Outbox, SendRequest, Speech,
    ledger::{SettleOutcome, Settlement},
};
use tokio_util::sync::CancellationToken;

use self::{reply_anchor::ReplyAnchor, voice::prepare_with_activity};
use crate::{
    label::with_duplicate_label,
    notice::{MakeLink, closing_notice},
    plan::reserve_label,
    replan::replan,
    retry::retry_until_stored,
};

/// The ports and rules that a delivery needs.
#[derive(Clone)]
pub struct DeliveryContext {
    /// Where the parts are.
    pub outbox: Arc<dyn Outbox>,
    /// Where the turns are that they answer.
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
    /// Cancelled when the process stops: the part in flight is finished, the rest stays in the ledger.
    pub stop: CancellationToken,
}

/// How a lane was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliverOutcome {
    /// Nothing is unsettled; the caller still holds the lane.
    Drained,
    /// Nothing is unsettled and no turn is queued: the lane was released with the last part.
    Released,
    /// The process stops; the caller still holds the lane, and no part of it is in flight.
    Stopped,
}

/// Where a delivery starts.
#[expect(clippy::large_enum_variant, reason = "one is made a delivery and taken apart at once")]
#[derive(Debug, Clone, PartialEq)]
pub enum DeliveryStart {
    /// With this part, which this holder of the lane has just committed as started.
    Started(Part),
    /// With the lane's next part. The lane was just claimed: a started part may have been sent by the previous holder.
    TakenOver,
    /// With the lane's next part. Only this holder has started parts since it claimed the lane, and none is in flight:
    /// a started part was started by one of its own turns and not sent yet.
    Planned,
}

/// What follows a part that was settled; `None` when the process stops and nothing of the part is in flight.
type PartResult = Option<SettleOutcome>;

/// Delivers all parts of the lane.
///
/// # Errors
/// When the ledger fails or the lane is lost. Whatever a channel does is no error: the part is tried again, replaced
/// or given up.
pub async fn deliver(
    delivery: &DeliveryContext,
    lease: &Lease,
    start: DeliveryStart,
) -> Result<DeliverOutcome, LedgerError> {
    let is_taken_over = start == DeliveryStart::TakenOver;
    let mut next = match start {
        DeliveryStart::Started(part) => Some(part),
        DeliveryStart::TakenOver | DeliveryStart::Planned => delivery.outbox.next_part(lease).await?,
    };
    let is_started = |part: &Part| part.state == PartState::Sending;
    let mut started_here = next.as_ref().is_some_and(is_started) && !is_taken_over;
    let mut reply_anchor = ReplyAnchor::default();
    while let Some(part) = next {
        if delivery.stop.is_cancelled() {
            if started_here {
                revert_start(delivery, lease, part).await?;
            }
            return Ok(DeliverOutcome::Stopped);
        }
        let outcome = match deliver_part(delivery, lease, part, started_here, &mut reply_anchor).await {
            Ok(Some(outcome)) => outcome,
            Ok(None) => return Ok(DeliverOutcome::Stopped),
            // An operator discarded it meanwhile.
            Err(LedgerError::AlreadySettled(_)) => {
                SettleOutcome { next: delivery.outbox.next_part(lease).await?, released: false }
            }
            Err(error) => return Err(error),
        };
        if outcome.released {
            return Ok(DeliverOutcome::Released);
        }
        started_here = outcome.next.as_ref().is_some_and(is_started);
        next = outcome.next;
    }
    Ok(DeliverOutcome::Drained)
}

/// Reverts a started part of which no byte was sent, so that it does not become in doubt.
async fn revert_start(delivery: &DeliveryContext, lease: &Lease, part: Part) -> Result<(), LedgerError> {
    let attempts = part.attempts.saturating_sub(1);
    let first_attempt_at = part.first_attempt_at.filter(|_| attempts > 0);
    let reverted = Part { state: PartState::Pending, attempts, first_attempt_at, ..part };
    delivery.outbox.save_part(lease, &reverted).await
}

/// Performs what the delivery asks for until the part is settled, or the process stops while nothing is in flight.
async fn deliver_part(
    delivery: &DeliveryContext,
    lease: &Lease,
    part: Part,
    started_here: bool,
    reply_anchor: &mut ReplyAnchor,
) -> Result<PartResult, LedgerError> {
    let DeliveryContext { outbox, clock, stop, rules, .. } = delivery;
    let capabilities = delivery.channel.capabilities(&part.conversation);
    let reply_to = reply_anchor.reply_target(delivery, &part, capabilities.replies).await?;
    let (mut under_way, effects) = Delivery::resume(part, started_here, &capabilities, clock.now(), *rules);
    let mut effects = VecDeque::from(effects);
    while let Some(effect) = effects.pop_front() {
        match effect {
            DeliveryEffect::Save => outbox.save_part(lease, under_way.part()).await?,
            DeliveryEffect::Record => {
                log_result(delivery, under_way.part());
                retry_until_stored(stop, || outbox.save_part(lease, under_way.part())).await?;
                publish_part_state(delivery, under_way.part()).await;
            }
            DeliveryEffect::Publish => publish_part_state(delivery, under_way.part()).await,
            DeliveryEffect::RemoveDuplicates => {
                let part = under_way.part();
                let request = send_request(delivery, part, &part.content, reply_to.as_ref());
                doubt::remove_duplicates(delivery, part, request).await;
            }
            DeliveryEffect::Settle => {
                let part = under_way.into_part();
                reply_anchor.record_sent(&part);
                return settle_part(delivery, lease, part, Vec::new()).await;
            }
            DeliveryEffect::Replace(children) => {
                return settle_part(delivery, lease, under_way.into_part(), children).await;
            }
            DeliveryEffect::Perform(action) => {
                let Some(event) = perform(delivery, &under_way, action, reply_to.as_ref()).await? else {
                    return Ok(None);
                };
                effects.extend(under_way.on(event, clock.now()));
            }
        }
    }
    unreachable!("a delivery ends with the part's settlement")
}

/// Performs one action; `None` when the process stops before it has ended and nothing is in flight.
async fn perform(
    delivery: &DeliveryContext,
    under_way: &Delivery,
    action: DeliveryAction,
    reply_to: Option<&MessageRef>,
) -> Result<Option<DeliveryEvent>, LedgerError> {
    let DeliveryContext { channel, clock, stop, .. } = delivery;
    let part = under_way.part();
    Ok(match action {
        DeliveryAction::Prepare => Some(match prepare_with_activity(delivery, part).await {
            Ok(prepared) => DeliveryEvent::Prepared(Box::new(prepared)),
            Err(reason) => fall_back_to_text(part, reason, &channel.capabilities(&part.conversation)),
        }),
        DeliveryAction::Call(attempt) => {
            Some(DeliveryEvent::Answered(send_part(delivery, part, under_way.content(attempt), reply_to).await))
        }
        DeliveryAction::Replan(refusal, reason) => {
            // The channel may have learned a lower limit from the refusal.
            let capabilities = channel.capabilities(&part.conversation);
            Some(DeliveryEvent::Replanned(replan(&part.content, &refusal, &reason, &capabilities)))
        }
        DeliveryAction::Sleep(until) => {
            let wait = tokio::time::sleep(until.saturating_duration_since(clock.now()));
            stop.run_until_cancelled(wait).await.map(|()| DeliveryEvent::TimeReached)
        }
        DeliveryAction::Probe => stop.run_until_cancelled(channel.probe()).await.map(DeliveryEvent::ProbeEnded),
        DeliveryAction::Search => {
            let search = doubt::search(delivery, part, send_request(delivery, part, &part.content, reply_to));
            stop.run_until_cancelled(search).await.transpose()?.map(DeliveryEvent::SearchEnded)
        }
    })
}

async fn send_part(
    delivery: &DeliveryContext,
    part: &Part,
    content: &PartContent,
    reply_to: Option<&MessageRef>,
) -> Result<Vec<MessageRef>, SendError> {
    let channel = &delivery.channel;
    match (content, &part.target) {
        (PartContent::Withdraw, Some(target)) => channel.delete(&part.conversation, target).await.map(|()| Vec::new()),
        (PartContent::Withdraw, None) => Ok(Vec::new()),
        (_, Some(target)) => channel.edit(target, &send_request(delivery, part, content, reply_to)).await,
        (_, None) => channel.send(&send_request(delivery, part, content, reply_to)).await,
    }
}

fn send_request(
    delivery: &DeliveryContext,
    part: &Part,
    content: &PartContent,
    reply_to: Option<&MessageRef>,
) -> SendRequest {
    SendRequest {
        part_id: part.id,
        turn: part.turn,
        conversation: part.conversation.clone(),
        content: match part.labelled {
            true => with_duplicate_label(content, delivery.channel.capabilities(&part.conversation).caption),
            false => content.clone(),
        },
        reply_to: reply_to.cloned(),
    }
}

/// A voice that can't be made. Its text is sent instead, unless the reply contains it already; the notice reports it
/// anyway.
fn fall_back_to_text(part: &Part, reason: String, capabilities: &ChannelCapabilities) -> DeliveryEvent {
    let text = match &part.content {
        PartContent::Voice { text, in_text: false, .. } => text.as_str(),
        _ => "",
    };
    // It may have been sent before, so the text may need a label.
    let chunks = crate::split::split(text, &reserve_label(&capabilities.text)).into_iter().map(PartContent::from_text);
    DeliveryEvent::NotPrepared(FailureReason::SynthesisFailed { reason }, chunks.map(PlannedPart::new).collect())
}

/// Commits a part's end together with the closing notice of its response, if something of it failed. Children that are
/// given up at once count for the notice.
async fn settle_part(
    delivery: &DeliveryContext,
    lease: &Lease,
    part: Part,
    children: Vec<PlannedPart>,
) -> Result<PartResult, LedgerError> {
    log_result(delivery, &part);
    let replacements = match children.as_slice() {
        [] => vec![part.clone()],
        children => children.iter().map(|child| as_child(&part, child)).collect(),
    };
    let notice = if replacements.iter().any(needs_notice) {
        closing_notice_after(delivery, &part, &replacements).await?
    } else {
        None
    };
    let settlement = Settlement { part: part.clone(), children, notice, rules: delivery.rules };
    let outcome = retry_until_stored(&delivery.stop, || delivery.outbox.settle_part(lease, &settlement)).await?;
    publish_part_state(delivery, &part).await;
    Ok(Some(outcome))
}

/// A child as it will be stored, as far as the notice is concerned.
fn as_child(parent: &Part, child: &PlannedPart) -> Part {
    let state = child.failure.clone().map_or(PartState::Pending, |reason| PartState::Failed { reason });
    Part { content: child.content.clone(), state, ..parent.clone() }
}

/// Returns whether a part's failure must be reported; a failed notice makes no further notice.
fn needs_notice(part: &Part) -> bool {
    matches!(part.state, PartState::Failed { .. }) && !matches!(part.content, PartContent::Notice { .. })
}

/// Returns the text of the closing notice once `part` is settled as `replacements`.
async fn closing_notice_after(
    delivery: &DeliveryContext,
    part: &Part,
    replacements: &[Part],
) -> Result<Option<String>, LedgerError> {
    let turn = delivery.archive.turn(part.turn).await?;
    // A replacement is younger than the reply. A revocation since the reply was planned applies to all of its parts.
    let creation_times = turn.iter().flat_map(|turn| &turn.parts).map(|part| part.created_at);
    let planned_at = creation_times.fold(part.created_at, Ord::min);
    let make_link: MakeLink<'_> = &|file| delivery.links.as_ref()?.create_link(&part.conversation, file.id, planned_at);
    let Some(turn) = turn else {
        return Ok(closing_notice(replacements, make_link));
    };
    let mut parts = Vec::new();
    for stored in turn.parts {
        if stored.id == part.id {
            parts.extend_from_slice(replacements);
        } else {
            parts.push(stored);
        }
    }
    Ok(closing_notice(&parts, make_link))
}

/// Logs what an operator wants to see: everything that is not simply sent.
fn log_result(delivery: &DeliveryContext, part: &Part) {
    let Part { id, conversation, turn, attempts, .. } = part;
    let (kind, channel) = (part.content.kind(), delivery.channel.name());
    match &part.state {
        PartState::Sent { .. } => {
            tracing::info!(chat.id = %conversation, turn.id = %turn, part.id = %id, part.kind = kind, attempts, "part sent");
        }
        PartState::Waiting { reason, .. } => {
            tracing::info!(part.id = %id, part.kind = kind, attempts, %channel, reason, "sending a part failed; it will be retried");
        }
        PartState::InDoubt { reason, .. } => {
            tracing::warn!(part.id = %id, part.kind = kind, attempts, %channel, reason, "part may have arrived");
        }
        PartState::Failed { reason } => {
            tracing::warn!(part.id = %id, part.kind = kind, attempts, %channel, reason = %reason, "part given up");
        }
        PartState::Pending | PartState::Sending | PartState::Replaced { .. } => {}
    }
}

async fn publish_part_state(delivery: &DeliveryContext, part: &Part) {
    let reason = match &part.state {
        PartState::Failed { reason } => Some(reason.clone()),
        _ => None,
    };
    let event = BusEvent::DeliveryPart {
        conversation: part.conversation.clone(),
        turn: part.turn,
        part: part.id,
        kind: part.content.kind().to_owned(),
        state: part.state.as_str().to_owned(),
        reason,
    };
    // Subscribers poll the ledger as well, so a failing bus only costs latency.
    if let Err(error) = delivery.bus.publish(event).await {
        tracing::debug!(error = %error, "publishing a delivery event failed");
    }
}

#[cfg(test)]
mod tests;
