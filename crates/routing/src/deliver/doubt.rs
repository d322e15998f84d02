//! A part in doubt: whether it arrived, and what is done where that can't be told.

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

/// What is known of a doubtful part once the channel was asked.
pub(super) enum Resolution {
    /// The channel can't be asked.
    Unreachable(SendError),
    /// It arrived as these messages.
    Found(Vec<MessageRef>),
    /// It did not arrive.
    Absent,
    /// It is sent again: as an edit where this is `None`, else under its key.
    Repeat(Option<RetryForm>),
    /// It is sent again with a label.
    Resend,
    /// It is given up.
    GiveUp(FailureReason),
}

/// Asks the channel about a part in doubt.
pub(super) async fn resolve(
    delivery: &DeliveryContext,
    part: &Part,
    request: SendRequest,
    key: &KeyedRetry,
) -> Result<Resolution, LedgerError> {
    let DeliveryContext { ledger, channel, rules, .. } = delivery;
    if let Err(error) = channel.probe().await {
        return Ok(Resolution::Unreachable(error));
    }
    let mut step = next_doubt_step(part, ledger.now(), rules, key.doubt);
    if step == DoubtStep::LookUp {
        let range = LookupRange::After(ledger.last_sent_before(part.id).await?);
        match look_up(&**ledger, &**channel, doubtful_send(delivery, part, request), range).await? {
            Ok(LookupOutcome::Found { messages, duplicates }) => {
                delete_duplicates(&**channel, &part.conversation, &duplicates).await;
                return Ok(Resolution::Found(messages));
            }
            Ok(LookupOutcome::Absent) => return Ok(Resolution::Absent),
            Ok(LookupOutcome::Uncertain { reason }) => {
                tracing::info!(part.id = %part.id, reason, "look-up without a result; treating the part as in doubt");
                step = doubt_step_without_match(part, rules, key.doubt);
            }
            Err(SendError::Forbidden { .. } | SendError::Refused { .. } | SendError::Unreadable { .. }) => {
                step = doubt_step_without_match(part, rules, key.doubt);
            }
            Err(error @ (SendError::NotSent { .. } | SendError::InDoubt { .. })) => {
                return Ok(Resolution::Unreachable(error));
            }
        }
    }
    Ok(match step {
        // What the key finds by the text alone is edited to the rest.
        DoubtStep::Resend | DoubtStep::GiveUp(_) if key.can_retry_text(part, ledger.now()) => {
            Resolution::Repeat(Some(RetryForm::TextOnly))
        }
        DoubtStep::GiveUp(reason) => Resolution::GiveUp(reason),
        DoubtStep::Resend => Resolution::Resend,
        DoubtStep::Repeat | DoubtStep::LookUp => Resolution::Repeat(part.target.is_none().then_some(RetryForm::Full)),
    })
}

/// Deletes earlier attempts of a part that arrived all the same, after a look-up had not found them: at once, and of what
/// has files again once the slowest upload must be through.
pub(super) async fn remove_duplicates(
    delivery: &DeliveryContext,
    part: &Part,
    request: SendRequest,
    sent: &[MessageRef],
) {
    // The last attempt is the one that is known.
    let attempts = part.attempts.saturating_sub(1);
    let earlier = DoubtfulSend { attempts, ..doubtful_send(delivery, part, request) };
    let is_upload = !part.content.files().is_empty() || matches!(part.content, PartContent::Voice { .. });
    remove_duplicates_in(delivery, earlier.clone(), LookupRange::Before(sent.to_vec())).await;
    if is_upload {
        let (delivery, late) = (delivery.clone(), LookupRange::Late(sent.to_vec()));
        tokio::spawn(async move {
            tokio::select! {
                () = delivery.stop.cancelled() => {}
                () = tokio::time::sleep(delivery.rules.late_duplicate_delay) => {
                    remove_duplicates_in(&delivery, earlier, late).await;
                }
            }
        });
    }
}

async fn remove_duplicates_in(delivery: &DeliveryContext, earlier: DoubtfulSend, range: LookupRange) {
    let (conversation, part) = (earlier.part.conversation.clone(), earlier.part.part);
    let looked_up = look_up(&*delivery.ledger, &*delivery.channel, earlier, range);
    let found = tokio::select! {
        () = delivery.stop.cancelled() => return,
        found = looked_up => found,
    };
    match found {
        Ok(Ok(LookupOutcome::Found { messages, duplicates })) => {
            delete_duplicates(&*delivery.channel, &conversation, &[messages, duplicates].concat()).await;
        }
        Ok(Ok(LookupOutcome::Absent | LookupOutcome::Uncertain { .. })) => {}
        Ok(Err(error)) => tracing::info!(part.id = %part, %error, "no look-up for late duplicates"),
        Err(error) => tracing::info!(part.id = %part, %error, "no look-up for late duplicates"),
    }
}

fn doubtful_send(delivery: &DeliveryContext, part: &Part, request: SendRequest) -> DoubtfulSend {
    let since = part.first_attempt_at.unwrap_or_else(|| delivery.ledger.now());
    DoubtfulSend { part: request, since, attempts: part.attempts }
}
