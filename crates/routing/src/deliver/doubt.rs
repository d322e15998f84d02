//! Resolves parts in doubt: whether a part arrived, and what to do if that is unknown.

use satchel_domain::{
    MessageRef, Part, PartContent,
    delivery::{DoubtStep, SendError, doubt_step_without_match, next_doubt_step},
    part::FailureReason,
};
use satchel_ports::{LedgerError, LookupOutcome, LookupRange, SendRequest};

use super::{
    DeliveryContext,
    keyed_retry::{KeyedRetry, RetryForm},
};
use crate::lookup::{DoubtfulSend, delete_duplicates, look_up};

/// The result of resolving a part in doubt.
pub(super) enum DoubtResolution {
    /// The channel can't be reached.
    Unreachable(SendError),
    /// It arrived as these messages.
    Found(Vec<MessageRef>),
    /// It did not arrive.
    Absent,
    /// It is retried: as an edit if this is `None`, else under its key.
    Retry(Option<RetryForm>),
    /// It is sent again with a label.
    Resend,
    /// It is given up.
    GiveUp(FailureReason),
}

/// Probes the channel and looks up a part in doubt.
pub(super) async fn resolve_doubt(
    delivery: &DeliveryContext,
    part: &Part,
    request: SendRequest,
    keyed_retry: &KeyedRetry,
) -> Result<DoubtResolution, LedgerError> {
    let DeliveryContext { outbox, clock, channel, rules, .. } = delivery;
    if let Err(error) = channel.probe().await {
        return Ok(DoubtResolution::Unreachable(error));
    }
    let mut step = next_doubt_step(part, clock.now(), rules, keyed_retry.doubt_rules);
    if step == DoubtStep::LookUp {
        let range = LookupRange::After(outbox.last_sent_before(part.id).await?);
        match look_up(&**outbox, &**channel, doubtful_send(delivery, part, request), range).await? {
            Ok(LookupOutcome::Found { messages, duplicates }) => {
                delete_duplicates(&**channel, &part.conversation, &duplicates).await;
                return Ok(DoubtResolution::Found(messages));
            }
            Ok(LookupOutcome::Absent) => return Ok(DoubtResolution::Absent),
            Ok(LookupOutcome::Uncertain { reason }) => {
                tracing::info!(part.id = %part.id, reason, "look-up without a result; treating the part as in doubt");
                step = doubt_step_without_match(part, rules, keyed_retry.doubt_rules);
            }
            Err(SendError::Forbidden { .. } | SendError::Refused { .. } | SendError::Unreadable { .. }) => {
                step = doubt_step_without_match(part, rules, keyed_retry.doubt_rules);
            }
            Err(error @ (SendError::NotSent { .. } | SendError::InDoubt { .. })) => {
                return Ok(DoubtResolution::Unreachable(error));
            }
        }
    }
    Ok(match step {
        // What the key finds by the text alone is edited to the rest.
        DoubtStep::Resend | DoubtStep::GiveUp(_) if keyed_retry.can_retry_text(part, clock.now()) => {
            DoubtResolution::Retry(Some(RetryForm::TextOnly))
        }
        DoubtStep::GiveUp(reason) => DoubtResolution::GiveUp(reason),
        DoubtStep::Resend => DoubtResolution::Resend,
        DoubtStep::Retry | DoubtStep::LookUp => {
            DoubtResolution::Retry(part.target.is_none().then_some(RetryForm::Full))
        }
    })
}

/// Deletes earlier attempts of a part that arrived all the same, after a look-up had not found them: at once, and of
/// what has files again once the slowest upload must be through.
pub(super) async fn remove_duplicates(
    delivery: &DeliveryContext,
    part: &Part,
    request: SendRequest,
    sent: &[MessageRef],
) {
    // The last attempt is the one that is known.
    let attempts = part.attempts.saturating_sub(1);
    let earlier_attempts = DoubtfulSend { attempts, ..doubtful_send(delivery, part, request) };
    let is_upload = !part.content.files().is_empty() || matches!(part.content, PartContent::Voice { .. });
    remove_duplicates_in(delivery, earlier_attempts.clone(), LookupRange::Before(sent.to_vec())).await;
    if is_upload {
        let (delivery, late) = (delivery.clone(), LookupRange::Late(sent.to_vec()));
        tokio::spawn(async move {
            tokio::select! {
                () = delivery.stop.cancelled() => {}
                () = tokio::time::sleep(delivery.rules.late_duplicate_delay) => {
                    remove_duplicates_in(&delivery, earlier_attempts, late).await;
                }
            }
        });
    }
}

async fn remove_duplicates_in(delivery: &DeliveryContext, send: DoubtfulSend, range: LookupRange) {
    let (conversation, part_id) = (send.part.conversation.clone(), send.part.part_id);
    let search = look_up(&*delivery.outbox, &*delivery.channel, send, range);
    let found = tokio::select! {
        () = delivery.stop.cancelled() => return,
        found = search => found,
    };
    match found {
        Ok(Ok(LookupOutcome::Found { messages, duplicates })) => {
            delete_duplicates(&*delivery.channel, &conversation, &[messages, duplicates].concat()).await;
        }
        Ok(Ok(LookupOutcome::Absent | LookupOutcome::Uncertain { .. })) => {}
        Ok(Err(error)) => tracing::info!(part.id = %part_id, %error, "no look-up for late duplicates"),
        Err(error) => tracing::info!(part.id = %part_id, %error, "no look-up for late duplicates"),
    }
}

fn doubtful_send(delivery: &DeliveryContext, part: &Part, request: SendRequest) -> DoubtfulSend {
    let since = part.first_attempt_at.unwrap_or_else(|| delivery.clock.now());
    DoubtfulSend { part: request, since, attempts: part.attempts }
}
