//! Performs the parts of one lane, one at a time and in order, until none is left to deliver.
//!
//! What is done next is decided by [`satchel_domain::delivery`]; this loop does it, and writes down each step before
//! the next one begins, so that a death between any two lines leaves a part that is known to be unsent, known to be
//! sent, or in doubt.

mod doubt;
mod reply_anchor;
mod voice;

use std::sync::Arc;

use satchel_domain::{
    ChannelCapabilities, MessageRef, Part, PartContent, PartState,
    delivery::{Continuation, Delivery, DeliveryAction, DeliveryEffect, DeliveryEvent, DeliveryRules, SendError},
    part::{FailureReason, PlannedPart},
};
use satchel_ports::{
    Archive, Blobs, BusEvent, Channel, Clock, EventBus, FileLinks, Lease, LedgerError, Outbox, SendRequest, Speech,
    ledger::{OutboxQuery, SettleOutcome, Settlement},
};
use tokio_util::sync::CancellationToken;

use self::{reply_anchor::ReplyAnchor, voice::prepare_with_activity};
use crate::{
    label::with_duplicate_label,
    notice::{MakeLink, closing_notice},
    plan::reserve_label,
    replan::replan,
    retry::retry_until_stored,
    split::split,
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
    /// Cancelled when the process stops: the part in flight is finished, the rest stays in the ledger.
    pub stop: CancellationToken,
}

/// How a lane was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliverOutcome {
    /// Nothing is left to deliver; the caller still holds the lane.
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

/// What follows a part that was settled or stands open; `None` when the process stops and nothing of it is in flight.
type PartResult = Option<SettleOutcome>;

