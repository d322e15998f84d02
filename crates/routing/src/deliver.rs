//! Performs the parts of one lane, one at a time and in order, until none is unsettled.
//!
//! What is done next is decided by [`satchel_domain::delivery`]; this loop does it, and writes down each step before
//! the next one begins, so that a death between any two lines leaves a part that is known to be unsent, known to be
//! sent, or in doubt.

mod doubt;
mod keyed_retry;
mod reply_anchor;
mod voice;

use std::sync::Arc;

use satchel_domain::{
    ChannelCapabilities, MessageRef, Part, PartContent, PartState,
    delivery::{DeliveryRules, DeliveryStep, PartEvent, Refusal, SendError, advance, next_step},
    part::{FailureReason, PlannedPart},
};
use satchel_ports::{
    Archive, Blobs, BusEvent, Channel, Clock, EventBus, FileLinks, Lease, LedgerError, Outbox, SendRequest, Speech,
    ledger::{SettleOutcome, Settlement},
};
use tokio_util::sync::CancellationToken;

use self::{
    doubt::DoubtResolution,
    keyed_retry::{KeyedRetry, RetryForm},
    reply_anchor::ReplyAnchor,
    voice::prepare_with_activity,
};
use crate::{
    label::with_duplicate_label,
    notice::{MakeLink, closing_notice},
    plan::reserve_label,
    replan::{ReplanOutcome, replan},
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

/// Does what the part's state asks for until it is settled, or the process stops while nothing is in flight.
async fn deliver_part(
    delivery: &DeliveryContext,
    lease: &Lease,
    mut part: Part,
    started_here: bool,
    reply_anchor: &mut ReplyAnchor,
) -> Result<PartResult, LedgerError> {
    let DeliveryContext { outbox, clock, rules, .. } = delivery;
    let capabilities = delivery.channel.capabilities(&part.conversation);
    let mut keyed_retry = KeyedRetry::new(&part, &capabilities);
    let reply_to = reply_anchor.reply_target(delivery, &part, capabilities.replies).await?;
    let mut must_send = started_here;
    // The form of the retry, if the next send is a retry of a send in doubt under the same key.
    let mut retry_form = None;
    let mut probes = 0;
    if part.state == PartState::Sending && !started_here {
        part = advance(&part, PartEvent::Interrupted, clock.now(), rules);
    }
    loop {
        if must_send {
            must_send = false;
            let changed_part = keyed_retry.part_to_retry(&part, retry_form);
            let response = send_part(delivery, changed_part.as_ref().unwrap_or(&part), reply_to.as_ref()).await;
            match (response, retry_form.take()) {
                (Ok(messages), Some(form)) if form == RetryForm::TextOnly || is_possibly_partial(&part) => {
                    part.target = messages.into_iter().next();
                    must_send = part.target.is_some();
                    continue;
                }
                (response, Some(form)) => {
                    if let Err(error) = &response {
                        keyed_retry.record_failure(form, error);
                    }
                    part = advance(&part, PartEvent::RetryEnded(response), clock.now(), rules);
                }
                (Err(SendError::Refused { refusal, reason }), None) => {
                    // The channel may have learned a lower limit from the refusal.
                    let capabilities = delivery.channel.capabilities(&part.conversation);
                    match replan(&part.content, &refusal, &reason, &capabilities) {
                        ReplanOutcome::Children(children) => {
                            let failure = FailureReason::Refused { reason };
                            return replace_part(delivery, lease, part, children, failure).await;
                        }
                        // As a new part: under the old key the platform would return the message that is gone.
                        ReplanOutcome::SendNew if part.target.is_some() => {
                            let replacement = vec![PlannedPart::new(part.content.clone())];
                            let detached = Part { target: None, ..part };
                            return replace_part(
                                delivery,
                                lease,
                                detached,
                                replacement,
                                FailureReason::Refused { reason },
                            )
                            .await;
                        }
                        ReplanOutcome::SendNew => {
                            return give_up_part(delivery, lease, &part, FailureReason::Refused { reason }).await;
                        }
                        ReplanOutcome::GiveUp(reason) => return give_up_part(delivery, lease, &part, reason).await,
                    }
                }
                // One file that can't be read must not take the others, or the text, with it.
                (Err(SendError::Unreadable { reason }), None) if has_more_than_one_file(&part.content) => {
                    match replan(&part.content, &Refusal::TooLarge { limit: None }, &reason, &capabilities) {
                        ReplanOutcome::Children(children) => {
                            let failure = FailureReason::Unreadable { reason };
                            return replace_part(delivery, lease, part, children, failure).await;
                        }
                        ReplanOutcome::SendNew | ReplanOutcome::GiveUp(_) => {
                            return give_up_part(delivery, lease, &part, FailureReason::Unreadable { reason }).await;
                        }
                    }
                }
                (response, None) => part = advance(&part, PartEvent::AttemptEnded(response), clock.now(), rules),
            }
            if part.state.is_settled() {
                if let (true, PartState::Sent { messages }) = (part.searched, &part.state) {
                    let request = send_request(delivery, &part, reply_to.as_ref());
                    doubt::remove_duplicates(delivery, &part, request, messages).await;
                }
                reply_anchor.record_sent(&part);
                return settle_part(delivery, lease, part, Vec::new(), None).await;
            }
            log_result(delivery, &part);
            retry_until_stored(&delivery.stop, || outbox.save_part(lease, &part)).await?;
            publish_part_state(delivery, &part).await;
            continue;
        }
        match next_step(&part, clock.now(), rules) {
            DeliveryStep::Done => return settle_part(delivery, lease, part, Vec::new(), None).await,
            DeliveryStep::GiveUp(reason) => return give_up_part(delivery, lease, &part, reason).await,
            DeliveryStep::Wait(until) => {
                let sleep = tokio::time::sleep(until.saturating_duration_since(clock.now()));
                tokio::select! {
                    () = delivery.stop.cancelled() => return Ok(None),
                    () = sleep => {}
                }
            }
            DeliveryStep::Prepare => match prepare_with_activity(delivery, &part).await {
                Ok(prepared) => {
                    part.content = prepared;
                    outbox.save_part(lease, &part).await?;
                }
                Err(reason) => return fall_back_to_text(delivery, lease, part, reason, &capabilities).await,
            },
            DeliveryStep::Start => {
                part = start_part(delivery, lease, &part).await?;
                must_send = true;
            }
            DeliveryStep::Probe => {
                let request = send_request(delivery, &part, reply_to.as_ref());
                let resolution = tokio::select! {
                    () = delivery.stop.cancelled() => return Ok(None),
                    resolution = doubt::resolve_doubt(delivery, &part, request, &keyed_retry) => resolution?,
                };
                match resolution {
                    DoubtResolution::Unreachable(error) => {
                        // Nothing to store: the part is in doubt already, and a restart would probe again.
                        probes += 1;
                        let unreachable = PartEvent::StillUnreachable { error, probes };
                        part = advance(&part, unreachable, clock.now(), rules);
                        continue;
                    }
                    DoubtResolution::Found(messages) if is_possibly_partial(&part) => {
                        part.target = messages.into_iter().next();
                        part = start_part(delivery, lease, &part).await?;
                    }
                    DoubtResolution::Found(messages) => {
                        part = advance(&part, PartEvent::Found(messages), clock.now(), rules);
                        reply_anchor.record_sent(&part);
                        return settle_part(delivery, lease, part, Vec::new(), None).await;
                    }
                    DoubtResolution::Absent => {
                        part = advance(&part, PartEvent::Absent, clock.now(), rules);
                        part = start_part(delivery, lease, &part).await?;
                    }
                    DoubtResolution::Retry(form) => {
                        retry_form = form;
                        part = start_part(delivery, lease, &part).await?;
                    }
                    DoubtResolution::Resend => {
                        part = advance(&part, PartEvent::Relabelled, clock.now(), rules);
                        outbox.save_part(lease, &part).await?;
                        publish_part_state(delivery, &part).await;
                        continue;
                    }
                    DoubtResolution::GiveUp(reason) => return give_up_part(delivery, lease, &part, reason).await,
                }
                must_send = true;
            }
        }
    }
}

/// Whether the message that a key or a look-up finds may show less than the part: what had been streamed by then.
fn is_possibly_partial(part: &Part) -> bool {
    part.streamed && matches!(part.content, PartContent::Text { .. })
}

/// Commits a part as started. From here on it may have arrived.
async fn start_part(delivery: &DeliveryContext, lease: &Lease, part: &Part) -> Result<Part, LedgerError> {
    let started = advance(part, PartEvent::Started, delivery.clock.now(), &delivery.rules);
    delivery.outbox.save_part(lease, &started).await?;
    Ok(started)
}

async fn send_part(
    delivery: &DeliveryContext,
    part: &Part,
    reply_to: Option<&MessageRef>,
) -> Result<Vec<MessageRef>, SendError> {
    let channel = &delivery.channel;
    match (&part.content, &part.target) {
        (PartContent::Withdraw, Some(target)) => channel.delete(&part.conversation, target).await.map(|()| Vec::new()),
        (PartContent::Withdraw, None) => Ok(Vec::new()),
        (_, Some(target)) => channel.edit(target, &send_request(delivery, part, reply_to)).await,
        (_, None) => channel.send(&send_request(delivery, part, reply_to)).await,
    }
}

fn send_request(delivery: &DeliveryContext, part: &Part, reply_to: Option<&MessageRef>) -> SendRequest {
    SendRequest {
        part_id: part.id,
        turn: part.turn,
        conversation: part.conversation.clone(),
        content: match part.labelled {
            true => with_duplicate_label(&part.content, delivery.channel.capabilities(&part.conversation).caption),
            false => part.content.clone(),
        },
        reply_to: reply_to.cloned(),
    }
}

fn has_more_than_one_file(content: &PartContent) -> bool {
    match content {
        PartContent::Text { files, .. } => !files.is_empty(),
        PartContent::Album { .. } => true,
        _ => false,
    }
}

/// Gives up a voice message. Its text is sent instead, unless the reply contains it already; the notice reports it
/// anyway.
async fn fall_back_to_text(
    delivery: &DeliveryContext,
    lease: &Lease,
    part: Part,
    reason: String,
    capabilities: &ChannelCapabilities,
) -> Result<PartResult, LedgerError> {
    let failure = FailureReason::SynthesisFailed { reason };
    match &part.content {
        PartContent::Voice { text, in_text: false, .. } => {
            // It may have been sent before, so the text may need a label.
            let limit = reserve_label(&capabilities.text);
            let chunks = crate::split::split(text, &limit).into_iter().map(PartContent::from_text);
            replace_part(delivery, lease, part, chunks.map(PlannedPart::new).collect(), failure).await
        }
        _ => give_up_part(delivery, lease, &part, failure).await,
    }
}

async fn give_up_part(
    delivery: &DeliveryContext,
    lease: &Lease,
    part: &Part,
    reason: FailureReason,
) -> Result<PartResult, LedgerError> {
    let failed = advance(part, PartEvent::GivenUp(reason), delivery.clock.now(), &delivery.rules);
    settle_part(delivery, lease, failed, Vec::new(), None).await
}

/// Settles a part whose place others take, for the reason that it can't be sent as it is. A voice of which only the
/// words are left is told as given up. Children that are given up at once count for the notice.
async fn replace_part(
    delivery: &DeliveryContext,
    lease: &Lease,
    part: Part,
    mut children: Vec<PlannedPart>,
    reason: FailureReason,
) -> Result<PartResult, LedgerError> {
    let is_voice = |content: &PartContent| matches!(content, PartContent::Voice { .. });
    if is_voice(&part.content) && !children.iter().any(|child| is_voice(&child.content)) {
        children.push(PlannedPart { content: part.content.clone(), failure: Some(reason) });
    }
    let mut child_parts = Vec::new();
    for child in &children {
        let state = match &child.failure {
            Some(reason) => PartState::Failed { reason: reason.clone() },
            None => PartState::Pending,
        };
        child_parts.push(Part { content: child.content.clone(), state, ..part.clone() });
    }
    let replaced = advance(&part, PartEvent::Replaced(Vec::new()), delivery.clock.now(), &delivery.rules);
    settle_part(delivery, lease, replaced, children, Some(child_parts)).await
}

/// Commits a part's end together with the closing notice of its response, if something of it failed.
async fn settle_part(
    delivery: &DeliveryContext,
    lease: &Lease,
    part: Part,
    children: Vec<PlannedPart>,
    replacements: Option<Vec<Part>>,
) -> Result<PartResult, LedgerError> {
    log_result(delivery, &part);
    let replacements = replacements.unwrap_or_else(|| vec![part.clone()]);
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
