//! One part on its way: performs what its delivery asks for until it is settled or stands open.

use std::{collections::HashMap, slice};

use satchel_domain::{
    Attachment, AttachmentId, ChannelCapabilities, MessageRef, Part, PartContent, PartState,
    delivery::{
        Continuation, Delivery, DeliveryAction, DeliveryEffect, DeliveryEvent, ReplanOutcome, SearchResult, SendError,
    },
    part::{FailureReason, Operation, PlannedPart},
};
use satchel_ports::{
    Lease, LedgerError, PostRequest,
    ledger::{OutboxQuery, SettleOutcome, Settlement},
};

use super::{
    DeliveryContext, DeliveryRequests,
    account::await_account,
    doubt,
    reply_anchor::ReplyAnchor,
    report::{log_result, publish_part_state},
    voice::prepare_with_activity,
};
use crate::{
    label::with_duplicate_label,
    notice::{MakeLink, closing_notice},
    plan::reserve_label,
    replan::replan,
    retry::retry_until_stored,
    split::split,
};

/// How the delivery of a part ended.
pub(super) enum PartEnd {
    Settled(Box<SettleOutcome>),
    /// It is a question that stands.
    Open,
    /// The process stops, and nothing of it is in flight.
    Stopped,
}

/// Does what the delivery asks for until the part is settled, or the process stops while nothing is in flight.
pub(super) async fn deliver_part(
    context: &DeliveryContext,
    lease: &Lease,
    requests: &DeliveryRequests,
    part: Part,
    started_here: bool,
    reply_anchor: &mut ReplyAnchor,
) -> Result<PartEnd, LedgerError> {
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
                    if let Some(content) = part.content() {
                        let request = part_request(context, part, content, reply_to.as_ref());
                        doubt::remove_duplicates(context, part, request).await;
                    }
                }
            }
        }
        let event = match continuation {
            Continuation::Perform(action) => perform(context, requests, &delivery, action, reply_to.as_ref()).await?,
            Continuation::Rest => return Ok(PartEnd::Open),
            Continuation::Settle => {
                let part = delivery.into_part();
                reply_anchor.record_sent(&part);
                return settle_part(context, lease, part, Vec::new()).await;
            }
            Continuation::Replace(children) => {
                return settle_part(context, lease, delivery.into_part(), children).await;
            }
        };
        let Some(event) = event else { return Ok(PartEnd::Stopped) };
        plan = delivery.on(event, clock.now());
    }
}

/// Performs one action; `None` when the process stops before it has ended and nothing is in flight.
async fn perform(
    context: &DeliveryContext,
    requests: &DeliveryRequests,
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
                DeliveryEvent::NotPrepared(failure, plan_unspoken_text(part.content(), &capabilities()))
            }
        }),
        DeliveryAction::Call(attempt) => {
            let answer = perform_operation(context, part, delivery.operation(attempt), reply_to).await;
            Some(DeliveryEvent::Answered(attempt, answer))
        }
        DeliveryAction::Replan(refusal, failure) => {
            let outcome = match part.content() {
                Some(content) => replan(content, &refusal, &failure, &capabilities()),
                None => ReplanOutcome::GiveUp(failure.clone()),
            };
            Some(DeliveryEvent::Replanned(outcome, failure))
        }
        DeliveryAction::Sleep(until) => {
            let wait = tokio::time::sleep(until.saturating_duration_since(clock.now()));
            match stop.run_until_cancelled(wait).await {
                Some(()) => Some(after_sleep(context, part).await?),
                None => None,
            }
        }
        DeliveryAction::AwaitAccount(until) => match await_account(context, requests, until).await {
            Some(()) => Some(after_sleep(context, part).await?),
            None => None,
        },
        DeliveryAction::Probe => stop.run_until_cancelled(channel.probe()).await.map(DeliveryEvent::ProbeEnded),
        DeliveryAction::Search => {
            let Some(content) = part.content() else {
                return Ok(Some(DeliveryEvent::SearchEnded(Ok(SearchResult::Uncertain))));
            };
            let search = doubt::search(context, part, part_request(context, part, content, reply_to));
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

async fn perform_operation(
    context: &DeliveryContext,
    part: &Part,
    operation: &Operation,
    reply_to: Option<&MessageRef>,
) -> Result<Vec<MessageRef>, SendError> {
    let channel = &context.channel;
    let request = |content| part_request(context, part, content, reply_to);
    match operation {
        Operation::Post { content } => channel.post(&request(content)).await,
        Operation::Edit { message, content } => channel.edit(message, &request(content)).await,
        Operation::Delete { message } => channel.delete(&part.conversation, message).await.map(|()| Vec::new()),
    }
}

fn part_request(
    context: &DeliveryContext,
    part: &Part,
    content: &PartContent,
    reply_to: Option<&MessageRef>,
) -> PostRequest {
    PostRequest {
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
fn plan_unspoken_text(content: Option<&PartContent>, capabilities: &ChannelCapabilities) -> Vec<PlannedPart> {
    let Some(PartContent::Voice { text, in_text: false, .. }) = content else { return Vec::new() };
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
) -> Result<PartEnd, LedgerError> {
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
    Ok(PartEnd::Settled(Box::new(outcome)))
}

/// Makes a child as it will be stored, as far as the notice is concerned.
fn child_part(parent: &Part, child: &PlannedPart) -> Part {
    let state = child.failure.clone().map_or(PartState::Pending, |reason| PartState::Failed { reason });
    let operation = Operation::Post { content: child.content.clone() };
    Part { operation, state, ..parent.clone() }
}

/// Returns whether a part's failure must be reported; a failed notice makes no further notice, a deletion loses nothing,
/// and of a question the call's outcome reports it.
fn needs_notice(part: &Part) -> bool {
    let is_failed = matches!(part.state, PartState::Failed { .. });
    is_failed && part.question.is_none() && part.content().is_some() && !part.is_notice()
}

/// Returns the text of the closing notice once `part` is settled as `replacements`.
async fn closing_notice_after(
    context: &DeliveryContext,
    part: &Part,
    replacements: &[Part],
) -> Result<Option<String>, LedgerError> {
    let turn = context.archive.turn(part.turn).await?;
    let stored_files = turn.iter().flat_map(|turn| &turn.parts).filter_map(Part::content).flat_map(PartContent::files);
    // Links may have been revoked since the part was read, which can be hours ago.
    let records: HashMap<AttachmentId, &Attachment> =
        stored_files.map(|item| (item.attachment.id, &item.attachment)).collect();
    let make_link: MakeLink<'_> = &|file| {
        let record = records.get(&file.id).copied().unwrap_or(file);
        context.links.as_ref()?.create_link(record)
    };
    let Some(turn) = &turn else {
        return Ok(closing_notice(replacements, make_link));
    };
    let mut parts = Vec::new();
    for stored in &turn.parts {
        parts.extend_from_slice(if stored.id == part.id { replacements } else { slice::from_ref(stored) });
    }
    Ok(closing_notice(&parts, make_link))
}

/// Reverts a started part of which no byte was sent, so that it does not become in doubt.
pub(super) async fn revert_start(context: &DeliveryContext, lease: &Lease, mut part: Part) -> Result<(), LedgerError> {
    part.revert_start();
    context.outbox.save_part(lease, &Part { state: PartState::Pending, ..part }).await
}