/// Delivers all parts of the lane.
///
/// # Errors
/// When the ledger fails or the lane is lost. Whatever a channel does is no error: the part is tried again, replaced
/// or given up.
pub async fn deliver(
    context: &DeliveryContext,
    lease: &Lease,
    start: DeliveryStart,
) -> Result<DeliverOutcome, LedgerError> {
    let is_taken_over = start == DeliveryStart::TakenOver;
    let mut next = match start {
        DeliveryStart::Started(part) => Some(part),
        DeliveryStart::TakenOver | DeliveryStart::Planned => context.outbox.next_part(lease).await?,
    };
    let is_started = |part: &Part| part.state == PartState::Sending;
    let mut started_here = next.as_ref().is_some_and(is_started) && !is_taken_over;
    let mut reply_anchor = ReplyAnchor::default();
    while let Some(part) = next {
        if context.stop.is_cancelled() {
            if started_here {
                revert_start(context, lease, part).await?;
            }
            return Ok(DeliverOutcome::Stopped);
        }
        let outcome = match deliver_part(context, lease, part, started_here, &mut reply_anchor).await {
            Ok(Some(outcome)) => outcome,
            Ok(None) => return Ok(DeliverOutcome::Stopped),
            // An operator discarded it meanwhile, or nobody needs its answer any more.
            Err(LedgerError::AlreadySettled(_)) => next_without_settlement(context, lease).await?,
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

/// What follows a part that this delivery has not settled itself.
async fn next_without_settlement(context: &DeliveryContext, lease: &Lease) -> Result<SettleOutcome, LedgerError> {
    Ok(SettleOutcome { next: context.outbox.next_part(lease).await?, released: false })
}

/// Reverts a started part of which no byte was sent, so that it does not become in doubt.
async fn revert_start(context: &DeliveryContext, lease: &Lease, part: Part) -> Result<(), LedgerError> {
    let attempts = part.attempts.saturating_sub(1);
    let first_attempt_at = part.first_attempt_at.filter(|_| attempts > 0);
    let reverted = Part { state: PartState::Pending, attempts, first_attempt_at, ..part };
    context.outbox.save_part(lease, &reverted).await
}

/// Does what the delivery asks for until the part is settled, or the process stops while nothing is in flight.
async fn deliver_part(
    context: &DeliveryContext,
    lease: &Lease,
    part: Part,
    started_here: bool,
    reply_anchor: &mut ReplyAnchor,
) -> Result<PartResult, LedgerError> {
    let DeliveryContext { outbox, clock, stop, rules, .. } = context;
    let capabilities = context.channel.capabilities(&part.conversation);
    let reply_to = reply_anchor.reply_target(context, &part, capabilities.replies).await?;
    let (mut delivery, mut plan) = Delivery::resume(part, started_here, &capabilities, clock.now(), *rules);
    loop {
        let (effects, continuation) = plan;
        for effect in effects {
            let part = delivery.part();
            match effect {
                DeliveryEffect::Save => outbox.save_part(lease, part).await?,
                DeliveryEffect::Record => {
                    log_result(context, part);
                    retry_until_stored(stop, || outbox.save_part(lease, part)).await?;
                    publish_part_state(context, part).await;
                }
                DeliveryEffect::Publish => publish_part_state(context, part).await,
                DeliveryEffect::RemoveDuplicates => {
                    let request = send_request(context, part, &part.content, reply_to.as_ref());
                    doubt::remove_duplicates(context, part, request).await;
                }
            }
        }
        let event = match continuation {
            Continuation::Perform(action) => perform(context, &delivery, action, reply_to.as_ref()).await?,
            Continuation::Rest => return next_without_settlement(context, lease).await.map(Some),
            Continuation::Settle => {
                let part = delivery.into_part();
                reply_anchor.record_sent(&part);
                return settle_part(context, lease, part, Vec::new()).await;
            }
            Continuation::Replace(children) => {
                return settle_part(context, lease, delivery.into_part(), children).await;
            }
        };
        let Some(event) = event else { return Ok(None) };
        plan = delivery.on(event, clock.now());
    }
}

/// Performs one action; `None` when the process stops before it has ended and nothing is in flight.
async fn perform(
    context: &DeliveryContext,
    delivery: &Delivery,
    action: DeliveryAction,
    reply_to: Option<&MessageRef>,
) -> Result<Option<DeliveryEvent>, LedgerError> {
    let DeliveryContext { channel, clock, stop, .. } = context;
    let part = delivery.part();
    // Read anew for each action: a refusal may have taught the channel a lower limit.
    let capabilities = || channel.capabilities(&part.conversation);
    Ok(match action {
        DeliveryAction::Prepare => Some(match prepare_with_activity(context, part).await {
            Ok(prepared) => DeliveryEvent::Prepared(Box::new(prepared)),
            Err(reason) => {
                let failure = FailureReason::SynthesisFailed { reason };
                DeliveryEvent::NotPrepared(failure, plan_unspoken_text(&part.content, &capabilities()))
            }
        }),
        DeliveryAction::Call(attempt) => {
            let answer = send_part(context, part, delivery.content(attempt), reply_to).await;
            Some(DeliveryEvent::Answered(attempt, answer))
        }
        DeliveryAction::Replan(refusal, failure) => {
            let outcome = replan(&part.content, &refusal, &failure, &capabilities());
            Some(DeliveryEvent::Replanned(outcome, failure))
        }
        DeliveryAction::Sleep(until) => {
            let wait = tokio::time::sleep(until.saturating_duration_since(clock.now()));
            match stop.run_until_cancelled(wait).await {
                Some(()) => Some(after_sleep(context, part).await?),
                None => None,
            }
        }
        DeliveryAction::Probe => stop.run_until_cancelled(channel.probe()).await.map(DeliveryEvent::ProbeEnded),
        DeliveryAction::Search => {
            let search = doubt::search(context, part, send_request(context, part, &part.content, reply_to));
            stop.run_until_cancelled(search).await.transpose()?.map(DeliveryEvent::SearchEnded)
        }
    })
}

/// The end of a wait. Meanwhile a question may have been closed, and is not sent any more.
async fn after_sleep(context: &DeliveryContext, part: &Part) -> Result<DeliveryEvent, LedgerError> {
    if part.question.is_none() {
        return Ok(DeliveryEvent::TimeReached);
    }
    let stored = context.archive.parts(&OutboxQuery { part: Some(part.id), ..OutboxQuery::default() }).await?;
    let closing = stored.into_iter().find_map(|stored| stored.question?.closing);
    Ok(closing.map_or(DeliveryEvent::TimeReached, DeliveryEvent::QuestionClosed))
}

async fn send_part(
    context: &DeliveryContext,
    part: &Part,
    content: &PartContent,
    reply_to: Option<&MessageRef>,
) -> Result<Vec<MessageRef>, SendError> {
    let channel = &context.channel;
    match (content, &part.target) {
        (PartContent::Withdraw, Some(target)) => channel.delete(&part.conversation, target).await.map(|()| Vec::new()),
        (PartContent::Withdraw, None) => Ok(Vec::new()),
        (_, Some(target)) => channel.edit(target, &send_request(context, part, content, reply_to)).await,
        (_, None) => channel.send(&send_request(context, part, content, reply_to)).await,
    }
}

fn send_request(
    context: &DeliveryContext,
    part: &Part,
    content: &PartContent,
    reply_to: Option<&MessageRef>,
) -> SendRequest {
    SendRequest {
        part_id: part.id,
        turn: part.turn,
        conversation: part.conversation.clone(),
        content: match part.labelled {
            true => with_duplicate_label(content, context.channel.capabilities(&part.conversation).caption),
            false => content.clone(),
        },
        reply_to: reply_to.cloned(),
    }
}

/// Plans the text of a voice that can't be made, unless the reply contains it already.
fn plan_unspoken_text(content: &PartContent, capabilities: &ChannelCapabilities) -> Vec<PlannedPart> {
    let PartContent::Voice { text, in_text: false, .. } = content else { return Vec::new() };
    // It may have been sent before, so the text may need a label.
    let chunks = split(text, &reserve_label(&capabilities.text));
    chunks.into_iter().map(|chunk| PlannedPart::new(PartContent::from_text(chunk))).collect()
}

/// Commits a part's end together with the closing notice of its response, if something of it failed. Children that are
/// given up at once count for the notice.
async fn settle_part(
    context: &DeliveryContext,
    lease: &Lease,
    part: Part,
    children: Vec<PlannedPart>,
) -> Result<PartResult, LedgerError> {
    log_result(context, &part);
    let replacements = match children.as_slice() {
        [] => vec![part.clone()],
        children => children.iter().map(|child| child_part(&part, child)).collect(),
    };
    let notice = if replacements.iter().any(needs_notice) {
        closing_notice_after(context, &part, &replacements).await?
    } else {
        None
    };
    let settlement = Settlement { part: part.clone(), children, notice, rules: context.rules };
    let outcome = retry_until_stored(&context.stop, || context.outbox.settle_part(lease, &settlement)).await?;
    publish_part_state(context, &part).await;
    Ok(Some(outcome))
}

/// Makes a child as it will be stored, as far as the notice is concerned.
fn child_part(parent: &Part, child: &PlannedPart) -> Part {
    let state = child.failure.clone().map_or(PartState::Pending, |reason| PartState::Failed { reason });
    Part { content: child.content.clone(), state, ..parent.clone() }
}

/// Returns whether a part's failure must be reported; a failed notice makes no further notice, and of a question the
/// call's outcome reports it.
fn needs_notice(part: &Part) -> bool {
    let is_failed = matches!(part.state, PartState::Failed { .. });
    is_failed && part.question.is_none() && !matches!(part.content, PartContent::Notice { .. })
}

/// Returns the text of the closing notice once `part` is settled as `replacements`.
async fn closing_notice_after(
    context: &DeliveryContext,
    part: &Part,
    replacements: &[Part],
) -> Result<Option<String>, LedgerError> {
    let turn = context.archive.turn(part.turn).await?;
    // A replacement is younger than the reply. A revocation since the reply was planned applies to all of its parts.
    let reply = turn.iter().flat_map(|turn| &turn.parts).filter(|part| part.question.is_none());
    let creation_times = reply.map(|part| part.created_at);
    let planned_at = creation_times.fold(part.created_at, Ord::min);
    let make_link: MakeLink<'_> = &|file| context.links.as_ref()?.create_link(&part.conversation, file.id, planned_at);
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
fn log_result(context: &DeliveryContext, part: &Part) {
    let Part { id, conversation, turn, attempts, .. } = part;
    let (kind, channel) = (part.content.kind(), context.channel.name());
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
        PartState::Open { .. } => {
            tracing::info!(chat.id = %conversation, turn.id = %turn, part.id = %id, part.kind = kind, attempts, "question asked");
        }
        PartState::Failed { reason: FailureReason::NotNeeded } => {
            tracing::info!(part.id = %id, part.kind = kind, attempts, "question closed before it was sent");
        }
        PartState::Failed { reason } => {
            tracing::warn!(part.id = %id, part.kind = kind, attempts, %channel, reason = %reason, "part given up");
        }
        PartState::Pending | PartState::Sending | PartState::Replaced { .. } => {}
    }
}

async fn publish_part_state(context: &DeliveryContext, part: &Part) {
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
    if let Err(error) = context.bus.publish(event).await {
        tracing::debug!(error = %error, "publishing a delivery event failed");
    }
}

#[cfg(test)]
mod tests;
